"""The forms in which token vectors travel and are stored: exact with places, or as 8-bit numbers.

Of every form the first four bytes are the length of a vector (uint32, little endian). Then follow

- for a query: the vectors as float32;
- for a passage in the index: a scale per vector as float32, then the vectors as int8. A vector is
  ``scale * int8``; its largest number is 127;
- with places: start and end of each token in the text as int32, then the vectors as float32.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core import ModelReplyError
from ._seams import Matrix

_HEAD = 4

PLACED = "late words"
"""Channel of requests whose encodings are vectors with places; nothing is stored under it."""


@dataclass(frozen=True, slots=True, eq=False)
class TokenVectors:
    """The vectors of a text's tokens: float32, shape (tokens, dimensions).

    Attributes:
        spans: Start and end of each token in the text, shape (tokens, 2); both 0 for a token that
            is not part of it (special tokens, query expansion).
    """

    vectors: Matrix
    spans: NDArray[np.int32]


def query_form(tokens: TokenVectors) -> bytes:
    """The vectors of a query: float32."""
    vectors = np.ascontiguousarray(tokens.vectors, np.float32).tobytes()
    return b"".join((_head(tokens), vectors))


def read_query(form: bytes) -> Matrix:
    """The vectors of a query, shape (tokens, dimensions).

    Raises:
        ModelReplyError: The bytes are not of this form.
    """
    width, rest = _opened(form, 4)
    return np.frombuffer(rest, np.float32).reshape(-1, width)


def passage_form(tokens: TokenVectors) -> bytes:
    """The vectors of a passage as 8-bit numbers, each vector with its own scale."""
    vectors = np.ascontiguousarray(tokens.vectors, np.float32)
    scales = np.abs(vectors).max(axis=1, initial=0.0) / 127
    rounded = np.rint(vectors / np.where(scales > 0, scales, 1)[:, None]).astype(np.int8)
    return b"".join((_head(tokens), scales.astype(np.float32).tobytes(), rounded.tobytes()))


def read_passage(form: bytes) -> tuple[NDArray[np.float32], NDArray[np.int8]]:
    """Scales, shape (tokens,), and vectors, int8 of shape (tokens, dimensions).

    Raises:
        ModelReplyError: The bytes are not of this form.
    """
    width, rest = _opened(form, 1, 4)
    count = len(rest) // (width + 4)
    scales = np.frombuffer(rest, np.float32, count)
    return scales, np.frombuffer(rest, np.int8, offset=4 * count).reshape(-1, width)


def placed_form(tokens: TokenVectors) -> bytes:
    """The vectors as float32 with the places of their tokens."""
    vectors = np.ascontiguousarray(tokens.vectors, np.float32).tobytes()
    return b"".join(
        (_head(tokens), np.ascontiguousarray(tokens.spans, np.int32).tobytes(), vectors)
    )


def read_placed(form: bytes) -> TokenVectors:
    """Vectors with places.

    Raises:
        ModelReplyError: The bytes are not of this form.
    """
    width, rest = _opened(form, 4, 8)
    count = len(rest) // (4 * width + 8)
    spans = np.frombuffer(rest, np.int32, 2 * count).reshape(-1, 2)
    return TokenVectors(np.frombuffer(rest, np.float32, offset=8 * count).reshape(-1, width), spans)


def _head(tokens: TokenVectors) -> bytes:
    return int(tokens.vectors.shape[1]).to_bytes(_HEAD, "little")


def _opened(form: bytes, size: int, beside: int = 0) -> tuple[int, Any]:
    """Length of a vector, and the bytes behind it.

    Args:
        form: The bytes.
        size: Bytes of a number.
        beside: Bytes that each vector has beside its numbers.
    """
    width = int.from_bytes(form[:_HEAD], "little")
    rest = memoryview(form)[_HEAD:]
    if not width or len(rest) % (size * width + beside):
        raise ModelReplyError(f"{len(form)} bytes are not the vectors of tokens")
    return width, rest
