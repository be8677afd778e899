"""Judges for tests: a canned handler that says what a function makes of a request."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import TypeVar

from measure_fakes import WordEmbed

from ragwright.core import RagwrightError, Row
from ragwright.flow import Chat, ChatReply, Embed, Flow, OnDelta, Runner, SendHandler
from ragwright.measure import MeasureSetup

T = TypeVar("T")
Said = str | ChatReply | RagwrightError
SETUP = MeasureSetup(model="judge", embedder="e")
ROW = Row(
    "r",
    "When was the mill built, and by whom?",
    response="It was built in 1790 by Anna Roth.",
    reference="Anna Roth built it in 1790.",
    retrieved_contexts=("The mill dates from 1790.", "Anna Roth had the mill built."),
    retrieved_context_ids=("a", "b"),
)


class Says(SendHandler[Chat, ChatReply]):
    """Replies by a function of the request, or one reply after the other (the last repeats)."""

    def __init__(self, *replies: Said, by: Callable[[Chat], Said] | None = None) -> None:
        self.replies = list(replies)
        self.by = by
        self.seen: list[Chat] = []

    async def send(self, request: Chat, on_delta: OnDelta | None = None) -> ChatReply:
        self.seen.append(request)
        if self.by is not None:
            said = self.by(request)
        else:
            said = self.replies.pop(0) if len(self.replies) > 1 else self.replies[0]
        if isinstance(said, RagwrightError):
            raise said
        return said if isinstance(said, ChatReply) else ChatReply(said)


def run(flow: Flow[T], judge: Says) -> T:
    """What a flow returns, judged by a fake."""
    with Runner({Chat: judge, Embed: WordEmbed()}) as runner:
        return runner.run(flow)


def verdict(score: int, reasoning: str = "because of passage 1") -> str:
    """A judge's reply in its JSON form."""
    return json.dumps({"reasoning": reasoning, "score": score})


def shown(request: Chat) -> dict[str, str]:
    """The texts a request shows, by name, cut at their marks alone."""
    user = next(turn.content for turn in request.messages if turn.role == "user")
    match = re.search(r"MARK is (\w+)\.", user)
    assert match
    mark = match[1]
    found = re.findall(rf"^<<([^<>]+) {mark}>>\n(.*?)\n<<end \1 {mark}>>$", user, re.S | re.M)
    return dict(found)
