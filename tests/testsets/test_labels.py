"""People review a testset: one row at a time, undone, taken up again, or on a sheet.

Candidates from feedback count for nothing before a person accepts them.
"""

from __future__ import annotations

import csv
import json
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from children import started
from hypothesis import given, strategies as st

from ragwright.core import GoldSpan, Row, TestsetError
from ragwright.testsets import (
    SheetOutcome,
    TestsetReview,
    answer_in_evidence,
    feedback_note,
    forget_feedback,
    load_testset,
    read_review_sheet,
    read_rows,
    review_status,
    row_record,
    rows_of,
    store_candidates,
    write_chat,
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


def test_every_decision_is_on_disk_at_once_taken_up_later_and_undone_in_turn(path: Path) -> None:
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
    review.decide(review.open[0], "accepted")
    review.decide(review.open[0], "accepted", question="Better question?")
    later = TestsetReview(path, "bob")  # as after a kill: nothing was closed
    assert statuses(path) == ["accepted", "edited", "", ""]
    later.decide(later.open[0], "rejected", answer="not kept")
    assert later.counts() == {"accepted": 1, "edited": 1, "rejected": 1, "open": 1}
    rows = read_rows(path)
    assert (rows[1].user_input, rows[1].reference) == ("Better question?", "Answer 1")
    assert rows[2].reference == "Answer 2"
    assert [row.metadata.get("reviewed_by") for row in rows] == ["ann", "ann", "bob", None]
    assert str(rows[0].metadata["reviewed_at"]).endswith("+00:00")
    assert rows[0].metadata["topics"] == ("a", "b")
    testset = load_testset(str(path))
    assert [row.id for row in testset.rows] == ["r0", "r1", "r3"]
    assert "1 of 4 rows were rejected" in testset.notes[-1]


def test_what_somebody_else_changed_is_kept_and_a_clash_is_named(path: Path) -> None:
    ann, bob = TestsetReview(path, "ann"), TestsetReview(path, "bob")
    bob.decide(bob.open[1], "rejected")
    ann.decide(ann.open[0], "accepted")
    assert statuses(path) == ["accepted", "rejected", "", ""]
    ann.decide(ann.open[0], "accepted", question="A better question?")
    with pytest.raises(TestsetError, match="'r2' was changed by another process"):
        bob.decide(next(row for row in bob.rows if row.id == "r2"), "rejected")
    assert statuses(path) == ["accepted", "rejected", "edited", ""]
    bob.decide(bob.rows[2], "rejected")  # after another look
    assert statuses(path)[2] == "rejected"


def test_two_people_decide_on_the_same_rows(path: Path) -> None:
    ann, bob = TestsetReview(path, "ann"), TestsetReview(path, "bob")
    for number, status in enumerate(("accepted", "rejected", "rejected")):
        ann.decide(ann.rows[number], status)  # type: ignore[arg-type]
    shown = bob.rows  # as they were before anybody decided
    bob.decide(shown[0], "accepted", answer="A better answer")
    bob.decide(shown[1], "rejected")
    bob.decide(shown[2], "accepted")
    assert statuses(path) == ["edited", "rejected", "accepted", ""], "the latest decision counts"
    assert TestsetReview(path, "eve").labels() == {
        "r0": {"ann": "accepted", "bob": "edited"},
        "r1": {"ann": "rejected", "bob": "rejected"},
        "r2": {"ann": "rejected", "bob": "accepted"},
    }
    assert bob.undo() is not None
    assert bob.labels()["r2"] == {"ann": "rejected"}
    assert statuses(path)[2] == "rejected", "the decision of the other one counts again"


def test_an_edit_is_undone_after_somebody_else_decided_and_their_decision_stays(path: Path) -> None:
    ann = TestsetReview(path, "ann")
    ann.decide(ann.rows[0], "accepted", question="Better?")
    bob = TestsetReview(path, "bob")
    bob.decide(bob.rows[0], "rejected")
    later = TestsetReview(path, "ann")  # as after a restart: the log knows
    restored = later.undo()
    assert restored is not None
    assert restored.user_input == "Question 0?"
    assert statuses(path)[0] == "rejected"
    assert later.undo() is None


# -- Several processes, a full disk ----------------------------------------------------------------


def _reviewed(folder: str, by: str) -> None:
    review = TestsetReview(Path(folder) / "many.jsonl", by)
    for row in review.rows:
        review.decide(row, "accepted" if by == "ann" else "rejected")


@pytest.mark.slow
def test_two_reviewers_at_once_lose_no_decision(tmp_path: Path) -> None:
    rows = [Row(id=f"r{n}", user_input=f"Question {n}?") for n in range(20)]
    write_rows(rows, tmp_path / "many.jsonl")
    both = [started(_reviewed, str(tmp_path), by) for by in ("ann", "bob")]
    for one in both:
        one.join(120)
    assert [one.exitcode for one in both] == [0, 0]
    review = TestsetReview(tmp_path / "many.jsonl", "eve")
    people = [by for decisions in review.labels().values() for by in decisions]
    assert people.count("ann") == people.count("bob") == 20
    assert review.counts()["open"] == 0


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
    assert list(review.labels().values()) == [{"ann": "accepted"}]
    review.decide(review.rows[1], "rejected")
    assert review.labels()["r1"] == {"bob": "rejected"}


def test_what_cannot_be_reviewed_is_named(path: Path, tmp_path: Path) -> None:
    path.with_suffix(".reviews.jsonl").write_text('{"row": 3}\n')
    with pytest.raises(TestsetError, match="not a decision") as error:
        TestsetReview(path, "ann").labels()
    assert "reviews.jsonl:1" in str(error.value.where)
    (tmp_path / "set.csv").write_text("user_input\nq\n")
    with pytest.raises(TestsetError, match="only JSONL"):
        TestsetReview(tmp_path / "set.csv", "ann")
    path.write_text('{"user_input": "q", "metadata": {"review": "fine"}}\n')
    with pytest.raises(TestsetError, match="'fine'"):
        TestsetReview(path, "ann").counts()


def test_whether_the_evidence_holds_the_gold_answer() -> None:
    span = GoldSpan("d", 0, 9, "The fuse is red, and it blows at ten ampere.")
    row = Row(id="r", user_input="Which?", reference="The red", reference_spans=(span,))
    assert answer_in_evidence(row) is True
    assert answer_in_evidence(replace(row, reference="green")) is False
    assert answer_in_evidence(replace(row, reference="")) is None
    assert answer_in_evidence(replace(row, reference_spans=())) is None


# -- Sheets ----------------------------------------------------------------------------------------

Changes = Mapping[str, Mapping[str, str]]


def change_sheet(sheet: Path, changes: Changes) -> None:
    with sheet.open(encoding="utf-8-sig", newline="") as file:
        lines = list(csv.DictReader(file))
    for line in lines:
        line.update(changes.get(line["id"], {}))
    with sheet.open("w", encoding="utf-8-sig", newline="") as file:
        writer = csv.DictWriter(file, list(lines[0]), lineterminator="\r\n")
        writer.writeheader()
        writer.writerows(lines)


def reread(path: Path, changes: Changes) -> SheetOutcome:
    sheet = path.with_suffix(".csv")
    change_sheet(sheet, changes)
    outcome = read_review_sheet(sheet, read_rows(path), "ann")
    write_rows(outcome.rows, path)
    return outcome


def filled(path: Path, changes: Changes) -> SheetOutcome:
    """A sheet of the testset with some cells changed, read back."""
    path.with_suffix(".csv").unlink(missing_ok=True)
    write_review_sheet(read_rows(path), path.with_suffix(".csv"))
    return reread(path, changes)


def test_a_sheet_goes_round_and_a_second_reading_changes_nothing(path: Path) -> None:
    before = path.read_text()
    assert filled(path, {}).counts["open"] == 4  # an untouched sheet decides nothing
    assert path.read_text() == before
    changes = {
        "r0": {"review": "Accepted"},
        "r1": {"reference": "Better"},
        "r2": {"review": "rejected", "user_input": "ignored"},
    }
    outcome = filled(path, changes)
    assert outcome.conflicts == ()
    due = {"accepted": 1, "edited": 1, "rejected": 1, "open": 1, "unchanged": 0}
    assert outcome.counts == due
    assert statuses(path) == ["accepted", "edited", "rejected", ""]
    rows = read_rows(path)
    assert (rows[1].reference, rows[2].user_input) == ("Better", "Question 2?")
    text = path.read_text()
    again = reread(path, {})
    assert again.conflicts == ()
    assert again.counts["unchanged"] == 3
    assert path.read_text() == text
    with pytest.raises(TestsetError, match="exists already"):
        write_review_sheet(rows, path.with_suffix(".csv"))


def test_conflicts_are_named_and_the_rest_is_applied(path: Path) -> None:
    sheet = path.with_suffix(".csv")
    write_review_sheet(read_rows(path), sheet)
    review = TestsetReview(path, "bob")
    review.decide(review.rows[0], "rejected")
    changes = {
        "r0": {"review": "accepted"},
        "r1": {"evidence": "other words"},
        "r2": {"review": "accepted", "id": "r9"},
        "r3": {"review": "accepted"},
    }
    outcome = reread(path, changes)
    assert [conflict.split(": row ")[1] for conflict in outcome.conflicts] == [
        "'r0' was changed in the testset since the sheet was written",
        "'r1' has changed evidence: spans cannot be edited on a sheet",
        "'r9' is not in the testset",
    ]
    assert f"{sheet}:" in outcome.conflicts[0]
    assert statuses(path) == ["rejected", "", "", "accepted"]
    assert filled(path, {"r1": {"review": "edited"}}).conflicts
    assert filled(path, {"r1": {"reference": ""}}).conflicts
    assert "'r0' is twice on the sheet" in filled(path, {"r1": {"id": "r0"}}).conflicts[0]
    with pytest.raises(TestsetError, match="'perhaps' is not a decision"):
        filled(path, {"r1": {"review": "perhaps"}})


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
    write_rows(rows, folder / "set.jsonl")
    assert list(read_rows(folder / "set.jsonl")) == rows
    records: list[dict[str, Any]] = [json.loads(json.dumps(row_record(row))) for row in rows]
    assert list(rows_of(records)) == rows
    write_review_sheet(rows, folder / "sheet.csv")
    outcome = read_review_sheet(folder / "sheet.csv", rows, "ann")
    assert outcome.conflicts == ()
    assert list(outcome.rows) == rows


# -- Candidates from feedback ----------------------------------------------------------------------

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
def feedback(tmp_path: Path) -> Path:
    target = tmp_path / "testsets" / "feedback.jsonl"
    store_candidates(target, [candidate("a"), candidate("b", gold=False), candidate("c")])
    return target


def test_candidates_are_left_out_until_accepted_and_replaced_alone(feedback: Path) -> None:
    with pytest.raises(TestsetError, match="3 rows wait for review and 0 were rejected"):
        load_testset(str(feedback))
    review = TestsetReview(feedback, "ann")
    review.decide(review.rows[0], "accepted")
    review.decide(review.rows[2], "rejected")
    testset = load_testset(str(feedback))
    assert [row.id for row in testset.rows] == ["a"]
    assert "1 of 3 rows are feedback that waits for review: left out" in testset.notes
    rows = store_candidates(feedback, [candidate("a", feedback="rejected"), candidate("d")])
    assert [row.id for row in rows] == ["a", "d", "c"]
    assert rows == read_rows(feedback)
    assert rows[0].metadata["feedback"] == "accepted", "a decided row stays as it was decided"
    empty = feedback.with_name("empty.jsonl")
    empty.touch()
    assert len(store_candidates(empty, [candidate("a")])) == 1
    said = candidate("f", feedback="rejected", corrected="yes", feedback_note="see page 2")
    assert feedback_note(said) == "Readers: rejected; corrected; see page 2."


def test_a_row_without_gold_is_not_accepted(feedback: Path, tmp_path: Path) -> None:
    review = TestsetReview(feedback, "ann")
    bare = review.rows[1]
    with pytest.raises(TestsetError, match="neither a gold passage nor a gold answer"):
        review.decide(bare, "accepted")
    write_review_sheet(review.rows, tmp_path / "sheet.csv")
    change_sheet(tmp_path / "sheet.csv", {"b": {"review": "accepted"}})
    [conflict] = review.apply_sheet(tmp_path / "sheet.csv").conflicts
    assert conflict.endswith("row 'b' has neither a gold passage nor a gold answer")
    kept = review.decide(bare, "accepted", answer="Every week")
    assert kept.metadata["review"] == "edited"
    assert review.undo() == bare


def test_forgetting_reaches_rows_their_decisions_and_tenants(feedback: Path) -> None:
    review = TestsetReview(feedback, "ann")
    review.decide(review.rows[0], "accepted", answer="A secret of the manual")
    own = Row("own", "Mine?", reference_spans=(GOLD,), metadata={"kind": "cloze"})
    write_rows([*read_rows(feedback), own], feedback)
    folder = feedback.parent
    assert forget_feedback(folder, "elsewhere") == 0
    assert forget_feedback(folder, outputs=["b.1"], dry_run=True) == 1
    assert forget_feedback(folder, outputs=["b.1"]) == 1
    assert forget_feedback(folder, "notes") == 2
    assert [row.id for row in read_rows(feedback)] == ["own"], "rows that people wrote are theirs"
    assert "secret" not in feedback.with_suffix(".reviews.jsonl").read_text("utf-8")
    of_tenant = folder / "feedback-acme.jsonl"
    store_candidates(of_tenant, [candidate("a", scope="acme")])
    assert forget_feedback(folder, scope="other") == 0
    assert forget_feedback(folder, scope="acme") == 1
    assert not of_tenant.exists(), "an empty testset could not be read"
    assert forget_feedback(folder / "none", scope="acme") == 0


def test_gold_rows_become_a_user_and_an_assistant_turn(tmp_path: Path) -> None:
    passages = ("The fluid.", "More.")
    rows = (
        Row("1", "How often?", reference="Every two years.", reference_contexts=passages),
        Row("2", "By whom?", reference="A mechanic."),
        Row("3", "Why?"),
        Row("4", "When?", reference="Never.", metadata={"review": "rejected"}),
    )
    path = tmp_path / "gold.chat.jsonl"
    assert write_chat(rows, path) == 2
    first, second = (json.loads(line)["messages"] for line in path.read_text().splitlines())
    assert first == [
        {"role": "user", "content": "[1] The fluid.\n\n[2] More.\n\nQuestion: How often?"},
        {"role": "assistant", "content": "Every two years."},
    ]
    assert second[0] == {"role": "user", "content": "By whom?"}
    with pytest.raises(TestsetError, match="no row has a gold answer"):
        write_chat(rows[2:], tmp_path / "none.chat.jsonl")
    assert not (tmp_path / "none.chat.jsonl").exists()
