"""A project from a backup: checked whole before anything is put in place."""

from __future__ import annotations

import hashlib
import re
import shutil
import stat
import time
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath

from pydantic import TypeAdapter, ValidationError

from ..core import (
    ConfigError,
    SchemaVersionError,
    StoreBusyError,
    StoreDamagedError,
    StoreFullError,
)
from ..index import STORE_VERSION
from ..ledger import FileSwitch, WorkLock, file_error, file_switch, in_use, ledger_tables
from ..project import AnswersUnderWay, ProjectFolder
from ._backup import FORMAT, MANIFEST, PREFIX, BackupManifest, CopyProgress
from ._contents import BEFORE, COMMENT, COMMITS

_BLOCK = 1 << 20
_MOST_MANIFEST = 200_000_000
_HASH = re.compile(r"[0-9a-f]{64}")
_UPGRADE = "pip install -U ragwright"
_PACKED = frozenset({zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED})
_ENCRYPTED = 0x1
"""Flag of a member of an archive."""

_MB = 1e6


@dataclass(frozen=True, slots=True)
class _Head:
    """What a manifest of any version says first."""

    program: str
    format: int


@dataclass(frozen=True, slots=True)
class RestoredProject:
    """What a restore did.

    Attributes:
        manifest: What the archive held.
        before: Folder with what was there before; None for an empty folder.
    """

    manifest: BackupManifest
    before: Path | None


def read_manifest(archive: zipfile.ZipFile, where: str) -> BackupManifest:
    """What a backup says of itself, checked.

    Raises:
        ConfigError: It is the archive of another program.
        SchemaVersionError: A newer ragwright wrote it.
        StoreDamagedError: It is damaged.
    """
    try:
        info = archive.getinfo(MANIFEST)
    except KeyError:
        info = None
    if info is None or archive.comment != COMMENT or info.file_size > _MOST_MANIFEST:
        raise ConfigError(
            "this is not a backup of ragwright", where=where, hint="give a file of ragwright backup"
        )
    if any(i.flag_bits & _ENCRYPTED or i.compress_type not in _PACKED for i in archive.infolist()):
        raise _damaged(where, "a file in it is encrypted or packed in another way")
    try:
        text = archive.read(info)
        head = TypeAdapter(_Head).validate_json(text, strict=True)
        if head.program != COMMENT.decode():
            raise _damaged(where, f"its manifest is of {head.program[:80]!r}")
        if head.format > FORMAT:
            raise _newer(where, f"the archive has version {head.format}", FORMAT)
        manifest = TypeAdapter(BackupManifest).validate_json(text, strict=True)
    except (ValidationError, zipfile.BadZipFile, zlib.error) as error:
        raise _damaged(where, "its manifest cannot be read") from error
    if any(file.size < 0 or not _HASH.fullmatch(file.sha256) for file in manifest.files.values()):
        raise _damaged(where, "its manifest has a wrong size or hash")
    for name, most in (("ledger", ledger_tables().version), ("store", STORE_VERSION)):
        version = manifest.versions.get(f".ragwright/data/{name}.sqlite", 0)
        if version > most:
            raise _newer(where, f"the {name} in it has schema version {version}", most)
    return manifest


def _newer(where: str, what: str, known: int) -> SchemaVersionError:
    return SchemaVersionError(
        f"{what}; this ragwright ({known}) is older", where=where, hint=_UPGRADE
    )


def _damaged(where: str, what: str) -> StoreDamagedError:
    return StoreDamagedError(
        f"the backup is damaged: {what}; nothing was restored",
        where=where,
        hint="copy it again, or use another backup",
    )


def restore_project(
    source: Path, root: Path, *, replace: bool = False, progress: CopyProgress | None = None
) -> RestoredProject:
    """Put a backup in place, into a new or empty folder.

    Everything is unpacked beside the folder and compared with its hash first; a damaged archive
    changes nothing.

    Args:
        source: The archive.
        root: The folder of the project.
        replace: The folder may hold a project: what the archive replaces is moved aside. Files
            that the archive does not hold, such as documents, stay.
        progress: Counts what is done.

    Raises:
        ConfigError: It is not a backup, or the folder is not empty.
        SchemaVersionError: A newer ragwright wrote it.
        StoreDamagedError: It is damaged, or a name in it leads out of the folder.
        StoreBusyError: Others work on the project.
        StoreFullError: The disk has no room for it.
        StoreError: A file cannot be written.
    """
    counted = progress or CopyProgress()
    if not source.is_file():
        raise ConfigError("no such file", where=str(source), hint="name a backup")
    folder = ProjectFolder(root)
    occupied = root.exists() and any(root.iterdir())
    if occupied and not replace:
        raise ConfigError(
            "this folder is not empty",
            where=str(root),
            hint="restore into a new folder with -C, or use --replace: it moves aside what was "
            "there",
        )
    try:
        with zipfile.ZipFile(source) as archive:
            manifest = read_manifest(archive, str(source))
            counted.total = manifest.size
            root.mkdir(parents=True, exist_ok=True)
            _require_room(root, manifest.size)
            with file_switch(root) as switch:
                _unpack(archive, manifest, switch.files, str(source), counted)
                before = _put_in_place(switch, folder, manifest, occupied)
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError) as error:
        raise _damaged(str(source), str(error)) from error
    except OSError as error:
        raise file_error(error, source) from error
    return RestoredProject(manifest, before)


def _require_room(root: Path, size: int) -> None:
    free = shutil.disk_usage(root).free
    if size > free:
        raise StoreFullError(
            f"the backup needs {size / _MB:,.0f} MB, but the disk has {free / _MB:,.0f} MB free",
            where=str(root),
            hint="make room, or restore to another disk with -C; nothing was restored",
        )


def _unpack(
    archive: zipfile.ZipFile,
    manifest: BackupManifest,
    staging: Path,
    where: str,
    progress: CopyProgress,
) -> None:
    members = [info for info in archive.infolist() if info.filename != MANIFEST]
    names = [info.filename for info in members]
    if sorted(names) != sorted(f"{PREFIX}{name}" for name in manifest.files):
        raise _damaged(where, "its files are not those of its manifest")
    for info in members:
        name = info.filename.removeprefix(PREFIX)
        if not _safe_name(name) or stat.S_ISLNK(info.external_attr >> 16):
            raise _damaged(where, f"the name {name[:80]!r} leads out of the folder")
    for info in members:
        name = info.filename.removeprefix(PREFIX)
        target = staging / name
        target.parent.mkdir(parents=True, exist_ok=True)
        stored = manifest.files[name]
        if info.file_size != stored.size:
            raise _damaged(where, f"{name} has another size")
        digest = hashlib.sha256()
        with archive.open(info) as member, target.open("xb") as file:
            while block := member.read(_BLOCK):
                digest.update(block)
                file.write(block)
                progress.done += len(block)
        if digest.hexdigest() != stored.sha256:
            raise _damaged(where, f"{name} has another content")
        if name.startswith(".ragwright/") or name in manifest.versions:
            target.chmod(0o600)


def _safe_name(name: str) -> bool:
    """True for a plain path below the folder."""
    path = PurePosixPath(name)
    return (
        bool(name)
        and str(path) == name
        and not path.is_absolute()
        and ".." not in path.parts
        and not any(c in name for c in "\\:\0")
    )


def _put_in_place(
    switch: FileSwitch, folder: ProjectFolder, manifest: BackupManifest, occupied: bool
) -> Path | None:
    """Move what was unpacked into the folder, and aside what it replaces."""
    names = [name.as_posix() for name in _replaced(switch.files, switch.files)]
    if not occupied:
        switch.switch(names, "")
        return None
    if AnswersUnderWay(folder.data).any() or _open_elsewhere(folder.root, manifest):
        raise StoreBusyError(
            "another process uses this project",
            where=str(folder.root),
            hint="stop its server and other commands, then restore again; nothing was changed",
        )
    before = f"{BEFORE}{datetime.now(UTC).strftime('%Y%m%dT%H%M%SZ')}"
    if (folder.root / before).exists():
        raise ConfigError("there is such a folder already", where=before, hint="try again")
    with WorkLock(folder.data / "work").alone("restore"):
        switch.switch(names, before)
    return folder.root / before


def _open_elsewhere(root: Path, manifest: BackupManifest) -> bool:
    """True if a database of the project is open, as those of a server are."""
    own = (root / ".ragwright").rglob("*.sqlite")
    listed = (root / name for name in manifest.versions)
    return any(in_use(path) for path in sorted({*own, *listed}) if path.is_file())


def _replaced(folder: Path, staging: Path) -> Iterator[Path]:
    """What is replaced as a whole: files, tables, and ``.ragwright``; other folders are merged."""
    for path in sorted(folder.iterdir()):
        name = path.relative_to(staging)
        inner = (*path.glob("*/"), *path.glob("*/*/")) if path.is_dir() else ()
        whole = name.name == ".ragwright" or any(place.name in COMMITS for place in inner)
        if path.is_dir() and not whole:
            yield from _replaced(path, staging)
        else:
            yield name


def rate_of(progress: CopyProgress) -> float:
    """Bytes per second since the beginning."""
    seconds = time.monotonic() - progress.began
    return progress.done / seconds if seconds > 0 else 0.0
