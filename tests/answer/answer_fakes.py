"""Hits, and a hand driver that sends canned replies into a flow."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from ragwright.core import ChannelScore, Hit
from ragwright.flow import Chat, ChatReply, Flow, Gather, Reply, Step

T = TypeVar("T")


def hit(
    number: int,
    text: str,
    *,
    title: str = "Manual",
    start: int = 0,
    document: str = "",
    **more: object,
) -> Hit:
    """A hit with the fields tests care about."""
    name = document or f"doc{number}"
    fields: dict[str, object] = {
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
    return Hit(**{**fields, **more})  # type: ignore[arg-type]


def dense(number: int, text: str, score: float) -> Hit:
    """A hit that the dense channel found."""
    return hit(number, text, channels={"dense": ChannelScore(number, score)})


class Driver:
    """Runs a flow by hand with canned chat replies."""

    def __init__(self, reply: str | ChatReply | Callable[[Chat], str] = "") -> None:
        self.reply = reply
        self.seen: list[Step] = []

    def run(self, flow: Flow[T]) -> T:
        """The flow's result."""
        try:
            step = next(flow)
            while True:
                self.seen.append(step)
                step = flow.send(self.answer(step))
        except StopIteration as end:
            result: T = end.value
            return result

    def answer(self, step: Step) -> Reply | list[object]:
        """The reply to one request, or the results of the child flows of a gather."""
        if isinstance(step, Gather):
            return [self.run(flow) for flow in step.flows]
        assert isinstance(step, Chat)
        if isinstance(self.reply, ChatReply):
            return self.reply
        return ChatReply(self.reply if isinstance(self.reply, str) else self.reply(step))

    @property
    def chats(self) -> list[Chat]:
        """The chat requests seen, in order."""
        return [step for step in self.seen if isinstance(step, Chat)]
