"""Gold answers in parts, and passages that give them away."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from ragwright.core import Row
from ragwright.testsets import GoldAnswer, LeakCheck, gold_answer


def test_a_reference_with_further_wordings_is_one_part() -> None:
    row = Row("1", "q", reference="15,000 km", metadata={"references": ("15.000 km", "15,000 km")})
    gold = gold_answer(row)
    assert gold == GoldAnswer((("15,000 km", "15.000 km"),))
    assert gold is not None
    assert gold.held("Every 15000 km.") == (True,)  # punctuation is taken out, as by Contains


def test_parts_are_read_back_from_what_they_write() -> None:
    gold = GoldAnswer((("two years", "24 months"), ("Rollo",)), "fr")
    row = Row("1", "q", reference=gold.text, metadata=gold.metadata())
    assert gold_answer(row) == gold
    assert gold.text == "two years; Rollo"
    assert gold.held("After 24 months, said Rollo.") == (True, True)
    assert gold.held("Rollo did.") == (False, True)


def test_without_a_reference_there_is_no_gold() -> None:
    assert gold_answer(Row("1", "q")) is None
    assert gold_answer(Row("1", "q", metadata={"part_1": ("a",), "part_2": ()})) is None


@pytest.mark.parametrize(
    ("answer", "passage"),
    [
        ("two years", "It lasts two years."),
        ("two years", "It lasts 2 years."),
        ("2 years", "After two long years"),  # content words in any order
        ("May 12, 2004", "on 12 May 2004"),
        ("15,000 kilometres", "15000 kilometres"),
        ("Tampa, Florida", "A stadium in Florida; Tampa has it."),
        ("12人", "造成至少12人死亡"),
        (
            "the accelerator pedal sensor reports two positions",
            "the pedal sensor, an accelerator sensor, reported its positions",
        ),
    ],
)
def test_what_gives_an_answer_away(answer: str, passage: str) -> None:
    language = "en" if passage.isascii() else "zh"
    assert LeakCheck(GoldAnswer(((answer,),), language)).leaks(passage)


@pytest.mark.parametrize(
    ("answer", "passage"),
    [
        ("70", "共有170个议席"),
        ("two years", "It lasts five years."),
        ("Rollo", "Rolland came first."),
    ],
)
def test_what_does_not(answer: str, passage: str) -> None:
    language = "en" if passage.isascii() else "zh"
    assert not LeakCheck(GoldAnswer(((answer,),), language)).leaks(passage)


@pytest.mark.parametrize("answer", ["the", "?!", "is it"])
def test_an_answer_without_content_cannot_be_checked(answer: str) -> None:
    assert not LeakCheck(GoldAnswer(((answer,),))).possible
    assert not LeakCheck(GoldAnswer((("Rollo",), (answer,)))).possible
    assert LeakCheck(GoldAnswer((("Rollo", answer),))).possible


WORDS = st.lists(
    st.sampled_from(
        ["oil", "filter", "brake", "fluid", "two", "years", "15,000", "km", "Rollo", "red"]
    ),
    max_size=12,
)


@pytest.mark.slow
@given(before=WORDS, answer=WORDS, after=WORDS)
def test_a_passage_that_holds_the_answer_always_leaks(
    before: list[str], answer: list[str], after: list[str]
) -> None:
    gold = GoldAnswer(((" ".join(answer),),))
    check = LeakCheck(gold)
    text = " ".join(before + answer + after)
    if check.possible:
        assert gold.held(text) == (True,)
        assert check.leaks(text)
