"""The read view: answers from immutable segments, and so from one state of the store."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..core import Filter, Hit, RetrieveError
from ..models import TokenSource
from ._filters import Mask, field_counts, filter_masks
from ._postings import Impacts, bm25
from ._rank import ROUNDING, Rows, Scores, best, highest
from ._segment import Segment, id_number
from ._store import Matrix, Pair, View, ViewStatistics
from ._tokens import token_numbers

_CELLS = 16_000_000
"""Most similarities worked out at once: 64 MB."""

_MASKS = 32
"""Filters whose masks are remembered."""


@dataclass(slots=True)
class Part:
    """A segment within a view: the impacts of its postings, and which rows are dead."""

    segment: Segment
    impacts: Impacts
    dead: Mask | None = None


class State:
    """One state of a pair: segments with what makes their scores those of one index.

    Shared by the views opened on it; nothing in it changes but remembered masks.
    """

    def __init__(self, parts: Sequence[Part], *, rows: int, documents: int, tokens: int) -> None:
        self.parts = tuple(parts)
        self.rows = rows
        self.documents = documents
        self.tokens = tokens
        self._fields: dict[str, int] | None = None
        self._masks: dict[str, list[Mask]] = {}

    @property
    def segments(self) -> list[Segment]:
        """The segments, oldest first."""
        return [part.segment for part in self.parts]

    def fields(self) -> dict[str, int]:
        """Fields of the live rows and how many carry each; worked out on first use."""
        if self._fields is None:
            self._fields = field_counts(self.segments, [part.dead for part in self.parts])
        return self._fields

    def masks(self, filters: Sequence[Filter]) -> list[Mask | None]:
        """Rows that may be found, one mask a segment; None where all of them may."""
        if not filters:
            return [None if part.dead is None else ~part.dead for part in self.parts]
        # By spelling: True equals 1 to Python, and is another value here.
        key = repr(filters)
        found = self._masks.get(key)
        if found is None:
            dead = [part.dead for part in self.parts]
            found = filter_masks(self.segments, dead, self.fields(), filters)
            if len(self._masks) >= _MASKS:
                self._masks = {}
            self._masks[key] = found
        return list(found)

    @property
    def bytes(self) -> int:
        """Size of all arrays, mapped or in memory."""
        return sum(part.segment.arrays.bytes + part.impacts.nbytes for part in self.parts)


class SegmentView(View):
    """A handle on one state; safe to use from several threads."""

    def __init__(self, snapshot: str, pair: Pair, state: State, analyzer: TokenSource) -> None:
        self.snapshot = snapshot
        self.pair = pair
        self._state: State | None = state
        self._analyzer = analyzer

    def _open(self) -> State:
        if self._state is None:
            raise RetrieveError("the view is closed", where=self.snapshot)
        return self._state

    def keyword(
        self, text: str, k: int, filters: Sequence[Filter] = ()
    ) -> tuple[tuple[str, float], ...]:
        """Up to k (chunk id, BM25 score), score above 0, best first, ties by id."""
        state = self._open()
        masks = state.masks(filters) if filters else None
        counts = Counter(self._analyzer.query_tokens(text))
        if not counts or k < 1:
            return ()
        lists = bm25(
            [(part.segment.postings, part.impacts, part.dead is not None) for part in state.parts],
            token_numbers(counts),
            list(counts.values()),
            state.rows,
        )
        found = []
        for at, (part, scores) in enumerate(zip(state.parts, lists, strict=True)):
            mask = masks[at] if masks else None
            if mask is not None:
                scores = scores * mask
            rows = highest(scores, k, ROUNDING, above=0.0)
            found.append((part.segment, rows, scores[rows]))
        return best(found, k, above=0.0)

    def dense(
        self, vectors: Matrix, k: int, filters: Sequence[Filter] = ()
    ) -> tuple[tuple[tuple[str, float], ...], ...]:
        """For each query vector up to k (chunk id, similarity), best first, ties by id.

        A float32 product picks candidates; their similarities are then worked out one by one
        in float64, so that an answer does not depend on what was asked beside it.
        """
        state = self._open()
        queries = checked_queries(vectors, self.pair, self.snapshot)
        masks = state.masks(filters)
        if k < 1 or not state.rows:
            return tuple(() for _ in queries)
        found: list[list[tuple[Segment, Rows, Scores]]] = [[] for _ in queries]
        for part, mask in zip(state.parts, masks, strict=True):
            for number, rows, scores in _similar(part.segment, queries, k, mask):
                found[number].append((part.segment, rows, scores))
        return tuple(best(lists, k) for lists in found)

    def lookup(self, chunk_ids: Sequence[str]) -> tuple[Hit, ...]:
        """The chunks with these ids as hits (rank and score 0), in this order."""
        state = self._open()
        return tuple(self._hit(state, chunk_id) for chunk_id in chunk_ids)

    def _hit(self, state: State, chunk_id: str) -> Hit:
        number = id_number(chunk_id)
        for part in state.parts:
            row = part.segment.row_of(chunk_id, number)
            if row is not None and (part.dead is None or not part.dead[row]):
                return part.segment.hit(row)
        raise RetrieveError(
            f"no chunk has the id {chunk_id!r}",
            where=f"snapshot {self.snapshot}",
            hint="search and look up in one snapshot",
        )

    def fields(self) -> Mapping[str, int]:
        """Metadata fields of the chunks and how many chunks carry each."""
        return dict(self._open().fields())

    def statistics(self) -> ViewStatistics:
        """Size of the view; bytes count mapped files, which the system may drop and reread."""
        state = self._open()
        return ViewStatistics(state.rows, state.documents, state.tokens, state.bytes)

    def close(self) -> None:
        """Let the files go; searching afterwards is a RetrieveError."""
        self._state = None


def checked_queries(vectors: Matrix, pair: Pair, snapshot: str) -> Matrix:
    """Query vectors as float32 of shape (queries, dimensions).

    Raises:
        RetrieveError: The pair has no vectors, the dimension differs, or a value is not finite.
    """
    queries = np.ascontiguousarray(np.atleast_2d(vectors), dtype=np.float32)
    if not pair.dimensions:
        raise RetrieveError(
            "this index has no vectors",
            where=f"snapshot {snapshot}",
            hint="search by keyword, or configure an embedding model and ingest again",
        )
    if queries.shape[1] != pair.dimensions:
        raise RetrieveError(
            f"query vector of {queries.shape[1]} dimensions, the index has {pair.dimensions}",
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


def _similar(
    segment: Segment, queries: Matrix, k: int, mask: Mask | None
) -> Iterator[tuple[int, Rows, Scores]]:
    """Per query: its number, candidate rows of the segment and their exact similarities."""
    matrix = segment.vectors
    if not len(matrix):
        return
    chosen = None if mask is None else np.flatnonzero(mask)
    few = chosen is not None and len(chosen) <= len(matrix) // 4
    if chosen is not None and few:
        matrix = matrix[chosen]
    step = max(1, _CELLS // max(1, len(matrix)))
    for start in range(0, len(queries), step):
        block = queries[start : start + step]
        products = (matrix @ block[0])[None, :] if len(block) == 1 else block @ matrix.T
        for at, query in enumerate(block):
            scores = products[at]
            if mask is not None and not few:
                scores[~mask] = -np.inf
            rows = highest(scores, k, _error(query, segment.norm))
            if chosen is not None and mask is not None:
                rows = chosen[rows] if few else rows[mask[rows]]
            yield start + at, rows, _exact(segment.vectors, rows, query)


def _error(query: NDArray[np.float32], norm: float) -> float:
    """Bound on twice the rounding error of a float32 product of this length, generous."""
    scale = float(np.sqrt(np.dot(query, query))) * norm
    return float(8e-7 * np.sqrt(len(query)) * scale + ROUNDING)


def _exact(matrix: Matrix, rows: Rows, query: NDArray[np.float32]) -> Scores:
    """Similarities in float64, each row by itself, a few thousand rows at a time."""
    wide = query.astype(np.float64)
    found = np.empty(len(rows))
    for start in range(0, len(rows), 4096):
        part = slice(start, start + 4096)
        found[part] = np.vecdot(matrix.take(rows[part], axis=0).astype(np.float64), wide)
    return found
