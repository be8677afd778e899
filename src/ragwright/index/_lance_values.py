"""The table of values: all values that the metadata fields of a pair's chunks have had.

It may name more than the chunks hold, never less: ranges and errors are worked out from it.
"""

from __future__ import annotations

from typing import Any

from . import _lance_tables as lance
from ._lance_rows import facet_values
from ._store import IndexSpec


class KnownValues:
    """Adds values that a table lacks; knows those it has seen there.

    Args:
        where: The store, for errors.
    """

    def __init__(self, where: str) -> None:
        self._where = where
        self._known: dict[str, tuple[int, set[tuple[str, str]]]] = {}

    def add(self, pair: IndexSpec, table: Any, values: set[tuple[str, str]]) -> None:
        """Add (field, value) pairs that the table lacks; one twice does no harm."""
        version = table.version
        known_version, stored = self._known.get(pair.key, (-1, set()))
        if known_version != version:  # another process has written, or taken values out (`forget`)
            rows = lance.select(table, ["field", "value"])
            stored = set(zip(rows["field"].to_pylist(), rows["value"].to_pylist(), strict=True))
        fresh = values - stored
        if fresh:
            lance.retried(lambda: table.add(_value_rows(fresh)), self._where)
        self._known[pair.key] = (version + bool(fresh), stored | fresh)

    def renew(self, pair: IndexSpec, chunks: Any, table: Any) -> None:
        """Write the table anew, from the chunks that are left."""
        self._known.pop(pair.key, None)
        if chunks is None or table is None:
            return
        facets: set[str] = set()
        own_pairs: set[tuple[str, str]] = set()
        for batch in lance.batches(chunks, ["facets", *lance.OWN_COLUMNS.values()]):
            facets.update(batch["facets"].flatten().unique().to_pylist())
            for name, column in lance.OWN_COLUMNS.items():
                if any(batch[column].unique().to_pylist()):
                    own_pairs.add((name, ""))
        rows = _value_rows(own_pairs | facet_values(facets))
        lance.retried(lambda: table.add(rows, mode="overwrite"), self._where)


def _value_rows(pairs: set[tuple[str, str]]) -> Any:
    ordered = sorted(pairs)
    columns = {"field": [field for field, _ in ordered], "value": [value for _, value in ordered]}
    return lance.arrow_table(columns, lance.values_schema())
