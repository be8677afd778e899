"""Content hashes: one algorithm and one spelling for the whole program."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from typing import Any


def text_hash(text: str) -> str:
    """Hash of a text: 32 hexadecimal digits of BLAKE2b over its UTF-8 bytes.

    Lone surrogates are hashed as distinct bytes rather than refused, so any ``str`` has a hash.
    """
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def value_hash(value: Any) -> str:
    """Hash of a JSON-able value, equal for equal values whatever the order of their keys.

    Raises:
        TypeError: The value holds something that JSON cannot represent.
    """
    return text_hash(canonical_json(value))


def values_hash(values: Iterable[Any]) -> str:
    """:func:`value_hash` of the list of these values, read one at a time."""
    digest = hashlib.blake2b(b"[", digest_size=16)
    for at, value in enumerate(values):
        text = f"{',' if at else ''}{canonical_json(value)}"
        digest.update(text.encode("utf-8", "surrogatepass"))
    digest.update(b"]")
    return digest.hexdigest()


def canonical_json(value: Any) -> str:
    """JSON with sorted keys and no spaces: the form that hashes and logs compare."""
    return _ENCODER.encode(value)


_ENCODER = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False)
