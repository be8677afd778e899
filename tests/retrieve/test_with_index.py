"""Retrieval through a runner on the real store: what a user of an index meets."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from ragwright.core import Chunk, Document, Filter, FilterError, RetrieveError, Span
from ragwright.flow import BatchHandler, Embed, EmbedReply, HandlerSource, Lookup, Runner, Search
from ragwright.index import (
    IndexedDocument,
    IndexSpec,
    StoreOptions,
    ViewHandler,
    Views,
    open_store,
)
from ragwright.models import AnalyzerOptions, make_analyzer
from ragwright.retrieve import (
    QueryOptions,
    Retrieved,
    RetrieveOptions,
    SoftFilterOptions,
    Target,
    mine_glossary,
    retrieve,
)

TEXTS = {
    "manual": "Warning light APP_w304: the accelerator pedal position sensor reports no signal.",
    "other": "Warning light APP_w305: the accelerator pedal is pressed while braking.",
    "poem": "The sea was calm and the night was clear above the harbour.",
    "vide": "Écran cassé : remplacer l'écran avant la mise en service.",
}


def direction(text: str) -> list[float]:
    """A stand-in for an embedder: it sees pedals and the sea, and no codes."""
    return [1.0 + text.count("pedal") + text.count("light"), 3.0 * text.count("sea"), 0.5]


class Directions(BatchHandler[Embed, EmbedReply]):
    def durable(self, request: Embed) -> bool:
        return False

    def reply_to(self, requests: Sequence[Embed]) -> Sequence[EmbedReply]:
        return [EmbedReply(unit([direction(t) for t in r.texts])) for r in requests]


def unit(rows: list[list[float]]) -> np.ndarray[tuple[int, int], np.dtype[np.float32]]:
    found = np.array(rows, dtype=np.float32)
    return (found / np.linalg.norm(found, axis=1, keepdims=True)).astype(np.float32)  # type: ignore[no-any-return]


def indexed(name: str, text: str) -> IndexedDocument:
    topics = ("car",) if "pedal" in text else ("rest",)
    document = Document(name, f"{name}.txt", text, metadata={"topic": topics})
    chunk = Chunk(f"{name}:0-{len(text)}", name, 0, Span(0, len(text)), text)
    return IndexedDocument(document, (chunk,), unit([direction(text)]))


Ask = Callable[..., Retrieved]


@pytest.fixture(scope="module")
def ask(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ask]:
    folder: Path = tmp_path_factory.mktemp("project")
    store = open_store(StoreOptions(), folder)
    spec = IndexSpec("whole", make_analyzer(AnalyzerOptions()).spec, "directions", 3)
    store.upsert(spec, [indexed(name, text) for name, text in TEXTS.items()])
    views = Views(store)
    target = Target(store.snapshot(spec), "directions", 3)
    routes: dict[type, HandlerSource] = {
        Search: ViewHandler(views),
        Lookup: ViewHandler(views),
        Embed: Directions(),
    }
    with Runner(routes) as runner:
        yield lambda query, **settings: runner.run(
            retrieve(query, target, RetrieveOptions(**settings))
        )
    views.close()
    store.close()


def test_a_code_finds_its_page_by_keyword_where_vectors_do_not(ask: Ask) -> None:
    query = "what does warning light APP_w304 mean?"
    keyword = ask(query, search="keyword").hits
    assert keyword[0].document_id == "manual"
    assert TEXTS["manual"][keyword[0].start : keyword[0].end] == keyword[0].text
    dense = {hit.document_id: hit.score for hit in ask(query, search="dense").hits}
    assert dense["manual"] == dense["other"]


def test_hybrid_hits_say_what_each_channel_saw(ask: Ask) -> None:
    best = ask("pedal APP_w304").hits[0]
    assert best.document_id == "manual"
    assert best.channels["keyword"].rank == 1
    assert best.channels["dense"].score == pytest.approx(
        float(unit([direction("pedal")])[0] @ unit([direction(TEXTS["manual"])])[0]), abs=1e-5
    )


def test_stop_words_alone_find_nothing_by_keyword_and_say_so(ask: Ask) -> None:
    found = ask("what is the of and", search="keyword")
    assert found.hits == ()
    assert any("stop words" in note for note in found.notes)


def test_accents_in_either_form_find_the_same(ask: Ask) -> None:
    composed = ask("écran cassé", search="keyword").hits
    assert composed[0].document_id == "vide"
    assert ask("e\u0301cran casse\u0301", search="keyword").hits == composed


def test_filters_hold_in_every_channel_and_unknown_fields_are_refused(ask: Ask) -> None:
    found = ask("sea light", filters=(Filter("topic", ("car",)),))
    assert {hit.document_id for hit in found.hits} == {"manual", "other"}
    with pytest.raises(FilterError, match="topics"):
        ask("sea", filters=(Filter("topics", ("car",)),))


def test_excluding_filters_hold_in_every_channel_and_a_search_without_is_another(ask: Ask) -> None:
    car = Filter("topic", ("car",))
    others = {"poem", "vide"}
    for kind in ("hybrid", "dense", "keyword"):
        query = "sea light pedal harbour"
        demanded = ask(query, search=kind, filters=(car,))
        assert {hit.document_id for hit in demanded.hits} == {"manual", "other"}
        found = ask(query, search=kind, filters=(replace(car, exclude=True),))
        assert found.hits
        assert {hit.document_id for hit in found.hits} <= others
        assert not any("excludes nothing" in note for note in found.notes)
    with pytest.raises(FilterError, match="topic"):
        ask("sea", filters=(Filter("topics", ("car",), exclude=True),))


def test_an_exclusion_that_excludes_nothing_is_told(ask: Ask) -> None:
    """A slip in a value and nothing to leave out look the same: both are answered."""
    slip = Filter("topic", ("Car",), exclude=True)
    told = "topic!=Car excludes nothing: no chunk has topic = 'Car' (nearest: car)"
    found = ask("pedal sea", filters=(slip,))
    assert found.hits == ask("pedal sea").hits
    assert told in found.notes
    wish = SoftFilterOptions("topic", ("Car",), exclude=True)
    assert told in ask("pedal sea", soft=(wish,)).notes
    rest = Filter("topic", ("rest",))
    for filters in ((slip, rest), (rest, slip)):
        # What another filter hides is not named, wherever it stands.
        (note,) = (one for one in ask("sea", filters=filters).notes if "excludes nothing" in one)
        assert "that the other filters allow" in note
        assert "car" not in note
    assert not any(
        "excludes nothing" in note
        for note in ask("sea", filters=(Filter("topic", low="x", exclude=True),)).notes
    )


def test_a_long_question_is_cut_and_answered_and_a_longer_one_refused(ask: Ask) -> None:
    found = ask("pedal sensor " * 1500)
    assert found.hits[0].document_id == "manual"
    assert any("19500" in note for note in found.notes)
    with pytest.raises(RetrieveError, match="100100 characters, more than 20000"):
        ask("pedal sensor " * 7700)
    with pytest.raises(RetrieveError, match="1001 different words, more than 1000"):
        ask(" ".join(f"word{number}" for number in range(1001)))


def test_the_same_question_gets_the_same_answer(ask: Ask) -> None:
    assert ask("pedal light sea") == ask("pedal light sea")


def test_a_mined_meaning_never_crosses_a_hard_filter(tmp_path: Path) -> None:
    store = open_store(StoreOptions(), tmp_path)
    spec = IndexSpec("whole", make_analyzer(AnalyzerOptions()).spec, "directions", 3)
    said = {"a": "XK7: the pedal sensor is loose", "b": "XK9: the merger with Nord is planned"}
    documents = [Document(f"d{t}", f"{t}.txt", x, metadata={"tenant": t}) for t, x in said.items()]
    entries = [
        IndexedDocument(
            document,
            (
                Chunk(
                    f"{document.id}:0", document.id, 0, Span(0, len(document.text)), document.text
                ),
            ),
            unit([direction(document.text)]),
        )
        for document in documents
    ]
    store.upsert(spec, entries)
    views = Views(store)
    target = Target(
        store.snapshot(spec), "directions", 3, glossary=mine_glossary(store.documents(spec))
    )
    routes: dict[type, HandlerSource] = {
        Search: ViewHandler(views),
        Lookup: ViewHandler(views),
        Embed: Directions(),
    }

    def notes(tenant: str, *, exclude: bool = False) -> str:
        options = RetrieveOptions(
            query=QueryOptions(("glossary",)),
            filters=(Filter("tenant", (tenant,), exclude=exclude),),
        )
        return " ".join(runner.run(retrieve("what are XK9 and XK7", target, options)).notes)

    with Runner(routes) as runner:
        assert "merger" not in notes("a")
        assert "XK7 = the pedal sensor is loose" in notes("a")
        assert "XK9 = the merger with Nord is planned" in notes("b")
        assert "merger" not in notes("b", exclude=True)
        assert "XK7 = the pedal sensor is loose" in notes("b", exclude=True)
    views.close()
    store.close()
