"""Candidate rows from feedback: nothing counts before a person accepts it."""

from __future__ import annotations

from pathlib import Path

import pytest

from ragwright.core import GoldSpan, Row, TestsetError
from ragwright.testsets import (
    TestsetReview,
    feedback_note,
    forget_feedback,
    load_testset,
    read_rows,
    store_candidates,
    write_review_sheet,
    write_rows,
)

GOLD = GoldSpan("manual", 0, 10, "Every year")


def candidate(name: str, gold: bool = True, **more: str) -> Row:
    return Row(
        name,
        f"Question {name}?",
        response="Every year.",
        reference_spans=(GOLD,) if gold else (),
        retrieved_contexts=("Every year", "Soon"),
        retrieved_context_ids=("manual", "notes"),
        metadata={"kind": "feedback", "output": f"{name}.1", "feedback": "accepted", **more},
    )


@pytest.fixture
def path(tmp_path: Path) -> Path:
    target = tmp_path / "testsets" / "feedback.jsonl"
    store_candidates(target, [candidate("a"), candidate("b", gold=False), candidate("c")])
    return target


def test_candidates_are_left_out_until_accepted(path: Path) -> None:
    with pytest.raises(TestsetError, match="3 rows wait for review and 0 were rejected"):
        load_testset(str(path))
    review = TestsetReview(path, "ann")
    review.decide(review.rows[0], "accepted")
    review.decide(review.rows[2], "rejected")
    testset = load_testset(str(path))
    assert [row.id for row in testset.rows] == ["a"]
    assert "1 of 3 rows are feedback that waits for review: left out" in testset.notes


def test_a_row_without_gold_is_not_accepted(path: Path, tmp_path: Path) -> None:
    review = TestsetReview(path, "ann")
    bare = review.rows[1]
    with pytest.raises(TestsetError, match="neither a gold passage nor a gold answer"):
        review.decide(bare, "accepted")
    sheet = tmp_path / "sheet.csv"
    write_review_sheet(review.rows, sheet)
    sheet.write_text(sheet.read_text("utf-8-sig").replace("b,,", "b,accepted,"), "utf-8-sig")
    [conflict] = review.apply_sheet(sheet).conflicts
    assert conflict.endswith("row 'b' has neither a gold passage nor a gold answer")
    kept = review.decide(bare, "accepted", answer="Every week")
    assert kept.metadata["review"] == "edited"
    assert review.undo() == bare


def test_collecting_again_replaces_candidates_alone(path: Path) -> None:
    review = TestsetReview(path, "ann")
    review.decide(review.rows[0], "accepted")
    rows = store_candidates(path, [candidate("a", feedback="rejected"), candidate("d")])
    assert [row.id for row in rows] == ["a", "d"]
    assert rows == read_rows(path)
    assert rows[0].metadata["feedback"] == "accepted", "a decided row stays as it was decided"
    empty = path.with_name("empty.jsonl")
    empty.touch()
    assert len(store_candidates(empty, [candidate("a")])) == 1


def test_what_readers_said_is_shown_in_a_line() -> None:
    row = candidate("f", feedback="rejected", corrected="yes", feedback_note="see page 2")
    assert feedback_note(row) == "Readers: rejected; corrected; see page 2."


def test_forgetting_reaches_rows_and_their_decisions(path: Path) -> None:
    review = TestsetReview(path, "ann")
    review.decide(review.rows[0], "accepted", answer="A secret of the manual")
    own = Row("own", "Mine?", reference_spans=(GOLD,), metadata={"kind": "cloze"})
    write_rows([*read_rows(path), own], path)
    assert forget_feedback(path.parent, "elsewhere") == 0
    assert forget_feedback(path.parent, outputs=["b.1"], dry_run=True) == 1
    assert forget_feedback(path.parent, outputs=["b.1"]) == 1
    assert forget_feedback(path.parent, "notes") == 2
    assert [row.id for row in read_rows(path)] == ["own"], "rows that people wrote are theirs"
    assert "secret" not in path.with_suffix(".reviews.jsonl").read_text("utf-8")


def test_forgetting_a_tenant_takes_its_rows(tmp_path: Path) -> None:
    target = tmp_path / "feedback-acme.jsonl"
    store_candidates(target, [candidate("a", scope="acme")])
    assert forget_feedback(tmp_path, scope="other") == 0
    assert forget_feedback(tmp_path, scope="acme") == 1
    assert not target.exists(), "an empty testset could not be read"
    assert forget_feedback(tmp_path / "none", scope="acme") == 0
