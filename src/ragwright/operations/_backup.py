"""One archive of a whole project, made while others work with it."""

from __future__ import annotations

import hashlib
import json
import shutil
import tempfile
import time
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import BinaryIO

from .. import __version__
from ..core import ConfigError, replacing
from ..ledger import SharedPlace, WorkLock, file_error, held_files
from ..project import ProjectFolder, Settings
from ._contents import COMMENT, Contents, contents_of, held_tables
from ._events import utc_now

FORMAT = 1
"""Version of the archive."""

MANIFEST = "manifest.json"
PREFIX = "project/"
"""Beginning of the names of the project's files in the archive."""

_BLOCK = 1 << 20


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A file of a backup: its bytes and their SHA-256 in hexadecimal."""

    size: int
    sha256: str


@dataclass(frozen=True, slots=True)
class BackupManifest:
    """What an archive holds.

    Attributes:
        format: Version of the archive.
        ragwright: Version of the program that wrote it.
        at: When, ISO 8601 in UTC.
        files: Path in the project -> the file.
        versions: Path of a database -> its schema version.
        left_out: What is not in it -> why.
        program: ``ragwright backup``; any other value marks the archive as foreign.
    """

    format: int
    ragwright: str
    at: str
    files: Mapping[str, StoredFile] = field(default_factory=dict)
    versions: Mapping[str, int] = field(default_factory=dict)
    left_out: Mapping[str, str] = field(default_factory=dict)
    program: str = COMMENT.decode()

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(file.size for file in self.files.values())


@dataclass(slots=True)
class CopyProgress:
    """How far a backup or a restore is.

    Attributes:
        done: Bytes done.
        total: Bytes in all, 0 while that is not known.
        began: When it began, by the monotonic clock.
    """

    done: int = 0
    total: int = 0
    began: float = field(default_factory=time.monotonic)


def back_up_project(
    folder: ProjectFolder,
    settings: Settings,
    target: Path,
    *,
    replies: bool = False,
    sources: bool = False,
    progress: CopyProgress | None = None,
) -> BackupManifest:
    """Write a project to an archive, while servers and ingests go on.

    Every database is as it was at one moment, all of them within milliseconds; so are the tables
    of a Lance store and of records. Nothing is erased meanwhile: ``forget`` waits.

    Args:
        folder: The project.
        settings: Its settings.
        target: The archive, a new file with mode 0600.
        replies: Also the replies of models.
        sources: Also the files of local sources within the project.
        progress: Counts what is done.

    Raises:
        ConfigError: There is such a file.
        StoreError: A file cannot be read, or the archive cannot be written; then there is none.
    """
    if target.exists():
        raise ConfigError(
            "there is such a file already", where=str(target), hint="choose another name"
        )
    counted = progress or CopyProgress()
    work = WorkLock(folder.data / "work")
    folder.data.mkdir(parents=True, exist_ok=True)
    try:
        with work.working("backup"), _staging(folder.data) as staging:
            contents = contents_of(folder, settings, replies=replies, sources=sources)
            _note_shared(settings, folder, contents)
            with replacing(target, private=True, fresh=True) as file:
                return _write(folder.root, contents, staging, file, counted)
    except OSError as error:
        raise file_error(error, target) from error


@contextmanager
def _staging(parent: Path) -> Iterator[Path]:
    path = Path(tempfile.mkdtemp(prefix=".backup-", dir=parent))
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


def _note_shared(settings: Settings, folder: ProjectFolder, contents: Contents) -> None:
    place = settings.shared.place(folder.ledger)
    if isinstance(place, SharedPlace):
        contents.left_out[place.address] = (
            f"the shared database: pg_dump -n '{place.schema}_*' DATABASE > shared.sql"
        )


def _write(
    root: Path, contents: Contents, staging: Path, file: BinaryIO, progress: CopyProgress
) -> BackupManifest:
    files: dict[str, StoredFile] = {}
    with (
        held_files([root / name for name in contents.databases]) as held,
        zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive,
    ):
        for number, name in enumerate(contents.tables):
            held_tables(root / name, staging / f"tables{number}")
        linked = _linked_files(staging, contents)
        plain = {name: root / name for name in contents.files}
        progress.total = sum(database.size for database in held) + _sizes(plain, linked)
        for name, database in zip(contents.databases, held, strict=True):
            copy = staging / "database"
            database.copy(copy)
            files[name] = _add(archive, name, copy, progress)
            copy.unlink()
        for name, path in {**plain, **linked}.items():
            try:
                files[name] = _add(archive, name, path, progress)
            except FileNotFoundError:  # removed since it was listed
                continue
        versions = {n: d.version for n, d in zip(contents.databases, held, strict=True)}
        manifest = BackupManifest(
            FORMAT, __version__, utc_now(), files, versions, contents.left_out
        )
        archive.writestr(MANIFEST, json.dumps(asdict(manifest), ensure_ascii=False, indent=1))
        archive.comment = COMMENT
    return manifest


def _linked_files(staging: Path, contents: Contents) -> dict[str, Path]:
    linked: dict[str, Path] = {}
    for number, name in enumerate(contents.tables):
        here = staging / f"tables{number}"
        paths = sorted(path for path in here.rglob("*") if path.is_file())
        linked |= {f"{name}/{path.relative_to(here).as_posix()}": path for path in paths}
    return linked


def _sizes(*files: Mapping[str, Path]) -> int:
    return sum(p.stat().st_size for group in files for p in group.values() if p.exists())


def _add(archive: zipfile.ZipFile, name: str, path: Path, progress: CopyProgress) -> StoredFile:
    size, digest = 0, hashlib.sha256()
    with (
        path.open("rb") as source,
        archive.open(f"{PREFIX}{name}", "w", force_zip64=True) as member,
    ):
        while block := source.read(_BLOCK):
            member.write(block)
            digest.update(block)
            size += len(block)
            progress.done += len(block)
    return StoredFile(size, digest.hexdigest())
