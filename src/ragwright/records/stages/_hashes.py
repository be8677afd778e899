"""Hashes of rows: equal content, equal hash, whatever engine or batch computed it."""

from __future__ import annotations

from bisect import bisect_right
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
    ArrowTable,
    RowSource,
    compute,
    daft,
    daft_batches,
    daft_functions,
    pa,
)
from ..declared import SourceSpec
from ..sources import Runs, key_texts, place, place_in, runs_of


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
    """Two seeds of 63 bits."""
    digits = text_hash(column)
    return int(digits[:16], 16) >> 1, int(digits[16:32], 16) >> 1


def _as_text(column: ArrowTable) -> ArrowTable:
    """A column as one array of large strings."""
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
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

    Args:
        source: Where rows come from.
        spec: What source.yaml says.
        rows: Rows of a batch.

    Attributes:
        read: Rows that the source gave so far.
    """

    def __init__(self, source: RowSource, spec: SourceSpec, rows: int = 16_384) -> None:
        self._source = source
        self._spec = spec
        self._rows = rows
        self.read = 0
        self._there: list[str] = []
        self._names: list[str] = []
        self._left_out: Counter[str] = Counter()
        self._refused: list[ArrowTable] = []
        self._once = _Once(spec)

    @property
    def reached(self) -> str:
        """Text of the highest watermark met so far; empty where no column is named."""
        return self._source.reached

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes on the source, and on rows that were left out."""
        lacking_notes = [
            f"{_rows(count)} left out: {column} is empty"
            for column, count in sorted(self._left_out.items())
            if count
        ]
        return (*lacking_notes, *self._once.notes, *self._source.notes)

    def batches(self, since: str = "") -> Iterator[ArrowTable]:
        """Bronze rows, a batch of the source at a time.

        Raises:
            RecordsError: A column is missing, or a row has no key; file and row are named.
            DuplicateKeyError: Two different rows share a key.
            DatabaseError: The source fails.
        """
        masked_batches = map(self._bronze, self._source.batches(self._rows, since))
        return (
            self._last(masked_batches)
            if self._spec.on_duplicate == "last"
            else map(_filtered, masked_batches)
        )

    def _bronze(self, batch: ArrowTable) -> tuple[ArrowTable, NDArray[np.bool_]]:
        """Bronze rows of a batch, and which of them go on."""
        self.read += batch.num_rows
        if batch.schema.names != self._there:
            self._names = rename_columns(self._spec, batch)
            self._there = batch.schema.names
        rows = batch.rename_columns(self._names)
        check_text(self._spec, rows)
        wanted = np.ones(rows.num_rows, np.bool_)
        keys = key_texts(rows.column(self._spec.key))
        for name in self._spec.require:
            empty = wanted & _empty(rows.column(name))
            self._refuse(keys, empty, name)
            wanted &= ~empty
        empty = wanted & _empty(keys)
        if empty.any():
            raise RecordsError(
                f"the key {self._spec.key!r} of a row is empty",
                where=place(batch, int(np.flatnonzero(empty)[0])),
                hint=f"give every row a key, or leave out such rows: require: [{self._spec.key}]",
            )
        whole = row_hashes(rows, self._names)
        hashes = row_hashes(rows, self._spec.hash) if self._spec.hash else whole
        wanted = self._once.choose(keys.to_pylist(), whole.to_pylist(), wanted, runs_of(batch))
        keyed_rows = rows.append_column(KEY, keys).append_column(HASH, hashes)
        return keyed_rows.replace_schema_metadata(None), wanted

    def _refuse(self, keys: ArrowTable, empty: NDArray[np.bool_], column: str) -> None:
        """Note the keys of rows that lack a value; a row without a key has no name to note."""
        self._left_out[column] += int(empty.sum())
        named = keys.filter(pa.array(empty & ~_empty(keys)))
        if len(named):
            reasons = pa.repeat(f"{LACKING}: {column}", len(named))
            self._refused.append(pa.table({KEY: named, REASON: reasons}))

    def refused(self) -> Iterator[ArrowTable]:
        """Keys that came, but in no row with all that is required: ``record_key``, ``left_out``.

        To be asked once the source is at its end; each key comes once.
        """
        for rows in self._refused:
            new = self._once.first_of(rows.column(KEY).to_pylist())
            if new.any():
                yield rows.filter(pa.array(new))

    def _last(
        self, masked_batches: Iterator[tuple[ArrowTable, NDArray[np.bool_]]]
    ) -> Iterator[ArrowTable]:
        """The last row of each key, once the source is at its end."""
        start = 0
        for rows, _ in list(masked_batches):
            yield _filtered((rows, self._once.alive(start, start + rows.num_rows)))
            start += rows.num_rows


class _Once:
    """One row of each key: what was met so far, and which of it goes on."""

    def __init__(self, spec: SourceSpec) -> None:
        self._mode = spec.on_duplicate
        self._key = spec.key
        self._positions: dict[str, int] = {}
        self._hashes: list[str] = []
        self._alive = bytearray()
        self._starts: list[int] = []
        self._runs: list[Runs] = []
        self._equal = self._other = 0

    @property
    def notes(self) -> tuple[str, ...]:
        """The numbers of rows that did not go on, with the reasons."""
        sentences = []
        if self._equal:
            sentences.append(f"{_rows(self._equal)} counted once: equal to another row")
        if self._other:
            sentences.append(
                f"{_rows(self._other)} left out: not the {self._mode} row with its key"
            )
        return tuple(sentences)

    def alive(self, start: int, stop: int) -> NDArray[np.bool_]:
        """The mask of the rows of a range that still go on."""
        return np.frombuffer(self._alive[start:stop], np.bool_)

    def choose(
        self, keys: Sequence[str], hashes: Sequence[str], wanted: NDArray[np.bool_], runs: Runs
    ) -> NDArray[np.bool_]:
        """Return the mask of the rows of a batch that go on.

        Args:
            keys: Their keys.
            hashes: Hashes of all their columns.
            wanted: Which rows are to be looked at.
            runs: Where they stood.

        Raises:
            DuplicateKeyError: Two different rows share a key, and nobody says which to take.
        """
        start = len(self._hashes)
        self._starts.append(start)
        self._runs.append(runs)
        self._hashes += hashes
        self._alive += bytes(len(hashes))
        for row in np.flatnonzero(wanted).tolist():
            position = start + row
            before = self._positions.setdefault(keys[row], position)
            if before == position:
                self._alive[position] = True
            elif hashes[row] == self._hashes[before]:
                self._equal += 1
            else:
                self._take_one(keys[row], before, position)
        return self.alive(start, len(self._hashes))

    def _take_one(self, key: str, before: int, position: int) -> None:
        """Of two different rows with one key, let the first or the last go on."""
        if self._mode == "error":
            raise DuplicateKeyError(
                f"two different rows have the key {key!r} ({self._key})",
                where=f"{self._place(before)} and {self._place(position)}",
                hint="use a unique key, or set on_duplicate: first or last",
            )
        self._other += 1
        if self._mode == "last":
            self._positions[key] = position
            self._alive[before], self._alive[position] = False, True

    def first_of(self, keys: Sequence[str]) -> NDArray[np.bool_]:
        """Return the mask of the keys not met before, here or among these; they are now."""
        new = []
        for key in keys:
            new.append(key not in self._positions)
            self._positions.setdefault(key, -1)
        return np.array(new, np.bool_)

    def _place(self, position: int) -> str:
        batch = bisect_right(self._starts, position) - 1
        return place_in(self._runs[batch], position - self._starts[batch])


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
    for name, count in Counter(names).items():
        if count > 1 or name in {KEY, HASH, REASON}:
            conflict = "two columns are called" if count > 1 else "the tables have a column"
            raise RecordsError(
                f"{conflict} {name!r}",
                where=spec.place("rename" if spec.rename else "source"),
                hint=f"give the source's another name: rename: {{{name}: source_{name}}}",
            )
    named = [("key", spec.key), ("text", spec.text), ("watermark", spec.watermark)]
    named += [(key, name) for key in ("hash", "keep", "require") for name in getattr(spec, key)]
    for key, name in named:
        if name and name not in names:
            raise _missing(spec, key, name, names)
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


def _filtered(masked_batch: tuple[ArrowTable, NDArray[np.bool_]]) -> ArrowTable:
    rows, wanted = masked_batch
    if wanted.all():
        return rows
    return rows.filter(pa.array(wanted))


def _rows(count: int) -> str:
    return count_noun(count, "row")


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
