"""Stages and channels of plug-ins: held to their suites, fused, explained, and refused."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ragwright.core import ConfigError, Filter, Hit, PluginError
from ragwright.flow import Flow, Runner, Search, search_keyword
from ragwright.index import (
    Channel,
    ChannelIndex,
    Channels,
    StoreOptions,
    Views,
    open_store,
)
from ragwright.retrieve import (
    Retrieved,
    RetrieveOptions,
    SoftFilterOptions,
    Stage,
    Target,
    open_channels,
    open_stages,
    retrieve,
)
from ragwright.testing import (
    PAIR,
    ChannelSuite,
    StageSuite,
    indexed_corpus,
    make_document,
    make_indexed,
)


class WordCounts(ChannelIndex):
    def __init__(self, texts: Mapping[str, str]) -> None:
        self._texts = texts

    def search(
        self, text: str, k: int, allowed: Collection[str] | None
    ) -> Sequence[tuple[str, float]]:
        asked = set(re.findall(r"\w+", text.lower()))
        scores = {
            key: float(len(asked & set(words.lower().split())))
            for key, words in self._texts.items()
            if allowed is None or key in allowed
        }
        return sorted(((key, n) for key, n in scores.items() if n), key=lambda p: (-p[1], p[0]))[:k]


class WordChannel(Channel):
    name = "words"
    spec = "words/1"
    built: int = 0

    def build(self, chunks: Iterator[Hit], folder: Path, former: Path | None) -> None:
        type(self).built += 1
        texts = {chunk.chunk_id: chunk.text for chunk in chunks}
        (folder / "texts.json").write_text(json.dumps(texts), "utf-8")

    def open(self, folder: Path) -> ChannelIndex:
        return WordCounts(json.loads((folder / "texts.json").read_text("utf-8")))


class Reversing(Stage):
    name = "reversing"
    depth = 20

    def apply(self, question: str, hits: tuple[Hit, ...], target: Target) -> Flow[tuple[Hit, ...]]:
        yield from search_keyword(target.snapshot, "oil", 1)  # a stage may send requests
        last = len(hits)
        return tuple(replace(hit, score=float(last - at)) for at, hit in enumerate(reversed(hits)))


class TestChannel(ChannelSuite):
    def make(self) -> Channel:
        return WordChannel()


class TestStage(StageSuite):
    def make(self) -> Stage:
        return Reversing()


@pytest.fixture
def ask(tmp_path: Path) -> Iterator[Callable[..., Retrieved]]:
    with indexed_corpus(tmp_path, channels=lambda: (WordChannel(),)) as (routes, target):

        def search(query: str, stages: tuple[Stage, ...] = (), **options: Any) -> Retrieved:
            with Runner(routes) as runner:
                staged = replace(target, stages=stages)
                return runner.run(retrieve(query, staged, RetrieveOptions(**options)))

        yield search


def test_a_channel_is_fused_by_ranks_and_explained(ask: Callable[..., Retrieved]) -> None:
    result = ask("oil pump sensor", search="keyword")
    best = result.hits[0]
    assert {"keyword", "words"} <= best.channels.keys()
    places = [best.channels[name].rank for name in ("keyword", "words")]
    assert best.score == pytest.approx(sum(1 / (60 + place) for place in places), abs=1e-6)
    assert "words 1" in result.explanation.reason


def test_a_channel_is_built_once_for_a_snapshot(ask: Callable[..., Retrieved]) -> None:
    WordChannel.built = 0
    for query in ("oil", "pump", "sensor"):
        ask(query)
    assert WordChannel.built == 1


def test_views_without_a_folder_delete_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "channels").mkdir()
    monkeypatch.chdir(tmp_path)
    store = open_store(StoreOptions(), tmp_path / "project")
    views = Views(store)
    views.drop()
    views.close()
    store.close()
    assert (tmp_path / "channels").is_dir()


def test_an_earlier_state_of_the_index_stays_for_one_build(tmp_path: Path) -> None:
    store = open_store(StoreOptions(), tmp_path)
    channels, channel = Channels(tmp_path / "channels"), WordChannel()
    channels.add((channel,))
    for number in range(4):
        store.upsert(PAIR, [make_indexed(make_document(number))])
        view = store.view(PAIR)
        request = Search(view.snapshot, channel.key, 5, text="oil")
        assert channels.answer(view, request) == channels.answer(view, request)
        view.close()
    assert len(list((tmp_path / "channels").glob("*/*"))) == 2
    channels.drop()
    assert not (tmp_path / "channels").exists()
    store.close()


def test_soft_filters_leave_channels_out_with_a_note(ask: Callable[..., Retrieved]) -> None:
    result = ask("oil pump", soft=(SoftFilterOptions("client", ("client 3",)),))
    assert not any("words" in hit.channels for hit in result.hits)
    assert any("words" in note for note in result.notes)


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


@pytest.mark.parametrize(
    ("results", "reason"),
    [
        ([("a", 1.0), ("a", 0.5)], "a chunk twice"),
        ([("a", float("nan"))], "not a number"),
        (["a"], "not pairs"),
    ],
)
def test_a_channel_that_fails_is_named(tmp_path: Path, results: Any, reason: str) -> None:
    class Index(ChannelIndex):
        def search(
            self, text: str, k: int, allowed: Collection[str] | None
        ) -> Sequence[tuple[str, float]]:
            return results  # type: ignore[no-any-return]

    class Failing(WordChannel):
        name = "failing"

        def open(self, folder: Path) -> ChannelIndex:
            return Index()

    with (
        indexed_corpus(tmp_path, channels=lambda: (Failing(),)) as (routes, target),
        Runner(routes) as runner,
        pytest.raises(PluginError, match=reason),
    ):
        runner.run(retrieve("oil", target, RetrieveOptions()))


def test_a_channel_that_ignores_the_filters_is_refused(tmp_path: Path) -> None:
    class Leaking(WordCounts):
        def search(
            self, text: str, k: int, allowed: Collection[str] | None
        ) -> Sequence[tuple[str, float]]:
            return super().search(text, k, None)

    class Channel(WordChannel):
        def open(self, folder: Path) -> ChannelIndex:
            return Leaking(json.loads((folder / "texts.json").read_text("utf-8")))

    filters = (Filter("client", ("client 3",)),)
    with (
        indexed_corpus(tmp_path, channels=lambda: (Channel(),)) as (routes, target),
        Runner(routes) as runner,
        pytest.raises(PluginError, match="the filters exclude"),
    ):
        runner.run(retrieve("oil pump", target, RetrieveOptions(filters=filters)))


def test_settings_name_stages_and_channels_by_address() -> None:
    here = __name__
    [stage] = open_stages([f"{here}:Reversing"], lambda name: None)
    assert isinstance(stage, Reversing)
    [(channel, weight)] = open_channels(
        {f"{here}:WordChannel": 0.5, f"{here}:Other": 0.0}, lambda name: None
    )
    assert isinstance(channel, WordChannel)
    assert weight == 0.5
    with pytest.raises(PluginError, match="not a stage"):
        open_stages([f"{here}:WordChannel"], lambda name: None)
    with pytest.raises(PluginError, match="no installed package has the stage 'recency'"):
        open_stages(["recency"], lambda name: None)


def test_a_weight_below_zero_is_refused() -> None:
    with pytest.raises(ConfigError, match="words"):
        RetrieveOptions(channels={"words": -1.0})
