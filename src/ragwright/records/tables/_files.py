"""Parquet files of the tables: read, written whole, their keys and hashes."""

from __future__ import annotations

import os
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ...core import RecordsError, StoreError, require
from .._seams import HASH, KEY, ArrowTable
from ._manifest import owner_only
from ._types import delta_rows

Flags = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class LivePart:
    """A file of a table, and which of its rows count.

    Attributes:
        path: The Parquet file.
        rows: Its rows, also those that do not count.
        live: Which of them count, bool of shape (rows,); None where all do.
    """

    path: Path
    rows: int
    live: Flags | None = None


def read_file(path: Path, columns: Sequence[str] | None = None) -> ArrowTable:
    """Rows of a file, some columns or all.

    Raises:
        StoreError: It is not a complete Parquet file.
    """
    pa = require("pyarrow", "records", "reading records")
    parquet = require("pyarrow.parquet", "records", "reading records")
    try:
        with parquet.ParquetFile(path) as file:
            names = None if columns is None else list(columns)
            return file.read(columns=names, use_threads=False)
    except (pa.ArrowInvalid, OSError) as error:
        if getattr(error, "errno", None):  # the file system's word, not the format's
            raise
        raise damage_error(path, error) from error


AFRESH = (
    "restore it from a backup, or move the folder of the tables away and run: "
    "ragwright records refresh"
)


def damage_error(path: Path, error: Exception) -> StoreError:
    """The error for a file that is not a complete Parquet file."""
    return StoreError(
        f"a file of the tables cannot be read: {error}",
        where=str(path),
        hint=AFRESH,
    )


@dataclass(frozen=True, slots=True)
class FileKeys:
    """Keys and hashes of a file's rows (Arrow arrays), and the file's Arrow schema."""

    keys: ArrowTable
    hashes: ArrowTable
    schema: ArrowTable


def keys_of(path: Path) -> FileKeys:
    """Read what a table has to know of a file.

    Raises:
        RecordsError: It lacks one of the columns, or a row has no key or no hash.
        StoreError: It is not a Parquet file.
    """
    pa = require("pyarrow", "records", "reading records")
    parquet = require("pyarrow.parquet", "records", "reading records")
    try:
        with parquet.ParquetFile(path) as file:
            schema = file.schema_arrow
            for column in (KEY, HASH):
                if schema.names.count(column) != 1:
                    raise RecordsError(f"rows without the column {column}", where=str(path))
            rows = file.read(columns=[KEY, HASH], use_threads=False)
    except (pa.ArrowInvalid, OSError) as error:
        if getattr(error, "errno", None):  # a refusal of the file system
            raise
        raise damage_error(path, error) from error
    for column, noun in ((KEY, "key"), (HASH, "hash")):
        if rows.column(column).null_count:
            row = rows.column(column).is_null().to_pylist().index(True)
            raise RecordsError(f"a row has no {noun}", where=f"{path}, row {row + 1}")
    return FileKeys(rows.column(KEY), rows.column(HASH), schema)


def count_keys(path: Path, keys: Sequence[str]) -> int:
    """Count the rows of a file that have one of some keys.

    Raises:
        StoreError: It is not a Parquet file.
    """
    pa = require("pyarrow", "records", "reading records")
    compute = require("pyarrow.compute", "records", "reading records")
    held = compute.is_in(keys_of(path).keys, value_set=pa.array(list(keys), pa.string()))
    return int(compute.sum(held).as_py() or 0)


def write_part(rows: ArrowTable, target: Path) -> None:
    """Write one Parquet file with types that Delta has; it gets its name when all is on the disk.

    The name until then is nobody else's, so that a task begun twice (a worker that was thought
    dead) does not write into its twin's file. For its owner alone, like all of the tables.
    """
    parquet = require("pyarrow.parquet", "records", "writing records")
    part = target.with_name(f".{target.name}.{uuid.uuid4().hex}.part")
    try:
        with open(part, "xb", opener=owner_only) as file:
            # Statistics cost a sixth of the time, and a file is read as a whole.
            parquet.write_table(delta_rows(rows), file, compression="zstd", write_statistics=False)
            file.flush()
            os.fsync(file.fileno())
        part.replace(target)
    finally:
        part.unlink(missing_ok=True)
