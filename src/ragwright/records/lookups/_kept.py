"""Copies of lookup tables beside the tables of records: one JSONL file each.

Drafts read them, so that they need no database, and see what the records were made with.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ...core import replace_text
from ._declared import LOOKUPS, Lookup, LookupRows


@dataclass(frozen=True, slots=True)
class LookupCounts:
    """Rows of a lookup table, and whether they differ from the last refresh."""

    rows: int
    changed: bool


def kept_folder(tables: Path) -> Path:
    """The folder of the copies, beside the tables of records."""
    return tables / "lookups"


def kept_file(folder: Path, name: str) -> Path:
    """The copy of a table."""
    return folder / f"{name}.jsonl"


def kept_rows(lookup: Lookup, folder: Path) -> LookupRows | None:
    """The rows of the copy; None if there is none of this declaration."""
    try:
        with kept_file(folder, lookup.name).open(encoding="utf-8") as file:
            head = json.loads(next(file, "{}"))
            if head.get("declared") != lookup.fingerprint:
                return None
            rows = [json.loads(line) for line in file]
            return LookupRows(lookup, tuple(head["columns"]), rows, head["hash"])
    except (OSError, ValueError, KeyError, AttributeError):
        return None


def rows_hash(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Equal for equal columns and rows."""
    written = json.dumps([columns, rows], ensure_ascii=False)
    return hashlib.blake2b(written.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def compared(read: Sequence[LookupRows], folder: Path) -> dict[str, LookupCounts]:
    """Rows of each table, and whether they differ from the copy.

    Args:
        read: Every declared table, as read from its source.
        folder: Folder of the copies.
    """
    return {
        table.name: LookupCounts(
            len(table.rows), _head(kept_file(folder, table.name)).get("hash") != table.hash
        )
        for table in read
    }


def keep(read: Sequence[LookupRows], folder: Path) -> None:
    """Write the copies that differ, and remove those of tables no longer declared."""
    for table in read:
        head = {
            "declared": table.lookup.fingerprint,
            "columns": list(table.columns),
            "hash": table.hash,
        }
        file = kept_file(folder, table.name)
        if _head(file) != head:
            folder.mkdir(parents=True, exist_ok=True)
            lines = (json.dumps(line, ensure_ascii=False) for line in (head, *table.rows))
            replace_text(file, "".join(f"{line}\n" for line in lines), private=True)
    declared = {table.name for table in read}
    for name in LOOKUPS:
        if name not in declared:
            kept_file(folder, name).unlink(missing_ok=True)


def _head(file: Path) -> dict[str, object]:
    try:
        with file.open(encoding="utf-8") as lines:
            first_line = json.loads(next(lines, "{}"))
    except (OSError, ValueError):
        return {}
    return first_line if isinstance(first_line, dict) else {}
