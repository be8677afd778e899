"""Rule 11: the reply store and the run store."""

from __future__ import annotations

import os
import shutil
import sqlite3
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest
from flow_fakes import FakeChat, ask, user
from forgetting import forget_at
from waiting import wait_until

from ragwright.core import SchemaVersionError, StoreBusyError, StoreError, Usage
from ragwright.flow import Chat, Claim, Flow, Replies, ReplyEntry, Runner, RunRow, Runs, chat
from ragwright.ledger import Tables, open_cache, open_database

HERE = Path(__file__).parent


@pytest.fixture
def replies(tmp_path: Path) -> Iterator[Replies]:
    store = Replies(tmp_path / "replies.db")
    yield store
    store.close()


@pytest.fixture
def runs(tmp_path: Path) -> Iterator[Runs]:
    store = Runs(tmp_path / "runs.db")
    yield store
    store.close()


def entry(
    key: str, text: str = "x", *, sources: tuple[str, ...] = (), scope: str = ""
) -> ReplyEntry:
    return ReplyEntry(
        key, "Chat", "m", scope, text.encode(), True, Usage(1, 5, 5), 15, 0.1, sources
    )


def put(store: Replies, *entries: ReplyEntry) -> None:
    for each in entries:
        store.put(each).result(10)


def all_bytes(path: Path) -> bytes:
    return b"".join(p.read_bytes() for p in sorted(path.parent.glob(f"{path.name}*")))


def claim(store: Replies, key: str) -> Claim:
    return store.claim(key, "Chat", "m", 60)[1].result(10)


# -- files ---------------------------------------------------------------------------------


def test_both_files_are_their_owners_alone(tmp_path: Path) -> None:
    old = os.umask(0)
    try:
        replies, runs = Replies(tmp_path / "c" / "replies.db"), Runs(tmp_path / "d" / "runs.db")
        put(replies, entry("k"))
        runs.start("eval", {})
        found = [p for p in tmp_path.rglob("*") if p.is_file()]
        assert len(found) >= 4  # the write-ahead logs too
        for path in found:
            assert stat.S_IMODE(path.stat().st_mode) == 0o600, path
    finally:
        os.umask(old)
    replies.close()
    runs.close()


def test_a_newer_or_damaged_file_is_refused_with_a_way_out(tmp_path: Path) -> None:
    newer = tmp_path / "newer.db"
    connection = sqlite3.connect(newer)
    connection.execute("PRAGMA user_version = 99")
    connection.close()
    with pytest.raises(SchemaVersionError) as caught:
        Replies(newer).open()
    assert caught.value.hint
    damaged = tmp_path / "damaged.db"
    damaged.write_bytes(b"not a database at all" * 500)
    with pytest.raises(StoreError, match="damaged"):
        Runs(damaged)


def test_a_closed_store_says_so_instead_of_waiting(tmp_path: Path) -> None:
    store = Runs(tmp_path / "runs.db")
    store.close()
    store.close()
    with pytest.raises(StoreError, match="closed"):
        store.start("eval", {})


def test_a_listener_that_fails_does_not_end_the_writer(replies: Replies) -> None:
    def broken(_: object) -> None:
        raise RuntimeError("my loop is gone")

    replies.put(entry("a")).add_done_callback(broken)
    put(replies, entry("b"))
    assert replies.get("a") == replies.get("b") == b"x"


# -- replies -------------------------------------------------------------------------------


def test_the_oldest_replies_go_when_the_file_is_too_large(tmp_path: Path) -> None:
    path = tmp_path / "replies.db"
    store = Replies(path)
    put(store, *(entry(f"{i:03d}", "x" * 20_000, sources=("d",)) for i in range(60)))
    store.close()
    full = path.stat().st_size
    store = Replies(path, max_bytes=full // 3)
    assert store.size() <= full // 3
    kept = [i for i in range(60) if store.get(f"{i:03d}") is not None]
    assert kept
    assert kept == list(range(60 - len(kept), 60))  # the newest
    store.close()


def test_forgetting_a_document_takes_its_text_out_of_the_file(
    replies: Replies, tmp_path: Path
) -> None:
    secret = "the secret recipe"
    put(
        replies,
        entry("a", f"{secret} one", sources=("doc", "other")),
        entry("b", f"{secret} two", sources=("doc",)),
        entry("c", "harmless", sources=("other",)),
    )
    path = tmp_path / "replies.db"
    assert secret.encode() in all_bytes(path)
    assert replies.forget(source="doc") == 2
    assert secret.encode() not in all_bytes(path)
    assert replies.get("a") is None
    assert replies.get("c") == b"harmless"


def test_forgetting_a_scope_leaves_the_others(replies: Replies, tmp_path: Path) -> None:
    put(replies, entry("a", "of tenant one", scope="one"), entry("b", "of nobody"))
    assert replies.forget(scope="one") == 1
    assert b"of tenant one" not in all_bytes(tmp_path / "replies.db")
    assert replies.get("b") == b"of nobody"


def test_forgetting_nothing_in_particular_is_refused(replies: Replies, tmp_path: Path) -> None:
    put(replies, entry("a"))
    for call in (replies.forget, partial(forget_at, tmp_path / "runs.db")):
        with pytest.raises(StoreError):
            call()
        with pytest.raises(StoreError):
            call(source="d", scope="s")
    assert replies.get("a") is not None


def test_forgetting_says_so_where_a_reader_keeps_the_old_bytes(
    replies: Replies, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(replies, entry("a", "still read", sources=("doc",)))
    reader = sqlite3.connect(tmp_path / "replies.db", isolation_level=None)
    reader.execute("BEGIN")
    reader.execute("SELECT body FROM replies").fetchone()
    replies.open().select("PRAGMA busy_timeout = 50")
    with pytest.raises(StoreBusyError):
        replies.forget(source="doc")
    reader.close()
    replies.forget(source="doc")
    assert b"still read" not in all_bytes(tmp_path / "replies.db")


def test_sources_of_a_chat_reach_the_store(replies: Replies) -> None:
    def flow() -> Flow[str]:
        return (yield from chat("m", user("text of doc"), sources=["doc"])).text

    with Runner({Chat: FakeChat()}, replies=replies) as runner:
        runner.run(flow())
        assert replies.forget(source="doc") == 1
        assert replies.forget(source="doc") == 0


# -- two processes -------------------------------------------------------------------------


def child(store: Path, log: Path, latency: float) -> subprocess.Popen[str]:
    command = [sys.executable, str(HERE / "lease_child.py"), str(store), str(log), str(latency)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


@pytest.mark.slow
def test_two_processes_that_ask_the_same_pay_once(tmp_path: Path) -> None:
    store, log = tmp_path / "replies.db", tmp_path / "log"
    both = [child(store, log, 1.0) for _ in range(2)]
    answers = [p.communicate(timeout=30)[0].strip() for p in both]
    assert answers == ["re: the same"] * 2
    assert log.read_text().splitlines() == ["called"]


@pytest.mark.slow
def test_the_claim_of_a_killed_process_is_taken_over_at_once(tmp_path: Path) -> None:
    store, log = tmp_path / "replies.db", tmp_path / "log"
    process = child(store, log, 600)
    wait_until(log.exists)
    process.kill()
    process.communicate()
    replies = Replies(store)
    with Runner({Chat: FakeChat()}, replies=replies) as runner:
        assert runner.run(ask("the same")) == "re: the same"
    replies.close()


def test_a_claim_is_free_once_it_is_given_back_and_only_by_who_took_it(replies: Replies) -> None:
    first = claim(replies, "k")
    assert first.state == "ours"
    assert claim(replies, "k").state == "leased"  # another runner of this very process
    replies.release("k", first.name)
    second = claim(replies, "k")
    assert second.state == "ours"
    replies.release("k", first.name)  # late, and no longer its own
    assert claim(replies, "k").state == "leased"


def test_two_runners_of_one_process_pay_once(replies: Replies) -> None:
    handler = FakeChat(latency=0.1)
    answers: list[str] = []

    def work() -> None:
        with Runner({Chat: handler}, replies=replies) as runner:
            answers.append(runner.run(ask("a")))

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == ["re: a"] * 3
    assert handler.asked == ["a"]


def test_a_reply_that_could_not_be_kept_leaves_no_claim_behind(replies: Replies) -> None:
    def flow() -> Flow[str]:
        return (yield from chat("m", user("a"), sources=["d"])).text

    replies.open().writer.call(lambda c: c.execute("ALTER TABLE reply_sources RENAME TO gone"))
    handler = FakeChat()
    with Runner({Chat: handler}, replies=replies) as runner:
        with pytest.raises(StoreError):
            runner.run(flow())
        replies.open().writer.call(lambda c: c.execute("ALTER TABLE gone RENAME TO reply_sources"))
        assert runner.run(flow()) == "re: a"


def test_a_failed_call_leaves_no_claim_behind(replies: Replies) -> None:
    handler = FakeChat(lambda r, n: ValueError("bug"))
    with Runner({Chat: handler}, replies=replies) as runner, pytest.raises(ValueError, match="bug"):
        runner.run(ask("a"))
    count = "SELECT count(*) FROM replies"
    assert replies.open().writer.call(lambda c: c.execute(count).fetchone()[0]) == 0


def test_a_reply_is_committed_before_the_flow_sees_it(tmp_path: Path) -> None:
    path = tmp_path / "replies.db"
    seen: list[int] = []

    def flow() -> Flow[None]:
        yield from ask("a")
        other = sqlite3.connect(path)  # as another process would
        seen.append(other.execute("SELECT count(*) FROM replies WHERE state='done'").fetchone()[0])
        other.close()

    replies = Replies(path)
    with Runner({Chat: FakeChat()}, replies=replies) as runner:
        runner.run(flow())
    replies.close()
    assert seen == [1]


def test_a_store_that_cannot_be_written_fails_the_flow_with_a_typed_error(tmp_path: Path) -> None:
    replies = Replies(tmp_path / "replies.db")
    replies.open().writer.call(lambda c: c.execute("DROP TABLE reply_sources"))

    def flow() -> Flow[str]:
        return (yield from chat("m", user("a"), sources=["d"])).text

    with Runner({Chat: FakeChat()}, replies=replies) as runner, pytest.raises(StoreError):
        runner.run(flow())
    replies.close()


# -- runs ----------------------------------------------------------------------------------


def test_rows_are_kept_in_input_order_and_done_rows_stay(runs: Runs) -> None:
    run = runs.start("eval", {"a": 1})
    runs.append(run, RunRow(1, "b", "errored", {"error": "x"}))
    runs.append(run, RunRow(0, "a", "done", {"é": 1}))
    runs.append(run, RunRow(1, "b", "done", {"v": 2}))
    runs.append(run, RunRow(0, "a", "done", {"v": "never"}))
    runs.finish(run, "complete")
    assert [(r.id, r.state, r.body) for r in runs.rows(run)] == [
        ("a", "done", {"é": 1}),
        ("b", "done", {"v": 2}),
    ]
    assert runs.get(run).state == "complete"
    with pytest.raises(StoreError, match="unknown run"):
        runs.get("nowhere")


def test_rows_read_halfway_do_not_hold_up_forgetting_later(runs: Runs, tmp_path: Path) -> None:
    run = runs.start("eval", {})
    for i in range(100):
        runs.append(run, RunRow(i, str(i), "done", {}), sources=["doc"])
    runs.flush()
    rows = runs.rows(run)
    assert next(rows).id == "0"
    rows.close()  # type: ignore[attr-defined]
    assert forget_at(tmp_path / "runs.db", source="doc")["rows"] == 100


def test_only_a_run_of_the_same_manifest_and_scope_is_unfinished(runs: Runs) -> None:
    run = runs.start("eval", {"model": "m"}, scope="one")
    assert runs.unfinished("eval", {"model": "m"}, scope="one") == run
    assert runs.unfinished("eval", {"model": "m"}) is None
    assert runs.unfinished("eval", {"model": "n"}, scope="one") is None
    assert runs.unfinished("sweep", {"model": "m"}, scope="one") is None
    runs.append(run, RunRow(0, "a", "errored", {}))
    runs.finish(run, "complete")
    assert runs.unfinished("eval", {"model": "m"}, scope="one") is None
    assert runs.unfinished("eval", {"model": "m"}, scope="one", errored=True) == run


def test_forgetting_reaches_rows_and_the_runs_of_a_scope(runs: Runs, tmp_path: Path) -> None:
    mine, other = runs.start("eval", {"who": "tenant-one"}, scope="one"), runs.start("eval", {})
    runs.append(mine, RunRow(0, "a", "done", {"t": "made of doc"}), sources=["doc"])
    runs.append(other, RunRow(0, "a", "done", {"t": "secret of doc"}), sources=["doc"])
    runs.append(other, RunRow(1, "b", "done", {"t": "harmless"}))
    runs.flush()
    assert forget_at(tmp_path / "runs.db", source="doc")["rows"] == 2
    assert b"of doc" not in all_bytes(tmp_path / "runs.db")
    assert [r.id for r in runs.rows(other)] == ["b"]
    runs.append(mine, RunRow(2, "c", "done", {"t": "later"}))
    runs.flush()
    assert forget_at(tmp_path / "runs.db", scope="one")["rows"] == 1
    assert b"tenant-one" not in all_bytes(tmp_path / "runs.db")
    assert [r.id for r in runs.list()] == [other]


def test_clearing_the_replies_hurts_no_run(replies: Replies, runs: Runs) -> None:
    run = runs.start("eval", {})
    with Runner({Chat: FakeChat()}, replies=replies) as runner:
        runs.append(run, RunRow(0, "a", "done", {"text": runner.run(ask("a"))}))
    runs.finish(run, "complete")
    assert replies.clear() == 1
    assert [dict(r.body) for r in runs.rows(run)] == [{"text": "re: a"}]


def test_the_last_run_is_the_newest_whatever_the_clock_says(
    runs: Runs, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The clock was ahead and is set right: what is done from then on is what is newest."""
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now + 1e8)
    ahead = runs.start("eval", {"at": 1})
    monkeypatch.setattr(time, "time", lambda: now)
    later = runs.start("eval", {"at": 1})
    assert [run.id for run in runs.list("eval")] == [ahead, later]
    assert runs.unfinished("eval", {"at": 1}) == later
    for run in (ahead, later):
        runs.finish(run, "complete")
        found = runs.get(run)
        assert found.ended is not None
        assert found.ended >= found.started
    assert runs.complete("eval", {"at": 1}) == later


@pytest.mark.parametrize("jump", [-1e8, 1e8])
def test_a_reply_survives_a_jump_of_the_clock(
    replies: Replies, monkeypatch: pytest.MonkeyPatch, jump: float
) -> None:
    now = time.time()
    claims = [claim(replies, "a")]
    monkeypatch.setattr(time, "time", lambda: now + jump)
    put(replies, entry("a", "paid"))
    claims.append(claim(replies, "a"))
    assert [each.state for each in claims] == ["ours", "known"]
    assert replies.get("a") == b"paid"


def test_damage_that_is_found_while_reading_runs_is_named(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    Runs(path).close()
    first = path.stat().st_size  # what follows holds rows
    store = Runs(path)
    run = store.start("eval", {"text": "x" * 20_000})
    store.append(run, RunRow(0, "a", "done", {"text": "y" * 20_000}))
    store.finish(run, "complete")
    store.close()
    content = path.read_bytes()
    path.write_bytes(content[:first] + b"\x99" * (len(content) - first))
    store = Runs(path)
    try:
        for read in (lambda: store.list(), lambda: store.get(run), lambda: list(store.rows(run))):
            with pytest.raises(StoreError, match="damaged"):
                read()
    finally:
        store.close()


@pytest.mark.parametrize("version", [1, 3])
def test_a_file_of_another_version_is_refused_and_a_cache_begins_anew(
    tmp_path: Path, version: int
) -> None:
    path = tmp_path / "kept.sqlite"
    first = "CREATE TABLE IF NOT EXISTS runs (run TEXT)"
    with open_database(path, Tables("kept", (first,), version)).transaction() as writing:
        writing.execute("INSERT INTO runs VALUES ('r')")
    before = path.read_bytes()
    with pytest.raises(SchemaVersionError, match=f"version {version}; .* reads 2") as caught:
        open_database(path, Tables("kept", (first,), 2))
    assert f"move {tmp_path} away, then run: ragwright ingest" in (caught.value.hint or "")
    assert path.read_bytes() == before
    open_cache(path, Tables("kept", (first,), 2))
    with closing(open_database(path, Tables("kept", (first,), 2)).connect()) as kept:
        assert kept.execute("SELECT run FROM runs").fetchall() == []


def test_a_file_whose_first_write_a_kill_cut_off_is_opened_again(tmp_path: Path) -> None:
    """Its journal has to be rolled back, which a connection that only reads cannot do."""
    whole, path = tmp_path / "whole.sqlite", tmp_path / "ledger.sqlite"
    connection = sqlite3.connect(whole, isolation_level=None)
    connection.executescript("PRAGMA cache_size = 1; CREATE TABLE runs (id TEXT);")
    connection.execute("BEGIN IMMEDIATE")
    connection.executemany("INSERT INTO runs VALUES (?)", [("x" * 3000,)] * 200)
    for end in ("", "-journal"):  # what is on the disk at that moment
        shutil.copy(f"{whole}{end}", f"{path}{end}")
    connection.close()
    with (
        closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as reader,
        pytest.raises(sqlite3.OperationalError, match="readonly"),
    ):
        reader.execute("SELECT count(*) FROM runs")
    with pytest.raises(StoreError, match="version 0"):  # the file is read; its table is not ours
        Runs(path)
    with closing(sqlite3.connect(path)) as opened:
        assert opened.execute("SELECT count(*) FROM runs").fetchone() == (0,)
