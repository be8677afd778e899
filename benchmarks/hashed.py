"""Random vectors seeded by the hash of each text, for benchmarks that do not measure embedding."""

from __future__ import annotations

import zlib
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

DIMENSIONS = 384


def hashed(texts: Sequence[str]) -> NDArray[np.float32]:
    """Random unit vectors, one row a text, the same for the same text."""
    seeds = [zlib.crc32(text.encode()) for text in texts]
    rows = [np.random.default_rng(s).standard_normal(DIMENSIONS, np.float32) for s in seeds]
    matrix = np.stack(rows)
    return np.asarray(matrix / np.linalg.norm(matrix, axis=1, keepdims=True), np.float32)
