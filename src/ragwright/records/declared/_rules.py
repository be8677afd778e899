"""``rules.yaml``: length groups, refinements, contradictions, duplicates."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ...core import Placed, RecordsError, option, suggest_name, value_hash
from .._patterns import Pattern
from .._seams import FIELDS, KEYLESS, TAG_KINDS
from ._cleaning import Tags, read_keys, read_pattern, read_text, read_texts

_TAKEN = ("kind", "text", "document", "message_at", "record_key", "record_hash", "left_out")


@dataclass(frozen=True, slots=True)
class LengthGroup:
    """Texts under this number of characters (code points) that are in no group before; None: the
    rest.
    """

    name: str
    under: int | None


DEFAULT_GROUPS = (LengthGroup("short", 160), LengthGroup("medium", 400), LengthGroup("long", None))


@dataclass(frozen=True, slots=True)
class Condition:
    """One line of an ``if``.

    Attributes:
        field: Field of a record, or column of the source (or ``text``) if there is a pattern.
        values: Any of these; empty if there is a pattern.
        pattern: Must be found in the column.
    """

    field: str
    values: tuple[str, ...] = ()
    pattern: Pattern | None = None


@dataclass(frozen=True, slots=True)
class Refinement:
    """If all conditions hold, fields are set; per field the first matching rule counts."""

    conditions: tuple[Condition, ...]
    values: tuple[tuple[str, tuple[str, ...]], ...]


@dataclass(frozen=True, slots=True)
class Contradiction:
    """Rows with all of these tags are left out."""

    name: str
    tags: tuple[str, ...] = option(dataclasses.MISSING, "Two tags or more.", min_length=2)


@dataclass(frozen=True, slots=True)
class Rules:
    """Rules that turn tagged rows into records.

    Attributes:
        length_groups: In order, with increasing bounds.
        refinements: In order.
        contradictions: In order; the first that applies is the reason.
        duplicates_by: Columns besides the clean text in which duplicates agree.
        pattern_seconds: Seconds a pattern may take on one row.
    """

    length_groups: tuple[LengthGroup, ...] = DEFAULT_GROUPS
    refinements: tuple[Refinement, ...] = ()
    contradictions: tuple[Contradiction, ...] = ()
    duplicates_by: tuple[str, ...] = ()
    pattern_seconds: float = 1.0

    @property
    def fingerprint(self) -> str:
        """Hash of everything it says."""
        said = dataclasses.asdict(self)
        for rule in said["refinements"]:
            for condition in rule["conditions"]:
                condition["pattern"] = condition["pattern"] and condition["pattern"]["find"]
        return value_hash({**said, "pattern_seconds": None})

    @property
    def fields(self) -> tuple[str, ...]:
        """New fields that rules set, in order of first mention."""
        named = (name for rule in self.refinements for name, _ in rule.values)
        return tuple(dict.fromkeys(name for name in named if name not in TAG_KINDS))

    def lengths_of(self, characters: NDArray[Any]) -> list[str | None]:
        """The group of each text by its length; None if it is in no group."""
        groups = np.full(len(characters), len(self.length_groups))
        for at, group in reversed(list(enumerate(self.length_groups))):
            groups[characters < group.under if group.under is not None else slice(None)] = at
        names = [*(group.name for group in self.length_groups), None]
        return [names[at] for at in groups]

    def bounds(self, name: str) -> tuple[int, int | None]:
        """Bounds of a length group in characters (lower inclusive, upper exclusive); (0, None)
        without a group.
        """
        least = 0
        for group in self.length_groups:
            if group.name == name:
                return least, group.under
            least = group.under or least
        return 0, None


@dataclass(frozen=True, slots=True)
class _RulesKeys:
    length_groups: Mapping[str, int | None] = option(dict, "Bound of each group, or null.")
    refine: tuple[Any, ...] = option((), "Refinements, each {if: …, set: …}.")
    contradictions: tuple[Contradiction, ...] = option((), "Tags that contradict each other.")
    duplicates_by: tuple[str, ...] = option((), "Columns in which duplicates agree too.")
    pattern_seconds: float = option(1.0, "Seconds a pattern may take on one row.", gt=0)


def read_rules(placed: Placed, tags: Tags | None, kept: Sequence[str] = ()) -> Rules:
    """The rules in a file.

    Args:
        placed: The file.
        tags: Tags that rules may name; None if unknown.
        kept: Columns that source.yaml keeps; no rule may set them.

    Raises:
        RecordsError: A rule cannot hold, or a pattern does not compile.
        ConfigError: A key or a value is wrong.
    """
    keys = read_keys(_RulesKeys, placed)
    groups = tuple(LengthGroup(*group) for group in keys.length_groups.items()) or DEFAULT_GROUPS
    bounds = [0, *(math.inf if group.under is None else group.under for group in groups)]
    if any(below >= above for below, above in pairwise(bounds)):
        raise RecordsError(
            "length groups must increase; the one without a bound (null) comes last",
            where=placed.where("length_groups"),
        )
    for at, rule in enumerate(keys.contradictions):
        for tag in rule.tags:
            if tags is not None and tag not in tags.names:
                raise RecordsError(
                    f"unknown tag {tag!r}",
                    where=placed.where("contradictions", str(at), "tags"),
                    hint=suggest_name(tag, tags.names) if tags.names else "tags.yaml has no tags",
                )
    # None: any value will do
    known: dict[str, set[str] | None] = {
        kind: None if tags is None else set(tags.displays(kind)) for kind in TAG_KINDS
    }
    known |= {"length": {group.name for group in groups}, "client": None}
    refinements = _refinements(keys.refine, placed, known, kept)
    return Rules(groups, refinements, keys.contradictions, keys.duplicates_by, keys.pattern_seconds)


def _refinements(
    items: Sequence[Any], placed: Placed, known: dict[str, set[str] | None], kept: Sequence[str]
) -> tuple[Refinement, ...]:
    """The refinements; what they set may be named by those after them."""
    refinements = []
    for at, item in enumerate(items):
        path = ("refine", str(at))
        parts = item if isinstance(item, dict) else {}
        if parts.keys() != {"if", "set"} or not all(
            value and isinstance(value, dict) for value in parts.values()
        ):
            raise RecordsError(
                "a refinement needs both if: and set:",
                where=placed.where(*path),
                hint="- {if: {ask_type: money, text: PATTERN}, set: {fundraising_type: match}}",
            )
        conditions = tuple(
            _condition(name, wanted, placed, known, (*path, "if", name))
            for name, wanted in parts["if"].items()
        )
        values = tuple(
            (name, _values(name, value, placed, (*path, "set", name)))
            for name, value in parts["set"].items()
        )
        for name, several in values:
            if name in kept:
                raise RecordsError(
                    f"the rule sets {name!r}, which is a column that source.yaml keeps",
                    where=placed.where(*path, "set", name),
                    hint="give the field another name, or rename the column in source.yaml",
                )
            allowed = known.setdefault(name, set())
            if allowed is not None:
                allowed.update(several)
        refinements.append(Refinement(conditions, values))
    return tuple(refinements)


def _condition(
    name: str,
    wanted: Any,
    placed: Placed,
    known: Mapping[str, set[str] | None],
    path: tuple[str, ...],
) -> Condition:
    """A condition on a field that tags or earlier rules give, or a pattern over a column."""
    if name not in known:
        return Condition(name, (), read_pattern(wanted, placed, *path))
    values, allowed = read_texts(wanted, placed, *path), known[name]
    for value in values:
        if allowed is not None and value not in allowed:
            raise RecordsError(
                f"no tag or earlier rule gives a record the {name} {value!r}",
                where=placed.where(*path),
                hint=suggest_name(value, allowed) if allowed else f"there is no {name}",
            )
    return Condition(name, values)


def _values(name: str, value: Any, placed: Placed, path: tuple[str, ...]) -> tuple[str, ...]:
    """What a rule sets a field to."""
    if name in _TAKEN or (name in FIELDS and name not in TAG_KINDS):
        raise RecordsError(
            f"a rule cannot set {name!r}",
            where=placed.where(*path),
            hint=f"{', '.join(TAG_KINDS)}, or a new name",
        )
    if name in TAG_KINDS:
        return read_texts(value, placed, *path) if value else ()
    return (read_text(value, placed, *path),)


OnDuplicate: TypeAlias = Literal["error", "first", "last"]

_RESERVED = {
    "record_key",
    "record_hash",
    "left_out",
    "kind",
    "stage",
    "document",
    "message_at",
    "text_hash",
    "tags",
    "text",
    "ask_type",
    "topic",
    "tone",
    "length",
}
"""Column names of the tables that other columns must not have."""


@dataclass(frozen=True, slots=True)
class SourceKeys:
    """The keys of source.yaml. Columns have their names after ``rename``."""

    source: str = option("", "File, folder, glob, or address of a database.")
    query: str = option("", "SQL that gives the rows (databases).")
    key: str = option("", "Column that identifies a row.")
    text: str = option("", "Column with the text.")
    hash: tuple[str, ...] = option((), "Columns that decide whether a row changed; all if empty.")
    keep: tuple[str, ...] = option((), "Columns kept as metadata of documents.")
    rename: Mapping[str, str] = option(dict, "New name by column.")
    require: tuple[str, ...] = option((), "Columns without which a row is left out.")
    watermark: str = option(
        "", "Column that only increases: a database is read from its highest value."
    )
    on_duplicate: OnDuplicate = option(
        "error", "For different rows with the same key: error, first or last."
    )
    encoding: str = option("", "Encoding of text files; empty: UTF-8.")
    delimiter: str = option("", "Delimiter of CSV files; empty: detected.")


@dataclass(frozen=True, slots=True)
class SourceSpec(SourceKeys):
    """The source of rows.

    Attributes:
        places: ``file:line`` of every key that is given, or the flag; of ``""`` the file.
    """

    places: Mapping[str, str] = dataclasses.field(default_factory=dict, compare=False, repr=False)

    @property
    def fingerprint(self) -> str:
        """Hash of everything it says."""
        return value_hash({**dataclasses.asdict(self), "places": None})

    def place(self, key: str) -> str:
        """``file:line`` of a key, or of the file if it is not given."""
        return self.places.get(key) or self.places.get("", "source.yaml")

    def instead(self, given: Mapping[str, Any]) -> SourceSpec:
        """A copy with other values for some keys; their place is the flag."""
        if not given:
            return self
        flags = {key: f"--{key}" for key, value in given.items() if value}
        if "query" in given:  # another source, for which this query does not apply
            flags.setdefault("query", flags.get("source", self.place("query")))
        return dataclasses.replace(self, **given, places={**self.places, **flags})

    def complete(self) -> SourceSpec:
        """Itself, if source, key and text are all given.

        Raises:
            RecordsError: One is missing; with the key and its flag.
        """
        for key in ("source", "key", "text"):
            if not getattr(self, key):
                raise RecordsError(
                    f"the {key} of the rows is not set"
                    if key == "source"
                    else f"the column with the {key} of a row is not set",
                    where=self.place(key),
                    hint=f"write {key}: … there, or give --{key}" + f"; {KEYLESS}" * (key == "key"),
                )
        return self


def read_source_spec(placed: Placed) -> SourceSpec:
    """The spec in a file.

    Raises:
        RecordsError: A column is kept whose name the tables need.
        ConfigError: A key or a value is wrong.
    """
    keys = read_keys(SourceKeys, placed)
    for name in keys.keep:
        if name in _RESERVED:
            raise RecordsError(
                f"keep: {name!r} is a column that a refresh makes",
                where=placed.where("keep"),
                hint=f"give the column another name: rename: {{{name}: source_{name}}}",
            )
    places = {key: placed.where(key) for key in ("", *(placed.value or ()))}
    return SourceSpec(**dataclasses.asdict(keys), places=places)
