"""Candidate rows from feedback: nothing counts before a person accepts it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ragwright.core import GoldSpan, Row, TestsetError
from ragwright.testsets import (
    TestsetReview,
    answer_in_evidence,
    feedback_notes,
    forget_feedback,
    gold_numbers,
    load_testset,
    read_rows,
    store_candidates,
    write_review_sheet,
    write_rows,
)

SHOWN = (
    GoldSpan("manual", 0, 10, "Every year"),
    GoldSpan("manual", 20, 30, "Every week"),
    GoldSpan("notes", 5, 9, "Soon"),
)


def candidate(name: str, votes: str = "++", gold: tuple[int, ...] = (1,), **more: object) -> Row:
    metadata = {
        "kind": "feedback",
        "split": "tune",
        "feedback_accepted": votes.count("+"),
        "feedback_rejected": votes.count("-"),
        "feedback_cited": ("1",),
        **more,
    }
    return Row(
        name,
        f"Question {name}?",
        response="Every year.",
        reference_spans=tuple(SHOWN[n - 1] for n in gold),
        retrieved_spans=SHOWN,
        retrieved_contexts=tuple(span.text for span in SHOWN),
        metadata=metadata,  # type: ignore[arg-type]
    )


@pytest.fixture
def path(tmp_path: Path) -> Path:
    target = tmp_path / "testsets" / "feedback.jsonl"
    store_candidates(target, [candidate("a"), candidate("b", "--", ()), candidate("c", "+-")])
    return target


def test_candidates_are_left_out_until_accepted(path: Path) -> None:
    with pytest.raises(TestsetError, match="3 rows wait for review and 0 were rejected"):
        load_testset(str(path), split="tune")
    review = TestsetReview(path, "ann")
    review.decide(review.rows[0], "accepted")
    review.decide(review.rows[2], "rejected")
    testset = load_testset(str(path), split="tune")
    assert [row.id for row in testset.rows] == ["a"]
    assert "1 of 3 rows are feedback that waits for review: left out" in testset.notes


def test_a_row_without_gold_is_not_accepted(path: Path, tmp_path: Path) -> None:
    review = TestsetReview(path, "ann")
    bare = review.rows[1]
    with pytest.raises(TestsetError, match="neither a gold passage nor a gold answer"):
        review.decide(bare, "accepted")
    with pytest.raises(TestsetError, match="no passage 4"):
        review.decide(bare, "accepted", passages=[4])
    sheet = tmp_path / "sheet.csv"
    write_review_sheet(review.rows, sheet)
    sheet.write_text(sheet.read_text("utf-8-sig").replace("b,,", "b,accepted,"), "utf-8-sig")
    [conflict] = review.apply_sheet(sheet).conflicts
    assert conflict.endswith("row 'b' has neither a gold passage nor a gold answer")
    kept = review.decide(bare, "accepted", answer="Every week", passages=[2])
    assert kept.metadata["review"] == "edited"
    assert kept.reference_spans == (SHOWN[1],)
    assert answer_in_evidence(kept)


def test_chosen_passages_are_undone(path: Path) -> None:
    review = TestsetReview(path, "ann")
    review.decide(review.rows[0], "accepted", passages=[2, 3])
    assert gold_numbers(TestsetReview(path, "bob").rows[0]) == (2, 3)
    restored = review.undo()
    assert restored == candidate("a")
    assert read_rows(path)[0] == candidate("a")


@pytest.mark.parametrize("edits", [{"passages": [2]}, {"answer": "Every week"}])
def test_chosen_gold_makes_a_row_answerable(tmp_path: Path, edits: dict[str, Any]) -> None:
    target = tmp_path / "feedback.jsonl"
    store_candidates(target, [candidate("a", gold=(), answerable=False)])
    review = TestsetReview(target, "ann")
    assert "answerable" not in review.decide(review.rows[0], "accepted", **edits).metadata
    assert "answerable" not in read_rows(target)[0].metadata
    assert review.undo() == candidate("a", gold=(), answerable=False)


def test_gold_of_a_confirm_split_is_refused_for_tuning(tmp_path: Path) -> None:
    target = tmp_path / "feedback.jsonl"
    rows = [candidate("a", feedback_confirm=("2",))]
    rows.append(replace(rows[0], id="b", metadata={**rows[0].metadata, "split": "confirm"}))
    store_candidates(target, rows)
    review = TestsetReview(target, "ann")
    with pytest.raises(TestsetError, match="passage 2 of row 'a' is gold of a confirm split"):
        review.decide(review.rows[0], "accepted", passages=[2])
    assert review.decide(review.rows[1], "accepted", passages=[2]).reference_spans == (SHOWN[1],)


def test_collecting_again_keeps_decisions_and_updates_the_rest(path: Path) -> None:
    review = TestsetReview(path, "ann")
    review.decide(review.rows[0], "accepted")
    new = [candidate("a", "++-"), candidate("b", "-+", ()), candidate("d")]
    counts = store_candidates(path, new)
    assert (counts.added, counts.changed, counts.removed) == (1, 1, 1)
    assert (counts.decided, counts.revoted) == (1, 1)
    rows = {row.id: row for row in read_rows(path)}
    assert [*rows] == ["a", "b", "d"]
    assert rows["a"].metadata["feedback_rejected"] == 0, "a decided row stays as it was decided"
    path.with_name("empty.jsonl").touch()
    assert store_candidates(path.with_name("empty.jsonl"), new).added == 3
    again = store_candidates(path, new)
    assert (again.added, again.changed, again.unchanged) == (0, 0, 2)


def test_tenants_do_not_share_a_file(path: Path) -> None:
    with pytest.raises(TestsetError, match="no tenant, and this is feedback of the tenant 'acme'"):
        store_candidates(path, [candidate("x", feedback_scope="acme")], "acme")


def test_what_readers_said_is_shown_in_sentences() -> None:
    notes = feedback_notes(candidate("f", feedback_correction="Every week"))
    assert notes[0] == "2 of 2 votes accept this answer."
    assert "The gold answer is a reader's correction." in notes


def test_forgetting_reaches_rows_and_their_decisions(path: Path) -> None:
    review = TestsetReview(path, "ann")
    review.decide(review.rows[0], "accepted", answer="A secret of the manual")
    other = Row("own", "Mine?", reference_spans=(SHOWN[0],), metadata={"kind": "cloze"})
    write_rows([*read_rows(path), other], path)
    assert forget_feedback(path.parent, "elsewhere") == 0
    assert forget_feedback(path.parent, "manual") == 3
    assert [row.id for row in read_rows(path)] == ["own"], "rows that people wrote are theirs"
    log = path.with_suffix(".reviews.jsonl").read_text("utf-8")
    assert "secret" not in log


def test_forgetting_a_tenant_takes_its_rows(tmp_path: Path) -> None:
    target = tmp_path / "acme.jsonl"
    store_candidates(target, [candidate("a", feedback_scope="acme")], "acme")
    assert forget_feedback(tmp_path, scope="other") == 0
    assert forget_feedback(tmp_path, scope="acme") == 1
    assert not target.exists(), "an empty testset could not be read"
    assert forget_feedback(tmp_path / "none", scope="acme") == 0
