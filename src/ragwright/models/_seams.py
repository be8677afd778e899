"""The interfaces of the models room: one abstract method each.

Batching, prefixes, windows and type checks live in the base classes, so that a plug-in or a
test double is ten lines.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ..core import Span
from ..flow import Chat, ChatReply, Complete, CompleteReply, OnDelta

Matrix = NDArray[np.float32]


class Tokenizer(ABC):
    """Cuts text into the tokens of a model or of the keyword index."""

    name: str = ""

    @abstractmethod
    def spans(self, text: str) -> list[Span]:
        """Character span of every token, in order, special tokens left out."""

    def count(self, text: str) -> int:
        """Number of tokens."""
        return len(self.spans(text))

    def pieces(self, text: str) -> list[str]:
        """The tokens as written in the text, for display."""
        return [text[s.start : s.end] for s in self.spans(text)]


class Embedder(ABC):
    """A local embedding model.

    Attributes:
        identity: Names weights, tokenizer, prefixes, pooling and similarity; part of every
            key that depends on a vector.
        dimensions: Length of a vector.
        window: Most tokens one vector may cover, None where unlimited.
    """

    identity: str
    dimensions: int
    window: int | None = None

    @abstractmethod
    def embed_batch(self, texts: Sequence[str]) -> Matrix:
        """Vectors of texts that fit the window: float32, shape (texts, dimensions)."""

    def tokenizer(self) -> Tokenizer | None:
        """The model's own tokenizer, None where it has none."""
        return None


class Reranker(ABC):
    """A local reranking model; ``scale`` describes its scores."""

    identity: str
    scale: str = ""

    @abstractmethod
    def score(self, query: str, passages: Sequence[str]) -> Sequence[float]:
        """One score a passage, higher is better."""


class ChatModel(ABC):
    """A chat back end; the OpenAI-compatible client is one, a scripted test model another.

    Attributes:
        identity: Names the model in keys of replies.
    """

    identity: str

    @abstractmethod
    async def chat(self, request: Chat, on_delta: OnDelta | None = None) -> ChatReply:
        """One attempt at a chat completion, without retries.

        Raises:
            ModelError: Typed by what may be done about it.
        """

    async def complete(self, request: Complete) -> CompleteReply:
        """One attempt at a raw completion; back ends without one refuse."""
        raise NotImplementedError(f"{self.identity} offers no raw completions")

    async def aclose(self) -> None:
        """Release connections; called on the loop that used them."""
