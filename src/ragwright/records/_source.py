"""Opening what a source is: files, or a database."""

from __future__ import annotations

from pathlib import Path

from ._seams import RowSource
from ._source_files import FileSource
from ._source_spec import SourceSpec


def open_source(spec: SourceSpec, root: Path) -> RowSource:
    """The rows that source.yaml declares; nothing is read yet.

    Args:
        spec: What it says.
        root: Folder that relative paths start from.

    Raises:
        RecordsError: Nothing stands there.
    """
    return FileSource(spec, root)
