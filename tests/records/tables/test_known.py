"""Keys and hashes in memory, against a dictionary."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import (
    given,
    settings,
    strategies as st,
)

from ragwright.records.tables import KeyIndex

KEYS = st.sampled_from(["", "a", "A", "a ", "é", "e\u0301", "\0", "\0\0", "🙂", "x" * 10_000])


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(st.lists(st.tuples(st.lists(KEYS, unique=True), st.sets(KEYS)), max_size=12))
def test_an_index_is_a_dictionary(turns: list[tuple[list[str], set[str]]]) -> None:
    index = KeyIndex()
    held: dict[str, tuple[int, str]] = {}
    for added, killed in turns:
        live = np.array([key not in held for key in added], np.bool_)
        hashes = [f"{key} {index.rows}" for key in added]
        for at in np.flatnonzero(live).tolist():
            held[added[at]] = index.rows + at, hashes[at]
        index.add(pa.array(added, pa.string()), hashes, live)
        dying = sorted(killed & held.keys())
        index.kill(index.find(dying))
        for key in dying:
            del held[key]
        asked = [*held, "never"]
        assert index.find(asked).tolist() == [*(at for at, _ in held.values()), -1]
        assert len(index) == len(held) == (~index.dead(0, index.rows)).sum()
        rows = index.slice(pa.array(asked, pa.large_string()))
        assert rows.to_pydict() == {
            "record_key": list(held),
            "record_hash": [text for _, text in held.values()],
        }
        other = [*(text for _, text in held.values()), "h"]
        assert not np.any(index.compare(list(held), other[:-1]))
        new, changed = index.compare(asked, ["other"] * len(asked))
        assert new.tolist() == [False] * len(held) + [True]
        assert changed.tolist() == [True] * len(held) + [False]
