"""One hash for one value, however it is held."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, strategies as st

from ragwright.core import value_hash, values_hash

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)


@pytest.mark.slow
@given(st.lists(VALUES))
def test_values_one_at_a_time_have_the_hash_of_their_list(values: list[Any]) -> None:
    def read() -> Iterator[Any]:
        yield from values

    assert values_hash(read()) == value_hash(values)
