"""The bodies of requests, checked where they come in."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Iterable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Literal, TypeVar

from fastapi import Request
from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    GetJsonSchemaHandler,
    StrictBool,
    field_validator,
    model_validator,
)
from pydantic_core import CoreSchema

from ..core import Hit, count_noun
from ..drafting import scope_name
from ..flow import Message, TraceEntry, meter_costs
from ..retrieve import Retrieved, parse_filter, parse_soft_filter
from ..workbench import AskOptions, Workbench
from ._configurations import OpenConfiguration
from ._errors import ApiError, ClientGoneError
from ._keys import Identity, Note
from ._limits import Budgets
from ._options import ServeOptions
from ._service import Lane, Service

_LONGEST = 100_000
"""Most characters of a question or of a text to embed."""

Text = Annotated[str, Field(min_length=1, max_length=_LONGEST)]


class Body(BaseModel):
    """A body; keys that it does not name are ignored, as OpenAI's clients send many.

    ``null`` means that a key is not given: both of OpenAI's clients send it so.
    """

    model_config = ConfigDict(extra="ignore")

    @model_validator(mode="before")
    @classmethod
    def _without_nulls(cls, data: Any) -> Any:
        return {k: v for k, v in data.items() if v is not None} if isinstance(data, dict) else data

    @classmethod
    def __get_pydantic_json_schema__(cls, core: CoreSchema, make: GetJsonSchemaHandler) -> Any:
        """Declare that the keys that may be left out may be ``null``."""
        named = make(core)
        schema = make.resolve_ref_schema(named)
        for name in schema["properties"].keys() - schema.get("required", ()):
            shape = schema["properties"][name]
            if {"type": "null"} not in shape.get("anyOf", ()):
                schema["properties"][name] = {"anyOf": [shape, {"type": "null"}]}
        return named


_TEXTS = frozenset({"text", "input_text", "output_text"})
"""Types of the parts that are text, in chat completions and in responses."""


class ContentPart(Body):
    """A part of a message."""

    type: str
    text: str = ""


class ChatMessage(Body):
    """A turn of a conversation."""

    role: Literal["system", "developer", "user", "assistant", "tool", "function"]
    content: str | list[ContentPart] | None = None

    def plain_text(self, *, strict: bool = True) -> str:
        """The text of its parts; unless ``strict``, what is not text is left out.

        Raises:
            ValueError: It holds something else than text, such as an image.
        """
        if not isinstance(self.content, list):
            return self.content or ""
        other = next((part.type for part in self.content if part.type not in _TEXTS), None)
        if strict and other is not None:
            raise ValueError(f"a message holds a part of type {other!r}; only text is read")
        return "\n".join(part.text for part in self.content if part.type in _TEXTS)


class StreamOptions(Body):
    """Options for the end of a stream."""

    include_usage: bool = False


class Extras(Body):
    """Ours, below the key ``ragwright`` of a chat request.

    Attributes:
        filters: Hard filters beside the key's, as ``field=value``.
        soft: Soft filters, as ``field=value^weight``.
        source_links: End the answer with links to its sources.
    """

    model_config = ConfigDict(extra="forbid")
    filters: list[str] = Field(default_factory=list, max_length=32)
    soft: list[str] = Field(default_factory=list, max_length=32)
    source_links: StrictBool | None = None

    def links(self, options: ServeOptions) -> bool:
        """True where the answer ends with links to its sources."""
        return options.source_links if self.source_links is None else self.source_links


class ChatRequest(Body):
    """``POST /v1/chat/completions``; sampling parameters are those of the configuration."""

    model: str = ""
    messages: list[ChatMessage] = Field(min_length=1, max_length=1000)
    stream: bool = False
    stream_options: StreamOptions | None = None
    n: int | None = 1
    response_format: dict[str, Any] | None = None
    ragwright: Extras = Field(default_factory=Extras)

    @field_validator("n")
    @classmethod
    def _require_one_answer(cls, n: int | None) -> int | None:
        if n not in (None, 1):
            raise ValueError("one answer at a time: leave n out")
        return n

    @field_validator("response_format")
    @classmethod
    def _require_text_form(cls, form: dict[str, Any] | None) -> dict[str, Any] | None:
        if form is not None and form.get("type", "text") != "text":
            raise ValueError("answers are text with citations; leave response_format out")
        return form


class RetrieveRequest(Body):
    """``POST /v1/retrieve``."""

    model_config = ConfigDict(extra="forbid")
    query: Text
    model: str = ""
    top_k: int | None = Field(None, ge=1, le=1000)
    filters: list[str] = Field(default_factory=list, max_length=32)
    soft: list[str] = Field(default_factory=list, max_length=32)


class EmbeddingsRequest(Body):
    """``POST /v1/embeddings``."""

    input: Text | list[Text]
    model: str = ""
    encoding_format: Literal["float", "base64"] = "float"
    input_type: Literal["query", "passage"] = "passage"
    dimensions: int | None = None

    @field_validator("input", mode="before")
    @classmethod
    def _require_texts(cls, texts: Any) -> Any:
        if not texts or len(texts if isinstance(texts, list) else [texts]) > 2048:
            raise ValueError("give 1 to 2,048 texts")
        if isinstance(texts, list) and any(isinstance(text, int | list) for text in texts):
            raise ValueError(
                "these are tokens of another model; send texts "
                "(LangChain: OpenAIEmbeddings(check_embedding_ctx_length=False))"
            )
        return texts


class FeedbackRequest(Body):
    """``POST /v1/feedback``: what a reader says of an answer or of a draft.

    Attributes:
        id: Id of a chat completion, or of a text of a draft.
        verdict: ``accepted`` or ``rejected``.
        score: On the scale of a measure.
        note: Free text.
        correction: The answer as it should be.
        passages: Numbers of citations of the answer that hold what was asked for, from 1.
    """

    model_config = ConfigDict(extra="forbid")
    id: Annotated[str, Field(min_length=1, max_length=200)]
    verdict: Literal["", "accepted", "rejected"] = ""
    score: float | None = None
    note: Annotated[str, Field(max_length=10_000)] = ""
    correction: Annotated[str, Field(max_length=10_000)] = ""
    passages: Annotated[list[int], Field(max_length=100)] = Field(default_factory=list)


class DraftsRequest(Body):
    """``POST /v1/drafts``; the fields are those of ``ragwright draft``.

    Attributes:
        model: Configuration that is asked.
        models: Models that write, among those of the project file.
        examples: Examples in a prompt, in place of ``answer.draft.examples``.
        pool: Records that examples are taken from, in place of ``answer.draft.pool``.
    """

    model_config = ConfigDict(extra="allow")
    model: str = ""
    models: list[str] = Field(default_factory=list, max_length=16)
    examples: int | None = Field(default=None, ge=1, le=200)
    pool: int | None = Field(default=None, ge=1, le=1000)


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
        restricted: True for a reviewer who may not read every document of the index.
        note: What the audit log will say of the request.
    """

    identity: Identity | None
    base: str
    restricted: bool = False
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
        budgets = _budgets(service, caller)
        if budgets:
            seconds = service.options.timeout + _GRACE
            held = await service.charges.reserve(caller.name, budgets, seconds)
            stack.callback(service.charges.release, held)
        caller.note.configuration = opened.name
        async with asyncio.timeout_at(deadline):
            waited = await stack.enter_async_context(service.turns[wanted.lane].turn())
        if waited:
            await service.charges.require_left(budgets)
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


def _budgets(service: Service, caller: Caller) -> Budgets:
    """Those that bound a request: that of all keys (None), and its own."""
    own = None if caller.identity is None else caller.identity.daily_budget
    bounds = ((None, service.options.daily_budget), (caller.name, own))
    return [(name, most) for name, most in bounds if most is not None]


async def _client_gone(request: Request | None) -> None:
    if request is None:
        await asyncio.Event().wait()
    else:
        while (await request.receive())["type"] != "http.disconnect":
            pass
