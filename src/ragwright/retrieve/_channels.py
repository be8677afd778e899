"""Searching the channels and fusing what they find, before any chunk is fetched."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping
from typing import cast

import numpy as np

from ..core import RetrieveError
from ..flow import Flow, Vector, embed, search_dense, search_keyword
from ._fusion import rrf
from ._options import RetrieveOptions
from ._target import Candidates, Mode, Ranking, Target


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


def _nothing_found(filtered: bool) -> str:
    """Why the keyword channel may have found nothing."""
    reason = "the query holds only stop words, or words that are not in the index"
    return f"no keyword hits: {reason}" + (" under these filters" if filtered else "")
