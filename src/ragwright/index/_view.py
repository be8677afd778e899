"""The read view: answers from immutable segments, and so from one state of the store."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ..core import Filter, Hit, Relaxation, RetrieveError, count_noun
from ..flow import SearchReply
from ..models import Analyzer
from ._arrays import Arrays
from ._postings import Impacts, Ranked, Rows, bm25
from ._rank import (
    ROUNDING,
    Ladder,
    RelaxedPart,
    RowScores,
    ScoredChunks,
    Scores,
    climb,
    highest,
    join_chunks,
    products,
    round_scores,
)
from ._segment import (
    Mask,
    Segment,
    any_row_meets,
    count_left_out,
    field_counts,
    fields_under,
    filter_masks,
    id_number,
    needs_rows,
    positions_of,
    unknown_value,
)
from ._store import IndexSpec, Matrix, View, ViewStatistics

_MASKS = 32
"""Filters whose masks are cached."""


@dataclass(slots=True)
class ViewSegment:
    """A segment within a view: impacts of its postings, live rows."""

    segment: Segment
    impacts: Impacts
    live: Mask


class ViewState:
    """One state of an index spec: segments with the statistics that make them one index.

    Nothing in it changes except cached masks.
    """

    def __init__(
        self, parts: Sequence[ViewSegment], *, rows: int, documents: int, tokens: int, file: Arrays
    ) -> None:
        self.parts = tuple(parts)
        self.segments = [part.segment for part in parts]
        self.live = [part.live for part in parts]
        self.files = [file, *(segment.arrays for segment in self.segments)]
        self.counts = ViewStatistics(
            rows,
            documents,
            tokens,
            sum(part.segment.arrays.bytes + part.impacts.nbytes for part in parts),
        )
        self._masks: dict[str, list[Mask]] = {}

    @cached_property
    def fields(self) -> dict[str, int]:
        """Fields of the live rows and the number of rows with each."""
        return field_counts(self.segments, self.live)

    @cached_property
    def documents(self) -> list[tuple[str, int, int, int]]:
        """Documents by id: the number of the segment, first row and number of rows of each."""
        places = []
        for at, part in enumerate(self.parts):
            sizes = part.segment.sizes
            starts = np.cumsum(sizes) - sizes
            held = np.flatnonzero(sizes)
            held = held[part.live[starts[held]]]
            names = part.segment.names.texts(held)
            rows = zip(names, starts[held].tolist(), sizes[held].tolist(), strict=True)
            places += [(name, at, first, size) for name, first, size in rows]
        return sorted(places)

    def masks(self, filters: Sequence[Filter]) -> list[Mask]:
        """Rows that meet hard filters, one mask per segment."""
        if not filters:
            return self.live
        key = repr(filters)  # by spelling: True equals 1 in Python, but is another value here
        if key not in self._masks:
            masks = filter_masks(self.segments, self.live, self.fields, filters)
            if len(self._masks) >= _MASKS:
                self._masks = {}
            self._masks[key] = masks
            return masks
        return self._masks[key]

    def positions(
        self, ladder: Ladder, masks: Sequence[Mask], filters: Sequence[Filter]
    ) -> list[list[Rows]]:
        """Per condition of a ladder the rows that meet it, one array per segment.

        Args:
            ladder: The conditions.
            masks: Rows that meet the hard filters; only their values are known.
            filters: The hard filters; fields are those of rows that the rights among them leave.

        Raises:
            FilterError: A field that no chunk has, or values that none of the rows has.
        """
        fields = self.fields
        rights = [condition for condition in filters if condition.missing is not None]
        if rights and ladder.conditions:
            fields = fields_under(rights[-1], self.segments, self.masks(rights))
        positions = []
        for condition in ladder.conditions:
            lists = positions_of(self.segments, fields, condition)
            if needs_rows(condition) and not any_row_meets(lists, masks):
                raise unknown_value(condition, self.segments, masks)
            positions.append(lists)
        return positions


class SegmentView(View):
    """A handle on one state; safe to use from several threads."""

    def __init__(
        self, snapshot: str, index_spec: IndexSpec, state: ViewState, analyzer: Analyzer
    ) -> None:
        self.snapshot = snapshot
        self.index_spec = index_spec
        self._state: ViewState | None = state
        self._analyzer = analyzer

    def _live_state(self) -> ViewState:
        if self._state is None:
            raise RetrieveError("the view is closed", where=self.snapshot)
        for arrays in self._state.files:
            arrays.check()
        return self._state

    def keyword_reply(self, text: str, k: int, filters: Sequence[Filter] = ()) -> SearchReply:
        """The result of :meth:`keyword`, and the tokens that were looked for."""
        state = self._live_state()
        masks = state.masks(filters)
        ranked = self._keyword_scores(state, text, masks if filters else None)
        if ranked is None:
            return SearchReply(())
        if k < 1:
            return SearchReply((), terms=ranked.terms)
        chunks = []
        for segment, mask, scores in zip(state.segments, masks, ranked.scores, strict=True):
            scores = scores * mask
            rows = highest(scores, k, ROUNDING, above=0.0)
            chunks.append(_scored_chunks(segment, rows, scores[rows]))
        found = join_chunks(chunks)
        return SearchReply(found.select(found.scores > 0).best(k), terms=ranked.terms)

    def range_notes(self, filters: Sequence[Filter]) -> tuple[str, ...]:
        """Notes on documents that a range leaves out because their values cannot be compared."""
        state, notes = self._live_state(), []
        for condition in filters:
            bounded = condition.low is not None or condition.high is not None
            if condition.values or condition.exclude or not bounded:
                continue
            rest = [other for other in filters if other is not condition]
            count, kind = count_left_out(state.segments, state.masks(rest), condition)
            if count and kind:
                notes.append(
                    f"{count_noun(count, 'document')} without a {kind} in {condition.field!r} "
                    f"left out by {condition}"
                )
        return tuple(notes)

    def _keyword_scores(
        self, state: ViewState, text: str, masks: Sequence[Mask] | None
    ) -> Ranked | None:
        """Scores of all rows and the tokens looked for; None for a text without words.

        Masks of hard filters affect the reported terms, not the scores.
        """
        counts = Counter(self._analyzer.tokens(text))
        if not counts:
            return None
        lists = [(part.segment.postings, part.impacts) for part in state.parts]
        return bm25(lists, counts, state.counts.chunks, masks)

    def dense(
        self, vectors: Matrix, k: int, filters: Sequence[Filter] = ()
    ) -> tuple[tuple[tuple[str, float], ...], ...]:
        """For each query vector up to k (chunk id, similarity), best first, ties by id.

        A float32 product picks candidates; their similarities are then computed one by one in
        float64, so that a result does not depend on other queries of the batch.
        """
        state = self._live_state()
        queries = check_query_vectors(vectors, self.index_spec, self.snapshot)
        masks = state.masks(filters)
        if k < 1:
            return tuple(() for _ in queries)
        parts = list(zip(state.segments, masks, strict=True))
        return tuple(
            join_chunks([_nearest_chunks(*part, query, k) for part in parts]).best(k)
            for query in queries
        )

    def relaxed(
        self, query: str | Matrix, k: int, relax: Relaxation, filters: Sequence[Filter] = ()
    ) -> SearchReply:
        """Up to k chunks by weight of the soft filters they meet, then score, then id.

        Position lists give each row's level; exact scores are computed for those that k needs.
        """
        state = self._live_state()
        ladder = Ladder.of(relax)
        masks = state.masks(filters)
        ranked = None
        if isinstance(query, str):
            ranked = self._keyword_scores(state, query, masks if filters else None)
        else:
            [query] = check_query_vectors(query, self.index_spec, self.snapshot)
        if not state.counts.chunks:
            return SearchReply(())
        positions = state.positions(ladder, masks, filters)
        if ranked is not None:
            scores = [RowScores(scores, scores.take, above=0.0) for scores in ranked.scores]
        elif isinstance(query, str):
            return SearchReply(())
        else:
            scores = [_similarities(segment, query) for segment in state.segments]
        parts = [
            RelaxedPart(segment, masks[at], [lists[at] for lists in positions], scores[at])
            for at, segment in enumerate(state.segments)
        ]
        reply = climb(parts, ladder, k, relax)
        return reply if ranked is None else replace(reply, terms=ranked.terms)

    def every(self, k: int, filters: Sequence[Filter] = (), after: str = "") -> tuple[str, ...]:
        """Up to k chunk ids: documents by id, the chunks of each in text order."""
        state = self._live_state()
        masks = state.masks(filters)
        documents = state.documents
        begin, last = 0, -1
        if after:
            segment, last = self._row_of(state, after)
            first = (state.parts[segment].segment.hit(last).document_id,)
            begin = bisect_left(documents, first)
        ids: list[str] = []
        for number, (_, at, row, size) in enumerate(documents[begin:]):
            if len(ids) >= k:
                break
            rows = np.arange(row if number or not after else last + 1, row + size)
            ids += state.segments[at].ids_of(rows[masks[at][rows]])
        return tuple(ids[: max(0, k)])

    def count(self, filters: Sequence[Filter] = ()) -> int:
        """Number of chunks that meet hard filters."""
        return sum(int(mask.sum()) for mask in self._live_state().masks(filters))

    def vectors(self, chunk_ids: Sequence[str]) -> Matrix | None:
        """Vectors of these chunks, shape (chunks, dimensions); None for an index spec without."""
        state = self._live_state()
        places = [self._row_of(state, chunk_id) for chunk_id in chunk_ids]
        if not self.index_spec.dimensions:
            return None
        rows = [state.parts[at].segment.vectors[row] for at, row in places]
        return np.stack(rows) if rows else np.empty((0, self.index_spec.dimensions), np.float32)

    def lookup(self, chunk_ids: Sequence[str]) -> tuple[Hit, ...]:
        """The chunks with these ids as hits (rank and score 0), in this order."""
        state = self._live_state()
        places = [self._row_of(state, chunk_id) for chunk_id in chunk_ids]
        return tuple(state.parts[at].segment.hit(row) for at, row in places)

    def _row_of(self, state: ViewState, chunk_id: str) -> tuple[int, int]:
        """Number of the segment that holds a chunk, and its row."""
        number = id_number(chunk_id)
        for at, part in enumerate(state.parts):
            row = part.segment.row_of(chunk_id, number)
            if row is not None and part.live[row]:
                return at, row
        raise RetrieveError(
            f"no chunk has the id {chunk_id!r}",
            where=f"snapshot {self.snapshot}",
            hint="search and look up in one snapshot",
        )

    def fields(self) -> Mapping[str, int]:
        """The metadata fields of the chunks, with the number of chunks that have each."""
        return dict(self._live_state().fields)

    def statistics(self) -> ViewStatistics:
        """Size of the view; bytes count mapped files, which the system may drop and reread."""
        return self._live_state().counts

    def close(self) -> None:
        """Release the files; searching afterwards is a RetrieveError."""
        self._state = None


def check_query_vectors(vectors: Matrix, index_spec: IndexSpec, snapshot: str) -> Matrix:
    """Query vectors as float32 of shape (queries, dimensions).

    Raises:
        RetrieveError: The index has no vectors, the dimension differs, or a value is not finite.
    """
    queries = np.ascontiguousarray(np.atleast_2d(vectors), dtype=np.float32)
    if not index_spec.dimensions:
        raise RetrieveError(
            "this index has no vectors",
            where=f"snapshot {snapshot}",
            hint="search by keyword, or configure an embedding model and ingest again",
        )
    if queries.shape[1] != index_spec.dimensions:
        raise RetrieveError(
            f"the query vector has {queries.shape[1]} dimensions, "
            f"the index {index_spec.dimensions}",
            where=f"snapshot {snapshot}",
            hint="embed the query with the model of the index",
        )
    if not np.isfinite(queries).all():
        raise RetrieveError(
            "the query vector holds NaN or infinity",
            where=f"snapshot {snapshot}",
            hint="the embedding model failed on this text",
        )
    return queries


def _scored_chunks(segment: Segment, rows: Rows, scores: Scores) -> ScoredChunks:
    ids = segment.ids_of(rows)
    return ScoredChunks(ids, round_scores(scores), np.zeros(len(ids), np.int64))


def _nearest_chunks(
    segment: Segment, mask: Mask, query: NDArray[np.float32], k: int
) -> ScoredChunks:
    """The chunks of a segment that may be among the k nearest."""
    scores = products(segment.vectors, query)
    scores[~mask] = -np.inf
    rows = highest(scores, k, _rounding_bound(query, segment.norm))
    rows = rows[mask[rows]]
    return _scored_chunks(segment, rows, _exact_scores(segment.vectors, rows, query))


def _similarities(segment: Segment, query: NDArray[np.float32]) -> RowScores:
    matrix = segment.vectors
    return RowScores(
        products(matrix, query),
        lambda rows: _exact_scores(matrix, rows, query),
        _rounding_bound(query, segment.norm),
    )


def _rounding_bound(query: NDArray[np.float32], norm: float) -> float:
    """Bound on twice the rounding error of a float32 product of this length, generous."""
    scale = float(np.sqrt(np.dot(query, query))) * norm
    return float(8e-7 * np.sqrt(len(query)) * scale + ROUNDING)


def _exact_scores(matrix: Matrix, rows: Rows, query: NDArray[np.float32]) -> Scores:
    """Similarities in float64, each row by itself, a few thousand rows at a time."""
    wide = query.astype(np.float64)
    scores = np.empty(len(rows))
    for start in range(0, len(rows), 4096):
        part = slice(start, start + 4096)
        scores[part] = np.vecdot(matrix.take(rows[part], axis=0).astype(np.float64), wide)
    return scores
