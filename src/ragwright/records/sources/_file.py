"""The interface of a file of rows for the source that reads it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TypeAlias

from ..declared import SourceSpec
from ._batches import RowBatch

Columns: TypeAlias = Mapping[str, Any]
"""Column -> Arrow type, in the file's order."""


def source_name(spec: SourceSpec, name: str) -> str:
    """Return a column's name in the source, before it is renamed."""
    return next((old for old, new in spec.rename.items() if new == name), name)


class RowFile(ABC):
    """One file of rows.

    Args:
        path: The file.
        name: What it is called in messages.
    """

    def __init__(self, path: Path, name: str) -> None:
        self.path = path
        self.name = name

    @abstractmethod
    def columns(self) -> Columns:
        """Return the columns with their types, over the whole file.

        Raises:
            RecordsError: It cannot be read, or is not what its name says.
        """

    @abstractmethod
    def pieces(self) -> Iterator[RowBatch]:
        """Yield the rows, with exactly those columns and types.

        Raises:
            RecordsError: A row cannot be read; it is named.
        """
