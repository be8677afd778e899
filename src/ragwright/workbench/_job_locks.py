"""One run of a job at a time, across processes.

The lock belongs to an open file, which the steps inherit: where the process that runs a job is
killed and a step lives on, the job is still taken.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

from ..core import JobError

try:
    import fcntl
except ImportError:  # pragma: no cover - not a POSIX system
    fcntl = None  # type: ignore[assignment]

_TRIES = 5
"""Who only asks whether a lock is held holds it for an instant: try again before giving up."""


class JobLock:
    """The lock of a job, or of the scheduler.

    Args:
        path: Its file; it is kept, for who comes next.
        holder: Said to whom finds it taken; plain values.
    """

    def __init__(self, path: Path, holder: Mapping[str, Any]) -> None:
        self._path = path
        self._holder = holder
        self._file = -1

    @property
    def file(self) -> int:
        """The open file, for processes that shall hold the lock as well."""
        return self._file

    def acquire(self) -> bool:
        """Take the lock; False where somebody else holds it.

        Raises:
            JobError: The system has no such locks.
        """
        if fcntl is None:  # pragma: no cover - not a POSIX system
            raise JobError("jobs need a system with flock", where=str(self._path))
        self._path.parent.mkdir(parents=True, exist_ok=True)
        file = os.open(self._path, os.O_CREAT | os.O_RDWR, 0o600)
        for _ in range(_TRIES):
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except OSError:
                time.sleep(0.01)
        else:
            os.close(file)
            return False
        self._file = file
        self.tell(self._holder)
        return True

    def tell(self, holder: Mapping[str, Any]) -> None:
        """Say who holds it."""
        os.ftruncate(self._file, 0)
        os.pwrite(self._file, json.dumps(dict(holder)).encode(), 0)

    def release(self) -> None:
        """Give the lock back, also for processes that inherited it; safe to call twice."""
        if self._file >= 0:
            fcntl.flock(self._file, fcntl.LOCK_UN)
            os.close(self._file)
            self._file = -1

    def __enter__(self) -> JobLock:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.release()


def lock_holder(path: Path) -> dict[str, Any] | None:
    """Who holds a lock, as it told; None where nobody does."""
    if fcntl is None:  # pragma: no cover - not a POSIX system
        raise JobError("jobs need a system with flock", where=str(path))
    try:
        file = os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        text = os.pread(file, 65536, 0)
        try:
            return dict(json.loads(text))
        except (ValueError, TypeError):  # it is being written
            return {}
    finally:
        os.close(file)
    return None
