"""The chunks of a state in document order, for reading a whole corpus page by page."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ._filters import Mask
from ._segment import Segment


class DocumentOrder:
    """Live rows of all segments: documents by id, the chunks of each as they were stored.

    Args:
        segments: The segments.
        live: Their live rows, None for all.
    """

    def __init__(self, segments: Sequence[Segment], live: Sequence[Mask | None]) -> None:
        self._segments = list(segments)
        sizes = [segment.rows for segment in segments]
        self._first = np.cumsum([0, *sizes])
        names: list[tuple[str, int, int]] = []
        for first, segment, alive in zip(self._first[:-1].tolist(), segments, live, strict=True):
            ends = np.cumsum(segment.sizes)
            starts = ends - segment.sizes
            # Rows of a document live and die together.
            there = segment.sizes > 0
            if alive is not None:
                there[there] = alive[starts[there]]
            chosen = np.flatnonzero(there)
            names += zip(
                segment.names_of(chosen),
                (first + starts[chosen]).tolist(),
                segment.sizes[chosen].tolist(),
                strict=True,
            )
        names.sort()
        begins = np.array([row for _, row, _ in names], np.int64)
        lengths = np.array([count for _, _, count in names], np.int64)
        before = np.cumsum(lengths) - lengths
        self._rows = np.arange(int(lengths.sum())) + np.repeat(begins - before, lengths)
        self._place = np.empty(int(self._first[-1]), np.int64)
        self._place[self._rows] = np.arange(len(self._rows))

    def behind(self, segment: int, row: int) -> int:
        """Place after a live row."""
        return int(self._place[self._first[segment] + row]) + 1

    def ids(self, start: int, k: int, masks: Sequence[Mask | None] | None) -> tuple[str, ...]:
        """Up to k chunk ids from a place on, of rows under the masks."""
        rows = self._rows[start:]
        if masks:
            allowed = np.concatenate(
                [
                    np.ones(segment.rows, np.bool_) if mask is None else mask
                    for segment, mask in zip(self._segments, masks, strict=True)
                ]
            )
            rows = rows[allowed[rows]]
        rows = rows[: max(0, k)]
        owners = np.searchsorted(self._first, rows, side="right") - 1
        names = [""] * len(rows)
        for at in np.unique(owners).tolist():
            places = np.flatnonzero(owners == at)
            ids = self._segments[at].ids_of(rows[places] - self._first[at])
            for place, name in zip(places.tolist(), ids, strict=True):
                names[place] = name
        return tuple(names)
