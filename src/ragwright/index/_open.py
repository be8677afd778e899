"""Opening the store that the settings name."""

from __future__ import annotations

from pathlib import Path

from .. import index
from ..core import PluginError, RagwrightError, load_addition
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
    path = folder / f"data/store.{options.kind.replace(':', '-')}"
    if options.path:
        path = _place(options.path, folder, root)
    if options.kind == "lance":
        given = options.uri or options.path
        place: Path | str = path
        if given:
            # An address (s3://…) is not a path below the project.
            place = given if "://" in given else _place(given, folder, root)
        return index.LanceStore(place, options, analyzers=analyzers)
    if options.kind != "sqlite":
        return _plugin_store(options, path, analyzers)
    return SqliteStore(path, options, analyzers=analyzers, views=views)


def _place(path: str, folder: Path, root: Path | None) -> Path:
    """The place of a path of the settings; below ``folder`` if only that exists."""
    place, former = (root or folder) / path, folder / path
    return former if former.exists() and not place.exists() else place


def _plugin_store(options: StoreOptions, path: Path, analyzers: AnalyzerFactory | None) -> Store:
    """The store of a plug-in."""
    where = f"store.kind: {options.kind}"
    make = load_addition("stores", options.kind, where=where)
    try:
        store = make(path, options, analyzers=analyzers)
    except RagwrightError:
        raise
    except Exception as error:
        raise PluginError(
            f"the store cannot be opened: {type(error).__name__}: {error}", where=where
        ) from error
    if not isinstance(store, Store):
        raise PluginError(
            f"{type(store).__name__} is not a store",
            where=where,
            hint="subclass ragwright.index.Store; test it with IndexSuite of ragwright.testing",
        )
    return store
