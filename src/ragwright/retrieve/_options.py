"""Settings of the section ``retrieve`` of a project file."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

from ..core import ConfigError, Filter, Relaxation, SoftFilter, option
from ._expand import ExpandOptions
from ._iterate import IterateOptions
from ._query import QueryOptions
from ._rerank import RerankOptions
from ._route import RouteOptions
from ._select import SelectOptions
from ._tables import DatabaseOptions

SearchKind: TypeAlias = Literal["auto", "keyword", "dense", "hybrid"]
FusionKind: TypeAlias = Literal["adaptive", "weighted", "rrf"]


@dataclass(frozen=True, slots=True)
class ChannelWeights:
    """How much each search channel counts in the fusion; 0 leaves a channel out.

    For ``rrf`` these are its weights. In sums of scores they multiply the channels' shares.
    """

    keyword: float = option(1.0, "Weight of the keyword channel.", ge=0)
    dense: float = option(1.0, "Weight of the vector channel.", ge=0)

    def __post_init__(self) -> None:
        """Refuse, also from Python, what is no weight."""
        for name in ("keyword", "dense"):
            value = getattr(self, name)
            if not 0 <= value < math.inf:
                raise ConfigError(
                    f"weights.{name} must be finite and at least 0, not {value}",
                    hint="0 leaves the channel out",
                )


@dataclass(frozen=True, slots=True)
class SoftFilterOptions:
    """A metadata condition that hits should meet, and how much that counts."""

    field: str = option("", "Metadata field.")
    values: tuple[str | int | float | bool, ...] = option((), "Any of these values.")
    low: str | int | float | None = option(None, "Least value, where no values are given.")
    high: str | int | float | None = option(None, "Greatest value, where no values are given.")
    weight: float = option(1.0, "How much meeting it counts.", ge=0)

    def soft(self) -> SoftFilter:
        """The condition as a search takes it.

        Raises:
            FilterError: It states no condition.
        """
        return SoftFilter(Filter(self.field, self.values, self.low, self.high), self.weight)


@dataclass(frozen=True, slots=True)
class RetrieveOptions:
    """How a query is answered with chunks; every key applies at query time."""

    top_k: int = option(5, "Number of chunks to return.", ge=1)
    context_tokens: int | None = option(
        None,
        "Tokens of chunks to return in place of top_k: as many of the best as fit, at least one, "
        "so that chunk sizes compare at equal length.",
        ge=1,
    )
    search: SearchKind = option(
        "auto", "Channels to search; auto is hybrid where the index has vectors, else keyword."
    )
    fusion: FusionKind = option(
        "adaptive",
        "How hybrid search joins its channels: adaptive (sum of scores, weighted for each query), "
        "weighted (sum of scores, fixed weights), rrf (sum of reciprocal ranks).",
    )
    keyword_share: float = option(
        0.2,
        "Share of the keyword channel in a sum of scores; adaptive fusion starts from it.",
        ge=0,
        le=1,
    )
    rrf_k: int = option(60, "Constant k of reciprocal rank fusion, w / (k + rank).", ge=0)
    weights: ChannelWeights = option(ChannelWeights, "Weight of each channel in the fusion.")
    pool: int = option(100, "Candidates taken from each channel before fusion.", ge=1)
    filters: tuple[Filter, ...] = option((), "Hard metadata conditions; every hit meets all.")
    soft: tuple[SoftFilterOptions, ...] = option(
        (), "Soft metadata conditions: hits are ranked by the weights of those they meet first."
    )
    threshold: float | None = option(
        None, "Least similarity of a hit (in keyword search: least BM25 score); none by default."
    )
    unfiltered: bool = option(True, "With soft filters: hits that meet none come last.")
    max_query_chars: int = option(
        10_000, "Longest query, in characters; a longer one is cut and the result says so.", ge=1
    )
    query: QueryOptions = option(QueryOptions, "Other words for the question.")
    glossary: str = option(
        "corpus", "What codes mean, for the method glossary: a file, or corpus to mine the index."
    )
    iterate: IterateOptions = option(IterateOptions, "Searching again with what was read.")
    rerank: RerankOptions = option(RerankOptions, "A stronger model that orders what was found.")
    select: SelectOptions = option(SelectOptions, "Which of the found chunks are kept.")
    expand: ExpandOptions = option(ExpandOptions, "What is shown around each hit.")
    route: RouteOptions = option(RouteOptions, "Where the answer to a question is looked for.")
    databases: tuple[DatabaseOptions, ...] = option(
        (), "SQL databases that questions may be routed to, read-only: name, address, description."
    )
    retriever: str = option("", "Own retriever as module:object, in place of all the above.")

    def __post_init__(self) -> None:
        """Refuse, also from Python, what would give wrong hits rather than none."""
        if self.search not in get_args(SearchKind):
            kinds = ", ".join(get_args(SearchKind))
            raise ConfigError(f"unknown search {self.search!r}", hint=f"one of {kinds}")
        if self.fusion not in get_args(FusionKind):
            kinds = ", ".join(get_args(FusionKind))
            raise ConfigError(f"unknown fusion {self.fusion!r}", hint=f"one of {kinds}")
        if not 0 <= self.keyword_share <= 1:
            raise ConfigError(f"keyword_share must be 0 to 1, not {self.keyword_share}")
        for name in ("top_k", "context_tokens", "pool", "max_query_chars"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ConfigError(f"{name} must be at least 1, not {value}")

    def relaxation(self) -> Relaxation | None:
        """Soft filters and threshold as a search takes them, None where there are none.

        Raises:
            FilterError: A soft filter states no condition.
        """
        if not self.soft and self.threshold is None:
            return None
        soft = tuple(one.soft() for one in self.soft)
        return Relaxation(soft, self.threshold, self.unfiltered or not soft)
