"""An immutable part of an index: rows with their texts, postings, vectors and fields; filters.

A segment never changes. New rows form a new segment; removed rows are marked dead by the view. Rows
of one document are adjacent, and a document is identified by its *stamp*: a number that the store
gives to each document written under an index spec, never twice.
"""

from __future__ import annotations

import json
from array import array
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core import Filter, FilterError, Head, Hit, list_names, nearest_name, suggest_name
from ._arrays import Array, Arrays, Blob, Packer, unpack
from ._postings import (
    ALWAYS,
    FieldIndex,
    FieldsBuilder,
    Postings,
    PostingsBuilder,
    Rows,
    chunk_fields,
    comparison_keys,
    find_in_range,
    open_fields,
    spelling,
    unpack_terms,
)
from ._store import StoredDocument, read_metadata, show_metadata

FORMAT = 3
"""Version of the layout; a saved segment of another version is built anew."""

MAX_ROWS = 100_000
MAX_BYTES = 256 * 2**20
"""Bounds of one segment, so that building one takes bounded memory."""


def build_segments(documents: Iterable[StoredDocument], dimensions: int) -> Iterator[Arrays]:
    """Segments of documents, each as large as its bounds allow, one in memory at a time.

    While one is built, memory holds its own arrays and about half of their size again.
    """
    builder = _Builder(dimensions)
    for document in documents:
        if builder.full(document):
            # Without a variable: requesting the next segment must not keep this one alive.
            yield builder.finish()
            builder = _Builder(dimensions)
        builder.add(document)
    if builder.documents:
        yield builder.finish()


class _Builder:
    """Collects the documents of one segment; keeps bytes and numbers, no object per row."""

    def __init__(self, dimensions: int) -> None:
        self.documents = 0
        self._dimensions = dimensions
        self._size = 0
        self._sizes, self._stamps = array("q"), array("q")
        self._columns = {name: array("i") for name in ("document", "start", "end", "page")}
        self._packs = {name: Packer() for name in ("ids", "names", "heads", "extras", "texts")}
        self._postings = PostingsBuilder()
        self._fields = FieldsBuilder()
        self._vectors = bytearray()

    @property
    def rows(self) -> int:
        """Rows so far."""
        return len(self._columns["document"])

    def full(self, document: StoredDocument) -> bool:
        """True if a further document would exceed the bounds."""
        over = self.rows + len(document.chunks) > MAX_ROWS
        return self.documents > 0 and (over or self._size + document.size > MAX_BYTES)

    def add(self, stored: StoredDocument) -> None:
        """A document with its chunks."""
        packs, columns, document = self._packs, self._columns, stored.document
        shown = [document.id, document.source, document.title, show_metadata(document)]
        packs["heads"].add(json.dumps(shown).encode())
        packs["names"].add(_raw_bytes(document.id))
        self._stamps.append(stored.stamp)
        self._sizes.append(len(stored.chunks))
        for chunk in stored.chunks:
            fields = chunk_fields(document, chunk.metadata, chunk.headings, chunk.page)
            self._fields.add(self.rows, fields)
            packs["ids"].add(_raw_bytes(chunk.id))
            packs["texts"].add(_raw_bytes(document.text[chunk.start : chunk.end]))
            extra: list[object] = [chunk.headings, dict(chunk.metadata), chunk.pages]
            if chunk.head is not None:
                extra.append(chunk.head.packed())
            packs["extras"].add(json.dumps(extra).encode() if any(extra) else b"")
            place = (self.documents, chunk.start, chunk.end, chunk.page or 0)
            for column, number in zip(columns.values(), place, strict=True):
                column.append(number)
            self._postings.add(unpack_terms(chunk.terms))
            if chunk.vector is not None and self._dimensions:
                self._vectors += chunk.vector.tobytes()
        self.documents += 1
        self._size += stored.size

    def finish(self) -> Arrays:
        """The segment; the builder must not be used afterwards."""
        matrix = np.frombuffer(self._vectors, np.float32).reshape(-1, max(1, self._dimensions))
        matrix = matrix if self._dimensions else np.empty((0, 0), np.float32)
        ids = self._packs["ids"].packed("ids")
        arrays: dict[str, Array] = {
            "stamps": np.frombuffer(self._stamps, np.int64),
            "sizes": np.frombuffer(self._sizes, np.int64),
            **{name: np.frombuffer(column, np.int32) for name, column in self._columns.items()},
            **_id_order(Blob(ids["ids"], ids["ids.offsets"])),
            **ids,
        }
        for name in ("names", "heads", "extras", "texts"):
            arrays |= self._packs[name].packed(name)
        arrays |= self._postings.finish()
        names, field_arrays = self._fields.finish()
        arrays |= field_arrays
        arrays["vectors"] = matrix
        meta = {
            "format": FORMAT,
            "rows": self.rows,
            "documents": self.documents,
            "fields": names,
            "norm": float(np.sqrt(np.einsum("ij,ij->i", matrix, matrix).max(initial=0.0))),
        }
        return Arrays(meta, arrays)


def _raw_bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def id_number(chunk_id: str) -> int:
    """64-bit number under which a chunk id is looked up."""
    return int.from_bytes(blake2b(_raw_bytes(chunk_id), digest_size=8).digest(), "little")


def _id_order(packed: Blob) -> dict[str, Array]:
    """The ids' numbers in ascending order with their rows."""
    ids = packed.texts(np.arange(len(packed)))
    numbers = np.fromiter(map(id_number, ids), np.uint64, len(ids))
    order = np.argsort(numbers, kind="stable").astype(np.int32)
    return {"numbers": numbers[order], "numbers.rows": order}


class Segment:
    """An open segment; every array is read-only."""

    def __init__(self, arrays: Arrays, name: str = "") -> None:
        self.name = name
        self.arrays = arrays
        self.rows: int = arrays.meta["rows"]
        self.norm: float = arrays.meta["norm"]
        self.stamps: NDArray[np.int64] = arrays["stamps"]
        self.sizes: NDArray[np.int64] = arrays["sizes"]
        self.postings = Postings.open(arrays)
        self.vectors: NDArray[np.float32] = arrays["vectors"]
        self._ids = unpack(arrays, "ids")
        self.names = unpack(arrays, "names")
        self._heads = unpack(arrays, "heads")
        self._extras = unpack(arrays, "extras")
        self._texts = unpack(arrays, "texts")

    @cached_property
    def fields(self) -> Mapping[str, FieldIndex]:
        """Position lists, by field."""
        return open_fields(self.arrays)

    def id_of(self, row: int) -> str:
        """Chunk id of a row."""
        return self._ids[row].decode("utf-8", "surrogatepass")

    def ids_of(self, rows: NDArray[Any]) -> list[str]:
        """Chunk ids of rows, in their order."""
        return self._ids.texts(rows)

    def row_of(self, chunk_id: str, number: int) -> int | None:
        """Row of a chunk id (``number`` is its :func:`id_number`), None if it is absent."""
        numbers = self.arrays["numbers"]
        at = int(np.searchsorted(numbers, np.uint64(number)))
        while at < len(numbers) and numbers[at] == number:
            row = int(self.arrays["numbers.rows"][at])
            if self.id_of(row) == chunk_id:
                return row
            at += 1
        return None

    def rows_of(self, documents: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Mask of the rows of some documents."""
        return np.repeat(documents, self.sizes)

    def hit(self, row: int) -> Hit:
        """The chunk of a row, with rank and score 0."""
        number = int(self.arrays["document"][row])
        document_id, source, title, metadata = json.loads(self._heads[number])
        extra = self._extras[row]
        headings, own_metadata, pages, *head = json.loads(extra) if extra else ((), {}, ())
        if own_metadata:
            metadata |= own_metadata
        return Hit(
            rank=0,
            score=0.0,
            document_id=document_id,
            chunk_id=self.id_of(row),
            source=source,
            title=title,
            page=int(self.arrays["page"][row]) or None,
            start=int(self.arrays["start"][row]),
            end=int(self.arrays["end"][row]),
            text=self._texts[row].decode("utf-8", "surrogatepass"),
            headings=tuple(headings),
            metadata=read_metadata(metadata),
            pages=tuple((position, number) for position, number in pages),
            head=Head.unpacked(head[0]) if head else None,
        )


Mask = NDArray[np.bool_]

_NEAR_AMONG = 5_000
"""Most values searched for similar ones: comparing more would take seconds."""


def mask_of(rows: Rows, size: int) -> Mask:
    """Rows as a mask of so many rows."""
    mask = np.zeros(size, np.bool_)
    mask[rows] = True
    return mask


def field_counts(segments: Sequence[Segment], masks: Sequence[Mask]) -> dict[str, int]:
    """Fields of the rows under masks, and the number of rows with each."""
    counts: dict[str, int] = {}
    for segment, mask in zip(segments, masks, strict=True):
        for name, index in segment.fields.items():
            count = int(np.count_nonzero(mask_of(index.rows, segment.rows) & mask))
            if count:
                counts[name] = counts.get(name, 0) + count
    return dict(sorted(counts.items()))


def filter_masks(
    segments: Sequence[Segment],
    live: Sequence[Mask],
    fields: Mapping[str, int],
    filters: Sequence[Filter],
) -> list[Mask]:
    """Live rows that meet every filter, one mask per segment.

    The values of a filter are looked up among the rows that the filters before it leave: hidden
    values count as unknown, or the error would reveal another tenant's chunks. Fields count as
    unknown that no row has which rights to read leave. If these leave no row, nothing is checked.
    Excluded values need not exist: if no row has them, the result is right.

    Raises:
        FilterError: A field that no chunk has, or values that none of those rows has.
    """
    masks = [mask.copy() for mask in live]
    if not any(mask.any() for mask in masks):
        return masks
    for condition in filters:
        positions = positions_of(segments, fields, condition)
        if needs_rows(condition) and not any_row_meets(positions, masks):
            rest = [other for other in filters if other is not condition]
            raise unknown_value(condition, segments, _allowed_masks(segments, live, rest))
        for mask, met in zip(masks, positions, strict=True):
            mask &= mask_of(met, len(mask))
        if condition.missing is not None:
            if not any(mask.any() for mask in masks):
                return masks
            fields = fields_under(condition, segments, masks)
    return masks


def fields_under(
    right: Filter, segments: Sequence[Segment], masks: Sequence[Mask]
) -> dict[str, int]:
    """Fields of the rows that a right to read leaves, without its own, which names other groups."""
    counts = field_counts(segments, masks)
    counts.pop(right.field, None)
    return counts


def needs_rows(condition: Filter) -> bool:
    """True if a condition that no row meets is an error: values are required, not excluded."""
    return bool(condition.values) and not condition.exclude and condition.missing is None


def any_row_meets(positions: Sequence[Rows], masks: Sequence[Mask]) -> bool:
    """True if a masked row is among the positions, or if no row is left.

    Args:
        positions: Rows that meet a condition, one array per segment.
        masks: Rows to check.
    """
    there = any(mask[rows].any() for rows, mask in zip(positions, masks, strict=True))
    return there or not any(mask.any() for mask in masks)


def positions_of(
    segments: Sequence[Segment], fields: Mapping[str, int], condition: Filter
) -> list[Rows]:
    """Rows that meet a condition, including dead ones; one array per segment.

    Args:
        segments: The segments.
        fields: Fields of live rows.
        condition: The condition.

    Raises:
        FilterError: A field that no chunk has.
    """
    is_known = condition.field in fields or condition.field in ALWAYS
    if not is_known and condition.missing is None:
        raise unknown_field(condition.field, fields)
    return [_matching_rows(segment, condition) for segment in segments]


def _matching_rows(segment: Segment, condition: Filter) -> Rows:
    rows = _holding_rows(segment, condition)
    if condition.missing:
        index = segment.fields.get(condition.field)
        return np.concatenate([rows, _other_rows(segment, rows if index is None else index.rows)])
    return _other_rows(segment, rows) if condition.exclude else rows


def _other_rows(segment: Segment, rows: Rows) -> Rows:
    return np.flatnonzero(~mask_of(rows, segment.rows)).astype(np.int32)


def _holding_rows(segment: Segment, condition: Filter) -> Rows:
    """Rows whose field holds a value, or one within the bounds."""
    index = segment.fields.get(condition.field)
    if index is None:
        return np.empty(0, np.int32)
    if condition.values:
        lists = [index.rows_with(value) for value in condition.values]
    elif condition.low is None and condition.high is None:
        return index.rows
    else:
        lists = [
            index.rows_at(at)
            for at in find_in_range(index.spellings(), condition.low, condition.high)
        ]
    if len(lists) == 1:
        return lists[0]
    return np.concatenate(lists) if lists else np.empty(0, np.int32)


def count_left_out(
    segments: Sequence[Segment], masks: Sequence[Mask], condition: Filter
) -> tuple[int, str]:
    """Count the documents among rows without a value that can be compared with the bounds.

    Returns:
        The count, and what their values lack: a number or a date; empty if nothing is compared.
    """
    count, kind = 0, ""
    for segment, mask in zip(segments, masks, strict=True):
        left = mask.copy()
        index = segment.fields.get(condition.field)
        if index is not None:
            keys, _, name = comparison_keys(index.spellings(), condition.low, condition.high)
            kind = kind if name == "text" else name
            for at in (at for at, key in enumerate(keys) if key is not None):
                left[index.rows_at(at)] = False
        owners = np.repeat(np.arange(len(segment.sizes)), segment.sizes)
        count += len(np.unique(owners[left]))
    return count, kind


def _allowed_masks(
    segments: Sequence[Segment], live: Sequence[Mask], filters: Sequence[Filter]
) -> list[Mask]:
    """Live rows that meet the filters, as far as their values exist."""
    masks = [mask.copy() for mask in live]
    for condition in filters:
        for mask, segment in zip(masks, segments, strict=True):
            mask &= mask_of(_matching_rows(segment, condition), len(mask))
    return masks


def unknown_field(name: str, known: Collection[str]) -> FilterError:
    """The error for a field that no chunk has, with the nearest known ones."""
    fields = sorted({*known, *ALWAYS})
    return FilterError(
        f"no chunk has the field {name!r}",
        hint=suggest_name(name, fields),
        field=name,
    )


def unknown_value(
    condition: Filter, segments: Sequence[Segment], allowed: Sequence[Mask]
) -> FilterError:
    """The error for values that no chunk has, with the nearest ones.

    Only values of ``allowed`` rows are named, so that other tenants' values stay hidden.
    """
    values: set[str] = set()
    for segment, alive in zip(segments, allowed, strict=True):
        index = segment.fields.get(condition.field)
        if index is None:
            continue
        for at, value in enumerate(index.spellings()[:_NEAR_AMONG]):
            if alive[index.rows_at(at)].any():
                values.add(value)
    return value_error(condition, values)


def value_error(condition: Filter, values: Collection[str]) -> FilterError:
    """The error for a condition with unknown values; it names the nearest known ones."""
    texts = [spelling(value) for value in condition.values]
    nearest = dict.fromkeys(nearest_name(value, values, least=0.5) for value in texts)
    near = [value for value in nearest if value]
    hint = (
        f"did you mean {' or '.join(near)}?"
        if near
        else f"it has: {list_names(sorted(values), 10)}"
    )
    return FilterError(
        f"no chunk has {condition.field} = {' or '.join(repr(v) for v in texts)}",
        hint=hint if values else None,
        field=condition.field,
        values=texts,
    )
