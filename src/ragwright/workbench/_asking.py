"""Options of asking, and the awaited verbs: the same flows, driven from another event loop."""

from __future__ import annotations

import contextlib
import operator
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from .. import answer, retrieve
from ..answer import AskPlan
from ..core import Answer, ConfigError, Filter, Hit, narrows, person_source, rights_first
from ..flow import Flow, Message, TraceEntry
from ..project import Project
from ..retrieve import Retrieved, RetrieveOptions, SoftFilterOptions, Target

if TYPE_CHECKING:
    import asyncio


@dataclass(frozen=True, slots=True)
class AskOptions:
    """Options of asking: after which turns, under which filters, who may see it, where it is shown.

    Attributes:
        history: Earlier turns, oldest first; the question is then made to stand alone.
        scope: Who may see the replies (tenant, permissions).
        person: Name of the key or person who asks, with which the replies are forgotten.
        sink: Gets the pieces of an answer that is streamed.
        trace: Gets an entry for each request.
        filters: Hard filters beside the project's own. A question under them is never sent to a
            database, which they could not narrow; rights to read are another matter.
        soft: Soft filters beside the project's own.
        target: Which state of the index is searched; the newest where None.
        on_context: Gets the passages that go into the prompt, before the model is asked; called
            on the runner's thread, so it must be quick.
    """

    history: tuple[Message, ...] = ()
    scope: str = ""
    person: str = ""
    sink: Callable[[str], None] | None = None
    trace: list[TraceEntry] | None = None
    filters: tuple[Filter, ...] = ()
    soft: tuple[SoftFilterOptions, ...] = ()
    target: Target | None = None
    on_context: Callable[[Sequence[Hit]], None] | None = None

    @property
    def quotes_answers(self) -> bool:
        """True where earlier answers, which may quote any document, are part of the prompt."""
        return any(turn.role == "assistant" for turn in self.history)

    @property
    def sources(self) -> tuple[str, ...]:
        """The sources of replies beside passages: the person, and earlier answers."""
        person = (person_source(self.person),) if self.person else ()
        return (*person, answer.CONVERSATION) if self.quotes_answers else person

    def searching(self, options: RetrieveOptions) -> RetrieveOptions:
        """Options of a search with these filters beside their own."""
        if not (self.filters or self.soft):
            return options
        filters, soft = rights_first(options.filters + self.filters), options.soft + self.soft
        return replace(options, filters=filters, soft=soft)

    def narrowed(self, plan: AskPlan) -> AskPlan:
        """A plan with these filters beside its own."""
        if self.on_context is not None:
            plan = replace(plan, on_context=self.on_context)
        # Only spreadsheets can be filtered; other databases go if a filter is not a right to read.
        databases = tuple(d for d in plan.databases if d.sheets or not narrows(self.filters))
        return replace(plan, retrieve=self.searching(plan.retrieve), databases=databases)


def check_text(value: object, name: str) -> str:
    """A question, a query or the name of a persona.

    Raises:
        ConfigError: It is not a text.
    """
    if isinstance(value, str):
        return value
    raise ConfigError(
        f"the {name} must be a text, not {_shown_value(value)}",
        where=name,
        hint=f'give it as a string, for example "{_EXAMPLES.get(name, _QUESTION)}"',
    )


def check_count(value: object, name: str) -> int | None:
    """A number of passages, or None for the number in the settings.

    Raises:
        ConfigError: It is not a whole number from 1.
    """
    if value is None:
        return None
    if not isinstance(value, bool) and hasattr(value, "__index__"):
        count = operator.index(value)
        if count >= 1:
            return count
    raise ConfigError(
        f"{name} must be a whole number from 1, not {_shown_value(value)}",
        where=name,
        hint=f"write {name}=5, or leave it out for the number in retrieve.top_k",
    )


def check_filters(filters: Filter | str | Iterable[Filter | str]) -> tuple[Filter, ...]:
    """Hard filters: written as on the command line (``year=2020..``), or made by `parse_filter`.

    Raises:
        FilterError: A text is not a filter.
        ConfigError: An item is neither a text nor a filter.
    """
    items = (filters,) if isinstance(filters, str | Filter) else tuple(filters)
    wrong = next((item for item in items if not isinstance(item, str | Filter)), None)
    if wrong is not None:
        raise ConfigError(
            f"a filter must be a text, not {_shown_value(wrong)}",
            where="filters",
            hint='write filters="year=2020..", or several in a list',
        )
    return tuple(retrieve.parse_filter(f) if isinstance(f, str) else f for f in items)


_QUESTION = "How often must the brake fluid be changed?"
_EXAMPLES = {"persona": "engineer"}


def _shown_value(value: object) -> str:
    """A wrong value in an error, with its type."""
    if value is None:
        return "None"
    text = repr(value)
    return f"{text if len(text) <= 40 else text[:40] + '…'} ({type(value).__name__})"


class AnswerStream:
    """The pieces of an answer as they are written; an async iterator of texts.

    Attributes:
        context: Passages of the prompt, known before the first piece; None before.
        answer: The whole answer with its citations, known after the last piece; None before.
    """

    def __init__(
        self, start: Callable[[AskOptions], asyncio.Task[Answer]], options: AskOptions
    ) -> None:
        self.context: Sequence[Hit] | None = None
        self.answer: Answer | None = None
        self._start = start
        self._options = options

    def __aiter__(self) -> AsyncGenerator[str]:
        """The pieces; an answer that no model writes is one piece.

        Raises:
            RagwrightError: What answering failed with.
        """
        return self._pieces_as_written()

    async def _pieces_as_written(self) -> AsyncGenerator[str]:
        # Late: it takes longer to load than the rest of what opening a project needs.
        import asyncio

        loop = asyncio.get_running_loop()
        queue: asyncio.Queue[str | None] = asyncio.Queue()

        def put(piece: str | None) -> None:
            with contextlib.suppress(RuntimeError):  # the reader's loop has ended
                loop.call_soon_threadsafe(queue.put_nowait, piece)

        def keep_context(hits: Sequence[Hit]) -> None:
            self.context = tuple(hits)

        task = self._start(replace(self._options, sink=put, on_context=keep_context))
        task.add_done_callback(lambda _: put(None))
        streamed = False
        try:
            while (piece := await queue.get()) is not None:
                streamed = True
                yield piece
            self.answer = await task
        finally:
            if not task.done():  # the reader went away
                task.cancel()
                await asyncio.wait([task])
        if self.context is None:
            self.context = self.answer.hits
        if not streamed:
            yield self.answer.text


class AsyncVerbs(ABC):
    """Asking and retrieving from within an event loop: a server, a notebook."""

    project: Project

    @abstractmethod
    def ask_flow(
        self, question: str, personas: Sequence[str], options: AskOptions | None = None
    ) -> Flow[list[Answer]]:
        """The flow that answers for each persona."""

    @abstractmethod
    def retrieve_flow(
        self, query: str, k: int | None = None, options: AskOptions | None = None
    ) -> Flow[Retrieved]:
        """The flow that searches."""

    async def aask(
        self, question: str, persona: str = "", options: AskOptions | None = None
    ) -> Answer:
        """As ``ask``, awaited; cancelling it cancels calls that nobody else waits for."""
        return (await self.aask_all(question, [persona], options))[0]

    async def aask_all(
        self, question: str, personas: Sequence[str], options: AskOptions | None = None
    ) -> list[Answer]:
        """As ``ask_all``, awaited."""
        asking = options or AskOptions()
        project = self.project
        first, *others = await project.runner.arun(
            partial(self.ask_flow, question, personas, asking),  # reads settings, opens the index
            scope=asking.scope,
            sink=asking.sink,
            trace=asking.trace,
            sources=asking.sources,
        )
        return [replace(first, notes=(*first.notes, *project.replies.notes)), *others]

    def astream(
        self, question: str, persona: str = "", options: AskOptions | None = None
    ) -> AnswerStream:
        """The pieces of an answer as they are written: ``async for piece in wb.astream(...)``.

        The stream's ``answer`` holds the whole afterwards. A reader that stops early ends the call.
        """
        import asyncio

        def start(asking: AskOptions) -> asyncio.Task[Answer]:
            return asyncio.create_task(self.aask(question, persona, asking))

        return AnswerStream(start, options or AskOptions())

    async def aretrieve(
        self, query: str, k: int | None = None, options: AskOptions | None = None
    ) -> Retrieved:
        """As ``retrieve``, awaited."""
        asking = options or AskOptions()
        project = self.project
        flow = partial(self.retrieve_flow, query, k, asking)
        retrieval = await project.runner.arun(
            flow, scope=asking.scope, trace=asking.trace, sources=asking.sources
        )
        return replace(
            retrieval, notes=(*project.partial_note(), *retrieval.notes, *project.replies.notes)
        )
