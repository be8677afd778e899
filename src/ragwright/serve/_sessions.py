"""Sessions of readers who signed in on the pages: random ids, kept by the server until they end."""

from __future__ import annotations

import hashlib
import json
import secrets
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..core import replace_text
from ..ledger import FileLock, file_error

if TYPE_CHECKING:
    from ..project import ProjectFolder

LIFE = 7 * 24 * 3600
"""Seconds after which a reader has to sign in again."""

_VERSION = 1
_ID_BYTES = 32
_MOST = 10_000
"""Sessions that are kept; the oldest end first."""


@dataclass(frozen=True, slots=True)
class _Session:
    key: str
    ends: float


class Sessions:
    """The sessions of a project, in a file that all workers read; it holds hashes of their ids.

    A session is worth nothing once its key is revoked, and cannot be used in place of the key
    anywhere else.

    Args:
        folder: The project.
        clock: Returns seconds since 1970.
    """

    def __init__(self, folder: ProjectFolder, clock: Callable[[], float] = time.time) -> None:
        self.file = folder.data / "serve" / "sessions.json"
        self._clock = clock
        self._lock = threading.Lock()
        self._seen: tuple[int, int] | None = None
        self._by_id: Mapping[str, _Session] = {}

    def begin(self, key: str) -> str:
        """Begin a session of the key with this hash; the session's id.

        Raises:
            StoreError: It cannot be stored.
        """
        name = secrets.token_urlsafe(_ID_BYTES)
        with self._changing() as sessions:
            sessions[_hashed(name)] = _Session(key, self._clock() + LIFE)
        return name

    def key(self, name: str) -> str | None:
        """Hash of the key that a session was begun with, None where it has ended."""
        found = self._known().get(_hashed(name))
        return found.key if found is not None and found.ends > self._clock() else None

    def end(self, name: str) -> None:
        """End a session; an unknown one has ended.

        Raises:
            StoreError: It cannot be stored.
        """
        if _hashed(name) in self._known():
            with self._changing() as sessions:
                sessions.pop(_hashed(name), None)

    @contextmanager
    def _changing(self) -> Iterator[dict[str, _Session]]:
        try:
            self.file.parent.mkdir(parents=True, exist_ok=True)
            with FileLock(self.file.with_name("sessions.lock"), "sessions", wait=10.0):
                now = self._clock()
                sessions = {n: one for n, one in self._known().items() if one.ends > now}
                yield sessions
                kept = sorted(sessions.items(), key=lambda item: item[1].ends)[-_MOST:]
                body = {"version": _VERSION, "sessions": {n: [s.key, s.ends] for n, s in kept}}
                replace_text(self.file, json.dumps(body), private=True)
        except OSError as error:
            raise file_error(error, self.file) from error

    def _known(self) -> Mapping[str, _Session]:
        """The sessions as stored; a damaged file holds none, so that everybody signs in again."""
        with self._lock:
            try:
                stat = self.file.stat()
                state = (stat.st_mtime_ns, stat.st_ino)
                if state != self._seen:
                    body = json.loads(self.file.read_text("utf-8"))
                    found = body["sessions"] if body["version"] == _VERSION else {}
                    self._by_id = {n: _Session(str(k), float(end)) for n, (k, end) in found.items()}
                    self._seen = state
            except (OSError, ValueError, TypeError, KeyError, AttributeError):
                self._seen, self._by_id = None, {}
            return self._by_id


def _hashed(name: str) -> str:
    return hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()
