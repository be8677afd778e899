"""Stages of plug-ins: held to their suite, and refused."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ragwright.core import Hit, PluginError
from ragwright.flow import Flow, Runner, search_keyword
from ragwright.retrieve import (
    Retrieved,
    RetrieveOptions,
    SoftFilterOptions,
    Stage,
    Target,
    open_stages,
    retrieve,
)
from ragwright.testing import (
    StageSuite,
    index_corpus,
)


class Reversing(Stage):
    name = "reversing"
    depth = 20

    def apply(self, question: str, hits: tuple[Hit, ...], target: Target) -> Flow[tuple[Hit, ...]]:
        yield from search_keyword(target.snapshot, "oil", 1)  # a stage may send requests
        last = len(hits)
        return tuple(replace(hit, score=float(last - at)) for at, hit in enumerate(reversed(hits)))


class TestStage(StageSuite):
    def make(self) -> Stage:
        return Reversing()


@pytest.fixture
def ask(tmp_path: Path) -> Iterator[Callable[..., Retrieved]]:
    with index_corpus(tmp_path) as (routes, target):

        def search(query: str, stages: tuple[Stage, ...] = (), **options: Any) -> Retrieved:
            with Runner(routes) as runner:
                staged = replace(target, stages=stages)
                return runner.run(retrieve(query, staged, RetrieveOptions(**options)))

        yield search


def test_stages_see_as_many_hits_as_they_ask_for(ask: Callable[..., Retrieved]) -> None:
    plain = ask("oil pump", top_k=20).hits
    result = ask("oil pump", (Reversing(),), top_k=3)
    assert [hit.chunk_id for hit in result.hits] == [hit.chunk_id for hit in plain[:-4:-1]]
    assert [hit.channels["reversing"].rank for hit in result.hits] == [1, 2, 3]


class Wrong(Stage):
    name = "wrong"

    def __init__(self, returned: Callable[[tuple[Hit, ...]], Any]) -> None:
        super().__init__()
        self._returned = returned

    def apply(self, question: str, hits: tuple[Hit, ...], target: Target) -> Flow[tuple[Hit, ...]]:
        yield from ()
        return self._returned(hits)  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    ("returned", "reason"),
    [
        (lambda hits: hits + hits, "a chunk twice"),
        (lambda hits: None, "not a tuple of hits"),
        (lambda hits: [hit.text for hit in hits], "not a tuple of hits"),
        (lambda hits: hits[99], "IndexError"),
        (lambda hits: (replace(hits[0], score=float("nan")),), "not a number"),
        (lambda hits: (*hits, replace(hits[0], chunk_id="invented")), "not in the index"),
    ],
)
def test_a_stage_that_fails_is_named(
    ask: Callable[..., Retrieved], returned: Callable[..., Any], reason: str
) -> None:
    with pytest.raises(PluginError, match=reason) as raised:
        ask("oil pump", (Wrong(returned),))
    assert "'wrong'" in str(raised.value)


class Function(Stage):
    name = "function"

    def apply(self, question: str, hits: tuple[Hit, ...], target: Target) -> Any:
        return hits


class Unfinished(Stage):
    name = "unfinished"


class Chunk(Reversing):
    name = "chunk"
    settings = SoftFilterOptions


def test_a_stage_that_is_no_flow_is_told_so(ask: Callable[..., Retrieved]) -> None:
    with pytest.raises(PluginError, match=r"apply is not a flow: write `yield from \(\)`"):
        ask("oil pump", (Function(),))


def test_stages_that_cannot_be_made_are_refused() -> None:
    with pytest.raises(PluginError, match="abstract"):
        open_stages([f"{__name__}:Unfinished"], lambda name: None)
    with pytest.raises(PluginError, match="section 'chunk'"):
        open_stages([f"{__name__}:Chunk"], lambda name: RetrieveOptions())


def test_settings_name_stages_by_address() -> None:
    here = __name__
    [stage] = open_stages([f"{here}:Reversing"], lambda name: None)
    assert isinstance(stage, Reversing)
    with pytest.raises(PluginError, match="not a stage"):
        open_stages([f"{here}:RetrieveOptions"], lambda name: None)
    with pytest.raises(PluginError, match="no installed package has the stage 'recency'"):
        open_stages(["recency"], lambda name: None)
