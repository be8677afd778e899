"""Rows and vectors of the benchmarks of large indexes, made block by block.

Rows are made, written and dropped block by block, so that peak memory is that of the store, not of
the benchmark. Vectors are drawn around a thousand centres.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from ragwright.core import Chunk, Document, Span
from ragwright.index import IndexedDocument

Matrix = NDArray[np.float32]
DIMENSIONS = 384
BLOCK = 2_000
CENTRES = 1_000


def vectors(count: int, seed: int) -> Matrix:
    """Normalised vectors around centres that are the same for every seed."""
    rng = np.random.default_rng(seed)
    centres = np.random.default_rng(7).standard_normal((CENTRES, DIMENSIONS), np.float32)
    matrix = centres[rng.integers(0, CENTRES, count)]
    matrix = matrix + rng.standard_normal((count, DIMENSIONS), np.float32)
    return np.asarray(matrix / np.linalg.norm(matrix, axis=1, keepdims=True), np.float32)


def blocks(rows: int) -> Iterator[list[IndexedDocument]]:
    """Documents of one chunk and about 20 words each."""
    words = np.array([f"w{n:05d}"[::-1] for n in range(60_000)])
    share = 1.0 / np.arange(1, len(words) + 1)
    share /= share.sum()
    for start in range(0, rows, BLOCK):
        size = min(BLOCK, rows - start)
        rng = np.random.default_rng(start + 1)
        picked = words[rng.choice(len(words), (size, 20), p=share)]
        block = []
        for at, (row, vector) in enumerate(zip(picked, vectors(size, start + 1), strict=True)):
            name = f"d{start + at:07d}"
            text = f"{' '.join(row)} {name}"
            chunk = Chunk(name, name, 0, Span(0, len(text)), text)
            block.append(IndexedDocument(Document(name, name, text), (chunk,), vector[None, :]))
        yield block
