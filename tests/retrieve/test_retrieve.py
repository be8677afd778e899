"""Retrieval as a flow, driven by a runner over a tiny index held in memory."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pytest

from ragwright.core import (
    Filter,
    Hit,
    RagwrightError,
    RetrieveError,
)
from ragwright.flow import (
    BatchHandler,
    Embed,
    EmbedReply,
    Lookup,
    LookupReply,
    Runner,
    Search,
    SearchReply,
)
from ragwright.retrieve import ChannelWeights, Retrieved, RetrieveOptions, Target, retrieve, rrf

KEYWORD = Target("s1")
HYBRID = Target("s1", "test:tiny", 2)

CORPUS = {
    "alpha:0-9": ("red pump", (1.0, 0.0)),
    "beta:0-9": ("blue valve", (0.6, 0.8)),
    "beta:9-20": ("red valve", (0.8, 0.6)),
    "gamma:0-9": ("blue pump", (0.0, 1.0)),
}


class Tiny(BatchHandler[object, object]):
    """A whole index and embedder: words shared for keyword, dot product for dense."""

    def __init__(self) -> None:
        self.seen: list[object] = []
        self.vector: Sequence[float] = (1.0, 0.0)

    def durable(self, request: object) -> bool:
        return False

    def reply_to(self, requests: Sequence[object]) -> Sequence[object]:
        self.seen += requests
        return [self._one(request) for request in requests]

    def _one(self, request: object) -> object:
        if isinstance(request, Embed):
            return EmbedReply(np.array([self.vector], dtype=np.float32))
        if isinstance(request, Lookup):
            return LookupReply(tuple(stored(key) for key in request.chunk_ids))
        assert isinstance(request, Search)
        return SearchReply(self.search(request))

    def search(self, request: Search) -> tuple[tuple[str, float], ...]:
        if request.channel == "keyword":
            words = set(request.text.lower().split())
            shared = {key: len(words & set(text.split())) for key, (text, _) in CORPUS.items()}
            scores = {key: float(n) for key, n in shared.items() if n}
        else:
            query = np.frombuffer(request.vector, np.float32)
            scores = {key: float(np.dot(query, v)) for key, (_, v) in CORPUS.items()}
        found = sorted(((k, round(s, 6)) for k, s in scores.items()), key=lambda p: (-p[1], p[0]))
        return tuple(found[: request.k])


def stored(key: str) -> Hit:
    document, _, span = key.rpartition(":")
    start, end = map(int, span.split("-"))
    return Hit(
        0, 0.0, document, key, f"{document}.txt", document.title(), 3, start, end, CORPUS[key][0]
    )


@pytest.fixture
def tiny() -> Tiny:
    return Tiny()


Ask = Callable[..., Retrieved]


@pytest.fixture
def ask(tiny: Tiny) -> Iterator[Ask]:
    routes = {Search: tiny, Lookup: tiny, Embed: tiny}
    with Runner(routes) as runner:
        yield lambda query, target=HYBRID, **settings: runner.run(
            retrieve(query, target, RetrieveOptions(**settings))
        )


def test_keyword_hits_carry_rank_score_and_address(ask: Ask) -> None:
    found = ask("red pump", KEYWORD)
    assert found.mode == "keyword"
    assert [hit.rank for hit in found.hits] == [1, 2, 3]
    best = found.hits[0]
    assert (best.document_id, best.source, best.page, best.text) == (
        "alpha",
        "alpha.txt",
        3,
        "red pump",
    )
    assert best.score == best.channels["keyword"].score
    assert best.channels.keys() == {"keyword"}


@pytest.mark.parametrize("search", ["auto", "keyword"])
def test_keyword_search_without_vectors_is_told_by_the_mode_alone(ask: Ask, search: str) -> None:
    found = ask("red", KEYWORD, search=search)
    assert found.mode == "keyword"
    assert found.notes == ()


def test_auto_with_vectors_fuses_both_channels(ask: Ask, tiny: Tiny) -> None:
    found = ask("blue pump", fusion="rrf")
    assert found.mode == "hybrid"
    vector = np.array(tiny.vector, dtype=np.float32).tobytes()
    searches = (
        Search("s1", "keyword", 100, text="blue pump"),
        Search("s1", "dense", 100, vector=vector),
    )
    lists = [[key for key, _ in tiny.search(search)] for search in searches]
    assert [(hit.chunk_id, hit.score) for hit in found.hits] == rrf(lists)
    for hit in found.hits:
        for name, ids in zip(("keyword", "dense"), lists, strict=True):
            assert (name in hit.channels) == (hit.chunk_id in ids)
            if name in hit.channels:
                assert hit.channels[name].rank == ids.index(hit.chunk_id) + 1


def test_dense_scores_are_cosines_whatever_the_length_of_the_vector(ask: Ask, tiny: Tiny) -> None:
    short = ask("anything", search="dense")
    tiny.vector = (5.0, 0.0)
    assert [h.score for h in ask("anything else", search="dense").hits] == [
        h.score for h in short.hits
    ]
    dot = Target("s1", "test:tiny", 2, "dot")
    assert ask("anything at all", dot, search="dense").hits[0].score == 5.0


def test_top_k_bounds_the_hits_and_the_pool_the_candidates(ask: Ask, tiny: Tiny) -> None:
    assert len(ask("red blue pump valve", top_k=2).hits) == 2
    ask("red", KEYWORD, top_k=7, pool=3)
    asked = [r.k for r in tiny.seen if isinstance(r, Search)]
    assert asked[0] == 100
    assert asked[-1] == 7  # never fewer candidates than hits wanted


def test_weights_shift_the_fusion(ask: Ask) -> None:
    lexical = ask("blue pump", weights=ChannelWeights(keyword=10.0, dense=1.0))
    dense = ask("blue pump", weights=ChannelWeights(keyword=1.0, dense=10.0))
    assert lexical.hits[0].chunk_id == "gamma:0-9"
    assert dense.hits[0].chunk_id == "alpha:0-9"


def test_a_channel_of_weight_zero_is_not_searched(ask: Ask, tiny: Tiny) -> None:
    found = ask("blue pump", weights=ChannelWeights(keyword=1.0, dense=0.0))
    assert found.mode == "keyword"
    assert any("weight" in note for note in found.notes)
    assert not [r for r in tiny.seen if isinstance(r, Embed)]
    with pytest.raises(RetrieveError, match="weight"):
        ask("blue", weights=ChannelWeights(0.0, 0.0))


def test_filters_reach_every_channel(ask: Ask, tiny: Tiny) -> None:
    wanted = (Filter("topic", ("pumps",)),)
    ask("red", filters=wanted)
    assert [r.filters for r in tiny.seen if isinstance(r, Search)] == [wanted, wanted]


def test_several_chunks_of_a_document_are_one_document(ask: Ask) -> None:
    found = ask("valve", KEYWORD)
    assert [hit.document_id for hit in found.hits] == ["beta", "beta"]
    assert found.document_ids == ("beta",)


@pytest.mark.parametrize("query", ["", "   ", "\n\t"])
def test_an_empty_query_is_refused(ask: Ask, query: str) -> None:
    with pytest.raises(RetrieveError, match="empty"):
        ask(query)


def test_a_very_long_query_is_cut_and_says_so(ask: Ask, tiny: Tiny) -> None:
    query = "pump " * 4_000
    assert len(query) == 20_000
    found = ask(query, KEYWORD, search="keyword")
    assert found.hits
    limit = RetrieveOptions().max_query_chars
    assert any("20000" in note and str(limit) in note for note in found.notes)
    sent = next(r.text for r in tiny.seen if isinstance(r, Search))
    assert len(sent) <= limit
    assert set(sent.split()) == {"pump"}  # no word is cut in two


def test_one_endless_word_is_cut_inside(ask: Ask, tiny: Tiny) -> None:
    found = ask("x" * 100, KEYWORD, search="keyword", max_query_chars=10)
    assert found.query == "x" * 10


def test_a_query_without_keyword_hits_says_so(ask: Ask) -> None:
    found = ask("of the", KEYWORD)
    assert found.hits == ()
    assert any("stop words" in note for note in found.notes)
    hybrid = ask("of the")
    assert hybrid.hits
    assert any("no keyword hits" in note for note in hybrid.notes)


@pytest.mark.parametrize("search", ["dense", "hybrid"])
def test_vectors_that_are_not_there_are_not_replaced_silently(ask: Ask, search: str) -> None:
    with pytest.raises(RetrieveError, match="vectors"):
        ask("red", KEYWORD, search=search)


@pytest.mark.parametrize("vector", [(1.0, 0.0, 0.0), (float("nan"), 0.0), (0.0, 0.0)])
def test_a_wrong_query_vector_is_refused(ask: Ask, tiny: Tiny, vector: tuple[float, ...]) -> None:
    tiny.vector = vector
    with pytest.raises(RetrieveError, match="test:tiny"):
        ask("red", search="dense")


def test_queries_are_normalised_as_documents_are(ask: Ask) -> None:
    decomposed = unicodedata.normalize("NFD", "écran cassé")
    assert ask(decomposed, KEYWORD).query == "écran cassé"
    ask("red \ud800 pump", KEYWORD).query.encode("utf-8")


def test_an_index_that_loses_chunks_is_an_error(tiny: Tiny) -> None:
    class Forgetful(Tiny):
        def _one(self, request: object) -> object:
            return LookupReply(()) if isinstance(request, Lookup) else super()._one(request)

    handler = Forgetful()
    with Runner({Search: handler, Lookup: handler}) as runner, pytest.raises(RagwrightError):
        runner.run(retrieve("red", KEYWORD, RetrieveOptions()))
