"""What is searched, what it is searched with, and what comes of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from ..core import Hit, RelaxationLevel, Term
from ..models import Tokenizer, TokenSource
from ._glossary import Glossary

Mode: TypeAlias = Literal["keyword", "dense", "hybrid"]
Ranking: TypeAlias = tuple[tuple[str, float], ...]


@dataclass(frozen=True, slots=True)
class Target:
    """What is searched: one snapshot of an index and the model that embeds queries for it.

    Attributes:
        snapshot: Name of the snapshot, as the index gave it.
        model: Embedding model as configured, empty where the index has no vectors.
        dimensions: Length of a vector, 0 without vectors.
        similarity: ``cosine`` or ``dot``.
        analyzer: Cuts texts into the keyword index's tokens; needed to explain a hit and to
            judge a query's words.
        tokenizer: The embedding model's own, None where it has none or is remote.
        glossary: What codes and abbreviations mean, where one is in use.
    """

    snapshot: str
    model: str = ""
    dimensions: int = 0
    similarity: str = "cosine"
    analyzer: TokenSource | None = field(default=None, compare=False)
    tokenizer: Tokenizer | None = field(default=None, compare=False)
    glossary: Glossary | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Variant:
    """One wording of a query: what each channel searches for, and how much it counts.

    ``keyword`` or ``dense`` is empty where the wording is not for that channel. ``passage``
    says that ``dense`` is written like a document (HyDE), and is embedded as one.
    """

    keyword: str
    dense: str
    weight: float = 1.0
    passage: bool = False


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why a query was answered as it was, for people.

    Attributes:
        terms: What the keyword channel looked for, and how rare each is in the index.
        pieces: The embedding model's tokens of the query, as it sees them.
        weights: Weight of each channel in the fusion.
        reason: Why the weights are what they are.
        ladder: With soft filters: (conditions met, weight, chunks over the threshold), per rung.
        matched: Chunk id -> tokens of the query that the chunk holds.
        seen: Chunk id -> the embedding model's tokens of the chunk's beginning.
        nearest: Chunk id of the first hits of a dense search -> (cosine, sentence) of those of its
            sentences that are nearest to the query, the nearest first.
    """

    terms: tuple[Term, ...] = ()
    pieces: tuple[str, ...] = ()
    weights: Mapping[str, float] = field(default_factory=dict)
    reason: str = ""
    ladder: tuple[tuple[tuple[str, ...], float, int], ...] = ()
    matched: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    seen: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    nearest: Mapping[str, tuple[tuple[float, str], ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Candidates:
    """What the channels found, before any chunk is fetched.

    Attributes:
        query: Query as it was searched.
        mode: Channels that were searched.
        ranking: The ``top_k`` best (chunk id, score) over all channels: BM25 scores for
            ``keyword``, similarities for ``dense``, fused scores for ``hybrid``.
        channels: All that each channel found, best first, by its own scores.
        notes: What the reader should know: a query cut, a channel that found nothing.
        explanation: Terms, weights and ladder; :func:`ragwright.retrieve.explain` adds the rest.
        rungs: With soft filters: chunk id -> what it meets and misses, of every candidate.
    """

    query: str
    mode: Mode
    ranking: Ranking
    channels: Mapping[str, Ranking]
    notes: tuple[str, ...] = ()
    explanation: Explanation = Explanation()
    rungs: Mapping[str, RelaxationLevel] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Retrieved:
    """Hits for a query, best first, and how they were found (see :class:`Candidates`)."""

    query: str
    hits: tuple[Hit, ...]
    mode: str = ""
    notes: tuple[str, ...] = ()
    explanation: Explanation = Explanation()

    @property
    def document_ids(self) -> tuple[str, ...]:
        """Documents of the hits, each once, at the rank of its best chunk."""
        return tuple(dict.fromkeys(hit.document_id for hit in self.hits))
