"""From texts to vectors: prefixes, windows, similarity, for every embedder alike.

Queries and passages may need different words in front; texts longer than a model's window
are pooled over windows or refused, never cut in silence.
"""

from __future__ import annotations

import hashlib
import re
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice, pairwise
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ..core import ModelRefusedError, RagwrightError, Span, value_hash
from ..flow import Chat, ChatReply, Complete, CompleteReply, OnDelta
from ._names import EmbedOptions, ModelSettings, Pooling, Similarity

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


Role: TypeAlias = Literal["query", "passage"]


@dataclass(frozen=True, slots=True)
class Prefixes:
    """Text put before queries and passages."""

    query: str = ""
    passage: str = ""

    def of(self, role: Role) -> str:
        """The prefix of a role."""
        return self.query if role == "query" else self.passage


_ASK = "Represent this sentence for searching relevant passages: "
_INSTRUCT = (
    "Instruct: Given a web search query, retrieve relevant passages that answer the query\nQuery: "
)

FAMILIES: tuple[tuple[str, Prefixes], ...] = (
    (r"e5-[\w.-]*instruct|gte-qwen|qwen3-embedding", Prefixes(_INSTRUCT)),
    (r"(?:^|[/_-])(?:multilingual-)?e5(?:-|_|$)", Prefixes("query: ", "passage: ")),
    (r"bge-(?:small|base|large)-zh", Prefixes("为这个句子生成表示以用于检索相关文章：")),
    (r"bge-(?:small|base|large)-en|bge-(?:small|base|large)$", Prefixes(_ASK)),
    (r"mxbai-embed|arctic-embed-(?:xs|s|m|l)(?:-v1\.5|-long)?$", Prefixes(_ASK)),
    (r"arctic-embed-[ml]-v2", Prefixes("query: ")),
    (r"nomic-embed-text|modernbert-embed", Prefixes("search_query: ", "search_document: ")),
    (r"embedding-?gemma", Prefixes("task: search result | query: ", "title: none | text: ")),
)
"""Prefixes that the authors of common model families specify, by a pattern of the name.

Models that match nothing (gte, all-MiniLM, all-mpnet, GIST, bge-m3) need none.
"""


def family_prefixes(name: str) -> Prefixes | None:
    """Prefixes known for a model's name (without its provider), None where none are known."""
    name = re.sub(r":[\w.-]+$", "", name.lower())  # Ollama's tag
    for pattern, prefixes in FAMILIES:
        if re.search(pattern, name):
            return prefixes
    return None


@dataclass(frozen=True, slots=True)
class VectorRule:
    """Everything besides weights and tokenizer that determines a text's vector."""

    prefixes: Prefixes = Prefixes()
    pooling: Pooling = "mean"
    similarity: Similarity = "cosine"
    dimensions: int | None = None

    def identity(self) -> str:
        """A short hash, part of every embedder's identity."""
        return value_hash(
            [
                self.prefixes.query,
                self.prefixes.passage,
                self.pooling,
                self.similarity,
                self.dimensions,
            ]
        )[:16]

    def shaped(self, vectors: Matrix) -> Matrix:
        """Vectors cut to ``dimensions`` and, for cosine, brought to length 1."""
        if self.dimensions is not None:
            vectors = vectors[:, : self.dimensions]
        if self.similarity == "cosine":
            vectors = unit(vectors)
        return np.ascontiguousarray(vectors, dtype=np.float32)


class RuledEmbedder(Embedder):
    """Base of local embedding models; subclasses run the model on texts.

    Attributes:
        rule: Prefixes, pooling, similarity, dimensions.
        where: Names the model in messages.
    """

    rule: VectorRule
    where: str

    @abstractmethod
    def rows(self, texts: Sequence[str]) -> Matrix:
        """Vectors before the rule shapes them: shape (texts, width), of one text or more."""

    def embed_batch(self, texts: Sequence[str]) -> Matrix:
        """Vectors: float32, shape (texts, dimensions), of length 1 where similarity is cosine.

        Raises:
            ModelRefusedError: A text has more tokens than the window holds.
        """
        if not texts:
            return np.zeros((0, self.dimensions), np.float32)
        return self.rule.shaped(self.rows(texts))

    def measured(self) -> int:
        """Length of a vector, measured on one."""
        return int(self.embed_batch(["a"]).shape[1])

    def check(self, count: int) -> None:
        """Refuse a text of more tokens (special ones left out) than the window holds."""
        if self.window is not None and count > self.window:
            raise ModelRefusedError(
                f"a text has {count} tokens; the window holds {self.window}",
                where=self.where,
                hint="let embed_texts pool over windows, or make chunks smaller",
            )


def settle_rule(
    options: EmbedOptions, settings: ModelSettings, names: Sequence[str], own_rule: VectorRule
) -> VectorRule:
    """The rule of a model: options, else its settings, else its family, else its own files.

    ``names`` are what the model is called, tried in order against the known families.
    """
    family = next((p for p in map(family_prefixes, names) if p is not None), None)
    defaults = own_rule.prefixes if own_rule.prefixes != Prefixes() else family or Prefixes()
    query = _first_set(options.query_prefix, settings.query_prefix, defaults.query)
    passage = _first_set(options.passage_prefix, settings.passage_prefix, defaults.passage)
    pooling: Pooling = options.pooling or settings.pooling or own_rule.pooling
    similarity: Similarity = options.similarity or settings.similarity or own_rule.similarity
    dimensions = options.dimensions or settings.dimensions or own_rule.dimensions
    return VectorRule(Prefixes(query, passage), pooling, similarity, dimensions)


def _first_set(*values: str | None) -> str:
    return next((v for v in values if v is not None), "")


SHORTEST, LONGEST = 1e-6, 1e6
"""Valid norms of vectors; beyond them float32 products underflow or overflow."""


def vector_fault(vectors: NDArray[np.floating[Any]]) -> str:
    """The reason why vectors are useless for search; empty if they are usable.

    Args:
        vectors: Shape (texts, dimensions), before they are brought to float32.
    """
    wide = vectors.astype(np.float64)
    if not np.isfinite(wide).all():
        return "a vector that holds NaN or infinity"
    # Divided first: the square of a huge number overflows, that of a tiny one is 0.
    largest = np.abs(wide).max(axis=1, initial=0.0)
    norms = largest * np.linalg.norm(wide / np.where(largest > 0, largest, 1.0)[:, None], axis=1)
    wrong = norms[(norms < SHORTEST) | (norms > LONGEST)]
    if not len(wrong):
        return ""
    if (wrong == 0).any():
        return "a vector of zeros"
    return f"a vector of length {wrong[0]:.3g}, which float32 cannot search with"


def unit(vectors: Matrix) -> Matrix:
    """Rows brought to length 1; a row of zeros stays as it is."""
    norms = np.sqrt(np.einsum("ij,ij->i", vectors, vectors))[:, None]
    return np.asarray(vectors / np.maximum(norms, 1e-12), dtype=np.float32)


def embed_texts(
    embedder: Embedder,
    requests: Sequence[Sequence[str]],
    prefix: str = "",
    *,
    long_texts: Literal["pool", "refuse"] = "pool",
    normalise: bool = True,
) -> list[Matrix | RagwrightError]:
    """Vectors of several requests in one go: float32, shape (texts, dimensions) each.

    A text of more tokens than the window holds (prefix included) is cut into windows of
    equal length at token borders, and its vector is the mean of theirs, brought to length 1
    where ``normalise`` says so; with ``refuse`` the request gets an error with the count.
    """
    planned = plan_windows(
        requests, prefix, embedder.tokenizer(), embedder.window, (embedder.identity, long_texts)
    )
    vectors = embedder.embed_batch(planned.pieces) if planned.pieces else np.zeros((0, 0))
    return planned.pooled(np.asarray(vectors, np.float32), embedder.dimensions, normalise)


@dataclass(frozen=True, slots=True)
class EmbeddingPlan:
    """Requests taken apart into pieces that fit the window.

    Attributes:
        pieces: What is to be embedded, prefixes included.
        counts: Per request the number of pieces of each text, or the error it met.
    """

    pieces: list[str]
    counts: list[list[int] | RagwrightError]

    def pooled(self, vectors: Matrix, width: int, normalise: bool) -> list[Matrix | RagwrightError]:
        """Join the vectors of the pieces to those of the texts: shape (texts, width) a request."""
        results: list[Matrix | RagwrightError] = []
        place = 0
        for counts in self.counts:
            if isinstance(counts, RagwrightError):
                results.append(counts)
                continue
            rows = np.zeros((len(counts), width), np.float32)
            for row, count in enumerate(counts):
                part = vectors[place : place + count]
                place += count
                mean = part.astype(np.float64).mean(axis=0, keepdims=True).astype(np.float32)
                rows[row] = part[0] if count == 1 else (unit(mean) if normalise else mean)[0]
            results.append(rows)
        return results


def plan_windows(
    requests: Sequence[Sequence[str]],
    prefix: str,
    tokenizer: Tokenizer | None,
    window: int | None,
    model: tuple[str, Literal["pool", "refuse"]],
) -> EmbeddingPlan:
    """Cut texts that are longer than the window; ``model`` is its name and what to do then.

    Raises:
        ModelRefusedError: The prefix alone fills the window.
    """
    name, long_texts = model
    room = None
    if window is not None and tokenizer is not None:
        room = window - (tokenizer.count(prefix) if prefix else 0)
        if room < 1:
            raise ModelRefusedError(
                f"the prefix fills the window of {window} tokens of {name}",
                hint="shorten query_prefix or passage_prefix",
            )
    planned = EmbeddingPlan([], [])
    for texts in requests:
        mine: list[str] = []
        counts: list[int] = []
        try:
            for text in texts:
                windows = _text_windows(text, tokenizer, room, long_texts, name)
                mine += [prefix + window for window in windows]
                counts.append(len(windows))
        except RagwrightError as error:
            planned.counts.append(error)
            continue
        planned.pieces.extend(mine)
        planned.counts.append(counts)
    return planned


class RoughTokenizer(Tokenizer):
    """A pessimistic estimate of the tokens of a model whose tokenizer is not available.

    Three letters or one sign count as a token: about half as many again as a subword
    vocabulary makes of English prose.
    """

    name = "rough"
    _TOKEN = re.compile(r"[^\W_]{1,3}|[^\w\s]|_")

    def spans(self, text: str) -> list[Span]:
        """Spans of up to three letters, or one sign."""
        return [Span(*match.span()) for match in self._TOKEN.finditer(text)]


def _text_windows(
    text: str,
    tokenizer: Tokenizer | None,
    room: int | None,
    long_texts: Literal["pool", "refuse"],
    model: str,
) -> list[str]:
    if room is None or tokenizer is None or len(text.encode("utf-8", "replace")) <= room:
        return [text]  # a token is at least one byte
    spans = tokenizer.spans(text)
    if len(spans) <= room:
        return [text]
    if long_texts == "refuse":
        raise ModelRefusedError(
            f"a text has {len(spans)} tokens; the window of {model} holds {room}",
            hint="make chunks smaller, or set embed.long_texts: pool",
        )
    return _even_pieces(text, spans, room, tokenizer)


def _even_pieces(text: str, spans: Sequence[Span], room: int, tokenizer: Tokenizer) -> list[str]:
    """Pieces of about equal numbers of tokens, none above ``room``.

    A piece alone may have more tokens than within the text: then it is halved.
    """
    count = -(-len(spans) // room)
    edges = [round(i * len(spans) / count) for i in range(count + 1)]
    pieces = []
    for first, last in pairwise(edges):
        end = spans[last].start if last < len(spans) else len(text)
        piece = text[spans[first].start : end]
        piece_spans = tokenizer.spans(piece)
        if len(piece_spans) > room and len(piece) > 1:
            pieces += _even_pieces(piece, piece_spans, room, tokenizer)
        else:
            pieces.append(piece)
    return pieces


def file_hash(path: Path) -> str:
    """Hash of a file's bytes (BLAKE2b, 32 hexadecimal digits)."""
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=16))
    return digest.hexdigest()


class WindowReranker(Reranker):
    """Base of cross-encoders: a long passage is scored by windows.

    A passage that does not fit beside the query gets the score of its best window (MaxP; Dai and
    Callan 2019); nothing is cut off.

    Attributes:
        window: Most tokens of query and passage, special ones left out; None for no limit.
    """

    window: int | None

    @abstractmethod
    def tokenizer(self) -> Tokenizer | None:
        """The model's tokenizer; None means that nothing is cut."""

    @abstractmethod
    def pair_scores(self, pairs: Sequence[tuple[str, str]]) -> Sequence[float]:
        """Scores of queries with passages that fit the window beside them."""

    def score(self, query: str, passages: Sequence[str]) -> Sequence[float]:
        """One score per passage, higher is better.

        Raises:
            ModelRefusedError: The query alone fills the window.
        """
        if not passages:
            return []
        tokenizer, room = self.tokenizer(), None
        if self.window is not None and tokenizer is not None:
            room = self.window - tokenizer.count(query)
            if room < 1:
                raise ModelRefusedError(
                    f"the query fills the window of {self.window} tokens", where=self.identity
                )
        planned = plan_windows([passages], "", tokenizer, room, (self.identity, "pool"))
        pair_scores = iter(self.pair_scores([(query, piece) for piece in planned.pieces]))
        (counts,) = planned.counts
        assert isinstance(counts, list), "pooling never fails"
        return [max(islice(pair_scores, count)) for count in counts]
