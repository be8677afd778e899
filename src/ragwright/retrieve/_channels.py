"""Searching the channels and fusing what they find, before any chunk is fetched.

A query may come in several wordings. Each wording is searched in its channels and fused on its
own; the wordings' rankings are then fused by reciprocal ranks, weighted. Soft filters rank
before all scores: the heavier rung first, within a rung by fused score, then id.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, TypeAlias, cast

import numpy as np

from ..core import Filter, Relaxation, RetrieveError, Rung, Term
from ..flow import Flow, Search, SearchReply, Vector, embed, gather, send
from ..index import rungs_of
from ..models import is_code
from ._adaptive import Balance, balance, held_share, unknown_share
from ._fusion import convex, rrf
from ._options import RetrieveOptions
from ._target import Candidates, Explanation, Mode, Ranking, Target, Variant

Asked: TypeAlias = str | Variant | Sequence[Variant]
"""A query: its text, or one or several wordings of it, the first as it was asked."""


@dataclass(frozen=True, slots=True)
class _Found:
    """What one wording found: replies by channel, their fusion, the weights of the channels."""

    ranking: Ranking
    replies: Mapping[str, SearchReply]
    weights: Mapping[str, float] = field(default_factory=dict)
    reason: str = ""


def candidates(query: Asked, target: Target, options: RetrieveOptions) -> Flow[Candidates]:
    """Search the channels and fuse them, without fetching any chunk.

    Takes ``pool`` candidates a channel (``top_k`` where that is more); the arguments and the
    errors are those of :func:`retrieve`, but that a query may come in several wordings.
    """
    wordings, notes = _wordings(query, options.max_query_chars)
    mode, more = _mode(target, options)
    notes += more
    relax = options.relaxation()
    flows = [_search(wording, mode, target, options, relax) for wording in wordings]
    found = [(yield from flows[0])] if len(flows) == 1 else (yield from gather(flows))
    if mode != "dense":
        notes += _word_notes(found, bool(options.filters))
    if mode != "keyword" and not any(_reply(one, "dense").candidates for one in found):
        notes.append("no dense hits: no chunk with a vector meets the filters")
    notes += [note for one in found for reply in one.replies.values() for note in reply.notes]
    ranking = found[0].ranking if len(found) == 1 else _over_wordings(found, wordings, options)
    rungs: dict[str, Rung] = {}
    if relax is not None and relax.soft:
        rungs = _rungs(found, relax)
        ranking = tuple(sorted(ranking, key=lambda p: (-rungs[p[0]].weight, -p[1], p[0])))
    return Candidates(
        wordings[0].keyword or wordings[0].dense,
        mode,
        ranking[: options.top_k],
        _channels(found),
        tuple(dict.fromkeys(notes)),
        Explanation(
            _terms(found),
            weights=found[0].weights,
            reason=found[0].reason,
            ladder=_ladder(found, relax),
        ),
        rungs,
    )


def _wordings(query: Asked, limit: int) -> tuple[list[Variant], list[str]]:
    """The wordings, normalised and cut to the limit, and notes on what was cut."""
    if isinstance(query, str):
        text, notes = prepared(query, limit)
        return [Variant(text, text)], notes
    given = [query] if isinstance(query, Variant) else list(query)
    wordings: list[Variant] = []
    notes = []
    for one in given:
        made = {}
        for name in ("keyword", "dense"):
            text = getattr(one, name)
            if text.strip():
                made[name], more = prepared(text, limit)
                notes += more
        if made and one.weight > 0:
            keyword, dense = made.get("keyword", ""), made.get("dense", "")
            wordings.append(replace(one, keyword=keyword, dense=dense))
    if not wordings:
        raise RetrieveError("the query is empty", hint="ask something in words")
    return wordings, notes


def _search(
    wording: Variant,
    mode: Mode,
    target: Target,
    options: RetrieveOptions,
    relax: Relaxation | None,
) -> Flow[_Found]:
    """Search one wording in its channels, and fuse what they found."""
    pool = max(options.pool, options.top_k)
    replies: dict[str, SearchReply] = {}
    if mode != "dense" and wording.keyword:
        # A threshold is a similarity wherever there are similarities.
        bound = relax if mode == "keyword" or relax is None else replace(relax, threshold=None)
        asked = Search(
            target.snapshot, "keyword", pool, wording.keyword, filters=options.filters, relax=bound
        )
        replies["keyword"] = yield from send(asked, SearchReply)
    if mode != "keyword" and wording.dense:
        vector = yield from _query_vector(wording, target)
        asked = Search(
            target.snapshot,
            "dense",
            pool,
            vector=np.ascontiguousarray(vector, dtype=np.float32).tobytes(),
            filters=options.filters,
            relax=relax,
        )
        replies["dense"] = yield from send(asked, SearchReply)
    if len(replies) < 2:
        only = next(iter(replies.values()), SearchReply(()))
        return _Found(only.candidates, replies)
    if relax is not None and relax.threshold is not None:
        near = {key for key, _ in replies["dense"].candidates}
        replies["keyword"] = _kept(replies["keyword"], near)
    return _fused(wording, replies, target, options)


def _fused(
    wording: Variant, replies: Mapping[str, SearchReply], target: Target, options: RetrieveOptions
) -> _Found:
    """The two channels of one wording as one ranking."""
    keyword, dense = replies["keyword"], replies["dense"]
    lists = (keyword.candidates, dense.candidates)
    limit = None if options.soft or options.threshold is not None else options.pool
    limit = None if limit is None else max(limit, options.top_k)
    given = options.weights
    if options.fusion == "rrf":
        weights = {"keyword": given.keyword, "dense": given.dense}
        ids = [[key for key, _ in found] for found in lists]
        ranking = rrf(ids, options.rrf_k, list(weights.values()), limit=limit)
        return _Found(tuple(ranking), replies, weights, f"rank fusion, k {options.rrf_k}")
    share, reason = options.keyword_share, "fixed weights"
    if options.fusion == "adaptive":
        found = _balance(wording, keyword, target, share)
        share, reason = found.keyword, found.reason
    shares = (given.keyword * share, given.dense * (1.0 - share))
    best = max((score for _, score in dense.candidates), default=1.0)
    floors = (0.0, -1.0 if target.similarity == "cosine" else -abs(best))
    pool = max(options.pool, options.top_k)
    ranking = convex(lists, shares, floors, pool, limit=limit)
    total = sum(shares)
    weights = {"keyword": shares[0] / total, "dense": shares[1] / total}
    return _Found(tuple(ranking), replies, weights, reason)


def _balance(wording: Variant, keyword: SearchReply, target: Target, base: float) -> Balance:
    """The weights for this wording, from its words and what the keyword channel found."""
    best = max((score for _, score in keyword.candidates), default=0.0)
    held = held_share(best, keyword.terms)
    if not held:
        return balance(base, 0.0, 0.0)
    unknown = unknown_share(wording.keyword, keyword.terms, target.analyzer, target.tokenizer)
    return balance(base, unknown, held)


def _over_wordings(
    found: Sequence[_Found], wordings: Sequence[Variant], options: RetrieveOptions
) -> Ranking:
    """Rank fusion of the wordings' rankings."""
    lists = [[key for key, _ in one.ranking] for one in found]
    return tuple(rrf(lists, options.rrf_k, [wording.weight for wording in wordings]))


def _reply(found: _Found, channel: str) -> SearchReply:
    return found.replies.get(channel, SearchReply(()))


def _channels(found: Sequence[_Found]) -> dict[str, Ranking]:
    """What each channel found; those of further wordings are numbered from 2."""
    return {
        name if number == 1 else f"{name} {number}": reply.candidates
        for number, one in enumerate(found, 1)
        for name, reply in one.replies.items()
    }


def _kept(reply: SearchReply, ids: set[str]) -> SearchReply:
    """The reply with these candidates alone."""
    at = [n for n, (key, _) in enumerate(reply.candidates) if key in ids]
    rungs = tuple(reply.rungs[n] for n in at) if reply.rungs else ()
    return replace(reply, candidates=tuple(reply.candidates[n] for n in at), rungs=rungs)


def _rungs(found: Sequence[_Found], relax: Relaxation) -> dict[str, Rung]:
    """The rung of every candidate: the same in each channel and wording."""
    bits: dict[str, int] = {}
    for one in found:
        for reply in one.replies.values():
            bits |= zip((key for key, _ in reply.candidates), reply.rungs, strict=True)
    numbers = list(dict.fromkeys(bits.values()))
    known = dict(zip(numbers, rungs_of(relax, numbers), strict=True))
    return {key: known[number] for key, number in bits.items()}


def _ladder(
    found: Sequence[_Found], relax: Relaxation | None
) -> tuple[tuple[tuple[str, ...], float, int], ...]:
    """Rungs as the first channel with soft filters counted them, heaviest first."""
    replies = [reply for one in found for reply in one.replies.values() if reply.ladder]
    if relax is None or not relax.soft or not replies:
        return ()
    # Similarities exist for every chunk: the dense channel's counts are the whole ladder.
    ladder = max(replies, key=lambda reply: sum(count for _, count in reply.ladder)).ladder
    rungs = rungs_of(relax, [rung for rung, _ in ladder])
    return tuple(
        (tuple(map(_condition, rung.met)), rung.weight, count)
        for rung, (_, count) in zip(rungs, ladder, strict=True)
    )


def _condition(one: Filter) -> str:
    if one.values:
        return f"{one.field} = {' or '.join(map(str, one.values))}"
    low = "" if one.low is None else f"{one.low} <= "
    high = "" if one.high is None else f" <= {one.high}"
    return f"{low}{one.field}{high}"


def _terms(found: Sequence[_Found]) -> tuple[Term, ...]:
    """What the keyword channel looked for over all wordings, each token once."""
    if len(found) == 1:
        return _reply(found[0], "keyword").terms
    return tuple(
        {t.token: t for one in reversed(found) for t in _reply(one, "keyword").terms}.values()
    )


def prepared(query: str, limit: int) -> tuple[str, list[str]]:
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


def _query_vector(wording: Variant, target: Target) -> Flow[Vector]:
    """The query's vector, checked, and of length 1 where the similarity is a cosine."""
    role: Literal["query", "passage"] = "passage" if wording.passage else "query"
    vectors = yield from embed(target.model, (wording.dense,), role)
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


def _word_notes(found: Sequence[_Found], filtered: bool) -> list[str]:
    """Why the keyword channel found nothing, and which codes the index does not hold."""
    terms = _terms(found)
    absent = [term.token for term in terms if not term.chunks]
    notes = []
    if not any(_reply(one, "keyword").candidates for one in found):
        if not terms:
            reason = "the query holds only stop words, or words that are not in the index"
        elif len(absent) == len(terms):
            reason = f"not in the index: {', '.join(absent)}"
        else:
            reason = "no chunk with a word of the query may be found"
        notes.append(f"no keyword hits: {reason}" + (" under these filters" if filtered else ""))
    elif codes := [token for token in absent if is_code(token)]:
        notes.append(f"codes that are not in the index: {', '.join(codes)}")
    return notes
