"""The nouns: how a filter reads."""

from __future__ import annotations

from dataclasses import asdict

import pytest

from ragwright.core import Filter, FilterError, GoldSpan, Row, make_plain
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


def test_a_record_as_plain_values_is_a_copy_that_json_can_hold() -> None:
    spans = (GoldSpan("d", 0, 4, "text"),)
    row = Row("q", "What?", retrieved_spans=spans, metadata={"topics": ("a", "b"), "n": 1})
    made = make_plain(row)
    assert made == asdict(row)
    assert made["retrieved_spans"][0] == {"document_id": "d", "start": 0, "end": 4, "text": "text"}
    made["retrieved_spans"][0]["text"] = ""
    made["metadata"]["n"] = 2
    assert (row.retrieved_spans, row.metadata["n"]) == (spans, 1)
