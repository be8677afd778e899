"""The head of a chunk: how it is searched with the chunk, and how it is stored."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, TypeAlias

from ..core import Chunk, Head, text_hash

if TYPE_CHECKING:
    pass

Standing: TypeAlias = tuple[tuple[str, ...], Head | None]
"""Headings above a chunk, and its head."""


def chunk_key(chunk: Chunk, title: str = "") -> str:
    """Hash of the text that is embedded for a chunk; the key of its vector."""
    return text_hash(embedded_text(chunk, title))


def embedded_text(chunk: Chunk, title: str = "") -> str:
    """The text of a chunk that is embedded: its head, then its text.

    A title or heading with which the text begins anyway is left out. Without a head of its own, a
    chunk stands under its document's title.
    """
    return headed_text(chunk.text, title, chunk.head)


def headed_text(text: str, title: str = "", head: Head | None = None) -> str:
    """As :func:`embedded_text`, of a chunk's text and head."""
    above = (Head(title.strip()) if head is None else head).above(text)
    return f"{above}\n{text}" if above else text


def pack_standing(chunk: Chunk) -> str:
    """Headings and head of a chunk as JSON, as the column ``headings`` keeps them."""
    if chunk.head is None:
        return json.dumps(chunk.headings) if chunk.headings else "[]"
    return json.dumps([chunk.headings, chunk.head.packed()])


def unpack_standing(stored: str) -> Standing:
    """Headings and head that :func:`pack_standing` wrote."""
    if stored == "[]":
        return (), None
    values = json.loads(stored)
    if values and isinstance(values[0], list):
        headings, head = values
        return tuple(headings), Head.unpacked(head)
    return tuple(values), None
