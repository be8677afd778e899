"""Tasks: what they read, leave out and write; parts have their name only when they are whole."""

from __future__ import annotations

import stat
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings, strategies as st
from pyarrow import parquet

from ragwright.engines import LocalEngine
from ragwright.records import Step, StepTask, StepWork
from ragwright.records.tables import write_part


def table(keys: list[str], hashes: list[str]) -> Any:
    return pa.table({"record_key": pa.array(keys, pa.string()), "record_hash": hashes})


@dataclass(frozen=True)
class Same(Step):
    """Rows as they are; those with the given keys go no further."""

    refused: tuple[str, ...] = ()
    fails_on: str | None = None
    name = "same"

    def __call__(self, batch: Any) -> Any:
        keys = batch.column("record_key").to_pylist()
        if self.fails_on in keys:
            raise ValueError(self.fails_on)
        reasons = ["no" if key in self.refused else None for key in keys]
        return batch.append_column("left_out", pa.array(reasons, pa.string()))


KEYS = st.lists(st.text("abc🙂", max_size=3), unique=True, max_size=8)


@settings(deadline=None, max_examples=40)
@given(KEYS, KEYS, st.data())
def test_only_live_accepted_and_differing_rows_are_written(
    keys: list[str], held: list[str], data: st.DataObject
) -> None:
    with tempfile.TemporaryDirectory() as name:
        check(Path(name), keys, held, data)


def check(folder: Path, keys: list[str], held: list[str], data: st.DataObject) -> None:
    hashes = data.draw(st.lists(st.sampled_from("xy"), min_size=len(keys), max_size=len(keys)))
    old = data.draw(st.lists(st.sampled_from("xy"), min_size=len(held), max_size=len(held)))
    live = data.draw(st.lists(st.booleans(), min_size=len(keys), max_size=len(keys)))
    refused = tuple(data.draw(st.lists(st.sampled_from(keys), unique=True))) if keys else ()
    parquet.write_table(table(keys, hashes), folder / "in.parquet")
    known = pa.table({"record_key": pa.array(held, pa.large_string()), "record_hash": old})
    mask = np.array(live, np.bool_)
    task = StepTask(folder / "in.parquet", folder / "out.parquet", mask, known)
    [outcome] = LocalEngine(1).run(StepWork(Same(refused)), [task])

    read = [(k, h) for k, h, alive in zip(keys, hashes, live, strict=True) if alive]
    before = dict(zip(held, old, strict=True))
    wanted = [(k, h) for k, h in read if k not in refused and before.get(k) != h]
    facts = outcome.facts.to_pylist()
    assert [(row["record_key"], row["record_hash"]) for row in facts] == read
    assert [row["written"] for row in facts] == [pair in wanted for pair in read]
    if not wanted:
        assert outcome.target is None
        assert not (folder / "out.parquet").exists()
    else:
        written = parquet.read_table(folder / "out.parquet")
        assert written.column_names == ["record_key", "record_hash"]
        assert [tuple(row.values()) for row in written.to_pylist()] == wanted


def test_a_part_that_cannot_be_written_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises((TypeError, AttributeError)):
        write_part("no table", tmp_path / "out.parquet")
    assert list(tmp_path.iterdir()) == []


def test_a_part_is_its_owners_alone(tmp_path: Path) -> None:
    write_part(table(["a"], ["x"]), tmp_path / "out.parquet")
    assert stat.S_IMODE((tmp_path / "out.parquet").stat().st_mode) == 0o600
    assert [path.name for path in tmp_path.iterdir()] == ["out.parquet"]


def tasks(folder: Path, count: int) -> list[StepTask]:
    for at in range(count):
        parquet.write_table(table([str(at)], ["x"]), folder / f"in{at}.parquet")
    return [
        StepTask(folder / f"in{at}.parquet", folder / f"out{at}.parquet") for at in range(count)
    ]


def test_outcomes_come_in_order_and_tasks_are_taken_as_needed(tmp_path: Path) -> None:
    taken = []

    def given_out() -> Iterator[StepTask]:
        for task in tasks(tmp_path, 9):
            taken.append(task)
            yield task

    with LocalEngine(2) as engine:
        outcomes = engine.run(StepWork(Same()), given_out())
        first = next(outcomes)
        assert len(taken) <= 4
        names = [one.target.name for one in (first, *outcomes) if one.target]
    assert names == [f"out{at}.parquet" for at in range(9)]


def test_a_failing_task_ends_the_run(tmp_path: Path) -> None:
    step = Same(fails_on="3")
    with LocalEngine(2) as engine:
        with pytest.raises(ValueError, match="3"):
            list(engine.run(StepWork(step), tasks(tmp_path, 8)))
        assert len(list(engine.run(StepWork(Same()), tasks(tmp_path, 2)))) == 2
