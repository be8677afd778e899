"""An answer as server-sent events, in the frames of whichever interface asked for it."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from typing import Any, Protocol

from fastapi.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from ..answer import Marks, PlacedMark, marks_for_hits, marks_of_answer
from ..core import Answer, Hit
from ..workbench import AskOptions
from ._admission import LOOK, Admission
from ._answers import deliver_answer, hide_addresses
from ._errors import ApiError, api_error
from ._links import link_lines, make_link, texts_of_spans

_PING = 15.0
"""Seconds of silence after which a stream sends a comment, so that no proxy closes it."""

_GRACE = 5.0
"""Seconds after the time of a request in which its last frames may still be read."""

_STREAM_HEADERS = {"cache-control": "no-cache", "x-accel-buffering": "no"}

DONE = b"data: [DONE]\n\n"
"""The last frame of a stream of chat completions."""


_as_json = json.JSONEncoder(ensure_ascii=False).encode
"""As ``json.dumps`` with this option, which makes an encoder for each call."""


def sse_frame(body: Mapping[str, Any], event: str = "") -> bytes:
    """A server-sent event with a JSON body; ``event`` names its type."""
    name = f"event: {event}\n" if event else ""
    return f"{name}data: {_as_json(body)}\n\n".encode()


class EventStream(StreamingResponse):
    """Server-sent events; what they need is released at their end, however they end.

    A client that reads so slowly that its time is up is cut off.
    """

    def __init__(
        self, events: AsyncIterator[bytes], work: Admission, stack: AsyncExitStack | None = None
    ) -> None:
        super().__init__(events, media_type="text/event-stream", headers=_STREAM_HEADERS)
        self._until = work.deadline + _GRACE
        self._stack = stack or AsyncExitStack()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send them."""
        async with self._stack:
            with suppress(TimeoutError):
                async with asyncio.timeout_at(self._until):
                    await super().__call__(scope, receive, send)


class Frames(Protocol):
    """How an interface words the events of an answer."""

    def opening(self) -> Iterable[bytes]:
        """Frames before the text."""

    def text(self, text: str, marks: Sequence[PlacedMark]) -> Iterable[bytes]:
        """Frames of a piece of text and the citations in it."""

    def closing(self, answer: Answer, marks: Marks) -> Iterable[bytes]:
        """Frames after the text; the answer is as its caller may see it."""

    def failure(self, error: ApiError) -> bytes:
        """The frame of an error."""


@dataclass(frozen=True, slots=True)
class Streamed:
    """A question whose answer is streamed.

    Attributes:
        work: The admitted request.
        question: The question.
        asking: Its filters, history and scope.
        id: Id under which the answer is stored.
        links: True where the text ends with links to its sources.
    """

    work: Admission
    question: str
    asking: AskOptions
    id: str
    links: bool = False


class AnswerEvents:
    """The events of one answer while it is written."""

    def __init__(self, streamed: Streamed, frames: Frames) -> None:
        self._streamed = streamed
        self._frames = frames
        self._work = work = streamed.work
        work.noted(streamed.question)
        self._stream = work.bench.astream(streamed.question, work.persona, streamed.asking)
        self._pieces: AsyncGenerator[str, None] = self._stream.__aiter__()
        self._next: asyncio.Future[str | None] = asyncio.ensure_future(anext(self._pieces, None))

    async def begin(self) -> None:
        """Wait for the first piece, but not for long: what fails before it has its HTTP status.

        Raises:
            Exception: What answering failed with.
            ClientGoneError: The client went away.
        """
        wait = min(_PING, self._work.left)
        await self._work.while_wanted(asyncio.wait({self._next}, timeout=wait))
        if self._next.done():
            self._next.result()

    async def close(self) -> None:
        """End the call where its reader went away."""
        self._next.cancel()
        await asyncio.wait({self._next})
        await self._pieces.aclose()

    async def events(self) -> AsyncIterator[bytes]:
        """The frames, the last ones or an error at the end."""
        texts: dict[tuple[str, int, int], str] = {}
        link = make_link(self._work.caller.base, texts)
        marks = marks_for_hits(lambda: self._stream.context or (), link)
        noted: Sequence[Hit] = ()
        try:
            # Frames that are ready together are sent together: each sending passes every layer.
            if opening := b"".join(self._frames.opening()):
                yield opening
            while True:
                async for comment in self._pings_until_next():
                    yield comment
                piece = self._next.result()
                if piece is None:
                    break
                answer = self._stream.answer
                context = self._stream.context or ()
                if answer is not None:
                    texts |= await texts_of_spans(self._work.bench, answer.hits)
                elif context is not noted:
                    texts |= await texts_of_spans(self._work.bench, context)
                # After the last wait: what was erased meanwhile is not shown.
                self._work.refuse_erased(self._streamed.asking, context)
                if context is not noted:
                    self._work.noted(self._streamed.question, context)
                    noted = context
                begin = len(marks.marks)
                if answer is None:
                    text = marks.feed(piece)
                else:  # no model wrote it: the whole answer is one piece
                    marks = marks_of_answer(answer, link)
                    text = marks.text
                if text:
                    yield b"".join(self._frames.text(text, marks.marks[begin:]))
                self._next = asyncio.ensure_future(anext(self._pieces, None))
            async for event in self._last_events(marks):
                yield event
        except Exception as error:
            yield self._frames.failure(api_error(error, self._work.caller))

    async def _pings_until_next(self) -> AsyncIterator[bytes]:
        """Comments until the next piece is there.

        Raises:
            TimeoutError: The time for an answer is up.
            ApiError: 503; something was erased meanwhile.
        """
        silent = time.monotonic()
        while not self._next.done():
            left = self._work.left
            if not left:
                raise TimeoutError
            await asyncio.wait({self._next}, timeout=min(LOOK, left))
            if self._next.done():  # what the piece was made from is checked before it is shown
                self._work.give_way()
                return
            self._refuse_erased()
            if time.monotonic() - silent >= _PING:
                silent = time.monotonic()
                yield b": still at work\n\n"

    def _refuse_erased(self) -> None:
        """As :meth:`Admission.refuse_erased`; while the passages are not known, it may go on."""
        self._work.give_way()
        if self._stream.context:
            self._work.refuse_erased(self._streamed.asking, self._stream.context)

    async def _last_events(self, marks: Marks) -> AsyncIterator[bytes]:
        streamed, answer = self._streamed, self._stream.answer
        assert answer is not None
        self._work.refuse_erased(streamed.asking, answer.hits)
        begin = len(marks.marks)
        rest = marks.feed("", last=True)
        if streamed.links:
            rest += link_lines(marks.spans)
        if rest:
            yield b"".join(self._frames.text(rest, marks.marks[begin:]))
        await deliver_answer(self._work, answer, streamed.asking, name=streamed.id, marks=marks)
        shown = hide_addresses(answer, self._work.caller)
        yield b"".join(self._frames.closing(shown, marks))
