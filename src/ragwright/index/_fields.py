"""Position lists: for every value of every metadata field, the rows with it."""

from __future__ import annotations

import math
import re
from array import array
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..core import Document, Metadata
from ._arrays import Array, Arrays, Blob, Packer, unpack
from ._store import StoredDocument

if TYPE_CHECKING:
    Ints = array[int]

Rows = NDArray[np.integer]
"""Numbers of rows of a segment."""

ALWAYS = (
    "document_id",
    "source",
    "title",
    "language",
    "page",
    "section",
    "created",
    "modified",
)
"""Fields that every index knows, even if no chunk has them."""


def spelling(value: str | int | float | bool) -> str:
    """The normalised spelling under which a value is stored and looked up.

    ``2020``, ``2020.0`` and ``"2020"`` are one value, so that a typed filter matches a number read
    from a table.
    """
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value)


def _value_hash(text: str) -> int:
    raw = text.encode("utf-8", "surrogatepass")
    return int.from_bytes(blake2b(raw, digest_size=8).digest(), "little")


_BUILT_IN = ("source", "title", "language", "created", "modified")


def chunk_fields(
    document: Document | StoredDocument,
    metadata: Metadata,
    headings: Sequence[str],
    page: int | None,
) -> dict[str, tuple[str, ...]]:
    """The fields of a chunk and their values as filters compare them.

    A chunk's own value replaces its document's; ``section`` are its headings unless the metadata
    have a field of that name.

    Args:
        document: The document.
        metadata: The chunk's own.
        headings: Those above the chunk.
        page: Number of its page.
    """
    built_in = {"document_id": document.id, **{name: getattr(document, name) for name in _BUILT_IN}}
    present = {name: value for name, value in built_in.items() if value != ""}
    own = {"section": tuple(headings), **document.metadata, **metadata, **present}
    fields = {}
    for name, value in own.items():
        values = value if isinstance(value, tuple) else () if value in (None, "") else (value,)
        if values:
            fields[name] = tuple(dict.fromkeys(map(spelling, values)))
    if page is not None:
        fields["page"] = tuple(dict.fromkeys((*fields.get("page", ()), spelling(page))))
    return fields


class FieldsBuilder:
    """Collects the fields of a segment's rows, row by row."""

    def __init__(self) -> None:
        self._values: dict[str, dict[str, int]] = {}
        self._places: dict[str, tuple[Ints, Ints]] = {}

    def add(self, row: int, fields: Mapping[str, Sequence[str]]) -> None:
        """Record the fields of a row."""
        for name, spelled in fields.items():
            values = self._values.setdefault(name, {})
            numbers, rows = self._places.setdefault(name, (array("i"), array("i")))
            for value in spelled:
                numbers.append(values.setdefault(value, len(values)))
                rows.append(row)

    def finish(self) -> tuple[list[str], dict[str, Array]]:
        """Names of the fields, and their arrays."""
        names = sorted(self._values)
        arrays: dict[str, Array] = {}
        for index, name in enumerate(names):
            arrays |= self._field_arrays(f"field/{index}", name)
        return names, arrays

    def _field_arrays(self, prefix: str, name: str) -> dict[str, Array]:
        values = list(self._values[name])
        owner, rows = (np.frombuffer(part, np.int32) for part in self._places[name])
        hashes = np.array([_value_hash(value) for value in values], np.uint64)
        by_hash = np.argsort(hashes, kind="stable")
        place = np.empty_like(by_hash)
        place[by_hash] = np.arange(len(by_hash))
        order = np.argsort(place[owner], kind="stable")
        sizes = np.bincount(place[owner], minlength=len(values))
        spelled = (values[i].encode("utf-8", "surrogatepass") for i in by_hash.tolist())
        return {
            f"{prefix}.hashes": hashes[by_hash],
            f"{prefix}.bounds": np.concatenate([[0], np.cumsum(sizes)]),
            f"{prefix}.rows": rows[order],
            **Packer(spelled).packed(f"{prefix}.values"),
        }


@dataclass(frozen=True, slots=True)
class FieldIndex:
    """Position lists of one field of one segment."""

    hashes: NDArray[np.uint64]
    bounds: NDArray[np.int64]
    rows: Rows
    values: Blob

    def rows_with(self, value: str | int | float | bool) -> Rows:
        """Rows with a value, ascending; empty if there is none."""
        number = np.uint64(_value_hash(spelling(value)))
        at = int(np.searchsorted(self.hashes, number))
        if at == len(self.hashes) or self.hashes[at] != number:
            return self.rows[:0]
        return self.rows_at(at)

    def rows_at(self, index: int) -> Rows:
        """Rows with the value at this index."""
        return self.rows[self.bounds[index] : self.bounds[index + 1]]

    def spellings(self) -> list[str]:
        """All values, in the order of their indexes."""
        return self.values.texts(np.arange(len(self.values)))


def open_fields(arrays: Arrays) -> dict[str, FieldIndex]:
    """The position lists of a segment, by field."""
    fields = {}
    for index, name in enumerate(arrays.meta["fields"]):
        prefix = f"field/{index}"
        fields[name] = FieldIndex(
            arrays[f"{prefix}.hashes"],
            arrays[f"{prefix}.bounds"],
            arrays[f"{prefix}.rows"],
            unpack(arrays, f"{prefix}.values"),
        )
    return fields


def find_in_range(values: list[str], low: Any, high: Any) -> list[int]:
    """Indexes of the values within inclusive bounds (None: open).

    Bounds that are numbers hold numbers, and dates hold dates, of a field that has any; what is
    neither is not within them. Other bounds are compared as text. ``high`` includes all texts and
    dates that begin with it: ``2021`` holds ``2021-05-04``.
    """
    keys, read, _ = comparison_keys(values, low, high)
    lowest, highest = (None if bound is None else read(spelling(bound)) for bound in (low, high))
    indexes = []
    for index, key in enumerate(keys):
        if key is None or (lowest is not None and key < lowest):
            continue
        start = key[: len(highest)] if isinstance(highest, str) else key
        if highest is None or start <= highest:
            indexes.append(index)
    return indexes


def comparison_keys(
    values: list[str], low: Any, high: Any
) -> tuple[list[Any], Callable[[str], Any], str]:
    """What values are compared by with bounds (None if they cannot be), the reader, its name."""
    bounds = [spelling(bound) for bound in (low, high) if bound is not None]
    if all(map(date_of, bounds)) and any(map(_DASHED.match, (*bounds, *values))):
        return [date_of(value) for value in values], date_of, "date"
    if all(number_of(bound) is not None for bound in bounds):
        return [number_of(value) for value in values], number_of, "number"
    return list(values), str, "text"


_DASHED = re.compile(r"\d{4}-\d\d(?:-\d\d)?(?:[T ]\d.*)?\Z")


def date_of(text: str) -> str | None:
    """A value as a date of ISO 8601, or its beginning; None if it is none."""
    if re.fullmatch(r"\d{4}(?:(?:0\d|1[0-2])[0-3]\d)?", text):
        return text if len(text) == 4 else f"{text[:4]}-{text[4:6]}-{text[6:]}"
    return text.replace(" ", "T", 1) if _DASHED.match(text) else None


def number_of(text: str) -> float | None:
    """A value as a finite number, None if it is none."""
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) else None
