"""From texts to vectors: prefixes, windows, similarity, for every embedder alike.

Queries and passages may need different words in front; texts longer than a model's window
are pooled over windows or refused, never cut in silence.
"""

from __future__ import annotations

import hashlib
import re
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import astuple, dataclass, fields, replace
from functools import cached_property
from itertools import accumulate, islice, pairwise
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ..core import ModelRefusedError, RagwrightError, Span, text_hash, value_hash
from ..flow import Chat, ChatReply, Complete, CompleteReply, OnDelta
from ._names import EmbedOptions, Pooling, Similarity

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


_ASK = "Represent this sentence for searching relevant passages: "
_INSTRUCT = (
    "Instruct: Given a web search query, retrieve relevant passages that answer the query\nQuery: "
)

FAMILIES = (
    (r"e5-[\w.-]*instruct|gte-qwen|qwen3-embedding", _INSTRUCT, ""),
    (r"(?:^|[/_-])(?:multilingual-)?e5(?:-|_|$)", "query: ", "passage: "),
    (r"bge-(?:small|base|large)-zh", "为这个句子生成表示以用于检索相关文章：", ""),
    (r"bge-(?:small|base|large)-en|bge-(?:small|base|large)$", _ASK, ""),
    (r"mxbai-embed|arctic-embed-(?:xs|s|m|l)(?:-v1\.5|-long)?$", _ASK, ""),
    (r"arctic-embed-[ml]-v2", "query: ", ""),
    (r"nomic-embed-text|modernbert-embed", "search_query: ", "search_document: "),
    (r"embedding-?gemma", "task: search result | query: ", "title: none | text: "),
)
"""Prefixes of queries and passages that the authors of common model families specify, by a pattern
of the name.

Models that match nothing (gte, all-MiniLM, all-mpnet, GIST, bge-m3) need none.
"""


@dataclass(frozen=True, slots=True)
class VectorRule:
    """Everything besides weights and tokenizer that determines a text's vector."""

    query_prefix: str = ""
    passage_prefix: str = ""
    pooling: Pooling = "mean"
    similarity: Similarity = "cosine"
    dimensions: int | None = None

    def prefix(self, role: Role) -> str:
        """The text put before texts of a role."""
        return self.query_prefix if role == "query" else self.passage_prefix

    def identity(self) -> str:
        """A short hash, part of every embedder's identity."""
        return value_hash(list(astuple(self)))[:16]

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
        tokens: The model's own tokenizer, None for a slow one.
        where: Names the model in messages.
    """

    rule: VectorRule
    tokens: Tokenizer | None
    where: str

    def settle(
        self, engine: str, home: Path, options: EmbedOptions, own: tuple[Sequence[str], VectorRule]
    ) -> None:
        """Take rule and identity from a folder's files and the options.

        Args:
            engine: What runs the model.
            home: The folder.
            options: What the project sets.
            own: What the model is called, and the rule of its files.
        """
        self.where = str(home)
        self.rule = settle_rule(options, *own)
        self.identity = f"{engine}:{folder_hash(home)}:{self.rule.identity()}"

    def tokenizer(self) -> Tokenizer | None:
        """The model's own tokenizer."""
        return self.tokens

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

    @cached_property
    def dimensions(self) -> int:  # type: ignore[override]
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


def settle_rule(options: EmbedOptions, names: Sequence[str], own_rule: VectorRule) -> VectorRule:
    """The rule of a model: options, else its own files, else the prefixes of its family.

    ``names`` are what the model is called, tried in order against the known families.
    """
    if not own_rule.query_prefix and not own_rule.passage_prefix:
        bare = [re.sub(r":[\w.-]+$", "", name.lower()) for name in names]  # without Ollama's tag
        known = (entry for name in bare for entry in FAMILIES if re.search(entry[0], name))
        _, query, passage = next(known, ("", "", ""))
        own_rule = replace(own_rule, query_prefix=query, passage_prefix=passage)
    chosen = {field.name: getattr(options, field.name) for field in fields(VectorRule)}
    return replace(own_rule, **{k: value for k, value in chosen.items() if value is not None})


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
    planned: list[tuple[list[str], list[int]] | RagwrightError] = []
    for texts in requests:
        model = (embedder.identity, long_texts)
        try:
            planned.append(cut_texts(texts, prefix, embedder.tokenizer(), embedder.window, model))
        except RagwrightError as error:
            planned.append(error)
    pieces = [piece for plan in planned if isinstance(plan, tuple) for piece in plan[0]]
    empty = np.zeros((0, embedder.dimensions), np.float32)
    vectors = np.asarray(embedder.embed_batch(pieces) if pieces else empty, np.float32)
    lengths = [len(plan[0]) if isinstance(plan, tuple) else 0 for plan in planned]
    return [
        pool_vectors(part, plan[1], normalise) if isinstance(plan, tuple) else plan
        for plan, part in zip(planned, np.split(vectors, np.cumsum(lengths)), strict=False)
    ]


def pool_vectors(vectors: Matrix, counts: Sequence[int], normalise: bool) -> Matrix:
    """Join the vectors of the pieces to those of the texts.

    Args:
        vectors: Shape (pieces, dimensions).
        counts: Number of pieces of each text.
        normalise: A mean is brought to length 1.
    """
    rows = np.zeros((len(counts), vectors.shape[1]), np.float32)
    for row, (end, count) in enumerate(zip(accumulate(counts), counts, strict=True)):
        part = vectors[end - count : end]
        mean = part.astype(np.float64).mean(axis=0, keepdims=True).astype(np.float32)
        rows[row] = part[0] if count == 1 else (unit(mean) if normalise else mean)[0]
    return rows


def cut_texts(
    texts: Sequence[str],
    prefix: str,
    tokenizer: Tokenizer | None,
    window: int | None,
    model: tuple[str, Literal["pool", "refuse"]],
) -> tuple[list[str], list[int]]:
    """Texts as pieces that fit the window, prefixes included, and each text's number of pieces.

    ``model`` is its name and what to do with a text that is longer than the window.

    Raises:
        ModelRefusedError: The prefix alone fills the window, or a long text is refused.
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
    windows = [_text_windows(text, tokenizer, room, long_texts, name) for text in texts]
    return [prefix + piece for row in windows for piece in row], list(map(len, windows))


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
        piece = text[spans[first].start : (spans[last].start if last < len(spans) else len(text))]
        piece_spans = tokenizer.spans(piece)
        if len(piece_spans) > room and len(piece) > 1:
            pieces += _even_pieces(piece, piece_spans, room, tokenizer)
        else:
            pieces.append(piece)
    return pieces


_DECIDE = {".bin", ".json", ".metadata", ".model", ".onnx", ".onnx_data", ".safetensors", ".txt"}
"""Files that determine a model's output: weights, configuration, vocabulary."""


def folder_hash(home: Path) -> str:
    """Hash of the files of a folder that determine the model's output, without opening it.

    Contains names within the folder only, no path of this machine.
    """
    files = sorted(p for p in home.rglob("*") if p.suffix in _DECIDE and p.is_file())
    hashes = (f"{file.relative_to(home).as_posix()}:{file_hash(file)}" for file in files)
    return text_hash(" ".join(hashes))[:32]


def file_hash(path: Path) -> str:
    """The SHA-256 of a file, in hexadecimal digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def replace_surrogates(text: str) -> str:
    """The text with a question mark for each half of a pair: no tokenizer takes them."""
    return text.encode("utf-8", "replace").decode("utf-8")


class WindowReranker(Reranker):
    """Base of cross-encoders: a long passage is scored by windows.

    A passage that does not fit beside the query gets the score of its best window (MaxP; Dai and
    Callan 2019); nothing is cut off.

    Attributes:
        window: Most tokens of query and passage, special ones left out; None for no limit.
        tokens: The model's tokenizer; None means that nothing is cut.
    """

    window: int | None
    tokens: Tokenizer | None

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
        room = None
        if self.window is not None and self.tokens is not None:
            room = self.window - self.tokens.count(query)
            if room < 1:
                raise ModelRefusedError(
                    f"the query fills the window of {self.window} tokens", where=self.identity
                )
        pieces, counts = cut_texts(passages, "", self.tokens, room, (self.identity, "pool"))
        pair_scores = iter(self.pair_scores([(query, piece) for piece in pieces]))
        return [max(islice(pair_scores, count)) for count in counts]
