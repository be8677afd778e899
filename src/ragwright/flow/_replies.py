"""The reply store: no call is paid for twice.

A cache: it may be evicted or deleted at any time; this costs only time and money.
"""

from __future__ import annotations

import itertools
import os
import socket
import threading
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from ..core import (
    StoreBusyError,
    StoreError,
    StoreFullError,
    StoreUnreachableError,
    Usage,
)
from ..ledger import (
    REPLY_TABLES,
    Connection,
    Done,
    Place,
    SqliteDatabase,
    Writer,
    copy_rows,
    one_to_forget,
    open_database,
    unheard,
)

_SAMPLE = 2000
_CLAIMS = itertools.count(1)


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
    """Result of a claim: granted under a name, already known, or leased by another process."""

    state: Literal["ours", "known", "leased"]
    body: bytes = b""
    name: str = ""


@dataclass(frozen=True, slots=True)
class LaneFacts:
    """Statistics of a lane's past calls, for forecasts."""

    calls: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    characters: int = 0
    seconds: float = 0.0


class Replies:
    """Durable replies in one SQLite file, or in a database that several machines share.

    If the file cannot be written, new replies are kept in memory.

    Args:
        place: File to use, made with mode 0600; or a shared database.
        power_safe: Wait for the disk at each commit, so that a power cut loses nothing.
        max_bytes: Size above which the oldest replies are evicted when the store is opened.
        spill: File for replies that were paid while a shared database was away; they are moved
            there when it is opened again.

    Attributes:
        unkept: Replies that were kept in memory alone.
        remote: True if looking up a reply may have to wait for a network: use :meth:`find`.
    """

    def __init__(
        self,
        place: Place,
        *,
        power_safe: bool = False,
        max_bytes: int = 2_000_000_000,
        spill: Path | None = None,
    ) -> None:
        self._database = open_database(place, REPLY_TABLES, power_safe=power_safe)
        self._spill = spill
        if spill is not None and spill.exists():
            self._take_back(spill)
        read_only = self._database.read_only
        self.remote = self._database.remote
        self._fresh = self._database.in_memory() if read_only else None
        self._writer = Writer(self._database, self._fresh)
        self._finder = Writer(self._database, reads=True) if self.remote else None
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
            f"{self.unkept} replies of models are not kept: {self._database.where} cannot be "
            "written, and repeated calls are paid for again",
        )

    def get(self, key: str) -> bytes | None:
        """Stored form of a reusable reply, None where there is none."""
        return self._get(self._reader, key)

    def get_aside(self, key: str) -> bytes | None:
        """The same for large replies, from any thread: it does not block ``get``."""
        with self._aside_lock:
            return self._get(self._aside, key)

    def find(self, key: str, done: Done) -> None:
        """The same for a shared database, without waiting: ``done`` gets the stored form or None.

        Keys that wait at the same moment are looked up together.
        """
        assert self._finder is not None
        self._finder.submit(lambda connection: _body(connection, key), done, key=key)

    def _get(self, connection: Connection, key: str) -> bytes | None:
        with self._database.explained():
            body = _body(connection, key)
            if body is None and self._fresh is not None:
                body = _body(self._fresh, key)
        return body

    def claim(self, key: str, kind: str, lane: str, lease: float, done: Done) -> str:
        """Take the right to make a call, for ``lease`` seconds; ``done`` gets a Claim.

        Returns the claim's name for :meth:`release`, for callers that cannot wait. Leases end by
        the clock of the database: in a shared one, that of its server.
        """
        name = f"{self._owner}|{next(_CLAIMS)}"

        def work(connection: Connection) -> Claim:
            row = connection.execute(
                "SELECT state, body, owner, lease < clock_seconds() FROM replies WHERE key = ?",
                (key,),
            ).fetchone()
            owner, taken = "", False
            if row is not None:
                state, body, owner, over = row
                if state == "done":
                    return Claim("known", body)
                taken = state == "pending" and owner != name and not over and alive(owner)
            if taken:
                return Claim("leased")
            # The row is what it was, or another process has just taken it.
            claimed = connection.execute(
                "INSERT INTO replies (key, kind, lane, state, created, owner, lease) "
                "VALUES (?, ?, ?, 'pending', clock_seconds(), ?, clock_seconds() + ?) "
                "ON CONFLICT (key) DO UPDATE SET state = 'pending', owner = excluded.owner, "
                "lease = excluded.lease WHERE replies.state = 'spent' OR (replies.state = "
                "'pending' AND replies.owner = ?) RETURNING 1",
                (key, kind, lane, name, lease, owner),
            ).fetchone()
            return Claim("leased") if claimed is None else Claim("ours", name=name)

        self._writer.submit(work, done, key=key)
        return name

    def renew(self, key: str, name: str, seconds: float) -> None:
        """Extend a claim of ours to ``seconds`` from now; does not wait.

        A claim that another process took over stays theirs.
        """

        def work(connection: Connection) -> None:
            connection.execute(
                "UPDATE replies SET lease = clock_seconds() + ? WHERE key = ? "
                "AND state = 'pending' AND owner = ?",
                (seconds, key, name),
            )

        self._writer.submit(work, unheard, key=key)

    def release(self, key: str, name: str) -> None:
        """Release a claim after a failed call; does not wait.

        ``name`` is that of the claim: a call that was given up must not release the claim of its
        successor.
        """

        def work(connection: Connection) -> None:
            connection.execute(
                "DELETE FROM replies WHERE key = ? AND state = 'pending' AND owner = ?",
                (key, name),
            )

        self._writer.submit(work, unheard, key=key)

    def put(self, entry: Entry, done: Done) -> None:
        """Commit a reply; ``done`` is called once it is on disk.

        While a shared database is away, that is a file of this machine.
        """

        def work(connection: Connection) -> None:
            usage = entry.usage
            body = entry.body if isinstance(entry.body, bytes) else entry.body()
            connection.execute(
                "INSERT INTO replies (key, kind, lane, scope, state, body, created, "
                "prompt_tokens, completion_tokens, cost, characters, seconds) "
                "VALUES (?, ?, ?, ?, ?, ?, clock_seconds(), ?, ?, ?, ?, ?) "
                "ON CONFLICT (key) DO UPDATE SET kind = excluded.kind, lane = excluded.lane, "
                "scope = excluded.scope, state = excluded.state, body = excluded.body, "
                "created = excluded.created, owner = '', lease = 0, "
                "prompt_tokens = excluded.prompt_tokens, "
                "completion_tokens = excluded.completion_tokens, cost = excluded.cost, "
                "characters = excluded.characters, seconds = excluded.seconds",
                (
                    entry.key,
                    entry.kind,
                    entry.lane,
                    entry.scope,
                    "done" if entry.reusable else "spent",
                    body,
                    usage.prompt_tokens,
                    usage.completion_tokens,
                    usage.cost,
                    entry.characters,
                    entry.seconds,
                ),
            )
            connection.executemany(
                "INSERT INTO reply_sources (source, key) VALUES (?, ?) ON CONFLICT DO NOTHING",
                [(source, entry.key) for source in entry.sources],
            )

        def landed(result: Any, error: BaseException | None) -> None:
            if isinstance(error, StoreUnreachableError) and self._spill is not None:
                try:
                    with SqliteDatabase(self._spill, REPLY_TABLES).transaction() as connection:
                        work(connection)
                    error = None
                except StoreError:
                    pass  # the first error says more
            done(result, error)

        self._writer.submit(work, landed, key=entry.key)
        self.unkept += self._fresh is not None

    def add_sources(self, key: str, sources: Sequence[str]) -> None:
        """Record further sources of a known reply; does not wait, writes only new ones."""
        new = list(sources)
        if not self.remote:
            known = "SELECT 1 FROM reply_sources WHERE source = ? AND key = ?"
            with self._database.explained():
                rows = [self._reader.execute(known, (s, key)).fetchone() for s in sources]
            new = [s for s, row in zip(sources, rows, strict=True) if row is None]
        if not new:
            return

        def work(connection: Connection) -> None:
            connection.executemany(
                # unless it has just been forgotten
                "INSERT INTO reply_sources (source, key) "
                "SELECT ?, key FROM replies WHERE key = ? ON CONFLICT DO NOTHING",
                [(source, key) for source in new],
            )

        self._writer.submit(work, unheard, key=key)

    def facts(self, lane: str) -> LaneFacts:
        """Sums over finished calls of a lane; keys are hashes, so the first are a fair sample."""
        with self._database.explained():
            row = self._reader.execute(
                "SELECT count(*), coalesce(sum(prompt_tokens), 0), "
                "coalesce(sum(completion_tokens), 0), coalesce(sum(characters), 0), "
                "coalesce(sum(seconds), 0) FROM (SELECT prompt_tokens, completion_tokens, "
                "characters, seconds FROM replies WHERE lane = ? "
                "AND state IN ('done', 'spent') LIMIT ?) AS sample",
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

        def work(connection: Connection) -> int:
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
        self._database.scrub(self._reader)
        return count

    def number_of(self, source: str) -> int:
        """Number of the stored replies of a source."""
        query = "SELECT count(*) FROM reply_sources WHERE source = ?"
        with self._database.explained():
            return int(self._reader.execute(query, (source,)).fetchone()[0])

    def drop(self, source: str) -> int:
        """Delete the replies of a source that are no longer needed; returns their number.

        Unlike :meth:`forget` this does not overwrite the bytes.
        """
        self._database.require_writable()

        def work(connection: Connection) -> int:
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

        def work(connection: Connection) -> int:
            count = _count(connection)
            connection.execute("DELETE FROM replies")
            connection.execute("DELETE FROM reply_sources")
            return count

        count = self._writer.call(work)
        self._database.scrub(self._reader)
        return count

    def statistics(self) -> Sequence[tuple[str, str, int, int, int, float]]:
        """Per (kind, lane): replies, prompt tokens, completion tokens, cost."""
        with self._database.explained():
            rows = self._reader.execute(
                "SELECT kind, lane, count(*), sum(prompt_tokens), sum(completion_tokens), "
                "sum(cost) FROM replies WHERE state != 'pending' GROUP BY kind, lane "
                "ORDER BY 1, 2"
            ).fetchall()
        return [(*row[:5], float(row[5] or 0.0)) for row in rows]

    def size(self) -> int:
        """Bytes on disk, 0 where the file could not be made."""
        return self._database.size()

    def move(self, path: Path) -> int:
        """Copy the replies of a SQLite file into this store; returns how many are new.

        Raises:
            StoreError: The file cannot be read, or this store cannot be written.
        """
        self._database.require_writable()
        return copy_rows(path, self._database).get("replies", 0)

    def _take_back(self, spill: Path) -> None:
        """Move the replies that were paid while the database was away."""
        database = SqliteDatabase(spill, REPLY_TABLES)
        with database.transaction() as connection:  # nothing is added meanwhile
            if self.move(spill) or _count(connection):
                connection.execute("DELETE FROM replies")
                connection.execute("DELETE FROM reply_sources")
        with closing(database.connect()) as connection:
            database.scrub(connection)

    def close(self) -> None:
        """Finish what is queued; safe to call twice."""
        self._writer.close()
        if self._finder is not None:
            self._finder.close()
        self._reader.close()
        with self._aside_lock:
            self._aside.close()
        self._database.close()

    def _evict(self, max_bytes: int) -> None:
        """Drop the oldest quarter of the replies until the rest is small enough.

        Best effort: tried again later if the file is held or the disk is full.
        """
        if self.size() <= max_bytes:
            return
        connection, database = self._reader, self._database
        with database.impatient(connection), suppress(StoreBusyError, StoreFullError):
            dropped = 0
            while database.used(connection) > max_bytes and (gone := self._drop_oldest()):
                dropped += gone
            if dropped and not database.remote:  # the server uses the space again by itself
                database.scrub(connection)

    def _drop_oldest(self) -> int:
        connection = self._reader
        try:
            with self._database.explained():
                self._database.begin(connection)
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


def _count(connection: Connection) -> int:
    return int(connection.execute("SELECT count(*) FROM replies").fetchone()[0])


def _body(connection: Connection, key: str) -> bytes | None:
    row = connection.execute(
        "SELECT body FROM replies WHERE key = ? AND state = 'done'", (key,)
    ).fetchone()
    return None if row is None else row[0]


def _owner() -> str:
    pid = os.getpid()
    return f"{_host()}|{pid}|{_started(pid)}"


def _host() -> str:
    """The machine since it started, and the container: process ids count within both."""
    ids = [socket.gethostname()]
    with suppress(OSError):
        ids.append(Path("/proc/sys/kernel/random/boot_id").read_text().strip()[:8])
        ids.append(str(Path("/proc/self/ns/pid").readlink()))
    return " ".join(ids)


def _started(pid: int) -> str:
    """Start time of a process, to recognise a reused process id; '' if unknown."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        return ""


def alive(owner: str) -> bool:
    """False only if the owner is surely gone: a process of this host that no longer runs."""
    host, pid, started, _ = owner.split("|")
    if host != _host():
        return True
    try:
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return not started or _started(int(pid)) == started
