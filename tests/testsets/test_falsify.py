"""False passages: another date, number, code or name for the true one; gold answers that leak."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from ragwright.core import Row
from ragwright.testsets import GoldAnswer, Kind, LeakCheck, entities, falsify, gold_answer, kind_of

TEXTS = (
    "On 3 March 1999 the plant in Lyon opened. It made 12,500 parts in 2001, and 3 in 2002.",
    "Since May 2010 the sensor APP_w304 has been made by Anna Keller in the 9th building.",
    "The 11th line was closed by Paul Weber on June 7, 2015; its code was BRK_12.",
)
Known = Mapping[Kind, Sequence[str]]
KNOWN: Known = {
    "date": ["3 March 1999", "June 7, 2015", "May 2010"],
    "year": ["2001", "2002"],
    "number": ["12,500", "3"],
    "ordinal": ["11th", "9th"],
    "code": ["APP_w304", "BRK_12"],
    "name": ["Anna Keller", "Lyon", "Paul Weber"],  # no sentence's first word
}


@pytest.mark.parametrize(
    ("answer", "found"),
    [
        ("3 March 1999", ("date", "3 March 1999")),
        ("in May 2010", ("date", "May 2010")),
        ("1999", ("year", "1999")),
        ("12,500 parts", ("number", "12,500")),
        ("3.5", ("number", "3.5")),
        ("APP_w304", ("code", "APP_w304")),
        ("10th century", ("ordinal", "10th")),
        ("Anna Keller", ("name", "Anna Keller")),
        ("1月3日", ("date", "1月3日")),
        *((text, None) for text in ("the red one", "10th and 11th centuries", "3 to 5 km", "")),
    ],
)
def test_kinds_of_what_can_be_replaced(answer: str, found: tuple[str, str] | None) -> None:
    assert kind_of(answer) == found
    assert entities(TEXTS) == KNOWN


@pytest.mark.parametrize(
    ("parts", "passage", "known", "made"),
    [
        # a number keeps its unit and gets one of its form
        (
            [("12,500 parts",)],
            "It made 12,500 parts.",
            {"number": ["3", "18,250", "7"]},
            "18,250 parts",
        ),
        # what stands in the passage already is no false answer
        ([("1999",)], "In 1999 and in 2001.", {"year": ["1999", "2001"]}, None),
        ([("2001",)], "Nothing of it here.", KNOWN, None),
        ([("2001",), ("2002",)], "2001 and 2002", KNOWN, None),
        ([("2001",)], "In 2001.", {}, None),
        # the number as a word would stay behind
        ([("2 km", "two km")], "2 km, two km", {"number": []}, None),
    ],
)
def test_what_can_be_falsified(
    parts: list[tuple[str, ...]],
    passage: str,
    known: Mapping[Kind, Sequence[str]],
    made: str | None,
) -> None:
    due = made and (made, passage.replace(parts[0][0], made))
    assert falsify(GoldAnswer(tuple(parts)), passage, known, "") == due


def test_every_occurrence_and_every_wording_is_replaced() -> None:
    gold = GoldAnswer((("Anna Keller", "Keller"),))
    passage = "Anna Keller made it. Keller was praised; Kellers shop was not."
    fake, text = falsify(gold, passage, KNOWN, "seed") or ("", "")
    assert fake in ("Paul Weber", "Lyon")
    assert text == f"{fake} made it. {fake} was praised; Kellers shop was not."


# -- Gold answers in parts, and passages that give them away ---------------------------------------


def test_gold_answers_are_read_back_from_what_they_write() -> None:
    row = Row("1", "q", reference="15,000 km", metadata={"references": ("15.000 km", "15,000 km")})
    gold = gold_answer(row)
    assert gold == GoldAnswer((("15,000 km", "15.000 km"),))
    assert gold is not None
    assert gold.held("Every 15000 km.") == (True,)  # punctuation is taken out, as by Contains
    gold = GoldAnswer((("two years", "24 months"), ("Rollo",)), "fr")
    assert gold_answer(Row("1", "q", reference=gold.text, metadata=gold.metadata())) == gold
    assert gold.text == "two years; Rollo"
    assert gold.held("After 24 months, said Rollo.") == (True, True)
    assert gold.held("Rollo did.") == (False, True)
    assert gold_answer(Row("1", "q")) is None
    assert gold_answer(Row("1", "q", metadata={"part_1": ("a",), "part_2": ()})) is None


PEDAL = "the accelerator pedal sensor reports two positions"
ALIKE = "the pedal sensor, an accelerator sensor, reported its positions"


@pytest.mark.parametrize(
    ("answer", "passage", "leaks"),
    [
        ("two years", "It lasts two years.", True),
        ("two years", "It lasts 2 years.", True),
        ("2 years", "After two long years", True),  # content words in any order
        ("May 12, 2004", "on 12 May 2004", True),
        ("15,000 kilometres", "15000 kilometres", True),
        ("Tampa, Florida", "A stadium in Florida; Tampa has it.", True),
        ("12人", "造成至少12人死亡", True),
        (PEDAL, ALIKE, True),
        ("70", "共有170个议席", False),
        ("two years", "It lasts five years.", False),
        ("Rollo", "Rolland came first.", False),
    ],
)
def test_what_gives_an_answer_away(answer: str, passage: str, leaks: bool) -> None:
    language = "en" if passage.isascii() else "zh"
    assert LeakCheck(GoldAnswer(((answer,),), language)).leaks(passage) == leaks


@pytest.mark.parametrize("answer", ["the", "?!", "is it"])
def test_an_answer_without_content_cannot_be_checked(answer: str) -> None:
    assert not LeakCheck(GoldAnswer(((answer,),))).possible
    assert not LeakCheck(GoldAnswer((("Rollo",), (answer,)))).possible
    assert LeakCheck(GoldAnswer((("Rollo", answer),))).possible
