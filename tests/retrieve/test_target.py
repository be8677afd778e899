"""Stages of plug-ins, held to their suite or refused, and hooks between the stages of a search."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
from counted_index import CountedIndex, Own

from ragwright.core import Hit, PluginError
from ragwright.flow import Flow, Rerank, RerankReply, search_keyword
from ragwright.retrieve import (
    RerankOptions,
    Retrieved,
    RetrieveOptions,
    SoftFilterOptions,
    Stage,
    StageHooks,
    Target,
    open_stages,
    retrieve,
)
from ragwright.testing import StageSuite


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CountedIndex]:
    texts: Any = {f"d{n}": ([f"words {'and more ' * n}"], {}) for n in range(6)}
    made = CountedIndex(tmp_path_factory.mktemp("stages"), texts, ("words",))
    yield made
    made.close()


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


class Unfinished(Stage):
    name = "unfinished"


class Chunk(Reversing):
    name = "chunk"
    settings = SoftFilterOptions


class Function(Stage):
    name = "wrong"

    def apply(self, question: str, hits: tuple[Hit, ...], target: Target) -> Any:
        return hits


class Wrong(Stage):
    name = "wrong"

    def __init__(self, returned: Callable[[tuple[Hit, ...]], Any]) -> None:
        super().__init__()
        self._returned = returned

    def apply(self, question: str, hits: tuple[Hit, ...], target: Target) -> Flow[tuple[Hit, ...]]:
        yield from ()
        return self._returned(hits)  # type: ignore[no-any-return]


def test_stages_see_as_many_hits_as_they_ask_for(index: CountedIndex) -> None:
    found = index.ask("words", top_k=3, stages=(Reversing(),)).hits
    assert [hit.document_id for hit in found] == ["d5", "d4", "d3"]
    assert [hit.channels["reversing"].rank for hit in found] == [1, 2, 3]


@pytest.mark.parametrize(
    ("stage", "reason"),
    [
        (Wrong(lambda hits: hits + hits), "a chunk twice"),
        (Wrong(lambda hits: None), "not a tuple of hits"),
        (Wrong(lambda hits: [hit.text for hit in hits]), "not a tuple of hits"),
        (Wrong(lambda hits: hits[99]), "IndexError"),
        (Wrong(lambda hits: (replace(hits[0], score=float("nan")),)), "not a number"),
        (Wrong(lambda hits: (*hits, replace(hits[0], chunk_id="invented"))), "not in the index"),
        (Function(), r"apply is not a flow: write `yield from \(\)`"),
    ],
)
def test_a_stage_that_fails_is_named(index: CountedIndex, stage: Stage, reason: str) -> None:
    with pytest.raises(PluginError, match=reason) as raised:
        index.ask("words", stages=(stage,))
    assert "'wrong'" in str(raised.value)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        (f"{__name__}:Unfinished", "abstract"),
        (f"{__name__}:Chunk", "section 'chunk'"),
        (f"{__name__}:RetrieveOptions", "not a stage"),
        ("recency", "no installed package has the stage 'recency'"),
    ],
)
def test_settings_name_stages_by_address_and_others_are_refused(name: str, said: str) -> None:
    [stage] = open_stages([f"{__name__}:Reversing"], lambda name: None)
    assert isinstance(stage, Reversing)
    with pytest.raises(PluginError, match=said):
        open_stages([name], lambda name: RetrieveOptions())


class Looking(StageHooks):
    depth = 5

    def __init__(self) -> None:
        self.seen: list[tuple[str, list[str]]] = []

    def after_search(self, hits: tuple[Hit, ...]) -> tuple[Hit, ...]:
        return self._note("pooled", hits)

    def after_rerank(self, hits: tuple[Hit, ...]) -> tuple[Hit, ...]:
        return self._note("ordered", hits)

    def after_selection(self, hits: tuple[Hit, ...]) -> tuple[Hit, ...]:
        return self._note("kept", hits)

    def _note(self, stage: str, hits: tuple[Hit, ...]) -> tuple[Hit, ...]:
        self.seen.append((stage, [one.document_id for one in hits]))
        return hits


class Adding(StageHooks):
    def __init__(self, hit: Hit) -> None:
        self.hit = hit

    def after_search(self, hits: tuple[Hit, ...]) -> tuple[Hit, ...]:
        return (replace(self.hit, chunk_id="own", document_id="own", score=10.0), *hits)

    def after_selection(self, hits: tuple[Hit, ...]) -> tuple[Hit, ...]:
        return (*hits, replace(self.hit, chunk_id="late", document_id="late"))


def test_hooks_see_every_stage_and_what_they_put_in_goes_on(index: CountedIndex) -> None:
    turned = Own(lambda request: RerankReply(tuple(float(n) for n in range(len(request.passages)))))
    plain = RetrieveOptions(top_k=2, search="keyword")
    ranked = replace(plain, rerank=RerankOptions("st:any", candidates=3))

    def found(options: RetrieveOptions, hooks: StageHooks | None = None) -> Retrieved:
        made: Retrieved = index.run(
            retrieve("words", index.target, options, hooks), {Rerank: turned}
        )
        return made

    looking = Looking()
    assert found(ranked, looking) == found(ranked)
    assert looking.seen == [
        ("pooled", ["d0", "d1", "d2", "d3", "d4"]),
        ("ordered", ["d2", "d1", "d0", "d3", "d4"]),  # the model is shown three of them
        ("kept", ["d2", "d1"]),
    ]
    adding = Adding(found(plain).hits[0])
    assert found(plain, adding).document_ids == ("own", "d0", "late")
    assert found(ranked, adding).document_ids == ("d1", "d0", "late")
