"""Wordings, soft filters, notes and explanations, through a runner on the real store."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from ragwright.core import Chunk, Document, FilterError, RetrieveError, Span
from ragwright.flow import BatchHandler, Embed, EmbedReply, HandlerSource, Lookup, Runner, Search
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
    Candidates,
    Explanation,
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

    def reply_to(self, requests: Sequence[Embed]) -> Sequence[EmbedReply]:
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
    spec = IndexSpec("whole", ANALYZER.spec, "counts", 5)
    items = []
    for name, (text, client, year) in TEXTS.items():
        document = Document(name, name, text, metadata={"client": client, "year": year})
        chunk = Chunk(name, name, 0, Span(0, len(text)), text)
        items.append(IndexedDocument(document, (chunk,), vector(text)[None]))
    store.upsert(spec, items)
    views = Views(store)
    target = Target(store.snapshot(spec), "counts", 5, analyzer=ANALYZER, tokenizer=WordTokenizer())
    routes: dict[type, HandlerSource] = {
        Search: ViewHandler(views),
        Lookup: ViewHandler(views),
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
    assert found.explanation.ladder[0][0] == ("client=zenith", "year=2021..")


def test_hits_carry_their_rung(ask: Ask) -> None:
    hits = ask("clean the pump", soft=(SoftFilterOptions("client", ("zenith",)),)).hits
    assert hits[0].rung is not None
    assert hits[0].rung.weight == 1.0
    assert [f.field for f in hits[-1].rung.missed] == ["client"]  # type: ignore[union-attr]


def test_the_last_rung_can_be_left_out(run: Run) -> None:
    soft = (SoftFilterOptions("client", ("zenith",)),)
    assert set(ids(run("clean the pump", soft=soft, unfiltered=False))) <= {"motor", "list"}


def similarities(query: str) -> dict[str, float]:
    return {key: float(vector(query) @ vector(text)) for key, (text, _, _) in TEXTS.items()}


def test_every_hybrid_hit_reaches_the_threshold(run: Run) -> None:
    query = "clean the pump E1234"
    alike = similarities(query)
    for threshold in (0.2, 0.6, 2.0):
        found = run(query, threshold=threshold, search="hybrid")
        assert set(ids(found)) == {key for key, like in alike.items() if like >= threshold}


def test_a_threshold_that_all_reach_drops_no_hit_that_stands_outside_the_dense_pool(
    run: Run,
) -> None:
    query = "clean the pump, see E1300"
    narrow: dict[str, object] = {"pool": 1, "top_k": 1, "fusion": "weighted", "keyword_share": 0.9}
    assert ids(run(query, **narrow)) == ["list"]
    assert ids(run(query, **narrow, threshold=-1.0)) == ["list"]
    assert "list" not in dict(run(query, **narrow, threshold=-1.0).channels["dense"])
    far = similarities(query)["list"]
    assert ids(run(query, **narrow, threshold=far + 0.01)) == ["pump"]


def test_the_threshold_holds_for_wordings_without_a_vector_of_their_own(run: Run) -> None:
    wordings = [Variant("pump", ""), Variant("", "valve")]
    assert set(ids(run(wordings))) == set(TEXTS)
    reached = {key for key, like in similarities("valve").items() if like >= 0.9}
    assert reached == {"valve"}
    assert set(ids(run(wordings, threshold=0.9))) == reached
    assert ids(run(wordings, threshold=1.5)) == []
    alone = {key for key, like in similarities("pump").items() if like >= 0.6}
    assert set(ids(run(Variant("pump valve clean", ""), threshold=1.5))) == set()
    assert set(ids(run(Variant("pump", ""), threshold=0.6))) == alone


def test_notes_name_the_threshold_that_nothing_reaches(run: Run) -> None:
    found = run("pump", threshold=0.9999)
    assert found.notes == (
        "no keyword hits: no chunk with a word of the query reaches the threshold of 0.9999",
        "no dense hits: no chunk reaches the threshold of 0.9999",
    )
    assert "threshold of 99" in run("pump", threshold=99.0, search="keyword").notes[0]


def test_notes_shorten_what_they_repeat(run: Run) -> None:
    (note,) = run("x" * 9_000).notes
    assert len(note) < 100
    (note,) = run(" ".join(f"word{chr(97 + n)}" for n in range(20))).notes
    assert note.endswith(" more")
    assert note.count(", ") == 9


def test_the_ladder_is_the_dense_one_wherever_there_is_one(run: Run) -> None:
    soft = (SoftFilterOptions("client", ("zenith",)),)
    dense = run("pump E1234", soft=soft, threshold=0.9, search="dense").explanation.ladder
    assert run("pump E1234", soft=soft, threshold=0.9).explanation.ladder == dense
    assert run("pump E1234", soft=soft, threshold=0.9999).explanation.ladder == ()


def test_the_first_vector_is_the_dense_channel(run: Run) -> None:
    found = run([Variant("pump", ""), Variant("valve", "valve"), Variant("", "motor")])
    assert set(found.channels) == {"keyword", "keyword 2", "dense", "dense 2"}
    assert dict(found.channels["dense"]) == pytest.approx(similarities("valve"), abs=1e-5)


def test_several_wordings_are_explained_together(run: Run) -> None:
    one = Variant("fix E1234", "fix E1234")
    why = run([one, Variant("", "valve", weight=3.0)]).explanation
    single = run(one).explanation
    assert why.weights["keyword"] == pytest.approx(single.weights["keyword"] / 4)
    assert sum(why.weights.values()) == pytest.approx(1.0)
    assert single.reason in why.reason
    assert "2 (weight 3): dense only" in why.reason


def test_a_wording_that_the_mode_does_not_search_is_none(run: Run) -> None:
    meant = [Variant("pump", f"pump ({text})", 0.5) for text in ("a valve", "a motor")]
    assert run(meant, search="keyword").ranking == run("pump", search="keyword").ranking


def test_where_keyword_finds_nothing_no_share_of_words_is_claimed(run: Run) -> None:
    reason = run("gearbox housing").explanation.reason
    assert "0%" not in reason
    assert "keyword 0.20" in reason


def _explained(found: Retrieved, target: Target) -> Explanation:
    return explain(found, target.analyzer, target.tokenizer)


def test_an_explanation_shows_what_was_embedded(ask: Ask, opened: object) -> None:
    assert isinstance(opened, tuple)
    found = ask("pump")
    hit = replace(found.hits[0], title="Old Machines", chunk_id="d:0-9", start=0, end=9)
    seen = _explained(replace(found, hits=(hit,)), opened[1]).seen
    assert seen["d:0-9"][:2] == ("Old", "Machines")


def test_a_soft_filter_without_a_condition_is_refused(run: Run) -> None:
    with pytest.raises(FilterError):
        run("pump", soft=(SoftFilterOptions("client"),))


def test_notes_tell_stop_words_from_words_that_are_not_there(run: Run) -> None:
    assert "only stop words" in run("of the and").notes[0]
    assert run("gearbox housing").notes == ("no keyword hits: not in the index: gearbox, hous",)
    absent = run("pump E9999").notes
    assert absent == ("codes that are not in the index: e9999, 9999",)
    assert run("clean the pump").notes == ()


def test_an_explanation_shows_terms_pieces_and_matches(ask: Ask, opened: object) -> None:
    assert isinstance(opened, tuple)
    found = ask("Why does E1234 block the pump?")
    why = _explained(found, opened[1])
    assert [term.token for term in why.terms] == ["e1234", "1234", "block", "pump"]
    assert {term.token: term.chunks for term in why.terms}["e1234"] == 2
    assert "E1234" in why.pieces
    assert why.matched["pump"] == ("e1234", "1234", "block", "pump")
    assert why.matched["list"] == ("e1234", "1234")
    assert sum(why.weights.values()) == pytest.approx(1.0)


def test_without_analyzer_and_tokenizer_an_explanation_is_shorter(ask: Ask) -> None:
    found = ask("pump")
    why = explain(found)
    assert why.terms
    assert (why.pieces, why.matched) == ((), {})
