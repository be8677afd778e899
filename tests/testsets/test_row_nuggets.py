"""Nuggets of rows: nuggetizer's files and ours, bad input, and review by people."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from pathlib import Path

import pytest

from ragwright.core import Nugget, Row, TestsetError
from ragwright.testsets import (
    TestsetReview,
    nuggetizer_lines,
    read_rows,
    review_status,
    rows_fingerprint,
    write_review_sheet,
    write_rows,
)

FACTS = (Nugget("The mill was built in 1790"), Nugget("Anna Roth built it", "okay"))
ROW = Row("q1", "When was the mill built?", reference="In 1790.", nuggets=FACTS)
CREATED = {
    "query": "What is Python?",
    "qid": "q1",
    "nuggets": [
        {"text": "Python is a language", "importance": "vital"},
        {"text": "Rossum made Python", "importance": "okay"},
    ],
}
ASSIGNED = {
    "query": "What is Python?",
    "qid": "q1",
    "answer_text": "A language.",
    "response_length": 2,
    "run_id": "r7",
    "nuggets": [
        {"text": "Python is a language", "importance": "vital", "assignment": "support"},
        {"text": "Rossum made Python", "importance": "okay", "assignment": "not_support"},
    ],
}


def written(folder: Path, *records: object, name: str = "n.jsonl") -> Path:
    path = folder / name
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


def test_nuggetizers_files_are_read_and_written_back(tmp_path: Path) -> None:
    other = {**ASSIGNED, "run_id": "r8", "answer_text": "By Rossum."}
    rows = read_rows(written(tmp_path, ASSIGNED, other))
    assert [row.id for row in rows] == ["q1-r7", "q1-r8"]
    assert (rows[0].user_input, rows[0].response) == ("What is Python?", "A language.")
    assert rows[0].nuggets[1] == Nugget("Rossum made Python", "okay", "not_support")
    assert [json.loads(line) for line in nuggetizer_lines(rows)] == [ASSIGNED, other]
    (created,) = read_rows(written(tmp_path, CREATED))
    assert (created.id, created.response) == ("q1", None)
    assert json.loads(nuggetizer_lines([created])[0]) == CREATED
    retrieval = {
        "text": "What is Python?",
        "qid": "q1",
        "docid": "d1",
        "candidate_text": "A language.",
        "nuggets": [{"text": "a", "importance": "vital", "reasoning": "r", "trace": None}],
    }
    (passage,) = read_rows(written(tmp_path, retrieval))
    assert (passage.id, passage.response, passage.user_input) == (
        "q1-d1",
        "A language.",
        "What is Python?",
    )


def test_our_rows_keep_their_nuggets_in_every_format(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    assigned = replace(ROW, nuggets=(replace(FACTS[0], assignment="support"), FACTS[1]))
    write_rows([assigned], path)
    assert read_rows(path) == (assigned,)
    record = json.loads(path.read_text())
    assert record["nuggets"][1] == {"text": "Anna Roth built it", "importance": "okay"}
    table = tmp_path / "rows.csv"
    lines = "vital: The mill was built in 1790\nokay: Anna Roth built it\nwrong: no"
    for cell in (json.dumps(record["nuggets"]), lines):
        with table.open("w", newline="") as file:
            csv.writer(file).writerows([["id", "question", "nuggets"], ["q1", "q", cell]])
        assert [n.text for n in read_rows(table)[0].nuggets] == [n.text for n in FACTS]
    import pyarrow as arrow
    from pyarrow import parquet

    target = tmp_path / "rows.parquet"
    columns = {"id": ["q1"], "user_input": ["q"], "nuggets": [record["nuggets"]]}
    parquet.write_table(arrow.table(columns), target)
    assert read_rows(target)[0].nuggets == assigned.nuggets


def test_rows_without_nuggets_keep_their_fingerprint() -> None:
    plain = replace(ROW, nuggets=())
    assert rows_fingerprint([plain]) != rows_fingerprint([ROW])
    reviewed = replace(ROW, metadata={"nuggets_drafted": "m"})
    assert rows_fingerprint([ROW]) == rows_fingerprint([reviewed])


@pytest.mark.parametrize(
    ("nuggets", "fault"),
    [
        ("must be cheap", "is not a nugget"),
        ({"text": "a"}, "not a list"),
        ([3], "nugget 1 is int"),
        ([{"text": " … "}], "nugget 1 has no text"),
        ([{"text": "a"}, {"text": "b", "importance": "high"}], "nugget 2 has the importance"),
        ([{"text": "a", "assignment": "yes"}], "has the assignment 'yes'"),
        ([{"text": "a", "weight": 1}], "unknown key 'weight'"),
        (["a", "a"], "occurs twice"),
    ],
)
def test_bad_nuggets_are_refused_with_file_and_line(
    tmp_path: Path, nuggets: object, fault: str
) -> None:
    good = {"id": "a", "user_input": "q", "nuggets": ["a fact"]}
    path = written(tmp_path, good, {"id": "b", "user_input": "q", "nuggets": nuggets})
    with pytest.raises(TestsetError, match=fault) as caught:
        read_rows(path)
    assert caught.value.where == f"{path}:2"


def test_people_edit_nuggets_and_undo_it(tmp_path: Path) -> None:
    path = tmp_path / "set.jsonl"
    kept = {"review": "accepted", "reviewed_by": "bob", "reviewed_at": "2026"}
    drafted = replace(ROW, metadata={**kept, "nuggets_drafted": "openai:x"})
    write_rows([drafted], path)
    before = path.read_text()
    review = TestsetReview(path, "ann")
    assert (review_status(drafted), review.counts()["open"]) == ("", 1)
    text = "okay: The mill was built in 1790\nwrong: Anna Roth built it\nvital: It has a wheel"
    decided = review.decide(review.open[0], "accepted", nuggets=text)
    assert decided.nuggets == (
        Nugget("The mill was built in 1790", "okay"),
        Nugget("It has a wheel", "vital"),
    )
    assert (review_status(decided), review.open) == ("edited", ())
    with pytest.raises(TestsetError, match="is not a nugget"):
        review.decide(decided, "accepted", nuggets="perhaps: x")
    assert read_rows(path) == (decided,)
    assert TestsetReview(path, "ann").undo() == drafted
    assert path.read_text() == before
    accepted = TestsetReview(path, "ann").decide(drafted, "accepted")
    assert (accepted.nuggets, review_status(accepted)) == (FACTS, "accepted")


def test_nuggets_on_a_sheet(tmp_path: Path) -> None:
    path, sheet = tmp_path / "set.jsonl", tmp_path / "sheet.csv"
    rows = [ROW, replace(ROW, id="q2"), Row("q3", "No nuggets?", reference="None.")]
    write_rows(rows, path)
    write_review_sheet(rows, sheet)
    with sheet.open(encoding="utf-8-sig", newline="") as file:
        lines = list(csv.DictReader(file))
    assert lines[0]["nuggets"] == "vital: The mill was built in 1790\nokay: Anna Roth built it"
    lines[0]["nuggets"] = lines[0]["nuggets"].replace("okay:", "wrong:")
    lines[1]["review"] = "accepted"
    with sheet.open("w", encoding="utf-8-sig", newline="") as file:
        writer = csv.DictWriter(file, lines[0])
        writer.writeheader()
        writer.writerows(lines)
    review = TestsetReview(path, "ann")
    assert review.apply_sheet(sheet).counts == {
        "accepted": 1,
        "edited": 1,
        "rejected": 0,
        "open": 1,
        "unchanged": 0,
    }
    assert [row.nuggets for row in read_rows(path)] == [FACTS[:1], FACTS, ()]
    assert review.apply_sheet(sheet).conflicts == ()
