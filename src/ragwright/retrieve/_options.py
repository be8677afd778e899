"""Settings of the section ``retrieve`` of a project file; filters as typed."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

from ..core import (
    ConfigError,
    Filter,
    FilterError,
    Relaxation,
    SoftFilter,
    group_names,
    holds_secret,
    option,
    prefix_filter,
)


@dataclass(frozen=True, slots=True)
class IterateOptions:
    """Iterative retrieval: searching again with what was found."""

    model: str = option(
        "", "Chat model that reads the passages and searches again; empty: one search."
    )
    rounds: int = option(2, "Most rounds of searching, the first one included.", ge=1, le=8)


QueryMethod: TypeAlias = Literal["rewrite", "subqueries", "hyde", "query2doc", "glossary"]


@dataclass(frozen=True, slots=True)
class QueryOptions:
    """Rewording of a question before the search."""

    methods: tuple[QueryMethod, ...] = option(
        (), "Any of rewrite, subqueries, hyde, query2doc, glossary; all but glossary need a model."
    )
    model: str = option("", "Chat model that rewrites, splits and writes passages.")
    original: float = option(1.0, "Weight of the original question among all wordings.", ge=0)

    def __post_init__(self) -> None:
        """Refuse settings that would silently leave the question unchanged."""
        if set(self.methods) - {"glossary"} and not self.model:
            raise ConfigError(
                f"the query methods {', '.join(self.methods)} need a chat model",
                where="retrieve.query.model",
                hint="name a chat model there, or use the method glossary alone",
            )


RerankMethod: TypeAlias = Literal["auto", "score", "listwise"]


@dataclass(frozen=True, slots=True)
class RerankOptions:
    """A second, stronger model that reorders the hits."""

    model: str = option(
        "",
        "Model that reranks: lexical, hf:ORG/NAME, st:FOLDER, a rerank server, a chat model; "
        "empty: none.",
    )
    method: RerankMethod = option(
        "auto",
        "score or listwise; auto by name: lexical, st:… and …rank… score, others chat.",
    )
    candidates: int = option(30, "Hits that are searched for and reranked.", ge=1)
    search_weight: float = option(
        0.0, "Weight of the search's own order, fused by ranks with the model's (1); 0: none.", ge=0
    )


RouteMethod: TypeAlias = Literal["auto", "index", "model"]


@dataclass(frozen=True, slots=True)
class RouteOptions:
    """The choice of a question's route: index, SQL database, whole corpus, or no retrieval."""

    method: RouteMethod = option(
        "auto",
        "auto (a database or spreadsheet of which the question names a table or column, if a chat "
        "model is set; else the index), index (always), or model.",
    )
    model: str = option("", "Chat model that routes; empty for that of answer.model.")


@dataclass(frozen=True, slots=True)
class SelectOptions:
    """The choice of the hits to keep; nothing is set by default."""

    max_per: Mapping[str, int] = option(
        dict, "Field -> most hits with one value of it, such as document_id: 1."
    )
    balance: str = option("", "Field whose values take turns, so that every value is represented.")
    watch: tuple[str, ...] = option(
        (),
        "Fields for which a note is shown if all hits have the same value and others were found.",
    )

    def __post_init__(self) -> None:
        """Refuse a bound that would leave out every hit."""
        for name, most in self.max_per.items():
            if most < 1:
                raise ConfigError(
                    f"select.max_per: {name} must be at least 1, not {most}",
                    hint="to exclude a value, use a filter",
                )


SHEETS = "sheets"
"""Name of the database that holds the tables of spreadsheets."""


@dataclass(frozen=True, slots=True)
class DatabaseOptions:
    """One SQL database for answering questions, read-only.

    Use a separate role that may only read: the limits here bound what a statement can do, the
    role's rights what it can see.
    """

    name: str = option("", "Name used in routes and citations.")
    address: str = option(
        "", "sqlite:///PATH or postgresql://USER:${VARIABLE}@HOST/NAME; secrets by variable only."
    )
    description: str = option("", "Its content in one sentence, for the model and the router.")
    tables: tuple[str, ...] = option(
        (), "Tables and views that the model sees and may read; empty: all."
    )
    keywords: tuple[str, ...] = option((), "Words that route a question here.")
    groups: tuple[str, ...] = option(
        (), "Groups of readers that may ask it; empty: as `groups.ungrouped` says."
    )
    max_rows: int = option(100, "Most rows of one result.", ge=1, le=10_000)
    max_characters: int = option(100_000, "Most characters of one result.", ge=100)
    timeout: float = option(10.0, "Seconds one statement may take.", gt=0, le=600)

    def __post_init__(self) -> None:
        """Refuse databases that cannot be opened, and secrets in the file.

        Raises:
            ConfigError: No name, no address, an address that holds a password, or groups that are
                none.
        """
        if not re.fullmatch(r"[\w.-]+", self.name):
            raise ConfigError(
                f"{self.name!r} is not a valid database name", hint="letters, digits, - and _"
            )
        if self.groups:
            group_names(self.groups)
        if not self.address:
            raise ConfigError(
                f"the database {self.name!r} has no address", hint="sqlite:///PATH, postgresql://…"
            )
        if holds_secret(self.address):
            raise ConfigError(
                f"the address of the database {self.name!r} holds a password",
                hint="put it into an environment variable and write ${VARIABLE} instead",
            )

    @property
    def readers(self) -> tuple[str, ...]:
        """Its groups of readers, checked; empty where it names none."""
        return group_names(self.groups) if self.groups else ()


_SELECT_POOL = 30
"""Hits that a selection chooses from."""

LEAST_POOL = 100
"""Candidates of a channel where few hits are wanted."""

_POOL_FACTOR = 5
"""Candidates of a channel per hit wanted; decision 5."""

SearchKind: TypeAlias = Literal["auto", "keyword", "dense", "hybrid"]
FusionKind: TypeAlias = Literal["adaptive", "weighted", "rrf"]


@dataclass(frozen=True, slots=True)
class ChannelWeights:
    """Weights of the search channels in the fusion; 0 leaves a channel out.

    For ``rrf`` these are its weights. In sums of scores they multiply the channels' shares.
    """

    keyword: float = option(1.0, "Weight of the keyword channel.", ge=0, allow_inf_nan=False)
    dense: float = option(1.0, "Weight of the vector channel.", ge=0, allow_inf_nan=False)


@dataclass(frozen=True, slots=True)
class SoftFilterOptions:
    """A metadata condition that hits should meet, and its weight."""

    field: str = option("", "Metadata field.")
    values: tuple[str | int | float | bool, ...] = option((), "Any of these values.")
    low: str | int | float | None = option(None, "Least value, if no values are given.")
    high: str | int | float | None = option(None, "Greatest value, if no values are given.")
    weight: float = option(1.0, "Weight of the condition.", ge=0)
    exclude: bool = option(
        False, "Invert: met by hits with none of these values, or nothing in the range."
    )

    def soft(self) -> SoftFilter:
        """The condition as a filter.

        Raises:
            FilterError: It states no condition.
        """
        condition = Filter(self.field, self.values, self.low, self.high, self.exclude)
        return SoftFilter(condition, self.weight)


@dataclass(frozen=True, slots=True)
class RetrieveOptions:
    """Settings of retrieval; every key applies at query time."""

    top_k: int = option(5, "Number of chunks to return.", ge=1)
    context_tokens: int | None = option(
        None,
        "Tokens of chunks to return in place of top_k: as many of the best as fit, at least one, "
        "for comparing chunk sizes at equal length.",
        ge=1,
    )
    search: SearchKind = option(
        "auto",
        "keyword or dense alone, or hybrid, which needs vectors; auto: hybrid if the index has "
        "vectors, else keyword.",
    )
    fusion: FusionKind = option(
        "adaptive",
        "How hybrid search combines its channels: adaptive (sum of scores, weighted for each "
        "query), "
        "weighted (sum of scores, fixed weights), rrf (sum of reciprocal ranks).",
    )
    keyword_share: float = option(
        0.2,
        "Share of the keyword channel in a sum of scores; adaptive fusion starts from it.",
        ge=0,
        le=1,
    )
    weights: ChannelWeights = option(ChannelWeights, "Weight of each channel in the fusion.")
    pool: int | None = option(
        None,
        "Candidates taken from each channel before fusion; empty: five times the hits wanted, at "
        "least 100.",
        ge=1,
    )
    filters: tuple[Filter, ...] = option(
        (), "Hard metadata conditions that every hit meets; with exclude: true, no hit meets it."
    )
    soft: tuple[SoftFilterOptions, ...] = option(
        (), "Soft metadata conditions: hits are ranked first by the weights of those they meet."
    )
    threshold: float | None = option(
        None, "Least similarity of a hit (in keyword search: least BM25 score); none by default."
    )
    unfiltered: bool = option(True, "With soft filters: hits that meet none come last.")
    max_query_chars: int = option(
        10_000, "Longest query, in characters; a longer one is cut and the result says so.", ge=1
    )
    query: QueryOptions = option(QueryOptions, "Rewording of the question.")
    glossary: str = option(
        "corpus", "Meanings of codes, for the method glossary: a file, or corpus to mine the index."
    )
    iterate: IterateOptions = option(IterateOptions, "Searching again with what was found.")
    rerank: RerankOptions = option(RerankOptions, "A stronger model that reorders the hits.")
    stages: tuple[str, ...] = option(
        (), "Stages of plug-ins between search and selection, in order: names or module:object."
    )
    select: SelectOptions = option(SelectOptions, "Which of the found chunks are kept.")
    route: RouteOptions = option(
        RouteOptions, "Choice of the route: index, database, whole corpus or none."
    )
    databases: tuple[DatabaseOptions, ...] = option(
        (), "SQL databases to which questions may be routed, read-only: name, address, description."
    )

    @property
    def candidates(self) -> int:
        """Number of candidates taken from each channel."""
        if self.pool is not None:
            return max(self.pool, self.top_k)
        return max(LEAST_POOL, _POOL_FACTOR * self.top_k)

    def relaxation(self) -> Relaxation | None:
        """Soft filters and threshold of a search, None if there are none.

        Raises:
            FilterError: A soft filter states no condition.
        """
        if not self.soft and self.threshold is None:
            return None
        soft = tuple(soft_filter.soft() for soft_filter in self.soft)
        return Relaxation(soft, self.threshold, self.unfiltered or not soft)


def select_depth(top_k: int, options: SelectOptions) -> int:
    """Number of hits to search for, as a pool for the selection."""
    return max(_SELECT_POOL, top_k) if options != SelectOptions() else top_k


_BOUNDS = re.compile(r"(?P<low>.*[^./|])?\.\.(?P<high>[^./|].*)?", re.DOTALL)
"""Two dots without a further dot, slash or bar next to them: not ``../a``, ``Wait...``, ``..``."""


def parse_filter(text: str) -> Filter:
    """A hard filter from a text: ``party=D``, ``topic!=health|tax``, ``year=2019..2021``.

    ``field=value``, ``field=value|value`` for any of several, ``field=low..high`` for inclusive
    bounds, one of which may be missing, ``field=start*`` for values that begin so; other uses of
    ``|``, ``..`` or ``*`` are plain values. ``!=`` in
    place of ``=`` excludes: hits must not match. ``field=*`` is any value, ``field!=*`` none: the
    field is missing. Values are compared as text, so that ``2021`` also
    matches the number, and ``true`` the boolean.

    Raises:
        FilterError: The text is of another form, or the field's name ends in ``!``.
    """
    field, sign, value = text.partition("=")
    exclude = field.rstrip().endswith("!")
    field, value = field.strip().removesuffix("!").rstrip(), value.strip()
    if not (field and sign and value):
        raise FilterError(
            f"cannot read {text!r} as a filter",
            hint="write field=value, field=value|value, field=low..high or field=start*; != "
            "excludes, and field!=* asks for what lacks the field",
        )
    bounds = _BOUNDS.fullmatch(value) if value.count("..") == 1 and "|" not in value else None
    low, high = (bounds["low"] or "", bounds["high"] or "") if bounds else ("", "")
    if low.strip() or high.strip():
        return Filter(field, (), low.strip() or None, high.strip() or None, exclude)
    if value.endswith("*") and "|" not in value:
        return prefix_filter(field, value[:-1], exclude=exclude)
    values = tuple(part.strip() for part in value.split("|") if part.strip())
    return Filter(field, values, exclude=exclude)


def parse_soft_filter(text: str) -> SoftFilterOptions:
    """A soft filter: a filter with its weight behind a caret, ``lang!=fr^3``; 1 without.

    Raises:
        FilterError: The text is of another form, or the weight is not a number from 0.
    """
    condition, caret, weight = text.rpartition("^")
    if not caret:
        condition, weight = text, "1"
    try:
        number = float(weight)
    except ValueError:
        number = math.nan
    if not 0 <= number < math.inf:
        raise FilterError(
            f"the weight {weight!r} of {condition!r} must be a number of at least 0",
            hint="write field=value^3",
        )
    condition_read = parse_filter(condition)
    return SoftFilterOptions(
        condition_read.field,
        condition_read.values,
        condition_read.low,
        condition_read.high,
        number,
        condition_read.exclude,
    )
