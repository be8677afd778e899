"""The run store: append-only rows that reports read and ``--resume`` continues."""

from __future__ import annotations

import json
import time
import uuid
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

from ..core import StoreError, canonical_json, value_hash
from ..ledger import Connection, Ledger, Place

_MOST_QUEUED = 256
_TICK = 1e-4
"""Seconds between the starts of two runs, at least."""


@dataclass(frozen=True, slots=True)
class Run:
    """A run as stored: its id, what was run, how it ended, and its name if it has one."""

    id: str
    kind: str
    manifest: Mapping[str, Any]
    state: str
    started: float
    ended: float | None
    name: str = ""


@dataclass(frozen=True, slots=True)
class RunRow:
    """One row of a run: position, id, state (``done``, ``errored``, ``skipped``) and body."""

    ordinal: int
    id: str
    state: str
    body: Mapping[str, Any]


class Runs:
    """Append-only runs in the ledger: a SQLite file, or a database that several machines share.

    Rows are committed in groups.

    Args:
        place: File to use, made with mode 0600; or a shared database.
    """

    def __init__(self, place: Place) -> None:
        self._ledger = Ledger(place)
        self._queued: deque[Future[None]] = deque()

    def start(self, kind: str, manifest: Mapping[str, Any], *, scope: str = "") -> str:
        """Open a run; its name sorts by time."""
        run = f"{time.strftime('%Y%m%d-%H%M%S', time.gmtime())}-{uuid.uuid4().hex[:6]}"

        def work(connection: Connection) -> None:
            connection.execute(
                # never before an existing run: the newest is the last, whatever the clock says
                "INSERT INTO runs (run, kind, manifest, hash, scope, state, started) "
                "SELECT ?, ?, ?, ?, ?, 'open', max(moment) FROM (SELECT clock_seconds() AS moment "
                "UNION ALL SELECT coalesce(max(started), 0) + ? FROM runs) AS moments "
                "WHERE true ON CONFLICT DO NOTHING",
                (run, kind, canonical_json(manifest), value_hash(manifest), scope, _TICK),
            )

        self._ledger.writer.call(work)
        return run

    def unfinished(
        self,
        kind: str,
        manifest: Mapping[str, Any],
        *,
        scope: str = "",
        errored: bool = False,
    ) -> str | None:
        """The newest run with this manifest and scope that is not complete, else None.

        ``errored`` counts a run that holds errored rows as not complete.
        """
        row = self._first(
            "SELECT run FROM runs WHERE kind = ? AND hash = ? AND scope = ? AND ("
            "state != 'complete' OR (? = 1 AND EXISTS (SELECT 1 FROM rows "
            "WHERE rows.run = runs.run AND rows.state = 'errored'))) "
            "ORDER BY started DESC LIMIT 1",
            (kind, value_hash(manifest), scope, int(errored)),
        )
        return None if row is None else str(row[0])

    def complete(self, kind: str, manifest: Mapping[str, Any], *, scope: str = "") -> str | None:
        """The newest complete run with this manifest and scope, else None."""
        row = self._first(
            "SELECT run FROM runs WHERE kind = ? AND hash = ? AND scope = ? "
            "AND state = 'complete' ORDER BY started DESC LIMIT 1",
            (kind, value_hash(manifest), scope),
        )
        return None if row is None else str(row[0])

    def states(self, run: str) -> dict[str, str]:
        """State of every row of a run, by row id; bodies are not read."""
        return dict(self._ledger.select("SELECT row, state FROM rows WHERE run = ?", (run,)))

    def append(
        self,
        run: str,
        row: RunRow,
        *,
        sources: Sequence[str] = (),
    ) -> None:
        """Add a row; a row of that id replaces an earlier one only if that was not ``done``.

        Waits only if more than some hundred rows are not yet written, so that memory stays
        bounded; :meth:`flush` and :meth:`finish` wait for all, and raise the first error.
        """
        body = json.dumps(row.body, ensure_ascii=False, sort_keys=True)

        def work(connection: Connection) -> None:
            connection.execute(
                "INSERT INTO rows (run, ordinal, row, state, body, written) VALUES "
                "(?, ?, ?, ?, ?, clock_seconds()) ON CONFLICT (run, row) DO UPDATE "
                "SET state = excluded.state, body = excluded.body, written = excluded.written "
                "WHERE rows.state != 'done'",
                (run, row.ordinal, row.id, row.state, body),
            )
            connection.executemany(
                "INSERT INTO row_sources (source, run, row) VALUES (?, ?, ?) "
                "ON CONFLICT DO NOTHING",
                [(source, run, row.id) for source in sources],
            )

        self._queued.append(self._ledger.writer.submit(work))
        while len(self._queued) > _MOST_QUEUED and self._queued[0].exception() is None:
            self._queued.popleft()

    def flush(self) -> None:
        """Wait until every appended row is committed; raise the first failure."""
        queued, self._queued = self._queued, deque()
        for failure in [row.exception() for row in queued]:
            if failure is not None:
                raise failure

    def finish(self, run: str, state: str) -> None:
        """Close a run as ``complete`` or ``stopped``, after all its rows are committed."""
        self.flush()

        def work(connection: Connection) -> None:
            connection.execute(
                "UPDATE runs SET state = ?, ended = CASE WHEN started > clock_seconds() "
                "THEN started ELSE clock_seconds() END WHERE run = ?",
                (state, run),
            )

        self._ledger.writer.call(work)

    def get(self, run: str) -> Run:
        """A run by its name.

        Raises:
            StoreError: There is no such run.
        """
        runs = self._matching("run = ?", (run,))
        if not runs:
            raise StoreError(
                f"unknown run {run!r}",
                where=self._ledger.database.where,
                hint="see ragwright report",
            )
        return runs[0]

    def holds(self, run: str) -> bool:
        """True if there is a run with this id."""
        return self._first("SELECT 1 FROM runs WHERE run = ?", (run,)) is not None

    def list(self, kind: str | None = None) -> Sequence[Run]:
        """Runs, oldest first."""
        return self._matching("1 = 1", ()) if kind is None else self._matching("kind = ?", (kind,))

    def _matching(self, where: str, values: Sequence[str]) -> Sequence[Run]:
        names = "LEFT JOIN names USING (run)"
        columns = "run, kind, manifest, state, started, ended, coalesce(name, '')"
        query = f"SELECT {columns} FROM runs {names} WHERE {where} ORDER BY started, run"  # noqa: S608
        rows = self._ledger.select(query, values)
        return [Run(r[0], r[1], json.loads(r[2]), *r[3:]) for r in rows]

    def name(self, run: str, name: str) -> None:
        """Name a run; several may have the same name, an empty one removes it."""

        def work(connection: Connection) -> None:
            connection.execute("DELETE FROM names WHERE run = ?", (run,))
            if name:
                connection.execute("INSERT INTO names (run, name) VALUES (?, ?)", (run, name))

        self._ledger.writer.call(work)

    def keep(self, run: str, fact: str, value: Mapping[str, Any]) -> None:
        """Store a further fact about a run; it does not affect what is resumed."""
        values = (run, fact, canonical_json(value))

        def work(connection: Connection) -> None:
            connection.execute(
                "INSERT INTO facts (run, fact, value) VALUES (?, ?, ?) "
                "ON CONFLICT (run, fact) DO UPDATE SET value = excluded.value",
                values,
            )

        self._ledger.writer.call(work)

    def kept(self, run: str, fact: str) -> Mapping[str, Any]:
        """The fact that :meth:`keep` stored; empty if there is none."""
        row = self._first("SELECT value FROM facts WHERE run = ? AND fact = ?", (run, fact))
        return {} if row is None else dict(json.loads(row[0]))

    def rows(self, run: str) -> Iterator[RunRow]:
        """Rows of a run in input order, as they were when reading began."""
        # its own connection: a half-read cursor blocks no other reader
        database = self._ledger.database
        connection = database.connect()
        try:
            query = "SELECT ordinal, row, state, body FROM rows WHERE run = ? ORDER BY ordinal, row"
            with database.explained():
                for row in database.stream(connection, query, (run,)):
                    yield RunRow(row[0], row[1], row[2], json.loads(row[3]))
        finally:
            connection.close()

    def close(self) -> None:
        """Finish what is queued; safe to call twice."""
        self._ledger.close()

    def _first(self, query: str, values: Sequence[Any]) -> Any:
        """The first row of a query, None if it has none."""
        return next(iter(self._ledger.select(query, values)), None)
