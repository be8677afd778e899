"""Settings of the section ``retrieve`` of a project file."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

from ..core import ConfigError, Filter, option

SearchKind: TypeAlias = Literal["auto", "keyword", "dense", "hybrid"]


@dataclass(frozen=True, slots=True)
class ChannelWeights:
    """How much each search channel counts in the fusion; 0 leaves a channel out."""

    keyword: float = option(1.0, "Weight of the keyword channel.", ge=0)
    dense: float = option(1.0, "Weight of the vector channel.", ge=0)


@dataclass(frozen=True, slots=True)
class RetrieveOptions:
    """How a query is answered with chunks; every key applies at query time."""

    top_k: int = option(5, "Number of chunks to return.", ge=1)
    search: SearchKind = option(
        "auto", "Channels to search; auto is hybrid where the index has vectors, else keyword."
    )
    rrf_k: int = option(60, "Constant k of reciprocal rank fusion, w / (k + rank).", ge=0)
    weights: ChannelWeights = option(ChannelWeights, "Weight of each channel in the fusion.")
    pool: int = option(100, "Candidates taken from each channel before fusion.", ge=1)
    filters: tuple[Filter, ...] = option((), "Hard metadata conditions; every hit meets all.")
    max_query_chars: int = option(
        10_000, "Longest query, in characters; a longer one is cut and the result says so.", ge=1
    )
    retriever: str = option("", "Own retriever as module:object, in place of all the above.")

    def __post_init__(self) -> None:
        """Refuse, also from Python, what would give wrong hits rather than none."""
        if self.search not in get_args(SearchKind):
            kinds = ", ".join(get_args(SearchKind))
            raise ConfigError(f"unknown search {self.search!r}", hint=f"one of {kinds}")
        for name in ("top_k", "pool", "max_query_chars"):
            value = getattr(self, name)
            if value < 1:
                raise ConfigError(f"{name} must be at least 1, not {value}")
