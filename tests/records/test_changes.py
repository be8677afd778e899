"""What tells two versions of a table from each other, against a comparison of all their rows."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st
from table_rows import content, upsert

from ragwright.core import SnapshotGoneError
from ragwright.records import KEY, RecordTables

_KEYS = st.sampled_from("abcdefg")
_STEPS = st.lists(
    st.one_of(st.dictionaries(_KEYS, st.integers(0, 2), min_size=1), st.lists(_KEYS, min_size=1)),
    min_size=1,
    max_size=6,
)


def _take(tables: RecordTables, step: dict[str, int] | list[str]) -> None:
    with tables.writing("test", 5) as writing:
        if isinstance(step, dict):
            upsert(writing, "gold", step)
        else:
            writing.remove("gold", step)
        writing.commit({}, "test")


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(_STEPS)
def test_changes_are_those_of_a_comparison_of_all_rows(
    steps: list[dict[str, int] | list[str]],
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        tables = RecordTables(Path(folder))
        for step in steps:
            _take(tables, step)
        now = dict(content(tables, "gold")) if tables.version else {}
        for version in range(1, tables.version + 1):
            before = dict(content(tables, "gold", version=version))
            changes = tables.changes("gold", version)
            rows = [(r[KEY], r["text"]) for batch in changes.rows for r in batch.to_pylist()]
            wanted = [(key, text) for key, text in now.items() if before.get(key) != text]
            assert sorted(rows) == sorted(wanted)
            assert changes.gone == tuple(sorted(before.keys() - now.keys()))


def test_a_version_that_is_not_kept_is_refused(tmp_path: Path) -> None:
    tables = RecordTables(tmp_path, keep=1)
    _take(tables, {"a": 1})
    _take(tables, {"a": 2})
    with pytest.raises(SnapshotGoneError):
        tables.changes("gold", 1)
