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

from ragwright.core import RecordsError
from ragwright.records.tables import (
    HashedKeys,
    KeyIndex,
    KnownRows,
    hash_keys,
    pack_hashes,
    write_hashes,
)

NUMBERS = st.integers(0, 40)


def hashed(numbers: list[int]) -> HashedKeys:
    """Keys of which many share their first hash, and some their second."""
    values = np.array(numbers, np.uint64)
    return HashedKeys(values % np.uint64(3), values // np.uint64(3))


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(st.lists(st.tuples(st.lists(NUMBERS, unique=True), st.sets(NUMBERS)), max_size=12))
def test_an_index_is_a_dictionary(turns: list[tuple[list[int], set[int]]]) -> None:
    index = KeyIndex()
    held: dict[int, int] = {}
    for added, killed in turns:
        new = [number for number in added if number not in held]
        live = np.array([number in new for number in added], np.bool_)
        packed = np.array([[n, index.rows] for n in added], np.uint64).reshape(-1, 2)
        held |= {n: index.rows + at for at, n in enumerate(added) if n in new}
        index.add(hashed(new), packed, live)
        dying = sorted(killed & held.keys())
        index.kill(index.find(hashed(dying)))
        for number in dying:
            del held[number]
        assert index.find(hashed(list(range(41)))).tolist() == [held.get(n, -1) for n in range(41)]
        assert index.alive == len(held)
        found = index.find(hashed(list(held)))
        assert index.hashes(found)[:, 0].tolist() == list(held)
        assert (~index.dead(0, index.rows)).sum() == len(held)


@pytest.mark.slow
@given(st.lists(st.lists(NUMBERS, unique=True), max_size=6), st.randoms())
def test_filling_is_adding(parts: list[list[int]], chance: object) -> None:
    seen: set[int] = set()
    one, other = KeyIndex(), KeyIndex()
    rows = []
    for part in parts:
        live = np.array([number not in seen for number in part], np.bool_)
        seen |= set(part)
        packed = np.array([[n, n] for n in part], np.uint64).reshape(-1, 2)
        rows.append((hashed([n for n, ok in zip(part, live, strict=True) if ok]), packed, live))
    one.fill(rows)
    for row in rows:
        other.add(*row)
    asked = hashed(list(range(41)))
    assert one.find(asked).tolist() == other.find(asked).tolist()
    assert (one.rows, one.alive) == (other.rows, other.alive)


@pytest.mark.slow
@given(st.lists(st.binary(min_size=16, max_size=16)))
def test_hashes_come_back_as_they_were(values: list[bytes]) -> None:
    texts = [value.hex() for value in values]
    assert write_hashes(pack_hashes(texts)).to_pylist() == texts
    padded = pa.array(["0" * 32, *texts, "f" * 32])
    assert write_hashes(pack_hashes(padded.slice(1, len(texts)))).to_pylist() == texts
    assert write_hashes(pack_hashes(pa.chunked_array([texts, texts]))).to_pylist() == texts * 2


@pytest.mark.parametrize("wrong", ["", "0" * 31, "0" * 33, "A" * 32, "g" * 32, " " * 32, "é" * 16])
def test_a_hash_that_is_none_is_named(wrong: str) -> None:
    with pytest.raises(RecordsError, match=r"(?s)is not 32 hexadecimal digits.*row 2"):
        pack_hashes(["0" * 32, wrong])


@given(st.lists(st.text(max_size=4)))
def test_the_first_key_that_comes_again_is_found(keys: list[str]) -> None:
    again = next((at for at, key in enumerate(keys) if key in keys[:at]), None)
    assert hash_keys(keys).repeated() == again


def test_keys_of_any_text_are_told_apart() -> None:
    keys = ["", "a", "A", "a ", "é", "e\u0301", "\0", "\0\0", "🙂", "x" * 10_000]
    index = KeyIndex()
    packed = pack_hashes([f"{at:032x}" for at in range(len(keys))])
    index.add(hash_keys(keys), packed, np.ones(len(keys), np.bool_))
    known = KnownRows(index)
    asked = pa.array(list(reversed(keys)), pa.large_string())
    assert known.slice(asked).column("record_key").to_pylist() == list(reversed(keys))
    assert known.compare(["b", "\0\0\0"], ["0" * 32] * 2)[0].tolist() == [True, True]


def test_a_million_keys_take_little_memory() -> None:
    index = KeyIndex()
    rows = 100_000
    for start in range(0, rows, 10_000):
        texts = [f"row-{number:09d}" for number in range(start, start + 10_000)]
        packed = np.zeros((10_000, 2), np.uint64)
        index.add(hash_keys(texts), packed, np.ones(10_000, np.bool_))
    assert index.bytes < 70 * rows
