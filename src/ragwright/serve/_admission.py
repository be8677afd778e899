"""An admitted request: caller, configuration, deadline, payer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Iterable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, TypeVar

from ..core import Hit, count_noun
from ..drafting import scope_name
from ..flow import Message, TraceEntry, meter_costs
from ..retrieve import Retrieved, parse_filter, parse_soft_filter
from ..workbench import AskOptions, Workbench
from ._errors import ApiError, ClientGoneError
from ._identity import Identity
from ._note import Note
from ._opened import OpenConfiguration
from ._service import Lane, Service
from ._wire import Extras

if TYPE_CHECKING:
    from fastapi import Request

T = TypeVar("T")

_GRACE = 60.0
"""Seconds after the time of a request in which it may still hold money."""

LOOK = 1.0
"""Most seconds until work under way learns that it must give way."""


@dataclass(frozen=True, slots=True)
class Caller:
    """The sender of a request.

    Attributes:
        identity: Who it is: a key or a person; None where nobody needs to say.
        unknown: True where nobody was asked: it may see nothing of the project.
        base: Address that links begin with.
        hindered: True for a reviewer who may not read every document of the index.
        note: What the audit log will say of the request.
    """

    identity: Identity | None
    base: str
    hindered: bool = False
    unknown: bool = False
    note: Note = field(default_factory=Note)

    @property
    def name(self) -> str:
        """Name of the identity, empty without one."""
        return "" if self.identity is None else self.identity.name

    @property
    def owner(self) -> bool:
        """True where it may see everything of the project."""
        if self.identity is None:
            return not self.unknown
        return self.identity.role == "owner"

    @property
    def reviewer(self) -> bool:
        """True where it may review testsets, which quote documents whatever its filters."""
        if self.identity is None or self.identity.role == "owner":
            return self.owner
        return self.identity.role == "reviewer" and not self.narrowed

    @property
    def narrowed(self) -> bool:
        """True where filters of its identity narrow what it may see."""
        return self.identity is not None and bool(self.identity.filters)

    def require_owner(self) -> None:
        """Refuse a reader's key.

        Raises:
            ApiError: 403.
        """
        if not self.owner:
            raise ApiError(403, "this needs a key with the role `owner`", "owner_only")

    def require_reviewer(self) -> None:
        """Refuse a reader, and a reviewer whose filters hide documents.

        Raises:
            ApiError: 403.
        """
        if not self.reviewer:
            raise ApiError(
                403,
                "this needs the role `reviewer`, without filters, or the role `owner`",
                "reviewer_only",
            )


@dataclass(frozen=True, slots=True)
class RequestNeeds:
    """The resources that a request asks for.

    Attributes:
        model: Id of a model; the first configuration that its key may use where empty.
        lane: Whose turns it takes.
        operation: Name of its span; without one there is none.
        request: The HTTP request: its work ends when its client goes away.
    """

    model: str = ""
    lane: Lane = "answers"
    operation: str = ""
    request: Request | None = None


@dataclass(frozen=True, slots=True)
class Admission:
    """A request that was let in.

    Attributes:
        service: What serves it.
        caller: Who sent it.
        wanted: What it asks for.
        opened: The configuration, and ``persona`` of its model's id.
        bench: The project under the configuration, kept open for it.
        deadline: When its time is up, by the clock of the event loop.
        trace: Takes an entry for each request of the runner, where traces are on.
        erased: The last erasure that what it searches knows of.
    """

    service: Service
    caller: Caller
    wanted: RequestNeeds
    opened: OpenConfiguration
    persona: str
    bench: Workbench
    deadline: float
    trace: list[TraceEntry] | None = None
    erased: int = 0

    def asking(self, extras: Extras | None = None, history: Sequence[Message] = ()) -> AskOptions:
        """Return how it asks: by the key's filters and scope, then its own filters.

        Raises:
            RagwrightError: Nothing is ingested, or a filter cannot be read.
        """
        asking = self.opened.asking(self.caller.identity)
        if extras is not None:
            filters = asking.filters + tuple(map(parse_filter, extras.filters))
            soft = asking.soft + tuple(map(parse_soft_filter, extras.soft))
            asking = replace(asking, filters=filters, soft=soft)
        return replace(asking, history=tuple(history), trace=self.trace)

    @property
    def scope(self) -> str:
        """The tenant that may see the replies of models that are made for it."""
        return "" if self.caller.identity is None else self.caller.identity.scope

    @property
    def left(self) -> float:
        """Seconds that it has left."""
        return max(0.0, self.deadline - asyncio.get_running_loop().time())

    def refuse_erased(self, asking: AskOptions, hits: Sequence[Hit]) -> None:
        """Refuse to show or store an answer if what it was made from was erased meanwhile.

        That is a passage's document, the person or their tenant; any erasure where it is not known
        what the answer was made from, or where earlier answers were part of it.

        Raises:
            ApiError: 503; asked again, it is answered from what is left.
        """
        erasures = self.bench.project.erasures
        if erasures.position == self.erased:
            return
        unknown = not hits or asking.quotes_answers
        names = [scope_name(asking.scope), *asking.sources, *(hit.document_id for hit in hits)]
        if unknown or erasures.touch(self.erased, names):
            raise ApiError(
                503,
                "a document that this answer was made from has been deleted meanwhile; ask again",
                "erased",
                retry_after=1.0,
            )

    def noted(self, question: str, hits: Iterable[Hit] = ()) -> None:
        """Note for the audit log what was asked, and the documents whose text was used."""
        self.caller.note.question = question
        self.caller.note.used(hit.document_id for hit in hits)

    async def retrieved(self, query: str, k: int | None, asking: AskOptions) -> Retrieved:
        """The passages for a query; raises as :meth:`result`."""
        self.noted(query)
        retrieval = await self.result(self.bench.aretrieve(query, k, asking))
        self.noted(query, retrieval.hits)
        return retrieval

    def give_way(self) -> None:
        """End where an erasure waits for it: it may still use text that is deleted.

        Raises:
            ApiError: 503; asked again, it is answered from what is left.
        """
        if self.service.gives_way:
            raise ApiError(503, "a document is being deleted; ask again", "erased", retry_after=1.0)

    async def result(self, work: Awaitable[T]) -> T:
        """The result of its work, which is cancelled when its client goes away.

        Raises:
            TimeoutError: Its time is up.
            ClientGoneError: Nobody waits for it any more.
            ApiError: As :meth:`give_way`.
        """
        async with asyncio.timeout_at(self.deadline):
            return await self.while_wanted(work)

    async def while_wanted(self, work: Awaitable[T]) -> T:
        """The result of work that ends when the client goes away or it must give way.

        Raises:
            ClientGoneError: It went away.
            ApiError: As :meth:`give_way`.
        """
        task = asyncio.ensure_future(work)
        gone = asyncio.ensure_future(_client_gone(self.wanted.request))
        try:
            while not task.done():
                await asyncio.wait({task, gone}, timeout=LOOK, return_when=asyncio.FIRST_COMPLETED)
                if gone.done() and not task.done():
                    raise ClientGoneError
                if not task.done():
                    self.give_way()
            return task.result()
        finally:
            for pending in (task, gone):
                if not pending.done():
                    pending.cancel()
            await asyncio.wait({task, gone})


@asynccontextmanager
async def admit(service: Service, caller: Caller, wanted: RequestNeeds) -> AsyncIterator[Admission]:
    """Let a request in: find its configuration, check its limits, wait for its turn.

    Its time runs from here. What its calls cost is charged to its key as each of them ends,
    whether the request ends well, fails, or is cut off by its client. Where a budget is kept, a
    call of a model without a price fails.

    Raises:
        ApiError: 404, no such model; 429, a limit of its key or of the day; 503, too many wait.
        TimeoutError: Its time was up before its turn came.
    """
    deadline = asyncio.get_running_loop().time() + service.options.timeout
    opened, persona = service.find(wanted.model, caller.identity)
    async with AsyncExitStack() as stack:
        # Before anything is waited for: what is replaced meanwhile stays open for this request.
        bench = await stack.enter_async_context(service.using(opened))
        await _within_rate(service, caller)
        await _reserve(service, caller, stack)
        caller.note.configuration = opened.name
        async with asyncio.timeout_at(deadline):
            waited = await stack.enter_async_context(service.turns[wanted.lane].turn())
        if waited:
            await _within_budget(service, caller)
        await service.after_erasures(opened)
        trace = None
        if wanted.operation:
            headers = {} if wanted.request is None else wanted.request.headers
            tracing = service.tracing.answering(
                wanted.operation, wanted.model or opened.name, headers
            )
            trace = stack.enter_context(tracing)
        stack.enter_context(meter_costs(service.meter(caller.identity)))
        erased = opened.erased
        yield Admission(service, caller, wanted, opened, persona, bench, deadline, trace, erased)


async def _within_rate(service: Service, caller: Caller) -> None:
    key = caller.identity
    if key is None or key.per_minute is None:
        return
    wait = await service.charges.admit(key.name, key.per_minute)
    if wait:
        raise ApiError(
            429,
            f"the key {key.name!r} allows {count_noun(key.per_minute, 'request')} a minute",
            "rate_limit_exceeded",
            retry_after=wait,
        )


def _limits(service: Service, caller: Caller) -> list[tuple[str | None, float]]:
    """Budgets of today that bound a request: of all keys (None), and of its own."""
    own = None if caller.identity is None else caller.identity.daily_budget
    bounds = ((None, service.options.daily_budget), (caller.name, own))
    return [(name, most) for name, most in bounds if most is not None]


async def _reserve(service: Service, caller: Caller, stack: AsyncExitStack) -> None:
    """Refuse a request whose budget is spent; else hold money for it until it ends."""
    await _within_budget(service, caller)
    limits = _limits(service, caller)
    if not limits:
        return
    held = await service.charges.reserve(caller.name, limits, service.options.timeout + _GRACE)
    if not held.name:
        raise _budget_spent(limits[held.spent][0])
    stack.callback(service.charges.release, held.name)


async def _within_budget(service: Service, caller: Caller) -> None:
    for name, most in _limits(service, caller):
        if await service.charges.spent(name) >= most:
            raise _budget_spent(name)


def _budget_spent(name: str | None) -> ApiError:
    limit_owner = "the server's" if name is None else f"the key {name!r}'s"
    return ApiError(429, f"{limit_owner} budget of today is spent", "insufficient_quota")


async def _client_gone(request: Request | None) -> None:
    """Return when the client has gone away."""
    if request is None:
        await asyncio.Event().wait()
    else:
        while (await request.receive())["type"] != "http.disconnect":
            pass
