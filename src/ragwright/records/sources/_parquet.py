"""Parquet files: columns as they are, but for dictionaries, which become their values."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Any

from ...core import RecordsError, require
from ._batches import RowBatch, piece
from ._file import Columns, RowFile
from ._text import unreadable

_ROWS = 8_192


class ParquetFile(RowFile):
    """One Parquet file, read a few thousand rows at a time."""

    def columns(self) -> Columns:
        """Return columns and types of the file's schema."""
        return {name: _decoded_type(kind) for name, kind in self._stored.items()}

    @cached_property
    def _stored(self) -> Columns:
        with self._opened() as file:
            schema = file.schema_arrow
            return dict(zip(schema.names, schema.types, strict=True))

    def pieces(self) -> Iterator[RowBatch]:
        """Read rows in the file's order."""
        pa = require("pyarrow", "records", "reading records")
        schema = pa.schema(list(self.columns().items()))
        row = 1
        with self._opened() as file:
            batches = file.iter_batches(batch_size=_ROWS, use_threads=True)
            while True:
                try:
                    batch = next(batches, None)
                    if batch is not None:
                        batch.validate(full=True)  # texts may hold bytes that are no UTF-8
                except (pa.ArrowException, OSError) as error:
                    raise RecordsError(
                        f"the file is damaged: {error}", where=f"{self.name}, row {row}"
                    ) from error
                if batch is None:
                    return
                yield piece(pa.Table.from_batches([batch]).cast(schema), self.name, row)
                row += batch.num_rows

    def _opened(self) -> Any:
        pa = require("pyarrow", "records", "reading records")
        parquet = require("pyarrow.parquet", "records", "reading records")
        try:
            return parquet.ParquetFile(self.path, pre_buffer=False, memory_map=False)
        except pa.ArrowException as error:
            raise RecordsError(f"not a Parquet file: {error}", where=self.name) from error
        except OSError as error:
            raise unreadable(self.path, error) from error


def _decoded_type(kind: Any) -> Any:
    pa = require("pyarrow", "records", "reading records")
    return kind.value_type if pa.types.is_dictionary(kind) else kind
