"""Handlers for tests of measures: words as vectors, log-probabilities and scores as told."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import TypeVar

import numpy as np

from ragwright.core import ModelReplyError, RagwrightError
from ragwright.flow import (
    BatchHandler,
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
from ragwright.measure import split_plain_words

T = TypeVar("T")
SIZE = 64


def word_vector(text: str) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
    """Counts of words, each at a place of its own (by hash)."""
    vector = np.zeros(SIZE, np.float32)
    for word in split_plain_words(text):
        vector[zlib.crc32(word.encode()) % SIZE] += 1
    return vector


class WordEmbed(BatchHandler[Embed, EmbedReply]):
    """Texts as counts of their words; a text that says ``fail`` fails its request."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def reply_to(self, requests: Sequence[Embed]) -> Sequence[EmbedReply | RagwrightError]:
        found: list[EmbedReply | RagwrightError] = []
        for request in requests:
            self.texts += request.texts
            if "fail" in request.texts:
                found.append(ModelReplyError("the embedder broke"))
            else:
                found.append(EmbedReply(np.stack([word_vector(t) for t in request.texts])))
        return found


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
    """One reply to every completion."""

    def __init__(self, reply: CompleteReply) -> None:
        self.reply = reply
        self.seen: list[Complete] = []

    async def send(self, request: Complete, on_delta: OnDelta | None = None) -> CompleteReply:
        self.seen.append(request)
        return self.reply


def run(flow: Flow[T], *handlers: object) -> T:
    """What a flow returns, its requests carried out by fakes."""
    kinds = {WordEmbed: Embed, Equal: Rerank, Told: Complete}
    with Runner({kinds[type(h)]: h for h in handlers}) as runner:  # type: ignore[index, misc]
        return runner.run(flow)
