"""A sparse encoder without weights: the dimensions of a text are the stems of its words."""

from __future__ import annotations

import re
import zlib
from collections.abc import Sequence
from typing import Literal

import numpy as np

from ragwright.models import Encoder


class Stems(Encoder):
    """Words by their first four letters, with their counts as weights."""

    identity = "stems/1"
    seen: list[tuple[str, ...]] = []

    def encode_batch(
        self, texts: Sequence[str], role: Literal["query", "passage"]
    ) -> Sequence[bytes]:
        if role == "passage":
            Stems.seen.append(tuple(texts))
        return [sparse_bytes(text) for text in texts]


class OtherStems(Stems):
    """Another model with the same vectors."""

    identity = "stems/2"


def sparse_bytes(text: str) -> bytes:
    """The encoding of a text."""
    counts: dict[int, int] = {}
    for word in re.findall(r"[a-z]+", text.lower()):
        number = zlib.crc32(word[:4].encode()) % 5000
        counts[number] = counts.get(number, 0) + 1
    terms = sorted(counts)
    weights = np.array([counts[term] for term in terms], np.float32)
    return np.array(terms, np.uint32).tobytes() + weights.tobytes()
