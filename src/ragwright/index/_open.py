"""Opening the store that the settings name."""

from __future__ import annotations

from pathlib import Path

from .. import index
from ._options import StoreOptions
from ._sqlite import SqliteStore
from ._store import Store
from ._tokens import AnalyzerFactory


def open_store(
    options: StoreOptions,
    folder: Path,
    analyzers: AnalyzerFactory | None = None,
    *,
    root: Path | None = None,
) -> Store:
    """The store of a project.

    Args:
        options: Kind, path and settings.
        folder: The project's data folder (``.ragwright``): holds ``data/`` and ``cache/``.
        analyzers: Makes the analyzer of a pair from its spec; ours where None.
        root: The project folder, where relative paths of the options start; ``folder`` if None.
            Stores that earlier versions made below ``folder`` are found.

    Raises:
        MissingExtraError: The kind needs a package that is not installed.
        SchemaVersionError: A newer ragwright wrote the store.
        StoreError: The store cannot be opened.
    """
    views = _place(options.views, folder, root) if options.views else folder / "cache/views"
    path = folder / f"data/store.{options.kind}"
    if options.path:
        path = _place(options.path, folder, root)
    if options.kind == "lance":
        given = options.uri or options.path
        place: Path | str = path
        if given:
            # An address (s3://…) is not a path below the project.
            place = given if "://" in given else _place(given, folder, root)
        return index.LanceStore(place, options, analyzers=analyzers)
    return SqliteStore(path, options, analyzers=analyzers, views=views)


def _place(path: str, folder: Path, root: Path | None) -> Path:
    """The place of a path of the settings; below ``folder`` if only that exists."""
    place, former = (root or folder) / path, folder / path
    return former if former.exists() and not place.exists() else place
