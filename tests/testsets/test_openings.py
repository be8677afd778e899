"""The confirm split is given only to who writes it down."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from ragwright.core import TestsetError
from ragwright.testsets import Opening, Openings, declares_splits, load_testset, rows_fingerprint


def written(folder: Path, named: bool = False, documents: int = 30) -> str:
    rows = [
        {
            "id": f"r{n}",
            "user_input": f"question {n}?",
            "reference_spans": [{"document_id": f"d{n}", "start": 0, "end": 3, "text": "abc"}],
            **({"metadata": {"split": "confirm" if n < 2 else "tune"}} if named else {}),
        }
        for n in range(documents)
    ]
    path = folder / "set.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    return str(path)


def test_tune_and_confirm_make_up_the_whole(tmp_path: Path) -> None:
    address = written(tmp_path)
    log = Openings(tmp_path / "openings.jsonl", purpose="confirm", by="ann")
    whole = load_testset(address)
    tune = load_testset(address, split="tune")
    confirm = load_testset(address, split="confirm", openings=log)
    assert {r.id for r in tune.rows} | {r.id for r in confirm.rows} == {r.id for r in whole.rows}
    assert not {r.id for r in tune.rows} & {r.id for r in confirm.rows}
    assert (whole.split, tune.split, confirm.split) == ("all", "tune", "confirm")
    assert tune.opened == whole.opened == ""
    assert f"{len(tune.rows)} of 30 rows" in tune.notes[0]


def test_without_leave_the_confirm_split_stays_closed(tmp_path: Path) -> None:
    address = written(tmp_path)
    with pytest.raises(TestsetError, match="must be logged"):
        load_testset(address, split="confirm")


def test_all_rows_hold_the_confirm_split_where_rows_name_one(tmp_path: Path) -> None:
    address = written(tmp_path, named=True)
    assert declares_splits(address)
    with pytest.raises(TestsetError, match="includes the confirm split"):
        load_testset(address)
    log = Openings(tmp_path / "openings.jsonl", purpose="a look", by="ann")
    assert len(load_testset(address, openings=log).rows) == 30
    assert [o.rows for o in Openings.of(log.path)] == [2]


def test_every_opening_is_written_and_the_next_one_says_so(tmp_path: Path) -> None:
    address = written(tmp_path)
    path = tmp_path / "testsets" / "openings.jsonl"
    first = load_testset(address, split="confirm", openings=Openings(path, "confirm A", "ann"))
    assert "for the first time" in first.notes[-1]
    assert first.opened == rows_fingerprint(first.rows) == first.fingerprint
    second = load_testset(address, split="confirm", openings=Openings(path, "confirm B", "bob"))
    assert "opened once before" in second.notes[-1]
    third = load_testset(
        address, split="confirm", limit=2, openings=Openings(path, "confirm C", "bob")
    )
    assert "opened 2 times before" in third.notes[-1]
    assert "'confirm A' by ann" in third.notes[-1]
    logged = Openings.of(path, first.fingerprint)
    assert [(o.purpose, o.by, o.rows) for o in logged] == [
        ("confirm A", "ann", len(first.rows)),
        ("confirm B", "bob", len(first.rows)),
        ("confirm C", "bob", 2),
    ]
    assert all(isinstance(o, Opening) and o.time.endswith("+00:00") for o in logged)
    assert third.opened == first.fingerprint != third.fingerprint
    assert Openings.of(path, "another") == ()
    assert Openings.of(tmp_path / "none.jsonl") == ()


def test_a_log_that_cannot_be_written_keeps_the_rows(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    log = Openings(blocked / "openings.jsonl", purpose="confirm")
    with pytest.raises(TestsetError):
        load_testset(written(tmp_path), split="confirm", openings=log)


@pytest.mark.parametrize("line", ["no json", "[]", '{"time": "now"}'])
def test_a_bad_line_is_named(tmp_path: Path, line: str) -> None:
    address = written(tmp_path)
    path = tmp_path / "openings.jsonl"
    load_testset(address, split="confirm", openings=Openings(path, "one"))
    before = path.read_text()
    path.write_text(before + line + "\n")
    with pytest.raises(TestsetError) as caught:
        load_testset(address, split="confirm", openings=Openings(path, "two"))
    assert caught.value.where == f"{path}:2"
    assert path.read_text() == before + line + "\n"


def test_a_line_that_was_cut_is_closed_before_the_next(tmp_path: Path) -> None:
    address = written(tmp_path)
    path = tmp_path / "openings.jsonl"
    load_testset(address, split="confirm", openings=Openings(path, "one"))
    path.write_text(path.read_text().rstrip("\n"))  # an editor took the line end away
    load_testset(address, split="confirm", openings=Openings(path, "two"))
    assert [o.purpose for o in Openings.of(path)] == ["one", "two"]


def test_an_empty_split_names_counts_and_way_out(tmp_path: Path) -> None:
    path = tmp_path / "set.jsonl"
    span = {"document_id": "alone", "start": 0, "end": 3, "text": "abc"}
    rows = [{"user_input": f"q{n}", "reference_spans": [span]} for n in range(4)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    log = Openings(tmp_path / "openings.jsonl", purpose="confirm")
    assert len(load_testset(str(path), split="tune").rows) == 4
    with pytest.raises(TestsetError, match="tune 4 rows, confirm 0 rows") as caught:
        load_testset(str(path), split="confirm", openings=log)
    assert caught.value.hint is not None
    assert "split: tune" in caught.value.hint
    assert not log.path.exists()


def test_an_unknown_split_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TestsetError, match="'test'"):
        load_testset(written(tmp_path), split="test")


def test_rejected_rows_are_not_loaded(tmp_path: Path) -> None:
    path = tmp_path / "set.jsonl"
    rows = [
        {"user_input": "a", "metadata": {"review": "rejected"}},
        {"user_input": "b", "metadata": {"review": "accepted"}},
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    testset = load_testset(str(path))
    assert [row.user_input for row in testset.rows] == ["b"]
    assert testset.notes == ("1 of 2 rows were rejected in review and are left out",)
    path.write_text(json.dumps(rows[0]) + "\n")
    with pytest.raises(TestsetError, match="all 1 rows were rejected"):
        load_testset(str(path))


def test_the_fingerprint_is_that_of_the_rows(tmp_path: Path) -> None:
    one = load_testset(written(tmp_path))
    again = load_testset(written(tmp_path))
    assert one.fingerprint == again.fingerprint
    assert one.subset(3).fingerprint != one.fingerprint


def test_a_dry_run_writes_nothing_down(tmp_path: Path) -> None:
    log = Openings(tmp_path / "openings.jsonl", purpose="dry run", dry_run=True)
    assert load_testset(written(tmp_path), split="confirm", openings=log).rows
    assert not log.path.exists()


def test_marks_of_a_review_leave_the_rows_what_they_are_and_edits_are_counted(
    tmp_path: Path,
) -> None:
    address = written(tmp_path)
    path = tmp_path / "openings.jsonl"
    before = load_testset(address, split="confirm", openings=Openings(path, "one", "ann"))
    text = Path(address).read_text()
    seen = text.replace('"user_input"', '"review": "accepted", "reviewed_by": "bob", "user_input"')
    Path(address).write_text(seen)
    again = load_testset(address, split="confirm", openings=Openings(path, "two", "ann"))
    assert again.fingerprint == before.fingerprint
    assert "opened once before, first on" in again.notes[-1]
    Path(address).write_text(seen.replace("question", "Question"))
    edited = load_testset(address, split="confirm", openings=Openings(path, "three", "ann"))
    assert edited.fingerprint != before.fingerprint
    assert "opened 2 times before, 2 of them with another version" in edited.notes[-1]
    assert len(Openings.of(path, edited.fingerprint)) == 1


def test_a_name_that_is_not_utf8_is_written_down_and_read_back(tmp_path: Path) -> None:
    """A file name of other bytes reaches Python as half surrogate pairs."""
    log = Openings(tmp_path / "openings.jsonl", purpose="confirm set\udcff.jsonl", by="ann")
    log.record("set\udcff.jsonl", "abc", 3)
    [found] = Openings.of(log.path, "abc")
    assert (found.purpose, found.testset) == (log.purpose, "set\udcff.jsonl")


@pytest.mark.parametrize(
    "change",
    [
        lambda line: line[:-20],
        lambda line: line.replace('"rows": 3', '"rows": "3"'),
        lambda line: line.replace('"time"', '"when"'),
        lambda line: "[" * 1000 + line,
        lambda line: "\0" * 40,
        lambda line: "[]",
    ],
)
def test_an_edited_log_keeps_the_split_closed_and_is_not_changed(
    tmp_path: Path, change: Callable[[str], str]
) -> None:
    log = Openings(tmp_path / "openings.jsonl", purpose="confirm", by="ann")
    log.record("set.jsonl", "abc", 3)
    text = change(log.path.read_text("utf-8"))
    log.path.write_text(text, "utf-8")
    with pytest.raises(TestsetError):
        log.record("set.jsonl", "abc", 3)
    assert log.path.read_text("utf-8") == text
