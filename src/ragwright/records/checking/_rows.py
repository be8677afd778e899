"""Rows for testing declarations: a sample of those read, and faults of their keys."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ...core import (
    DuplicateKeyError,
    RagwrightError,
    RecordsError,
    count_noun,
    suggest_name,
)
from .._seams import KEY, KEYLESS, ArrowTable, RowSource, pa
from ..declared import SourceSpec
from ..sources import Runs, key_texts, place_in, runs_of
from ..stages import check_text, rename_columns, row_hashes
from ._report import Fault

_BATCH = 4096

_SCANNED = 20
"""Rows read per row tested, at least 200,000 in all, since reading is cheap."""

_KEY = 60
"""Characters of a key that a fault repeats."""

_SHOWN = 5
"""Most duplicate keys reported singly; the others are counted."""


@dataclass(slots=True)
class Sample:
    """A uniform sample of the rows read, in order.

    Attributes:
        rows: Columns as they are called after ``rename``, and ``record_key``; None where no row
            could be read.
        scanned: Rows that were read.
        usable: Those with all required columns and a unique key.
        whole: The source has no more.
        stopped: Columns are missing without which rows cannot be tried: no more were read.
        lacking: Column that source.yaml requires -> rows where it is empty.
        faults: Faults of columns and keys.
    """

    rows: ArrowTable | None = None
    scanned: int = 0
    usable: int = 0
    whole: bool = True
    stopped: bool = False
    lacking: Counter[str] = field(default_factory=Counter)
    faults: list[Fault] = field(default_factory=list)


def sample_rows(
    spec: SourceSpec, source: RowSource, named: Sequence[tuple[str, str]], rows: int, seed: int = 0
) -> Sample:
    """A uniform sample of the rows of a source.

    Args:
        spec: What source.yaml says.
        source: Where rows come from.
        named: Columns used and the places (``file:line``) that name them; missing ones are faults.
        rows: Most rows of the sample.
        seed: Of the draw.
    """
    sample = Sample()
    draw = _Draw(rows, seed)
    keys = _SeenKeys(spec)
    most = max(_SCANNED * rows, 200_000)
    try:
        for read in source.batches(_BATCH):
            if not sample.scanned and not _columns_there(read, spec, named, sample.faults):
                sample.scanned, sample.whole, sample.stopped = read.num_rows, False, True
                return sample
            if sample.scanned >= most:
                sample.whole = False
                break
            runs = runs_of(read) or [(0, "the source", sample.scanned + 1)]
            sample.scanned += read.num_rows
            renamed_rows = read.rename_columns(_names(spec, read))
            kept, at = _required(renamed_rows, spec, sample.lacking)
            keyed = keys.look_at(kept, runs, at)
            sample.usable += keyed.num_rows
            draw.take(keyed)
    except RagwrightError as error:
        sample.faults.append(Fault.of(error))
    sample.faults += keys.faults()
    sample.rows = draw.rows()
    return sample


def find_empty(column: ArrowTable) -> NDArray[np.bool_]:
    """Return the mask of values that are null, not a number, or texts of nothing but blanks."""
    values: list[object] = column.to_pylist()
    return np.array(
        [v is None or v != v or (isinstance(v, str) and not v.strip()) for v in values], np.bool_
    )


def _names(spec: SourceSpec, batch: ArrowTable) -> list[str]:
    return [spec.rename.get(name, name) for name in batch.schema.names]


def _columns_there(
    batch: ArrowTable, spec: SourceSpec, named: Sequence[tuple[str, str]], faults: list[Fault]
) -> bool:
    """Report missing columns; False if rows cannot be tested without them."""
    there = _names(spec, batch)
    missing = [name for name, _ in named if name not in there]
    for name, where in named:
        if name in missing:
            sentence = f"the source has no column {name!r}"
            hint = suggest_name(name, there)
            if name == spec.key:
                hint += f"; {KEYLESS}"
            faults.append(Fault(sentence, where, hint))
    for name in spec.rename:
        if name not in batch.schema.names:
            sentence = f"rename: {name!r} is not a column of the source"
            hint = suggest_name(name, batch.schema.names)
            faults.append(Fault(sentence, spec.place("rename"), hint))
            missing.append(name)
    if not missing:
        # these check the existing columns
        check_text(spec, batch.rename_columns(rename_columns(spec, batch)))
    return spec.key in there and spec.text in there


def _required(
    batch: ArrowTable, spec: SourceSpec, lacking: Counter[str]
) -> tuple[ArrowTable, NDArray[np.int64]]:
    """Rows that have a value for every required column, and their positions in the batch."""
    at = np.arange(batch.num_rows)
    for name in spec.require:
        if name in batch.column_names:
            missing = find_empty(batch.column(name))
            lacking[name] += int(missing.sum())
            if missing.any():
                batch, at = batch.filter(pa.array(~missing)), at[~missing]
    return batch, at


class _Draw:
    """The rows with the smallest of random numbers: a uniform sample of a stream of any length."""

    def __init__(self, rows: int, seed: int) -> None:
        self._most = rows
        self._random = np.random.default_rng(seed)
        self._kept: ArrowTable | None = None
        self._numbers = np.empty(0)

    def take(self, batch: ArrowTable) -> None:
        """Add the rows of a batch."""
        numbers = self._random.random(batch.num_rows)
        held = [batch] if self._kept is None else [self._kept, batch]
        self._kept = pa.concat_tables(held, promote_options="permissive")
        self._numbers = np.concatenate([self._numbers, numbers])
        if len(self._numbers) >= 2 * self._most + _BATCH:
            self._shrink()

    def rows(self) -> ArrowTable | None:
        """The sampled rows, in order."""
        self._shrink()
        return None if self._kept is None else self._kept.combine_chunks()

    def _shrink(self) -> None:
        if self._kept is not None and len(self._numbers) > self._most:
            drawn = np.sort(np.argsort(self._numbers, kind="stable")[: self._most])
            self._kept, self._numbers = self._kept.take(drawn), self._numbers[drawn]


class _SeenKeys:
    """The keys of all rows that are read."""

    def __init__(self, spec: SourceSpec) -> None:
        self._spec = spec
        self._runs: list[Runs] = []
        self._seen: dict[str, tuple[str, int, int]] = {}
        self._nulls = 0
        self._first_null = ""
        self._twice: dict[str, str] = {}

    def look_at(self, batch: ArrowTable, runs: Runs, places: NDArray[np.int64]) -> ArrowTable:
        """The batch with ``record_key``, without rows that have none or one that was seen.

        Args:
            batch: Rows.
            runs: Where the rows of the batch stood that they are of.
            places: Row of that batch that each is.
        """
        self._runs.append(runs)
        hashes = row_hashes(batch, batch.column_names).to_pylist()
        texts = key_texts(batch.column(self._spec.key)).to_pylist()
        keys = [text if text and text.strip() else None for text in texts]
        wanted = [
            self._new(key, hash_, at)
            for key, hash_, at in zip(keys, hashes, places.tolist(), strict=True)
        ]
        keyed = batch.append_column(KEY, pa.array(keys, pa.string()))
        return keyed if all(wanted) else keyed.filter(pa.array(wanted, pa.bool_()))

    def _new(self, key: str | None, hash_: str, at: int) -> bool:
        if key is None:
            self._nulls += 1
            self._first_null = self._first_null or place_in(self._runs[-1], at)
            return False
        mine = (hash_, len(self._runs) - 1, at)
        other = self._seen.setdefault(key, mine)
        if other is mine:
            return True
        if other[0] != hash_ and self._spec.on_duplicate == "error" and key not in self._twice:
            both = (place_in(self._runs[batch], row) for _, batch, row in (other, mine))
            self._twice[key] = " and ".join(both)
        return False

    def faults(self) -> list[Fault]:
        """Faults: rows without a key, and keys of several different rows."""
        column, faults = self._spec.key, []
        if self._nulls:
            several = count_noun(self._nulls, "row has", "rows have")
            error = RecordsError(
                f"{several} no {column!r}; the first is {self._first_null}",
                where=self._spec.place("key"),
                hint=f"use another key, or leave out such rows: require: [{column}]",
            )
            faults.append(Fault.of(error))
        for key, where in list(self._twice.items())[:_SHOWN]:
            shown = key if len(key) <= _KEY else f"{key[:_KEY]}…"
            twice = DuplicateKeyError(
                f"two different rows have the key {shown!r} ({column})",
                where=where,
                hint="use a unique key, or set on_duplicate: first or last",
            )
            faults.append(Fault.of(twice))
        if len(self._twice) > _SHOWN:
            more = len(self._twice) - _SHOWN
            further_keys = f"{more:,} more keys" if more > 1 else "1 more key"
            faults.append(Fault(f"two different rows have {further_keys}", self._spec.place("key")))
        return faults
