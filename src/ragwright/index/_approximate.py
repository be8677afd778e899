"""Approximate search within one segment: fewer vectors are read, and the loss of recall is measured
before the first query.

An inverted file of 8-bit codes (faiss, IVF with a scalar quantiser) names candidates; their
similarities are then worked out from the vectors themselves, as exact search does, so scores are
equal, and only hits can be missing. How many lists are visited is tuned, when the index is built,
to the required recall, on vectors of the segment sampled with a seed. If a quarter of the lists
does not reach it, the segment is searched exactly.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core import StoreError, require
from ._arrays import Arrays

Vectors = NDArray[np.float32]
Mask = NDArray[np.bool_]
Rows = NDArray[np.intp]

FORMAT = 1
"""Version of the layout; a saved index of another version is rebuilt."""

_DEPTHS_FOR = (100, 1000)
"""Numbers of candidates for which recall is measured and the depth tuned."""

_SAMPLED = 200
_SEED = 0

_LIST_ROWS = 39
"""Fewest rows per trained list: faiss' own bound; with fewer its centre is unreliable."""

_FETCHED = 2
"""Candidates fetched by code for each one wanted: 8-bit codes misorder a few."""

_WIDE = 0.5
"""Share of the rows from which a filtered search is still approximate. Below it the filtered rows
are searched exactly, since filters need not follow clusters."""


@dataclass(frozen=True, slots=True)
class Measured:
    """Depth (lists visited, 0 for exact search) and recall for up to k candidates."""

    k: int
    depth: int
    recall: float


class Approximate:
    """The approximate index of one segment, open; safe to use from several threads.

    Attributes:
        measured: Measurements made when it was built, for growing k.
        target: Recall it was tuned to.
        queries: How many passages of the segment it was measured with.
        fault: Why it is not used, empty if it is.
    """

    def __init__(
        self,
        index: Any,
        measured: Sequence[Measured] = (),
        *,
        target: float = 0.0,
        queries: int = 0,
        fault: str = "",
    ) -> None:
        self._index = index
        self.measured = tuple(measured)
        self.target = target
        self.queries = queries
        self.fault = fault

    @classmethod
    def broken(cls, error: Exception) -> Approximate:
        """Represents an index that could be neither opened nor built."""
        return cls(None, fault=f"{type(error).__name__}: {error}")

    def narrow(self, mask: Mask | None) -> bool:
        """True if so few rows are allowed that these are searched exactly."""
        return mask is not None and int(np.count_nonzero(mask)) < _WIDE * len(mask)

    def depth(self, k: int, mask: Mask | None) -> int:
        """Lists to visit for the k best of the masked rows; 0 where exact search answers."""
        fitting = self.fitting(k)
        if self.fault or fitting is None or not fitting.depth or self.narrow(mask):
            return 0
        share = 1.0 if mask is None else float(np.count_nonzero(mask)) / max(1, len(mask))
        return int(np.ceil(fitting.depth / share))

    def candidates(self, queries: Vectors, k: int, mask: Mask | None) -> dict[int, Rows]:
        """Query number -> rows that may be among its k best.

        Queries that exact search must answer are left out.
        """
        depth = self.depth(k, mask)
        if not depth:
            return {}
        wanted = k if mask is None else min(k, int(np.count_nonzero(mask)))
        try:
            found = _searched(self._index, queries, _FETCHED * k, depth, mask)
        except Exception as error:
            self.fault = f"{type(error).__name__}: {error}"
            return {}
        # The visited lists may hold fewer rows than wanted.
        return {number: rows for number, rows in enumerate(found) if len(rows) >= wanted}

    def fitting(self, k: int) -> Measured | None:
        """The measurement for k candidates, None if k is too large."""
        return next((one for one in self.measured if k <= one.k), None)


def stated(indexes: Sequence[Approximate | None], k: int) -> str:
    """A note for the user on a search for k candidates in segments with these indexes.

    Gives the worst figure of all; empty if there is no index.
    """
    known = [one for one in indexes if one is not None]
    faults = sorted({one.fault for one in known if one.fault})
    if faults:
        return f"the approximate index failed ({'; '.join(faults)}): exact search answered"
    if not known:
        return ""
    measured = [one.fitting(k) for one in known]
    found = [one for one in measured if one is not None]
    if len(found) < len(measured):
        most = min(one.measured[-1].k if one.measured else 0 for one in known)
        return f"approximate search is measured for up to {most} candidates: exact search answered"
    used = [one for one in found if one.depth]
    if not used:
        best = max(one.recall for one in found)
        return missed_recall(found[0].k, best, known[0].target)
    least = min(used, key=lambda one: one.recall)
    queries = sum(one.queries for one in known)
    part = "" if len(used) == len(found) else f" in {len(used)} of {len(found)} large segments"
    return (
        f"approximate{part}: measured recall@{least.k} {least.recall:.3f} "
        f"on {queries} sampled passages"
    )


def missed_recall(k: int, recall: float, target: float) -> str:
    """A note that search is exact, since no setting reached the recall; rounded down."""
    return (
        f"approximate search reached a recall@{k} of {math.floor(recall * 1000) / 1000:.3f}, "
        f"short of {target:g}: exact search answered"
    )


def build(vectors: Vectors, target: float) -> Arrays:
    """An approximate index of some vectors, with its measurements.

    Args:
        vectors: Shape (rows, dimensions), compared by their dot product.
        target: Recall to reach, 0 to 1.

    Raises:
        MissingExtraError: faiss is not installed.
    """
    faiss = _faiss()
    rows, dimensions = vectors.shape
    lists = max(1, min(2 ** max(2, round(np.log2(np.sqrt(rows)))), rows // _LIST_ROWS))
    quantiser = faiss.IndexFlatIP(dimensions)
    index = faiss.IndexIVFScalarQuantizer(
        quantiser,
        dimensions,
        lists,
        faiss.ScalarQuantizer.QT_8bit,
        faiss.METRIC_INNER_PRODUCT,
    )
    # A quantiser passed to the constructor is not owned by the index, and is freed too early.
    index.own_fields = True
    quantiser.this.disown()
    index.cp.seed = _SEED + 1
    index.cp.min_points_per_centroid = 1  # faiss prints to stderr where a list has fewer
    rng = np.random.default_rng(_SEED)
    some = np.sort(rng.choice(rows, min(rows, 256 * lists), replace=False))
    index.train(np.ascontiguousarray(vectors[some]))
    index.add(np.ascontiguousarray(vectors))
    asked = np.sort(rng.choice(rows, min(rows, _SAMPLED), replace=False))
    truth = _truth(vectors, asked, max(k for k in _DEPTHS_FOR if k < rows))
    measured = [
        _tuned(index, vectors, asked, truth[:, :k], target) for k in _DEPTHS_FOR if k < rows
    ]
    data = faiss.serialize_index(index)
    meta = {
        "format": FORMAT,
        "target": target,
        "queries": len(asked),
        "measured": [[one.k, one.depth, one.recall] for one in measured],
        "check": _check(data),
    }
    return Arrays(meta, {"index": data})


def opened(arrays: Arrays, target: float) -> Approximate:
    """The index that :func:`build` made.

    Raises:
        StoreError: It is damaged, of another version, or tuned to another recall.
        MissingExtraError: faiss is not installed.
    """
    faiss = _faiss()
    meta = arrays.meta
    if meta.get("format") != FORMAT or meta.get("target") != target:
        raise StoreError("an approximate index of another version or recall")
    data = np.array(arrays["index"])
    if _check(data) != meta["check"]:
        raise StoreError("a damaged approximate index")
    index = faiss.deserialize_index(data)
    measured = [Measured(*one) for one in meta["measured"]]
    return Approximate(index, measured, target=target, queries=meta["queries"])


def available() -> None:
    """Check that approximate search is installed.

    Raises:
        MissingExtraError: It is not.
    """
    _faiss()


def _faiss() -> Any:
    return require("faiss", "ann", "approximate search (store.approximate)")


def _check(data: NDArray[np.uint8]) -> str:
    return blake2b(data.data, digest_size=16).hexdigest()


def _searched(index: Any, queries: Vectors, k: int, depth: int, mask: Mask | None) -> list[Rows]:
    """Rows of the visited lists by code, under the mask."""
    faiss = _faiss()
    how: dict[str, Any] = {"nprobe": min(depth, index.nlist)}
    if mask is not None:
        bits = np.packbits(mask, bitorder="little")
        how["sel"] = faiss.IDSelectorBitmap(bits)
    params = faiss.SearchParametersIVF(**how)
    _, found = index.search(np.ascontiguousarray(queries), k, params=params)
    return [np.asarray(rows[rows >= 0], np.intp) for rows in found]


def _truth(vectors: Vectors, asked: Rows, k: int) -> Vectors:
    """The k highest similarities of each of some rows, without itself, highest first."""
    found = np.empty((len(asked), k), np.float32)
    for at, row in enumerate(asked.tolist()):
        scores = vectors @ vectors[row]
        scores[row] = -np.inf
        found[at] = -np.sort(-np.partition(scores, len(scores) - k)[-k:])
    return found


def _tuned(index: Any, vectors: Vectors, asked: Rows, truth: Vectors, target: float) -> Measured:
    """The least depth, by doubling and halving, that reaches the target; 0 where none does."""
    k = truth.shape[1]
    most = max(1, index.nlist // 4)
    low, high = 0, 1
    recall = _recall(index, vectors, asked, truth, high)
    while recall < target and high < most:
        low, high = high, min(2 * high, most)
        recall = _recall(index, vectors, asked, truth, high)
    if recall < target:
        return Measured(k, 0, recall)
    while high - low > 1:
        middle = (low + high) // 2
        there = _recall(index, vectors, asked, truth, middle)
        if there >= target:
            high, recall = middle, there
        else:
            low = middle
    return Measured(k, high, recall)


def _recall(index: Any, vectors: Vectors, asked: Rows, truth: Vectors, depth: int) -> float:
    """Share of the nearest rows that a search finds, scored as searches are.

    By their similarities: rows that tie with the last one are equivalent.
    """
    k = truth.shape[1]
    hits = 0
    for row, best in zip(asked.tolist(), truth, strict=True):
        query = vectors[row]
        rows = _searched(index, query[None, :], _FETCHED * k + 1, depth, None)[0]
        scores = vectors[rows[rows != row]] @ query
        hits += min(k, int(np.count_nonzero(scores >= best[-1] - 1e-6)))
    return hits / truth.size
