"""Searches the channels and fuses their results, before any chunk is fetched.

A query may come in several wordings. Each wording is searched in its channels and fused on its
own; the wordings' rankings are then fused by reciprocal ranks, weighted. Soft filters come before
scores: the heavier relaxation level first, within a level by fused score, then id.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, TypeAlias, cast

import numpy as np

from ..core import Relaxation, RelaxationLevel, RetrieveError, Term, well_formed
from ..flow import Flow, Lookup, LookupReply, Search, SearchReply, Vector, embed, gather, send
from ..index import rungs_of
from ..models import is_code, words
from ._fusion import RRF_K, balance, convex, measure_score_share, rrf, spell_tokens, unknown_share
from ._options import RetrieveOptions
from ._target import Candidates, Explanation, Ranking, Target, Variant

Role: TypeAlias = Literal["query", "passage"]

Wordings: TypeAlias = str | Variant | Sequence[Variant]
"""A query: its text, or several wordings of it, first the user's own."""


_SHOWN_CHARS = 40
_SHOWN_TOKENS = 10


_NOTHING = SearchReply(())
"""The reply of a channel that was not searched."""


# Not frozen: that takes three times as long, and two are made per wording.
@dataclass(slots=True, eq=False)
class _WordingResult:
    """The results of one wording: replies by channel, its vector, the fusion and its weights."""

    replies: dict[str, SearchReply]
    vector: Vector | None = None
    ranking: Ranking = ()
    weights: Mapping[str, float] = field(default_factory=dict)
    reason: str = ""


def candidates(query: Wordings, target: Target, options: RetrieveOptions) -> Flow[Candidates]:
    """Search the channels and fuse them, without fetching any chunk.

    Takes ``options.candidates`` per channel. Arguments and errors are
    those of :func:`retrieve`, except that a query may have several wordings.
    """
    wordings, notes = _wordings(query, options.max_query_chars)
    question = wordings[0].keyword or wordings[0].dense
    names, more = _choose_channels(target, options)
    notes += more
    relax = options.relaxation()
    if len(wordings) > 1:
        wordings = _merge_wordings(wordings, names)
    flows = [_search(wording, names, target, options, relax) for wording in wordings]
    results = [(yield from flows[0])] if len(flows) == 1 else (yield from gather(flows))
    if len(names) > 1 and relax is not None and relax.threshold is not None:
        notes += yield from _drop_below_threshold(results, question, target, relax.threshold)
    for wording, result in zip(wordings, results, strict=True):
        _fuse_channels(wording, result, target, options)
    terms = {
        term.token: term
        for result in reversed(results)
        for term in result.replies.get("keyword", _NOTHING).terms
    }
    if "keyword" in names:
        asked = " ".join(wording.keyword for wording in wordings)
        spelled = spell_tokens(asked, target.analyzer) if target.analyzer else {}
        written = [replace(t, token=spelled.get(t.token, t.token)) for t in terms.values()]
        notes += _word_notes(results, written, options)
    if "dense" in names and not any(
        result.replies.get("dense", _NOTHING).candidates for result in results
    ):
        notes.append(_no_dense(options))
    channels: dict[str, Ranking] = {}
    count: Counter[str] = Counter()
    for result in results:
        for name, reply in result.replies.items():
            notes += reply.notes
            count[name] += 1  # the results of further wordings are numbered from 2
            channels[name if count[name] == 1 else f"{name} {count[name]}"] = reply.candidates
    ranking, weights, reason = results[0].ranking, results[0].weights, results[0].reason
    if len(results) > 1:
        lists = [[key for key, _ in result.ranking] for result in results]
        ranking = tuple(rrf(lists, weights=[wording.weight for wording in wordings]))
        weights, reason = _mean_weights(results, wordings)
    rungs: dict[str, RelaxationLevel] = {}
    explanation = Explanation(tuple(terms.values()), weights=weights, reason=reason)
    if relax is not None and relax.soft:
        rungs = _rungs(results, relax)
        ranking = tuple(sorted(ranking, key=lambda p: (-rungs[p[0]].weight, -p[1], p[0])))
        explanation = replace(explanation, ladder=_ladder(results, relax))
    return Candidates(
        question,
        names[0] if len(names) == 1 else "hybrid",
        ranking[: options.top_k],
        channels,
        tuple(dict.fromkeys(notes)),
        explanation,
        rungs,
    )


def _wordings(query: Wordings, limit: int) -> tuple[list[Variant], list[str]]:
    """The wordings, normalised and cut to the limit, and notes on what was cut."""
    if isinstance(query, str):
        query = Variant(query, query)
    wordings: list[Variant] = []
    notes: list[str] = []
    for variant in [query] if isinstance(query, Variant) else query:
        texts = {"keyword": "", "dense": ""}
        for name in texts:
            text: str = getattr(variant, name)
            if text.strip():
                texts[name], more = prepare_query(text, limit)
                notes += more
        if any(texts.values()) and variant.weight > 0:
            wordings.append(replace(variant, keyword=texts["keyword"], dense=texts["dense"]))
    if not wordings:
        raise RetrieveError("the query is empty", hint="write a question")
    return wordings, notes


def _merge_wordings(wordings: Sequence[Variant], names: Sequence[str]) -> list[Variant]:
    """The wordings for these channels; equal ones are merged and their weights added."""
    merged: dict[tuple[str, str, bool], Variant] = {}
    for wording in wordings:
        keyword = wording.keyword if "keyword" in names else ""
        dense = wording.dense if names != ("keyword",) else ""
        if keyword or dense:
            key = (keyword, dense, wording.passage)
            weight = merged[key].weight if key in merged else 0.0
            merged[key] = Variant(keyword, dense, weight + wording.weight, wording.passage)
    return list(merged.values()) or list(wordings)


def _search(
    wording: Variant,
    names: Sequence[str],
    target: Target,
    options: RetrieveOptions,
    relax: Relaxation | None,
) -> Flow[_WordingResult]:
    """Search one wording in its channels."""
    vector: Vector | None = None
    # With two channels, the threshold is a similarity of vectors.
    bound = relax if len(names) == 1 or relax is None else replace(relax, threshold=None)
    pool = options.candidates
    replies: dict[str, SearchReply] = {}
    if "keyword" in names and wording.keyword:
        request = Search(
            target.snapshot, "keyword", pool, wording.keyword, filters=options.filters, relax=bound
        )
        replies["keyword"] = yield from send(request, SearchReply)
    if "dense" in names and wording.dense:
        vector = yield from _query_vector(wording, target)
        request = Search(
            target.snapshot,
            "dense",
            pool,
            vector=np.ascontiguousarray(vector, dtype=np.float32).tobytes(),
            filters=options.filters,
            relax=relax,
        )
        replies["dense"] = yield from send(request, SearchReply)
    return _WordingResult(replies, vector)


def _drop_below_threshold(
    results: Sequence[_WordingResult], question: str, target: Target, least: float
) -> Flow[tuple[str, ...]]:
    """Drop the hits that are less similar than ``least`` to every wording; returns notes.

    With two channels, the threshold is a similarity of vectors, and the dense channel gives only
    those of its pool: the others are computed from the chunks' vectors. If no wording is for the
    dense channel, the question is embedded for this.
    """
    near = {
        key for result in results for key, _ in result.replies.get("dense", _NOTHING).candidates
    }
    replies = (reply for result in results for reply in result.replies.values())
    hits = (key for reply in replies for key, _ in reply.candidates)
    unknown = tuple(dict.fromkeys(key for key in hits if key not in near))
    notes: tuple[str, ...] = ()
    if unknown:
        vectors = [result.vector for result in results if result.vector is not None]
        if not vectors:
            vectors = [(yield from _query_vector(Variant("", question), target))]
        reply = yield from send(Lookup(target.snapshot, unknown, vectors=True), LookupReply)
        notes = reply.notes
        if reply.vectors is not None:
            alike = (reply.vectors @ np.stack(vectors).T).max(axis=1).astype(np.float64)
            reached = np.round(alike, 6) >= least
            near.update(key for key, over in zip(unknown, reached, strict=True) if over)
    for result in results:
        for name, channel in result.replies.items():
            at = [n for n, (key, _) in enumerate(channel.candidates) if key in near]
            result.replies[name] = replace(
                channel,
                candidates=tuple(channel.candidates[n] for n in at),
                rungs=tuple(channel.rungs[n] for n in at) if channel.rungs else (),
            )
    return notes


def _fuse_channels(
    wording: Variant, result: _WordingResult, target: Target, options: RetrieveOptions
) -> None:
    """Fuse the results of one wording into its ranking, with the weights and their reason."""
    replies = result.replies
    if len(replies) < 2:
        result.ranking = next(iter(replies.values()), _NOTHING).candidates
        return
    lists = [reply.candidates for reply in replies.values()]
    limit = None if options.soft or options.threshold is not None else options.candidates
    channel_weights = options.weights
    if options.fusion == "rrf":
        result.weights = {name: getattr(channel_weights, name) for name in replies}
        result.reason = f"rank fusion, k {RRF_K}"
        ids = [[key for key, _ in pairs] for pairs in lists]
        result.ranking = tuple(rrf(ids, weights=list(result.weights.values()), limit=limit))
        return
    share, result.reason = options.keyword_share, "fixed weights"
    if options.fusion == "adaptive":
        reply = replies["keyword"]
        held = measure_score_share(max((s for _, s in reply.candidates), default=0.0), reply.terms)
        unknown = 0.0
        if held:
            unknown = unknown_share(wording.keyword, reply.terms, target.analyzer, target.tokenizer)
        chosen = balance(share, unknown, held)
        share, result.reason = chosen.keyword, chosen.reason
    shares = (channel_weights.keyword * share, channel_weights.dense * (1.0 - share))
    # the least similarity that there could be
    floor = -1.0
    if target.similarity != "cosine":
        floor = -abs(max((score for _, score in replies["dense"].candidates), default=1.0))
    result.ranking = tuple(convex(lists, shares, (0.0, floor), options.candidates, limit=limit))
    total = sum(shares)
    result.weights = {name: each / total for name, each in zip(replies, shares, strict=True)}


def _mean_weights(
    results: Sequence[_WordingResult], wordings: Sequence[Variant]
) -> tuple[Mapping[str, float], str]:
    """The mean weight of each channel over several wordings, and why."""
    total = sum(wording.weight for wording in wordings)
    weights: dict[str, float] = {}
    reasons = [f"{len(results)} wordings, rank fusion, k {RRF_K}"]
    for number, (wording, result) in enumerate(zip(wordings, results, strict=True), 1):
        own = result.weights or dict.fromkeys(result.replies, 1.0)
        share_sum = sum(own.values())
        for name, share in own.items():
            weights[name] = weights.get(name, 0.0) + wording.weight / total * share / share_sum
        wording_reason = result.reason or f"{' '.join(result.replies) or 'nothing'} only"
        reasons.append(f"{number} (weight {wording.weight:g}): {wording_reason}")
    return weights, "; ".join(reasons)


def _rungs(results: Sequence[_WordingResult], relax: Relaxation) -> dict[str, RelaxationLevel]:
    """The relaxation level of every candidate: the same in each channel and wording."""
    bits: dict[str, int] = {}
    for result in results:
        for reply in result.replies.values():
            bits |= zip((key for key, _ in reply.candidates), reply.rungs, strict=True)
    numbers = list(dict.fromkeys(bits.values()))
    known = dict(zip(numbers, rungs_of(relax, numbers), strict=True))
    return {key: known[number] for key, number in bits.items()}


def _ladder(
    results: Sequence[_WordingResult], relax: Relaxation
) -> tuple[tuple[tuple[str, ...], float, int], ...]:
    """Levels as counted by the dense channel, else the keyword channel, heaviest first."""
    # Every chunk has a similarity: the dense channel's counts are complete.
    dense = [result.replies["dense"] for result in results if "dense" in result.replies]
    replies = dense or [next(iter(r.replies.values()), _NOTHING) for r in results]
    ladder = replies[0].ladder
    rungs = rungs_of(relax, [rung for rung, _ in ladder])
    return tuple(
        (tuple(map(str, rung.met)), rung.weight, count)
        for rung, (_, count) in zip(rungs, ladder, strict=True)
    )


LONGEST_QUESTION = 20_000
"""Most characters of a question."""
MOST_TERMS = 1_000
"""Most different words of a question: each of them is looked up, and weighed."""


def check_question(question: str) -> None:
    """Refuse a question that would keep others waiting.

    Raises:
        RetrieveError: It has too many characters, or too many different words.
    """
    size = len(question)
    if size > LONGEST_QUESTION:
        raise RetrieveError(
            f"the question has {size} characters, more than {LONGEST_QUESTION}",
            hint="ask a shorter question",
        )
    terms = len(set(words(question)))
    if terms > MOST_TERMS:
        raise RetrieveError(
            f"the question has {terms} different words, more than {MOST_TERMS}",
            hint="ask about a few of them at a time",
        )


def prepare_query(query: str, limit: int) -> tuple[str, list[str]]:
    """The query, normalised like documents (NFC), cut to the limit, and a note if it was cut."""
    length = len(query)
    text = query[:limit]
    if length > limit and not query[limit].isspace():
        text = text[: text.rfind(" ")] if " " in text else text
    if not text.isascii():
        # A lone surrogate has no UTF-8 form: no store, model or socket could take it.
        text = unicodedata.normalize("NFC", well_formed(text))
    text = text.strip()
    if not text:
        raise RetrieveError("the query is empty", hint="write a question")
    if length <= limit:
        return text, []
    return text, [f"query of {length} characters cut to the first {len(text)} (limit {limit})"]


def _choose_channels(target: Target, options: RetrieveOptions) -> tuple[tuple[str, ...], list[str]]:
    """The channels to search, and notes on those left out.

    Without vectors, keyword search alone needs no note: the result shows it.
    """
    names: tuple[str, ...] = ("keyword", "dense")
    if options.search in names:
        names = (options.search,)
    elif options.search == "auto" and not target.model:
        names = ("keyword",)
    if "dense" in names and not target.model:
        raise RetrieveError(
            f"{options.search} search needs vectors, and this index has none",
            where=f"snapshot {target.snapshot}",
            hint="name an embedding model under embed and ingest again, or set "
            "retrieve.search: keyword",
        )
    if len(names) == 1:
        return names, []
    used = tuple(name for name in names if getattr(options.weights, name) > 0)
    if not used:
        raise RetrieveError(
            "no channel has a weight above 0",
            hint="set retrieve.weights.keyword or retrieve.weights.dense",
        )
    dropped = [name for name in names if name not in used]
    return used, [f"{name} channel left out: its weight is 0" for name in dropped]


def _query_vector(wording: Variant, target: Target) -> Flow[Vector]:
    """The query's vector, checked, and of length 1 where the similarity is a cosine."""
    role: Role = "passage" if wording.passage else "query"
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


def _word_notes(
    results: Sequence[_WordingResult], terms: Sequence[Term], options: RetrieveOptions
) -> list[str]:
    """Notes on a keyword search without hits, and on codes that are not in the index.

    A code counts as held where all of its pieces are: ``lnk-2019`` finds ``LNK2019``.
    """
    absent = [term.token for term in terms if not term.chunks]
    if any(result.replies.get("keyword", _NOTHING).candidates for result in results):
        held = {term.token for term in terms if term.chunks}
        lost = []
        for code in filter(is_code, absent):
            pieces = [piece for piece in re.findall(r"[^\W\d_]+|\d+", code) if len(piece) > 1]
            if not pieces or not held.issuperset(pieces):
                lost.append(code)
        return [f"codes that are not in the index: {_tokens_in_note(lost)}"] if lost else []
    if not terms:
        reason = "the query holds only stop words, or words that are not in the index"
    elif len(absent) == len(terms):
        reason = f"not in the index: {_tokens_in_note(absent)}"
    elif options.threshold is not None:
        least = f"the threshold of {options.threshold:g}"
        reason = f"no chunk with a word of the query reaches {least}"
    else:
        reason = "no chunk with a word of the query is allowed"
    return [f"no keyword hits: {reason}{' under these filters' if options.filters else ''}"]


def _no_dense(options: RetrieveOptions) -> str:
    """Return the reason for a dense search without hits."""
    if options.threshold is not None:
        under = " under these filters" if options.filters else ""
        return f"no dense hits: no chunk reaches the threshold of {options.threshold:g}{under}"
    limited = options.filters or (options.soft and not options.unfiltered)
    reason = "no chunk with a vector meets the filters" if limited else "no chunk has a vector"
    return f"no dense hits: {reason}"


def _tokens_in_note(tokens: Iterable[str]) -> str:
    """Tokens in a note: the first ones, long ones shortened."""
    shown = [t if len(t) <= _SHOWN_CHARS else f"{t[: _SHOWN_CHARS - 1]}…" for t in tokens]
    more = len(shown) - _SHOWN_TOKENS
    return ", ".join(shown[:_SHOWN_TOKENS]) + (f" and {more} more" if more > 0 else "")
