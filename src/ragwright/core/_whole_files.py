"""Files that are replaced atomically: readers see the old content or the new one."""

from __future__ import annotations

import errno
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

_NAME_SHOWN = 40


@contextmanager
def replacing(path: Path, *, private: bool = False, fresh: bool = False) -> Iterator[BinaryIO]:
    """A binary file to write, which replaces ``path`` when the block ends without error.

    It is written beside ``path``, flushed to the disk, then renamed. Where the block or the disk
    fails, ``path`` is as it was and nothing is left beside it. A link keeps pointing to its file,
    whose content is replaced. A device or a pipe (``/dev/stdout``) is written as it is.

    Args:
        path: The file; its folder must exist. Where it exists, its mode is kept.
        private: Mode 0600: only the owner may read it.
        fresh: The file must not exist yet.

    Raises:
        FileExistsError: ``fresh``, and there is such a file.
        OSError: It cannot be written; ``filename`` is ``path``.
    """
    try:
        status: os.stat_result | None = path.stat()
    except FileNotFoundError:
        status = None
    if status is not None and fresh:
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path))
    if status is not None and stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if status is not None and not stat.S_ISREG(status.st_mode):
        with path.open("wb") as file:
            yield file
        return
    target = Path(os.path.realpath(path))
    beside = target.with_name(f".{target.name[:_NAME_SHOWN]}.{secrets.token_hex(8)}.tmp")
    mode = None if private or status is None else stat.S_IMODE(status.st_mode)
    try:
        handle = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600 if private else 0o666)
        with os.fdopen(handle, "wb") as file:
            if mode is not None:
                beside.chmod(mode)
            yield file
            file.flush()
            os.fsync(file.fileno())
        (_link_new if fresh else Path.replace)(beside, target)
        _sync_folder(target.parent)
    except OSError as error:
        if error.filename in (None, str(beside)):
            error.filename, error.filename2 = str(path), None
        raise
    finally:
        beside.unlink(missing_ok=True)


def replace_text(
    path: Path, text: str, *, private: bool = False, fresh: bool = False, encoding: str = "utf-8"
) -> None:
    """Replace the text of a file completely or not at all; see :func:`replacing`.

    Raises:
        FileExistsError: ``fresh``, and there is such a file.
        OSError: It cannot be written; what was there is as it was.
        UnicodeEncodeError: The text holds what the encoding cannot; nothing is written.
    """
    data = text.encode(encoding)
    with replacing(path, private=private, fresh=fresh) as file:
        file.write(data)


@contextmanager
def appending(path: Path, data: bytes) -> Iterator[None]:
    """Lines at the end of a file, which stay there only if the block ends without error.

    Where they cannot be written completely (a full disk), or the block fails, the file is as it
    was. The caller makes sure that nobody else writes the file meanwhile.

    Args:
        path: The file; made where there is none.
        data: Whole lines. They begin on a line of their own.

    Raises:
        OSError: They cannot be written.
    """
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o666)
    try:
        size = os.fstat(handle).st_size
        begin = b"\n" if size and os.pread(handle, 1, size - 1) != b"\n" else b""
        remaining = memoryview(begin + data)
        try:
            while remaining:
                remaining = remaining[os.write(handle, remaining) :]
            os.fsync(handle)
            yield
        except BaseException:
            os.ftruncate(handle, size)
            raise
    finally:
        os.close(handle)


def _link_new(beside: Path, target: Path) -> None:
    """Give a file its final name unless that is taken; rename it if there are no hard links."""
    try:
        target.hardlink_to(beside)
    except FileExistsError:
        raise
    except OSError:
        if target.exists():
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(target)) from None
        beside.replace(target)


def _sync_folder(folder: Path) -> None:
    """Wait until the new name is on the disk; the file is complete in any case."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
