"""Fitting linear adapters: ridge regression towards the passages that answer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..core import TestsetError

Matrix = NDArray[np.float32]
Ranked = Callable[[Matrix], Sequence[Sequence[str]]]
"""A search: query vectors of shape (queries, dimensions) -> ids of the best chunks, best first."""

LEAST_PAIRS = 20
STRENGTHS = (0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
FOLDS = 5


@dataclass(frozen=True, slots=True)
class AdapterFit:
    """A fitted adapter and its figures from cross-validation.

    Attributes:
        matrix: Shape (dimensions, dimensions).
        strength: Ridge parameter chosen by cross-validation, in units of the mean squared length of
            the queries.
        before: MRR@10 of the training questions without an adapter, 0 to 1.
        after: MRR@10 by cross-validation: each question by an adapter that has not seen it.
        pairs: Training questions.
    """

    matrix: Matrix
    strength: float
    before: float
    after: float
    pairs: int


def fit_adapter(
    queries: Matrix,
    passages: Matrix,
    gold: Sequence[frozenset[str]],
    clusters: Sequence[str],
    ranked: Ranked,
    seed: int = 0,
) -> AdapterFit:
    """Fit the adapter whose strength is best by cross-validation on the training questions.

    The matrix is ``I + A`` with ``A = argmin |Q (I + A) - P|^2 + s |A|^2``, the ridge regression
    (Hoerl and Kennard 1970) of the passages on the queries that is drawn to the identity.

    Args:
        queries: Vectors of the questions, shape (questions, dimensions).
        passages: For each question the vector of a chunk that answers it, same shape.
        gold: For each question the ids of all chunks that answer it.
        clusters: Cluster of each question; a cluster shares gold and is in one fold.
        ranked: Searches with query vectors.
        seed: Seed of the folds.

    Raises:
        TestsetError: Fewer than 20 questions, or all of them share their gold.
    """
    count = len(queries)
    if count < LEAST_PAIRS:
        raise TestsetError(
            f"{count} training questions have gold in the index; an adapter needs {LEAST_PAIRS}",
            hint="add rows with reference_ids or spans, or make some: ragwright synth",
        )
    names, cluster = np.unique(np.asarray(clusters), return_inverse=True)
    if len(names) < 2:
        raise TestsetError(
            "all training questions share their gold: none is left to check an adapter on",
            hint="add questions that other passages or documents answer",
        )
    before = _mean_reciprocal_rank(ranked(queries), gold)
    folds = (np.random.default_rng(seed).permutation(len(names)) % FOLDS)[cluster]
    best, best_strength = -1.0, STRENGTHS[-1]
    for strength in reversed(STRENGTHS):  # of equal ones, the strongest pull to the identity
        moved_queries = np.empty_like(queries)
        for fold in range(FOLDS):
            in_fold = folds == fold
            moved_queries[in_fold] = queries[in_fold] @ ridge(
                queries[~in_fold], passages[~in_fold], strength
            )
        after = _mean_reciprocal_rank(ranked(moved_queries), gold)
        if after > best:
            best, best_strength = after, strength
    return AdapterFit(ridge(queries, passages, best_strength), best_strength, before, best, count)


def ridge(queries: Matrix, passages: Matrix, strength: float) -> Matrix:
    """Return the matrix that moves queries to passages, drawn to the identity by ``strength``."""
    q, p = queries.astype(np.float64), passages.astype(np.float64)
    width = q.shape[1]
    pull = strength * float(np.einsum("ij,ij->", q, q)) / width
    change = np.linalg.solve(q.T @ q + pull * np.eye(width), q.T @ (p - q))
    return np.asarray(np.eye(width) + change, np.float32)


def _mean_reciprocal_rank(
    rankings: Sequence[Sequence[str]], gold: Sequence[frozenset[str]]
) -> float:
    """Return the MRR: mean of 1 / rank of the first chunk that answers."""
    total = 0.0
    for ranking, gold_ids in zip(rankings, gold, strict=True):
        first_rank = next((rank for rank, chunk in enumerate(ranking, 1) if chunk in gold_ids), 0)
        total += 1 / first_rank if first_rank else 0.0
    return total / len(gold)
