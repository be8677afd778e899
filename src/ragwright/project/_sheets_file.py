"""The file with the tables of a project's spreadsheets, also for an index of trial settings."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from .. import index  # loaded where a variant has tables of its own
from ..core import value_hash

if TYPE_CHECKING:
    from ._project import Project

_FOLDER = "sheets"
"""Folder in the cache with the tables of indexes that are not the project's own."""


def sheets_file(project: Project, own: Project) -> Path:
    """Return the file of the tables; there is none without spreadsheets.

    A project whose documents may be others, by another store or parser, gets tables of its own.

    Args:
        project: The project.
        own: The project that it is a variant of; equal to it for one that was opened itself.
    """
    folder = project.folder
    store = project.settings.store
    mine, other = (
        (p.settings.store, p.settings.ingest.parser, p.settings.sources) for p in (own, project)
    )
    if mine == other and not Path(store.path).is_relative_to(folder.cache.absolute()):
        return folder.sheets
    key = value_hash([project.pair.key, store.kind, store.path, store.uri])
    file = folder.cache / _FOLDER / f"{key[:16]}.sqlite"
    index.keep_sheets(project.store, project.pair, file)
    return file


def clear_sheets(cache: Path) -> None:
    """Remove the tables that were made for trials; they hold values of documents."""
    shutil.rmtree(cache / _FOLDER, ignore_errors=True)
