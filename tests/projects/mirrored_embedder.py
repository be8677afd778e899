"""Embedders without a model: a question's vector is that of its passage, mirrored in part.

Texts are "n17" or "q17", a passage and the question about it. Half of the dimensions of a
question's vector are mirrored, so that a linear map undoes it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ragwright.models import Embedder


class Mirrored(Embedder):
    """Questions and passages of 24 dimensions, half of them mirrored in questions."""

    identity = "mirrored"
    dimensions = 24

    def embed_batch(self, texts: Sequence[str]) -> NDArray[np.float32]:
        made = []
        for text in texts:
            word = text.split()[-1]
            vector = np.random.default_rng(int(word[1:])).normal(size=24).astype(np.float32)
            if word[0] == "q":
                vector[12:] *= -1
            made.append(vector / np.linalg.norm(vector))
        return np.array(made, np.float32)


class Other(Mirrored):
    """The same vectors under another name."""

    identity = "other"
