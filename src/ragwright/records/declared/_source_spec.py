"""``source.yaml``: the source of rows, and the use of their columns."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from ...core import ConfigError, RecordsError, build_options, option, value_hash
from .._seams import KEYLESS
from ._file import DeclaredFile, make_plain, make_records_error

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
        return value_hash(self._hashed_values())

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

    def _hashed_values(self) -> Any:
        names = [f.name for f in dataclasses.fields(self) if f.name not in _PLACES]
        return {name: make_plain(getattr(self, name)) for name in names}


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
    places = {key: declared.where(key) for key in values_by_key}
    return SourceSpec(**values, where=declared.placed.file, places=places)
