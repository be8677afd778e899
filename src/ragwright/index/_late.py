"""The late-interaction channel: 8-bit vectors of tokens, scored by MaxSim.

The score of a chunk is the sum, over the vectors of the query, of the greatest product with any
vector of the chunk (Khattab and Zaharia, "ColBERT", SIGIR 2020).
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from ..core import RetrieveError
from ..models import read_passage, read_query
from ._arrays import Array, Arrays
from ._encoded import EncodedChannel
from ._rank import Rows, Scores

_BLOCK = 1024
"""Vectors of a block: as float32 of 128 dimensions they fit a processor's cache."""

_DIGITS = 4
"""Digits of a score: the last bits of a float32 product depend on the rows beside it."""


class LateChannel(EncodedChannel):
    """Late interaction, as models of the kind ColBERT make it."""

    name = "late"
    least = None

    def packed(self, encodings: Iterable[bytes]) -> dict[str, Array]:
        """All vectors behind one another, their scales, and where those of each row begin."""
        ends, width = [0], 0
        scales, vectors = bytearray(), bytearray()
        for encoding in encodings:
            count = 0
            if encoding:
                own_scales, own_vectors = read_passage(encoding)
                count, width = own_vectors.shape
                scales += own_scales.tobytes()
                vectors += own_vectors.tobytes()
            ends.append(ends[-1] + count)
        return {
            "offsets": np.array(ends, np.int64),
            "scales": np.frombuffer(scales, np.float32),
            "vectors": np.frombuffer(vectors, np.int8).reshape(-1, max(1, width)),
        }

    def scores(self, side: Arrays, query: bytes) -> Scores:
        """MaxSim of every row; a row without vectors has the least score that there could be."""
        return self.scores_of(side, query, np.arange(len(side["offsets"]) - 1))

    def scores_of(self, side: Arrays, query: bytes, rows: Rows) -> Scores:
        """MaxSim of some rows; a row without vectors has the least score that there could be.

        Raises:
            RetrieveError: The query's vectors have another length than those of the index.
        """
        wanted = read_query(query)
        vectors, offsets = side["vectors"], side["offsets"]
        if len(vectors) and vectors.shape[1] != wanted.shape[1]:
            raise RetrieveError(
                f"the query's vectors have {wanted.shape[1]} dimensions, those of the index "
                f"{vectors.shape[1]}",
                where="channel late",
                hint="name the model that encoded the chunks; an encoder of your own needs another "
                "identity when its vectors change: ragwright ingest then encodes every chunk",
            )
        scores = np.full(len(rows), self.floor(query))
        counts = offsets[rows + 1] - offsets[rows]
        filled = np.flatnonzero(counts)
        before = np.concatenate([[0], np.cumsum(counts[filled])])
        if not len(filled):
            return scores
        most = max(_BLOCK, int(counts.max()))
        block = _Block(side, most, np.ascontiguousarray(wanted.T))
        start = 0
        while start < len(filled):
            end = int(np.searchsorted(before, before[start] + _BLOCK, "right")) - 1
            end = max(end, start + 1)
            part = filled[start:end]
            scores[part] = block.scores(rows[part], before[start : end + 1] - before[start])
            start = end
        return np.round(scores, _DIGITS)

    def floor(self, query: bytes) -> float:
        """The sum of the lengths of the query's vectors, negative: vectors have length 1."""
        return -float(np.linalg.norm(read_query(query), axis=1).sum(dtype=np.float64))


class _Block:
    """Rows that are scored at once, in memory that is used again for the next ones.

    Args:
        side: The vectors of the segment.
        most: Most vectors of a block.
        query: The query's vectors as columns.
    """

    def __init__(self, side: Arrays, most: int, query: NDArray[np.float32]) -> None:
        self._side = side
        self._query = query
        self._vectors = np.empty((most, len(query)), np.float32)
        self._scales = np.empty((most, 1), np.float32)
        self._products = np.empty((most, query.shape[1]), np.float32)

    def scores(self, rows: Rows, places: NDArray[np.int64]) -> Scores:
        """MaxSim of rows that have vectors; ``places`` are where theirs begin, and the end."""
        vectors, scales, offsets = (self._side[n] for n in ("vectors", "scales", "offsets"))
        bounds = zip(offsets[rows].tolist(), offsets[rows + 1].tolist(), strict=True)
        for (first, last), start in zip(bounds, places.tolist(), strict=False):
            self._vectors[start : start + last - first] = vectors[first:last]
            self._scales[start : start + last - first, 0] = scales[first:last]
        size = int(places[-1])
        products = self._products[:size]
        np.matmul(self._vectors[:size], self._query, out=products)
        products *= self._scales[:size]
        best = np.maximum.reduceat(products, places[:-1], axis=0)
        return np.asarray(best.sum(axis=1, dtype=np.float64))
