"""Events of the audit log never change, in a file and in a shared database."""

from __future__ import annotations

import itertools
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest

from ragwright.core import StoreError
from ragwright.jobs import AuditLog, AuditLogOptions, Event, EventQuery
from ragwright.ledger import Connection, Ledger, Place, SharedPlace

NUMBERS = itertools.count()


@pytest.fixture(scope="module")
def server(postgres: str) -> str:
    return f"postgresql://admin@/postgres?host={postgres}"


@pytest.fixture(
    params=[
        "sqlite",
        pytest.param("postgresql", marks=[pytest.mark.slow, pytest.mark.needs_postgres]),
    ]
)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    if request.param == "sqlite":
        return tmp_path / "ledger.sqlite"
    return SharedPlace(request.getfixturevalue("server"), f"audit{next(NUMBERS)}")


def changed(statement: str, connection: Connection) -> int:
    return int(connection.execute(statement).rowcount)


def test_no_statement_changes_or_removes_an_event(place: Place) -> None:
    with closing(AuditLog(place, AuditLogOptions(questions=True))) as log:
        log.add(Event(kind="asked", who="ann", documents=("a", "b"), question="Why?"))
        [(number, event)] = log.select(EventQuery())
        with closing(Ledger(place)) as ledger:
            for change in (
                "UPDATE audit_events SET who = 'bob'",
                "UPDATE audit_events SET question = 'Who?'",
                "UPDATE audit_events SET kept_until = 0",
                "UPDATE audit_events SET documents = 'c'",
                "DELETE FROM audit_events",
                *(["TRUNCATE audit_events"] if isinstance(place, SharedPlace) else []),
            ):
                with pytest.raises(StoreError, match="append-only"):
                    ledger.write(partial(changed, change))
        assert list(log.select(EventQuery())) == [(number, event)]


def test_events_go_when_their_time_is_over_and_only_then(place: Place) -> None:
    with closing(AuditLog(place, AuditLogOptions(days=30))) as log:
        log.add(Event(kind="asked", who="kept"), Event(kind="asked", who="old"))
        copy = (
            "INSERT INTO audit_events SELECT number + 10, at, kind, 'past', role, origin, request, "
            "configuration, action, outcome, subject, documents, question, scope, 1.0 "
            "FROM audit_events WHERE who = 'old'"
        )
        with closing(Ledger(place)) as ledger:
            ledger.write(lambda connection: connection.execute(copy).rowcount)
        assert [event.who for _, event in log.select(EventQuery())] == ["kept", "old", "past"]
    with closing(AuditLog(place, AuditLogOptions(days=1))) as log:
        log.add(Event(kind="asked", who="new"))
        assert [event.who for _, event in log.select(EventQuery())] == ["kept", "old", "new"]
