"""Retrieval as a flow: search the channels, fuse them, fetch the best chunks."""

from __future__ import annotations

import unicodedata
from collections.abc import Generator, Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias, cast

import numpy as np

from ..core import ChannelScore, Hit, PluginError, RagwrightError, RetrieveError, load_object
from ..flow import Flow, Vector, embed, lookup, search_dense, search_keyword
from ._fusion import rrf
from ._options import RetrieveOptions

Mode: TypeAlias = Literal["keyword", "dense", "hybrid"]
Ranking: TypeAlias = tuple[tuple[str, float], ...]


@dataclass(frozen=True, slots=True)
class Target:
    """What is searched: one snapshot of an index and the model that embeds queries for it.

    Attributes:
        snapshot: Name of the snapshot, as the index gave it.
        model: Embedding model as configured, empty where the index has no vectors.
        dimensions: Length of a vector, 0 without vectors.
        similarity: ``cosine`` or ``dot``.
    """

    snapshot: str
    model: str = ""
    dimensions: int = 0
    similarity: str = "cosine"


@dataclass(frozen=True, slots=True)
class Candidates:
    """What the channels found, before any chunk is fetched.

    Attributes:
        query: Query as it was searched.
        mode: Channels that were searched.
        ranking: The ``top_k`` best (chunk id, score) over all channels: BM25 scores for
            ``keyword``, similarities for ``dense``, fused scores for ``hybrid``.
        channels: All that each channel found, best first, by its own scores.
        notes: What the reader should know: a query cut, a channel that found nothing.
    """

    query: str
    mode: Mode
    ranking: Ranking
    channels: Mapping[str, Ranking]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Retrieved:
    """Hits for a query, best first, and how they were found (see :class:`Candidates`)."""

    query: str
    hits: tuple[Hit, ...]
    mode: str = ""
    notes: tuple[str, ...] = ()

    @property
    def document_ids(self) -> tuple[str, ...]:
        """Documents of the hits, each once, at the rank of its best chunk."""
        return tuple(dict.fromkeys(hit.document_id for hit in self.hits))


def retrieve(query: str, target: Target, options: RetrieveOptions) -> Flow[Retrieved]:
    """The ``top_k`` chunks that answer a query best, ranks from 1.

    Each hit carries, per channel that found it, its rank and score there. An own retriever
    (``options.retriever``) is called with the same three arguments and is itself a flow.

    Raises:
        RetrieveError: The query is empty, or asks for vectors that the index has not.
        FilterError: A filter names an unknown field.
        PluginError: The own retriever fails, or is not a flow that returns ``Retrieved``.
    """
    if options.retriever:
        return (yield from _own(query, target, options))
    found = yield from candidates(query, target, options)
    best = found.ranking
    if not best:
        return Retrieved(found.query, (), found.mode, found.notes)
    stored = (yield from lookup(target.snapshot, [key for key, _ in best])).hits
    if len(stored) != len(best):
        raise RetrieveError(
            f"{len(best)} chunks were found, {len(stored)} of them could be fetched",
            where=f"snapshot {target.snapshot}",
            hint="the index answers from two different states: refresh it",
        )
    return Retrieved(found.query, _ranked_hits(best, stored, found), found.mode, found.notes)


def candidates(query: str, target: Target, options: RetrieveOptions) -> Flow[Candidates]:
    """Search the channels and fuse them, without fetching any chunk.

    Takes ``pool`` candidates a channel (``top_k`` where that is more); the arguments and the
    errors are those of :func:`retrieve`.
    """
    text, notes = _prepared(query, options.max_query_chars)
    mode, more = _mode(target, options)
    notes += more
    pool = max(options.pool, options.top_k)
    lists: dict[str, Ranking] = {}
    if mode != "dense":
        lists["keyword"] = yield from search_keyword(target.snapshot, text, pool, options.filters)
        if not lists["keyword"]:
            notes.append(_nothing_found(bool(options.filters)))
    if mode != "keyword":
        vector = yield from _query_vector(text, target)
        lists["dense"] = yield from search_dense(target.snapshot, vector, pool, options.filters)
        if not lists["dense"]:
            notes.append("no dense hits: no chunk with a vector meets the filters")
    return Candidates(text, mode, _fused(lists, options), lists, tuple(notes))


def _prepared(query: str, limit: int) -> tuple[str, list[str]]:
    """The query as documents are normalised (NFC), cut to the limit, and a note where cut."""
    length = len(query)
    text = query[:limit]
    if length > limit and not query[limit].isspace():
        text = text[: text.rfind(" ")] if " " in text else text
    if not text.isascii():
        # A lone surrogate has no UTF-8 form: no store, model or socket could take it.
        text = unicodedata.normalize("NFC", text.encode("utf-8", "replace").decode("utf-8"))
    text = text.strip()
    if not text:
        raise RetrieveError("the query is empty", hint="ask something in words")
    if length <= limit:
        return text, []
    return text, [f"query of {length} characters cut to the first {len(text)} (limit {limit})"]


def _mode(target: Target, options: RetrieveOptions) -> tuple[Mode, list[str]]:
    """The channels to search, and a note where the settings leave one out.

    ``auto`` without vectors needs none: the mode on the result says it.
    """
    asked = options.search
    if not target.model:
        if asked == "auto":
            return "keyword", []
        if asked != "keyword":
            raise RetrieveError(
                f"{asked} search needs vectors, and this index has none",
                where=f"snapshot {target.snapshot}",
                hint="name an embedding model under embed and ingest again, or search by keyword",
            )
    if asked in ("keyword", "dense"):
        return cast("Mode", asked), []
    weights = options.weights
    if weights.keyword <= 0 and weights.dense <= 0:
        raise RetrieveError(
            "no channel has a weight above 0", hint="set retrieve.weights.keyword or .dense"
        )
    if weights.dense <= 0:
        return "keyword", ["dense channel left out: its weight is 0"]
    if weights.keyword <= 0:
        return "dense", ["keyword channel left out: its weight is 0"]
    return "hybrid", []


def _query_vector(text: str, target: Target) -> Flow[Vector]:
    """The query's vector, checked, and of length 1 where the similarity is a cosine."""
    vectors = yield from embed(target.model, (text,))
    if vectors.shape != (1, target.dimensions):
        raise RetrieveError(
            f"{target.model} returned vectors of shape {vectors.shape} for one query; "
            f"the index holds vectors of {target.dimensions} dimensions",
            where=f"snapshot {target.snapshot}",
            hint="queries and corpus must share one embedding model: ingest again with this one",
        )
    vector = cast("Vector", vectors[0])
    square = float(np.dot(vector, vector))
    if not 0 < square < float("inf"):
        raise RetrieveError(
            f"{target.model} returned a vector for the query that is zero or not finite",
            hint="try another wording, or check the embedding model",
        )
    if target.similarity == "cosine" and abs(square - 1) > 1e-4:
        vector = (vector / np.sqrt(square)).astype(np.float32)
    return vector


def _fused(lists: Mapping[str, Ranking], options: RetrieveOptions) -> Ranking:
    """One ranking of what the channels found."""
    if len(lists) == 1:
        return next(iter(lists.values()))[: options.top_k]
    weights = {"keyword": options.weights.keyword, "dense": options.weights.dense}
    return tuple(
        rrf(
            [[key for key, _ in found] for found in lists.values()],
            options.rrf_k,
            [weights[name] for name in lists],
            limit=options.top_k,
        )
    )


def _ranked_hits(best: Ranking, stored: tuple[Hit, ...], found: Candidates) -> tuple[Hit, ...]:
    """Stored chunks with rank, score and what each channel said."""
    places = [
        (name, ranking, {key: at for at, (key, _) in enumerate(ranking)})
        for name, ranking in found.channels.items()
    ]
    hits = []
    for rank, ((key, score), hit) in enumerate(zip(best, stored, strict=True), 1):
        channels = {
            name: ChannelScore(at[key] + 1, ranking[at[key]][1])
            for name, ranking, at in places
            if key in at
        }
        # Written out: dataclasses.replace costs three times as much, once per hit and query.
        hits.append(
            Hit(
                rank,
                score,
                hit.document_id,
                hit.chunk_id,
                hit.source,
                hit.title,
                hit.page,
                hit.start,
                hit.end,
                hit.text,
                hit.headings,
                channels,
                hit.metadata,
                hit.pages,
            )
        )
    return tuple(hits)


def _nothing_found(filtered: bool) -> str:
    """Why the keyword channel may have found nothing."""
    reason = "the query holds only stop words, or words that are not in the index"
    return f"no keyword hits: {reason}" + (" under these filters" if filtered else "")


def _own(query: str, target: Target, options: RetrieveOptions) -> Flow[Retrieved]:
    """Hand over to the retriever that the settings name; what it fails with names it."""
    own = load_object(options.retriever, where="retrieve.retriever")
    try:
        flow = own(query, target, options) if callable(own) else own
        result = (yield from flow) if isinstance(flow, Generator) else flow
    except RagwrightError:
        raise
    except Exception as error:
        raise PluginError(
            f"{options.retriever} failed: {type(error).__name__}: {error}",
            where="retrieve.retriever",
            hint=_OWN_FORM,
        ) from error
    if not isinstance(flow, Generator):
        raise PluginError(
            f"{options.retriever} is not a flow: it gave {type(flow).__name__}",
            where="retrieve.retriever",
            hint=_OWN_FORM,
        )
    if not isinstance(result, Retrieved):
        raise PluginError(
            f"{options.retriever} returned {type(result).__name__}, not Retrieved",
            where="retrieve.retriever",
            hint=_OWN_FORM,
        )
    return result


_OWN_FORM = "write a generator function (query, target, options) that returns Retrieved"
