"""The nouns: how a filter reads."""

from __future__ import annotations

import pytest

from ragwright.core import Filter, FilterError
from ragwright.retrieve import parse_filter


@pytest.mark.parametrize(
    ("made", "typed"),
    [
        (Filter("client", ("North", "South")), "client=North|South"),
        (Filter("year", low=2019, high=2021), "year=2019..2021"),
        (Filter("year", low=2019), "year=2019.."),
        (Filter("year", high=2021), "year=..2021"),
        (Filter("kind", ("record",), exclude=True), "kind!=record"),
        (Filter("client", ("North", "South"), exclude=True), "client!=North|South"),
        (Filter("year", low=2019, high=2021, exclude=True), "year!=2019..2021"),
    ],
)
def test_a_filter_reads_as_it_is_typed(made: Filter, typed: str) -> None:
    assert str(made) == typed
    assert str(parse_filter(typed)) == typed


def test_python_writes_an_excluding_filter_as_one_and_the_others_as_ever() -> None:
    """Manifests of runs hold this text."""
    plain = Filter("year", ("a",), low=2019)
    assert repr(plain) == "Filter(field='year', values=('a',), low=2019, high=None)"
    for one in (plain, Filter("kind", ("record",), exclude=True)):
        assert eval(repr(one)) == one
    assert plain != Filter("year", ("a",), low=2019, exclude=True)


@pytest.mark.parametrize("name", ["wow!", "wow! "])
def test_a_field_that_would_read_as_its_opposite_is_refused(name: str) -> None:
    with pytest.raises(FilterError, match="ends in '!'"):
        Filter(name, ("x",))
