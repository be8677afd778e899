"""The index to search, the wordings of a query, the results, and the stages of plug-ins."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, TypeAlias, overload

from ..core import (
    ChannelScore,
    Hit,
    PluginError,
    RagwrightError,
    RelaxationLevel,
    RetrieveError,
    Term,
    count_noun,
    frame_of,
    html_table,
    load_addition,
)
from ..flow import Flow, Lookup, LookupReply, send
from ..models import Analyzer, Tokenizer
from ._glossary import Glossary

Mode: TypeAlias = str
"""The one channel that was searched, or ``hybrid``."""

Ranking: TypeAlias = tuple[tuple[str, float], ...]


class Stage(ABC):
    """A stage of the search: a flow from the hits of the search to those that selection sees.

    Attributes:
        name: Name of the stage: in ``retrieve --explain``, and of its section of settings.
        settings: Option record of that section; None for a stage without settings.
        depth: Least number of hits that it gets; ``top_k`` if that is more.

    Args:
        options: The settings, an instance of ``settings``; by default its defaults.
    """

    name: str = ""
    settings: ClassVar[type[Any] | None] = None
    depth: int = 0

    def __init__(self, options: Any = None) -> None:
        default = self.settings() if self.settings is not None else None
        self.options: Any = default if options is None else options

    @abstractmethod
    def apply(self, question: str, hits: tuple[Hit, ...], target: Target) -> Flow[tuple[Hit, ...]]:
        """The hits in the order wanted; their ranks are set afterwards.

        Args:
            question: The question as it was asked.
            hits: Hits of the search, best first, after any reranking.
            target: The index that is searched, for requests of the stage's own.
        """


@dataclass(frozen=True, slots=True)
class Target:
    """The index to search: a snapshot and the model that embeds queries for it.

    Attributes:
        snapshot: Name of the snapshot, as the index gave it.
        model: Embedding model as configured, empty where the index has no vectors.
        dimensions: Length of a vector, 0 without vectors.
        similarity: ``cosine`` or ``dot``.
        analyzer: Cuts texts into the keyword index's tokens; needed to explain a hit and to
            judge a query's words.
        tokenizer: The embedding model's own, None if it has none or is remote.
        glossary: Meanings of codes and abbreviations, if a glossary is used.
        stages: Stages of plug-ins that the hits of the search go through, in order.
    """

    snapshot: str
    model: str = ""
    dimensions: int = 0
    similarity: str = "cosine"
    analyzer: Analyzer | None = field(default=None, compare=False)
    tokenizer: Tokenizer | None = field(default=None, compare=False)
    glossary: Glossary | None = field(default=None, compare=False)
    stages: tuple[Stage, ...] = field(default=(), compare=False)


@dataclass(frozen=True, slots=True)
class Variant:
    """One wording of a query: the texts for each channel, and its weight.

    ``keyword`` or ``dense`` is empty if the wording is not for that channel. ``passage``
    says that ``dense`` is written like a document (HyDE), and is embedded as one.
    """

    keyword: str
    dense: str
    weight: float = 1.0
    passage: bool = False


@dataclass(frozen=True, slots=True)
class Explanation:
    """Explanation of a search, for display.

    Attributes:
        terms: Terms of the keyword channel, and how rare each is in the index.
        pieces: The embedding model's tokens of the query.
        weights: Weight of each channel in the fusion.
        reason: The reason for the weights.
        ladder: With soft filters: (conditions met, weight, chunks over the threshold), per
            relaxation level.
        words: Token of the query -> the word that it comes from, as the user wrote it.
        matched: Chunk id -> tokens of the query that the chunk holds.
        seen: Chunk id -> the embedding model's tokens of the chunk's beginning.
        nearest: Chunk id of the first hits of a dense search -> (cosine, sentence) of those of its
            sentences that are nearest to the query, the nearest first.
        heads: Chunk id -> what the chunk is searched with besides its text: title, headings, the
            header row of its table, a sentence that a model wrote.
    """

    terms: tuple[Term, ...] = ()
    pieces: tuple[str, ...] = ()
    weights: Mapping[str, float] = field(default_factory=dict)
    reason: str = ""
    ladder: tuple[tuple[tuple[str, ...], float, int], ...] = ()
    words: Mapping[str, str] = field(default_factory=dict)
    matched: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    seen: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    nearest: Mapping[str, tuple[tuple[float, str], ...]] = field(default_factory=dict)
    heads: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Candidates:
    """The results of the channels, before any chunk is fetched.

    Attributes:
        query: Query as it was searched.
        mode: Channels that were searched.
        ranking: The ``top_k`` best (chunk id, score) over all channels: BM25 scores for
            ``keyword``, similarities for ``dense``, fused scores for ``hybrid``.
        channels: The results of each channel, best first, with its own scores.
        notes: Notes for the user: a query that was cut, a channel that found nothing.
        explanation: Terms, weights and levels; :func:`ragwright.retrieve.explain` adds the rest.
        rungs: With soft filters: chunk id -> relaxation level, of every candidate.
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

    def __len__(self) -> int:
        """Number of hits."""
        return len(self.hits)

    def __bool__(self) -> bool:
        """True, also without hits: it is the result of a search, not a list."""
        return True

    def __iter__(self) -> Iterator[Hit]:
        """The hits, best first."""
        return iter(self.hits)

    @overload
    def __getitem__(self, at: int) -> Hit: ...
    @overload
    def __getitem__(self, at: slice) -> tuple[Hit, ...]: ...
    def __getitem__(self, at: int | slice) -> Hit | tuple[Hit, ...]:
        """The hit at a position from 0, or those of a slice."""
        return self.hits[at]

    def __repr__(self) -> str:
        """The query, the number of hits and the best one."""
        best = f", the first {self.hits[0]!r}" if self.hits else ""
        return f"<Retrieved {self.query!r}: {count_noun(len(self.hits), 'hit')}{best}>"

    def _repr_html_(self) -> str:
        """The hits as a table, for a notebook."""
        names = ("rank", "score", "source", "page", "start", "end", "text")
        lines = ([getattr(hit, name) for name in names] for hit in self.hits)
        return html_table(names, lines, self.query)

    def to_pandas(self) -> Any:
        """A data frame with one line per hit: rank, score, ids, place, text, metadata.

        Raises:
            MissingExtraError: pandas is not installed.
        """
        names = ("rank", "score", "document_id", "chunk_id", "source", "title", "page", "start")
        more = ("end", "text", "metadata")
        return frame_of(
            [{name: getattr(hit, name) for name in (*names, *more)} for hit in self.hits]
        )


Hits: TypeAlias = tuple[Hit, ...]


class StageHooks:
    """Hooks that may change the hits between stages; this class leaves them as they are.

    One is made for each search. If the search has several rounds (``retrieve.iterate``),
    ``after_search`` and ``after_rerank`` are called in each round.

    Attributes:
        depth: Least number of candidates that the search fetches; fetching more than configured
            does not change hits by itself.
    """

    depth: int = 0

    def after_search(self, hits: Hits) -> Hits:
        """Candidates of the search, best first, before any reranking."""
        return hits

    def after_rerank(self, hits: Hits) -> Hits:
        """The reranked candidates, before selection and cut."""
        return hits

    def after_selection(self, hits: Hits) -> Hits:
        """The hits after selection and ``top_k``, as they are returned."""
        return hits


def open_stages(names: Iterable[str], options: Callable[[str], Any]) -> tuple[Stage, ...]:
    """The stages that settings name, in order.

    Args:
        names: Names of installed stages, or ``module:object``.
        options: Gives the settings of a section.

    Raises:
        PluginError: One is not installed, or not a stage.
    """
    return tuple(_open_stage(name, options) for name in names)


def run_stages(question: str, hits: tuple[Hit, ...], target: Target) -> Flow[tuple[Hit, ...]]:
    """The hits after every stage of the target, with ranks from 1.

    Each hit gets its rank and score after a stage under the stage's name in ``channels``.

    Raises:
        PluginError: A stage fails, or returns something else than different hits of the index.
    """
    for stage in target.stages:
        flow = stage.apply(question, hits, target)
        if not isinstance(flow, Generator):
            raise _failed(stage, "apply is not a flow: write `yield from ()` before its return")
        try:
            returned = yield from flow
        except RagwrightError:
            raise
        except Exception as error:
            raise _failed(stage, f"{type(error).__name__}: {error}") from error
        ranked = tuple(_ranked(stage, returned))
        before = {hit.chunk_id for hit in hits}
        more = tuple(hit.chunk_id for hit in ranked if hit.chunk_id not in before)
        try:
            if more:
                yield from send(Lookup(target.snapshot, more), LookupReply)
        except RetrieveError as error:
            reason = f"it returned a hit that is not in the index: {error}"
            raise _failed(stage, reason) from error
        hits = ranked
    return hits


def _ranked(stage: Stage, returned: Sequence[Hit]) -> Iterable[Hit]:
    if not isinstance(returned, Sequence) or not all(isinstance(hit, Hit) for hit in returned):
        raise _failed(stage, f"it returned {type(returned).__name__}, not a tuple of hits")
    if len({hit.chunk_id for hit in returned}) != len(returned):
        raise _failed(stage, "it returned a chunk twice")
    if not all(math.isfinite(hit.score) for hit in returned):
        raise _failed(stage, "it returned a score that is not a number")
    for rank, hit in enumerate(returned, 1):
        yield replace(
            hit, rank=rank, channels={**hit.channels, stage.name: ChannelScore(rank, hit.score)}
        )


def _open_stage(name: str, options: Callable[[str], Any]) -> Stage:
    where = "retrieve.stages"
    extension = load_addition("stages", name, where=where)
    if isinstance(extension, type) and issubclass(extension, Stage):
        section = extension.name or name
        settings = options(section) if extension.settings else None
        if extension.settings and not isinstance(settings, extension.settings):
            raise PluginError(
                f"{name!r} cannot have the settings of the section {section!r}: it is ragwright's",
                where=where,
                hint="give it another name",
            )
        try:
            extension = extension(settings)
        except TypeError as error:  # a method that it must have is missing
            raise PluginError(f"{name!r} cannot be made: {error}", where=where) from error
    if not isinstance(extension, Stage):
        raise PluginError(
            f"{name!r} is not a stage", where=where, hint="subclass Stage of ragwright.retrieve"
        )
    if not extension.name:
        if ":" in name:
            raise PluginError(f"{name!r} has no name", where=where, hint="set its attribute name")
        extension.name = name
    return extension


def _failed(stage: Stage, reason: str) -> PluginError:
    return PluginError(
        f"the stage {stage.name!r} failed: {reason}",
        where="retrieve.stages",
        hint="test it with StageSuite of ragwright.testing",
    )
