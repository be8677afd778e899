"""Pairs of a question and what the project's own search finds for it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ..core import Row, case_folded
from ..flow import Flow, gather
from ..index import View
from ..project import Project
from ..retrieve import (
    ExpandOptions,
    IterateOptions,
    RerankOptions,
    RetrieveOptions,
    SelectOptions,
    retrieve,
)
from ..testsets import gold_chunks, split_clusters
from ._pairs import HeldBackQuestions, MiningOptions, Pair, enough, passage_texts

NEGATIVES = 4
"""Passages that do not answer, for each training question of a reranker."""


_REORDERED = 15
"""First hits that a question which is not trained on has reordered: scoring pairs is slow."""


@dataclass(frozen=True, slots=True)
class _Searched:
    """A question with its gold and the ids of its hits, in the order of the search."""

    row: Row
    gold: frozenset[str]
    hits: tuple[str, ...]


def search_pairs(project: Project, rows: Sequence[Row], mining: MiningOptions) -> list[Pair]:
    """Return pairs of the rows whose gold is in the index, with hits that do not answer.

    The search is the project's, without reranking and selection, to ``retrieve.rerank.candidates``
    hits. Of several chunks that answer, the first one that it finds is used. Wrong passages are
    drawn from its hits, or with ``random`` from all chunks: up to four, without those that have the
    text of one that answers.

    Raises:
        TestsetError: Fewer than 20 pairs.
    """
    target = project.target()
    options = project.settings.retrieve
    search = make_plain_search(options, options.rerank.candidates)

    def searched(row: Row) -> Flow[_Searched]:
        gold = yield from gold_chunks(row, target)
        if not gold:
            return _Searched(row, gold, ())
        retrieved = yield from retrieve(row.user_input, target, search)
        return _Searched(row, gold, tuple(hit.chunk_id for hit in retrieved.hits))

    questions = project.runner.run(gather(searched(row) for row in rows))
    answered = [question for question in questions if question.gold]
    clusters = split_clusters([question.row for question in answered])
    view = project.views.view(target.snapshot)
    drawn = _Drawing(view, mining)
    pairs = (drawn.pair(question, clusters[question.row.id]) for question in answered)
    kept: dict[tuple[str, str], Pair] = {}
    for pair in pairs:
        if pair.negatives or mining.kind == "none":
            kept.setdefault((pair.question, pair.positive), pair)
    return enough(list(kept.values()), len(rows), len(answered))


def make_plain_search(options: RetrieveOptions, top_k: int) -> RetrieveOptions:
    """Return the search without the stages after fusion, to a number of hits."""
    return replace(
        options,
        top_k=top_k,
        context_tokens=None,
        rerank=RerankOptions(),
        select=SelectOptions(),
        expand=ExpandOptions(),
        iterate=IterateOptions(),
    )


class _Drawing:
    """Draws passages that do not answer."""

    def __init__(self, view: View, mining: MiningOptions) -> None:
        self._view = view
        self._kind = mining.kind
        self._random = np.random.default_rng(mining.seed)
        self._chunks = view.every(1_000_000) if mining.kind == "random" else ()

    def pair(self, question: _Searched, cluster: str) -> Pair:
        """Return the pair of a question."""
        keys = [key for key in question.hits if key in question.gold] or sorted(question.gold)
        texts = passage_texts(self._view, keys)
        row = question.row
        return Pair(
            row.user_input,
            texts[0],
            question.gold,
            str(row.metadata.get("source") or "testset"),
            cluster,
            self._negatives(question, {case_folded(text) for text in texts}),
            question.hits,
        )

    def _negatives(self, question: _Searched, answering: set[str]) -> tuple[str, ...]:
        if self._kind == "none":
            return ()
        pool = question.hits if self._kind == "hard" else self._chunks
        order = self._random.permutation(len(pool))[: 4 * NEGATIVES]
        keys = [pool[int(at)] for at in order if pool[int(at)] not in question.gold]
        texts = passage_texts(self._view, keys)
        return tuple(text for text in texts if case_folded(text) not in answering)[:NEGATIVES]


def search_unseen(project: Project, pairs: Sequence[Pair]) -> HeldBackQuestions:
    """Return the questions of pairs that are not trained on, and the first 15 hits to reorder."""
    view = project.views.view(project.target().snapshot)
    hits = tuple(pair.near[:_REORDERED] for pair in pairs)
    names = sorted({key for keys in hits for key in keys})
    return HeldBackQuestions(
        tuple(pair.question for pair in pairs),
        tuple(pair.gold for pair in pairs),
        dict(zip(names, passage_texts(view, names), strict=True)),
        hits,
    )
