"""Splits: deterministic, by cluster; the confirm split is given only to who writes it down."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from ragwright.core import GoldSpan, Row, TestsetError
from ragwright.testsets import (
    Opening,
    Openings,
    Testset,
    assign_splits,
    declares_splits,
    fold_clusters,
    gold_documents,
    load_testset,
    rows_fingerprint,
    split_clusters,
)


def row(name: str, *documents: str, split: str = "", question: str = "") -> Row:
    return Row(
        id=name,
        user_input=question or f"question {name}",
        reference_spans=tuple(GoldSpan(document, 0, 1, "x") for document in documents),
        metadata={"split": split} if split else {},
    )


def test_rows_of_one_document_stay_together_and_both_splits_get_some() -> None:
    rows = [row(f"{d}-{n}", f"d{d}") for d in range(200) for n in range(3)]
    placed = assign_splits(rows)
    for d in range(200):
        assert len({placed[f"{d}-{n}"] for n in range(3)}) == 1
    confirm = sum(split == "confirm" for split in placed.values()) / len(placed)
    assert 0.3 < confirm < 0.5
    before = assign_splits(rows[:300])  # rows added later move no others
    assert before == {name: placed[name] for name in before}
    for share, split in ((0.0, "tune"), (1.0, "confirm")):
        assert set(assign_splits(rows, share=share).values()) == {split}
    # a chain that would hold most rows is cut at first documents
    chain = [row(f"{n}", f"d{n:02}", f"d{n + 1:02}") for n in range(20)]
    assert len(set(split_clusters(chain).values())) == 20
    assert len(set(assign_splits(chain).values())) == 2


def test_a_named_split_is_kept_and_its_cluster_follows() -> None:
    for split in ("tune", "confirm"):
        rows = [row("a", "d", split=split), row("b", "d"), row("c", "d")]
        assert set(assign_splits(rows).values()) == {split}
    # unnamed rows of a cluster that names both are for tuning
    rows = [row("a", "d", split="tune"), row("b", "d", split="confirm"), row("c", "d")]
    assert assign_splits(rows) == {"a": "tune", "b": "confirm", "c": "tune"}
    with pytest.raises(TestsetError, match="'test'"):
        assign_splits([row("a", "d", split="test")])
    # rows without gold stand for themselves unless they ask the same
    rows = [row("a", question="Who?"), row("b", question="who? "), row("c", question="When?")]
    assert split_clusters(rows) == {"a": "a", "b": "a", "c": "c"}


@pytest.mark.slow
@given(
    st.lists(
        st.lists(st.integers(0, 60), min_size=0, max_size=2, unique=True), min_size=1, max_size=30
    )
)
def test_no_gold_document_in_both_splits_unless_a_chain_was_cut(gold: list[list[int]]) -> None:
    rows = [row(f"r{n}", *(f"d{d}" for d in documents)) for n, documents in enumerate(gold)]
    placed = assign_splits(rows)
    assert placed.keys() == {r.id for r in rows}
    # The slow reference: rows that are tied, found by growing sets until nothing grows.
    groups = [set(gold_documents(r)) or {r.id} for r in rows]
    for _ in rows:
        for one in groups:
            for other in groups:
                if one & other:
                    one |= other
    largest = max(sum(bool(one & other) for other in groups) for one in groups)
    if 2 * largest <= len(rows):
        sides = {(document, placed[r.id]) for r in rows for document in gold_documents(r)}
        assert len(sides) == len({document for document, _ in sides})


def test_rows_are_placed_alike_on_every_machine() -> None:
    rows = [Row(str(n), str(n), reference_ids={f"d{n}": 1, "é": 1}) for n in range(2)]
    rows += [Row(f"x{n}", f"q{n}") for n in range(40)]
    # Pinned: a change of the rule would move rows of every testset there is.
    pinned = "ttcttctttttctctttcctcctcttttctctcctttctttt"
    assert "".join(split[0] for split in assign_splits(rows).values()) == pinned


def test_folds_keep_passages_together_where_documents_are_few() -> None:
    def spanned(name: str, start: int, end: int) -> Row:
        return Row(name, f"question {name}", reference_spans=(GoldSpan("manual", start, end),))

    rows = [spanned(f"{n}", 100 * n, 100 * n + 50) for n in range(6)]
    rows += [spanned("inside", 110, 120), spanned("across", 140, 210)]
    assert set(split_clusters(rows).values()) == {"manual"}
    found = fold_clusters(rows, 5)
    assert found["1"] == found["inside"] == found["across"] == found["2"]
    assert len(set(found.values())) == 5
    whole = [Row(name, name, reference_ids={"manual": 1}) for name in ("a", "b")]
    assert len(set(fold_clusters(whole, 5).values())) == 1
    many = [row(f"{d}-{n}", f"d{d}") for d in range(5) for n in range(3)]
    assert fold_clusters(many, 5) == split_clusters(many)


# -- Openings --------------------------------------------------------------------------------------


def written(folder: Path, named: bool = False) -> str:
    rows = [
        {
            "id": f"r{n}",
            "user_input": f"question {n}?",
            "reference_spans": [{"document_id": f"d{n}", "start": 0, "end": 3, "text": "abc"}],
            **({"metadata": {"split": "confirm" if n < 2 else "tune"}} if named else {}),
        }
        for n in range(30)
    ]
    path = folder / "set.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    return str(path)


def opened(address: str, path: Path, purpose: str, by: str = "", **how: Any) -> Testset:
    return load_testset(address, split="confirm", openings=Openings(path, purpose, by), **how)


def test_every_opening_is_written_and_the_next_one_says_so(tmp_path: Path) -> None:
    address, path = written(tmp_path), tmp_path / "testsets" / "openings.jsonl"
    whole, tune = load_testset(address), load_testset(address, split="tune")
    assert whole.fingerprint == load_testset(address).fingerprint
    assert whole.subset(3).fingerprint != whole.fingerprint
    first = opened(address, path, "confirm A", "ann")
    assert {r.id for r in tune.rows} | {r.id for r in first.rows} == {r.id for r in whole.rows}
    assert not {r.id for r in tune.rows} & {r.id for r in first.rows}
    assert (whole.split, tune.split, first.split) == ("all", "tune", "confirm")
    assert tune.opened == whole.opened == ""
    assert f"{len(tune.rows)} of 30 rows" in tune.notes[0]
    assert "for the first time" in first.notes[-1]
    assert first.opened == rows_fingerprint(first.rows) == first.fingerprint
    assert "opened once before" in opened(address, path, "confirm B", "bob").notes[-1]
    third = opened(address, path, "confirm C", "bob", limit=2)
    assert "opened 2 times before" in third.notes[-1]
    assert "'confirm A' by ann" in third.notes[-1]
    logged, size = Openings.of(path, first.fingerprint), len(first.rows)
    assert [(o.purpose, o.by, o.rows) for o in logged] == [
        *(("confirm A", "ann", size), ("confirm B", "bob", size), ("confirm C", "bob", 2))
    ]
    assert all(isinstance(o, Opening) and o.time.endswith("+00:00") for o in logged)
    assert third.opened == first.fingerprint != third.fingerprint
    assert Openings.of(path, "another") == Openings.of(tmp_path / "none.jsonl") == ()
    dry = Openings(tmp_path / "dry.jsonl", purpose="dry run", dry_run=True)
    assert load_testset(address, split="confirm", openings=dry).rows
    assert not dry.path.exists()


def test_without_leave_the_confirm_split_stays_closed(tmp_path: Path) -> None:
    address = written(tmp_path)
    with pytest.raises(TestsetError, match="must be logged"):
        load_testset(address, split="confirm")
    with pytest.raises(TestsetError, match="'test'"):
        load_testset(address, split="test")
    with pytest.raises(TestsetError):  # a log that cannot be written keeps the rows
        opened(address, Path(address) / "openings.jsonl", "confirm")
    address = written(tmp_path, named=True)
    assert declares_splits(address)
    with pytest.raises(TestsetError, match="includes the confirm split"):
        load_testset(address)
    log = Openings(tmp_path / "openings.jsonl", purpose="a look", by="ann")
    assert len(load_testset(address, openings=log).rows) == 30
    assert [o.rows for o in Openings.of(log.path)] == [2]


def test_an_empty_split_names_the_way_out_and_rejected_rows_are_left_out(tmp_path: Path) -> None:
    def put(*rows: dict[str, Any]) -> str:
        (tmp_path / "set.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        return str(tmp_path / "set.jsonl")

    span = {"document_id": "alone", "start": 0, "end": 3, "text": "abc"}
    address = put(*({"user_input": f"q{n}", "reference_spans": [span]} for n in range(4)))
    assert len(load_testset(address, split="tune").rows) == 4
    with pytest.raises(TestsetError, match="tune 4 rows, confirm 0 rows") as caught:
        opened(address, tmp_path / "openings.jsonl", "confirm")
    assert "split: tune" in (caught.value.hint or "")
    assert not (tmp_path / "openings.jsonl").exists()
    rejected = {"user_input": "a", "metadata": {"review": "rejected"}}
    testset = load_testset(put(rejected, {"user_input": "b", "metadata": {"review": "accepted"}}))
    assert [row.user_input for row in testset.rows] == ["b"]
    assert testset.notes == ("1 of 2 rows were rejected in review and are left out",)
    with pytest.raises(TestsetError, match="all 1 rows were rejected"):
        load_testset(put(rejected))


def test_marks_of_a_review_leave_rows_as_they_are_and_edits_are_counted(tmp_path: Path) -> None:
    address, path = written(tmp_path), tmp_path / "openings.jsonl"
    before = opened(address, path, "one", "ann")
    text = Path(address).read_text()
    seen = text.replace('"user_input"', '"review": "accepted", "reviewed_by": "bob", "user_input"')
    Path(address).write_text(seen)
    again = opened(address, path, "two", "ann")
    assert again.fingerprint == before.fingerprint
    assert "opened once before, first on" in again.notes[-1]
    Path(address).write_text(seen.replace("question", "Question"))
    edited = opened(address, path, "three", "ann")
    assert edited.fingerprint != before.fingerprint
    assert "opened 2 times before, 2 of them with another version" in edited.notes[-1]
    assert len(Openings.of(path, edited.fingerprint)) == 1


def log_of(folder: Path) -> Openings:
    """A log of one opening, by a name that is not UTF-8: half surrogate pairs in Python."""
    log = Openings(folder / "openings.jsonl", purpose="confirm set\udcff.jsonl", by="ann")
    log.record("set\udcff.jsonl", "abc", 3)
    return log


def test_any_name_is_read_back_and_a_cut_line_is_closed_before_the_next(tmp_path: Path) -> None:
    log = log_of(tmp_path)
    [found] = Openings.of(log.path, "abc")
    assert (found.purpose, found.testset) == (log.purpose, "set\udcff.jsonl")
    log.path.write_text(log.path.read_text().rstrip("\n"))  # an editor took the line end away
    log.record("other", "abc", 3)
    assert [o.testset for o in Openings.of(log.path)] == ["set\udcff.jsonl", "other"]


@pytest.mark.parametrize(
    ("change", "place"),
    [
        (lambda line: line[:-20], 1),
        (lambda line: line.replace('"rows": 3', '"rows": "3"'), 1),
        (lambda line: "[" * 1000 + line, 1),
        (lambda line: line + "no json\n", 2),
        (lambda line: line + '{"time": "now"}\n', 2),
    ],
)
def test_an_edited_log_keeps_the_split_closed_and_is_not_changed(
    tmp_path: Path, change: Callable[[str], str], place: int
) -> None:
    log = log_of(tmp_path)
    text = change(log.path.read_text("utf-8"))
    log.path.write_text(text, "utf-8")
    with pytest.raises(TestsetError) as caught:
        log.record("set.jsonl", "abc", 3)
    assert caught.value.where == f"{log.path}:{place}"
    with pytest.raises(TestsetError):
        opened(written(tmp_path), log.path, "two")
    assert log.path.read_text("utf-8") == text
