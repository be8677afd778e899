"""The interfaces of the room: tables of rows, and steps from batch to batch.

A step is a pure function from one Arrow table to another. The same object is called by a thread of
this process or by a worker of a cluster.

Columns of the tables (every one also has ``record_key`` and ``record_hash``):

- ``bronze``: the columns of the source, as they came.
- ``silver``: those but the text's, and ``text`` (cleaned), ``text_hash``, ``tags`` (names of the
  tags that match, a list of strings in the order of tags.yaml).
- ``gold``: ``client``, ``ask_type``, ``topic``, ``tone`` (lists of strings but the first),
  ``length``, ``text``, ``document`` (assembled), ``message_at`` (where the text begins in it),
  fields that rules set, and the columns that source.yaml keeps.
- ``left_out``: ``stage`` (bronze, silver, gold) and ``left_out`` (why): rows that were left out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, get_args

from ..core import RecordsError, require

ArrowTable: TypeAlias = Any
"""A ``pyarrow.Table``; pyarrow is an optional dependency and has no types."""

TableName: TypeAlias = Literal["bronze", "silver", "gold", "left_out"]

TABLES: tuple[TableName, ...] = get_args(TableName)

KEY = "record_key"
"""Column of every table: the key of the row as text, unique in the table."""

HASH = "record_hash"
"""Column of every table: 32 hexadecimal digits, equal exactly if the row's content is."""

REASON = "left_out"
"""Column that a step adds: why the row is left out, else null."""

TEXT = "text"
"""Column of silver and gold: the clean text. Also its variable in a text format."""

TEXT_HASH = "text_hash"
"""Column of silver: equal exactly if the clean text is."""

TAGS = "tags"
"""Column of silver: names of the tags that match, in the order of tags.yaml."""

TagKind: TypeAlias = Literal["ask_type", "topic", "tone"]

TAG_KINDS: tuple[TagKind, ...] = get_args(TagKind)
"""Columns of gold that tags fill; a rule may set them too."""

FIELDS = ("client", *TAG_KINDS, "length")
"""Fields of a record for conditions; rules add their own."""

DUPLICATE = "duplicate"
"""Beginning of the reason of a duplicate row."""

KEYLESS = "if no column is one, see 'Rows without a key' in the guide to records"
"""Hint for a missing key."""


@dataclass(frozen=True, slots=True)
class UpsertCounts:
    """Rows of a table that a refresh inserted, updated and left unchanged."""

    inserted: int = 0
    updated: int = 0
    unchanged: int = 0

    def as_dict(self) -> dict[str, int]:
        """The form that ``ragwright records refresh --json`` prints."""
        return {"inserted": self.inserted, "updated": self.updated, "unchanged": self.unchanged}


def join_chunks(column: ArrowTable) -> ArrowTable:
    """A column as one array."""
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def cast_texts(column: ArrowTable, name: str, place: str) -> ArrowTable:
    """A column as one array of large strings.

    Raises:
        RecordsError: It holds lists, records, or bytes that are not text.
    """
    try:
        return compute.cast(join_chunks(column), pa.large_string())
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise RecordsError(
            f"the column {name!r} is not text but {column.type}",
            where=place,
            hint="use another column, or convert it to text in the source",
        ) from error


class LateModule:
    """A module that is imported when one of its names is first used.

    That use raises MissingExtraError if the package is not installed.
    """

    def __init__(self, name: str, purpose: str = "reading records") -> None:
        self._name = name
        self._purpose = purpose

    def __getattr__(self, attribute: str) -> Any:
        return getattr(require(self._name, "records", self._purpose), attribute)


pa: Any = LateModule("pyarrow")
compute: Any = LateModule("pyarrow.compute")
parquet: Any = LateModule("pyarrow.parquet")
deltalake: Any = LateModule("deltalake", "tables of records")
delta_errors: Any = LateModule("deltalake.exceptions", "tables of records")
daft: Any = LateModule("daft", "cleaning and tagging records")
daft_batches: Any = LateModule("daft.recordbatch", "cleaning and tagging records")
daft_functions: Any = LateModule("daft.functions", "cleaning and tagging records")
