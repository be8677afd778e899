"""A shared database that is away, refuses, is of another version, or loses connections."""

from __future__ import annotations

import asyncio
import itertools
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from flow_fakes import FakeChat, ask
from postgres_server import start_server, stop_server
from test_shared_stores import claim, entry, put

from ragwright.core import (
    SchemaVersionError,
    StoreBusyError,
    StoreDamagedError,
    StoreError,
    StoreUnreachableError,
)
from ragwright.flow import Chat, ChatReply, OnDelta, Replies, Runner, RunRow, Runs
from ragwright.ledger import Connection, SharedPlace

pytestmark = pytest.mark.slow

NUMBERS = itertools.count()
PASSWORD = "s3cret-Pa55"


@pytest.fixture
def place(postgres: str) -> SharedPlace:
    return SharedPlace(f"postgresql://admin@/postgres?host={postgres}", f"f{next(NUMBERS)}")


@pytest.fixture
def sql(postgres: str) -> Iterator[Any]:
    """A connection of an administrator."""
    import psycopg

    with psycopg.connect(f"host={postgres} user=admin dbname=postgres", autocommit=True) as made:
        yield made


def test_no_server_is_an_error_that_says_where(tmp_path: Path) -> None:
    with pytest.raises(StoreUnreachableError, match="cannot be reached") as caught:
        Replies(SharedPlace(f"postgresql:///x?host={tmp_path}")).open()
    assert str(tmp_path) in (caught.value.where or "")


def test_a_wrong_password_is_named_and_never_printed(
    postgres: str, sql: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    sql.execute(f"CREATE ROLE locked LOGIN PASSWORD '{PASSWORD}'")
    rules = Path(postgres) / "data" / "pg_hba.conf"
    rules.write_text("local all locked scram-sha-256\n" + rules.read_text())
    sql.execute("SELECT pg_reload_conf()")
    monkeypatch.setenv("SHOP_PASSWORD", PASSWORD + "?")
    address = f"postgresql://locked:${{SHOP_PASSWORD}}@/postgres?host={postgres}"
    with pytest.raises(StoreError, match="refuses the connection") as caught:
        Runs(SharedPlace(address))
    assert PASSWORD not in str(caught.value) + repr(caught.value.__cause__)
    monkeypatch.setenv("SHOP_PASSWORD", PASSWORD)
    with pytest.raises(StoreError, match="may not use schema") as caught:
        Runs(SharedPlace(address))  # it may not make a schema
    assert "GRANT CREATE" in (caught.value.hint or "")
    monkeypatch.delenv("SHOP_PASSWORD")


def test_a_schema_of_another_program_is_left_alone(place: SharedPlace, sql: Any) -> None:
    sql.execute(f"CREATE SCHEMA {place.schema}_replies")
    sql.execute(f"CREATE TABLE {place.schema}_replies.replies (theirs text)")
    with pytest.raises(StoreDamagedError, match="another program"):
        Replies(place).open()
    found = sql.execute(
        "SELECT count(*) FROM pg_tables WHERE schemaname = %s", (f"{place.schema}_replies",)
    )
    assert found.fetchone() == (1,)


@pytest.mark.parametrize("step", [1, -1])
def test_other_versions_are_refused(place: SharedPlace, sql: Any, step: int) -> None:
    Runs(place).close()
    version = f"{place.schema}_ledger.ragwright_version"
    sql.execute(f"UPDATE {version} SET version = version + {step}")
    with pytest.raises(SchemaVersionError, match="this ragwright reads") as caught:
        Runs(place)
    assert "set shared.schema to another name" in (caught.value.hint or "")


def test_work_goes_on_after_lost_connections(place: SharedPlace, sql: Any) -> None:
    replies, runs = Replies(place), Runs(place)
    run = runs.start("eval", {})
    put(replies, entry("a"))
    sql.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid != pg_backend_pid()"
    )
    assert replies.get("a") == b"x"
    put(replies, entry("b"))
    runs.append(run, RunRow(0, "r", "done", {}))
    runs.finish(run, "complete")
    assert runs.get(run).state == "complete"
    cut = iter([True, False])

    def work(connection: Connection) -> int:
        connection.execute("UPDATE replies SET characters = characters + 1 WHERE key = 'a'")
        if next(cut):  # in the middle of a transaction
            connection.execute("SELECT pg_terminate_backend(pg_backend_pid())")
        return 7

    assert replies.open().writer.call(work) == 7
    found = sql.execute(f"SELECT characters FROM {place.schema}_replies.replies WHERE key = 'a'")
    assert found.fetchone() == (16,)
    replies.close()
    runs.close()


def test_a_commit_whose_answer_is_lost_is_not_done_twice(
    place: SharedPlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    import psycopg

    replies, runs = Replies(place), Runs(place)
    kind = type(replies.open().database.connect())
    real = kind.execute
    lost = threading.Event()

    def execute(self: Any, sql: str, parameters: Any = (), /) -> Any:
        found = real(self, sql, parameters)
        if sql == "COMMIT" and not lost.is_set():
            lost.set()
            self._raw.close()
            raise psycopg.OperationalError("server closed the connection unexpectedly")
        return found

    monkeypatch.setattr(kind, "execute", execute)
    assert claim(replies, "k").state == "ours"
    lost.clear()
    put(replies, entry("k", "paid", sources=("d",)))
    lost.clear()
    run = runs.start("eval", {})
    lost.clear()
    runs.append(run, RunRow(0, "r", "done", {}))
    runs.flush()
    assert replies.get("k") == b"paid"
    assert [one.id for one in runs.list()] == [run]
    assert len(list(runs.rows(run))) == 1
    replies.close()
    runs.close()


def test_a_run_stops_when_the_server_goes_away(postgres: str) -> None:
    url = f"postgresql://admin@/postgres?host={postgres}"
    replies = Replies(SharedPlace(url, f"f{next(NUMBERS)}", patience=0.3))
    replies.open()
    stopped = threading.Event()

    class Waiting(FakeChat):
        async def send(self, request: Chat, on_delta: OnDelta | None = None) -> ChatReply:
            reply = await super().send(request, on_delta)
            await asyncio.to_thread(stopped.wait, 60)
            return reply

    handler = Waiting()

    def stop() -> None:
        while len(handler.asked) < 2:
            time.sleep(0.01)
        stop_server(postgres)
        stopped.set()

    with Runner({Chat: handler}, replies=replies) as runner:
        threading.Thread(target=stop).start()
        outcomes = list(runner.outcomes((ask(str(i)) for i in range(6)), limit=2))
    assert {o.state for o in outcomes} == {"skipped"}
    assert all(isinstance(o.error, StoreUnreachableError) for o in outcomes[2:])
    assert sorted(handler.asked) == ["0", "1"]
    replies.close()
    start_server(postgres)


def test_a_server_that_is_started_again_is_waited_for(postgres: str, place: SharedPlace) -> None:
    replies = Replies(place)
    replies.open()
    stop_server(postgres)
    threading.Timer(0.5, start_server, (postgres,)).start()
    put(replies, entry("a"))
    assert replies.get("a") == b"x"
    replies.close()


def test_too_many_connections_and_locks_are_busy(place: SharedPlace, sql: Any) -> None:
    replies = Replies(place)
    put(replies, entry("a", sources=("d",)))
    sql.execute("BEGIN")
    sql.execute(f"LOCK TABLE {place.schema}_replies.replies IN ACCESS SHARE MODE")
    replies.open().select("SELECT set_config('lock_timeout', '200ms', false)")
    with pytest.raises(StoreBusyError):
        replies.forget(source="d")
    sql.execute("ROLLBACK")
    assert replies.forget(source="d") == 0  # it was deleted, and is now overwritten
    replies.close()


def test_forgotten_text_is_gone_from_the_files_of_the_tables(
    postgres: str, place: SharedPlace, sql: Any
) -> None:
    replies = Replies(place)
    secret = "the secret recipe of doc"
    put(replies, entry("a", secret, sources=("doc",)), entry("b", "harmless"))
    sql.execute("CHECKPOINT")
    assert secret.encode() in table_bytes(postgres)
    assert replies.forget(source="doc") == 1
    sql.execute("CHECKPOINT")
    assert secret.encode() not in table_bytes(postgres)
    assert replies.get("b") == b"harmless"
    replies.close()


def table_bytes(postgres: str) -> bytes:
    files = (path for path in (Path(postgres) / "data" / "base").rglob("*") if path.is_file())
    return b"".join(path.read_bytes() for path in files)
