"""Rows of a lookup table, from its source or from the copy that the last refresh kept."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from ...core import RecordsError, near, require
from .. import sources
from .._seams import ArrowTable
from .._source import open_source
from ._declared import Lookup, LookupRows
from ._kept import kept_rows, rows_hash

_ROWS = 16_384


class Lookups:
    """Reads lookup tables.

    Args:
        root: Folder that relative paths of files start from.
        kept: Folder of the copies that the last refresh kept; those whose declaration is unchanged
            are read instead of the sources. None: the sources are read.
    """

    def __init__(self, root: Path, kept: Path | None = None) -> None:
        self._root = root
        self._kept = kept

    def rows(self, lookup: Lookup) -> LookupRows:
        """The rows of a table.

        Raises:
            RecordsError: The source is missing, cannot be read, or a column is not text.
            DatabaseError: The database fails.
            ConfigError: The address is invalid, or names a variable that is not set.
        """
        if self._kept is not None:
            held = kept_rows(lookup, self._kept)
            if held is not None:
                return held
        columns: tuple[str, ...] = ()
        rows: list[tuple[str, ...]] = []
        for batch in open_source(lookup.spec, self._root).batches(_ROWS):
            columns = columns or _renamed(lookup, batch.schema.names)
            texts = [
                _texts(lookup, name, batch.column(at)).to_pylist()
                for at, name in enumerate(columns)
            ]
            rows += zip(*texts, strict=True)
        return LookupRows(lookup, columns, rows, rows_hash(columns, rows))


def _renamed(lookup: Lookup, there: Sequence[str]) -> tuple[str, ...]:
    spec = lookup.spec
    for old in spec.rename:
        if old not in there:
            raise RecordsError(
                f"rename: the table {lookup.name} has no column {old!r}",
                where=spec.place("rename"),
                hint=near(old, there),
            )
    names = tuple(spec.rename.get(name, name).strip() for name in there)
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise RecordsError(
            f"two columns of the table {lookup.name} are called {twice[0]!r}",
            where=spec.place("rename" if spec.rename else "source"),
            hint="rename or leave out one of them",
        )
    return names


def _texts(lookup: Lookup, name: str, column: ArrowTable) -> ArrowTable:
    """A column as texts without blanks at the ends; null is empty."""
    compute = require("pyarrow.compute", "records", "reading lookup tables")
    types = require("pyarrow", "records", "reading lookup tables").types
    kind = column.type
    if types.is_nested(kind) or types.is_binary(kind) or types.is_large_binary(kind):
        raise RecordsError(
            f"the column {name!r} of the table {lookup.name} contains {kind}, not text",
            where=lookup.spec.place("query" if lookup.spec.query else "source"),
            hint="write one row for each value"
            if types.is_nested(kind)
            else "convert it to text in the source",
        )
    texts = compute.fill_null(sources.key_texts(column), "")
    pattern = name == "pattern" or name[:2].lower() == "if"  # a blank may belong to it
    return texts if pattern else compute.utf8_trim_whitespace(texts)
