"""Ways to damage a JSON value or bytes, shared by the targets."""

from __future__ import annotations

import json
import random
from typing import Any

DEEP = "@deep@"
"""A text in whose place :func:`encoded` puts 50,000 nested lists."""

NASTY: tuple[Any, ...] = (
    *(None, True, -1, 0, 2**63, 10**400, 1e308, 5e-324, float("nan"), float("inf")),
    *("", "\ud800", "\udc00 \x00\x1b[31m\u202e", "1", "=cmd|' /C calc'!A1"),
    *([], [[]], {}, {"": None}, DEEP, "x" * 70_000),
)


def damaged_value(chance: random.Random, value: Any) -> Any:
    """A copy of a JSON value with one part replaced, removed, doubled or put in a list."""
    if isinstance(value, dict) and value and chance.random() < 0.85:
        name = chance.choice(sorted(value))
        if chance.random() < 0.1:
            return {key: item for key, item in value.items() if key != name}
        return {**value, name: damaged_value(chance, value[name])}
    if isinstance(value, list) and value and chance.random() < 0.75:
        place = chance.randrange(len(value))
        if chance.random() < 0.2:
            return value[:place] + value[place + 1 :]
        if chance.random() < 0.2:
            return [*value, value[place]]
        return [*value[:place], damaged_value(chance, value[place]), *value[place + 1 :]]
    return [value] if chance.random() < 0.1 else chance.choice(NASTY)


def damaged_bytes(chance: random.Random, data: bytes) -> bytes:
    """Bytes with some flipped, cut out, doubled, put in, or with the end cut off."""
    made = bytearray(data)
    for _ in range(chance.randint(1, 4)):
        place = chance.randrange(len(made) + 1)
        end = place + chance.randint(1, 20)
        kind = chance.randrange(5)
        if kind == 0 and place < len(made):
            made[place] ^= 1 << chance.randrange(8)
        elif kind == 1:
            del made[place:end]
        elif kind == 2:
            made[place:place] = made[place:end]
        elif kind == 3:
            made[place:place] = chance.choice([b"\xff\xfe", b"\\ud800", b"[" * 5000, b"9" * 5000])
        else:
            del made[place:]
    return bytes(made)


def encoded(value: Any) -> bytes:
    """A JSON value as bytes, halves of surrogate pairs and deep nests included."""
    deep = b"[" * 50_000 + b"]" * 50_000
    return json.dumps(value).encode().replace(json.dumps(DEEP).encode(), deep)
