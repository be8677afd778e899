"""One writer at a time: a lock of the system, and a word about who holds it.

The lock is the system's (``flock``), so it ends with the process that holds it, however that
ends. What stands in the file is only there to be told to those who wait.
"""

from __future__ import annotations

import json
import os
import socket
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from ..core import StoreBusyError, StoreError

try:
    import fcntl
except ImportError:  # pragma: no cover - not a POSIX system
    fcntl = None  # type: ignore[assignment]

_EVERY = 0.05
"""Seconds between two tries."""

_SAID = 0.5
"""Seconds that a new holder has to say who it is, before the file's word counts as old."""


class WriterLock:
    """The right to write in a folder; a context manager.

    Args:
        path: File of the lock; made with mode 0600, never deleted.
        holder: What the holder is doing, told to those who wait.
        wait: Seconds to wait for it.
    """

    def __init__(self, path: Path, holder: str, wait: float) -> None:
        self._path = path
        self._holder = holder
        self._wait = wait
        self._handle = -1

    def __enter__(self) -> WriterLock:
        """Take it.

        Raises:
            StoreBusyError: Somebody else holds it longer than ``wait``; who and since when.
            StoreError: The file system has no locks.
        """
        if fcntl is None:  # pragma: no cover - not a POSIX system
            raise StoreError("tables of records need a system with flock", where=str(self._path))
        handle = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            self._take(handle)
            self._say(handle)
        except BaseException:
            os.close(handle)
            raise
        self._handle = handle
        return self

    def __exit__(self, *_: object) -> None:
        """Let go of it."""
        handle, self._handle = self._handle, -1
        if handle >= 0:
            with suppress(OSError):
                os.ftruncate(handle, 0)
            os.close(handle)

    def _take(self, handle: int) -> None:
        until = time.monotonic() + self._wait
        while True:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                left = until - time.monotonic()
                if left <= 0:
                    raise self._busy() from None
                time.sleep(min(_EVERY, left))
            except OSError as error:
                raise StoreError(
                    f"the file system gives no lock: {error.strerror}",
                    where=str(self._path),
                    hint="keep the project folder on a disk of this machine",
                ) from error
            else:
                return

    def _say(self, handle: int) -> None:
        """Write who holds it; a disk too full for that is no reason not to hold it."""
        said = {
            "pid": os.getpid(),
            "host": socket.gethostname(),
            "since": time.time(),
            "holder": self._holder,
            "command": " ".join(sys.argv)[:200],
        }
        with suppress(OSError):
            os.ftruncate(handle, 0)
            os.pwrite(handle, json.dumps(said).encode(), 0)

    def _busy(self) -> StoreBusyError:
        return StoreBusyError(
            f"the tables of records are being written by {_who(self._path)}",
            where=str(self._path.parent),
            hint=f"waited {self._wait:g} s; wait for it to end, or stop it, and run again",
        )


def _who(path: Path) -> str:
    """Who says it holds the lock, as far as that can be true."""
    until = time.monotonic() + _SAID
    while True:
        said = _read(path)
        if said and _alive(said):
            since = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(float(said["since"])))
            return (
                f"{said['holder']!r}, process {said['pid']} on {said['host']}, since {since} "
                f"({said['command']})"
            )
        if time.monotonic() > until:  # what stands there is of one who went without a word
            return "another process, which does not say who it is"
        time.sleep(_EVERY)


def _read(path: Path) -> dict[str, Any]:
    """What stands in the file; nothing where it is being written."""
    try:
        said = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    wanted = {"pid", "host", "since", "holder", "command"}
    return said if isinstance(said, dict) and wanted <= said.keys() else {}


def _alive(said: dict[str, Any]) -> bool:
    """Whether the process named may still run: that of another machine may."""
    if said["host"] != socket.gethostname():
        return True
    try:
        os.kill(int(said["pid"]), 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError, ValueError):
        return True
    return True
