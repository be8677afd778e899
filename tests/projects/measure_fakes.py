"""Models for tests of measures: judges that say what they are told, words as vectors."""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np

from ragwright.core import ModelReplyError, RagwrightError, Row, Score
from ragwright.flow import (
    BatchHandler,
    Chat,
    ChatReply,
    Complete,
    CompleteReply,
    Embed,
    EmbedReply,
    Flow,
    OnDelta,
    Rerank,
    RerankReply,
    Runner,
    SendHandler,
)
from ragwright.measure import MeasureSetup, parse_measure, score_row, split_plain_words

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
SIZE = 64


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


def word_vector(text: str) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
    """Counts of words, each at a place of its own (by hash)."""
    vector = np.zeros(SIZE, np.float32)
    for word in split_plain_words(text):
        vector[zlib.crc32(word.encode()) % SIZE] += 1
    return vector


class WordEmbed(BatchHandler[Embed, EmbedReply]):
    """Texts as counts of their words; a text that says ``fail`` fails its request."""

    def reply_to(self, requests: Sequence[Embed]) -> Sequence[EmbedReply | RagwrightError]:
        return [
            ModelReplyError("the embedder broke")
            if "fail" in request.texts
            else EmbedReply(np.stack([word_vector(text) for text in request.texts]))
            for request in requests
        ]


class Equal(BatchHandler[Rerank, RerankReply]):
    """1 where passage and query are equal, else 0.25; remembers the models asked."""

    def __init__(self) -> None:
        self.models: list[str] = []

    def reply_to(self, requests: Sequence[Rerank]) -> Sequence[RerankReply | RagwrightError]:
        self.models += [request.model for request in requests]
        return [
            RerankReply(tuple(1.0 if text == r.query else 0.25 for text in r.passages))
            for r in requests
        ]


class Told(SendHandler[Complete, CompleteReply]):
    def __init__(self, reply: CompleteReply) -> None:
        self.reply = reply
        self.seen: list[Complete] = []

    async def send(self, request: Complete, on_delta: OnDelta | None = None) -> CompleteReply:
        self.seen.append(request)
        return self.reply


def run(flow: Flow[T], *handlers: object) -> T:
    """What a flow returns, its requests carried out by fakes; beside a judge there are vectors."""
    kinds = {Says: Chat, WordEmbed: Embed, Equal: Rerank, Told: Complete}
    given = {kinds[type(handler)]: handler for handler in handlers}  # type: ignore[index]
    if Chat in given:
        given.setdefault(Embed, WordEmbed())
    with Runner(given) as runner:  # type: ignore[arg-type]
        return runner.run(flow)


def judged(measure: str, says: Says, setup: MeasureSetup = SETUP, /, **fields: Any) -> Score:
    """The score of the row above, with other fields, by one measure."""
    flow = score_row(replace(ROW, **fields), [parse_measure(measure)], setup)
    (found,) = run(flow, says)
    return found


def verdict(score: int, reasoning: str = "because of passage 1") -> str:
    return json.dumps({"reasoning": reasoning, "score": score})


def shown(request: Chat) -> dict[str, str]:
    """The texts a request shows, by name, cut at their marks alone."""
    user = next(turn.content for turn in request.messages if turn.role == "user")
    match = re.search(r"MARK is (\w+)\.", user)
    assert match
    found = re.findall(
        rf"^<<([^<>]+) {match[1]}>>\n(.*?)\n<<end \1 {match[1]}>>$", user, re.S | re.M
    )
    return dict(found)
