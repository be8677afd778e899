"""One archive of a whole project, and the check of one; unpacking it is the restore."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from .. import __version__
from ..core import ConfigError, StoreDamagedError, count_noun, list_names, replacing
from ..ledger import SharedPlace, WorkLock, copy_database, file_error
from ..project import ProjectFolder, Settings
from ._audit_log import utc_now

MANIFEST = ".ragwright/backup.json"
"""The file of an archive that lists the others with their SHA-256, and what was left out."""

_LEFT = frozenset({".git", ".hg", ".venv", "venv", "node_modules", "__pycache__"})
_LOGS = ("-wal", "-shm", "-journal")
_SQLITE = b"SQLite format 3\x00"
_BLOCK = 1 << 20
_WAIT_SECONDS = 30.0


def back_up_project(folder: ProjectFolder, settings: Settings, target: Path) -> dict[str, Any]:
    """Write a project to a zip archive with mode 0600, while nobody else works on it.

    Returns:
        The manifest: ``ragwright``, ``at``, ``files`` (name -> SHA-256), ``left_out`` (-> why).

    Raises:
        ConfigError: There is such a file.
        StoreBusyError: Others work on the project and do not end.
        StoreError: A file cannot be read, or the archive cannot be written; then there is none.
    """
    if target.exists():
        raise ConfigError("this file exists already", where=str(target), hint="choose another name")
    files: dict[str, str] = {}
    left_out = dict(_kept_elsewhere(folder, settings))
    manifest = {"ragwright": __version__, "at": utc_now(), "files": files, "left_out": left_out}
    hint = "end other work on the project, then back it up again"
    try:
        with WorkLock(folder.data / "work").alone("backup", wait=_WAIT_SECONDS, hint=hint):
            paths = [path for path in _files(folder, left_out) if path != target.absolute()]
            with (
                tempfile.TemporaryDirectory(
                    prefix=".backup-", dir=target.absolute().parent
                ) as aside,
                replacing(target, private=True, fresh=True) as file,
                zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive,
            ):
                for path in paths:
                    name = path.relative_to(folder.root.absolute()).as_posix()
                    info = zipfile.ZipInfo.from_file(path, name, strict_timestamps=False)
                    info.compress_type = zipfile.ZIP_DEFLATED
                    whole = _whole_file(path, Path(aside) / "copy")
                    with (
                        whole.open("rb") as source,
                        archive.open(info, "w", force_zip64=True) as to,
                    ):
                        files[name] = _digest(source, to)
                archive.writestr(MANIFEST, json.dumps(manifest, ensure_ascii=False, indent=1))
    except OSError as error:
        raise file_error(error, target) from error
    return manifest


def check_backup(file: Path) -> dict[str, Any]:
    """Compare every file of an archive with its checksum; returns the manifest.

    Raises:
        StoreDamagedError: It is no backup, or a file of it is damaged, missing or added.
    """
    try:
        with zipfile.ZipFile(file) as archive:
            manifest: dict[str, Any] = json.loads(archive.read(MANIFEST))
            names, known = {*archive.namelist()} - {MANIFEST}, manifest["files"]
            wrong = names ^ known.keys()
            for name in names & known.keys():
                with archive.open(name) as member:
                    wrong |= {name} if _digest(member) != known[name] else set()
    except (
        OSError,
        RuntimeError,
        ValueError,
        LookupError,
        zipfile.BadZipFile,
        zlib.error,
    ) as error:
        raise StoreDamagedError(
            f"this is no backup of ragwright, or a damaged one: {error}",
            where=str(file),
            hint="use another backup",
        ) from error
    if wrong:
        raise StoreDamagedError(
            f"{count_noun(len(wrong), 'file')} of the backup damaged, missing or added: "
            f"{list_names(sorted(wrong), 3)}",
            where=str(file),
            hint="use another backup",
        )
    return manifest


def _kept_elsewhere(folder: ProjectFolder, settings: Settings) -> Iterator[tuple[str, str]]:
    shared, store = settings.shared.place(folder.ledger), settings.store.path
    if isinstance(shared, SharedPlace):
        command = f"pg_dump -n '{shared.schema}_*' DATABASE > shared.sql"
        yield shared.address, f"the shared database: {command}"
    inside = (folder.root / store).resolve().is_relative_to(folder.root.resolve())
    if "://" in store or not inside:
        yield store, "the store is not in the project folder: copy it with its own tools"
    yield ".ragwright/cache", "views are built again, replies of models are paid for again"


def _files(folder: ProjectFolder, left_out: dict[str, str]) -> Iterator[Path]:
    root, data = folder.root.absolute(), folder.data.absolute()
    for place, folders, names in os.walk(root):
        here = Path(place)
        for path in (here / name for name in (*folders, *names)):
            if path.is_symlink():
                left_out[path.relative_to(root).as_posix()] = "a link"
        inner = (
            name for name in folders if name not in _LEFT and here / name != data.parent / "cache"
        )
        folders[:] = sorted(name for name in inner if not (here / name).is_symlink())
        for path in (here / name for name in sorted(names)):
            log = any(
                Path(f"{path}".removesuffix(end)).is_file()
                for end in _LOGS
                if f"{path}".endswith(end)
            )
            mark = path.parent == data / "work" and path.name != "erasures"
            lock = path.is_relative_to(data) and (path.name == "lock" or path.suffix == ".lock")
            if path.is_file() and not (
                path.is_symlink() or log or mark or lock or path == root / MANIFEST
            ):
                yield path


def _whole_file(path: Path, copy: Path) -> Path:
    """The file; for a database a copy of it by SQLite, its log included."""
    with path.open("rb") as file:
        if file.read(len(_SQLITE)) != _SQLITE:
            return path
    copy_database(path, copy)
    return copy


def _digest(source: IO[bytes], to: IO[bytes] | None = None) -> str:
    """SHA-256 of a file, which is copied if ``to`` is given."""
    digest = hashlib.sha256()
    while block := source.read(_BLOCK):
        digest.update(block)
        if to is not None:
            to.write(block)
    return digest.hexdigest()
