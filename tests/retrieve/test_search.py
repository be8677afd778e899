"""The stages of a search together: what each leaves to the next, on the real store."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ragwright.core import Chunk, Document, ModelUnavailableError, Span
from ragwright.flow import (
    BatchHandler,
    Chat,
    ChatReply,
    Embed,
    EmbedReply,
    HandlerSource,
    Lookup,
    Rerank,
    RerankReply,
    RetryPolicy,
    Runner,
    Search,
)
from ragwright.index import (
    IndexedDocument,
    IndexSpec,
    StoreOptions,
    ViewHandler,
    Views,
    open_store,
)
from ragwright.models import Analyzer, WordTokenizer
from ragwright.retrieve import (
    Glossary,
    IterateOptions,
    Meaning,
    QueryOptions,
    RerankOptions,
    Retrieved,
    RetrieveOptions,
    SelectOptions,
    SoftFilterOptions,
    Target,
    retrieve,
)

ANALYZER = Analyzer()
TEXTS = {
    "song": ("The song Hello Love is by Hank Snow.", "It was a song of 1974.", "old"),
    "singer": ("Hank Snow was a singer from Liverpool.", "Hank Snow sang a song often.", "new"),
    "town": ("The town of Liverpool has a harbour.", "Hank Snow was born near Liverpool.", "old"),
    "greeting": ("Hello is said at the door.", "Love is a word.", "new"),
}
QUESTION = "the song Hello Love"


def vectors(texts: Sequence[str]) -> np.ndarray[tuple[int, int], np.dtype[np.float32]]:
    words = ("song", "love", "snow", "liverpool")
    rows = [[0.5, *(text.lower().count(word) for word in words)] for text in texts]
    found = np.array(rows, np.float32)
    return np.asarray(found / np.linalg.norm(found, axis=1, keepdims=True), np.float32)


class Own(BatchHandler[Any, Any]):
    """Any model: what it is asked is kept, what it says is told."""

    def __init__(self, say: Callable[[Any], Any]) -> None:
        self.say = say
        self.asked: list[Any] = []

    def durable(self, request: Any) -> bool:
        return False

    def reply_to(self, requests: Sequence[Any]) -> Sequence[Any]:
        self.asked += requests
        return [self.say(request) for request in requests]


Ask = Callable[..., Retrieved]


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Target, Views]]:
    folder: Path = tmp_path_factory.mktemp("project")
    store = open_store(StoreOptions(), folder)
    spec = IndexSpec("whole", ANALYZER.spec, "words", 5)
    items = []
    for name, (first, second, age) in TEXTS.items():
        text = f"{first} {second}"
        document = Document(name, f"{name}.txt", text, name.title(), metadata={"age": age})
        cut = len(first) + 1
        spans = (Span(0, cut), Span(cut, len(text)))
        chunks = tuple(
            Chunk(f"{name}:{s.start}-{s.end}", name, n, s, text[s.start : s.end])
            for n, s in enumerate(spans)
        )
        items.append(IndexedDocument(document, chunks, vectors([c.text for c in chunks])))
    store.upsert(spec, items)
    views = Views(store)
    yield Target(store.snapshot(spec), "words", 5, analyzer=ANALYZER), views
    views.close()
    store.close()


@pytest.fixture
def ask(target: tuple[Target, Views]) -> Ask:
    found, views = target

    def run(
        question: str, more: dict[type, HandlerSource] | None = None, **settings: Any
    ) -> Retrieved:
        given = settings.pop("glossary_of", None)
        routes: dict[type, HandlerSource] = {
            Search: ViewHandler(views),
            Lookup: ViewHandler(views),
            Embed: Own(lambda request: EmbedReply(vectors(request.texts))),
            **(more or {}),
        }
        with Runner(routes, retry=RetryPolicy(attempts=1)) as runner:
            at = replace(found, glossary=given)
            return runner.run(retrieve(question, at, RetrieveOptions(**settings)))

    return run


READING = IterateOptions("m:x")
READER: dict[type, HandlerSource] = {
    Chat: Own(lambda _: ChatReply('{"satisfied": false, "answer": "Hank Snow", "next_query": ""}'))
}
"""A chat model that asks for one more round."""


def test_iterating_goes_beyond_the_first_round(ask: Ask) -> None:
    once = {hit.chunk_id for hit in ask(QUESTION, top_k=3, search="keyword").hits}
    again = ask(QUESTION, top_k=3, search="keyword", iterate=READING, more=READER)
    assert {hit.chunk_id for hit in again.hits} - once
    assert len(again.hits) == 3


@pytest.mark.parametrize("search", ["keyword", "hybrid"])
def test_iterating_keeps_the_rungs(ask: Ask, search: str) -> None:
    soft = (SoftFilterOptions("age", ("old",), weight=2.0),)
    found = ask(QUESTION, top_k=6, search=search, soft=soft, iterate=READING, more=READER)
    weights = [hit.rung.weight for hit in found.hits if hit.rung is not None]
    assert len(set(weights)) == 2
    assert len(weights) == len(found.hits)
    assert weights == sorted(weights, reverse=True)
    for weight in set(weights):
        scores = [h.score for h in found.hits if h.rung is not None and h.rung.weight == weight]
        assert scores == sorted(scores, reverse=True)


def test_iterating_keeps_the_caps_of_the_selection(ask: Ask) -> None:
    caps = SelectOptions(max_per={"document_id": 1})
    asked: dict[str, Any] = {"top_k": 3, "search": "keyword", "iterate": READING, "more": READER}
    free = ask("song of 1974", **asked)
    assert len(free.document_ids) < len(free.hits)
    found = ask("song of 1974", **asked, select=caps)
    assert len(found.hits) > 1
    assert len(found.document_ids) == len(found.hits)
    assert [hit.rank for hit in found.hits] == list(range(1, len(found.hits) + 1))


def test_channels_of_later_rounds_do_not_pass_for_similarities_to_the_question(ask: Ask) -> None:
    found = ask(QUESTION, top_k=3, pool=3, iterate=READING, more=READER)
    question = vectors([QUESTION])[0]
    for hit in found.hits:
        if "dense" in hit.channels:
            like = float(vectors([hit.text])[0] @ question)
            assert hit.channels["dense"].score == pytest.approx(like, abs=1e-5)
    assert any("hop dense" in hit.channels for hit in found.hits)


class Noting(BatchHandler[Any, Any]):
    """A handler whose replies carry a note, from the given request on."""

    def __init__(self, handler: Any, note: str, when: Callable[[Any], bool]) -> None:
        self.handler, self.note, self.when = handler, note, when

    def durable(self, request: Any) -> bool:
        return False

    def reply_to(self, requests: Sequence[Any]) -> Sequence[Any]:
        found = self.handler.reply_to(requests)
        return [
            replace(reply, notes=(*reply.notes, self.note)) if self.when(request) else reply
            for request, reply in zip(requests, found, strict=True)
        ]


def test_notes_of_later_rounds_are_told_once(ask: Ask, target: tuple[Target, Views]) -> None:
    def of_a_hop(request: Search) -> bool:
        return request.k > 1 and "Snow" in request.text

    search = Noting(ViewHandler(target[1]), "the primary failed", of_a_hop)
    found = ask(QUESTION, {Search: search, **READER}, search="keyword", iterate=READING)
    assert [note for note in found.notes if "primary" in note] == ["round 2: the primary failed"]
    every = Noting(ViewHandler(target[1]), "the primary failed", lambda request: True)
    found = ask(QUESTION, {Search: every, **READER}, search="keyword", iterate=READING)
    assert [note for note in found.notes if "primary" in note] == ["the primary failed"]


def test_notes_of_lookups_are_told(ask: Ask, target: tuple[Target, Views]) -> None:
    plain = Noting(ViewHandler(target[1]), "fetched by a scan", lambda r: not r.vectors)
    assert ask("song", {Lookup: plain}).notes == ("fetched by a scan",)
    rows = Noting(ViewHandler(target[1]), "vectors by a scan", lambda r: r.vectors)
    found = ask("1974 liverpool", {Lookup: rows}, pool=1, top_k=1, threshold=-1.0)
    assert "vectors by a scan" in found.notes


@pytest.mark.parametrize(
    ("method", "said"),
    [
        ("query2doc", "Snow wrote it."),
        ("subqueries", json.dumps({"queries": ["hello song", "love song"]})),
        ("rewrite", json.dumps({"query": "hello love song"})),
    ],
)
def test_reranking_asks_the_question_whatever_was_searched(
    ask: Ask, method: Any, said: str
) -> None:
    chat = Own(lambda request: ChatReply(said))
    ranker = Own(lambda request: RerankReply((1.0,) * len(request.passages)))
    found = ask(
        f"  {QUESTION} ",
        {Chat: chat, Rerank: ranker},
        query=QueryOptions((method,), "m:x", original=0.0),
        rerank=RerankOptions("m:ranker"),
    )
    assert chat.asked
    assert [request.query for request in ranker.asked] == [QUESTION]
    assert found.query == QUESTION


def test_a_failing_reranker_costs_no_hit(ask: Ask) -> None:
    ranker = Own(lambda request: ModelUnavailableError("m:ranker answered 500"))
    plain = ask(QUESTION, top_k=3)
    found = ask(QUESTION, {Rerank: ranker}, top_k=3, rerank=RerankOptions("m:ranker", candidates=2))
    assert [(hit.chunk_id, hit.score) for hit in found.hits] == [
        (hit.chunk_id, hit.score) for hit in plain.hits
    ]
    assert any("answered 500" in note for note in found.notes)


def test_a_meaning_does_not_beat_who_holds_the_code(ask: Ask) -> None:
    said = Glossary({"1974": (Meaning("near Liverpool, Snow"),)})
    glossary = QueryOptions(("glossary",))
    found = ask("1974", query=glossary, glossary_of=said)
    assert found.hits[0].chunk_id.startswith("song:")
    assert found.hits[0].channels["keyword"].rank == 1
    dense = ask("1974", search="dense", query=glossary, glossary_of=said)
    assert "Liverpool" in dense.hits[0].text
    assert set(dense.hits[0].channels) == {"dense"}


@pytest.mark.parametrize("tokens", [1, 12, 25, 60, 10_000])
def test_as_many_chunks_as_fit_into_the_tokens(ask: Ask, tokens: int) -> None:
    every = ask(QUESTION, top_k=100).hits
    found = ask(QUESTION, top_k=1, context_tokens=tokens).hits
    counter = WordTokenizer()
    sizes = [counter.count(hit.text) for hit in every]
    fit = sum(sum(sizes[: at + 1]) <= tokens for at in range(len(sizes)))
    assert [hit.chunk_id for hit in found] == [hit.chunk_id for hit in every[: max(fit, 1)]]
