"""Reranking: a stronger model reorders the hits of a cheap search."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Literal, TypeAlias

import numpy as np

from ..core import (
    ChannelScore,
    Hit,
    MissingKeyError,
    ModelError,
    RetrieveError,
    count_noun,
    load_shipped_mapping,
    passage_values,
    render,
)
from ..flow import ChatReply, Flow, Message, branch, chat, rerank
from ..models import LexicalReranker
from ._fusion import rrf
from ._options import RerankOptions

Reordered: TypeAlias = tuple[tuple[Hit, ...], tuple[str, ...]]

_LISTWISE_WORDS = 300
"""Words of a passage that a chat model reads by default, as in RankGPT."""


def rerank_method(options: RerankOptions) -> Literal["score", "listwise"]:
    """The method of a model, by its name if ``method`` is ``auto``.

    ``lexical``, ``hf:…``, ``onnx:…``, ``st:…`` and any name that holds "rank" or "cross-encoder"
    scores; every other model chats, and orders a list.
    """
    if options.method != "auto":
        return options.method
    name = options.model.casefold()
    scores = name.startswith(("st:", "hf:", "onnx:")) or "rank" in name or "cross-encoder" in name
    return "score" if scores or name == LexicalReranker.name else "listwise"


def rerank_hits(query: str, hits: Sequence[Hit], options: RerankOptions) -> Flow[Reordered]:
    """All these hits in the order of the reranking model, ranks from 1, and notes.

    Every hit keeps the search's rank and score (``channels["search"]``) beside the model's
    (``channels["rerank"]``); its score becomes the model's, or, for a listwise model, the share of
    hits not ranked above it. With ``search_weight`` both orders are fused by ranks (:func:`rrf`, k
    60), for models that are not clearly better than the search. Ties keep the order of the search.
    Hits on a heavier relaxation level stay before those on lighter ones: each level is reranked by
    itself. If the model fails (a timeout, a server error, a malformed reply), the hits stay as they
    are, with a note.

    Raises:
        ConfigError: No such model, or a model of another kind.
        MissingKeyError: The environment holds no key for the model.
        RetrieveError: Scores or vectors that are not numbers.
    """
    if not options.model or not hits:
        return tuple(hits), ()
    readable, cut = _readable_hits(hits, options)
    try:
        scores, notes = yield from _model_scores(query, readable, options)
    except MissingKeyError:
        raise
    except ModelError as error:
        problem = f"{type(error).__name__}: {error.what}"
        return tuple(hits), (f"not reranked, the order of the search is kept: {problem}",)
    if len(scores) != len(hits) or not np.isfinite(scores).all():
        raise RetrieveError(
            f"{options.model} gave scores that are not numbers, or too few",
            where="retrieve.rerank.model",
            hint="use another reranking model, or leave the key empty",
        )
    rounded = [round(float(score), 6) for score in scores]
    return _reordered_hits(hits, rounded, options.search_weight), (*cut, *notes)


def _model_scores(
    query: str, hits: Sequence[Hit], options: RerankOptions
) -> Flow[tuple[Sequence[float], tuple[str, ...]]]:
    """One score per hit by the model's method, and notes."""
    if rerank_method(options) == "listwise":
        return (yield from _listwise_scores(query, hits, options))
    texts = [_passage_text(hit) for hit in hits]
    reply = yield from rerank(options.model, query, texts, sources=_document_ids(hits))
    return reply.scores, ()


def _readable_hits(hits: Sequence[Hit], options: RerankOptions) -> Reordered:
    """Hits with the text that the model will read, and a note if it was cut."""
    if rerank_method(options) != "listwise":
        return tuple(hits), ()
    cut_hits, cut = [], 0
    for hit in hits:
        ends = [word.end() for word in re.finditer(r"\S+", hit.text)]
        long = len(ends) > _LISTWISE_WORDS
        cut += long
        cut_hits.append(replace(hit, text=hit.text[: ends[_LISTWISE_WORDS - 1]]) if long else hit)
    if not cut:
        return tuple(hits), ()
    count_text = count_noun(cut, "passage was", "passages were")
    return tuple(cut_hits), (f"{count_text} reranked by the first {_LISTWISE_WORDS} words only",)


def _passage_text(hit: Hit) -> str:
    """The text of a hit that a model reads: the title, then the text, as embedded."""
    title = hit.title.strip()
    if title and not hit.text.lstrip().startswith(title):
        return f"{title}\n{hit.text}"
    return hit.text


def _document_ids(hits: Sequence[Hit]) -> list[str]:
    return list(dict.fromkeys(hit.document_id for hit in hits))


def _reordered_hits(
    hits: Sequence[Hit], scores: Sequence[float], search_weight: float
) -> tuple[Hit, ...]:
    """Hits by relaxation level, score and position, with their ranks."""
    by_model = sorted(range(len(hits)), key=lambda at: (-scores[at], at))
    model_rank = {at: rank for rank, at in enumerate(by_model, 1)}
    final = dict(enumerate(scores))
    if search_weight:
        lists = [[hits[at].chunk_id for at in by_model], [hit.chunk_id for hit in hits]]
        fused = dict(rrf(lists, weights=(1.0, search_weight)))
        final = {at: fused[hit.chunk_id] for at, hit in enumerate(hits)}

    def weight(at: int) -> float:
        rung = hits[at].rung
        return -rung.weight if rung is not None else 0.0

    reordered = []
    order = sorted(final, key=lambda at: (weight(at), -final[at], at))
    for rank, at in enumerate(order, 1):
        hit = hits[at]
        channels = {
            **hit.channels,
            "search": ChannelScore(hit.rank, hit.score),
            "rerank": ChannelScore(model_rank[at], scores[at]),
        }
        reordered.append(replace(hit, rank=rank, score=final[at], channels=channels))
    return tuple(reordered)


def _listwise_scores(
    query: str, hits: Sequence[Hit], options: RerankOptions
) -> Flow[tuple[Sequence[float], tuple[str, ...]]]:
    """A chat model's order as scores n/n … 1/n, by windows that slide to the front.

    RankGPT (Sun et al., EMNLP 2023): the last window is ordered first, so that a good hit is
    carried from window to window.
    """
    order = list(range(len(hits)))
    failed: list[str] = []
    for start, end in rerank_windows(len(hits)):
        inside = [hits[at] for at in order[start:end]]
        window_order, problem = yield from _window_order(query, inside, options)
        if problem:
            failed.append(f"passages {start + 1} to {end} keep their order: {problem}")
        order[start:end] = [order[start + at] for at in window_order]
    scores = [0.0] * len(hits)
    for place, at in enumerate(order):
        scores[at] = (len(hits) - place) / len(hits)
    return scores, tuple(f"{options.model} did not rerank all: {text}" for text in failed)


def rerank_windows(count: int, size: int = 20) -> list[tuple[int, int]]:
    """Windows (start, end) from the back to the front; the last one starts at 0."""
    if count < 2:
        return []
    windows, end = [], count
    while True:
        start = max(0, end - size)
        windows.append((start, end))
        if start == 0:
            return windows
        end -= size // 2


def _window_order(
    query: str, hits: Sequence[Hit], options: RerankOptions
) -> Flow[tuple[Sequence[int], str]]:
    """Places of some hits in a chat model's order, or as they are and what was wrong."""
    passages = [passage_values(number, hit) for number, hit in enumerate(hits, 1)]
    # On one line, so that only the prompt's own numbers begin a line.
    passages = [{**values, "text": " ".join(values["text"].split())} for values in passages]
    values = {"question": query, "passages": passages, "count": len(hits)}
    templates = load_shipped_mapping("retrieve", "rerank.yaml")
    messages = [Message("user", render(templates.text("rank"), values))]
    params = {"temperature": 0.0, "max_tokens": 500}
    sources = _document_ids(hits)
    reply = yield from chat(options.model, messages, params, sources=sources)
    order, problem = read_order(reply, len(hits))
    retries = yield from branch(0, 0, 1)
    if (not problem and retries is None) or retries == 0:
        return order, problem
    again = render(templates.text("again"), {"problem": problem, "count": len(hits)})
    messages += [Message("assistant", reply.text or "(nothing)"), Message("user", again)]
    reply = yield from chat(options.model, messages, params, sources=sources)
    return read_order(reply, len(hits))


_CHAIN = re.compile(r"(?:[^\[\]>]*:)?\s*(\[\d{1,6}\](?:\s*>\s*\[\d{1,6}\])*)")


def read_order(reply: ChatReply, count: int) -> tuple[tuple[int, ...], str]:
    """Positions 0 … ``count`` - 1 in the order of a reply, and the fault of the reply.

    The reply, or its last line with a number, must be a chain ``[2] > [1] > [3]`` of numbers
    that exist; a label in front of it is allowed. A repeated number counts at its first place;
    missing ones follow in their old order. Anything else is a fault: then the old order is kept.
    """
    old = tuple(range(count))
    if reply.finish == "length":
        return old, "the reply was cut off"
    text = reply.text.strip(" \n\t`*.")
    lines = [line.strip(" \t`*.") for line in text.splitlines() if "[" in line]
    if not lines:
        return old, "the reply names no passage in square brackets"
    chain = _CHAIN.fullmatch(text) or _CHAIN.fullmatch(lines[-1])
    if chain is None:
        return old, "the reply is not a chain like [2] > [1] > [3]"
    numbers = [int(number) for number in re.findall(r"\d+", chain[1])]
    unknown = [number for number in numbers if not 1 <= number <= count]
    if unknown:
        return old, f"the reply names [{unknown[0]}], but there are only passages 1 to {count}"
    return tuple(dict.fromkeys([*(number - 1 for number in numbers), *old])), ""
