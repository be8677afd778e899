"""Wordings, soft filters, notes and explanations, through a runner on the real store."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest

from ragwright.core import Chunk, ConfigError, Document, FilterError, RetrieveError, Span
from ragwright.flow import BatchHandler, Embed, EmbedReply, Lookup, Route, Runner, Search
from ragwright.index import (
    IndexedDocument,
    LookupHandler,
    Pair,
    SearchHandler,
    StoreOptions,
    Views,
    open_store,
)
from ragwright.models import Analyzer, WordTokenizer
from ragwright.retrieve import (
    Candidates,
    Retrieved,
    RetrieveOptions,
    SoftFilterOptions,
    Target,
    Variant,
    candidates,
    explain,
    retrieve,
    rrf,
)

TEXTS = {
    "pump": ("Fault E1234: the pump is blocked; clean its filter.", "acme", 2020),
    "valve": ("The valve leaks: replace its seal and open it again.", "acme", 2022),
    "motor": ("Motor too hot: wait, then clean the fan.", "zenith", 2021),
    "list": ("E1200 E1234 E1300 " + "and many other codes of old machines " * 40, "zenith", 1999),
}
ANALYZER = Analyzer()


def vector(text: str) -> np.ndarray[tuple[int], np.dtype[np.float32]]:
    words = ("pump", "valve", "motor", "clean")
    found = np.array([0.3, *(text.lower().count(word) for word in words)], np.float32)
    return np.asarray(found / np.linalg.norm(found), np.float32)


class Counts(BatchHandler[Embed, EmbedReply]):
    """Embeds by counting four words; remembers in which role it was asked."""

    def __init__(self) -> None:
        self.roles: list[str] = []

    def durable(self, request: Embed) -> bool:
        return False

    def carry(self, requests: Sequence[Embed]) -> Sequence[EmbedReply]:
        self.roles += [request.role for request in requests]
        return [EmbedReply(np.stack([vector(t) for t in r.texts])) for r in requests]


Run = Callable[..., Candidates]
Ask = Callable[..., Retrieved]


@pytest.fixture
def counts() -> Counts:
    return Counts()


@pytest.fixture
def opened(tmp_path: Path, counts: Counts) -> Iterator[tuple[Runner, Target]]:
    store = open_store(StoreOptions(), tmp_path)
    pair = Pair("whole", ANALYZER.spec, "counts", 5)
    items = []
    for name, (text, client, year) in TEXTS.items():
        document = Document(name, name, text, metadata={"client": client, "year": year})
        chunk = Chunk(name, name, 0, Span(0, len(text)), text)
        items.append(IndexedDocument(document, (chunk,), vector(text)[None]))
    store.upsert(pair, items)
    views = Views(store)
    target = Target(store.snapshot(pair), "counts", 5, analyzer=ANALYZER, tokenizer=WordTokenizer())
    routes: dict[type, Route] = {
        Search: SearchHandler(views),
        Lookup: LookupHandler(views),
        Embed: counts,
    }
    with Runner(routes) as runner:
        yield runner, target
    store.close()


@pytest.fixture
def run(opened: tuple[Runner, Target]) -> Run:
    runner, target = opened
    return lambda query, **settings: runner.run(
        candidates(query, target, RetrieveOptions(**settings))
    )


@pytest.fixture
def ask(opened: tuple[Runner, Target]) -> Ask:
    runner, target = opened
    return lambda query, **settings: runner.run(
        retrieve(query, target, RetrieveOptions(**settings))
    )


def ids(found: Candidates) -> list[str]:
    return [key for key, _ in found.ranking]


def test_a_query_is_one_wording(run: Run) -> None:
    assert run("clean the pump") == run(Variant("clean the pump", "clean the pump"))


def test_who_holds_the_code_comes_before_who_does_not(run: Run) -> None:
    found = run("I see E1234, what should I do?")
    assert set(ids(found)[:2]) == {"pump", "list"}
    assert found.explanation.weights["keyword"] > RetrieveOptions().keyword_share
    assert "holds" in found.explanation.reason


def test_a_page_that_lists_a_code_beats_short_pages_without_it(run: Run) -> None:
    found = run("machine codes: which pump has E1300", search="keyword")
    assert ids(found)[0] == "list"


def test_fixed_weights_are_those_of_the_settings(run: Run) -> None:
    found = run("clean the pump", fusion="weighted", keyword_share=0.3)
    assert found.explanation.weights == {"keyword": 0.3, "dense": 0.7}
    dense = run("clean the pump", fusion="weighted", keyword_share=0.0)
    assert ids(dense) == ids(run("clean the pump", search="dense"))


def test_wordings_are_fused_by_rank_and_weight(run: Run) -> None:
    one, two = "clean the pump", "leaking valve"
    found = run([Variant(one, one), Variant(two, two, weight=3.0)])
    lists = [ids(run(text)) for text in (one, two)]
    assert list(found.ranking) == rrf(lists, weights=(1.0, 3.0))
    assert set(found.channels) == {"keyword", "dense", "keyword 2", "dense 2"}
    assert found.query == one
    assert {"pump", "valv"} <= {term.token for term in found.explanation.terms}


def test_a_passage_is_embedded_as_one_and_needs_no_keywords(run: Run, counts: Counts) -> None:
    found = run([Variant("pump", "pump"), Variant("", "valve valve", passage=True)])
    assert sorted(counts.roles) == ["passage", "query"]
    assert set(found.channels) == {"keyword", "dense", "dense 2"}


@pytest.mark.parametrize("query", [[], [Variant("", "")], [Variant("a", "a", weight=0.0)], "  "])
def test_nothing_to_search_is_refused(run: Run, query: object) -> None:
    with pytest.raises(RetrieveError, match="empty"):
        run(query)


@pytest.mark.parametrize("search", ["keyword", "dense", "hybrid"])
@pytest.mark.parametrize("fusion", ["adaptive", "weighted", "rrf"])
def test_soft_filters_rank_before_scores(run: Run, search: str, fusion: str) -> None:
    soft = (
        SoftFilterOptions("client", ("zenith",), weight=2.0),
        SoftFilterOptions("year", low=2021, weight=1.0),
    )
    found = run("clean the pump, E1234", search=search, fusion=fusion, soft=soft)
    weights = [found.rungs[key].weight for key in ids(found)]
    assert weights == sorted(weights, reverse=True)
    assert {key: found.rungs[key].weight for key in ids(found)}.items() <= {
        "motor": 3.0,
        "list": 2.0,
        "valve": 1.0,
        "pump": 0.0,
    }.items()
    assert found.explanation.ladder[0][0] == ("client = zenith", "2021 <= year")


def test_hits_carry_their_rung(ask: Ask) -> None:
    hits = ask("clean the pump", soft=(SoftFilterOptions("client", ("zenith",)),)).hits
    assert hits[0].rung is not None
    assert hits[0].rung.weight == 1.0
    assert [f.field for f in hits[-1].rung.missed] == ["client"]  # type: ignore[union-attr]


def test_the_last_rung_can_be_left_out(run: Run) -> None:
    soft = (SoftFilterOptions("client", ("zenith",)),)
    assert set(ids(run("clean the pump", soft=soft, unfiltered=False))) <= {"motor", "list"}


def test_every_hybrid_hit_reaches_the_threshold(run: Run) -> None:
    dense = dict(run("clean the pump", search="dense").ranking)
    for threshold in (0.2, 0.6, 2.0):
        found = run("clean the pump E1234", threshold=threshold, search="hybrid")
        near = dict(run("clean the pump E1234", search="dense", threshold=threshold).ranking)
        assert set(ids(found)) == set(near)
        assert all(score >= threshold for score in near.values())
    assert dense


def test_a_soft_filter_without_a_condition_is_refused(run: Run) -> None:
    with pytest.raises(FilterError):
        run("pump", soft=(SoftFilterOptions("client"),))


@pytest.mark.parametrize("settings", [{"fusion": "sum"}, {"keyword_share": 1.5}])
def test_settings_that_make_no_sense_are_refused(settings: dict[str, object]) -> None:
    with pytest.raises(ConfigError):
        RetrieveOptions(**settings)  # type: ignore[arg-type]


def test_notes_tell_stop_words_from_words_that_are_not_there(run: Run) -> None:
    assert "only stop words" in run("of the and").notes[0]
    assert run("gearbox housing").notes == ("no keyword hits: not in the index: gearbox, hous",)
    absent = run("pump E9999").notes
    assert absent == ("codes that are not in the index: e9999, 9999",)
    assert run("clean the pump").notes == ()


def test_an_explanation_shows_terms_pieces_and_matches(ask: Ask, opened: object) -> None:
    assert isinstance(opened, tuple)
    found = ask("Why does E1234 block the pump?")
    why = explain(found, opened[1])
    assert [term.token for term in why.terms] == ["e1234", "1234", "block", "pump"]
    assert {term.token: term.chunks for term in why.terms}["e1234"] == 2
    assert "E1234" in why.pieces
    assert why.matched["pump"] == ("e1234", "1234", "block", "pump")
    assert why.matched["list"] == ("e1234", "1234")
    assert sum(why.weights.values()) == pytest.approx(1.0)


def test_without_analyzer_and_tokenizer_an_explanation_is_shorter(ask: Ask) -> None:
    found = ask("pump")
    why = explain(found, Target("s"))
    assert why.terms
    assert (why.pieces, why.matched) == ((), {})
