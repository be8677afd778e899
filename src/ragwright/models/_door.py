"""Limit and clean what a model server sends.

Servers are not trusted. What they send is counted while it is read, parsed without deep recursion,
converted to text that UTF-8 can encode, and the key is masked in it, before the rest of ragwright
sees it.
"""

from __future__ import annotations

import base64
import codecs
import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

from ..core import Usage

if TYPE_CHECKING:
    import httpx2

LARGEST_REPLY = 64 * 2**20
"""Bytes of one reply, decompressed, if ``max_reply_bytes`` is not set."""

MOST_TOKENS = 10**8
"""Most tokens that one call can have used: ten times the longest known context window."""

_SHORTEST_KEY = 8
"""Characters of a key that is masked in replies: a shorter one may be a common word."""

_MASK = "***"
_SURROGATE = re.compile(r"[\ud800-\udfff]")


class TooLargeError(Exception):
    """A reply is larger than the limit; the rest of it was not read."""


def limit_response(limit: int) -> Callable[[httpx2.Response], Awaitable[None]]:
    """A hook of the HTTP client: reading a response raises :class:`TooLargeError` past the limit.

    The bytes are counted as they are decompressed, a piece at a time.
    """

    async def hook(response: httpx2.Response) -> None:
        response.aiter_bytes = partial(_limited_pieces, response.aiter_bytes, limit)  # type: ignore[method-assign, assignment]

    return hook


async def _limited_pieces(
    pieces: Callable[[int | None], AsyncIterator[bytes]], limit: int, chunk_size: int | None = None
) -> AsyncIterator[bytes]:
    size = 0
    async for piece in pieces(chunk_size):
        size += len(piece)
        if size > limit:
            raise TooLargeError(limit)
        yield piece


def read_json(raw: bytes | str, key: str = "") -> Any:
    """Parse JSON; its texts then hold no half of a surrogate pair, and not the key.

    Raises:
        ValueError: Not JSON, or nested too deep.
    """
    try:
        data = json.loads(raw)
        # Only these can introduce either; most replies have none and are not traversed.
        escaped = "\\u" if isinstance(raw, str) else b"\\u"
        secret = key if isinstance(raw, str) else key.encode()
        if escaped in raw or (key and secret in raw):  # type: ignore[operator]
            data = _clean_value(data, key)
    except RecursionError:
        raise ValueError("it is nested too deep") from None
    return data


def _clean_value(value: Any, key: str) -> Any:
    if isinstance(value, str):
        return clean_text(value, key)
    if isinstance(value, list):
        return [_clean_value(item, key) for item in value]
    if isinstance(value, dict):
        return {clean_text(name, key): _clean_value(item, key) for name, item in value.items()}
    return value


def clean_text(text: str, key: str = "") -> str:
    """A text of a reply: halves of surrogate pairs joined or replaced, the key masked."""
    if _SURROGATE.search(text):
        text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text.replace(key, _MASK) if len(key) >= _SHORTEST_KEY else text


class CleanStream:
    """Cleans a text that arrives in pieces; what may be half of a match waits for the next piece.

    Args:
        key: The key that was sent to the server, empty for none.
    """

    def __init__(self, key: str) -> None:
        self._key = key if len(key) >= _SHORTEST_KEY else ""
        self._decoder = codecs.getincrementaldecoder("utf-16-le")("replace")
        self._held = ""

    def feed(self, piece: str, *, last: bool = False) -> str:
        """The text that can be shown now; with ``last`` the whole rest."""
        raw = piece.encode("utf-16-le", "surrogatepass")
        text = self._held + self._decoder.decode(raw, last)
        if not self._key:
            return text
        text = text.replace(self._key, _MASK)
        starts = () if last else range(min(len(text), len(self._key) - 1), 0, -1)
        pending = next((n for n in starts if text.endswith(self._key[:n])), 0)
        self._held = text[len(text) - pending :]
        return text[: len(text) - pending]


def mask_key(message: str, key: str) -> str:
    """A message that may quote a server, with the key masked.

    A key of less than eight characters is masked as a whole; of a longer one also its first half
    with what follows, plain or in base 64.
    """
    message = clean_text(message)
    return _key_pattern(key).sub(_MASK, message) if key else message


@lru_cache(maxsize=64)
def _key_pattern(key: str) -> re.Pattern[str]:
    if len(key) < _SHORTEST_KEY:
        return re.compile(re.escape(key))
    starts = [key[: max(_SHORTEST_KEY, len(key) // 2)]]
    encoded = base64.b64encode(key.encode()).decode()
    starts.append(encoded[: max(_SHORTEST_KEY, len(encoded) // 2)])
    return re.compile(rf"(?:{'|'.join(map(re.escape, starts))})[\w+/=.~-]*")


def token_usage(reported: Any, prompt_characters: int, reply_characters: int) -> tuple[Usage, str]:
    """Token counts of a server, and a note if they are impossible.

    A count that is not a whole number from 0 to :data:`MOST_TOKENS` is replaced by an estimate,
    four characters a token; so is one that the server does not send, without a note.
    """
    usage = reported if isinstance(reported, dict) else {}
    estimates = ((prompt_characters + 3) // 4, (reply_characters + 3) // 4)
    counts: list[int] = []
    impossible = []
    for name, estimate in zip(("prompt_tokens", "completion_tokens"), estimates, strict=True):
        value = usage.get(name)
        if type(value) is int and 0 <= value <= MOST_TOKENS:
            counts.append(value)
            continue
        counts.append(estimate)
        if value is not None:
            impossible.append(name)
    note = (
        f"the server's {' and '.join(impossible)} cannot be right: estimated" if impossible else ""
    )
    return Usage(1, counts[0], counts[1]), note
