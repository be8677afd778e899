"""Rule 11: kill -9 at any moment loses no committed reply and no row.

What it does lose are calls that were sent and whose reply was not committed: those in flight,
never more than the lane lets out, and those whose reply waits for the group commit. A reply gives
its place in flight back when it comes, not when it is committed, so where commits are slow (a disk
that is busy, a file that is held) the second kind grows past any multiple of the concurrency. What
bounds both together is that a row asks for its second reply only when the first is committed: one
call for each row that is open at once (``Job.limit``, else ``RunnerOptions.width``).
"""

from __future__ import annotations

import json
import random
import sqlite3
import threading
from collections import Counter
from multiprocessing.process import BaseProcess
from pathlib import Path

import kill_child
import pytest
from children import started

from ragwright.flow import Runs
from ragwright.testing import Reply, ScriptedServer, ServerRequest

pytestmark = pytest.mark.slow

CALLS = 500
KILLS = 20
CONCURRENCY = 8
OPEN = 12
"""Rows open at once, of one call each at a time: more than there are places in flight."""
SECONDS = 60


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

    def ring_at(self, calls: int) -> None:
        """Ring once so many calls have come in all."""
        self.goal = calls
        self.reached.clear()
        if self.asked.total() >= calls:
            self.reached.set()


def start(folder: Path, url: str) -> BaseProcess:
    folder.mkdir(exist_ok=True)
    return started(kill_child.main, folder, url, CONCURRENCY, OPEN)


def finish(folder: Path, url: str) -> None:
    process = start(folder, url)
    process.join(SECONDS)
    assert process.exitcode == 0


def committed(folder: Path) -> set[str]:
    """Prompts whose replies are on disk, read as another process reads them."""
    path = folder / "replies.db"
    if not path.exists():
        return set()
    connection = sqlite3.connect(path)
    try:
        found = connection.execute("SELECT body FROM replies WHERE state = 'done'").fetchall()
    except sqlite3.OperationalError:  # killed before its tables were made
        return set()
    finally:
        connection.close()
    return {json.loads(body)["text"].removeprefix("about ") for (body,) in found}


def export(folder: Path) -> bytes:
    """Rows of the one run, without what may differ: times, spend, ``cached``."""
    runs = Runs(folder / "runs.db")
    (run,) = runs.list()
    assert run.state == "complete"
    lines = []
    for row in runs.rows(run.id):
        body = {k: v for k, v in row.body.items() if k != "cached"}
        lines.append(json.dumps([row.ordinal, row.id, row.state, body], sort_keys=True))
    runs.close()
    return "\n".join(lines).encode()


@pytest.mark.slow
def test_twenty_kills_cost_no_committed_call_and_change_no_byte(tmp_path: Path) -> None:
    chance = random.Random(20)
    smooth, rough = tmp_path / "smooth", tmp_path / "rough"
    script = Counting()
    with ScriptedServer(script, record=False) as server:
        finish(smooth, server.url)
        assert script.asked.total() == CALLS
        script.asked.clear()
        paid: dict[str, int] = {}
        for kills, goal in enumerate(sorted(chance.sample(range(5, CALLS - 20), KILLS)), 1):
            script.ring_at(goal)
            process = start(rough, server.url)
            assert script.reached.wait(SECONDS)
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


def test_a_kill_while_no_commit_gets_through_costs_one_call_a_row(tmp_path: Path) -> None:
    script = Counting()
    with ScriptedServer(script, record=False) as server:
        script.ring_at(CALLS // 4)
        process = start(tmp_path, server.url)
        assert script.reached.wait(SECONDS)
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
