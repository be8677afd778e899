"""People review a testset: one row at a time, undone, taken up again, or on a sheet."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from children import command, started
from hypothesis import given, strategies as st

from ragwright.core import GoldSpan, Row, TestsetError
from ragwright.testsets import (
    SheetOutcome,
    TestsetReview,
    answer_in_evidence,
    load_testset,
    read_review_sheet,
    read_rows,
    review_status,
    row_record,
    rows_of,
    write_review_sheet,
    write_rows,
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    target = tmp_path / "set.jsonl"
    rows = [
        Row(
            id=f"r{n}",
            user_input=f"Question {n}?",
            reference=f"Answer {n}",
            reference_spans=(GoldSpan("d", n, n + 5, f"=ev{n}\n"),),
            metadata={"kind": "cloze", "leak": 0.25, "topics": ("a", "b")},
        )
        for n in range(4)
    ]
    write_rows(rows, target)
    return target


def statuses(path: Path) -> list[str]:
    return [review_status(row) for row in read_rows(path)]


def test_every_decision_is_on_disk_at_once_and_taken_up_later(path: Path) -> None:
    review = TestsetReview(path, "ann")
    review.decide(review.open[0], "accepted")
    review.decide(review.open[0], "accepted", question="Better question?")
    later = TestsetReview(path, "bob")  # as after a kill: nothing was closed
    assert statuses(path) == ["accepted", "edited", "", ""]
    later.decide(later.open[0], "rejected", answer="not kept")
    assert later.counts() == {"accepted": 1, "edited": 1, "rejected": 1, "open": 1}
    rows = read_rows(path)
    assert rows[1].user_input == "Better question?"
    assert rows[1].reference == "Answer 1"
    assert rows[2].reference == "Answer 2"
    assert [row.metadata.get("reviewed_by") for row in rows] == ["ann", "ann", "bob", None]
    assert str(rows[0].metadata["reviewed_at"]).endswith("+00:00")
    assert rows[0].metadata["topics"] == ("a", "b")
    testset = load_testset(str(path))
    assert [row.id for row in testset.rows] == ["r0", "r1", "r3"]
    assert "1 of 4 rows were rejected" in testset.notes[-1]


def test_decisions_are_undone_in_turn(path: Path) -> None:
    before = path.read_text()
    review = TestsetReview(path, "ann")
    review.decide(review.open[0], "rejected")
    review.decide(review.open[0], "accepted", answer="Else")
    undone = review.undo()
    assert undone is not None
    assert (undone.id, undone.reference) == ("r1", "Answer 1")
    assert statuses(path) == ["rejected", "", "", ""]
    review.undo()
    assert path.read_text() == before
    assert review.undo() is None


def test_what_somebody_else_changed_is_kept_and_a_clash_is_named(path: Path) -> None:
    ann, bob = TestsetReview(path, "ann"), TestsetReview(path, "bob")
    bob.decide(bob.open[1], "rejected")
    ann.decide(ann.open[0], "accepted")
    assert statuses(path) == ["accepted", "rejected", "", ""]
    ann.decide(ann.open[0], "accepted", question="A better question?")
    shown = next(row for row in bob.rows if row.id == "r2")
    with pytest.raises(TestsetError, match="'r2' was changed by another process"):
        bob.decide(shown, "rejected")
    assert statuses(path) == ["accepted", "rejected", "edited", ""]
    bob.decide(bob.rows[2], "rejected")  # after another look
    assert statuses(path)[2] == "rejected"


def test_two_people_decide_on_the_same_rows_and_their_agreement_is_measured(path: Path) -> None:
    ann, bob = TestsetReview(path, "ann"), TestsetReview(path, "bob")
    assert ann.labels().agreement().text == "No row has been reviewed by two people yet."
    for number, status in enumerate(("accepted", "rejected", "rejected")):
        ann.decide(ann.rows[number], status)  # type: ignore[arg-type]
    shown = bob.rows  # as they were before anybody decided
    bob.decide(shown[0], "accepted", answer="A better answer")
    bob.decide(shown[1], "rejected")
    bob.decide(shown[2], "accepted")
    assert statuses(path) == ["edited", "rejected", "accepted", ""], "the latest decision counts"
    labels = TestsetReview(path, "eve").labels()
    assert labels.of("ann") == {"r0": "accepted", "r1": "rejected", "r2": "rejected"}
    assert labels.of("bob") == {"r0": "edited", "r1": "rejected", "r2": "accepted"}
    found = labels.agreement()
    assert (found.rows, found.same, found.disputed) == (3, 2, ("r2",))
    # Krippendorff's alpha by hand: 6 labels, 3 keep and 3 reject; 1 of 3 rows disputed.
    # Do = 2/6, De = 2 * 3 * 3 / (6 * 5) = 0.6, alpha = 1 - (1/3) / 0.6.
    assert found.alpha == pytest.approx(1 - (1 / 3) / 0.6)
    assert found.low == pytest.approx(0.0943, abs=1e-4)
    assert found.text.startswith("2 people agree on 2 of 3 rows; Krippendorff's alpha is 0.44")
    undone = bob.undo()
    assert undone is not None
    assert bob.labels().agreement().rows == 2
    assert statuses(path)[2] == "rejected", "the decision of the other one counts again"


def test_an_edit_is_undone_after_somebody_else_decided_and_their_decision_stays(path: Path) -> None:
    ann, bob = TestsetReview(path, "ann"), TestsetReview(path, "bob")
    ann.decide(ann.rows[0], "accepted", question="Better?")
    bob.decide(TestsetReview(path, "bob").rows[0], "rejected")
    later = TestsetReview(path, "ann")  # as after a restart: the log knows
    restored = later.undo()
    assert restored is not None
    assert restored.user_input == "Question 0?"
    assert statuses(path)[0] == "rejected"
    assert later.undo() is None


def _reviewed(folder: str, by: str) -> None:
    review = TestsetReview(Path(folder) / "many.jsonl", by)
    for row in review.rows:
        review.decide(row, "accepted" if by == "ann" else "rejected")


@pytest.mark.slow
def test_two_reviewers_at_once_lose_no_decision(tmp_path: Path) -> None:
    rows = [Row(id=f"r{n}", user_input=f"Question {n}?") for n in range(40)]
    write_rows(rows, tmp_path / "many.jsonl")
    both = [started(_reviewed, str(tmp_path), by) for by in ("ann", "bob")]
    for one in both:
        one.join(60)
    assert [one.exitcode for one in both] == [0, 0]
    review = TestsetReview(tmp_path / "many.jsonl", "eve")
    assert len(review.rows) == 40
    assert len(review.labels().of("ann")) == len(review.labels().of("bob")) == 40
    assert review.counts()["open"] == 0


def _reviewed_anew(folder: str, by: str) -> None:
    """As the pages do: the testset is read again for every decision."""
    path = Path(folder) / "many.jsonl"
    rows = TestsetReview(path, by).rows
    for row in rows[:40] if by == "ann" else rows[-40:]:
        TestsetReview(path, by).decide(row, "accepted")


@pytest.mark.slow
def test_decisions_on_other_rows_are_kept_when_each_reads_the_file_again(tmp_path: Path) -> None:
    rows = [Row(id=f"r{n}", user_input=f"Question {n}?" + " x" * 100) for n in range(1500)]
    write_rows(rows, tmp_path / "many.jsonl")
    both = [started(_reviewed_anew, str(tmp_path), by) for by in ("ann", "bob")]
    for one in both:
        one.join(120)
    assert [one.exitcode for one in both] == [0, 0]
    assert TestsetReview(tmp_path / "many.jsonl", "eve").counts()["accepted"] == 80


def _rejected(folder: str) -> None:
    review = TestsetReview(Path(folder) / "many.jsonl", "ann")
    for row in reversed(review.rows[-60:]):
        review.decide(row, "rejected")


@pytest.mark.slow
def test_reading_a_sheet_keeps_decisions_that_are_made_meanwhile(tmp_path: Path) -> None:
    rows = [Row(id=f"r{n}", user_input=f"Question {n}?" + " x" * 60) for n in range(3000)]
    path = tmp_path / "many.jsonl"
    write_rows(rows, path)
    write_review_sheet(rows, tmp_path / "sheet.csv")
    with (tmp_path / "sheet.csv").open(encoding="utf-8-sig", newline="") as file:
        lines = list(csv.DictReader(file))
    for line in lines[:1000]:
        line["review"] = "accepted"
    with (tmp_path / "sheet.csv").open("w", encoding="utf-8-sig", newline="") as file:
        table = csv.DictWriter(file, list(lines[0]))
        table.writeheader()
        table.writerows(lines)
    person = started(_rejected, str(tmp_path))
    for _ in range(3):
        reading = started(command, tmp_path, "review", "many.jsonl", "--read", "sheet.csv")
        reading.join(120)
        assert reading.exitcode == 0
    person.join(120)
    assert person.exitcode == 0
    counts = TestsetReview(path, "eve").counts()
    assert (counts["accepted"], counts["rejected"]) == (1000, 60)


@pytest.mark.slow
def test_a_full_disk_leaves_log_and_testset_as_they_were(path: Path) -> None:
    """A limit of the size of files stands for the disk: both fail in the middle of a write."""
    TestsetReview(path, "ann").decide(TestsetReview(path, "ann").rows[0], "accepted")
    log = path.with_suffix(".reviews.jsonl")
    before = log.read_bytes(), path.read_bytes()
    code = (
        "import resource, sys; from pathlib import Path\n"
        "from ragwright.core import TestsetError\nfrom ragwright.testsets import TestsetReview\n"
        "import signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "review = TestsetReview(Path(sys.argv[1]), 'bob')\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]),) * 2)\n"
        "try:\n    review.decide(review.rows[1], 'accepted', question='q' * int(sys.argv[3]))\n"
        "except TestsetError as error:\n    print(error)\n"
    )
    room = len(before[0]) + 700
    for most, length, named in ((len(before[0]) + 50, 3000, "logged"), (room, 300, "written")):
        words = (sys.executable, "-c", code, str(path), str(most), str(length))
        done = subprocess.run(words, capture_output=True, text=True, check=True)
        assert f"cannot be {named}" in done.stdout, done
        assert (log.read_bytes(), path.read_bytes()) == before
    review = TestsetReview(path, "bob")
    assert review.labels().of("bob") == {}
    review.decide(review.rows[1], "rejected")
    assert review.labels().of("bob") == {"r1": "rejected"}


def test_a_damaged_log_is_named_with_its_line(path: Path) -> None:
    path.with_suffix(".reviews.jsonl").write_text('{"row": 3}\n')
    with pytest.raises(TestsetError, match="not a decision") as error:
        TestsetReview(path, "ann").labels()
    assert "reviews.jsonl:1" in str(error.value.where)


def test_whether_the_evidence_holds_the_gold_answer() -> None:
    span = GoldSpan("d", 0, 9, "The fuse is red, and it blows at ten ampere.")
    row = Row(id="r", user_input="Which?", reference="The red", reference_spans=(span,))
    assert answer_in_evidence(row) is True
    assert answer_in_evidence(replace(row, reference="green")) is False
    assert answer_in_evidence(replace(row, reference="")) is None
    assert answer_in_evidence(replace(row, reference_spans=())) is None


def test_only_jsonl_is_reviewed_and_unknown_words_are_named(tmp_path: Path) -> None:
    table = tmp_path / "set.csv"
    table.write_text("user_input\nq\n")
    with pytest.raises(TestsetError, match="only JSONL"):
        TestsetReview(table, "ann")
    odd = tmp_path / "set.jsonl"
    odd.write_text('{"user_input": "q", "metadata": {"review": "fine"}}\n')
    with pytest.raises(TestsetError, match="'fine'"):
        TestsetReview(odd, "ann").counts()


def filled(path: Path, changes: dict[str, dict[str, str]]) -> SheetOutcome:
    """A sheet of the testset with some cells changed, read back."""
    sheet = path.with_suffix(".csv")
    sheet.unlink(missing_ok=True)
    write_review_sheet(read_rows(path), sheet)
    return reread(path, changes)


def reread(path: Path, changes: dict[str, dict[str, str]]) -> SheetOutcome:
    sheet = path.with_suffix(".csv")
    with sheet.open(encoding="utf-8-sig", newline="") as file:
        lines = list(csv.DictReader(file))
    for line in lines:
        line.update(changes.get(line["id"], {}))
    with sheet.open("w", encoding="utf-8-sig", newline="") as file:
        writer = csv.DictWriter(file, list(lines[0]), lineterminator="\r\n")
        writer.writeheader()
        writer.writerows(lines)
    outcome = read_review_sheet(sheet, read_rows(path), "ann")
    write_rows(outcome.rows, path)
    return outcome


def test_a_sheet_goes_round_and_a_second_reading_changes_nothing(path: Path) -> None:
    changes = {
        "r0": {"review": "Accepted"},
        "r1": {"reference": "Better"},
        "r2": {"review": "rejected", "user_input": "ignored"},
    }
    outcome = filled(path, changes)
    assert outcome.conflicts == ()
    assert outcome.counts == {
        "accepted": 1, "edited": 1, "rejected": 1, "open": 1, "unchanged": 0
    }  # fmt: skip
    assert statuses(path) == ["accepted", "edited", "rejected", ""]
    rows = read_rows(path)
    assert rows[1].reference == "Better"
    assert rows[2].user_input == "Question 2?"
    text = path.read_text()
    again = reread(path, {})
    assert again.conflicts == ()
    assert again.counts["unchanged"] == 3
    assert path.read_text() == text


def test_an_untouched_sheet_decides_nothing(path: Path) -> None:
    before = path.read_text()
    outcome = filled(path, {})
    assert outcome.counts["open"] == 4
    assert path.read_text() == before


def test_conflicts_are_named_and_the_rest_is_applied(path: Path) -> None:
    sheet = path.with_suffix(".csv")
    write_review_sheet(read_rows(path), sheet)
    review = TestsetReview(path, "bob")
    review.decide(review.rows[0], "rejected")
    outcome = reread(
        path,
        {
            "r0": {"review": "accepted"},
            "r1": {"evidence": "other words"},
            "r2": {"review": "accepted", "id": "r9"},
            "r3": {"review": "accepted"},
        },
    )
    assert [conflict.split(": row ")[1] for conflict in outcome.conflicts] == [
        "'r0' was changed in the testset since the sheet was written",
        "'r1' has changed evidence: spans cannot be edited on a sheet",
        "'r9' is not in the testset",
    ]
    assert f"{sheet}:" in outcome.conflicts[0]
    assert statuses(path) == ["rejected", "", "", "accepted"]
    assert filled(path, {"r1": {"review": "edited"}}).conflicts
    assert filled(path, {"r1": {"reference": ""}}).conflicts
    with pytest.raises(TestsetError, match="'perhaps' is not a decision"):
        filled(path, {"r1": {"review": "perhaps"}})


def test_a_row_twice_on_a_sheet_is_a_conflict(path: Path) -> None:
    outcome = filled(path, {"r1": {"id": "r0"}})
    assert "'r0' is twice on the sheet" in outcome.conflicts[0]


def test_a_sheet_is_never_overwritten(path: Path) -> None:
    sheet = path.with_suffix(".csv")
    sheet.write_text("someone's work")
    with pytest.raises(TestsetError, match="exists already"):
        write_review_sheet(read_rows(path), sheet)
    assert sheet.read_text() == "someone's work"


TEXTS = st.text(st.characters(codec="utf-8", exclude_categories=["Cs", "Cc"]), max_size=20)


@pytest.mark.slow
@given(st.lists(st.tuples(TEXTS, TEXTS, TEXTS), min_size=1, max_size=5))
def test_rows_and_sheets_lose_nothing(
    tmp_path_factory: pytest.TempPathFactory, texts: list[tuple[str, str, str]]
) -> None:
    folder = tmp_path_factory.mktemp("sheets")
    rows = [
        Row(
            id=f"r{n}",
            user_input=question,
            reference=answer,
            response=("" if n % 2 else None),
            reference_ids={"d": 2},
            reference_spans=(GoldSpan("d", 0, 1 + len(text), text),),
            metadata={"note": text, "list": (text, "x"), "number": 1.5, "flag": True},
        )
        for n, (question, answer, text) in enumerate(texts)
    ]
    path = folder / "set.jsonl"
    write_rows(rows, path)
    assert list(read_rows(path)) == rows
    records: list[dict[str, Any]] = [json.loads(json.dumps(row_record(row))) for row in rows]
    assert list(rows_of(records)) == rows
    sheet = folder / "sheet.csv"
    write_review_sheet(rows, sheet)
    outcome = read_review_sheet(sheet, rows, "ann")
    assert outcome.conflicts == ()
    assert list(outcome.rows) == rows
