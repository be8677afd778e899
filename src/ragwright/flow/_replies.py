"""The reply store: a call whose reply is stored is not paid for again.

A cache: it may be evicted or deleted at any time; this costs only time and money.
"""

from __future__ import annotations

import itertools
import os
import socket
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import closing, suppress
from dataclasses import dataclass
from functools import cache, partial
from operator import methodcaller
from pathlib import Path
from typing import Literal, TypeVar

from ..core import StoreBusyError, StoreFullError, Usage
from ..ledger import (
    REPLY_TABLES,
    Connection,
    Database,
    Ledger,
    Place,
    SharedPlace,
    one_to_forget,
    process_runs,
    read_process,
)

T = TypeVar("T")

_SAMPLE = 2000
_CLAIMS = itertools.count(1)

_STATISTICS = ("prompt_tokens", "completion_tokens", "cost", "characters", "seconds")
_WRITTEN = ("key", "kind", "lane", "scope", "state", "body", *_STATISTICS)
_PUT = (
    f"INSERT INTO replies ({', '.join(_WRITTEN)}, created) "  # noqa: S608
    f"VALUES ({', '.join('?' * len(_WRITTEN))}, clock_seconds()) "
    "ON CONFLICT (key) DO UPDATE SET created = excluded.created, owner = '', lease = 0, "
    + ", ".join(f"{name} = excluded.{name}" for name in _WRITTEN[1:])
)
_ADD_SOURCE = "INSERT INTO reply_sources (source, key) VALUES (?, ?) ON CONFLICT DO NOTHING"
_BODY = "SELECT body FROM replies WHERE key = ? AND state = 'done'"
_KEYS_OF_SOURCE = "SELECT key FROM reply_sources WHERE source = ?"


@dataclass(frozen=True, slots=True)
class ReplyEntry:
    """A reply with its statistics, to be committed."""

    key: str
    kind: str
    lane: str
    scope: str
    body: bytes
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

    It is opened by its first use, from any thread. If the file cannot be written, new replies are
    not kept.

    Args:
        place: File to use, made with mode 0600; or a shared database.
        max_bytes: Size above which the oldest replies are evicted at opening.

    Attributes:
        unkept: Replies that were not kept.
        remote: True if looking up a reply may have to wait for a network.
    """

    def __init__(self, place: Place, *, max_bytes: int = 2_000_000_000) -> None:
        self._place = place
        self._max_bytes = max_bytes
        self._opened: Ledger | None = None
        self._lock = threading.Lock()
        self.remote = isinstance(place, SharedPlace)
        self.unkept = 0

    def open(self) -> Ledger:
        """The ledger of the replies.

        Raises:
            StoreError: It cannot be used; its subclasses say why.
        """
        with self._lock:
            if self._opened is None:
                self._opened = Ledger(self._place, REPLY_TABLES)
                self._evict(self._opened.database)
            return self._opened

    @property
    def notes(self) -> tuple[str, ...]:
        """A note if replies were not kept; else empty."""
        if not self.unkept:
            return ()
        return (
            f"{self.unkept} replies of models are not kept: {self.open().database.where} cannot be "
            "written, and repeated calls are paid for again",
        )

    def get(self, key: str) -> bytes | None:
        """Return the stored form of a reusable reply, None where there is none; any thread."""
        return next(iter(self.open().select(_BODY, (key,))), (None,))[0]

    def _submit(self, work: Callable[[Connection], T], unwritten: T) -> Future[T]:
        """Queue work; its result is ``unwritten`` where the file cannot be written."""
        if not self.open().database.read_only:
            return self.open().writer.submit(work)
        future: Future[T] = Future()
        future.set_result(unwritten)
        return future

    def claim(self, key: str, kind: str, lane: str, lease: float) -> tuple[str, Future[Claim]]:
        """Take the right to make a call, for ``lease`` seconds.

        Returns the claim's name for :meth:`release`, and the claim to come. Leases end by the
        clock of the database: in a shared one, that of its server.
        """
        name = f"{_owner()}|{next(_CLAIMS)}"

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

        return name, self._submit(work, Claim("ours", name=name))

    def renew(self, key: str, name: str, seconds: float) -> None:
        """Extend a claim of ours to ``seconds`` from now; does not wait.

        A claim that another process took over stays theirs.
        """
        statement = (
            "UPDATE replies SET lease = clock_seconds() + ? WHERE key = ? "
            "AND state = 'pending' AND owner = ?"
        )
        self._submit(methodcaller("execute", statement, (seconds, key, name)), None)

    def release(self, key: str, name: str) -> None:
        """Release a claim after a failed call; does not wait.

        ``name`` is that of the claim: a call that was given up must not release the claim of its
        successor.
        """
        statement = "DELETE FROM replies WHERE key = ? AND state = 'pending' AND owner = ?"
        self._submit(methodcaller("execute", statement, (key, name)), None)

    def put(self, entry: ReplyEntry) -> Future[None]:
        """Commit a reply; the future ends once it is on disk."""
        self.unkept += self.open().database.read_only
        return self._submit(partial(_write, entry), None)

    def add_sources(self, key: str, sources: Sequence[str]) -> None:
        """Record further sources of a known reply; does not wait, writes only new ones."""
        new = sources
        if not self.remote:
            known = "SELECT 1 FROM reply_sources WHERE source = ? AND key = ?"
            new = [source for source in sources if not self.open().select(known, (source, key))]
        if new:
            statement = (  # unless it has just been forgotten
                "INSERT INTO reply_sources (source, key) "
                "SELECT ?, key FROM replies WHERE key = ? ON CONFLICT DO NOTHING"
            )
            rows = [(source, key) for source in new]
            self._submit(methodcaller("executemany", statement, rows), None)

    def facts(self, lane: str) -> LaneFacts:
        """Sums over finished calls of a lane; keys are hashes, so the first are a fair sample."""
        [row] = self.open().select(
            "SELECT count(*), coalesce(sum(prompt_tokens), 0), "
            "coalesce(sum(completion_tokens), 0), coalesce(sum(characters), 0), "
            "coalesce(sum(seconds), 0) FROM (SELECT prompt_tokens, completion_tokens, "
            "characters, seconds FROM replies WHERE lane = ? "
            "AND state IN ('done', 'spent') LIMIT ?) AS sample",
            (lane, _SAMPLE),
        )
        return LaneFacts(*row)

    def forget(self, *, source: str | None = None, scope: str | None = None) -> int:
        """Purge the replies made from a document, or of a scope; returns their number.

        Raises:
            StoreError: Neither or both are named, the name is empty, or the file is held by
                another process, so that the text cannot be overwritten now.
        """
        one_to_forget(source, scope)
        query, name = _KEYS_OF_SOURCE, source
        if source is None:
            query, name = "SELECT key FROM replies WHERE scope = ?", scope
        count = self.open().write(lambda connection: _delete(connection, query, name))
        self.open().scrub()
        return count

    def number_of(self, source: str) -> int:
        """Count the stored replies of a source."""
        return len(self.open().select(_KEYS_OF_SOURCE, (source,)))

    def drop(self, source: str) -> int:
        """Delete the replies of a source that are no longer needed; returns their number.

        Unlike :meth:`forget` this does not overwrite the bytes.
        """
        return self.open().write(lambda connection: _delete(connection, _KEYS_OF_SOURCE, source))

    def clear(self) -> int:
        """Delete every reply; returns their number."""
        count = self.open().write(_delete_all)
        self.open().scrub()
        return count

    def statistics(self) -> Sequence[tuple[str, str, int, int, int, float]]:
        """Per (kind, lane): replies, prompt tokens, completion tokens, cost."""
        rows = self.open().select(
            "SELECT kind, lane, count(*), sum(prompt_tokens), sum(completion_tokens), "
            "sum(cost) FROM replies WHERE state != 'pending' GROUP BY kind, lane "
            "ORDER BY 1, 2"
        )
        return [(*row[:5], float(row[5] or 0.0)) for row in rows]

    def size(self) -> int:
        """Bytes on disk, 0 where the file could not be made."""
        return self.open().database.size()

    def close(self) -> None:
        """Finish what is queued; safe to call twice."""
        if self._opened is not None:
            self._opened.close()

    def _evict(self, database: Database) -> None:
        """Drop the oldest replies, so that the others take three quarters of the size.

        Best effort: tried again later if the file is held or the disk is full.
        """
        if database.read_only or database.size() <= self._max_bytes:
            return
        newest = "sum(length(body) + 500) OVER (ORDER BY created DESC, key)"  # 500: the rest of it
        with (
            suppress(StoreBusyError, StoreFullError),
            database.explained(),
            closing(database.connect()) as connection,
        ):
            if not self.remote:
                connection.execute("PRAGMA busy_timeout = 200")
            database.begin(connection)
            connection.execute(
                "DELETE FROM replies WHERE key IN (SELECT key FROM (SELECT key, "  # noqa: S608
                f"{newest} AS used FROM replies WHERE state != 'pending') AS each WHERE used > ?)",
                (self._max_bytes * 3 // 4,),
            )
            connection.execute(
                "DELETE FROM reply_sources WHERE key NOT IN (SELECT key FROM replies)"
            )
            connection.execute("COMMIT")
            if not self.remote:  # the server uses the space again by itself
                database.scrub(connection)


def _write(entry: ReplyEntry, connection: Connection) -> None:
    usage = entry.usage
    state = "done" if entry.reusable else "spent"
    row = (entry.key, entry.kind, entry.lane, entry.scope, state, entry.body)
    tokens = (usage.prompt_tokens, usage.completion_tokens)
    connection.execute(_PUT, (*row, *tokens, usage.cost, entry.characters, entry.seconds))
    connection.executemany(_ADD_SOURCE, [(source, entry.key) for source in entry.sources])


def _delete(connection: Connection, query: str, name: str | None) -> int:
    """Delete the replies whose keys a query finds, with their sources; returns their number."""
    keys = connection.execute(query, (name,)).fetchall()
    connection.executemany("DELETE FROM replies WHERE key = ?", keys)
    connection.executemany("DELETE FROM reply_sources WHERE key = ?", keys)
    return len(keys)


def _delete_all(connection: Connection) -> int:
    connection.execute("DELETE FROM reply_sources")
    return int(connection.execute("DELETE FROM replies").rowcount)


@cache
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
    return "".join(read_process(pid)[19:20])


def alive(owner: str) -> bool:
    """False only if the owner is surely gone: a process of this host that no longer runs."""
    host, pid, started, _ = owner.split("|")
    if host != _host():
        return True
    return process_runs(int(pid)) and started in ("", _started(int(pid)))
