"""Rule 11: rows are written as they end, jobs are taken up where they stopped or were killed.

What kill -9 does lose are calls that were sent and whose reply was not committed: those in flight,
never more than the lane lets out, and those whose reply waits for the group commit. A reply gives
its place in flight back when it comes, not when it is committed, so where commits are slow (a disk
that is busy, a file that is held) the second kind grows past any multiple of the concurrency. What
bounds both together is that a row asks for its second reply only when the first is committed: one
call for each row that is open at once (``Job.limit``, else ``RunnerOptions.width``).
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import sqlite3
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from functools import partial
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import pytest
from children import started
from flow_children import run_rows
from flow_fakes import ONCE, FakeChat, ask, prompt
from forgetting import forget_at
from waiting import when

from ragwright.core import BudgetStopped, FlowError, ModelRefusedError, StoreError
from ragwright.flow import (
    Budget,
    Chat,
    Flow,
    Job,
    Replies,
    Runner,
    RunnerOptions,
    RunRow,
    Runs,
    gather,
    run_job,
)
from ragwright.ledger import Place
from ragwright.testing import Reply, ScriptedServer, ServerRequest

pytest_plugins = ["flow_stores"]

# -- the store -----------------------------------------------------------------------------


@pytest.fixture
def stored(place: Place) -> Iterator[Runs]:
    store = Runs(place)
    yield store
    store.close()


def test_rows_stay_in_input_order_and_done_rows_stay(stored: Runs) -> None:
    run = stored.start("eval", {"a": 1})
    stored.append(run, RunRow(1, "b", "errored", {"error": "x"}), sources=["doc"])
    stored.append(run, RunRow(0, "a", "done", {"é\0": 1}), sources=["doc"])
    stored.append(run, RunRow(1, "b", "done", {"v": 2}), sources=["doc"])
    stored.append(run, RunRow(0, "a", "done", {"v": "never"}))
    stored.finish(run, "complete")
    assert [(r.id, r.state, r.body) for r in stored.rows(run)] == [
        ("a", "done", {"é\0": 1}),
        ("b", "done", {"v": 2}),
    ]
    assert stored.states(run) == {"a": "done", "b": "done"}
    found = stored.get(run)
    assert found.state == "complete"
    assert found.ended is not None
    assert found.ended >= found.started
    assert stored.holds(run)
    with pytest.raises(StoreError, match="unknown run"):
        stored.get("nowhere")


def test_a_run_is_found_by_what_was_run(stored: Runs) -> None:
    manifest = {"model": "m"}
    run = stored.start("eval", manifest, scope="one")
    assert stored.unfinished("eval", manifest, scope="one") == run
    for kind, other, scope in (
        ("eval", manifest, ""),
        ("eval", {"model": "n"}, "one"),
        ("sweep", manifest, "one"),
    ):
        assert stored.unfinished(kind, other, scope=scope) is None
    stored.append(run, RunRow(0, "a", "errored", {}))
    stored.finish(run, "complete")
    assert stored.unfinished("eval", manifest, scope="one") is None
    assert stored.unfinished("eval", manifest, scope="one", errored=True) == run
    assert stored.complete("eval", manifest, scope="one") == run
    sweep = stored.start("sweep", {})
    assert [one.id for one in stored.list()] == [run, sweep]
    assert [one.id for one in stored.list("sweep")] == [sweep]
    stored.name(run, "main")
    stored.keep(run, "configuration", {"x": 1})
    stored.keep(run, "configuration", {"x": 2})
    assert stored.get(run).name == "main"
    assert stored.kept(run, "configuration") == {"x": 2}


def test_rows_left_halfway_are_forgotten_with_the_runs_of_a_scope(
    stored: Runs, place: Place
) -> None:
    run = stored.start("eval", {})
    mine = stored.start("eval", {"who": "tenant-one"}, scope="tenant")
    for i in range(300):
        row = RunRow(i, f"{i:03}", "done", {"t": "secret of doc" if i else "harmless"})
        stored.append(run, row, sources=["doc"] if i else [])
    stored.append(mine, RunRow(0, "a", "done", {"t": "made of doc"}), sources=["doc"])
    stored.append(mine, RunRow(1, "b", "done", {}))
    stored.flush()
    rows = stored.rows(run)
    assert next(rows).id == "000"
    rows.close()  # type: ignore[attr-defined]
    assert forget_at(place, source="doc")["rows"] == 300
    assert [row.id for row in stored.rows(run)] == ["000"]
    assert forget_at(place, scope="tenant")["rows"] == 1
    assert [one.id for one in stored.list()] == [run]
    for call in (partial(forget_at, place), partial(forget_at, place, source="d", scope="s")):
        with pytest.raises(StoreError):
            call()
    if isinstance(place, Path):
        held = b"".join(p.read_bytes() for p in place.parent.glob(f"{place.name}*"))
        assert [text in held for text in (b"of doc", b"tenant-one", b"harmless")] == [0, 0, 1]


def test_work_that_fails_is_undone_alone(stored: Runs) -> None:
    run = stored.start("eval", {})
    stored.append(run, RunRow(0, "a", "done", {}))
    stored.append(run, RunRow(None, "broken", "done", {}))  # type: ignore[arg-type]
    stored.append(run, RunRow(2, "c", "done", {}))
    with pytest.raises(StoreError):
        stored.flush()
    assert [r.id for r in stored.rows(run)] == ["a", "c"]


def test_damage_is_named_where_it_is_found(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    path.write_bytes(b"not a database at all" * 500)
    with pytest.raises(StoreError, match="damaged"):
        Runs(path)
    path.unlink()
    Runs(path).close()
    first = path.stat().st_size  # what follows holds rows
    with closing(Runs(path)) as store:
        run = store.start("eval", {"text": "x" * 20_000})
        store.append(run, RunRow(0, "a", "done", {"text": "y" * 20_000}))
        store.finish(run, "complete")
    content = path.read_bytes()
    path.write_bytes(content[:first] + b"\x99" * (len(content) - first))
    with closing(Runs(path)) as store:
        for read in (lambda: store.list(), lambda: store.get(run), lambda: list(store.rows(run))):
            with pytest.raises(StoreError, match="damaged"):
                read()


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
    count = "SELECT count(*) FROM runs"
    with (
        closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as reader,
        pytest.raises(sqlite3.OperationalError, match="readonly"),
    ):
        reader.execute(count)
    with pytest.raises(StoreError, match="version 0"):  # the file is read; its table is not ours
        Runs(path)
    with closing(sqlite3.connect(path)) as opened:
        assert opened.execute(count).fetchone() == (0,)


# -- jobs ----------------------------------------------------------------------------------


def job(*texts: str, **options: Any) -> Job[str]:
    items = [(f"row {text}", partial(ask, text)) for text in texts]
    return Job("eval", {"version": 1}, items, lambda v: {"text": v}, **options)


def exported(runs: Runs, run: str) -> list[tuple[int, str, str, dict[str, Any]]]:
    return [(r.ordinal, r.id, r.state, dict(r.body)) for r in runs.rows(run)]


def refusing(word: str, price: float | None = None) -> FakeChat:
    no = ModelRefusedError("no", where="m")
    return FakeChat(lambda r, n: no if word in prompt(r) else f"re: {prompt(r)}", price=price)


TINY = RunnerOptions(longest_reply=10, concurrency=1)


def test_rows_are_written_in_order_and_errored_ones_retried_where_asked_for(runs: Runs) -> None:
    with Runner({Chat: refusing("bad")}) as runner:
        first = run_job(runner, runs, job("a", "bad", "c"))
        assert runner.progress.total == runner.progress.finished == 3
    assert exported(runs, first.run) == [
        (0, "row a", "done", {"text": "re: a"}),
        (1, "row bad", "errored", {"error": "ModelRefusedError", "what": "no", "where": "m"}),
        (2, "row c", "done", {"text": "re: c"}),
    ]
    assert (first.total, first.done, first.errored, first.skipped) == (3, 2, 1, 0)
    assert (first.complete, first.resumed) == (True, False)
    assert runs.get(first.run).state == "complete"
    handler = FakeChat()
    with Runner({Chat: handler}) as runner:
        second = run_job(runner, runs, job("a", "bad", "c", retry_errors=True))
        third = run_job(runner, runs, job("a", "bad", "c", retry_errors=True))
    assert handler.asked[:1] == ["bad"]
    assert second.run == first.run
    assert (second.kept, second.done, second.errored) == (2, 3, 0)
    assert [state for _, _, state, _ in exported(runs, first.run)] == ["done"] * 3
    assert third.run != first.run  # nothing errored is left to retry


def test_a_complete_run_is_taken_as_it_stands_only_where_asked_for(runs: Runs) -> None:
    handler = FakeChat()
    with Runner({Chat: handler}) as runner:
        first = run_job(runner, runs, job("a", "b"))
        again = run_job(runner, runs, job("a", "b", reuse=True))
        other = run_job(runner, runs, job("a", "b"))
    assert (again.run, again.kept, again.done) == (first.run, 2, 2)
    assert other.run != first.run
    assert not other.resumed
    assert len(handler.asked) == 4


def test_a_budget_stop_skips_the_rest_and_resume_runs_only_that(runs: Runs) -> None:
    handler, texts = refusing("bad", price=1.0), ["bad", *map(str, range(1, 10))]
    with Runner({Chat: handler}, TINY, budget=Budget(45)) as runner:
        first = run_job(runner, runs, job(*texts, limit=1))
    assert (first.errored, first.done, first.skipped, first.total) == (1, 4, 5, 10)
    assert isinstance(first.reason, BudgetStopped)
    assert runs.get(first.run).state == "stopped"
    states = ["errored", *["done"] * 4, *["skipped"] * 5]
    assert [state for _, _, state, _ in exported(runs, first.run)] == states
    with Runner({Chat: handler}) as runner:
        resumed = run_job(runner, runs, job(*texts))
        assert runner.progress.total == runner.progress.finished == 10
    assert (resumed.run, resumed.resumed, resumed.kept) == (first.run, True, 5)
    assert (resumed.complete, resumed.errored, resumed.done) == (True, 1, 9)
    assert handler.asked == texts
    assert [o for o, *_ in exported(runs, resumed.run)] == list(range(10))
    run = runs.start("eval", {"version": 1}, scope="one")
    with Runner({Chat: handler}) as runner:
        for options, taken in (({"scope": "two"}, 0), ({"scope": "one", "resume": False}, 0)):
            assert (run_job(runner, runs, job("a", **options)).run == run) is bool(taken)
    run = runs.start("eval", {"version": 1}, scope="three")
    with Runner({Chat: handler}) as runner:
        assert run_job(runner, runs, job("a", scope="three")).run == run


def test_a_row_in_which_something_failed_is_run_again_and_kept_until_then(runs: Runs) -> None:
    said, made = ["half"], partial(job, "a", "b", failed=lambda value: value == "half")
    with Runner({Chat: FakeChat(lambda r, n: said[0] if "b" in prompt(r) else "fine")}) as runner:
        first = run_job(runner, runs, made())
        assert (first.done, first.errored) == (1, 1)
        assert exported(runs, first.run)[1] == (1, "row b", "errored", {"text": "half"})
        plain = run_job(runner, runs, made())
        assert plain.run != first.run  # without retry_errors a complete run is left alone
        said[0] = "whole"
        again = run_job(runner, runs, made(retry_errors=True))
    assert (again.run, again.kept, again.done) == (plain.run, 1, 2)
    assert exported(runs, again.run)[1] == (1, "row b", "done", {"text": "whole"})


def test_rows_out_of_time_are_errored_and_twins_refused(runs: Runs, tmp_path: Path) -> None:
    def silent() -> Flow[str]:
        yield from gather([])
        return "known"

    with Runner({Chat: FakeChat(latency=0.5)}, retry=ONCE) as runner:
        ((*_, state, body),) = exported(runs, run_job(runner, runs, job("a", timeout=0.05)).run)
        assert (state, body["error"]) == ("errored", "ModelTimeoutError")
        summary = run_job(runner, runs, replace(job(), items=[("r", silent)]))
        assert exported(runs, summary.run) == [(0, "r", "done", {"text": "known"})]
        with pytest.raises(FlowError, match="share the id"):
            run_job(runner, runs, job("a", "a"))
    sourced = replace(job("a", "b"), sources=lambda value: ["doc"] if value == "re: a" else [])
    with Runner({Chat: FakeChat()}) as runner:
        summary = run_job(runner, runs, sourced)
    assert forget_at(tmp_path / "runs.db", source="doc")["rows"] == 1
    assert [i for _, i, *_ in exported(runs, summary.run)] == ["row b"]


def test_ctrl_c_writes_what_ended_and_skips_the_rest(runs: Runs, replies: Replies) -> None:
    handler = FakeChat(latency=0.02)
    texts = [str(i) for i in range(200)]
    with Runner({Chat: handler}, RunnerOptions(concurrency=2), replies=replies) as runner:
        when(lambda: len(handler.asked) > 10, os.kill, os.getpid(), signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            run_job(runner, runs, job(*texts))
    (run,) = runs.list()
    assert run.state == "stopped"
    states = Counter(runs.states(run.id).values())
    assert states.total() == 200
    assert 0 < states["done"] < 200
    assert {*states} == {"done", "skipped"}
    with Runner({Chat: handler}, replies=replies) as runner:
        summary = run_job(runner, runs, job(*texts))
    assert (summary.resumed, summary.complete) == (True, True)
    assert sorted(handler.asked) == sorted(texts)  # nothing was paid for twice


def test_a_result_that_cannot_be_written_down_keeps_what_came_before(runs: Runs) -> None:
    def encode(value: str) -> dict[str, Any]:
        return {"text": object() if "c" in value else value}

    with Runner({Chat: FakeChat()}) as runner:
        with pytest.raises(TypeError):
            run_job(runner, runs, replace(job("a", "b", "c"), encode=encode))
        (run,) = runs.list()
        assert run.state == "open"
        assert [i for _, i, *_ in exported(runs, run.id)] == ["row a", "row b"]
        assert run_job(runner, runs, job("a", "b", "c")).kept == 2


# -- kills ---------------------------------------------------------------------------------

CALLS, KILLS, CONCURRENCY, SECONDS = 300, 10, 8, 60
OPEN = 12
"""Rows open at once, of one call each at a time: more than there are places in flight."""


class Counting:
    """The server's script: answers by the prompt, counts prompts, rings at a count."""

    def __init__(self) -> None:
        self.asked: Counter[str] = Counter()
        self.goal = 0
        self.reached = threading.Event()

    def __call__(self, request: ServerRequest) -> Reply:
        self.asked[request.prompt] += 1
        if self.asked.total() >= self.goal:
            self.reached.set()
        return Reply(f"about {request.prompt}", delay=0.01)

    def wait_for(self, calls: int, start: Callable[[], BaseProcess]) -> BaseProcess:
        """The process, once so many calls have come in all."""
        self.goal = calls
        self.reached.clear()
        process = start()
        assert self.reached.wait(SECONDS)
        return process


def start(folder: Path, url: str) -> BaseProcess:
    folder.mkdir(exist_ok=True)
    return started(run_rows, folder, url, CONCURRENCY, OPEN)


def finish(folder: Path, url: str) -> None:
    process = start(folder, url)
    process.join(SECONDS)
    assert process.exitcode == 0


def committed(folder: Path) -> set[str]:
    """Prompts whose replies are on disk, read as another process reads them."""
    path = folder / "replies.db"
    if not path.exists():
        return set()
    with closing(sqlite3.connect(path)) as connection:
        try:
            found = connection.execute("SELECT body FROM replies WHERE state = 'done'").fetchall()
        except sqlite3.OperationalError:  # killed before its tables were made
            return set()
    return {json.loads(body)["text"].removeprefix("about ") for (body,) in found}


def export(folder: Path) -> list[Any]:
    """Rows of the one run, without what may differ: times, spend, ``cached``."""
    with closing(Runs(folder / "runs.db")) as runs:
        (run,) = runs.list()
        assert run.state == "complete"
        rows = exported(runs, run.id)
    return [(*row, {**body, "cached": None}) for *row, body in rows]


@pytest.mark.slow
def test_kills_cost_no_committed_call_and_change_no_byte(tmp_path: Path) -> None:
    chance = random.Random(20)
    smooth, rough = tmp_path / "smooth", tmp_path / "rough"
    script = Counting()
    with ScriptedServer(script, record=False) as server:
        finish(smooth, server.url)
        assert script.asked.total() == CALLS
        script.asked.clear()
        paid: dict[str, int] = {}
        for kills, goal in enumerate(sorted(chance.sample(range(5, CALLS - 20), KILLS)), 1):
            process = script.wait_for(goal, lambda: start(rough, server.url))
            threading.Event().wait(chance.uniform(0.0, 0.015))  # anywhere within a call
            process.kill()
            process.join()
            assert process.exitcode == -9
            again = [prompt for prompt, n in paid.items() if script.asked[prompt] != n]
            assert not again, "a committed reply was asked for again"
            paid = {prompt: script.asked[prompt] for prompt in committed(rough)}
            assert script.asked.total() - len(paid) <= kills * OPEN
        finish(rough, server.url)
    assert script.asked.total() - CALLS <= KILLS * OPEN
    assert len(script.asked) == CALLS
    assert all(script.asked[prompt] == n for prompt, n in paid.items())
    assert export(rough) == export(smooth)


@pytest.mark.slow
def test_a_kill_while_no_commit_gets_through_costs_one_call_a_row(tmp_path: Path) -> None:
    script = Counting()
    with ScriptedServer(script, record=False) as server:
        process = script.wait_for(CALLS // 4, lambda: start(tmp_path, server.url))
        holder = sqlite3.connect(tmp_path / "replies.db", timeout=SECONDS, isolation_level=None)
        holder.execute("BEGIN IMMEDIATE")
        asked = -1
        while asked != script.asked.total():  # until all that could be sent has been
            asked = script.asked.total()
            threading.Event().wait(0.3)
        process.kill()
        process.join()
        holder.close()
        paid = committed(tmp_path)
        assert asked == script.asked.total()
        assert 0 < asked - len(paid) <= OPEN
        finish(tmp_path, server.url)
    assert script.asked.total() == CALLS + asked - len(paid)
    assert all(script.asked[prompt] == 1 for prompt in paid)
