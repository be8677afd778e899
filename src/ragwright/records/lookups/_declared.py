"""``lookups.yaml``: tables that hold what the other files would list."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, get_args

from ...core import ConfigError, build_options, value_hash, without_secret
from ..declared import Declared, SourceSpec, as_records_error

LookupName: TypeAlias = Literal["rollup", "biographies", "tags", "refine", "contradictions"]

LOOKUPS: tuple[LookupName, ...] = get_args(LookupName)

_KEYS = ("source", "query", "rename", "encoding", "delimiter")


@dataclass(frozen=True, slots=True)
class Lookup:
    """One table of lookups.yaml.

    Attributes:
        name: Its name in the file.
        spec: Its source, query, renamed columns, encoding and delimiter.
        place: ``file:line``.
    """

    name: LookupName
    spec: SourceSpec
    place: str = dataclasses.field(default="", compare=False)

    @property
    def fingerprint(self) -> str:
        """Hash of everything it says."""
        return value_hash([self.name, self.spec.fingerprint])


@dataclass(frozen=True, slots=True)
class LookupRows:
    """The rows of one lookup table, as texts.

    Attributes:
        lookup: Its declaration.
        columns: Names of its columns, after ``rename``.
        rows: One text per column; an empty one for null.
        hash: Equal for equal columns and rows.
    """

    lookup: Lookup
    columns: tuple[str, ...]
    rows: Sequence[Sequence[str]] = dataclasses.field(repr=False)
    hash: str = ""

    @property
    def name(self) -> LookupName:
        """Name of the table."""
        return self.lookup.name

    def placed(self) -> Iterator[tuple[str, dict[str, str]]]:
        """Rows that are not empty, as column -> text, each with its place.

        A place is the table, and the row's number from 1 without the header.
        """
        spec = self.lookup.spec
        shown = "query" if spec.query else without_secret(spec.source, spec.source)
        table = f"{self.lookup.place} ({shown}, row "
        for at, row in enumerate(self.rows, 1):
            if any(row):
                yield f"{table}{at})", dict(zip(self.columns, row, strict=True))


def read_lookups(declared: Declared) -> tuple[Lookup, ...]:
    """The tables in a file's values, in the order of :data:`LOOKUPS`; faults are noted."""
    values = declared.keys(LOOKUPS)
    lookups = (_lookup(declared, name, values[name]) for name in LOOKUPS if name in values)
    return tuple(lookup for lookup in lookups if lookup is not None)


def _lookup(declared: Declared, name: LookupName, value: Any) -> Lookup | None:
    fields = {"source": value} if isinstance(value, str) else declared.keys(_KEYS, value, name)
    if not fields.get("source"):
        declared.fault(
            f"the source of the table {name} is not set",
            name,
            hint="write source: a .csv, .tsv, .jsonl or .parquet file, or the address of a "
            "database with a query",
        )
        return None
    try:
        spec = build_options(SourceSpec, fields, declared.placed, (name,))
    except ConfigError as error:
        declared.faults.append(as_records_error(error))
        return None
    places = {key: declared.where(name, key) for key in fields}
    where = declared.where(name)
    return Lookup(name, dataclasses.replace(spec, where=where, places=places), where)
