"""BM25 over posting lists, in the variant of Lucene.

    score(q, d) = sum over t in q of  ln(1 + (N - df + 0.5) / (df + 0.5))
                                      * tf / (tf + k1 * (1 - b + b * len(d) / avglen))

Source: Kamphuis et al., "Which BM25 do you mean?", ECIR 2020, variant "Lucene (accurate)".
The factor that depends on the chunk (its *impact*) is worked out when a view is opened or
saved; dead rows have impact 0, and so count neither in a score nor in df.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ._arrays import Array, Arrays
from ._tokens import Terms

Impacts = NDArray[np.float32]
Scores = NDArray[np.float64]


def build_postings(rows: Sequence[Terms]) -> dict[str, Array]:
    """Posting lists of a segment from the terms of its rows, in row order."""
    sizes = np.array([len(numbers) for numbers, _ in rows], np.int64)
    empty = np.empty(0, np.uint64)
    numbers = np.concatenate([numbers for numbers, _ in rows]) if rows else empty
    counts = np.concatenate([c for _, c in rows]) if rows else np.empty(0, np.uint32)
    lengths = np.array([int(c.sum()) for _, c in rows], np.int32)
    order = np.argsort(numbers, kind="stable")
    numbers = numbers[order]
    firsts = np.flatnonzero(np.r_[True, numbers[1:] != numbers[:-1]][: len(numbers)])
    bounds = np.append(firsts, len(numbers)).astype(np.int64)
    counts = counts[order]
    narrow = np.min_scalar_type(int(counts.max())) if len(counts) else np.dtype(np.uint8)
    return {
        "terms": numbers[firsts],
        "terms.bounds": bounds,
        "terms.rows": np.repeat(np.arange(len(rows), dtype=np.int32), sizes)[order],
        "terms.counts": counts.astype(narrow),
        "lengths": lengths,
    }


@dataclass(frozen=True, slots=True)
class Postings:
    """Posting lists of one segment: sorted terms, and per term its rows and counts."""

    terms: NDArray[np.uint64]
    bounds: NDArray[np.int64]
    rows: NDArray[np.int32]
    counts: Array
    lengths: NDArray[np.int32]

    @classmethod
    def open(cls, arrays: Arrays) -> Postings:
        """The posting lists of a segment's arrays."""
        return cls(
            arrays["terms"],
            arrays["terms.bounds"],
            arrays["terms.rows"],
            arrays["terms.counts"],
            arrays["lengths"],
        )

    def impacts(self, average: float, k1: float, b: float, dead: Array | None) -> Impacts:
        """Impact of every posting; ``average`` is the mean length over all live rows."""
        lengths = self.lengths.astype(np.float64)
        norms = k1 * (1.0 - b + b * lengths / average) if average else np.full(len(lengths), k1)
        found = np.empty(len(self.rows), np.float32)
        step = 4_000_000
        for start in range(0, len(found), step):
            part = slice(start, start + step)
            counts = self.counts[part].astype(np.float64)
            found[part] = counts / (counts + norms[self.rows[part]])
            if dead is not None:
                found[part][dead[self.rows[part]]] = 0.0
        return found

    def find(self, numbers: NDArray[np.uint64]) -> list[tuple[int, int]]:
        """Bounds of the posting list of each term; equal bounds where there is none."""
        if not len(self.terms):
            return [(0, 0)] * len(numbers)
        at = np.minimum(np.searchsorted(self.terms, numbers), len(self.terms) - 1)
        there = self.terms[at] == numbers
        starts, ends = self.bounds[at].tolist(), self.bounds[at + 1].tolist()
        known = there.tolist()
        return [(s, e) if ok else (0, 0) for s, e, ok in zip(starts, ends, known, strict=True)]


def bm25(
    parts: Sequence[tuple[Postings, Impacts, bool]],
    numbers: NDArray[np.uint64],
    weights: Sequence[int],
    live: int,
) -> list[Scores]:
    """Scores of all rows of all segments, one array a segment.

    Args:
        parts: Posting lists and impacts per segment, and whether some of its rows are dead.
        numbers: Distinct terms of the query.
        weights: How often each stands in the query.
        live: Number of live rows over all segments (N).
    """
    spans = [postings.find(numbers) for postings, _, _ in parts]
    frequency = np.zeros(len(numbers))
    for (_, impacts, some_dead), found in zip(parts, spans, strict=True):
        for term, (start, end) in enumerate(found):
            some = some_dead and end > start
            frequency[term] += np.count_nonzero(impacts[start:end]) if some else end - start
    idf = np.log1p((live - frequency + 0.5) / (frequency + 0.5)) * np.asarray(weights)
    factors = idf.tolist()
    scores: list[Scores] = []
    for (postings, impacts, _), found in zip(parts, spans, strict=True):
        lists = [(s, e, factors[term]) for term, (s, e) in enumerate(found) if e > s]
        size = len(postings.lengths)
        if not lists:
            scores.append(np.zeros(size))
            continue
        rows = np.concatenate([postings.rows[s:e] for s, e, _ in lists])
        gains = np.concatenate([impacts[s:e] * np.float64(factor) for s, e, factor in lists])
        scores.append(np.asarray(np.bincount(rows, gains, size), np.float64))
    return scores
