"""Finds files by folders, patterns and links, and reads their bytes."""

from __future__ import annotations

import fnmatch
import glob
import os
import re
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from ..core import SourceError, UnsupportedSourceError
from ._options import SourceOptions

_SYSTEM = ("/proc", "/sys")
"""Folders with files of the system, which may be endless or block when read."""

_NO_SOURCE = {
    "~$*": "the lock of a file that is open in an Office program",
    ".~lock.*#": "the lock of a file that is open in an Office program",
    "*~": "a backup that an editor made",
    "#*#": "a backup that an editor made",
    "*.bak": "a backup",
    "*.swp": "a backup that an editor made",
    "node_modules": "packages that a project uses",
    "__pycache__": "compiled programs",
}
"""Pattern of a name -> why it is left out."""

_LEAVES = "the link leads out of the source"
_ALLOW = "to follow it, set `follow_links: true` for the source"
_SPECIAL = "not a regular file (a pipe, socket or device)"
_LEAVE_OUT = "leave it out with `exclude`"


@dataclass(frozen=True, slots=True)
class Missed:
    """A path that is not read: an error of the system, or the reason for skipping it."""

    path: Path
    reason: str | OSError
    hint: str = ""


def walk(root: Path, options: SourceOptions) -> Iterator[Path | Missed]:
    """List the files below a folder in sorted order, without hidden ones.

    A link to a folder within ``root`` is not followed: its files are there already. A link that
    leads out of ``root`` is followed where ``follow_links`` says so, each folder once.
    """
    home = _real(root)
    seen: set[Path] = set()
    waiting = _entries(root, "")
    while waiting:  # a stack: folders may be nested deeper than Python's calls
        path, relative = waiting.pop()
        if isinstance(path, Missed):
            yield path
            continue
        if path.name.startswith(".") or matches(relative, path.name, options.exclude):
            continue
        reason = "" if matches(relative, path.name, options.include) else no_source(path.name)
        if reason:
            yield Missed(path, reason, "to read it, name it in `include`")
            continue
        entry = _check_path(path, home, options)
        if entry is path and path.is_dir():
            if not path.is_symlink() or _is_new(_real(path), home, seen):
                waiting += _entries(path, f"{relative}/")
        elif (
            not options.include
            or matches(relative, path.name, options.include)
            or (path.is_symlink() and path.is_dir())  # a skipped folder is always reported
        ):
            yield entry


def no_source(name: str) -> str:
    """Return why a file or folder of this name is nobody's document; empty if it may be one."""
    return next(
        (why for pattern, why in _NO_SOURCE.items() if fnmatch.fnmatchcase(name, pattern)), ""
    )


def _entries(folder: Path, relative: str) -> list[tuple[Path | Missed, str]]:
    """List the entries of a folder, last first, each with its path below the walk's root."""
    try:
        return [(path, relative + path.name) for path in sorted(folder.iterdir(), reverse=True)]
    except OSError as error:
        return [(Missed(folder, error), relative)]


def _is_new(real: Path, home: Path, seen: set[Path]) -> bool:
    """Note a linked folder; returns True if it was not visited before."""
    if real.is_relative_to(home) or home.is_relative_to(real) or real in seen:
        return False
    seen.add(real)
    return True


def expand(pattern: Path, options: SourceOptions) -> Iterator[Path | Missed]:
    """List the files that a glob pattern matches, or whose folder it matches, in sorted order.

    The source is the folder in front of the first wildcard: links that lead out of it are
    followed where ``follow_links`` says so.
    """
    # not glob.glob, which follows every link and never ends on links to their own folder
    first = next((i for i, part in enumerate(pattern.parts) if glob.has_magic(part)), None)
    if first is None:
        return
    folder, parts = Path(*pattern.parts[:first]), pattern.parts[first:]
    # fnmatch gives (?s:…)\Z
    plain = [fnmatch.translate(part).removesuffix(r"\Z").replace(".*", "[^/]*") for part in parts]
    steps = [
        "(?:[^/]+/)*" if part == "**" else f"{step}/"
        for part, step in zip(parts, plain, strict=True)
    ]
    matching = re.compile("".join(steps) + ("" if parts[-1] == "**" else "(?:.+/)?"), re.DOTALL)
    bare = SourceOptions(exclude=options.exclude, follow_links=options.follow_links)
    for item in walk(folder, bare):
        path = item.path if isinstance(item, Missed) else item
        if matching.fullmatch(f"{path.relative_to(folder).as_posix()}/"):
            yield item


def _check_path(path: Path, home: Path, options: SourceOptions) -> Path | Missed:
    """Return the path itself if it is to be read or entered."""
    try:
        status = path.stat()
    except OSError as error:
        return Missed(path, error)
    if path.is_symlink() and not options.follow_links and not _real(path).is_relative_to(home):
        return Missed(path, _LEAVES, _ALLOW)
    if stat.S_ISDIR(status.st_mode):
        return path
    if not stat.S_ISREG(status.st_mode):
        return Missed(path, _SPECIAL, _LEAVE_OUT)
    if status.st_dev in _system():
        return Missed(path, "a file of the running system, not of a disk", _LEAVE_OUT)
    return path


@cache
def _system() -> frozenset[int]:
    """Return the device numbers of the system's virtual file systems."""
    return frozenset(folder.stat().st_dev for folder in map(Path, _SYSTEM) if folder.exists())


def _real(path: Path) -> Path:
    return Path(os.path.realpath(path))  # resolve() fails on a link to itself


def matches(relative: str, name: str, patterns: tuple[str, ...]) -> bool:
    """Return True if a pattern matches a file's path below the source, or its name."""
    bare = [pattern.removesuffix("/") for pattern in patterns]
    flat = [pattern.removeprefix("**/") for pattern in bare]
    return any(fnmatch.fnmatchcase(text, p) for text in (relative, name) for p in (*bare, *flat))


def read_bytes(path: Path, where: str, options: SourceOptions) -> bytes:
    """Read a regular file within the size limit.

    Raises:
        UnsupportedSourceError: A pipe, a device, or larger than ``max_bytes``.
        OSError: As the system reports it.
    """
    # without blocking, and bounded: it may be a pipe, or grow
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(descriptor, "rb") as file:  # noqa: PTH123 - a descriptor
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or status.st_dev in _system():
            raise UnsupportedSourceError(_SPECIAL, where=where, hint=_LEAVE_OUT)
        if status.st_size > options.max_bytes:
            raise UnsupportedSourceError(
                f"the file has {status.st_size:,} bytes, more than `max_bytes` "
                f"({options.max_bytes:,})",
                where=where,
                hint="split it, or raise `max_bytes`",
            )
        return file.read(status.st_size)


def printable(name: str) -> str:
    r"""Write a file name, with ``\xff`` for bytes that are not UTF-8."""
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def unreadable(error: OSError, where: str) -> SourceError:
    """Return the system's error about a file or folder, with a hint."""
    reason = error.strerror or str(error)
    hints = {
        PermissionError: "give this user the right to read it",
        FileNotFoundError: "it is a dangling link, or was removed meanwhile",
    }
    return SourceError(
        f"cannot be opened: {reason}",
        where=where,
        hint=hints.get(type(error), "check the file and the disk it is on"),
    )
