"""The open tables of a Lance store: opened once, and made where they are missing."""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable
from typing import Any

from ..core import StoreError
from . import _lance_tables as lance

_READS = 20
"""Attempts to open a table that another process is making."""


class OpenTables:
    """Tables of a database by name.

    Args:
        database: LanceDB's connection.
    """

    def __init__(self, database: Any) -> None:
        self._db = database
        self._tables: dict[str, Any] = {}
        self._lock = threading.RLock()

    def __getitem__(self, name: str) -> Any:
        """A table that is open."""
        return self._tables[name]

    def names(self) -> list[str]:
        """Names of all tables."""
        return list(self._db.list_tables().tables)

    def created(self, name: str, schema: Any) -> Any:
        """The table of that name, made with this schema where it is missing."""
        return self.opened_or_created(
            name, lambda: self._db.create_table(name, schema=schema, exist_ok=True)
        )

    def opened(self, name: str) -> Any | None:
        """The table of that name; None if it does not exist."""
        with self._lock:
            if name not in self._tables and name not in self.names():
                return None
            return self.opened_or_created(name, lambda: None)

    def fresh(self, name: str) -> Any:
        """A handle of its own on a table, to be set to a version."""
        return self._db.open_table(name)

    def opened_or_created(self, name: str, make: Callable[[], Any]) -> Any:
        """The table of that name; ``make`` makes it, another process may do so first.

        A process that was killed, or met a full disk, while it made the table leaves a folder
        without a version, which is listed and cannot be opened. The table is then made again.
        """
        with self._lock:
            for attempt in range(_READS):
                if name in self._tables:
                    break
                try:
                    table = self._open_existing(name, again=attempt >= _READS // 2) or make()
                except (OSError, RuntimeError, ValueError):
                    # Another process is making it: listed, but not yet to be opened.
                    if attempt == _READS - 1:
                        raise
                    time.sleep(0.05)
                else:
                    if table is None:
                        return None
                    self._tables[name] = table
            return self._tables[name]

    def _open_existing(self, name: str, *, again: bool) -> Any | None:
        """The table, None where there is none; with ``again`` also where it has no version."""
        if name not in self.names():
            return None
        try:
            return self._db.open_table(name)
        except ValueError as error:
            if again and "not found" in str(error):
                return None
            raise


def store_facts(database: Any, tables: OpenTables, where: str) -> dict[str, str]:
    """Identity and schema version; written by the first process."""
    names = ["store", "schema"]
    values = [secrets.token_hex(8), str(lance.SCHEMA_VERSION)]
    first = lance.arrow_table({"name": names, "value": values}, lance.facts_schema())
    names_here = tables.names()
    if "facts" not in names_here and any(n[:7] in ("chunks_", "documen") for n in names_here):
        raise StoreError(
            "the place holds tables, but not those of a ragwright store",
            where=where,
            hint="give the store a folder or prefix of its own (store.uri)",
        )
    table = tables.opened_or_created("facts", lambda: database.create_table("facts", data=first))
    if table.schema.names != lance.facts_schema().names:
        raise StoreError(
            "the table 'facts' there is not one of a ragwright store",
            where=where,
            hint="give the store a folder or prefix of its own (store.uri)",
        )
    rows = lance.select(table, ["name", "value"]).to_pylist()
    return {row["name"]: row["value"] for row in reversed(rows)}
