"""A hand driver: chat replies in order, and what was asked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

from ragwright.core import Hit
from ragwright.flow import Branch, Chat, ChatReply, Flow, Gather, Search, SearchReply, Step

T = TypeVar("T")


class Driver:
    """Runs a flow by hand; an exception among the replies is thrown at its request."""

    def __init__(self, *replies: str | ChatReply | Exception) -> None:
        self.replies = list(replies)
        self.chats: list[Chat] = []

    def run(self, flow: Flow[T]) -> T:
        """The flow's result."""
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
        if isinstance(step, Search):
            return SearchReply(())
        assert isinstance(step, Chat)
        self.chats.append(step)
        reply = self.replies.pop(0) if len(self.replies) > 1 else self.replies[0]
        return ChatReply(reply) if isinstance(reply, str) else reply

    def _child(self, flow: Flow[Any], settle: bool) -> Any:
        try:
            return self.run(flow)
        except Exception as error:
            if not settle:
                raise
            return error


def hit(rank: int, title: str, text: str) -> Hit:
    """A hit of a document that is one chunk."""
    name = title.lower().replace(" ", "-")
    size = len(text)
    return Hit(rank, 1 / rank, name, f"{name}:0-{size}", f"{name}.txt", title, None, 0, size, text)


def prompts(chats: Sequence[Chat]) -> list[str]:
    """The last message of each chat."""
    return [chat.messages[-1].content for chat in chats]
