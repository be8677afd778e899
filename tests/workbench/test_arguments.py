"""What the methods of a workbench accept, and what they say to anything else."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from small_project import MakeProject

from ragwright import Workbench
from ragwright.core import ConfigError, FilterError
from ragwright.retrieve import parse_filter


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workbench]:
    with Workbench.open(MakeProject(tmp_path_factory.mktemp("arguments"))()) as opened:
        opened.ingest()
        yield opened


@pytest.mark.parametrize("wrong", [None, 3, ["brake"], b"brake"])
def test_a_question_that_is_no_text_is_refused_in_words(bench: Workbench, wrong: Any) -> None:
    for refused in (
        lambda: bench.ask(wrong),
        lambda: bench.retrieve(wrong),
        lambda: asyncio.run(bench.aask(wrong)),
        lambda: asyncio.run(bench.aretrieve(wrong)),
    ):
        with pytest.raises(ConfigError, match="must be a text, not"):
            refused()


@pytest.mark.parametrize("wrong", [3, ["engineer"], b"engineer"])
def test_a_persona_that_is_no_name_is_refused_in_words(bench: Workbench, wrong: Any) -> None:
    with pytest.raises(ConfigError, match="the persona must be a text, not"):
        bench.ask("When is the brake fluid changed?", wrong)


@pytest.mark.parametrize("wrong", ["3", 2.5, 0, -1, True, [3]])
def test_a_number_of_hits_that_is_none_is_refused_in_words(bench: Workbench, wrong: Any) -> None:
    with pytest.raises(ConfigError, match="k must be a whole number from 1, not"):
        bench.retrieve("brake fluid", k=wrong)
    assert len(bench.retrieve("brake fluid", k=np.int64(1))) == 1  # type: ignore[arg-type]


def test_the_hits_of_a_search_are_a_sequence(bench: Workbench) -> None:
    found = bench.retrieve("How often must the brake fluid be changed?", 2)
    assert [hit.rank for hit in found] == [1, 2]
    assert len(found) == len(found.hits) == 2
    assert found[0] is found.hits[0]
    assert found[-1] is found.hits[-1]
    assert found[:1] == found.hits[:1]
    assert found.hits[1] in found
    nothing = bench.retrieve("zzzyqx")
    assert list(nothing) == []
    assert nothing  # a search that found nothing is a result too


def test_a_search_takes_filters_as_the_command_does(bench: Workbench) -> None:
    query = "What does the code mean, and when is the brake fluid changed?"
    sources = {Path(hit.source).name for hit in bench.retrieve(query, 5)}
    assert sources == {"codes.md", "service.md"}
    for filters in ("title=Warning codes", ["title=Warning codes"], parse_filter("title!=x")):
        found = bench.retrieve(query, 5, filters=filters)
        assert len(found) > 0
        if filters != parse_filter("title!=x"):
            assert {Path(hit.source).name for hit in found} == {"codes.md"}
    with pytest.raises(FilterError):
        bench.retrieve(query, filters="nonsense")
    with pytest.raises(ConfigError, match="a filter must be a text, not 3"):
        bench.retrieve(query, filters=[3])  # type: ignore[list-item]
