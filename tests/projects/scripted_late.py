"""A late-interaction model without weights: a word's vector comes from its first four letters."""

from __future__ import annotations

import re
import zlib
from typing import Literal

import numpy as np

from ragwright.models import LateEncoder, TokenVectors

WIDTH = 32


class Stems(LateEncoder):
    """One vector per word; words that begin alike are equal."""

    identity = "stems"

    def embed_tokens(self, text: str, role: Literal["query", "passage"]) -> TokenVectors:
        """One vector per word of the text."""
        words = list(re.finditer(r"\w+", text))
        rows = [_vector(match.group()[:4].lower()) for match in words]
        spans = [match.span() for match in words]
        return TokenVectors(
            np.array(rows, np.float32).reshape(-1, WIDTH), np.array(spans, np.int32).reshape(-1, 2)
        )


def _vector(word: str) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
    row = np.random.default_rng(zlib.crc32(word.encode())).standard_normal(WIDTH)
    return np.asarray(row / np.linalg.norm(row), np.float32)
