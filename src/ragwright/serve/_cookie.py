"""The signed cookie of a reader who entered a key on the pages.

It names the key and the time until which it holds, signed by what is stored of the key: so it ends
with the key, holds in every worker and on every machine, and cannot be used as a key.
"""

from __future__ import annotations

import hmac
import re
import time

from ._keys import ServeKey, ServeKeys

COOKIE = "ragwright_reader"

LIFE = 24 * 3600
"""Seconds after which the key has to be entered again."""

_SHAPE = re.compile(r"(?P<key>[0-9a-f]{16})\.(?P<ends>[0-9]{1,12})\.(?P<signature>[0-9a-f]{64})")


def cookie_of_key(key: ServeKey) -> str:
    """The value of a cookie that holds from now on."""
    ends = str(int(time.time()) + LIFE)
    return f"{key.hash[:16]}.{ends}.{_signature(key, ends)}"


def key_of_cookie(keys: ServeKeys, value: str) -> ServeKey | None:
    """The key of a cookie, None where the cookie or the key has ended, or nobody signed it."""
    parts = _SHAPE.fullmatch(value)
    if parts is None or int(parts["ends"]) <= time.time():
        return None
    key = keys.named_by(parts["key"])
    if key is None or not hmac.compare_digest(_signature(key, parts["ends"]), parts["signature"]):
        return None
    return key


def _signature(key: ServeKey, ends: str) -> str:
    return hmac.new(key.hash.encode(), f"{COOKIE} {ends}".encode(), "sha256").hexdigest()
