"""Documents that changed under a testset: rows are named, not measured wrongly."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from ragwright.core import GoldSpan, Row, TestsetError
from ragwright.testsets import Testset, current_gold, move_row, stale_rows

TEXT = "One two three. Four five six. Seven eight."


def row(name: str, text: str, start: int | None = None, document: str = "d") -> Row:
    begin = TEXT.index(text) if start is None else start
    span = GoldSpan(document, begin, begin + len(text), text)
    return Row(id=name, user_input=name, reference_spans=(span,))


def now(text: str | None) -> dict[str, str | None]:
    return {"d": text}


def test_what_agrees_is_not_stale() -> None:
    assert stale_rows([row("a", "Four five")], now(TEXT).get) == ()


def test_each_way_to_be_stale_is_told_apart() -> None:
    rows = [
        row("moved", "Four five six."),
        row("gone", "Seven eight."),
        row("several", "two"),
        Row(id="outside", user_input="q", reference_spans=(GoldSpan("d", 0, 999),)),
        row("missing", "One", document="other"),
        Row(id="no spans", user_input="q"),
    ]
    found = stale_rows(rows, now("two " + TEXT.replace("Seven", "Nine")).get)
    assert {one.row_id: one.state for one in found} == {
        "moved": "moved",
        "gone": "gone",
        "several": "several",
        "outside": "outside",
    }
    moved = found[0]
    assert moved.now == GoldSpan("d", 19, 33, "Four five six.")
    assert "19-33" in str(moved)
    assert move_row(rows[0], found).reference_spans == (moved.now,)
    assert move_row(rows[1], found) is rows[1]


def test_moved_rows_are_measured_elsewhere_and_lost_ones_left_out() -> None:
    testset = Testset("t", (row("a", "Four five six."), row("b", "Seven eight."), row("c", "One")))
    text = "- " + TEXT.replace("Seven", "Nine")
    made = current_gold(testset, now(text).get)
    assert [r.id for r in made.rows] == ["a", "c"]
    for r in made.rows:
        for span in r.reference_spans:
            assert text[span.start : span.end] == span.text
    assert "left out, the documents changed: b" in made.notes[0]
    assert "measured at its new place: a, c" in made.notes[1]


def test_a_row_that_lost_one_of_two_spans_is_left_out() -> None:
    two = Row(
        id="two",
        user_input="q",
        reference_spans=(*row("", "One").reference_spans, *row("", "Seven").reference_spans),
    )
    made = current_gold(Testset("t", (two, row("c", "One"))), now(TEXT[:20]).get)
    assert [r.id for r in made.rows] == ["c"]


def test_all_stale_is_an_error() -> None:
    testset = Testset("t", (row("a", "Four"), Row(id="b", user_input="no spans")))
    with pytest.raises(TestsetError, match="all 1 rows changed") as caught:
        current_gold(testset, now("something else").get)
    assert "row a" in caught.value.what


def test_an_unchanged_testset_is_handed_back_as_it_is() -> None:
    testset = Testset("t", (row("a", "Four"),))
    assert current_gold(testset, now(TEXT).get) is testset


@given(st.text("ab ", max_size=30), st.text("ab ", max_size=30), st.data())
def test_what_is_kept_agrees_with_its_document(
    before: str, after: str, data: st.DataObject
) -> None:
    if not before:
        return
    start = data.draw(st.integers(0, len(before) - 1))
    end = data.draw(st.integers(start + 1, len(before)))
    span = GoldSpan("d", start, end, before[start:end])
    testset = Testset("t", (Row(id="r", user_input="q", reference_spans=(span,)),))
    try:
        kept = current_gold(testset, {"d": after}.get).rows
    except TestsetError:
        places = sum(after.startswith(span.text, at) for at in range(len(after)))
        assert after[start:end] != span.text
        assert places != 1
        return
    for r in kept:
        for s in r.reference_spans:
            assert after[s.start : s.end] == s.text == span.text
