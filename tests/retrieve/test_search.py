"""A search from the question to the hits: channels, stages one after the other, and routes."""

from __future__ import annotations

import json
import math
import unicodedata
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command_line import ragwright
from counted_index import CountedIndex, Own
from hand_driver import Driver

from ragwright.core import Filter, FilterError, RagwrightError, RetrieveError
from ragwright.flow import Chat, ChatReply, Lookup, LookupReply, Rerank, RerankReply, Search
from ragwright.models import WordTokenizer
from ragwright.retrieve import (
    ChannelWeights,
    Column,
    DatabaseOptions,
    Glossary,
    IterateOptions,
    Meaning,
    QueryDatabase,
    QueryOptions,
    RerankOptions,
    Retrieved,
    RetrieveOptions,
    Route,
    RouteOptions,
    RouteScene,
    SelectOptions,
    SoftFilterOptions,
    Table,
    is_courtesy,
    mine_glossary,
    route,
    rrf,
)

# -- channels, on four pages -----------------------------------------------------------------

LIGHTS = {
    "manual": "Warning light APP_w304: the accelerator pedal position sensor reports no signal.",
    "other": "Warning light APP_w305: the accelerator pedal is pressed while braking.",
    "poem": "The sea was calm and the night was clear above the harbour.",
    "vide": "Écran cassé : remplacer l'écran avant la mise en service.",
}
CAR, OTHERS = Filter("topic", ("car",)), {"poem", "vide"}
PLAIN = {"model": "", "dimensions": 0}
"""Of a target without vectors."""


@pytest.fixture(scope="module")
def lights(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CountedIndex]:
    topics = {name: ("rest",) if name in OTHERS else ("car",) for name in LIGHTS}
    texts = {name: ([text], {"topic": topics[name]}) for name, text in LIGHTS.items()}
    made = CountedIndex(tmp_path_factory.mktemp("lights"), texts, ("pedal", "light", "sea"))
    yield made
    made.close()


def names(found: Retrieved) -> list[str]:
    return [hit.document_id for hit in found.hits]


def test_hits_carry_rank_score_and_address_and_what_each_channel_saw(lights: CountedIndex) -> None:
    found = lights.ask("pedal APP_w304", search="keyword")
    assert (found.mode, names(found)) == ("keyword", ["manual", "other"])
    best = found.hits[0]
    assert (best.rank, best.source, best.title) == (1, "manual.txt", "Manual")
    assert LIGHTS["manual"][best.start : best.end] == best.text == LIGHTS["manual"]
    assert [(name, one.score) for name, one in best.channels.items()] == [("keyword", best.score)]
    both = lights.ask("pedal APP_w304").hits[0]
    assert (both.document_id, both.channels["keyword"].rank) == ("manual", 1)
    like = lights.similarity("pedal APP_w304", LIGHTS["manual"])
    assert both.channels["dense"].score == pytest.approx(like, abs=1e-5)
    # A code finds its page by keyword where vectors do not tell it from another's.
    near = lights.ask("light APP_w304", search="dense").hits
    dense = {hit.document_id: hit.score for hit in near}
    assert dense["manual"] == dense["other"]
    composed = lights.ask("écran cassé", search="keyword")
    assert names(composed) == ["vide"]
    decomposed = lights.ask(unicodedata.normalize("NFD", "écran cassé"), search="keyword")
    assert (decomposed.query, decomposed.hits) == ("écran cassé", composed.hits)
    lights.ask("red \ud800 pump", search="keyword").query.encode("utf-8")
    for odd in ("zyxwv", "🙂 ???", "oil pump " * 2_000):
        assert lights.ask(odd) == lights.ask(odd)
    with pytest.raises(RagwrightError):  # of an index that loses chunks
        lights.ask("sea", {Lookup: Own(lambda request: LookupReply(()))})


@pytest.mark.parametrize(
    ("settings", "mode", "note"),
    [
        ({}, "hybrid", ""),
        (PLAIN, "keyword", ""),
        ({**PLAIN, "search": "keyword"}, "keyword", ""),
        ({"weights": ChannelWeights(keyword=1.0, dense=0.0)}, "keyword", "weight"),
    ],
)
def test_the_mode_follows_the_vectors(
    lights: CountedIndex, settings: dict[str, Any], mode: str, note: str
) -> None:
    lights.embedder.asked.clear()
    found = lights.ask("pedal", **settings)
    assert found.mode == mode
    assert bool(lights.embedder.asked) == (mode == "hybrid")
    assert len(found.notes) == bool(note)
    assert note in " ".join(found.notes)


WORDS = " ".join(f"word{number}" for number in range(1001))


@pytest.mark.parametrize(
    ("query", "settings", "error", "said"),
    [
        ("", {}, RetrieveError, "empty"),
        (" \n\t", {}, RetrieveError, "empty"),
        ("sea", {**PLAIN, "search": "dense"}, RetrieveError, "vectors"),
        ("sea", {**PLAIN, "search": "hybrid"}, RetrieveError, "vectors"),
        ("sea", {"weights": ChannelWeights(0.0, 0.0)}, RetrieveError, "weight"),
        ("pedal sensor " * 7700, {}, RetrieveError, "100100 characters, more than 20000"),
        (WORDS, {}, RetrieveError, "1001 different words, more than 1000"),
        ("sea", {"filters": (Filter("topics", ("car",)),)}, FilterError, "topic"),
        ("sea", {"filters": (Filter("topics", ("car",), exclude=True),)}, FilterError, "topic"),
    ],
    ids=lambda given: given[:9] if isinstance(given, str) else None,
)
def test_a_wrong_search_is_refused(
    lights: CountedIndex, query: str, settings: dict[str, Any], error: Any, said: str
) -> None:
    with pytest.raises(error, match=said):
        lights.ask(query, **settings)


def test_dense_scores_are_cosines_of_right_vectors(lights: CountedIndex, monkeypatch: Any) -> None:
    scores = []
    for length, similarity in ((1.0, "cosine"), (5.0, "cosine"), (5.0, "dot")):
        monkeypatch.setattr(lights, "vector", (length, 0.0, 0.0, 0.0))
        found = lights.ask("anything", search="dense", similarity=similarity)
        scores.append([hit.score for hit in found.hits])
    assert scores[0] == scores[1]
    assert scores[2] == pytest.approx([5.0 * score for score in scores[0]], abs=1e-5)
    for vector in ((1.0, 0.0, 0.0), (math.nan, 0.0, 0.0, 0.0), (0.0,) * 4):
        monkeypatch.setattr(lights, "vector", vector)
        with pytest.raises(RetrieveError, match="counts"):
            lights.ask("sea", search="dense")


def test_both_channels_are_fused_by_rank_and_weights_shift_the_fusion(lights: CountedIndex) -> None:
    query = "APP_w304 sea"
    found = lights.ask(query, fusion="rrf")
    by = {name: lights.ask(query, search=name) for name in ("keyword", "dense")}
    lists = {name: [hit.chunk_id for hit in one.hits] for name, one in by.items()}
    assert [(hit.chunk_id, hit.score) for hit in found.hits] == rrf([*lists.values()])
    for hit in found.hits:
        ranks = {name: channel.rank for name, channel in hit.channels.items()}
        assert ranks == {
            name: ids.index(hit.chunk_id) + 1 for name, ids in lists.items() if hit.chunk_id in ids
        }
    for weights, best in (((10.0, 1.0), "manual"), ((1.0, 10.0), "poem")):
        assert names(lights.ask(query, weights=ChannelWeights(*weights)))[0] == best


def test_top_k_bounds_the_hits_and_the_pool_the_candidates(lights: CountedIndex) -> None:
    for settings, count, asked in (
        ({"top_k": 2}, 2, 100),
        ({"top_k": 7, "pool": 3, **PLAIN}, 3, 7),  # never fewer candidates than hits wanted
    ):
        lights.search.asked.clear()
        found = lights.ask("pedal harbour light", **settings)
        assert [hit.rank for hit in found.hits] == [*range(1, count + 1)]
        scores = [hit.score for hit in found.hits]
        assert scores == sorted(filter(math.isfinite, scores), reverse=True)
        assert {r.k for r in lights.search.asked if isinstance(r, Search)} == {asked}


@pytest.mark.parametrize("search", ["hybrid", "dense", "keyword"])
def test_filters_hold_in_every_channel(lights: CountedIndex, search: str) -> None:
    query = "sea light pedal harbour"
    demanded = lights.ask(query, search=search, filters=(CAR,))
    assert set(names(demanded)) == {"manual", "other"}
    found = lights.ask(query, search=search, filters=(replace(CAR, exclude=True),))
    assert set(names(found)) <= OTHERS
    assert found.hits
    assert not any("excludes nothing" in note for note in found.notes)


def test_an_exclusion_that_excludes_nothing_is_told(lights: CountedIndex) -> None:
    """A slip in a value and nothing to leave out look the same: both are answered."""
    slip, rest = Filter("topic", ("Car",), exclude=True), Filter("topic", ("rest",))
    told = "topic!=Car excludes nothing: no chunk has topic = 'Car' (did you mean car?)"
    found = lights.ask("pedal sea", filters=(slip,))
    assert found.hits == lights.ask("pedal sea").hits
    assert told in found.notes
    wish = SoftFilterOptions("topic", ("Car",), exclude=True)
    assert told in lights.ask("pedal sea", soft=(wish,)).notes
    for filters in ((slip, rest), (rest, slip)):
        # What another filter hides is not named, wherever it stands.
        notes = lights.ask("sea", filters=filters).notes
        (note,) = (one for one in notes if "excludes nothing" in one)
        assert "that the other filters allow" in note
        assert "car" not in note
    late = (Filter("topic", low="x", exclude=True),)
    assert "excludes nothing" not in " ".join(lights.ask("sea", filters=late).notes)


@pytest.mark.parametrize(
    ("query", "settings", "sent", "note"),
    [
        ("pedal " * 3000, {}, None, "18000"),
        ("x" * 100, {"max_query_chars": 10}, "x" * 10, "100"),
        ("what is the of and", {}, "what is the of and", "stop words"),
    ],
    ids=["long", "one-endless-word", "stop-words"],
)
def test_a_query_that_is_cut_says_so(
    lights: CountedIndex, query: str, settings: dict[str, Any], sent: str | None, note: str
) -> None:
    found = lights.ask(query, search="keyword", **settings)
    assert any(note in one for one in found.notes)
    assert bool(found.hits) is (sent is None)
    if sent is None:
        limit = RetrieveOptions().max_query_chars
        assert str(limit) in " ".join(found.notes)
        assert len(found.query) <= limit
        assert set(found.query.split()) == {"pedal"}  # no word is cut in two
    else:
        assert found.query == sent


def test_a_mined_meaning_never_crosses_a_hard_filter(tmp_path: Path) -> None:
    said = {"a": "XK7: the pedal sensor is loose", "b": "XK9: the merger with Nord is planned"}
    texts = {f"d{name}": ([text], {"tenant": name}) for name, text in said.items()}
    index = CountedIndex(tmp_path, texts, ("pedal",))
    glossary = mine_glossary(index.store.documents(index.spec))
    loose, merger = "XK7 = the pedal sensor is loose", "XK9 = the merger with Nord is planned"
    for tenant, exclude, shown in (("a", False, loose), ("b", False, merger), ("b", True, loose)):
        found = index.ask(
            "what are XK9 and XK7",
            query=QueryOptions(("glossary",)),
            filters=(Filter("tenant", (tenant,), exclude=exclude),),
            glossary=glossary,
        )
        notes = " ".join(found.notes)
        assert [one for one in (loose, merger) if one in notes] == [shown]
        assert ("merger" in notes) == (shown == merger)
    index.close()


# -- stages one after the other --------------------------------------------------------------

SONGS = {
    "song": ("The song Hello Love is by Hank Snow.", "It was a song of 1974.", "old"),
    "singer": ("Hank Snow was a singer from Liverpool.", "Hank Snow sang a song often.", "new"),
    "town": ("The town of Liverpool has a harbour.", "Hank Snow was born near Liverpool.", "old"),
    "greeting": ("Hello is said at the door.", "Love is a word.", "new"),
}
QUESTION = "the song Hello Love"
READING = IterateOptions("m:x")
AGAIN = '{"satisfied": false, "answer": "Hank Snow", "next_query": ""}'
READER: dict[type, Any] = {Chat: Own(lambda _: ChatReply(AGAIN))}
"""A chat model that asks for one more round."""


@pytest.fixture(scope="module")
def songs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CountedIndex]:
    texts = {name: (chunks, {"age": age}) for name, (*chunks, age) in SONGS.items()}
    words = ("song", "love", "snow", "liverpool")
    made = CountedIndex(tmp_path_factory.mktemp("songs"), texts, words)
    yield made
    made.close()


def test_iterating_goes_beyond_the_first_round_and_keeps_the_caps(songs: CountedIndex) -> None:
    once = songs.ask(QUESTION, top_k=3, search="keyword")
    again = songs.ask(QUESTION, READER, top_k=3, search="keyword", iterate=READING)
    assert {hit.chunk_id for hit in again.hits} - {hit.chunk_id for hit in once.hits}
    assert len(again.hits) == 3
    asked: dict[str, Any] = {"top_k": 3, "search": "keyword", "iterate": READING}
    free = songs.ask("song of 1974", READER, **asked)
    assert len(free.document_ids) < len(free.hits)
    caps = SelectOptions(max_per={"document_id": 1})
    found = songs.ask("song of 1974", READER, **asked, select=caps)
    assert len(found.document_ids) == len(found.hits) > 1
    assert [hit.rank for hit in found.hits] == list(range(1, len(found.hits) + 1))


@pytest.mark.parametrize("search", ["keyword", "hybrid"])
def test_iterating_keeps_the_rungs(songs: CountedIndex, search: str) -> None:
    soft = (SoftFilterOptions("age", ("old",), weight=2.0),)
    found = songs.ask(QUESTION, READER, top_k=6, search=search, soft=soft, iterate=READING)
    order = [(-hit.rung.weight, -hit.score) for hit in found.hits if hit.rung is not None]
    assert len(order) == len(found.hits)
    assert order == sorted(order)
    assert len({weight for weight, _ in order}) == 2


def test_channels_of_later_rounds_are_not_taken_for_the_questions(songs: CountedIndex) -> None:
    found = songs.ask(QUESTION, READER, top_k=3, pool=3, iterate=READING)
    for hit in found.hits:
        if "dense" in hit.channels:
            like = songs.similarity(hit.text, QUESTION)
            assert hit.channels["dense"].score == pytest.approx(like, abs=1e-5)
    assert any("hop dense" in hit.channels for hit in found.hits)


@pytest.mark.parametrize(
    ("method", "said"),
    [
        ("query2doc", "Snow wrote it."),
        ("subqueries", json.dumps({"queries": ["hello song", "love song"]})),
        ("rewrite", json.dumps({"query": "hello love song"})),
    ],
)
def test_reranking_asks_the_question_itself(songs: CountedIndex, method: Any, said: str) -> None:
    chat = Own(lambda request: ChatReply(said))
    ranker = Own(lambda request: RerankReply((1.0,) * len(request.passages)))
    found = songs.ask(
        f"  {QUESTION} ",
        {Chat: chat, Rerank: ranker},
        query=QueryOptions((method,), "m:x", original=0.0),
        rerank=RerankOptions("m:ranker"),
    )
    assert chat.asked
    assert [request.query for request in ranker.asked] == [QUESTION]
    assert found.query == QUESTION


def test_a_meaning_does_not_beat_who_holds_the_code(songs: CountedIndex) -> None:
    asking: dict[str, Any] = {
        "query": QueryOptions(("glossary",)),
        "glossary": Glossary({"1974": (Meaning("near Liverpool, Snow"),)}),
    }
    best = songs.ask("1974", **asking).hits[0]
    assert (best.document_id, best.channels["keyword"].rank) == ("song", 1)
    dense = songs.ask("1974", search="dense", **asking).hits[0]
    assert "Liverpool" in dense.text
    assert set(dense.channels) == {"dense"}


@pytest.mark.parametrize("tokens", [1, 12, 25, 60, 10_000])
def test_as_many_chunks_as_fit_into_the_tokens(songs: CountedIndex, tokens: int) -> None:
    every = songs.ask(QUESTION, top_k=100).hits
    found = songs.ask(QUESTION, top_k=1, context_tokens=tokens).hits
    sizes = np.cumsum([WordTokenizer().count(hit.text) for hit in every])
    fit = int((sizes <= tokens).sum())
    assert [hit.chunk_id for hit in found] == [hit.chunk_id for hit in every[: max(fit, 1)]]


# -- mixed values and spellings, through the command line ------------------------------------

FRONT = {
    "a": "date: 2024-01-15\nprice: 10",
    "b": "date: 2024-06-30T23:59:59+02:00\nprice: 99.5",
    "c": "date: 2025-02-01 10:30\nprice: 1000",
    "d": "note: none of them",
    "e": "date: June 2024\nprice: 12,50",
    "f": "date: 20240615\nprice: 007",
}


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("mixed")
    (folder / "docs").mkdir()
    for name, front in FRONT.items():
        (folder / "docs" / f"{name}.md").write_text(f"---\n{front}\n---\nThe pump report {name}.\n")
    ragwright(folder, "init", ".", "--source", "docs/")
    ragwright(folder, "ingest", "--quiet")
    return folder


NO_DATE = "2 documents without a date in 'date'"
NO_NUMBER = "2 documents without a number in 'price'"


@pytest.mark.parametrize(
    ("filters", "found", "left"),
    [
        ("date=2025..", "c", NO_DATE),
        ("date=2024-06..2024-06", "bf", NO_DATE),
        ("date=..2024", "abf", NO_DATE),
        ("date=2024-06-16..2024-06-30", "b", NO_DATE),
        ("price=50..", "bc", NO_NUMBER),
        ("price=..20", "af", NO_NUMBER),
        ("price=7..10", "af", NO_NUMBER),
        ("date!=*", "d", ""),
        ("price=*", "abcef", ""),
        # A count is of documents that the other filters leave.
        ("price=50.. date=*", "bc", "1 document without a number in 'price'"),
    ],
)
def test_values_are_compared_as_such(project: Path, filters: str, found: str, left: str) -> None:
    flags = [word for one in filters.split() for word in ("--filter", one)]
    words = ["retrieve", "--json", "--set", "retrieve.search=keyword", "-k", "20", *flags]
    result = json.loads(ragwright(project, *words, "--", "pump report").stdout)
    assert sorted(Path(hit["source"]).stem for hit in result["hits"]) == list(found)
    notes = " ".join(result["notes"])
    assert left in notes
    assert ("left out by" in notes) == bool(left)


# -- routes ----------------------------------------------------------------------------------

SHOP = QueryDatabase(
    DatabaseOptions("shop", "sqlite:///shop.db", "Sales since 2020.", keywords=("turnover",)),
    (
        Table("orders", (Column("id"), Column("amount"), Column("placed_on"))),
        Table("sales.customer_accounts", (Column("customer"), Column("balance"))),
    ),
    "SQLite",
)
DOWN = QueryDatabase(SHOP.options, SHOP.tables, problem="it is down")
SCENE, MODEL = RouteScene("m:x", (SHOP,)), RouteOptions("model")
LIST = "List all tools."


@pytest.mark.parametrize(
    ("question", "scene", "kind"),
    [
        ("Which orders?", SCENE, "sql"),
        ("The turnover in May?", SCENE, "sql"),
        ("a placed on date", SCENE, "sql"),
        ("Hello", SCENE, "index"),
        ("Which orders?", RouteScene("", (SHOP,)), "index"),
        ("Which orders?", RouteScene("snippet", (SHOP,)), "index"),
        ("Which orders?", RouteScene("m:x", (DOWN,)), "index"),
        *(
            (odd, SCENE, "index")
            for odd in ("", " ", "?", "😀", "the", "a" * 20_000, "\ud800", "\n")
        ),
        ("who are the " * 3_000, SCENE, "index"),
    ],
    ids=lambda given: given[:20] if isinstance(given, str) else "",
)
def test_a_question_that_names_a_table_goes_there(question: str, scene: Any, kind: str) -> None:
    driver = Driver()
    found = driver.run(route(question, RouteOptions(), scene))
    assert (found.kind, found.database) == (kind, "shop" if kind == "sql" else "")
    assert ("of the database shop" in found.reason) == (kind == "sql")
    assert not driver.seen
    if DOWN in scene.databases:
        assert found.notes == ("the database shop cannot be queried: it is down",)


def test_a_courtesy_says_no_more() -> None:
    yes = ["Hello!", "Merci beaucoup", "Vielen Dank!", "Good evening"]
    yes += ["Thank you very much for your help."]
    no = ["Hello, what does E42 mean?", "help", "Yes", ""]
    no += ["Thanks" + "!" * 1_200 + " How is the oil changed?"]
    assert [message for message in (*yes, *no) if is_courtesy(message)] == yes


def said(**changes: object) -> str:
    fields = {"route": "index", "database": "", "reason": "so", "rewrite": False, "split": False}
    return json.dumps({**fields, **changes})


def test_a_model_routes_and_its_reason_is_kept() -> None:
    driver = Driver(said(route="sql", database="shop", reason="Sales are in a table.", split=True))
    found = driver.run(route("What sold best?", MODEL, SCENE))
    assert found == Route("sql", "Sales are in a table. (m:x)", split=True, database="shop")
    (chat,) = driver.chats
    assert "sales.customer_accounts" in chat.messages[-1].content
    kinds = json.loads(chat.schema)["properties"]["route"]["enum"]
    assert kinds == ["corpus", "index", "none", "sql"]
    fenced = Driver(f"```json\n{said(route='none')}\n```")
    assert fenced.run(route("x y z", MODEL, SCENE)).kind == "none"
    second = Driver("index, I think", said(route="none")).run(route(LIST, MODEL, SCENE))
    assert (second.kind, second.notes) == ("none", ())
    none = Driver()
    found = none.run(route(LIST, MODEL, RouteScene("snippet")))
    assert (found.kind, none.seen) == ("index", [])
    assert "no chat model" in found.notes[0]


@pytest.mark.parametrize(
    "reply",
    [
        *("", "index", "[1]", said() + said(), said(extra=1), said(reason=" ")),
        *(said(rewrite="yes"), said(route="everywhere"), said(route="sql", database="other")),
    ],
)
def test_a_bad_reply_is_asked_for_once_more_and_then_the_index_answers(reply: str) -> None:
    driver = Driver(reply)
    found = driver.run(route(LIST, MODEL, SCENE))
    assert found.kind == "index"
    assert "could not be used" in found.notes[-1]
    roles = [[m.role for m in chat.messages] for chat in driver.chats]
    assert roles == [["system", "user"], ["system", "user", "assistant", "user"]]
