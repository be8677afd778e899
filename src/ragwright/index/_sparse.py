"""The learned sparse channel: postings of term weights, scored exactly.

An encoding is a sparse vector: its dimensions as uint32 in ascending order, then its weights as
float32, little endian. The score of a chunk is the product of its vector and the query's.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core import RetrieveError
from ._arrays import Array, Arrays
from ._encoded import EncodedChannel
from ._rank import Scores

_DENSE_SHARE = 16
"""A term in more than one of so many rows is kept as a row of weights: adding it is then a
product of a whole row, several times as fast as its postings."""

_MOST_DENSE = 256
"""Most such terms in a segment: 100 MB in one of 100,000 rows."""


class SparseChannel(EncodedChannel):
    """Learned sparse vectors, as SPLADE and inference-free models make them."""

    name = "sparse"
    terms = True

    def packed(self, encodings: Iterable[bytes]) -> dict[str, Array]:
        """Postings: per term its rows and weights; frequent terms as rows of weights."""
        sizes: list[int] = []
        ids, weights = bytearray(), bytearray()
        for encoding in encodings:
            half = len(encoding) // 2
            sizes.append(half // 4)
            ids += encoding[:half]
            weights += encoding[half:]
        terms = np.frombuffer(ids, np.uint32)
        values = np.frombuffer(weights, np.float32)
        counts = np.bincount(terms, minlength=1)
        frequent = _frequent_terms(counts, len(sizes))
        # Sorted as 16 bits where they fit: numpy then sorts by radix.
        narrow = terms.astype(np.uint16) if len(counts) <= 2**16 else terms
        order = np.argsort(narrow, kind="stable")
        rows = np.repeat(np.arange(len(sizes), dtype=np.int32), sizes)[order]
        values = values[order]
        bounds = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        table = np.zeros((len(frequent), len(sizes)), np.float32)
        for at, term in enumerate(frequent.tolist()):
            span = slice(bounds[term], bounds[term + 1])
            table[at, rows[span]] = values[span]
        return {
            "bounds": bounds,
            "rows": rows,
            "weights": values,
            "frequent": frequent,
            "table": table,
        }

    def scores(self, side: Arrays, query: bytes) -> Scores:
        """The product of each row's vector and the query's."""
        terms, weights = read_sparse(query)
        bounds = side["bounds"]
        known = terms < len(bounds) - 1
        terms, weights = terms[known], weights[known]
        frequent, table = side["frequent"], side["table"]
        size = table.shape[1]
        at = np.searchsorted(frequent, terms)
        in_table = np.zeros(len(terms), np.bool_)
        if len(frequent):
            in_table = frequent[np.minimum(at, len(frequent) - 1)] == terms
        rare = ~in_table
        starts, ends = bounds[terms[rare]].tolist(), bounds[terms[rare] + 1].tolist()
        # Products are float32 wherever a term is kept, and summed in float64: a score does not
        # depend on how rows are spread over segments.
        scores = np.zeros(size)
        for start, end, weight in zip(starts, ends, weights[rare], strict=True):
            # A term has a row once, so that adding by index is right, and faster than counting.
            scores[side["rows"][start:end]] += side["weights"][start:end] * weight
        product = np.empty(size, np.float32)
        for place, weight in zip(at[in_table].tolist(), weights[in_table], strict=True):
            np.multiply(table[place], weight, out=product)
            scores += product
        return scores


def _frequent_terms(counts: NDArray[Any], rows: int) -> NDArray[np.uint32]:
    """Terms that many rows hold, ascending."""
    frequent = np.flatnonzero(counts * _DENSE_SHARE > rows)
    if len(frequent) > _MOST_DENSE:
        frequent = frequent[np.argsort(-counts[frequent], kind="stable")[:_MOST_DENSE]]
    return np.sort(frequent).astype(np.uint32)


def read_sparse(encoding: bytes) -> tuple[NDArray[np.uint32], NDArray[np.float32]]:
    """Dimensions and weights of an encoding.

    Raises:
        RetrieveError: These are no bytes of a sparse vector.
    """
    if len(encoding) % 8:
        raise RetrieveError(f"{len(encoding)} bytes are not a sparse vector")
    half = len(encoding) // 2
    return np.frombuffer(encoding[:half], np.uint32), np.frombuffer(encoding[half:], np.float32)
