"""SPEC C5 on a real play: the right words from the wrong act, and one act alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
from benchmarks.data_sets import DATA

from ragwright.core import Filter, FilterError, Hit
from ragwright.flow import HandlerSource, Lookup, Runner, Search
from ragwright.index import (
    IndexedDocument,
    IndexSpec,
    StoreOptions,
    ViewHandler,
    Views,
    open_store,
)
from ragwright.ingest import ChunkOptions, FileReader, make_chunker
from ragwright.models import AnalyzerOptions, WordTokenizer, make_analyzer
from ragwright.retrieve import (
    RetrieveOptions,
    SelectOptions,
    Target,
    one_sided,
    retrieve,
    select_hits,
    values_of,
)

PLAY = DATA / "moliere" / "moliere_avare.xml"

QUESTION = "Qui a volé la cassette d'Harpagon ?"
"""Act V speaks of the theft all along, and has Valère accused of it; act IV shows the thief."""

THIEF = "guigné ceci tout le jour"
"""La Flèche's words in act IV, scene VI, with the box under his arm."""


Ask = Callable[..., tuple[Hit, ...]]


@pytest.fixture(scope="module")
def ask(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ask]:
    """Keyword search over L'Avare; the act is metadata, the headings are those of the edition."""
    (document,) = FileReader().read_file(PLAY)
    assert not hasattr(document, "error")
    chunker = make_chunker(ChunkOptions(by="headings", size=200, overlap=0), WordTokenizer())
    chunks = tuple(
        replace(chunk, metadata={"act": chunk.headings[1]}) if len(chunk.headings) == 3 else chunk
        for chunk in chunker.chunks(document)
    )
    store = open_store(StoreOptions(), tmp_path_factory.mktemp("play"))
    spec = IndexSpec("headings", make_analyzer(AnalyzerOptions(language="fr")).spec)
    store.upsert(spec, [IndexedDocument(document, chunks)])
    views = Views(store)
    routes: dict[type, HandlerSource] = {Search: ViewHandler(views), Lookup: ViewHandler(views)}
    target = Target(store.snapshot(spec))
    with Runner(routes) as runner:
        yield (
            lambda query, **settings: (
                runner.run(retrieve(query, target, RetrieveOptions(**settings))).hits
            )
        )
    views.close()
    store.close()


def shown(hits: tuple[Hit, ...]) -> bool:
    return any(THIEF in hit.text for hit in hits)


def acts(hits: tuple[Hit, ...]) -> set[str]:
    return {str(hit.metadata["act"]) for hit in hits if "act" in hit.metadata}


@pytest.mark.slow
@pytest.mark.needs_data
def test_the_right_words_from_the_wrong_act_are_told(ask: Ask) -> None:
    pool = ask(QUESTION, top_k=30)
    kept, notes = select_hits(pool, 4, SelectOptions(watch=("act",)))
    assert kept == pool[:4]
    assert acts(kept) == {"Acte V"}
    assert not shown(kept)
    assert shown(pool)
    (note,) = notes
    assert "all 4 hits have act 'Acte V'" in note
    assert "'Acte IV'" in note


@pytest.mark.slow
@pytest.mark.needs_data
def test_turns_or_a_filter_bring_the_right_act(ask: Ask) -> None:
    pool = ask(QUESTION, top_k=30)
    for field in ("act", "section:2"):
        kept, notes = select_hits(pool, 5, SelectOptions(balance=field))
        assert shown(kept)
        assert len(acts(kept)) == 4
        assert notes == ()
    assert shown(ask(QUESTION, top_k=4, filters=(Filter("act", ("Acte IV",)),)))
    assert not shown(ask(QUESTION, top_k=4, filters=(Filter("act", ("Acte V",)),)))


def hit(rank: int, headings: tuple[str, ...] = (), **metadata: Any) -> Hit:
    name = f"d{rank}"
    return Hit(
        rank, 1.0, name, f"{name}:0-1", name, "", rank, 0, 1, "x", headings, metadata=metadata
    )


def test_values_of_a_hit() -> None:
    found = hit(2, ("Play", "Act I", "Scene I"), topics=("a", "b"), year=1668, empty="")
    assert values_of(found, "document_id") == ("d2",)
    assert values_of(found, "page") == ("2",)
    assert values_of(found, "title") == ()
    assert values_of(found, "section") == ("Play", "Act I", "Scene I")
    assert values_of(found, "section:2") == ("Play › Act I",)
    assert values_of(found, "topics") == ("a", "b")
    assert values_of(found, "year") == ("1668",)
    assert values_of(found, "empty") == values_of(found, "other") == ()
    assert values_of(hit(1), "section") == values_of(hit(1), "section:1") == ()
    assert values_of(hit(1, ("A",), section="own"), "section") == ("own",)
    with pytest.raises(FilterError, match="level"):
        values_of(found, "section:x")


@pytest.mark.parametrize(
    ("kept", "told"),
    [
        ("pp", True),
        ("pc", False),
        ("p", False),
        ("", False),
        ("p-", False),
    ],
)
def test_one_side_is_told_only_where_another_was_found(kept: str, told: bool) -> None:
    sides: dict[str, dict[str, Any]] = {"p": {"side": "pro"}, "c": {"side": "con"}, "-": {}}
    hits = [hit(n, **sides[kind]) for n, kind in enumerate(kept, 1)]
    pool = [*hits, hit(8, side="con"), hit(9, side="pro")]
    assert bool(one_sided(hits, pool, "side")) == told
    assert one_sided(hits, hits, "side") == ""


def test_a_section_that_all_hits_of_the_pool_share_is_no_side() -> None:
    hits = [hit(1, ("Play", "Act I", "Scene I")), hit(2, ("Play", "Act I", "Scene II"))]
    note = one_sided(hits, [*hits, hit(3, ("Play", "Act II", "Scene I"))], "section")
    assert note == (
        "one-sided: all 2 hits have section 'Act I', while the search also found 'Act II' "
        "(balance section, or set a filter)"
    )
    assert one_sided(hits, [*hits, hit(3, ("Play", "Act I"))], "section") == ""
