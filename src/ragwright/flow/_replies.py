"""The reply store: no call is paid for twice.

A cache: it may be evicted or deleted at any time; this costs only time and money.
"""

from __future__ import annotations

import os
import socket
import sqlite3
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from ..core import StoreBusyError, StoreFullError, Usage
from ._writer import Database, Done, Writer, one_to_forget, scrub

_VERSION = 2
_SAMPLE = 2000
_PATIENCE_MS = 200
_DAMAGED = (
    "run: ragwright cache clear (the replies in it are lost: repeated calls are paid for again)"
)
_SCHEMA = (
    """CREATE TABLE IF NOT EXISTS replies (
        key TEXT PRIMARY KEY,
        kind TEXT NOT NULL,
        lane TEXT NOT NULL,
        scope TEXT NOT NULL DEFAULT '',
        state TEXT NOT NULL,             -- pending | done | spent (paid, never reused)
        body BLOB,
        created REAL NOT NULL,
        owner TEXT NOT NULL DEFAULT '',
        lease REAL NOT NULL DEFAULT 0,
        prompt_tokens INTEGER NOT NULL DEFAULT 0,
        completion_tokens INTEGER NOT NULL DEFAULT 0,
        cost REAL,
        characters INTEGER NOT NULL DEFAULT 0,
        seconds REAL NOT NULL DEFAULT 0
    ) WITHOUT ROWID""",
    """CREATE TABLE IF NOT EXISTS reply_sources (
        source TEXT NOT NULL,
        key TEXT NOT NULL,
        PRIMARY KEY (source, key)
    ) WITHOUT ROWID""",
    "CREATE INDEX IF NOT EXISTS replies_by_age ON replies (created)",
    # covers facts and statistics: columns behind a large body are slow to read
    "CREATE INDEX IF NOT EXISTS replies_by_use ON replies (lane, state, key, kind, prompt_tokens, "
    "completion_tokens, cost, characters, seconds)",
    "DROP INDEX IF EXISTS replies_by_lane",
)


@dataclass(frozen=True, slots=True)
class Entry:
    """A reply with its statistics, to be committed.

    A ``body`` that is slow to make is a function, called on the writer's thread.
    """

    key: str
    kind: str
    lane: str
    scope: str
    body: bytes | Callable[[], bytes]
    reusable: bool
    usage: Usage
    characters: int
    seconds: float
    sources: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Claim:
    """Result of a claim: granted, already known, or leased by another process."""

    state: Literal["ours", "known", "leased"]
    body: bytes = b""
    lease: float = 0.0


@dataclass(frozen=True, slots=True)
class LaneFacts:
    """Statistics of a lane's past calls, for forecasts."""

    calls: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    characters: int = 0
    seconds: float = 0.0


class Replies:
    """Durable replies in one SQLite file.

    If the file cannot be written, new replies are kept in memory.

    Args:
        path: File to use; made with mode 0600.
        power_safe: Wait for the disk at each commit, so that a power cut loses nothing.
        max_bytes: Size above which the oldest replies are evicted when the store is opened.

    Attributes:
        unkept: Replies that were kept in memory alone.
    """

    def __init__(
        self, path: Path, *, power_safe: bool = False, max_bytes: int = 2_000_000_000
    ) -> None:
        self._database = Database(path, _SCHEMA, _VERSION, power_safe, _DAMAGED)
        read_only = self._database.read_only
        self._fresh = self._database.in_memory() if read_only else None
        self._writer = Writer(self._database, self._fresh)
        self._reader = self._database.connect()
        self._aside = self._database.connect()
        self._aside_lock = threading.Lock()
        self._owner = _owner()
        self.unkept = 0
        if not read_only:
            self._evict(max_bytes)

    @property
    def notes(self) -> tuple[str, ...]:
        """A note if replies were kept in memory only; else empty."""
        if not self.unkept:
            return ()
        return (
            f"{self.unkept} replies of models are not kept: {self._database.path} cannot be "
            "written, and repeated calls are paid for again",
        )

    def get(self, key: str) -> bytes | None:
        """Stored form of a reusable reply, None where there is none."""
        return self._get(self._reader, key)

    def get_aside(self, key: str) -> bytes | None:
        """The same for large replies, from any thread: it does not block ``get``."""
        with self._aside_lock:
            return self._get(self._aside, key)

    def _get(self, connection: sqlite3.Connection, key: str) -> bytes | None:
        known = "SELECT body FROM replies WHERE key = ? AND state = 'done'"
        with self._database.explained():
            row = connection.execute(known, (key,)).fetchone()
            if row is None and self._fresh is not None:
                row = self._fresh.execute(known, (key,)).fetchone()
        return None if row is None else row[0]

    def claim(self, key: str, kind: str, lane: str, lease: float, done: Done) -> float:
        """Take the right to make a call, for ``lease`` seconds; ``done`` gets a Claim.

        Returns the claim's name for :meth:`release`, for callers that cannot wait.
        """
        now = time.time()

        def work(connection: sqlite3.Connection) -> Claim:
            row = connection.execute(
                "SELECT state, body, owner, lease FROM replies WHERE key = ?", (key,)
            ).fetchone()
            if row is not None and row[0] == "done":
                return Claim("known", row[1])
            if row is not None and row[0] == "pending" and not self._free(row[2], row[3], now):
                return Claim("leased")
            connection.execute(
                "INSERT INTO replies (key, kind, lane, state, created, owner, lease) "
                "VALUES (?, ?, ?, 'pending', ?, ?, ?) ON CONFLICT (key) DO UPDATE SET "
                "state = 'pending', owner = excluded.owner, lease = excluded.lease",
                (key, kind, lane, now, self._owner, now + lease),
            )
            return Claim("ours", lease=now + lease)

        self._writer.submit(work, done)
        return now + lease

    def renew(self, key: str, lease: float, seconds: float) -> float:
        """Extend a claim of ours to ``seconds`` from now; does not wait.

        Returns the claim's new name. A claim that another process took over stays theirs.
        """
        renewed = time.time() + seconds

        def work(connection: sqlite3.Connection) -> None:
            connection.execute(
                "UPDATE replies SET lease = ? WHERE key = ? AND state = 'pending' "
                "AND owner = ? AND lease = ?",
                (renewed, key, self._owner, lease),
            )

        self._writer.submit(work, _ignore)
        return renewed

    def release(self, key: str, lease: float) -> None:
        """Release a claim after a failed call; does not wait.

        ``lease`` is that of the claim: a call that was given up must not release the claim of its
        successor.
        """

        def work(connection: sqlite3.Connection) -> None:
            connection.execute(
                "DELETE FROM replies WHERE key = ? AND state = 'pending' AND owner = ? "
                "AND lease = ?",
                (key, self._owner, lease),
            )

        self._writer.submit(work, _ignore)

    def put(self, entry: Entry, done: Done) -> None:
        """Commit a reply; ``done`` is called once it is on disk."""

        def work(connection: sqlite3.Connection) -> None:
            usage = entry.usage
            body = entry.body if isinstance(entry.body, bytes) else entry.body()
            connection.execute(
                "INSERT OR REPLACE INTO replies (key, kind, lane, scope, state, body, created, "
                "prompt_tokens, completion_tokens, cost, characters, seconds) "
                "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (
                    entry.key,
                    entry.kind,
                    entry.lane,
                    entry.scope,
                    "done" if entry.reusable else "spent",
                    body,
                    time.time(),
                    usage.prompt_tokens,
                    usage.completion_tokens,
                    usage.cost,
                    entry.characters,
                    entry.seconds,
                ),
            )
            connection.executemany(
                "INSERT OR IGNORE INTO reply_sources (source, key) VALUES (?, ?)",
                [(source, entry.key) for source in entry.sources],
            )

        self._writer.submit(work, done)
        self.unkept += self._fresh is not None

    def add_sources(self, key: str, sources: Sequence[str]) -> None:
        """Record further sources of a known reply; does not wait, writes only new ones."""
        known = "SELECT 1 FROM reply_sources WHERE source = ? AND key = ?"
        with self._database.explained():
            new = [s for s in sources if self._reader.execute(known, (s, key)).fetchone() is None]
        if not new:
            return

        def work(connection: sqlite3.Connection) -> None:
            connection.executemany(
                "INSERT OR IGNORE INTO reply_sources (source, key) "
                "SELECT ?, key FROM replies WHERE key = ?",  # unless it has just been forgotten
                [(source, key) for source in new],
            )

        self._writer.submit(work, _ignore)

    def facts(self, lane: str) -> LaneFacts:
        """Sums over finished calls of a lane; keys are hashes, so the first are a fair sample."""
        with self._database.explained():
            row = self._reader.execute(
                "SELECT count(*), total(prompt_tokens), total(completion_tokens), "
                "total(characters), total(seconds) FROM (SELECT prompt_tokens, "
                "completion_tokens, characters, seconds FROM replies WHERE lane = ? "
                "AND state IN ('done', 'spent') LIMIT ?)",
                (lane, _SAMPLE),
            ).fetchone()
        return LaneFacts(int(row[0]), int(row[1]), int(row[2]), int(row[3]), float(row[4]))

    def forget(self, *, source: str | None = None, scope: str | None = None) -> int:
        """Purge the replies made from a document, or of a scope; returns their number.

        Raises:
            StoreError: Neither or both are named, the name is empty, or the file is held by
                another process, so that the text cannot be overwritten now.
        """
        one_to_forget(source, scope)
        self._database.require_writable()

        def work(connection: sqlite3.Connection) -> int:
            if source is not None:
                keys = connection.execute(
                    "SELECT key FROM reply_sources WHERE source = ?", (source,)
                ).fetchall()
            else:
                keys = connection.execute(
                    "SELECT key FROM replies WHERE scope = ?", (scope,)
                ).fetchall()
            connection.executemany("DELETE FROM replies WHERE key = ?", keys)
            connection.executemany("DELETE FROM reply_sources WHERE key = ?", keys)
            return len(keys)

        count = self._writer.call(work)
        scrub(self._reader, self._database)
        return count

    def drop(self, source: str) -> int:
        """Delete the replies of a source that are no longer needed; returns their number.

        Unlike :meth:`forget` this does not overwrite the bytes.
        """
        self._database.require_writable()

        def work(connection: sqlite3.Connection) -> int:
            keys = connection.execute(
                "SELECT key FROM reply_sources WHERE source = ?", (source,)
            ).fetchall()
            connection.executemany("DELETE FROM replies WHERE key = ?", keys)
            connection.execute("DELETE FROM reply_sources WHERE source = ?", (source,))
            return len(keys)

        return self._writer.call(work)

    def clear(self) -> int:
        """Delete every reply; returns their number."""
        self._database.require_writable()

        def work(connection: sqlite3.Connection) -> int:
            count = connection.execute("SELECT count(*) FROM replies").fetchone()[0]
            connection.execute("DELETE FROM replies")
            connection.execute("DELETE FROM reply_sources")
            return int(count)

        count = self._writer.call(work)
        scrub(self._reader, self._database)
        return count

    def statistics(self) -> Sequence[tuple[str, str, int, int, int, float]]:
        """Per (kind, lane): replies, prompt tokens, completion tokens, cost."""
        with self._database.explained():
            return self._reader.execute(
                "SELECT kind, lane, count(*), total(prompt_tokens), total(completion_tokens), "
                "total(cost) FROM replies WHERE state != 'pending' GROUP BY kind, lane "
                "ORDER BY 1, 2"
            ).fetchall()

    def size(self) -> int:
        """Bytes of the file, 0 where it could not be made."""
        path = self._database.path
        return path.stat().st_size if path.exists() else 0

    def close(self) -> None:
        """Finish what is queued; safe to call twice."""
        self._writer.close()
        self._reader.close()
        with self._aside_lock:
            self._aside.close()

    def _free(self, owner: str, lease: float, now: float) -> bool:
        return now > lease or not alive(owner)

    def _evict(self, max_bytes: int) -> None:
        """Drop the oldest quarter of the replies until the rest is small enough.

        Best effort: tried again later if the file is held or the disk is full.
        """
        if self.size() <= max_bytes:
            return
        connection = self._reader
        patience = connection.execute("PRAGMA busy_timeout").fetchone()[0]
        connection.execute(f"PRAGMA busy_timeout = {_PATIENCE_MS}")
        try:
            with suppress(StoreBusyError, StoreFullError):
                while self._used() > max_bytes and self._drop_oldest():
                    pass
                scrub(connection, self._database)
        finally:
            connection.execute(f"PRAGMA busy_timeout = {patience}")

    def _used(self) -> int:
        """Bytes of the file that are in use."""
        with self._database.explained():
            pages, free, each = (
                self._reader.execute(f"PRAGMA {name}").fetchone()[0]
                for name in ("page_count", "freelist_count", "page_size")
            )
        return int((pages - free) * each)

    def _drop_oldest(self) -> int:
        connection = self._reader
        try:
            with self._database.explained():
                connection.execute("BEGIN IMMEDIATE")
                gone = connection.execute(
                    "DELETE FROM replies WHERE key IN (SELECT key FROM replies WHERE state != "
                    "'pending' ORDER BY created LIMIT (SELECT count(*) / 4 + 1 FROM replies))"
                ).rowcount
                connection.execute(
                    "DELETE FROM reply_sources WHERE key NOT IN (SELECT key FROM replies)"
                )
                connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise
        return gone


def _ignore(_result: Any, _error: BaseException | None) -> None:
    return None


def _owner() -> str:
    pid = os.getpid()
    return f"{socket.gethostname()}|{pid}|{_started(pid)}"


def _started(pid: int) -> str:
    """Start time of a process, to recognise a reused process id; '' if unknown."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        return ""


def alive(owner: str) -> bool:
    """False only if the owner is surely gone: a process of this host that no longer runs."""
    host, pid, started = owner.split("|")
    if host != socket.gethostname():
        return True
    try:
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return not started or _started(int(pid)) == started
