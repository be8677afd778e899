"""Documents that changed under a testset: rows are named, not measured wrongly."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from ragwright.core import GoldSpan, Row, TestsetError
from ragwright.testsets import Testset, current_gold, move_row, stale_rows

TEXT = "One two three. Four five six. Seven eight."


def row(name: str, *texts: str, document: str = "d") -> Row:
    spans = [GoldSpan(document, TEXT.index(t), TEXT.index(t) + len(t), t) for t in texts]
    return Row(id=name, user_input=name, reference_spans=tuple(spans))


def now(text: str | None) -> dict[str, str | None]:
    return {"d": text}


def test_each_way_to_be_stale_is_told_apart() -> None:
    rows = [
        row("moved", "Four five six."),
        row("gone", "Seven eight."),
        row("several", "two"),
        Row(id="outside", user_input="q", reference_spans=(GoldSpan("d", 0, 999),)),
        row("missing", "One", document="other"),
        row("no spans"),
    ]
    found = stale_rows(rows, now("two " + TEXT.replace("Seven", "Nine")).get)
    states = {one.row_id: one.state for one in found}
    assert states == {name: name for name in ("moved", "gone", "several", "outside")}
    moved = found[0]
    assert moved.now == GoldSpan("d", 19, 33, "Four five six.")
    assert "19-33" in str(moved)
    assert move_row(rows[0], found).reference_spans == (moved.now,)
    assert move_row(rows[1], found) is rows[1]


def test_moved_rows_are_measured_elsewhere_and_lost_ones_left_out() -> None:
    rows = (row("a", "Four five six."), row("b", "Seven eight."), row("c", "One"))
    text = "- " + TEXT.replace("Seven", "Nine")
    made = current_gold(Testset("t", rows), now(text).get)
    assert [r.id for r in made.rows] == ["a", "c"]
    for r in made.rows:
        for span in r.reference_spans:
            assert text[span.start : span.end] == span.text
    assert "left out, the documents changed: b" in made.notes[0]
    assert "measured at its new place: a, c" in made.notes[1]
    # one of two spans is lost
    two = Testset("t", (row("two", "One", "Seven"), row("c", "One")))
    assert [r.id for r in current_gold(two, now(TEXT[:20]).get).rows] == ["c"]
    same = Testset("t", (row("a", "Four"),))
    assert current_gold(same, now(TEXT).get) is same
    assert stale_rows(same.rows, now(TEXT).get) == ()
    with pytest.raises(TestsetError, match="all 1 rows changed") as caught:
        current_gold(Testset("t", (row("a", "Four"), row("b"))), now("something else").get)
    assert "row a" in caught.value.what


@given(st.text("ab ", min_size=1, max_size=30), st.text("ab ", max_size=30), st.data())
def test_what_is_kept_agrees_with_the_text(before: str, after: str, data: st.DataObject) -> None:
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
