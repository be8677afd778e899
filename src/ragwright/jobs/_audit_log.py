"""The audit log: events are added, read and exported, and never change."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, Literal, TypeAlias

from ..core import RagwrightError, current_user, hash_erased_name, option
from ..ledger import AppendOnlyTable, Connection, ErasureRule, Ledger, Place, Tables
from ..project import Project, ProjectFolder, Settings


@dataclass(frozen=True, slots=True)
class AuditLogOptions:
    """What the audit log of a project keeps, and for how long."""

    keep: Literal["auto", "always", "never"] = option(
        "auto",
        "Keep an audit log: `auto` where keys were made or a proxy names people, `always` or "
        "`never`.",
    )
    days: int = option(
        365, "Days after which an event is deleted; a change holds for new events.", ge=1
    )
    questions: bool = option(False, "Store the texts of questions in the events, too.")


def audit_options(settings: Settings) -> AuditLogOptions:
    """Return the keys below ``serve.audit``."""
    options: AuditLogOptions = settings.section("serve").audit
    return options


_DAY = 86_400
_LOOK = 3_600.0
"""Seconds between two deletions of events that were kept long enough."""

ERASED = "(erased)"
"""Stands in an event for what `ragwright forget` removed."""

EventKind: TypeAlias = Literal[
    "asked",
    "saw",
    "changed",
    "exported",
    "promoted",
    "erased",
    "signed in",
    "signed out",
    "sign-in failed",
    "refused",
]
"""What somebody can do, or failed to."""


def utc_now() -> str:
    """The time, ISO 8601 in UTC with milliseconds."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Something that somebody did.

    Attributes:
        at: When, ISO 8601 in UTC.
        kind: What it was.
        who: Name of the key, the person, or the user of the machine; empty where nobody says.
        role: The role of this identity.
        origin: Address that the request came from; for a command the name of the machine.
        request: Id of the request.
        configuration: Configuration that answered.
        action: Method and route, or the command.
        outcome: ``done``, ``refused``, ``failed``, ``cut off``; ``begun`` where another event
            says how it ended.
        subject: What it was about besides documents: an output, a key, a testset.
        documents: Ids of the documents whose text was shown or used.
        question: Text of the question, where the settings keep it.
        scope: The tenant.
    """

    at: str = field(default_factory=utc_now)
    kind: EventKind
    who: str = ""
    role: str = ""
    origin: str = ""
    request: str = ""
    configuration: str = ""
    action: str = ""
    outcome: str = "done"
    subject: str = ""
    documents: tuple[str, ...] = ()
    question: str = ""
    scope: str = ""


_COLUMNS = (*Event.__dataclass_fields__, "kept_until")
"""Columns of an event, without its number."""

_EVENTS = (
    """CREATE TABLE IF NOT EXISTS audit_events (
        number INTEGER PRIMARY KEY AUTOINCREMENT,
        at TEXT NOT NULL,                -- ISO 8601, UTC
        kind TEXT NOT NULL,              -- asked | saw | changed | exported | promoted | erased | …
        who TEXT NOT NULL,               -- name of a key, a person or a user of the machine
        role TEXT NOT NULL,
        origin TEXT NOT NULL,            -- address, or name of the machine of a command
        request TEXT NOT NULL,           -- id of the request
        configuration TEXT NOT NULL,
        action TEXT NOT NULL,            -- method and route, or the command
        outcome TEXT NOT NULL,           -- begun | done | refused | failed | cut off
        subject TEXT NOT NULL,           -- output, key, testset or setting
        documents TEXT NOT NULL,         -- ids between line ends
        question TEXT NOT NULL,
        scope TEXT NOT NULL,
        kept_until REAL NOT NULL         -- seconds since 1970
    )""",
    "CREATE INDEX IF NOT EXISTS audit_events_by_time ON audit_events (at)",
    "CREATE INDEX IF NOT EXISTS audit_events_by_end ON audit_events (kept_until)",
)
"""Who did what."""

_LINE_END = "'\n'"
_NAME = f"{_LINE_END} || replace(?, {_LINE_END}, ' ') || {_LINE_END}"
_NAMED = f"instr(documents, {_NAME}) > 0"
_WITHOUT_NAME = f"documents = replace(documents, {_NAME}, {_LINE_END} || '{ERASED}' || {_LINE_END})"

_CHANGEABLE = ("who", "origin", "subject", "documents", "question", "scope")
_FIXED = " AND ".join(
    f"NEW.{name} = OLD.{name}" for name in ("number", *_COLUMNS) if name not in _CHANGEABLE
)
_ERASING = " AND ".join(
    f"(NEW.{name} = OLD.{name} OR NEW.{name} IN ('', '{ERASED}') "
    f"OR NEW.{name} LIKE 'sha256:%' OR instr(NEW.{name}, '{_end}{ERASED}{_end}') > 0)"
    for name, _end in ((name, "\n") for name in _CHANGEABLE)
)

OPERATION_TABLES = Tables(
    "operations",
    _EVENTS,
    1,
    forgets=(
        # the question may quote the document
        ErasureRule("audit_events", _NAMED, becomes=f"question = '', {_WITHOUT_NAME}"),
        ErasureRule(
            "audit_events",
            scope="scope = ?",
            becomes=f"question = '', documents = '', scope = '{ERASED}'",
        ),
        ErasureRule(
            "audit_events",
            person="who = :name",
            becomes="who = :erased, origin = '', question = ''",
            counts="events",
        ),
        ErasureRule(
            "audit_events", person="subject = :name", becomes="subject = :erased", counts="events"
        ),
    ),
    appended=(
        AppendOnlyTable(
            "audit_events", f"{_FIXED} AND {_ERASING}", "OLD.kept_until < clock_seconds()"
        ),
    ),
)
"""The audit log; its version is the ledger's."""

_INSERT = (
    f"INSERT INTO audit_events ({', '.join(_COLUMNS)}) "  # noqa: S608
    f"VALUES ({', '.join('?' * (len(_COLUMNS) - 1))}, clock_seconds() + ?)"
)


@dataclass(frozen=True, slots=True)
class EventQuery:
    """Which events to read.

    Attributes:
        kind: Of this kind; all where empty.
        who: Of this name, also after it was erased.
        document: About this document.
        request: Of the request with this id.
        since: From this time on, ISO 8601 in UTC or the beginning of it.
        until: Before this time.
        last: The newest ones only, None for all.
    """

    kind: str = ""
    who: str = ""
    document: str = ""
    request: str = ""
    since: str = ""
    until: str = ""
    last: int | None = None


class AuditLog:
    """The audit log of a project.

    Attributes:
        options: What is kept; may be replaced while it is open.
    """

    def __init__(self, place: Place, options: AuditLogOptions) -> None:
        self.options = options
        self._ledger = Ledger(place)
        self._begun = False
        self._looked = 0.0

    def close(self) -> None:
        """Store what is queued; safe to call twice."""
        self._ledger.close()

    @property
    def begun(self) -> bool:
        """True once it holds an event."""
        if not self._begun:
            query = "SELECT EXISTS (SELECT 1 FROM audit_events)"
            self._begun = bool(self._ledger.select(query)[0][0])
        return self._begun

    def add(self, *events: Event) -> None:
        """Add events, and wait until they are stored.

        Raises:
            StoreError: They cannot be stored.
        """
        self._ledger.write(self._prepare_insert(events))

    async def store(self, *events: Event) -> None:
        """Add events from an event loop; returns once they are stored.

        Raises:
            StoreError: They cannot be stored.
        """
        self._ledger.database.require_writable()
        added = self._ledger.writer.submit(self._prepare_insert(events))
        await asyncio.shield(asyncio.wrap_future(added))

    def _prepare_insert(self, events: Sequence[Event]) -> Callable[[Connection], None]:
        return partial(self._insert_and_delete, rows=[self._row(event) for event in events])

    def _insert_and_delete(self, connection: Connection, rows: Sequence[Sequence[Any]]) -> None:
        connection.executemany(_INSERT, rows)
        now = time.monotonic()
        if not self._looked or now - self._looked > _LOOK:
            self._looked = now
            connection.execute("DELETE FROM audit_events WHERE kept_until < clock_seconds()")

    def _row(self, event: Event) -> tuple[Any, ...]:
        names = "".join(f"{_on_one_line(name)}\n" for name in event.documents)
        values = asdict(event) | {"documents": f"\n{names}" if names else ""}
        if not self.options.questions:
            values["question"] = ""
        return (*values.values(), self.options.days * _DAY)

    def select(self, query: EventQuery) -> Iterator[tuple[int, Event]]:
        """Number and event, the oldest first, one in memory at a time.

        Raises:
            StoreError: They cannot be read.
        """
        condition, values = _condition(query)
        database = self._ledger.database
        if query.last is not None:
            newest = f"SELECT number FROM audit_events{condition} ORDER BY number DESC LIMIT ?"  # noqa: S608
            rows = self._ledger.select(newest, (*values, query.last))
            first = rows[-1][0] if rows else 0
            condition += f"{' AND' if condition else ' WHERE'} number >= ?"
            values = [*values, first]
        columns = ", ".join(_COLUMNS[:-1])
        sql = f"SELECT number, {columns} FROM audit_events{condition} ORDER BY number"  # noqa: S608
        with closing(database.connect()) as connection, database.explained():
            for number, *row in database.stream(connection, sql, values):
                yield int(number), _event(row)


def _on_one_line(name: str) -> str:
    """An id as it is kept: the ids of an event lie between line ends, so none may hold one."""
    return name.replace("\n", " ")


def _event(row: Sequence[Any]) -> Event:
    values = dict(zip(_COLUMNS[:-1], row, strict=True))
    names = values["documents"][1:-1]
    return Event(**values | {"documents": tuple(names.split("\n")) if names else ()})


def _condition(query: EventQuery) -> tuple[str, list[Any]]:
    tests = {
        "kind = ?": (query.kind,),
        "who IN (?, ?)": (query.who, hash_erased_name(query.who)) if query.who else ("",),
        "request = ?": (query.request,),
        "at >= ?": (query.since,),
        "at < ?": (query.until,),
        "instr(documents, '\n' || ? || '\n') > 0": (_on_one_line(query.document),),
    }
    used = {test: values for test, values in tests.items() if values[0]}
    values = [value for group in used.values() for value in group]
    return f" WHERE {' AND '.join(used)}" if used else "", values


def audit_log(folder: ProjectFolder, settings: Settings) -> AuditLog:
    """The audit log of a project; close it after use.

    Raises:
        StoreError: Its ledger cannot be opened.
    """
    return AuditLog(settings.shared.place(folder.ledger), audit_options(settings))


def record(
    folder: ProjectFolder, settings: Settings, event: Event, *, begins: bool = False
) -> None:
    """Add what an owner does on this machine, where the audit log is kept.

    Raises:
        StoreError: It cannot be stored.
    """
    options = audit_options(settings)
    file = settings.shared.place(folder.ledger)
    unused = isinstance(file, Path) and not file.exists() and options.keep == "auto"
    if options.keep == "never" or (unused and not begins):
        return
    with closing(audit_log(folder, settings)) as log:
        if begins or options.keep == "always" or log.begun:
            log.add(event)


@contextmanager
def record_erasure(project: Project, action: str, name: str) -> Iterator[None]:
    """Add an event before an erasure, and another one after it, with a hash of the name.

    Raises:
        StoreError: The first event cannot be stored; then nothing is done.
    """
    add = partial(record, project.folder, project.settings)
    event = partial(owner_event, "erased", action, hash_erased_name(name))
    add(event("begun"))
    try:
        yield
    except RagwrightError:
        add(event("failed"))
        raise
    add(event())


def record_done(project: Project, kind: EventKind, action: str, subject: str = "") -> None:
    """Add the event of something that the owner did by a command.

    Raises:
        StoreError: It cannot be stored.
    """
    record(project.folder, project.settings, owner_event(kind, action, subject))


def owner_event(kind: EventKind, action: str, subject: str = "", outcome: str = "done") -> Event:
    """An event of the user of this machine, who may do everything."""
    return Event(
        kind=kind,
        who=current_user(),
        role="owner",
        origin=socket.gethostname(),
        action=action,
        subject=subject,
        outcome=outcome,
    )


def event_json(number: int, event: Event) -> Mapping[str, Any]:
    """An event as JSON; its keys are those of :class:`Event`, and ``number``."""
    return {"number": number, **asdict(event)}
