"""What belongs to a backup of a project: files, databases and tables that others may write to."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from ..core import StoreBusyError
from ..ledger import LOGS, SWITCHING

if TYPE_CHECKING:
    from ..project import ProjectFolder, Settings

SQLITE = b"SQLite format 3\x00"
"""Beginning of a SQLite file."""

COMMENT = b"ragwright backup"
"""Comment of the archive, by which a file is known to be a backup."""

_LEFT = frozenset(
    {".git", ".hg", ".venv", "venv", "node_modules", "__pycache__", ".mypy_cache", ".ruff_cache"}
)
COMMITS = frozenset({"_versions", "_delta_log", "_refs", "_transactions", "manifests"})
"""Folders whose files say which other files belong to the tables."""

BEFORE = "before-restore-"
"""Beginning of the names of folders with what a restore has replaced."""

_PASSING_FOLDERS = (".backup-", SWITCHING, BEFORE)
_TRIES = 40
_PAUSE = 0.1


@dataclass(slots=True)
class Contents:
    """Paths relative to the project.

    Attributes:
        files: Files that are replaced as a whole, if at all.
        databases: SQLite files.
        tables: Folders of tables, whose files never change once they are committed.
        left_out: What is not in the backup, and why.
    """

    files: list[str] = field(default_factory=list)
    databases: list[str] = field(default_factory=list)
    tables: list[str] = field(default_factory=list)
    left_out: dict[str, str] = field(default_factory=dict)


def contents_of(
    folder: ProjectFolder, settings: Settings, *, replies: bool = False, sources: bool = False
) -> Contents:
    """What a backup of a project holds.

    Args:
        folder: The project.
        settings: Its settings.
        replies: Also the replies of models in the cache.
        sources: Also the files of local sources within the folder.
    """
    contents = Contents()
    own_sources = set() if sources else _local_sources(folder.root, settings)
    tables = _table_folders(folder, settings, contents)
    for path in _walk(folder.root, {*own_sources, *tables, folder.cache}, contents):
        name = path.relative_to(folder.root).as_posix()
        if _passing(folder, path):
            continue
        if _begins_with(path, SQLITE):
            contents.databases.append(name)
        elif not _is_backup(path):
            contents.files.append(name)
    contents.tables = [path.relative_to(folder.root).as_posix() for path in sorted(tables)]
    for path in sorted(own_sources):
        contents.left_out[path.relative_to(folder.root).as_posix()] = "a source: --sources"
    kept = folder.cache / "replies.sqlite"
    if kept.is_file():
        name = kept.relative_to(folder.root).as_posix()
        if replies:
            contents.databases.append(name)
        else:
            contents.left_out[name] = "replies of models: --replies"
    contents.databases.sort(key=lambda name: not name.endswith("ledger.sqlite"))
    return contents


def _walk(root: Path, without: set[Path], contents: Contents) -> Iterator[Path]:
    for place, folders, files in os.walk(root):
        here = Path(place)
        folders[:] = sorted(
            name
            for name in folders
            if name not in _LEFT
            and here / name not in without
            and not name.startswith(_PASSING_FOLDERS)
        )
        for name in sorted((*folders, *files)):
            path = here / name
            if path.is_symlink():
                contents.left_out[path.relative_to(root).as_posix()] = "a link"
                if name in folders:
                    folders.remove(name)
            elif name in files and path.is_file() and path not in without:
                yield path


def _local_sources(root: Path, settings: Settings) -> set[Path]:
    """Files and folders of sources that lie within the project."""
    places = set()
    for entry in settings.sources:
        if "://" in entry.source:
            continue
        path = root / entry.source
        own = path.resolve().is_relative_to(root.resolve()) and path.resolve() != root.resolve()
        if own and path.exists():
            places.add(root / os.path.relpath(path.resolve(), root.resolve()))
    return places


def _table_folders(folder: ProjectFolder, settings: Settings, contents: Contents) -> set[Path]:
    places = {folder.data / "records"}
    store = settings.store
    if store.kind == "lance":
        address = store.uri or store.path
        if "://" in address:
            contents.left_out[address] = "the store is elsewhere: it keeps versions of its own"
        else:
            places.add(folder.root / address if address else folder.data / "store.lance")
    elif store.path and not (folder.root / store.path).resolve().is_relative_to(
        folder.root.resolve()
    ):
        contents.left_out[store.path] = "the store lies outside of the project"
    return {place for place in places if place.is_dir()}


def _passing(folder: ProjectFolder, path: Path) -> bool:
    """True for locks, logs of SQLite, copies of former versions, and marks of the moment."""
    for end in LOGS:  # a store may lie anywhere in the project
        if path.name.endswith(end) and _begins_with(Path(str(path).removesuffix(end)), SQLITE):
            return True
    if not path.is_relative_to(folder.data):
        return False
    within = path.relative_to(folder.data)
    if within.parts[0] == "work":
        return within.name != "erasures"
    name = within.name
    ends = (*LOGS, ".lock", ".tmp", ".bak")
    return name in ("lock", "turn", "answering") or name.endswith(ends)


def _begins_with(path: Path, text: bytes) -> bool:
    try:
        with path.open("rb") as file:
            return file.read(len(text)) == text
    except OSError:
        return False


def _is_backup(path: Path) -> bool:
    """True for a backup: one within another would double with each."""
    if not _begins_with(path, b"PK"):
        return False
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - len(COMMENT)))
        return file.read() == COMMENT


def held_tables(source: Path, target: Path) -> None:
    """Hold the files of tables as they are at one moment, by links to them.

    A commit that comes meanwhile is seen, and all is done again: what is held belongs together.

    Args:
        source: The folder of the tables.
        target: A folder that does not exist yet, on the same disk.

    Raises:
        StoreBusyError: Others wrote during every attempt.
    """
    for _ in range(_TRIES):
        before = _commits(source)
        try:
            _link_files(source, target)
        except FileNotFoundError:  # removed meanwhile, with its version
            pass
        else:
            if _commits(source) == before:
                return
        shutil.rmtree(target, ignore_errors=True)
        time.sleep(_PAUSE)
    raise StoreBusyError(
        "the tables changed during every attempt to hold them",
        where=str(source),
        hint="back up again when less is being written",
    )


def _commits(folder: Path) -> list[tuple[str, int, int]]:
    commits = []
    for place, _, files in os.walk(folder):
        if COMMITS.isdisjoint(Path(place).parts):
            continue
        for name in files:
            with suppress(FileNotFoundError):
                path = Path(place, name)
                status = path.stat()
                commits.append((str(path), status.st_size, status.st_mtime_ns))
    return sorted(commits)


def _link_files(source: Path, target: Path) -> None:
    for place, folders, files in os.walk(source):
        folders.sort()
        here = target / os.path.relpath(place, source)
        here.mkdir(parents=True, exist_ok=True)
        for name in _table_files(files):
            path = Path(place, name)
            if path.is_symlink():
                continue
            try:
                (here / name).hardlink_to(path)
            except FileNotFoundError:
                raise
            except OSError:  # another disk, or one without links
                shutil.copyfile(path, here / name)


def _table_files(names: Iterable[str]) -> list[str]:
    return sorted(name for name in names if name != "lock" and not name.endswith((".lock", ".tmp")))
