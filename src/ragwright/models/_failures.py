"""Maps a server's HTTP status and body to the error tree."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Collection, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, TypeAlias

from ..core import (
    MissingKeyError,
    ModelError,
    ModelRefusedError,
    ModelTimeoutError,
    ModelUnavailableError,
    PromptTooLongError,
    RateLimitedError,
    retry_after,
)
from ._names import ModelTarget, TimeLimits
from ._replies import mask_key, read_json

_LONGEST = 400
_DEEPEST = 6
_FIELDS = (
    ("message", "msg", "detail", "error", ""),
    ("code", "error_code", "type"),
    ("param", "loc"),
)
"""Names of message, code and parameter in the error bodies of OpenAI, FastAPI, Google, Cohere."""

_UNSUPPORTED = re.compile(
    r"unsupported|not supported|isn't supported|does not support|doesn't support|unrecogni[sz]ed"
    r"|unknown|unexpected|extra inputs|extra_forbidden|not permitted|not allowed|not a valid"
    r"|must be one of|not recogni[sz]ed|not implemented"
    r"|cannot find field|unavailable|deprecated|no such (?:field|parameter)|additional propert",
    re.IGNORECASE,
)

_TOO_LONG = re.compile(r"context[_ ](?:length|window)|too (?:large|long)", re.IGNORECASE)

_NO_SYSTEM = re.compile(
    r"(?:system|developer)\W{0,3} ?(?:role|message|prompt|turn|instruction)s?\W.{0,40}"
    r"(?:not|n't|un)|(?:not|n't|un)\w* (?:support|allow|accept|enabl|permit)\w*.{0,20}\bsystem\b"
    r"|only user (?:and|or) assistant roles|roles must alternate",
    re.IGNORECASE,
)

_BATCH = re.compile(
    r"batch|too many|array too long|(?:inputs?|texts?|documents?|items?)\b.{0,40}"
    r"(?:at most|maximum|limit|exceed|more than)"
    r"|(?:at most|maximum|limit|exceed|more than)\b.{0,40}(?:inputs?|texts?|documents?|items?)\b",
    re.IGNORECASE,
)
_OF_ONE_TEXT = re.compile(r"token|context|physical|characters|too large to process", re.IGNORECASE)

_PLAIN_WORDS = {"echo", "metadata", "n", "stop", "store", "suffix", "tools", "user"}
"""Parameters that are also words of English: a message means them only if it quotes them."""

_BROKE = {"insufficient_quota", "insufficient_balance", "billing_hard_limit_reached", "billing"}


@dataclass(frozen=True, slots=True)
class Complaint:
    """A server's error body, whatever its shape: message, code, parameter, type."""

    message: str
    code: str = ""
    param: str = ""

    @classmethod
    def read(cls, raw: bytes) -> Complaint:
        """Read an error body: JSON of any shape, or plain text."""
        try:
            data = read_json(raw)
        except ValueError:
            text = raw.decode("utf-8", "replace").strip()
            return cls("" if text.lower().startswith(("<html", "<!doc")) else text[:_LONGEST])
        return cls.of(data)

    @classmethod
    def of(cls, data: Any) -> Complaint:
        """Read an error body that is parsed already: its outermost values under the usual names."""
        fields: dict[str, str] = {}
        level = [("", data)]
        for _ in range(_DEEPEST):
            inner: list[tuple[str, Any]] = []
            for name, value in level:
                if isinstance(value, dict):
                    inner += value.items()
                elif isinstance(value, list):
                    inner += [(name, item) for item in value]
                elif value not in (None, "", "body"):
                    fields.setdefault(name, str(value)[:_LONGEST])
            level = inner
        message, code, param = (
            next((fields[name] for name in names if name in fields), "") for names in _FIELDS
        )
        return cls(f"{message} ({param})" if param not in message else message, code, param)

    def rejects_system(self) -> bool:
        """True if the model takes no system turn."""
        text = f"{self.param} {self.message}"
        return bool(_NO_SYSTEM.search(text)) and not _TOO_LONG.search(text)

    def rejects(self, parameters: Collection[str]) -> str | None:
        """The parameter that the server does not know; None for another fault."""
        text = f"{self.code} {self.message}"
        if not _UNSUPPORTED.search(text) or _TOO_LONG.search(text):
            return None
        parameter = re.split(r"[.\[]", self.param.removeprefix("body."))[0] if self.param else ""
        mentions = sorted(
            (match.start(), name)
            for name in parameters
            if (match := _parameter_mention(name, self.message))
        )
        of_format = re.search(r"json[_ ]schema|structured", self.message)
        names = (parameter, *(name for _, name in mentions), "response_format" * bool(of_format))
        return next((name for name in names if name in parameters), None)


def _parameter_mention(name: str, message: str) -> re.Match[str] | None:
    if name in _PLAIN_WORDS:
        pattern = (
            rf"['\"`]{name}['\"`]|(?:supplied: |parameter |argument |field |property ){name}\b"
        )
    else:
        pattern = rf"(?<!\w){re.escape(name)}(?!\w)"
    return re.search(pattern, message)


def failure(
    status: int, complaint: Complaint, headers: Mapping[str, str], target: ModelTarget
) -> ModelError:
    """The typed error for an HTTP status from 400 up, the key masked.

    401 and 403 mean the key; 429 (and 503 with a time to retry) the rate, unless the account is out
    of money; 408 a timeout; 5xx and 409 the server's state; everything else is a rejected request.
    """
    model, where = target.text, target.base
    message = mask_key(complaint.message, target.key())
    detail = f": {message}" if message else ""
    if status in {401, 403}:
        return MissingKeyError(
            f"{model} rejects the key ({status}){detail}",
            where=where,
            hint="check "
            + (target.key_env or "the key's variable")
            + " in the environment, and what "
            "the account may use",
        )
    code, text = complaint.code.lower(), f"{complaint.code} {complaint.message}".lower()
    milliseconds = retry_after(headers.get("retry-after-ms"))
    wait = retry_after(headers.get("retry-after")) if milliseconds is None else milliseconds / 1000
    no_money = code in _BROKE or status == 402 or (status == 429 and "insufficient" in code)
    is_long = "context" in text and ("length" in text or "window" in text or "exceed" in text)
    cases: tuple[tuple[object, type[ModelError], str | None], ...] = (
        (
            no_money,
            ModelRefusedError,
            "the account has no money or quota left; waiting will not help",
        ),
        (
            status == 429 or (status == 503 and wait is not None),
            RateLimitedError,
            "lower concurrency under models:",
        ),
        (status == 408, ModelTimeoutError, None),
        (
            is_long or (status in {413, 500} and _TOO_LONG.search(text)),
            PromptTooLongError,
            "lower answer.max_tokens, or set context_window under models:"
            if re.search(r"max_(?:completion_)?tokens", text)
            else "set context_window under models: (then texts are fitted to it), or shorten the "
            "prompt: fewer or smaller chunks (top_k, chunk size)",
        ),
        (
            status >= 500 or status in {409, 425},
            ModelUnavailableError,
            "the server failed; try again later",
        ),
        (True, ModelRefusedError, _refusal_hint(status, text)),
    )
    kind, hint = next((kind, hint) for fits, kind, hint in cases if fits)
    error = kind(f"{model} answered {status}{detail}", where=where, hint=hint)
    if isinstance(error, RateLimitedError):
        error.retry_after = wait
    return error


def batch_limit(message: str, sent: int) -> int:
    """The number of texts that a server takes in a call, by its refusal of ``sent`` ones.

    The number that it names, else half of them; 0 if the number of texts is not what it refuses.
    """
    if sent < 2 or not _BATCH.search(message) or _OF_ONE_TEXT.search(message):
        return 0
    named = [int(number) for number in re.findall(r"\d{1,5}", message) if 0 < int(number) < sent]
    return max(named, default=sent // 2)


def _refusal_hint(status: int, text: str) -> str:
    if status == 404 or ("model" in text and "exist" in text):
        return "check the model's name and the base address"
    if re.search(r"input_type|task_type|asymmetric", text):
        return (
            "say what is a query and what a passage: query_params and passage_params under "
            "models:, such as {input_type: query} and {input_type: passage}"
        )
    return "the server rejects this request; see its message"


Heard: TypeAlias = Callable[[], None]
"""Called for every piece that a server sends."""


class Queue:
    """Calls of one model that wait for their first piece, in the order in which they were sent.

    A server that works on one reply at a time lets the others wait. While it sends replies to calls
    that may be ahead of one that waits, it is not silent for that one: its limit begins anew. Calls
    that are sent together arrive in any order, so as many later ones may be ahead as ever waited at
    once. Replies to those after them change nothing: a call that the server has lost is given up.
    """

    def __init__(self) -> None:
        self.waiting: dict[int, asyncio.Timeout] = {}
        self._most = 0
        self._sent = 0

    def enter(self, limit: asyncio.Timeout) -> int:
        """Register a call that is being sent, by its limit; returns its number."""
        self._sent += 1
        self.waiting[self._sent] = limit
        self._most = max(self._most, len(self.waiting))
        return self._sent

    def heard(self, number: int, due: float) -> None:
        """Record that a piece came for this call: those it kept waiting are due later."""
        self.waiting.pop(number, None)
        for waiting, limit in self.waiting.items():
            if waiting + self._most > number and not limit.expired():
                limit.reschedule(due)


@asynccontextmanager
async def watch_silence(
    model: str,
    where: str,
    limits: TimeLimits,
    total: float | None = None,
    queue: Queue | None = None,
) -> AsyncIterator[Heard]:
    """Cancel the block once the server has been silent for too long.

    Yields a function to call for each piece that arrives. ``total`` is in seconds, for the block
    as a whole; ``queue`` holds the other calls that wait for the same server.

    Raises:
        ModelTimeoutError: Names the setting of the limit that was exceeded.
    """
    queue = queue or Queue()
    pieces = 0
    whole, limit = asyncio.timeout(total), asyncio.timeout(limits.first_piece)
    number = queue.enter(limit)

    def heard() -> None:
        nonlocal pieces
        pieces += 1
        now = asyncio.get_running_loop().time()
        queue.heard(number, now + limits.first_piece)
        limit.reschedule(now + limits.silence)

    try:
        async with whole, limit:
            yield heard
    except TimeoutError:
        if not whole.expired() and not limit.expired():
            raise
        late = total if whole.expired() else None
        raise _limit_error(model, where, limits, pieces, late) from None
    finally:
        queue.waiting.pop(number, None)


def _limit_error(
    model: str, where: str, limits: TimeLimits, pieces: int, total: float | None
) -> ModelTimeoutError:
    cases = (
        (total is not None, f"did not reply within {total or 0:g} s", "timeout"),
        (
            pieces,
            f"broke off: silent for {limits.silence:g} s after {pieces} pieces",
            "silence_timeout",
        ),
        (True, f"sent nothing for {limits.first_piece:g} s", "first_piece_timeout"),
    )
    _, problem, key = next(case for case in cases if case[0])
    return ModelTimeoutError(
        f"{model} {problem} ({key})",
        where=where or None,
        hint=f"raise {key} under budget:, or lower concurrency",
    )
