"""A linear adapter: query vectors are moved towards the passages that answer them."""

from __future__ import annotations

import io
import json
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core import ConfigError, replacing, text_hash

Vector = NDArray[np.float32]


@dataclass(frozen=True, slots=True, eq=False)
class Adapter:
    """A matrix that query vectors are multiplied with; passages stay as they are.

    Attributes:
        matrix: Shape (dimensions, dimensions); a query q becomes ``q @ matrix``.
        card: How it was made: embedding model, its identity, testset, settings, scores.
    """

    matrix: Vector
    card: dict[str, Any]

    @property
    def digest(self) -> str:
        """Hash of the matrix."""
        return text_hash(self.matrix.tobytes().hex())

    def applied(self, vectors: Vector) -> Vector:
        """Query vectors of shape (queries, dimensions), each at its former length."""
        moved = vectors @ self.matrix
        before = np.linalg.norm(vectors, axis=-1, keepdims=True)
        after = np.maximum(np.linalg.norm(moved, axis=-1, keepdims=True), 1e-12)
        return np.asarray(moved * (before / after), np.float32)

    def save(self, path: Path) -> None:
        """Write the adapter as one ``.npz`` file, atomically."""
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as file:
            np.savez_compressed(
                file, matrix=self.matrix, card=np.array(json.dumps(self.card, sort_keys=True))
            )

    @classmethod
    def load(cls, path: Path) -> Adapter:
        """Read an adapter.

        Raises:
            ConfigError: There is no such file, or it holds no adapter.
        """
        try:
            content = io.BytesIO(path.read_bytes())
            with np.load(content, allow_pickle=False) as stored:
                matrix, card = stored["matrix"], json.loads(str(stored["card"]))
        except FileNotFoundError as error:
            raise ConfigError(
                "no such adapter", where=str(path), hint="make one: ragwright tune adapter"
            ) from error
        except (OSError, ValueError, KeyError, zipfile.BadZipFile) as error:
            raise ConfigError(
                f"not an adapter: {error}", where=str(path), hint="make one: ragwright tune adapter"
            ) from error
        square = matrix.ndim == 2 and matrix.shape[0] == matrix.shape[1]
        if not square or not np.isfinite(matrix).all() or not isinstance(card, dict):
            raise ConfigError("not an adapter: its matrix is damaged", where=str(path))
        return cls(np.asarray(matrix, np.float32), card)

    def check(self, embedder: str, dimensions: int, where: str) -> None:
        """Refuse an adapter that was made for another embedding model.

        Raises:
            ConfigError: The model's identity or the length of its vectors differs.
        """
        identity = self.card.get("embedder")
        if identity != embedder or len(self.matrix) != dimensions:
            raise ConfigError(
                f"the adapter was made for {self.card.get('model', 'another model')}, or for other "
                "settings of embed",
                where=where,
                hint="make one for this model: ragwright tune adapter; or unset retrieve.adapter",
            )
