"""Wordings, soft filters, notes and explanations of one round of search, on the real store."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from counted_index import CountedIndex

from ragwright.core import FilterError, RetrieveError
from ragwright.retrieve import Candidates, RetrieveOptions, SoftFilterOptions, Variant, explain, rrf

TEXTS = {
    "pump": ("Fault E1234: the pump is blocked; clean its filter.", "acme", 2020),
    "valve": ("The valve leaks: replace its seal and open it again.", "acme", 2022),
    "motor": ("Motor too hot: wait, then clean the fan.", "zenith", 2021),
    "list": ("E1200 E1234 E1300 " + "and many other codes of old machines " * 40, "zenith", 1999),
}
CLEAN = "clean the pump"
ZENITH = (SoftFilterOptions("client", ("zenith",)),)


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CountedIndex]:
    texts = {n: ([text], {"client": c, "year": y}) for n, (text, c, y) in TEXTS.items()}
    folder: Path = tmp_path_factory.mktemp("machines")
    made = CountedIndex(folder, texts, ("pump", "valve", "motor", "clean"), base=0.3)
    yield made
    made.close()


def ids(found: Candidates) -> list[str]:
    return [key for key, _ in found.ranking]


W, PUMP, VALVE = {"fusion": "weighted"}, Variant("pump", ""), Variant("", "valve")
NARROW = {"pool": 1, "top_k": 1, "fusion": "weighted", "keyword_share": 0.9}
SEE = "clean the pump, see E1300"


@pytest.mark.parametrize(
    ("query", "settings", "ranked"),
    [
        # A page that lists a code beats short pages without it.
        ("machine codes: which pump has E1300", {"search": "keyword"}, ["list"]),
        (CLEAN, {**W, "keyword_share": 0.0}, ["pump", "motor"]),
        (CLEAN, {"search": "dense"}, ["pump", "motor"]),
        (CLEAN, {"soft": ZENITH, "unfiltered": False}, ["motor"]),
        # A threshold that all reach drops no hit that stands outside the dense pool.
        (SEE, NARROW, ["list"]),
        (SEE, {**NARROW, "threshold": -1.0}, ["list"]),
        (SEE, {**NARROW, "threshold": 0.5}, ["pump"]),
        # It holds for wordings without a vector of their own.
        ([PUMP, VALVE], {"threshold": 0.9}, ["valve"]),
        ([PUMP, VALVE], {"threshold": 1.5}, []),
        (Variant("pump valve clean", ""), {"threshold": 1.5}, []),
        (PUMP, {"threshold": 0.6}, ["pump"]),
    ],
)
def test_what_is_ranked_first(index: CountedIndex, query: Any, settings: Any, ranked: Any) -> None:
    found = ids(index.candidates(query, **settings))
    assert found[: len(ranked)] == ranked
    if "threshold" in settings or "pool" in settings:
        assert found == ranked
    if "unfiltered" in settings:
        assert set(found) <= {"motor", "list"}


def test_weights_are_those_of_the_settings_and_codes_shift_them(index: CountedIndex) -> None:
    plain = index.candidates(CLEAN)
    assert plain == index.candidates(Variant(CLEAN, CLEAN))  # a query is one wording
    fixed = index.candidates(CLEAN, fusion="weighted", keyword_share=0.3)
    assert fixed.explanation.weights == {"keyword": 0.3, "dense": 0.7}
    found = index.candidates("I see E1234, what should I do?")
    assert set(ids(found)[:2]) == {"pump", "list"}
    assert found.explanation.weights["keyword"] > RetrieveOptions().keyword_share
    assert "holds" in found.explanation.reason
    reason = index.candidates("gearbox housing").explanation.reason
    assert "0%" not in reason  # where keyword finds nothing no share of words is claimed
    assert "keyword 0.20" in reason


def test_wordings_are_fused_by_rank_and_weight_and_explained_together(index: CountedIndex) -> None:
    one, two = CLEAN, "leaking valve"
    found = index.candidates([Variant(one, one), Variant(two, two, weight=3.0)])
    lists = [ids(index.candidates(text)) for text in (one, two)]
    assert list(found.ranking) == rrf(lists, weights=(1.0, 3.0))
    assert set(found.channels) == {"keyword", "dense", "keyword 2", "dense 2"}
    assert found.query == one
    assert {"pump", "valv"} <= {term.token for term in found.explanation.terms}
    fix = Variant("fix E1234", "fix E1234")
    why = index.candidates([fix, Variant("", "valve", weight=3.0)]).explanation
    single = index.candidates(fix).explanation
    assert why.weights["keyword"] == pytest.approx(single.weights["keyword"] / 4)
    assert sum(why.weights.values()) == pytest.approx(1.0)
    assert single.reason in why.reason
    assert "2 (weight 3): dense only" in why.reason


def test_each_wording_goes_to_the_channels_that_it_speaks_to(index: CountedIndex) -> None:
    index.embedder.asked.clear()
    found = index.candidates([Variant("pump", "pump"), Variant("", "valve valve", passage=True)])
    assert sorted(request.role for request in index.embedder.asked) == ["passage", "query"]
    assert set(found.channels) == {"keyword", "dense", "dense 2"}
    found = index.candidates([PUMP, Variant("valve", "valve"), Variant("", "motor")])
    assert set(found.channels) == {"keyword", "keyword 2", "dense", "dense 2"}
    alike = {name: index.similarity("valve", text) for name, (text, _, _) in TEXTS.items()}
    assert dict(found.channels["dense"]) == pytest.approx(alike, abs=1e-5)  # the first vector's
    meant = [Variant("pump", f"pump ({text})", 0.5) for text in ("a valve", "a motor")]
    keyword = [index.candidates(query, search="keyword").ranking for query in (meant, "pump")]
    assert keyword[0] == keyword[1]  # a wording that the mode does not search is none
    assert set(ids(index.candidates([PUMP, VALVE]))) == set(TEXTS)


@pytest.mark.parametrize("query", [[], [Variant("", "")], [Variant("a", "a", weight=0.0)], "  "])
def test_nothing_to_search_is_refused(index: CountedIndex, query: object) -> None:
    with pytest.raises(RetrieveError, match="empty"):
        index.candidates(query)


@pytest.mark.parametrize("search", ["keyword", "dense", "hybrid"])
@pytest.mark.parametrize("fusion", ["adaptive", "weighted", "rrf"])
def test_soft_filters_rank_before_scores(index: CountedIndex, search: str, fusion: str) -> None:
    soft = (replace(ZENITH[0], weight=2.0), SoftFilterOptions("year", low=2021, weight=1.0))
    found = index.candidates("clean the pump, E1234", search=search, fusion=fusion, soft=soft)
    weights = {key: found.rungs[key].weight for key in ids(found)}
    assert list(weights.values()) == sorted(weights.values(), reverse=True)
    assert weights.items() <= {"motor": 3.0, "list": 2.0, "valve": 1.0, "pump": 0.0}.items()
    assert found.explanation.ladder[0][0] == ("client=zenith", "year=2021..")


def test_hits_carry_their_rung_and_the_ladder_is_the_dense_one(index: CountedIndex) -> None:
    hits = index.ask(CLEAN, soft=ZENITH).hits
    first, last = hits[0].rung, hits[-1].rung
    assert first is not None
    assert last is not None
    assert (first.weight, [one.field for one in last.missed]) == (1.0, ["client"])

    def ladder(**settings: Any) -> object:
        return index.candidates("pump E1234", soft=ZENITH, **settings).explanation.ladder

    assert ladder(threshold=0.6) == ladder(threshold=0.6, search="dense") != ()
    assert ladder(threshold=0.9999) == ()
    with pytest.raises(FilterError):
        index.candidates("pump", soft=(SoftFilterOptions("client"),))


@pytest.mark.parametrize("threshold", [0.2, 0.6, 2.0])
def test_every_hybrid_hit_reaches_the_threshold(index: CountedIndex, threshold: float) -> None:
    query = "clean the pump E1234"
    reach = {n for n, (text, *_) in TEXTS.items() if index.similarity(query, text) >= threshold}
    assert set(ids(index.candidates(query, threshold=threshold, search="hybrid"))) == reach


NO_KEYWORD = "no keyword hits: "


@pytest.mark.parametrize(
    ("query", "settings", "notes"),
    [
        (CLEAN, {}, []),
        ("of the and", {}, ["only stop words"]),
        ("gearbox housing", {}, [NO_KEYWORD + "not in the index: gearbox, hous"]),
        ("pump E9999", {}, ["codes that are not in the index: e9999, 9999"]),
        (
            "pump",
            {"threshold": 0.9999},
            [
                "no chunk with a word of the query reaches the threshold of 0.9999",
                "no dense hits: no chunk reaches the threshold of 0.9999",
            ],
        ),
        ("pump", {"threshold": 99.0, "search": "keyword"}, ["threshold of 99"]),
        ("x" * 9_000, {}, ["…"]),
        (" ".join(f"word{chr(97 + n)}" for n in range(20)), {}, [" more"]),
    ],
)
def test_notes_name_what_found_nothing(
    index: CountedIndex, query: str, settings: dict[str, Any], notes: list[str]
) -> None:
    found = index.candidates(query, **settings).notes
    assert len(found) == len(notes)
    for note, said in zip(found, notes, strict=True):
        assert said in note
        assert len(note) < 200
    if notes == [" more"]:
        assert found[0].endswith(" more")
        assert found[0].count(", ") == 9


def test_an_explanation_shows_terms_pieces_and_what_was_embedded(index: CountedIndex) -> None:
    target = index.target
    found = index.ask("Why does E1234 block the pump?")
    why = explain(found, target.analyzer, target.tokenizer)
    assert [term.token for term in why.terms] == ["e1234", "1234", "block", "pump"]
    assert {term.token: term.chunks for term in why.terms}["e1234"] == 2
    assert "E1234" in why.pieces
    assert why.matched["pump"] == ("e1234", "1234", "block", "pump")
    assert why.matched["list"] == ("e1234", "1234")
    assert sum(why.weights.values()) == pytest.approx(1.0)
    hit = replace(found.hits[0], title="Old Machines", chunk_id="d:0-9", start=0, end=9)
    seen = explain(replace(found, hits=(hit,)), target.analyzer, target.tokenizer).seen
    assert seen["d:0-9"][:2] == ("Old", "Machines")
    words = explain(index.ask("blocked pumps, a dead-lock"), target.analyzer).words
    shown = {"block": "blocked", "pump": "pumps", "dead": "dead", "lock": "lock"}
    assert words == {**shown, "dead-lock": "dead-lock"}, "a piece is not shown as the whole word"
    short = explain(found)
    assert short.terms
    assert (short.pieces, short.matched) == ((), {})
