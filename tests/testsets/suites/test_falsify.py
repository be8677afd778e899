"""False passages: another date, number, code or name in the place of the true one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given, strategies as st

from ragwright.testsets import GoldAnswer, entities, falsify
from ragwright.testsets.suites import Kind, kind_of

TEXTS = (
    "On 3 March 1999 the plant in Lyon opened. It made 12,500 parts in 2001, and 3 in 2002.",
    "Since May 2010 the sensor APP_w304 has been made by Anna Keller in the 9th building.",
    "The 11th line was closed by Paul Weber on June 7, 2015; its code was BRK_12.",
)


@pytest.mark.parametrize(
    ("answer", "kind", "piece"),
    [
        ("3 March 1999", "date", "3 March 1999"),
        ("in May 2010", "date", "May 2010"),
        ("1999", "year", "1999"),
        ("12,500 parts", "number", "12,500"),
        ("3.5", "number", "3.5"),
        ("APP_w304", "code", "APP_w304"),
        ("10th century", "ordinal", "10th"),
        ("Anna Keller", "name", "Anna Keller"),
        ("1月3日", "date", "1月3日"),
    ],
)
def test_kinds(answer: str, kind: str, piece: str) -> None:
    assert kind_of(answer) == (kind, piece)


@pytest.mark.parametrize("answer", ["the red one", "10th and 11th centuries", "from 3 to 5 km", ""])
def test_what_cannot_be_replaced(answer: str) -> None:
    assert kind_of(answer) is None


def test_entities_of_passages() -> None:
    found = entities(TEXTS)
    assert found["date"] == ["3 March 1999", "June 7, 2015", "May 2010"]
    assert found["year"] == ["2001", "2002"]
    assert found["number"] == ["12,500", "3"]
    assert found["ordinal"] == ["11th", "9th"]
    assert found["code"] == ["APP_w304", "BRK_12"]
    assert found["name"] == ["Anna Keller", "Lyon", "Paul Weber"]  # no sentence's first word


def test_every_occurrence_and_every_wording_is_replaced() -> None:
    gold = GoldAnswer((("Anna Keller", "Keller"),))
    passage = "Anna Keller made it. Keller was praised; Kellers shop was not."
    made = falsify(gold, passage, entities(TEXTS), "seed")
    assert made is not None
    fake, text = made
    assert fake in ("Paul Weber", "Lyon")
    assert text == f"{fake} made it. {fake} was praised; Kellers shop was not."


def test_a_number_keeps_its_unit_and_gets_one_of_its_form() -> None:
    known = {"number": ["3", "18,250", "7"]}
    made = falsify(GoldAnswer((("12,500 parts",),)), "It made 12,500 parts.", known, "")  # type: ignore[arg-type]
    assert made == ("18,250 parts", "It made 18,250 parts.")


def test_what_stands_in_the_passage_already_is_no_false_answer() -> None:
    known: Mapping[Kind, Sequence[str]] = {"year": ["1999", "2001"]}
    passage = "It opened in 1999 and closed in 2001."
    assert falsify(GoldAnswer((("1999",),)), passage, known, "") is None


def test_what_cannot_be_falsified() -> None:
    known = entities(TEXTS)
    assert falsify(GoldAnswer((("2001",),)), "Nothing of it here.", known, "") is None
    assert falsify(GoldAnswer((("2001",), ("2002",))), "2001 and 2002", known, "") is None
    assert falsify(GoldAnswer((("2001",),)), "In 2001.", {}, "") is None
    # the number as a word would stay behind
    assert falsify(GoldAnswer((("2 km", "two km"),)), "2 km, two km", {"number": []}, "") is None


@given(st.integers(0, 5000))
def test_a_false_passage_holds_the_false_answer_alone(seed: int) -> None:
    gold = GoldAnswer((("2001", "the year 2001"),))
    passage = "In the year 2001 it made parts. (2001 was good.)"
    known = entities((*TEXTS, "1984 and 1771, 1066 too."))
    made = falsify(gold, passage, known, str(seed))
    assert made is not None
    assert made == falsify(gold, passage, known, str(seed))
    fake, text = made
    assert gold.held(text) == (False,)
    assert GoldAnswer(((fake,),)).held(text) == (True,)
