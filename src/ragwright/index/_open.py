"""Opening the store that the settings name."""

from __future__ import annotations

from pathlib import Path

from ._lance import LanceStore
from ._options import StoreOptions
from ._sqlite import SqliteStore
from ._store import Store
from ._tokens import AnalyzerFactory


def open_store(
    options: StoreOptions, folder: Path, analyzers: AnalyzerFactory | None = None
) -> Store:
    """The store of a project.

    Args:
        options: Kind, path and settings; relative paths are taken from ``folder``.
        folder: The project's data folder (``.ragwright``): holds ``data/`` and ``cache/``.
        analyzers: Makes the analyzer of a pair from its spec; ours where None.

    Raises:
        MissingExtraError: The kind needs a package that is not installed.
        SchemaVersionError: A newer ragwright wrote the store.
        StoreError: The store cannot be opened.
    """
    views = folder / (options.views or "cache/views")
    path = folder / (options.path or f"data/store.{options.kind}")
    if options.kind == "lance":
        # An address (s3://…) is not a path below the project.
        place = options.path if "://" in options.path else path
        return LanceStore(place, options, analyzers=analyzers, views=views)
    return SqliteStore(path, options, analyzers=analyzers, views=views)
