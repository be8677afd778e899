"""Locks between processes, exclusive or shared, and files that name their holders.

The lock is the system's (``flock``) and belongs to an open file, so it ends with the processes
that have it open, however they end. The content of the file is only used in messages.
"""

from __future__ import annotations

import json
import logging
import os
import secrets
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, nullcontext, suppress
from contextvars import ContextVar
from dataclasses import asdict, dataclass, fields, replace
from functools import cached_property
from pathlib import Path

from ..core import RagwrightError, StoreBusyError, StoreError, holds_secret
from ._database import Connection, Place, SharedPlace
from ._postgres import PostgresDatabase
from ._tables import REPLY_TABLES

try:
    import fcntl
except ImportError:  # pragma: no cover - not a POSIX system
    fcntl = None  # type: ignore[assignment]

_LOCKS = fcntl is not None

log = logging.getLogger("ragwright.ledger")

_SHORTEST_TRY = 0.05
"""Least seconds to try: checking whether a lock is held takes it for an instant."""

_NAMING = 0.5
"""Seconds that a new holder has to write its name before the file's content counts as outdated."""

_PATIENCE = 30.0
"""Seconds that exclusive work waits where only brief work is in its way."""

_HELD: ContextVar[frozenset[Path]] = ContextVar("held", default=frozenset())
"""Folders whose shared lock this context holds: work within work does not queue for it again."""


@dataclass(frozen=True, slots=True)
class LockHolder:
    """The holder of a lock, as written in the lock's file.

    Attributes:
        what: What it is doing; empty if unknown.
        pid: Its process id, 0 if unknown.
        host: Its machine.
        command: Its command line, without values of options; the first 200 characters.
        since: When it took the lock, in seconds since 1970.
        number: Number of the item it works on, None if there is none.
        shared: True if its child processes may hold the lock as well.
        brief: True for work of seconds, such as an answer, which is worth waiting for.
    """

    what: str = ""
    pid: int = 0
    host: str = ""
    command: str = ""
    since: float = 0.0
    number: int | None = None
    shared: bool = False
    brief: bool = False

    @property
    def alive(self) -> bool:
        """True if the process may still run; always for one on another machine."""
        if not self.pid or self.host != socket.gethostname():
            return bool(self.pid)
        return process_runs(self.pid)

    def __str__(self) -> str:
        """Process, machine, start and command, as part of a sentence."""
        if not self.pid:
            return "another, unidentified process"
        since = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(self.since))
        return (
            f"{self.what!r}, process {self.pid} on {self.host}, since {since} ({self.command})"
            f"{'' if self.alive else '; it has ended, but a child process still runs'}"
        )


def process_runs(pid: int) -> bool:
    """False only if there is surely no process of this id on this machine that still works."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):
        return True
    # a process that was killed keeps its id until its parent asks how it ended
    return read_process(pid)[:1] != ["Z"]


def read_process(pid: int) -> list[str]:
    """What Linux tells of a process (proc(5), stat) from its state on; empty if unknown."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
    except OSError:
        return []


def wait_until(done: Callable[[], bool], wait: float, every: float = 0.01) -> bool:
    """Ask again every few seconds until it is done; False if it is not after ``wait`` seconds."""
    end = time.monotonic() + wait
    while not done():
        if time.monotonic() > end:
            return False
        time.sleep(every)
    return True


def _lock(handle: int, kind: int) -> bool:
    """Take a lock of the system; False if another process holds one that excludes it."""
    try:
        fcntl.flock(handle, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


class FileLock:
    """An exclusive lock among all processes; a context manager.

    Args:
        path: File of the lock; made with mode 0600, never deleted.
        what: What the holder is doing, for messages to other processes.
        wait: Seconds to wait for it.
        busy: Start of the error if another process holds it: ``BUSY by HOLDER``.
        error: Kind of error if the system has no locks.
        clock: Returns seconds since 1970, for the time in messages.
    """

    def __init__(
        self,
        path: Path,
        what: str,
        *,
        wait: float = 0.0,
        busy: str = "the lock is held",
        error: type[RagwrightError] = StoreError,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._path = path
        self._wait = wait
        self._busy = busy
        self._error = error
        self._clock = clock
        self._word = LockHolder(what)
        self._handle = -1

    def acquire(self) -> bool:
        """Take it; False if another process held it during the whole waiting time.

        Raises:
            RagwrightError: The system or the file system has no locks; of the kind asked for.
            OSError: The file cannot be made.
        """
        self._path.parent.mkdir(parents=True, exist_ok=True)
        handle = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600)
        with ExitStack() as closing_it:
            closing_it.callback(os.close, handle)
            if not wait_until(lambda: self._try(handle), max(self._wait, _SHORTEST_TRY)):
                return False
            closing_it.pop_all()
        self._handle = handle
        self._write_holder(LockHolder(self._word.what, *_process(), since=self._clock()))
        return True

    def release(self) -> None:
        """Release it, also for processes that share it; safe to call twice."""
        handle, self._handle = self._handle, -1
        if handle >= 0:
            with suppress(OSError):
                os.ftruncate(handle, 0)
            fcntl.flock(handle, fcntl.LOCK_UN)
            os.close(handle)

    def __enter__(self) -> FileLock:
        """Take it, unless it is held by this object already.

        Raises:
            StoreBusyError: Another process holds it longer than ``wait``; the message names it.
            RagwrightError: As :meth:`acquire`.
            OSError: As :meth:`acquire`.
        """
        if self._handle < 0 and not self.acquire():
            raise StoreBusyError(
                f"{self._busy} by {self._current_holder()}",
                where=str(self._path.parent),
                hint=f"waited {self._wait:g} s; wait for it to end, or stop it, and run again",
            )
        return self

    def __exit__(self, *_: object) -> None:
        """Release it."""
        self.release()

    def note_item(self, number: int) -> None:
        """Note the number of the item being worked on; only for the holder."""
        self._write_holder(replace(self._word, number=number, since=self._clock()))

    def share(self) -> int:
        """The open file, for a process to inherit: the lock is held until both have ended."""
        if not self._word.shared:
            self._write_holder(replace(self._word, shared=True))
        return self._handle

    def holder(self) -> LockHolder | None:
        """The present holder, None if it is free.

        A process that has ended is named only if its child processes may hold the lock.

        Raises:
            RagwrightError: The system or the file system has no locks; of the kind asked for.
        """
        try:
            handle = os.open(self._path, os.O_RDONLY)
        except FileNotFoundError:
            return None
        try:
            free = self._try(handle, shared=True)
        finally:
            os.close(handle)
        return None if free else self._current_holder()

    def _try(self, handle: int, *, shared: bool = False) -> bool:
        if fcntl is None:
            raise self._error(
                "this needs a system with locks between processes (flock)",
                where=str(self._path),
                hint="run it on Linux or macOS",
            )
        try:
            return _lock(handle, fcntl.LOCK_SH if shared else fcntl.LOCK_EX)
        except OSError as error:
            raise self._error(
                f"the file system gives no lock: {error.strerror}",
                where=str(self._path),
                hint="move the project folder to a local disk",
            ) from error

    def _write_holder(self, word: LockHolder) -> None:
        self._word = word
        with suppress(OSError):
            os.ftruncate(self._handle, 0)
            os.pwrite(self._handle, json.dumps(asdict(word)).encode(), 0)

    def _current_holder(self) -> LockHolder:
        """The holder named in the file, if it can be the present one."""
        wait_until(lambda: _read_holder(self._path).alive, _NAMING)
        word = _read_holder(self._path)  # left by a process that ended without clearing it?
        return word if word.alive or word.shared else LockHolder()


@contextmanager
def folder_locked(folder: Path, what: str, *, wait: float = 30.0) -> Iterator[None]:
    """Hold the lock of a folder: for short changes of its files by several processes or threads.

    It leaves no file behind. Where there are no locks (Windows, some network file systems), work
    goes on without it.

    Raises:
        StoreBusyError: It is held for longer than ``wait``.
        OSError: The folder cannot be opened.
    """
    if not _LOCKS:
        yield
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        held = True
        with suppress(OSError):  # a file system without locks
            held = wait_until(lambda: _lock(handle, fcntl.LOCK_EX), wait)
        if not held:
            raise StoreBusyError(
                f"{what}: another process holds the folder",
                where=str(folder),
                hint=f"waited {wait:g} s; try again",
            )
        yield
    finally:
        os.close(handle)


class WorkLock:
    """A lock for many processes and threads that work, or one that must be alone.

    Workers hold a shared lock of the system, which ends with the process, however that ends. A file
    beside it names the process, for messages only. Who wants to be alone takes a second lock first,
    so that new work queues behind it: work that overlaps without end would keep it out for ever.

    Args:
        folder: Folder of the locks and of these files; made when first needed.
        place: Where replies are kept. The server of a shared database keeps the same lock for all
            machines; threads of one process share one connection.
    """

    def __init__(self, folder: Path, place: Place | None = None) -> None:
        self._folder = folder
        self._path = folder / "lock"
        self._turn = folder / "turn"
        self._place = place if isinstance(place, SharedPlace) else None
        self._workers = 0
        self._connection: Connection | None = None
        self._lock = threading.Lock()

    @cached_property
    def _server(self) -> PostgresDatabase:
        assert self._place is not None
        return PostgresDatabase(self._place, REPLY_TABLES)

    @property
    def awaited(self) -> bool:
        """True while a process holds the lock exclusively, or waits for it."""
        return _LOCKS and not _free(self._turn)

    def reach(self) -> None:
        """Check that the server of a shared database answers, without waiting for it.

        Raises:
            StoreUnreachableError: It does not.
        """
        if self._place is not None:
            with self._server.explained(), closing(self._server.connect()) as connection:
                connection.execute("SELECT 1")

    @contextmanager
    def working(
        self, what: str, *, wait: float = 60.0, brief: bool = False, everywhere: bool = False
    ) -> Iterator[None]:
        """Hold the shared lock: any number of others may work as well, but none exclusively.

        Where the lock cannot be made (a folder that cannot be written, a system or file system
        without locks), work goes on without it.

        Args:
            what: What the work is, as :attr:`LockHolder.what`.
            wait: Seconds to wait for an exclusive holder.
            brief: As :attr:`LockHolder.brief`.
            everywhere: Hold the lock of a shared database, too.

        Raises:
            StoreBusyError: A process holds it exclusively for longer than ``wait``.
        """
        around = _HELD.get()
        handle = self._shared(wait, within=self._folder in around)
        word = self._folder / f"{os.getpid()}-{secrets.token_hex(4)}.json"
        try:
            if handle >= 0:
                _HELD.set(around | {self._folder})
                with suppress(OSError):
                    holder = LockHolder(what, *_process(), since=time.time(), brief=brief)
                    word.write_text(json.dumps(asdict(holder)), "utf-8")
            with self._working_on_server() if everywhere and self._place else nullcontext():
                yield
        finally:
            if handle >= 0:
                _HELD.set(around)  # not by its token: another thread may leave than has entered
                with suppress(OSError):
                    word.unlink()
                os.close(handle)

    @contextmanager
    def _working_on_server(self) -> Iterator[None]:
        with self._lock:
            if not self._workers:
                self._connection = self._lock_server("the work", shared=True, wait=30.0)
            self._workers += 1
        try:
            yield
        finally:
            with self._lock:
                self._workers -= 1
                if not self._workers and self._connection is not None:
                    self._unlock_server(self._connection, shared=True)

    def _lock_server(self, what: str, *, shared: bool, wait: float, hint: str = "") -> Connection:
        try:
            return self._server.lock_work(shared=shared, wait=wait)
        except StoreBusyError as error:
            raise StoreBusyError(
                f"{what} cannot begin: another process or machine works with the shared database",
                where=self._server.where,
                hint=hint,
            ) from error

    def _unlock_server(self, connection: Connection, *, shared: bool) -> None:
        if not self._server.unlock_work(connection, shared=shared):
            log.warning(
                "the connection to the shared database was lost during the work, and with it the "
                "lock against `forget`: if something was forgotten meanwhile, forget it again"
            )

    @contextmanager
    def exclusive(
        self,
        what: str,
        *,
        wait: float = 2.0,
        hint: str = "",
        announce: Callable[[], None] = lambda: None,
    ) -> Iterator[None]:
        """Hold the lock exclusively, once all others have ended; nobody begins meanwhile.

        On a system without locks (Windows) this does not wait.

        Args:
            what: What the exclusive work is.
            wait: Seconds to wait for work to end; 30 where all of it is brief, unless this is 0.
            hint: Hint if it does not.
            announce: Called when nobody can begin any more, before those at work have ended.

        Raises:
            StoreBusyError: Others work for longer than that; the message names them all.
            StoreError: The file system has no locks.
            OSError: The lock cannot be made.
        """
        with ExitStack() as stack:
            if _LOCKS:
                turn = FileLock(self._turn, what, wait=wait)
                if not turn.acquire():
                    raise self._busy(what, [turn.holder() or LockHolder()], hint)
                stack.callback(turn.release)
            announce()
            if _LOCKS:
                stack.callback(self._acquire_alone(what, wait, hint).release)
            if self._place is not None:
                connection = self._lock_server(what, shared=False, wait=wait, hint=hint)
                stack.callback(self._unlock_server, connection, shared=False)
            yield

    def _acquire_alone(self, what: str, wait: float, hint: str) -> FileLock:
        lock = FileLock(self._path, what, wait=wait)
        if not lock.acquire():
            at_work = [*self._others()] or [lock.holder() or LockHolder()]
            lock = FileLock(self._path, what, wait=_PATIENCE)
            if not wait or not all(word.brief for word in at_work) or not lock.acquire():
                raise self._busy(what, [*self._others()] or at_work, hint)
        # left by processes that ended without clearing it
        for left in self._folder.glob("*.json"):
            left.unlink(missing_ok=True)
        return lock

    def _busy(self, what: str, at_work: Sequence[LockHolder], hint: str) -> StoreBusyError:
        return StoreBusyError(
            f"{what} cannot begin: {'; '.join(map(str, at_work))}",
            where=str(self._folder.parent),
            hint=hint,
        )

    def _shared(self, wait: float, *, within: bool) -> int:
        """Descriptor of the shared lock, -1 if there are none; ``within`` other work at once."""
        if not _LOCKS:
            return -1
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            handle = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600)
        except OSError:
            return -1
        try:
            held = wait_until(
                lambda: (within or _free(self._turn)) and _lock(handle, fcntl.LOCK_SH), wait
            )
        except OSError:  # a file system without locks
            os.close(handle)
            return -1
        if not held:
            os.close(handle)
            holder = FileLock(self._turn, "").holder() or FileLock(self._path, "").holder()
            raise StoreBusyError(
                f"the project is held by {holder or LockHolder()}",
                where=str(self._folder.parent),
                hint=f"waited {wait:g} s; run it again when that has ended",
            )
        return handle

    def _others(self) -> Iterator[LockHolder]:
        holders = (_read_holder(path) for path in sorted(self._folder.glob("*.json")))
        return (holder for holder in holders if holder.alive)


def _free(path: Path) -> bool:
    """True if no process holds a lock exclusively."""
    try:
        handle = os.open(path, os.O_RDONLY)
    except OSError:  # nobody has held it yet
        return True
    try:
        return _lock(handle, fcntl.LOCK_SH)
    finally:
        os.close(handle)


def _process() -> tuple[int, str, str]:
    return os.getpid(), socket.gethostname(), " ".join(_masked_words(sys.argv))[:200]


def _masked_words(words: Sequence[str]) -> Iterator[str]:
    """A command line without the values of its options: others read it, in files and messages."""
    after = False
    for word in words:
        option, sign, _ = word.partition("=")
        if word.startswith("--"):
            yield f"{option}{sign and '=…'}"
        elif word.startswith("-"):
            yield f"{word[:2]}{word[2:] and '…'}"
        else:
            yield "…" if after or holds_secret(word) else word
        after = after or word.startswith("-")


def _read_holder(path: Path) -> LockHolder:
    """The content of the file; nobody if it is invalid or being written."""
    try:
        body = json.loads(path.read_text("utf-8"))
        word = LockHolder(**{member.name: body[member.name] for member in fields(LockHolder)})
        time.gmtime(word.since)
        return replace(word, pid=int(word.pid))
    except (OSError, ValueError, TypeError, KeyError, OverflowError):
        return LockHolder()
