"""Hashes of rows: equal content, equal hash, whatever engine or batch computed it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from ...core import DuplicateKeyError, RecordsError, count_noun, suggest_name, text_hash
from ...ingest import silence_telemetry
from .._seams import (
    DUPLICATE,
    HASH,
    KEY,
    KEYLESS,
    REASON,
    TAGS,
    TEXT,
    TEXT_HASH,
    ArrowTable,
    compute,
    daft,
    daft_batches,
    daft_functions,
    join_chunks,
    pa,
)
from ..declared import SourceSpec
from ..sources import RowBatch, RowSource, key_texts


def row_hashes(batch: ArrowTable, columns: Sequence[str]) -> ArrowTable:
    """One hash a row over some columns: an Arrow array of 32 hexadecimal digits each.

    Values count by their text (the number 7 and the text ``7`` are equal) and the name of their
    column. A null differs from an empty text and counts as if its column were not there, so
    that a column that only new rows have leaves the hashes of all others as they are. Neither
    the order of the columns in the batch nor its size matters. Lists and records count by the
    text of their values. The sum over the columns of XXH3 under two seeds of the column's own.
    """
    rows = batch.num_rows
    if not rows:
        return pa.array([], pa.string())
    if not columns:
        return pa.array(["0" * 32] * rows, pa.string())
    silence_telemetry()
    texts = {name: _as_text(batch.column(name)) for name in columns}
    halves = [
        daft_functions.hash(daft.col(name), seed=seed).alias(f"{at}_{half}")
        for at, name in enumerate(texts)
        for half, seed in enumerate(_seeds(name))
    ]
    hashed = daft_batches.RecordBatch.from_arrow_table(pa.table(texts)).eval_expression_list(halves)
    halves_of_columns = hashed.to_arrow_table().columns
    both = np.zeros((rows, 2), np.uint64)
    for at, text in enumerate(texts.values()):
        there = text.is_valid().to_numpy(zero_copy_only=False)
        for half in (0, 1):
            both[:, half] += np.where(
                there, halves_of_columns[2 * at + half].to_numpy(), np.uint64(0)
            )
    digits = both.astype(">u8").tobytes().hex()
    return pa.array([digits[at : at + 32] for at in range(0, len(digits), 32)], pa.string())


def _seeds(column: str) -> tuple[int, int]:
    digits = text_hash(column)
    return int(digits[:16], 16) >> 1, int(digits[16:32], 16) >> 1


def _as_text(column: ArrowTable) -> ArrowTable:
    column = join_chunks(column)
    kind = column.type
    if pa.types.is_nested(kind) or pa.types.is_dictionary(kind) or pa.types.is_binary(kind):
        texts = [None if value is None else repr(value) for value in column.to_pylist()]
        return pa.array(texts, pa.large_string())
    return compute.cast(column, pa.large_string())


LACKING = "required column is empty"
"""Beginning of the reason of a row that lacks a value; the column follows."""


class BronzeRows:
    """Bronze rows of one reading of a source: its columns, ``record_key``, ``record_hash``.

    Of rows with equal key and equal content one goes on. Of rows with equal key and different
    content the first or the last goes on, or the reading ends, as ``on_duplicate`` says; for
    the last one all rows wait until the source is at its end. Rows that lack
    a value of ``require`` do not go on, and do not compete with others of their key.

    Attributes:
        read: Rows that the source gave so far.
    """

    def __init__(self, source: RowSource, spec: SourceSpec) -> None:
        self._source = source
        self._spec = spec
        self.read = 0
        self._left_out: Counter[str] = Counter()
        self._refused: list[tuple[str, str]] = []
        self._seen: dict[str, tuple[str, str, int]] = {}

    @property
    def notes(self) -> tuple[str, ...]:
        """Why rows were left out, and how many."""
        return tuple(
            f"{count_noun(count, 'row')} {why}" for why, count in sorted(self._left_out.items())
        )

    def batches(self, since: str = "") -> Iterator[ArrowTable]:
        """Bronze rows, a batch of the source at a time.

        Raises:
            RecordsError: A column is missing, or a row has no key; file and row are named.
            DuplicateKeyError: Two different rows share a key.
            DatabaseError: The source fails.
        """
        batches = map(self._bronze, self._source.batches(since))
        if self._spec.on_duplicate != "last":
            yield from map(self._first_of_keys, batches)
            return
        turned = [
            (batch, rows.take(np.arange(rows.num_rows)[::-1]), at[::-1])
            for batch, rows, at in reversed(list(batches))
        ]
        kept = list(map(self._first_of_keys, turned))
        yield from (rows.take(np.arange(rows.num_rows)[::-1]) for rows in reversed(kept))

    def _bronze(self, batch: RowBatch) -> tuple[RowBatch, ArrowTable, NDArray[np.int64]]:
        """Rows of a batch with all that is required and ``record_key``; where each stood in it."""
        spec = self._spec
        self.read += batch.rows.num_rows
        rows = batch.rows.rename_columns(rename_columns(spec, batch.rows))
        check_text(spec, rows)
        rows = rows.append_column(KEY, key_texts(rows.column(spec.key)))
        at = np.arange(rows.num_rows)
        for name in spec.require:
            empty = _empty(rows.column(name))
            reason = f"{LACKING}: {name}"
            keys = rows[KEY].filter(pa.array(empty & ~_empty(rows[KEY]))).to_pylist()
            self._refused += [(key, reason) for key in keys]
            if empty.any():
                self._left_out[f"left out: {name} is empty"] += int(empty.sum())
            rows, at = rows.filter(pa.array(~empty)), at[~empty]
        nameless = np.flatnonzero(_empty(rows[KEY]))
        if len(nameless):
            raise RecordsError(
                f"the key {spec.key!r} of a row is empty",
                where=batch.place(at[nameless[0]]),
                hint=f"give every row a key, or leave out such rows: require: [{spec.key}]",
            )
        return batch, rows, at

    def _first_of_keys(self, part: tuple[RowBatch, ArrowTable, NDArray[np.int64]]) -> ArrowTable:
        """The rows of a batch whose key was not met before, with ``record_hash``."""
        batch, rows, at = part
        spec, wanted = self._spec, []
        names = [name for name in rows.column_names if name != KEY]
        whole = row_hashes(rows, names)
        for key, text, row in zip(rows[KEY].to_pylist(), whole.to_pylist(), at, strict=True):
            mine = (text, batch.file, batch.numbers[row])
            other = self._seen.setdefault(key, mine)
            wanted.append(other is mine)
            if other is mine:
                continue
            if other[0] == text:
                self._left_out["counted once: equal to another row"] += 1
                continue
            if spec.on_duplicate == "error":
                raise DuplicateKeyError(
                    f"two different rows have the key {key!r} ({spec.key})",
                    where=f"{other[1]}, row {other[2]} and {batch.place(row)}",
                    hint="use a unique key, or set on_duplicate: first or last",
                )
            self._left_out[f"left out: not the {spec.on_duplicate} row with its key"] += 1
        hashes = row_hashes(rows, spec.hash) if spec.hash else whole
        return rows.append_column(HASH, hashes).filter(pa.array(wanted, pa.bool_()))

    def refused(self) -> ArrowTable:
        """Keys that came, but in no row with all that is required: ``record_key``, ``left_out``.

        To be asked once the source is at its end; each key comes once.
        """
        refused: dict[str, str] = {}
        for key, reason in self._refused:
            if key not in self._seen:
                refused.setdefault(key, reason)
        columns = {KEY: list(refused), REASON: list(refused.values())}
        return pa.table({name: pa.array(texts, pa.string()) for name, texts in columns.items()})


_OURS = {KEY, HASH, REASON, TEXT, TEXT_HASH, TAGS}
"""Columns that the tables have themselves; the text of a source may be called ``text``."""


def rename_columns(spec: SourceSpec, batch: ArrowTable) -> list[str]:
    """Names of a batch's columns after renaming; all that source.yaml names are there.

    Raises:
        RecordsError: A column is missing, there twice, or called as one of the tables is.
    """
    there = batch.schema.names
    for old in spec.rename:
        if old not in there:
            raise _missing(spec, "rename", old, there)
    names = [spec.rename.get(name, name) for name in there]
    named = [("key", spec.key), ("text", spec.text), ("watermark", spec.watermark)]
    named += [(key, name) for key in ("hash", "keep", "require") for name in getattr(spec, key)]
    for key, name in named:
        if name and name not in names:
            raise _missing(spec, key, name, names)
    for name, count in Counter(names).items():
        if count > 1 or name in _OURS - {spec.text}:
            conflict = "two columns are called" if count > 1 else "the tables have a column"
            raise RecordsError(
                f"{conflict} {name!r}",
                where=spec.place("rename" if spec.rename else "source"),
                hint=f"give the source's another name: rename: {{{name}: source_{name}}}",
            )
    return names


def check_text(spec: SourceSpec, rows: ArrowTable) -> None:
    """Refuse a text column of lists, records or bytes.

    Raises:
        RecordsError: It is one.
    """
    types = pa.types
    kind = rows.schema.field(spec.text).type
    if types.is_nested(kind) or types.is_binary(kind) or types.is_large_binary(kind):
        raise RecordsError(
            f"the column {spec.text!r} contains {kind}, not text", where=spec.place("text")
        )


def _missing(spec: SourceSpec, key: str, name: str, there: Sequence[str]) -> RecordsError:
    nearest = suggest_name(name, there)
    columns = f"the columns are: {', '.join(there)}"
    if key == "key":
        columns += f"; {KEYLESS}"
    return RecordsError(
        f"{key}: the source has no column {name!r}",
        where=spec.place(key),
        hint=f"{nearest} {columns}" if nearest.startswith("did") else columns,
    )


def _empty(column: ArrowTable) -> NDArray[np.bool_]:
    """Return the mask of values that are null, not a number, or texts of nothing but blanks."""
    empty = compute.is_null(column, nan_is_null=True)
    if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
        blank = compute.equal(compute.utf8_trim_whitespace(column), "")
        empty = compute.or_(empty, compute.fill_null(blank, False))
    return np.asarray(empty)


def duplicates(
    read: Callable[[Sequence[str]], Iterator[ArrowTable]], by: Sequence[str]
) -> ArrowTable:
    """Find the rows that are equal in some columns to one with a smaller key (as text).

    Args:
        read: Gives the rows, some columns of them; their ``record_key`` is unique.
        by: Columns that make rows equal, compared by their text; a null equals a null.

    Returns:
        ``record_key`` of those rows, sorted, and ``left_out``: ``duplicate of KEY``.
    """
    hash_of: dict[str, str] = {}
    for batch in read([KEY, *by]):
        hashes = row_hashes(batch, by).to_pylist()
        hash_of |= dict(zip(batch.column(KEY).to_pylist(), hashes, strict=True))
    first: dict[str, str] = {}
    losers = []
    for key in sorted(hash_of):
        if first.setdefault(hash_of[key], key) != key:
            losers.append(key)
    reasons = [f"{DUPLICATE} of {first[hash_of[key]]}" for key in losers]
    return pa.table({KEY: pa.array(losers, pa.string()), REASON: pa.array(reasons, pa.string())})


def kind_of_reason(reason: str) -> str:
    """A reason without what is particular to the row, such as ``duplicate``."""
    return DUPLICATE if reason.startswith(DUPLICATE) else reason.partition(": ")[0]
