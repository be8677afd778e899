"""Baseline: hybrid search without any framework.

numpy, bm25s (Lucene's BM25, k1 1.2, b 0.75, English stemmer and stop words) and eight lines of
reciprocal rank fusion, lists 100 deep. Runs in our environment and in that of the peers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

DEPTH = 100

Find = Callable[[str, int], list[str]]
"""(query, k) -> document ids, best first."""


def bare_loop(
    ids: Sequence[str],
    texts: Sequence[str],
    matrix: NDArray[np.float32] | None,
    encode: Callable[[str], NDArray[np.float32]],
) -> dict[str, Find]:
    """Searches by channel: keyword, and where there are vectors dense and hybrid.

    Args:
        ids: Document ids.
        texts: Their texts, in the same order.
        matrix: Their vectors of length 1, shape (documents, dimensions); None for none.
        encode: Vector of a query, shape (dimensions,).
    """
    import bm25s
    import Stemmer

    stemmer = Stemmer.Stemmer("english")
    size = len(ids)

    def tokens(texts: Sequence[str]) -> Any:
        return bm25s.tokenize(list(texts), stopwords="en", stemmer=stemmer, show_progress=False)

    index = bm25s.BM25(method="lucene", k1=1.2, b=0.75)
    index.index(tokens(texts), show_progress=False)

    def keyword(query: str, k: int) -> list[str]:
        rows, scores = index.retrieve(tokens([query]), k=min(k, size), show_progress=False)
        return [ids[i] for i, score in zip(rows[0], scores[0], strict=True) if score > 0]

    if matrix is None:
        return {"keyword": keyword}
    vectors = matrix

    def dense(query: str, k: int) -> list[str]:
        scores = vectors @ encode(query)
        top = np.argpartition(-scores, k)[:k] if k < size else np.arange(size)
        return [ids[i] for i in top[np.argsort(-scores[top], kind="stable")]]

    def hybrid(query: str, k: int) -> list[str]:
        fused: dict[str, float] = {}
        for ranking in (keyword(query, DEPTH), dense(query, DEPTH)):
            for rank, key in enumerate(ranking, 1):
                fused[key] = fused.get(key, 0.0) + 1 / (60 + rank)
        return sorted(fused, key=lambda key: -fused[key])[:k]

    return {"keyword": keyword, "dense": dense, "hybrid": hybrid}
