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
        """MaxSim of every row; minus infinity for a row without vectors."""
        return self.scores_of(side, query, np.arange(len(side["offsets"]) - 1))

    def scores_of(self, side: Arrays, query: bytes, rows: Rows) -> Scores:
        """MaxSim of some rows; minus infinity for a row without vectors.

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
                hint="run: ragwright ingest (it encodes the chunks again)",
            )
        scores = np.full(len(rows), -np.inf)
        counts = offsets[rows + 1] - offsets[rows]
        filled = np.flatnonzero(counts)
        before = np.concatenate([[0], np.cumsum(counts[filled])])
        start = 0
        while start < len(filled):
            end = int(np.searchsorted(before, before[start] + _BLOCK, "right")) - 1
            end = max(end, start + 1)
            part = filled[start:end]
            scores[part] = _block_scores(
                side, rows[part], before[start:end] - before[start], wanted
            )
            start = end
        return np.round(scores, _DIGITS)

    def floor(self, query: bytes) -> float:
        """The sum of the lengths of the query's vectors, negative: vectors have length 1."""
        return -float(np.linalg.norm(read_query(query), axis=1).sum(dtype=np.float64))


def _block_scores(
    side: Arrays, rows: Rows, starts: NDArray[np.int64], query: NDArray[np.float32]
) -> Scores:
    """MaxSim of rows that have vectors; ``starts`` are the places of their first ones."""
    first, last = side["offsets"][rows].tolist(), side["offsets"][rows + 1].tolist()
    if last[:-1] == first[1:]:
        numbers, scales = side["vectors"][first[0] : last[-1]], side["scales"][first[0] : last[-1]]
    else:
        places = list(map(slice, first, last))
        numbers = np.concatenate([side["vectors"][place] for place in places])
        scales = np.concatenate([side["scales"][place] for place in places])
    products = numbers.astype(np.float32) @ query.T
    products *= scales[:, None]
    best = np.maximum.reduceat(products, starts, axis=0)
    return np.asarray(best.sum(axis=1, dtype=np.float64))
