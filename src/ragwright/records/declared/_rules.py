"""``rules.yaml``: length groups, refinements, contradictions, duplicates."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ...core import ConfigError, RecordsError, build_options, option, suggest_name, value_hash
from .._patterns import Pattern
from .._seams import FIELDS, KEYLESS, TAG_KINDS
from ._file import DeclaredFile, Tags, make_plain, make_records_error, read_pattern, read_seconds

_TAKEN = ("kind", "text", "document", "message_at", "record_key", "record_hash", "left_out")


@dataclass(frozen=True, slots=True)
class LengthGroup:
    """Texts under this number of characters (code points) that are in no group before; None: the
    rest.
    """

    name: str
    under: int | None


DEFAULT_GROUPS = (
    LengthGroup("short", 160),
    LengthGroup("medium", 400),
    LengthGroup("long", None),
)


@dataclass(frozen=True, slots=True)
class Condition:
    """One line of an ``if``.

    Attributes:
        field: Field of a record, or column of the source (or ``text``) if there is a pattern.
        values: Any of these; empty if there is a pattern.
        pattern: Must be found in the column.
        place: ``file:line``.
    """

    field: str
    values: tuple[str, ...] = ()
    pattern: Pattern | None = None
    place: str = dataclasses.field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class Refinement:
    """If all conditions hold, fields are set; per field the first matching rule counts."""

    conditions: tuple[Condition, ...]
    values: tuple[tuple[str, tuple[str, ...]], ...]
    place: str = dataclasses.field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class Contradiction:
    """Rows with all of these tags are left out."""

    name: str
    tags: tuple[str, ...]
    place: str = dataclasses.field(default="", compare=False)


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
        rules = [
            [
                [[c.field, list(c.values), c.pattern and c.pattern.find] for c in r.conditions],
                [[name, list(values)] for name, values in r.values],
            ]
            for r in self.refinements
        ]
        groups = [[g.name, g.under] for g in self.length_groups]
        against = [[c.name, list(c.tags)] for c in self.contradictions]
        return value_hash([groups, rules, against, list(self.duplicates_by)])

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


def read_rules(declared: DeclaredFile, tags: Tags | None) -> Rules:
    """The rules in a file's values; faults are noted.

    Args:
        declared: The file.
        tags: Tags that rules may name; None if unknown.
    """
    from_ = ("length_groups", "refine", "contradictions", "duplicates_by", "pattern_seconds")
    values = declared.keys(from_)
    groups = _groups(declared, values.get("length_groups"))
    refinements = _refinements(declared, values.get("refine"), tags, groups)
    against = [
        contradiction
        for at, item in enumerate(_list(declared, values.get("contradictions"), "contradictions"))
        if (contradiction := _contradiction(declared, item, tags, "contradictions", str(at)))
    ]
    same = declared.texts(values.get("duplicates_by"), "duplicates_by")
    return Rules(groups, tuple(refinements), tuple(against), same, read_seconds(declared, values))


def _list(declared: DeclaredFile, value: Any, *path: str) -> list[Any]:
    if value is None or isinstance(value, list):
        return value or []
    declared.fault(f"{'.'.join(path)} must be a list, one item per dash", *path)
    return []


def _groups(declared: DeclaredFile, value: Any) -> tuple[LengthGroup, ...]:
    bounds = declared.mapping(value, "length_groups")
    if not bounds:
        return DEFAULT_GROUPS
    groups: list[LengthGroup] = []
    last: int | None = 0
    for name, under in bounds.items():
        path = ("length_groups", name)
        if last is None:
            declared.fault(
                f"the group {name!r} comes after one without a bound", *path, hint="put it before"
            )
        elif under is None:
            last = None
        elif isinstance(under, bool) or not isinstance(under, int):
            declared.fault(f"{name} must be a number of characters or null, not {under!r}", *path)
            continue
        elif under <= last:
            declared.fault(
                f"length groups must increase: {name} is under {under}, the one before under {last}"
                if groups
                else f"{name} must be above 0, not {under}",
                *path,
            )
        else:
            last = under
        groups.append(LengthGroup(name, under))
    return tuple(groups)


def _refinements(
    declared: DeclaredFile, value: Any, tags: Tags | None, groups: Sequence[LengthGroup]
) -> list[Refinement]:
    known: dict[str, set[str] | None] = {
        kind: None if tags is None else set(tags.displays(kind)) for kind in TAG_KINDS
    }
    known["length"] = {group.name for group in groups}
    items = _list(declared, value, "refine")
    later = {
        name
        for item in items
        if isinstance(item, dict) and isinstance(item.get("set"), dict)
        for name in item["set"]
    }
    refinements = []
    for at, item in enumerate(items):
        path = ("refine", str(at))
        fields = declared.keys(("if", "set"), item, *path)
        if not fields.get("if") or not fields.get("set"):
            declared.fault(
                "a refinement needs both if: and set:",
                *path,
                hint="- {if: {ask_type: money, text: PATTERN}, set: {fundraising_type: match}}",
            )
            continue
        conditions = _conditions(declared, fields["if"], known, later, *path, "if")
        values = _settings(declared, fields["set"], *path, "set")
        for name, several in values:
            allowed = known.setdefault(name, set())
            if allowed is not None:
                allowed.update(several)
        refinements.append(Refinement(tuple(conditions), tuple(values), declared.where(*path)))
    return refinements


def _conditions(
    declared: DeclaredFile,
    value: Any,
    known: Mapping[str, set[str] | None],
    later: set[str],
    *path: str,
) -> list[Condition]:
    conditions = []
    for name, wanted in declared.mapping(value, *path).items():
        place = (*path, name)
        if name in known or name == "client":
            values = declared.texts(wanted, *place)
            allowed = known.get(name)
            for each in values:
                if allowed is not None and each not in allowed:
                    declared.fault(
                        f"no tag or earlier rule gives a record the {name} {each!r}",
                        *place,
                        hint=suggest_name(each, allowed) if allowed else f"there is no {name}",
                    )
            conditions.append(Condition(name, values, None, declared.where(*place)))
        elif name in later:
            declared.fault(
                f"{name!r} is only set by a later rule", *place, hint="put that rule first"
            )
        else:
            pattern = read_pattern(declared, wanted, *place)
            if pattern is not None:
                conditions.append(Condition(name, (), pattern, declared.where(*place)))
    return conditions


def _settings(declared: DeclaredFile, value: Any, *path: str) -> list[tuple[str, tuple[str, ...]]]:
    settings = []
    for name, wanted in declared.mapping(value, *path).items():
        if name in _TAKEN or (name in FIELDS and name not in TAG_KINDS):
            declared.fault(
                f"a rule cannot set {name!r}",
                *path,
                name,
                hint=f"{', '.join(TAG_KINDS)}, or a new name",
            )
            continue
        values = declared.texts(wanted, *path, name)
        if name not in TAG_KINDS and len(values) > 1:
            declared.fault(f"the field {name!r} takes one value", *path, name)
        settings.append((name, values))
    return settings


def _contradiction(
    declared: DeclaredFile, value: Any, tags: Tags | None, *path: str
) -> Contradiction | None:
    values = declared.keys(("name", "tags"), value, *path)
    name = declared.text(values.get("name"), *path, "name")
    named = declared.texts(values.get("tags"), *path, "tags")
    for at, tag in enumerate(named):
        if tags is not None and tag not in tags.names:
            declared.fault(
                f"unknown tag {tag!r}",
                *path,
                "tags",
                str(at),
                hint=suggest_name(tag, tags.names) if tags.names else "tags.yaml has no tags",
            )
    if len(named) < 2:
        declared.fault("a contradiction needs two tags or more", *path)
        return None
    return Contradiction(name, named, declared.where(*path)) if name else None


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


_PLACES = {"where", "places"}
"""Fields that are not keys of the file."""


@dataclass(frozen=True, slots=True)
class SourceSpec:
    """The source of rows. Columns have their names after ``rename``.

    Attributes:
        where: The file, for messages.
        places: ``file:line`` of every key that is given, or the flag; not part of the fingerprint.
    """

    source: str = option("", "File, folder, glob, or address of a database.")
    query: str = option("", "SQL that gives the rows (databases).")
    key: str = option("", "Column that identifies a row.")
    text: str = option("", "Column with the text.")
    hash: tuple[str, ...] = option((), "Columns that decide whether a row changed; all if empty.")
    keep: tuple[str, ...] = option((), "Columns kept as metadata of documents.")
    rename: Mapping[str, str] = option(dict, "New name by column.")
    require: tuple[str, ...] = option((), "Columns without which a row is left out.")
    watermark: str = option(
        "", "Column that only increases: a refresh reads from its highest value."
    )
    on_duplicate: OnDuplicate = option(
        "error", "For different rows with the same key: error, first or last."
    )
    encoding: str = option("", "Encoding of text files; empty: UTF-8.")
    delimiter: str = option("", "Delimiter of CSV files; empty: detected.")
    where: str = dataclasses.field(default="", compare=False)
    places: Mapping[str, str] = dataclasses.field(default_factory=dict, compare=False, repr=False)

    @property
    def fingerprint(self) -> str:
        """Hash of everything it says."""
        names = [f.name for f in dataclasses.fields(self) if f.name not in _PLACES]
        return value_hash({name: make_plain(getattr(self, name)) for name in names})

    def place(self, key: str) -> str:
        """``file:line`` of a key, or of the file if it is not given."""
        return self.places.get(key, self.where or "source.yaml")

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


def read_source_spec(declared: DeclaredFile) -> SourceSpec:
    """The spec in a file's values; faults are noted."""
    known = [f.name for f in dataclasses.fields(SourceSpec) if f.name not in _PLACES]
    values_by_key = declared.keys(known)
    values: dict[str, Any] = {}
    for key, value in values_by_key.items():
        try:
            built = build_options(SourceSpec, {key: value}, declared.placed, ())
        except ConfigError as error:
            declared.faults.append(make_records_error(error))
            continue
        values[key] = getattr(built, key)
    for at, name in enumerate(values.get("keep", ())):
        if name in _RESERVED:
            declared.fault(
                f"keep: {name!r} is a column that a refresh makes",
                "keep",
                str(at),
                hint=f"give the column another name: rename: {{{name}: source_{name}}}",
            )
    return SourceSpec(
        **values,
        where=declared.placed.file,
        places={key: declared.where(key) for key in values_by_key},
    )
