"""Embedders without a model, whose vectors follow from the text."""

from __future__ import annotations

import zlib
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ragwright.models import Embedder


class Straight(Embedder):
    """Texts "n17" and "q17", a passage and the question about it, have the same vector."""

    identity = "straight"
    dimensions = 24
    sign = 1

    def embed_batch(self, texts: Sequence[str]) -> NDArray[np.float32]:
        vectors = []
        for text in texts:
            word = text.split()[-1]
            vector = np.random.default_rng(int(word[1:])).normal(size=24).astype(np.float32)
            if word[0] == "q":
                vector[12:] *= self.sign
            vectors.append(vector / np.linalg.norm(vector))
        return np.array(vectors, np.float32)


class Mirrored(Straight):
    """Half of the dimensions of a question's vector are mirrored, so that it finds other texts."""

    identity = "mirrored"
    sign = -1


class Words(Embedder):
    """Directions of the words of a text, each drawn by a hash of the word, added up."""

    identity = "words"
    dimensions = 64

    def embed_batch(self, texts: Sequence[str]) -> NDArray[np.float32]:
        vectors = np.zeros((len(texts), 64), np.float32)
        for vector, text in zip(vectors, texts, strict=True):
            for word in text.lower().replace(":", " ").split():
                vector += np.random.default_rng(zlib.crc32(word.encode())).normal(size=64)
        norms = np.linalg.norm(vectors, axis=1, keepdims=True)
        return np.asarray(vectors / np.maximum(norms, 1e-9), np.float32)
