"""Answers on their way to a client: turns, limits, what is stored and charged."""

from __future__ import annotations

import asyncio
import json
import logging
import secrets
from collections.abc import Awaitable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

from ..core import Answer, RagwrightError, Usage
from ..drafting import NewBatch, NewOutput
from ..flow import Message
from ..retrieve import parse_filter, parse_soft_filter
from ._errors import ApiError
from ._links import Marks, citation_json

if TYPE_CHECKING:
    from fastapi import Request

    from ..workbench import Asking, Workbench
    from ._keys import ServeKey
    from ._service import Opened, Service
    from ._wire import ChatMessage, Extras

log = logging.getLogger("ragwright.serve")

T = TypeVar("T")

_NOBODY = ""
"""Name in the ledger of requests without a key."""


class ClientGoneError(Exception):
    """The client closed the connection; nobody reads a reply."""


@dataclass(frozen=True, slots=True)
class Caller:
    """Who sends a request.

    Attributes:
        key: The key it came with; None where none is needed.
        base: Address that links begin with.
    """

    key: ServeKey | None
    base: str

    @property
    def name(self) -> str:
        """Name of the key, empty without one."""
        return _NOBODY if self.key is None else self.key.name

    @property
    def owner(self) -> bool:
        """True where it may see everything of the project."""
        return self.key is None or self.key.role == "owner"

    @property
    def narrowed(self) -> bool:
        """True where filters of its key narrow what it may see."""
        return self.key is not None and bool(self.key.filters)

    def require_owner(self) -> None:
        """Refuse a reader's key.

        Raises:
            ApiError: 403.
        """
        if not self.owner:
            raise ApiError(403, "this needs a key with the role `owner`", "owner_only")


def turns_of(messages: Sequence[ChatMessage]) -> tuple[str, tuple[Message, ...]]:
    """The question and the turns before it. System messages are left out: the persona is ours.

    Raises:
        ApiError: There is no question, or a message holds something else than text.
    """
    said: list[Message] = []
    for number, message in enumerate(messages):
        try:
            text = message.said()
        except ValueError as error:
            raise ApiError(
                400, str(error), "unsupported_content", param=f"messages.{number}.content"
            ) from None
        if message.role in ("user", "assistant") and text.strip():
            said.append(Message(message.role, text))
    if not said or said[-1].role != "user":
        raise ApiError(
            400,
            "the last message must be a question with the role `user`",
            "invalid_value",
            param="messages",
        )
    return said[-1].content, tuple(said[:-1])


def narrowed(asking: Asking, extras: Extras) -> Asking:
    """An asking with the filters of a request beside the key's.

    Raises:
        FilterError: One cannot be read.
    """
    filters = asking.filters + tuple(map(parse_filter, extras.filters))
    soft = asking.soft + tuple(map(parse_soft_filter, extras.soft))
    return replace(asking, filters=filters, soft=soft)


async def while_connected(request: Request, work: Awaitable[T]) -> T:
    """The result of work that is cancelled when the client goes away.

    Raises:
        ClientGoneError: It went away.
    """
    task = asyncio.ensure_future(work)
    gone = asyncio.ensure_future(_gone(request))
    try:
        await asyncio.wait({task, gone}, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            return task.result()
        raise ClientGoneError
    finally:
        for one in (task, gone):
            if not one.done():
                one.cancel()
        await asyncio.wait({task, gone})


async def _gone(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


def admit(service: Service, caller: Caller) -> None:
    """Let a request through, or refuse it by the limits of its key and of the day.

    Raises:
        ApiError: 429, with the seconds to wait where that helps.
    """
    key, ledger = caller.key, service.ledger
    if key is not None and key.per_minute is not None:
        wait = ledger.admit(key.name, key.per_minute)
        if wait:
            raise ApiError(
                429,
                f"the key {key.name!r} allows {key.per_minute} requests a minute",
                "rate_limit_exceeded",
                retry_after=wait,
            )
    limits: list[tuple[str | None, float | None, str]] = [
        (None, service.options.daily_budget, "the server's")
    ]
    if key is not None:
        limits.append((key.name, key.daily_budget, f"the key {key.name!r}'s"))
    for name, most, whose in limits:
        if most is not None and ledger.spent(name) >= most:
            raise ApiError(429, f"{whose} budget of today is spent", "insufficient_quota")


def require_prices(service: Service, caller: Caller, opened: Opened, model: str) -> None:
    """Refuse an answer whose cost nobody would know where a budget has to be kept.

    Raises:
        ApiError: 400; it names the model.
    """
    bounded = service.options.daily_budget is not None or (
        caller.key is not None and caller.key.daily_budget is not None
    )
    models = opened.bench.project.models
    if not bounded or models.free(model):
        return
    known = models.settings_of(model)
    if known.price_in is None or known.price_out is None:
        raise ApiError(
            400,
            f"there is a daily budget, and the model {model} has no price: set price_in and "
            "price_out below `models` in ragwright.yaml",
            "model_without_price",
        )


@dataclass(frozen=True, slots=True)
class Delivered:
    """An answer and what it was made for."""

    id: str
    answer: Answer
    asking: Asking
    marks: Marks


def new_id() -> str:
    """A new id of an answer, which cannot be guessed."""
    return f"chatcmpl-{secrets.token_urlsafe(18)}"


async def keep(service: Service, caller: Caller, opened: Opened, done: Delivered) -> None:
    """Charge an answer to its key, and store it among the outputs; a fault is logged.

    The client has been answered by then: what cannot be stored must not fail its request.
    """
    if service.metrics is not None:
        paid = Usage() if done.answer.cached else done.answer.usage
        service.metrics.answered(paid, done.answer.abstained)
    try:
        await asyncio.to_thread(_keep, service, caller, opened, done)
    except RagwrightError as error:
        log.error("an answer could not be stored: %s", error)


def _keep(service: Service, caller: Caller, opened: Opened, done: Delivered) -> None:
    answer, scope = done.answer, done.asking.scope
    if answer.usage.calls and not answer.cached:
        service.ledger.charge(caller.name, answer.usage)
    if not service.options.keep_answers:
        return
    target = done.asking.target
    snapshot = "" if target is None else target.snapshot
    with opened.bench.project.work.working("serve"):
        number = opened.bench.outputs.add(
            _batch(done, caller), replace(opened.origin, snapshot=snapshot, scope=scope)
        )
    service.ledger.remember(done.id, f"{number}.1", caller.name, scope)


def _batch(done: Delivered, caller: Caller) -> NewBatch:
    answer = done.answer
    uses = tuple(hit.chunk_id for hit in answer.hits)
    turns = [{"role": role, "content": content} for role, content in answer.prompt]
    paid = Usage() if answer.cached else answer.usage
    outputs = (
        NewOutput(
            "prompt",
            json.dumps(turns, ensure_ascii=False),
            answer.model,
            uses=uses,
            usage=paid,
            details={"format": "chat", "cached": answer.cached},
        ),
        NewOutput("text", done.marks.text, answer.model, prompt=0, uses=uses, share=paid),
    )
    request: dict[str, Any] = {"question": answer.question, "persona": answer.persona}
    if done.asking.history:
        request["history"] = [asdict(turn) for turn in done.asking.history]
    details = {
        "id": done.id,
        "route": answer.route,
        "abstained": answer.abstained,
        "citations": [citation_json(span) for span in done.marks.spans],
        "notes": list(answer.notes),
        "cached": answer.cached,
    }
    return NewBatch("answer", request, outputs, answer.hits, caller.name, paid, details)


def charge(service: Service, caller: Caller, usage: Usage) -> None:
    """Charge what another kind of request cost."""
    if usage.calls:
        service.ledger.charge(caller.name, usage)


def answering(bench: Workbench, persona: str) -> str:
    """The chat model that answers for a persona."""
    chosen = bench.project.persona(persona)
    return chosen.model or bench.project.settings.answer.model
