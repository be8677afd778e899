"""The nouns: how a filter reads."""

from __future__ import annotations

import pytest

from ragwright.core import Filter
from ragwright.retrieve import parse_filter


@pytest.mark.parametrize(
    ("made", "typed"),
    [
        (Filter("client", ("North", "South")), "client=North|South"),
        (Filter("year", low=2019, high=2021), "year=2019..2021"),
        (Filter("year", low=2019), "year=2019.."),
        (Filter("year", high=2021), "year=..2021"),
    ],
)
def test_a_filter_reads_as_it_is_typed(made: Filter, typed: str) -> None:
    assert str(made) == typed
    assert str(parse_filter(typed)) == typed
