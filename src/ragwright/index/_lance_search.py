"""Scoring chunks of a Lance table version: what keyword and dense search have in common.

Lance names candidates; their scores are worked out here from the stored vectors and token counts,
as the view in memory does, so equal chunks have equal scores in every store.

Relaxed filters are answered by classes of equal weight, best first. Scalar indexes count a class
without reading rows, so empty combinations cost one count for each condition, not a search. Where
few chunks are left they are read at once with the conditions that each meets.
"""

from __future__ import annotations

import heapq
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core import Relaxation, Term
from ..flow import SearchReply
from . import _lance_tables as lance
from ._lance_state import Conditions, Pinned, Where, soft_columns
from ._lance_tables import join_column, matrix
from ._postings import bonus, length_norms, token_numbers, weigh_tokens, words_of
from ._rank import (
    ROUNDING,
    Ladder,
    ScoredChunks,
    Scores,
    join_chunks,
    make_relaxed_reply,
    round_scores,
)

LANCE_K1, LANCE_B = 1.2, 0.75
"""BM25's settings of Lance's inverted index; its scores are (k1 + 1) times ours."""

_LAGS = (
    "keyword candidates were picked by an index of an earlier state, or with other k1 and b; "
    "scores are those of the present state"
)

_POOL = 200
_GROWTH = 4
_TIES = 64
_TRIED = 8
_WORDS = 5
_CODED = 5_000
"""Chunks up to which those with a code of the query are read."""


def _holds_any(numbers: NDArray[np.int64]) -> str:
    return f"array_has_any(terms, [{', '.join(map(str, numbers.tolist()))}])"


@dataclass(frozen=True, slots=True)
class Tuning:
    """The settings for a query of Lance's vector index, and the recall measured for them."""

    probes: int
    refine: int
    note: str


class Scoring(ABC):
    """Scores of chunks for one query."""

    exact: bool
    """False where :meth:`best` may miss chunks."""

    read: int = 0
    """Number of chunks up to which a class of relaxed filters is read whole."""

    notes: tuple[str, ...] = ()
    """What users must know of the last result; empty if it is exact."""

    terms: tuple[Term, ...] = ()
    """The tokens that were looked for."""

    @abstractmethod
    def every(self, where: str, soft: Sequence[str] = ()) -> ScoredChunks:
        """All chunks under a condition that have a score, read a few thousand at a time."""

    @abstractmethod
    def best(self, where: Where, k: int, soft: Sequence[str] = ()) -> ScoredChunks:
        """The k best chunks under a condition, and possibly more."""


class DenseScoring(Scoring):
    """Similarities to one query vector, in float64.

    Args:
        table: The chunks, at one version.
        query: The vector, float32.
        tuning: How to ask the vector index for the k best under a condition, where it returns None
            by exact search; None if all searches are exact.
    """

    def __init__(
        self,
        table: Any,
        query: NDArray[np.float32],
        tuning: Callable[[Where, int], Tuning | None] | None,
    ) -> None:
        self._table = table
        self._query = query
        self._wide = query.astype(np.float64)
        self._tuning = tuning
        self.exact = tuning is None

    def every(self, where: str, soft: Sequence[str] = ()) -> ScoredChunks:
        """All chunks under a condition."""
        columns = {"id": "id", "vector": "vector", **soft_columns(soft)}
        return join_chunks(
            [self._scored_batch(b, soft) for b in lance.batches(self._table, columns, where)]
        )

    def _scored_batch(self, batch: Any, soft: Sequence[str]) -> ScoredChunks:
        scores = np.vecdot(matrix(batch["vector"]).astype(np.float64), self._wide)
        return read_scored_chunks(batch, scores, soft)

    def best(self, where: Where, k: int, soft: Sequence[str] = ()) -> ScoredChunks:
        """The k best; where search is exact, all that may be among them."""
        tuning = self._tuning(where, k) if self._tuning else None
        if tuning is not None:
            self.notes = (tuning.note,)
            return self._scored_batch(self._query_rows(where.sql, k, soft, tuning), soft)
        size = min(where.rows, k + _TIES)
        while True:
            rows = self._query_rows(where.sql, size, soft)
            if rows.num_rows >= where.rows or self._is_complete(rows, k):
                return self._scored_batch(rows, soft)
            size = min(where.rows, size * _GROWTH)

    def _query_rows(
        self, where: str, size: int, soft: Sequence[str], tuning: Tuning | None = None
    ) -> Any:
        columns = {"id": "id", "vector": "vector", "_distance": "_distance", **soft_columns(soft)}
        query = self._table.search(self._query, vector_column_name="vector", query_type="vector")
        query = query.distance_type("dot").select(columns).limit(max(1, size))
        if tuning is None:
            query = query.bypass_vector_index()
        else:
            query = query.nprobes(tuning.probes).refine_factor(tuning.refine)
        return (query.where(where) if where else query).to_arrow()

    def _is_complete(self, rows: Any, k: int) -> bool:
        """True if nothing that was not returned can be among the k best."""
        near = np.sort(1.0 - rows["_distance"].to_numpy())[::-1]
        if len(near) <= k:
            return False
        norms = np.linalg.norm(matrix(rows["vector"]).astype(np.float64), axis=1)
        scale = float(np.linalg.norm(self._wide)) * max(1.0, float(norms.max(initial=0.0)))
        slack = 1e-6 * np.sqrt(len(self._query)) * scale + ROUNDING
        return bool(near[-1] < near[k - 1] - slack)


@dataclass(frozen=True, slots=True)
class Corpus:
    """The statistics of all chunks that BM25 needs.

    Attributes:
        rows: Number of live chunks.
        average: Their mean length in tokens.
        k1: BM25's k1.
        b: BM25's b.
        words: Lance's inverted index: ``none``, ``stale`` (its statistics differ from the live
            chunks') or ``whole``.
        approximate: True if candidates of a stale index suffice.
    """

    rows: int
    average: float
    k1: float
    b: float
    words: str
    approximate: bool

    @property
    def proving(self) -> bool:
        """True if Lance's scores bound ours, so that a search can end early and be exact."""
        return self.words == "whole" and (self.k1, self.b) == (LANCE_K1, LANCE_B)


class KeywordScoring(Scoring):
    """BM25 scores for the tokens of one query.

    Args:
        table: The chunks, at one version.
        conditions: Counts chunks.
        asked: The tokens, and how often each occurs in the query.
        corpus: Statistics.
        where: Hard filters, under which the reported terms are counted.
        numbers: Numbers of the tokens, where they are known; none then counts as a code.
    """

    def __init__(
        self,
        table: Any,
        conditions: Conditions,
        tokens: Mapping[str, int],
        corpus: Corpus,
        where: Where,
        numbers: NDArray[np.int64] | None = None,
    ) -> None:
        self._table = table
        self._corpus = corpus
        self._tokens = dict(tokens)
        codes = np.array([bonus(token) if numbers is None else 0.0 for token in tokens])
        if numbers is None:
            numbers = token_numbers(tokens).view(np.int64)
        having = [f"array_has(terms, {number})" for number in numbers.tolist()]
        live = conditions.live.sql
        counts = [conditions.count(lance.both(live, condition)) for condition in having]
        allowed_counts = counts
        if where.sql != live:
            allowed_counts = [
                conditions.count(lance.both(where.sql, condition)) if held else 0
                for condition, held in zip(having, counts, strict=True)
            ]
        frequency = np.array(counts, np.float64)
        factors, self.terms = weigh_tokens(
            tokens, frequency, corpus.rows, np.array(allowed_counts, np.float64)
        )
        self._factors = np.array(factors)
        self._bonus = codes
        self._order = np.argsort(numbers)
        self._sorted = numbers[self._order]
        self._any = _holds_any(numbers)
        rare = (codes > 0) & (frequency > 0)
        if frequency[rare].sum() > _CODED:
            rare[:] = False
        self._coded = _holds_any(numbers[rare]) if rare.any() else ""
        self._unread = float((self._factors * codes)[~rare].sum())
        self.exact = not corpus.approximate or corpus.proving

    def every(self, where: str, soft: Sequence[str] = ()) -> ScoredChunks:
        """All chunks under a condition that hold a token."""
        return self._read_scored(lance.both(where, self._any), soft)

    def _read_scored(self, sql: str, soft: Sequence[str]) -> ScoredChunks:
        columns = {name: name for name in ("id", "terms", "counts", "length")}
        columns |= soft_columns(soft)
        return join_chunks(
            [self._scored_batch(b, soft) for b in lance.batches(self._table, columns, sql)]
        )

    def best(self, where: Where, k: int, soft: Sequence[str] = ()) -> ScoredChunks:
        """The k best, from the inverted index where its scores bound ours."""
        proving = self._corpus.proving
        if self._corpus.words == "none" or not (proving or self._corpus.approximate):
            return self.every(where.sql, soft)
        size = max(_POOL, 2 * k if proving else 4 * k)
        # Lance's scores leave out the bonus for codes, so these chunks could need a large pool.
        coded = self._read_scored(lance.both(where.sql, self._coded), soft) if self._coded else None
        while True:
            rows = self._indexed_pool(where.sql, size, soft)
            scored = self._scored_batch(rows, soft)
            if coded is not None:
                scored = join_chunks([coded, scored.select(~np.isin(scored.ids, coded.ids))])
            if rows.num_rows < size or (proving and self._is_complete(rows, scored, k)):
                return scored
            if not proving:
                self.notes = (_LAGS,)
                return scored
            size *= _GROWTH

    def _indexed_pool(self, where: str, size: int, soft: Sequence[str]) -> Any:
        from lancedb.query import MatchQuery

        columns = {name: name for name in ("id", "terms", "counts", "length", "_score")}
        text = words_of(self._sorted.view(np.uint64).tolist(), [1] * len(self._sorted))
        query = self._table.search(MatchQuery(text, "words"), query_type="fts")
        query = query.select({**columns, **soft_columns(soft)}).limit(size)
        return (query.where(where) if where else query).to_arrow()

    def agrees(self) -> bool:
        """True if Lance scores the best chunks as they are scored here."""
        rows = self._indexed_pool("", _WORDS, ())
        own_scores = np.sort(self._scored_batch(rows, ()).scores) * (LANCE_K1 + 1)
        return bool(
            np.allclose(np.sort(rows["_score"].to_numpy()), own_scores, rtol=1e-5, atol=1e-5)
        )

    def _is_complete(self, rows: Any, scored: ScoredChunks, k: int) -> bool:
        """True if nothing outside the pool can be among the k best.

        Outside it, Lance's score is at most the least one of the pool; ours is that over k1 + 1,
        times the most repetitions of a token, and at most the bonus of codes more whose chunks
        were not read.
        """
        if len(scored.ids) < k:
            return False
        least = float(rows["_score"].to_numpy().min()) / (LANCE_K1 + 1)
        most = least * max(self._tokens.values()) * (1 + 1e-5)
        most += self._unread
        reached = np.partition(scored.scores, len(scored.scores) - k)[len(scored.scores) - k]
        return bool(reached > most + ROUNDING)

    def _scored_batch(self, batch: Any, soft: Sequence[str]) -> ScoredChunks:
        """BM25 as :mod:`ragwright.index._postings` computes it, impacts in float32."""
        terms, counts = _flat_values(batch["terms"]), _flat_values(batch["counts"])
        lengths = batch["length"].to_numpy()
        sizes = join_column(batch["terms"]).value_lengths().to_numpy(zero_copy_only=False)
        rows = np.repeat(np.arange(len(lengths)), sizes)
        at = np.minimum(np.searchsorted(self._sorted, terms), len(self._sorted) - 1)
        hit = np.flatnonzero(self._sorted[at] == terms)
        norms = length_norms(
            lengths.astype(np.float64), self._corpus.average, self._corpus.k1, self._corpus.b
        )
        number = counts[hit].astype(np.float64)
        impacts = (number / (number + norms[rows[hit]])).astype(np.float32).astype(np.float64)
        tokens = self._order[at[hit]]
        gained = (impacts + self._bonus[tokens]) * self._factors[tokens]
        scores = np.asarray(np.bincount(rows[hit], gained, len(lengths)), np.float64)
        found = read_scored_chunks(batch, scores, soft)
        return found.select(found.scores > 0.0)


def scores_agree(state: Pinned) -> bool:
    """True if Lance's scores are those of the live chunks, on words of some sampled chunks."""
    totals = state.totals
    corpus = Corpus(
        totals.chunks, totals.length / totals.chunks, LANCE_K1, LANCE_B, "whole", approximate=False
    )
    conditions = Conditions(state.chunks, state.values, state.live, totals.chunks)
    rng = np.random.default_rng(0)
    at = np.unique(rng.integers(0, totals.chunks, _TRIED)).tolist()
    rows = state.chunks.take_offsets(at).select(["terms"]).to_arrow()["terms"].to_pylist()
    for terms in filter(None, rows):
        numbers = np.array(terms[:_WORDS], np.int64)
        tokens = {str(number): 1 for number in numbers.tolist()}
        scoring = KeywordScoring(
            state.chunks, conditions, tokens, corpus, conditions.live, numbers=numbers
        )
        if not scoring.agrees():
            return False
    return True


def read_scored_chunks(batch: Any, scores: Scores, soft: Sequence[str]) -> ScoredChunks:
    """The chunks of a batch with their scores and the soft conditions that they meet."""
    steps = np.zeros(len(scores), np.int64)
    for place in range(len(soft)):
        met = join_column(batch[f"c{place}"]).fill_null(False).to_numpy(zero_copy_only=False)
        steps |= met.astype(np.int64) << place
    ids = [lance.unescape_surrogates(text) for text in batch["id"].to_pylist()]
    return ScoredChunks(ids, round_scores(scores), steps)


def _flat_values(column: Any) -> NDArray[Any]:
    return np.asarray(join_column(column).flatten().to_numpy(zero_copy_only=False))


@dataclass(frozen=True, slots=True)
class _WeightClass:
    """Chunks of one weight: condition, number of chunks, and that of each combination."""

    where: Where
    steps: Mapping[int, int]


def climb(
    conditions: Conditions,
    where: Where,
    soft: Sequence[str],
    ladder: Ladder,
    scoring: Scoring,
    k: int,
    relax: Relaxation,
) -> SearchReply:
    """The k best chunks by weight of the conditions met, then score, then id; and the ladder.

    Args:
        conditions: Counts chunks.
        where: Hard filters.
        soft: SQL of the ladder's conditions.
        ladder: Conditions and weights.
        scoring: Scores of the query.
        k: Most to return; 0 counts every level.
        relax: Threshold, and whether chunks that meet no condition count.
    """
    parts: list[ScoredChunks] = []
    counts: dict[int, int] = {}
    have = 0
    # Then the counts of scalar indexes are the ladder: every chunk has a similarity.
    countable = isinstance(scoring, DenseScoring) and relax.threshold is None
    classes = iter([_WeightClass(where, {} if soft else {0: where.rows})])
    if soft and where.rows > scoring.read:
        classes = _weight_classes(conditions, where, soft, ladder, relax)
    for weight_class in classes:
        count_known = countable and bool(weight_class.steps)
        if count_known and k < 1:
            counts |= weight_class.steps
            continue
        if weight_class.where.rows <= scoring.read or k < 1 or (scoring.exact and not countable):
            scored = scoring.every(weight_class.where.sql, soft)
        else:
            scored = scoring.best(weight_class.where, k - have, soft)
        if relax.threshold is not None:
            scored = scored.select(scored.scores >= relax.threshold)
        if soft and not relax.unfiltered:
            scored = scored.select(scored.steps != 0)
        counts |= weight_class.steps if count_known else Counter(scored.steps.tolist())
        parts.append(scored)
        have += len(scored.ids)
        if 0 < k <= have:
            break
    return make_relaxed_reply(join_chunks(parts), counts, ladder, k)


def _weight_classes(
    conditions: Conditions, where: Where, soft: Sequence[str], ladder: Ladder, relax: Relaxation
) -> Iterator[_WeightClass]:
    """Classes that have chunks, heaviest first.

    Best first over a tree: each level decides one condition, heavy ones first, and a node with
    no chunk is dropped with all below it. The count of those that miss a condition is the
    difference, so a node costs one count.
    """
    order = sorted(range(len(soft)), key=lambda at: -ladder.weights[at])
    weight_below = [
        sum(ladder.weights[at] for at in order[depth:]) for depth in range(len(order) + 1)
    ]
    heap = [(-weight_below[0], 0, 0, 0, 0, where)]
    serial = 0
    weight, leaves = 0, list[tuple[int, Where]]()
    while heap:
        upper, _, depth, step, met, node = heapq.heappop(heap)
        if leaves and -upper < weight:
            yield _joined_class(leaves)
            leaves = []
        if depth == len(order):
            if step or relax.unfiltered:
                weight = met
                leaves.append((step, node))
            continue
        at = order[depth]
        both_sql = lance.both(node.sql, soft[at])
        there = conditions.count(both_sql)
        misses = lance.both(node.sql, f"NOT ({soft[at]})")
        for sql, rows, bit, more in (
            (both_sql, there, 1 << at, ladder.weights[at]),
            (misses, node.rows - there, 0, 0),
        ):
            if rows:
                serial += 1
                child = (-(met + more + weight_below[depth + 1]), serial, depth + 1, step | bit)
                heapq.heappush(heap, (*child, met + more, Where(sql, rows)))
    if leaves:
        yield _joined_class(leaves)


def _joined_class(leaves: Sequence[tuple[int, Where]]) -> _WeightClass:
    sql = " OR ".join(f"({where.sql})" for _, where in leaves)
    return _WeightClass(
        Where(sql, sum(where.rows for _, where in leaves)),
        {step: where.rows for step, where in leaves},
    )
