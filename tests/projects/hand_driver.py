"""Flows run by hand: replies of a chat model in order, what was asked, and hits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from ragwright.core import Hit
from ragwright.flow import (
    BatchHandler,
    Branch,
    Chat,
    ChatReply,
    Flow,
    Gather,
    Lookup,
    LookupReply,
    Search,
    SearchReply,
    Step,
)

T = TypeVar("T")


def hit(
    number: int,
    text: str,
    *,
    title: str = "Manual",
    start: int = 0,
    document: str = "",
    **more: Any,
) -> Hit:
    name = document or f"doc{number}"
    fields: dict[str, Any] = {
        "rank": number,
        "score": 1.0 / number,
        "document_id": name,
        "chunk_id": f"{name}:{start}-{start + len(text)}",
        "source": f"{name}.pdf",
        "title": title,
        "page": 3,
        "start": start,
        "end": start + len(text),
        "text": text,
    }
    return Hit(**{**fields, **more})


class Driver:
    """Runs a flow; exceptions among the replies are thrown at their requests."""

    def __init__(self, *replies: Any, others: Callable[[Any], Any] | None = None) -> None:
        self.replies = [*replies] or [""]
        self.others = others
        self.seen: list[Step] = []

    @property
    def chats(self) -> list[Chat]:
        return [step for step in self.seen if isinstance(step, Chat)]

    @property
    def prompts(self) -> list[str]:
        return [chat.messages[-1].content for chat in self.chats]

    def run(self, flow: Flow[T]) -> T:
        try:
            step = next(flow)
            while True:
                answer = self._answer(step)
                step = flow.throw(answer) if isinstance(answer, Exception) else flow.send(answer)
        except StopIteration as end:
            result: T = end.value
            return result

    def _answer(self, step: Step) -> Any:
        if isinstance(step, Gather):
            return [self._child(flow, step.settle) for flow in step.flows]
        if isinstance(step, Branch):
            return None
        self.seen.append(step)
        if not isinstance(step, Chat):
            assert self.others is not None, step
            return self.others(step)
        reply = self.replies.pop(0) if len(self.replies) > 1 else self.replies[0]
        reply = reply(step) if callable(reply) else reply
        return ChatReply(reply) if isinstance(reply, str) else reply

    def _child(self, flow: Flow[Any], settle: bool) -> Any:
        try:
            return self.run(flow)
        except Exception as error:
            if not settle:
                raise
            return error


class Shelf(BatchHandler[Any, Any]):
    """A whole index: lists its chunks in order, finds all of them, and hands them out."""

    notes: tuple[str, ...] = ()

    def __init__(self, hits: list[Hit]) -> None:
        self.hits = {h.chunk_id: h for h in hits}
        self.seen: list[Any] = []

    def durable(self, request: Any) -> bool:
        return False

    def reply_to(self, requests: Any) -> list[Any]:
        return [self.one(request) for request in requests]

    def one(self, request: Any) -> SearchReply | LookupReply:
        self.seen.append(request)
        if isinstance(request, Lookup):
            found = tuple(self.hits[key] for key in request.chunk_ids)
            return LookupReply(found, notes=self.notes)
        assert isinstance(request, Search)
        if request.channel == "keyword":
            return SearchReply(tuple((key, 1.0) for key in list(self.hits)[: request.k]))
        assert request.channel == "all"
        wanted = {value for f in request.filters if f.field == "document" for value in f.values}
        ids = [key for key, h in self.hits.items() if not wanted or h.document_id in wanted]
        start = ids.index(request.after) + 1 if request.after else 0
        return SearchReply(tuple((key, 0.0) for key in ids[start : start + request.k]))


def part(document: str, start: int, text: str) -> Hit:
    return hit(1, text, document=document, start=start, title=document.upper())


LETTERS = [
    part("a", 0, "Dear Ada, the fuel pump arrived. Signed, Bob Stone."),
    part("a", 60, "Later the pump broke. Carol Reed repaired it."),
    part("b", 0, "The lamp is red. Nobody mended it."),
    part("c", 0, "The PUMP of the town stands still, wrote bob stone. Fuel is dear."),
]
