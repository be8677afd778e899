"""Rule 11: replies are kept, claimed and forgotten, in a file and in a shared database alike."""

from __future__ import annotations

import os
import random
import signal
import sqlite3
import stat
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from children import started
from flow_children import ask_once
from flow_fakes import FakeChat, ask, prompt, user
from postgres_server import start_server, stop_server
from waiting import wait_until

from ragwright.core import (
    SchemaVersionError,
    StoreBusyError,
    StoreDamagedError,
    StoreError,
    StoreFullError,
    StoreUnreachableError,
    Usage,
)
from ragwright.flow import (
    Chat,
    Claim,
    Flow,
    Replies,
    ReplyEntry,
    Runner,
    RunnerOptions,
    RunRow,
    Runs,
    chat,
    gather,
)
from ragwright.ledger import Connection, Place, SharedPlace

pytest_plugins = ["flow_stores"]

PASSWORD = "s3cret-Pa55"
SECRET = "the secret recipe"


@pytest.fixture
def open_replies(place: Place) -> Iterator[Callable[[], Replies]]:
    """Opens the same replies again, as another process would."""
    opened: list[Replies] = []

    def make() -> Replies:
        opened.append(Replies(place))
        return opened[-1]

    yield make
    for store in opened:
        store.close()


@pytest.fixture
def kept(open_replies: Callable[[], Replies]) -> Replies:
    return open_replies()


@pytest.fixture
def sql(postgres: str) -> Iterator[Any]:
    import psycopg

    with psycopg.connect(f"host={postgres} user=admin dbname=postgres", autocommit=True) as made:
        yield made


def entry(
    key: str, text: str = "x", *, sources: tuple[str, ...] = (), scope: str = ""
) -> ReplyEntry:
    usage = Usage(1, 5, 5, 0.25)
    return ReplyEntry(key, "Chat", "m", scope, text.encode(), True, usage, 15, 0.1, sources)


def put(store: Replies, *entries: ReplyEntry) -> None:
    for each in entries:
        store.put(each).result(40)


def claim(store: Replies, key: str, seconds: float = 60) -> Claim:
    return store.claim(key, "Chat", "m", seconds)[1].result(40)


def states(store: Replies) -> list[str]:
    """The states of all replies, once everything that is queued is written."""
    question = "SELECT state FROM replies"
    return store.open().writer.call(
        lambda connection: [state for (state,) in connection.execute(question).fetchall()]
    )


def of(source: str) -> Flow[str]:
    return (yield from chat("m", user("the same text"), sources=[source])).text


def at_once(*works: Callable[[], None]) -> None:
    threads = [threading.Thread(target=work) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


# -- claims --------------------------------------------------------------------------------


def test_a_call_is_one_process_s_until_its_lease_ends(open_replies: Callable[[], Replies]) -> None:
    one, other = open_replies(), open_replies()
    first = claim(one, "k")
    assert first.state == "ours"
    assert claim(other, "k").state == claim(one, "k").state == "leased"
    one.release("k", first.name)
    assert claim(one, "y").state == "ours"  # written after the release
    second = claim(other, "k", 600)
    assert second.state == "ours"
    one.release("k", first.name)  # late, and no longer its own
    other.renew("k", second.name, 0.05)
    assert claim(other, "x").state == "ours"  # written after the renewal
    threading.Event().wait(0.1)
    assert claim(one, "k").state == "ours"  # its lease has ended by the database's clock
    other.renew("k", second.name, 60)
    other.release("k", second.name)  # late: the claim is no longer its own
    assert claim(other, "k").state == "leased"
    put(one, entry("k", "naïve \0 text"))
    assert claim(other, "k") == Claim("known", "naïve \0 text".encode())
    assert other.get("k") == "naïve \0 text".encode()
    assert other.get("none") is None


def test_one_of_many_gets_a_call_and_runners_pay_once(open_replies: Callable[[], Replies]) -> None:
    stores = [open_replies() for _ in range(4)]
    keys = [f"k{i}" for i in range(60)]
    won, handler = list[str](), FakeChat(latency=0.05)

    def win(store: Replies, at: int) -> None:
        for key in keys[at:] + keys[:at]:  # each in another order
            if claim(store, key).state == "ours":
                won.append(key)

    def work(store: Replies) -> None:
        with Runner({Chat: handler}, replies=store) as runner:
            assert list(runner.map(ask(f"q{i}") for i in range(20))) == answers

    answers = [f"re: q{i}" for i in range(20)]
    at_once(*(lambda i=i: win(stores[i], 13 * i) for i in range(4)))
    assert sorted(won) == sorted(keys)
    at_once(*(lambda i=i: work(stores[i // 2]) for i in range(3)))
    assert sorted(handler.asked) == sorted(f"q{i}" for i in range(20))


def test_a_failed_call_leaves_no_claim(kept: Replies) -> None:
    handler = FakeChat(lambda r, n: ValueError("bug"))
    with Runner({Chat: handler}, replies=kept) as runner, pytest.raises(ValueError, match="bug"):
        runner.run(ask("a"))
    assert states(kept) == []
    with Runner({Chat: FakeChat()}, replies=kept) as runner:
        assert runner.run(ask("a")) == "re: a"


@pytest.mark.slow
def test_a_claim_is_renewed_and_given_back(
    replies: Replies, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ragwright.flow._calls._LEASE_SECONDS", 0.2)
    found: list[object] = []
    bug = ValueError("bug")
    handler = FakeChat(lambda r, n: "paid" if prompt(r) == "a" else bug, latency=0.6)

    def work(text: str) -> None:
        with Runner({Chat: handler}, replies=replies) as runner:
            found.extend(runner.run(gather([ask("a"), ask(text)], settle=True)))

    at_once(lambda: work("b"), lambda: work("c"))
    assert found.count("paid") == 2
    assert sorted(handler.asked) == ["a", "b", "c"]
    assert states(replies) == ["done"]


@pytest.mark.slow
def test_two_processes_pay_once_and_a_killed_one_holds_no_claim(tmp_path: Path) -> None:
    store, log, late = tmp_path / "replies.db", tmp_path / "log", tmp_path / "late"
    both = [started(ask_once, store, log, 1.0) for _ in range(2)]
    for process in both:
        process.join(60)
    assert sorted(log.read_text().splitlines()) == ["called", "re: the same", "re: the same"]
    killed = started(ask_once, tmp_path / "other.db", late, 600)
    wait_until(late.exists)
    killed.kill()
    killed.join()
    replies = Replies(tmp_path / "other.db")
    with Runner({Chat: FakeChat()}, replies=replies) as runner:
        assert runner.run(ask("the same")) == "re: the same"
    replies.close()


# -- what is kept --------------------------------------------------------------------------


def test_a_reply_is_committed_before_the_flow_sees_it(replies: Replies, tmp_path: Path) -> None:
    def flow() -> Flow[int]:
        yield from of("d")
        other = sqlite3.connect(tmp_path / "replies.db")  # as another process would
        (found,) = other.execute("SELECT count(*) FROM replies WHERE state='done'").fetchone()
        other.close()
        return int(found)

    def rename(old: str, new: str) -> None:
        work = f"ALTER TABLE {old} RENAME TO {new}"
        replies.open().writer.call(lambda connection: connection.execute(work))

    rename("reply_sources", "gone")
    with Runner({Chat: FakeChat()}, replies=replies) as runner:
        with pytest.raises(StoreError):
            runner.run(flow())
        rename("gone", "reply_sources")
        assert runner.run(flow()) == 1  # and no claim was left behind


def test_figures_are_summed_by_model(kept: Replies) -> None:
    put(kept, entry("a"), entry("b"), entry("a"))
    claim(kept, "c")
    assert kept.statistics() == [("Chat", "m", 2, 10, 10, 0.5)]
    facts = kept.facts("m")
    assert (facts.calls, facts.prompt_tokens, facts.characters) == (2, 10, 30)
    assert facts.seconds == pytest.approx(0.2)
    assert kept.size() > 0


def test_the_oldest_of_too_many_go(place: Place, open_replies: Callable[[], Replies]) -> None:
    store, chance = open_replies(), random.Random(0)
    put(store, *(entry(f"{i:03d}", chance.randbytes(10_000).hex()) for i in range(60)))
    store.close()
    small = Replies(place, max_bytes=400_000)
    found = [i for i in range(60) if small.get(f"{i:03d}") is not None]
    assert small.size() <= 400_000 or isinstance(place, SharedPlace)
    small.close()
    assert 0 < len(found) < 21
    assert found == list(range(60 - len(found), 60))


@pytest.mark.parametrize("hold", ["BEGIN", "BEGIN IMMEDIATE"])
def test_a_store_that_is_too_large_opens_while_others_use_it(tmp_path: Path, hold: str) -> None:
    path = tmp_path / "replies.db"
    store = Replies(path)
    put(store, *(entry(f"{i:03d}", "x" * 20_000) for i in range(40)))
    store.close()
    other = sqlite3.connect(path, isolation_level=None)
    other.execute(hold)
    other.execute("SELECT count(*) FROM replies").fetchone()
    for _ in range(2):
        store = Replies(path, max_bytes=200_000)
        assert store.get("039") is not None
        size = store.size()
        store.close()
        other.close()
    assert size <= 200_000


# -- forgetting ----------------------------------------------------------------------------


def bytes_of(request: pytest.FixtureRequest, place: Place) -> bytes:
    if isinstance(place, Path):
        return b"".join(p.read_bytes() for p in sorted(place.parent.glob(f"{place.name}*")))
    request.getfixturevalue("sql").execute("CHECKPOINT")
    base = Path(request.getfixturevalue("postgres")) / "data" / "base"
    return b"".join(path.read_bytes() for path in base.rglob("*") if path.is_file())


def test_forgetting_reaches_bytes(
    kept: Replies, place: Place, request: pytest.FixtureRequest
) -> None:
    put(
        kept,
        entry("a", f"{SECRET} one", sources=("doc", "other")),
        entry("b", f"{SECRET} two", sources=("doc",)),
        entry("c", "three", sources=("other",)),
        entry("d", "of tenant four", scope="tenant"),
    )
    for forgotten, text, count in (
        ({"source": "doc"}, SECRET, 2),
        ({"scope": "tenant"}, "of tenant four", 1),
    ):
        assert text.encode() in bytes_of(request, place)
        assert kept.forget(**forgotten) == count
        assert text.encode() not in bytes_of(request, place)
    assert (kept.get("a"), kept.get("c"), kept.get("d")) == (None, b"three", None)
    kept.add_sources("c", ["third", "other"])
    assert kept.drop("third") == 1
    put(kept, entry("e"))
    for named in ({}, {"source": " "}, {"source": "d", "scope": "s"}):
        with pytest.raises(StoreError):
            kept.forget(**named)
    assert kept.clear() == 1


@pytest.mark.parametrize("together", [False, True])
def test_a_reply_is_forgotten_with_every_document_of_it(kept: Replies, together: bool) -> None:
    handler = FakeChat(latency=0.05)
    with Runner({Chat: handler}, replies=kept) as runner:
        if together:
            runner.run(gather([of("one"), of("two")]))
        else:
            runner.run(of("one"))
            runner.run(of("two"))  # from the store
        assert handler.asked == ["the same text"]
        assert kept.forget(source="two") == 1
        assert kept.forget(source="one") == 0


def test_forgetting_says_so_where_a_reader_keeps_the_old_bytes(
    kept: Replies, place: Place, request: pytest.FixtureRequest
) -> None:
    put(kept, entry("a", "still read", sources=("doc",)))
    if isinstance(place, Path):
        reader: Any = sqlite3.connect(place, isolation_level=None)
        reader.execute("BEGIN")
        reader.execute("SELECT body FROM replies").fetchone()
        kept.open().select("PRAGMA busy_timeout = 50")
    else:
        reader = request.getfixturevalue("sql")
        reader.execute("BEGIN")
        reader.execute(f"LOCK TABLE {place.schema}_replies.replies IN ACCESS SHARE MODE")
        kept.open().select("SELECT set_config('lock_timeout', '200ms', false)")
    with pytest.raises(StoreBusyError):
        kept.forget(source="doc")
    reader.execute("ROLLBACK")
    if isinstance(place, Path):
        reader.close()
    assert kept.forget(source="doc") == 0  # it was deleted, and is now overwritten
    assert b"still read" not in bytes_of(request, place)


# -- files ---------------------------------------------------------------------------------


def test_both_files_are_their_owners_alone(tmp_path: Path) -> None:
    old = os.umask(0)
    try:
        replies, runs = Replies(tmp_path / "c" / "replies.db"), Runs(tmp_path / "d" / "runs.db")
        put(replies, entry("k"))
        runs.start("eval", {})
        found = [p for p in tmp_path.rglob("*") if p.is_file()]
    finally:
        os.umask(old)
    assert len(found) >= 4  # the write-ahead logs too
    assert {stat.S_IMODE(path.stat().st_mode) for path in found} == {0o600}
    for store in (replies, runs, runs):  # closing twice is harmless
        store.close()
    with pytest.raises(StoreError, match="closed"):
        runs.start("eval", {})


def almost_full(store: Replies, pages: int) -> None:
    def work(connection: Connection) -> None:
        used = connection.execute("PRAGMA page_count").fetchone()[0]
        connection.execute(f"PRAGMA max_page_count = {used + pages}")

    store.open().writer.call(work)


def test_a_full_disk_is_called_so_and_what_still_fits_is_kept(replies: Replies) -> None:
    almost_full(replies, 4)
    held = threading.Event()
    replies.open().writer.submit(lambda _: held.wait(10))  # what follows: one batch
    entries = (entry("a"), entry("b", "x" * 200_000), entry("c"))
    written = [replies.put(each) for each in entries]
    held.set()
    first, second, third = (stored.exception() for stored in written)
    assert first is third is None
    assert isinstance(second, StoreFullError)
    assert (replies.get("a"), replies.get("b")) == (b"x", None)


def test_a_reply_that_cannot_be_kept_stops_what_would_be_paid(replies: Replies) -> None:
    handler = FakeChat(lambda r, n: "x" * 30_000, latency=0.01, price=0.001)
    almost_full(replies, 40)  # room for some five replies
    with Runner({Chat: handler}, RunnerOptions(concurrency=2), replies=replies) as runner:
        outcomes = list(runner.outcomes((ask(str(i)) for i in range(200)), limit=10))
        with pytest.raises(StoreFullError):
            runner.run(ask("one more"))
    found = sum(count for _, _, count, *_ in replies.statistics())
    assert found > 1
    assert len(handler.asked) <= found + 10 + 1  # the flows that were open, and one more
    assert {o.state for o in outcomes} == {"done", "skipped"}
    assert all(isinstance(o.error, StoreFullError) for o in outcomes if o.state == "skipped")


# -- a shared database that is away, refuses, is of another version, or loses connections ----


@pytest.mark.slow
def test_a_wrong_password_is_named_and_never_printed(
    postgres: str, sql: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    sql.execute(f"CREATE ROLE locked LOGIN PASSWORD '{PASSWORD}'")
    rules = Path(postgres) / "data" / "pg_hba.conf"
    rules.write_text("local all locked scram-sha-256\n" + rules.read_text())
    sql.execute("SELECT pg_reload_conf()")
    address = f"postgresql://locked:${{SHOP_PASSWORD}}@/postgres?host={postgres}"
    monkeypatch.setenv("SHOP_PASSWORD", PASSWORD + "?")
    with pytest.raises(StoreError, match="refuses the connection") as caught:
        Runs(SharedPlace(address))
    assert PASSWORD not in str(caught.value) + repr(caught.value.__cause__)
    monkeypatch.setenv("SHOP_PASSWORD", PASSWORD)
    with pytest.raises(StoreError, match="may not use schema") as caught:
        Runs(SharedPlace(address))  # it may not make a schema
    assert "GRANT CREATE" in (caught.value.hint or "")


@pytest.mark.slow
def test_a_schema_of_other_programs_or_versions_stays(shared: SharedPlace, sql: Any) -> None:
    sql.execute(f"CREATE SCHEMA {shared.schema}_replies")
    sql.execute(f"CREATE TABLE {shared.schema}_replies.replies (theirs text)")
    with pytest.raises(StoreDamagedError, match="another program"):
        Replies(shared).open()
    tables = "SELECT count(*) FROM pg_tables WHERE schemaname = %s"
    assert sql.execute(tables, (f"{shared.schema}_replies",)).fetchone() == (1,)
    Runs(shared).close()
    version = f"{shared.schema}_ledger.ragwright_version"
    for step in (1, -2):
        sql.execute(f"UPDATE {version} SET version = version + {step}")
        with pytest.raises(SchemaVersionError, match="this ragwright reads") as caught:
            Runs(shared)
        assert "set shared.schema to another name" in (caught.value.hint or "")


@pytest.mark.slow
def test_work_goes_on_after_lost_connections(shared: SharedPlace, sql: Any) -> None:
    replies, runs = Replies(shared), Runs(shared)
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
    found = sql.execute(f"SELECT characters FROM {shared.schema}_replies.replies WHERE key = 'a'")
    assert found.fetchone() == (16,)
    replies.close()
    runs.close()


@pytest.mark.slow
def test_a_server_that_hangs_ends_a_call_and_is_used_again(
    postgres: str, shared: SharedPlace
) -> None:
    runs = Runs(SharedPlace(shared.address, shared.schema, patience=0.3))
    server = int((Path(postgres) / "data" / "postmaster.pid").read_text().splitlines()[0])
    children = Path(f"/proc/{server}/task/{server}/children").read_text().split()
    errors: list[BaseException] = []

    def call() -> None:
        try:
            runs.list()
        except StoreUnreachableError as error:
            errors.append(error)

    caller = threading.Thread(target=call, daemon=True)

    def send(what: signal.Signals) -> None:
        for process in (server, *map(int, children)):
            with suppress(ProcessLookupError):
                os.kill(process, what)

    try:
        send(signal.SIGSTOP)
        caller.start()
        caller.join(60)
    finally:
        send(signal.SIGCONT)
    assert len(errors) == 1

    def answers() -> bool:
        before = len(errors)
        call()
        return len(errors) == before

    wait_until(answers)
    runs.close()


@pytest.mark.slow
def test_a_commit_whose_answer_is_lost_is_not_done_twice(
    shared: SharedPlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    import psycopg

    replies, runs = Replies(shared), Runs(shared)
    kind = type(replies.open().database.connect())
    real, lost = kind.execute, threading.Event()

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


@pytest.mark.slow
def test_a_run_stops_when_the_server_goes_for_long(postgres: str, shared: SharedPlace) -> None:
    replies = Replies(SharedPlace(shared.address, shared.schema, patience=0.3))
    patient = Replies(shared)
    for store in (replies, patient):
        store.open()
    stopped = threading.Event()

    handler = FakeChat(gate=stopped)

    def stop() -> None:
        wait_until(lambda: len(handler.asked) == 2)
        stop_server(postgres)
        stopped.set()

    with Runner({Chat: handler}, replies=replies) as runner:
        threading.Thread(target=stop).start()
        outcomes = list(runner.outcomes((ask(str(i)) for i in range(6)), limit=2))
    assert {o.state for o in outcomes} == {"skipped"}
    assert all(isinstance(o.error, StoreUnreachableError) for o in outcomes[2:])
    assert sorted(handler.asked) == ["0", "1"]
    replies.close()
    threading.Timer(0.5, start_server, (postgres,)).start()
    put(patient, entry("a"))
    assert patient.get("a") == b"x"
    patient.close()
