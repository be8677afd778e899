"""Eight processes that ask the same questions and share replies: SQLite beside PostgreSQL.

    python -m benchmarks.shared_replies [--calls 2000] [--rounds 3] [--publish]

Every process asks all questions of a scripted model server, each in another order, through the
runner; the server counts. Each way is run whole, and once more with one process killed (-9) after
a third of the calls. PostgreSQL is a fresh server of this machine with its own settings (every
commit waits for the disk); it needs `initdb`, and `[pg]`.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import random
import statistics
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.local_postgres import local_postgres
from benchmarks.publish import Section, Table, publish, section_lines, versions
from ragwright.flow import Flow, Message, Replies, Runner, RunnerOptions, chat
from ragwright.ledger import Place, SharedPlace
from ragwright.models import Models, model_handlers
from ragwright.testing import Reply, ScriptedServer, ServerRequest

PROCESSES = 8
CONCURRENCY = 16
LATENCY = 0.05
TEXT = "a reply of some words " * 20


@dataclass(frozen=True)
class Taken:
    """One round: wall seconds, and what the model server was asked."""

    seconds: float
    asked: int
    twice: int


def evaluate(place: Place, url: str, calls: int, seed: int) -> None:
    """One process: every question once, in an order of its own."""

    def ask(number: int) -> Flow[str]:
        return (yield from chat(f"{url}#m", [Message("user", f"question {number}")])).text

    order = random.Random(seed).sample(range(calls), calls)
    replies = Replies(place)
    options = RunnerOptions(concurrency=CONCURRENCY)
    with Runner(model_handlers(Models()), options, replies=replies) as runner:
        assert all(runner.map((ask(n) for n in order), limit=2 * CONCURRENCY))
    replies.close()


class Counting:
    """The script of the model server."""

    def __init__(self) -> None:
        self.asked: Counter[str] = Counter()

    def __call__(self, request: ServerRequest) -> Reply:
        """A reply after a fixed time."""
        self.asked[request.prompt] += 1
        return Reply(TEXT, delay=LATENCY)


def taken(place: Place, calls: int, *, kill: bool) -> Taken:
    """Eight processes at once; with ``kill`` the first of them dies after a third of the calls."""
    script = Counting()
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["benchmarks.shared_replies", "openai", "psycopg"])
    with ScriptedServer(script, record=False) as server:
        children = [
            context.Process(target=evaluate, args=(place, server.url, calls, seed))
            for seed in range(PROCESSES)
        ]
        for child in children:
            child.start()
        while not script.asked:
            time.sleep(0.001)
        started = time.perf_counter()
        if kill:
            while script.asked.total() < calls / 3:
                time.sleep(0.001)
            children[0].kill()
        for number, child in enumerate(children):
            child.join()
            assert child.exitcode == 0 or (kill and number == 0), child.exitcode
        seconds = time.perf_counter() - started
    assert len(script.asked) == calls
    return Taken(seconds, script.asked.total(), sum(n > 1 for n in script.asked.values()))


def section(calls: int, rounds: int) -> Section:
    """All rounds, the two ways in turn."""
    by_way: dict[tuple[str, bool], list[Taken]] = {}
    with local_postgres() as server, tempfile.TemporaryDirectory() as folder:
        for number in range(rounds):
            for kill in (False, True):
                mark = f"r{number}{'k' if kill else ''}"
                ways: Sequence[tuple[str, Place]] = (
                    ("SQLite file", Path(folder) / f"{mark}.sqlite"),
                    ("PostgreSQL", SharedPlace(server.address, mark)),
                )
                for name, place in ways:
                    by_way.setdefault((name, kill), []).append(taken(place, calls, kill=kill))
    rows = [
        {
            "replies in": name,
            "one killed (-9)": "yes" if kill else "no",
            "seconds": statistics.median(run.seconds for run in some),
            "calls per second": calls / statistics.median(run.seconds for run in some),
            "questions answered per second": PROCESSES
            * calls
            / statistics.median(run.seconds for run in some),
            "calls": str([run.asked for run in some]),
            "paid twice": str([run.twice for run in some]),
        }
        for (name, kill), some in by_way.items()
    ]
    floor = calls * LATENCY / (PROCESSES * CONCURRENCY)
    return Section(
        title="Replies shared by eight processes",
        tables=[Table(rows)],
        notes=[
            f"{PROCESSES} processes ask the same {calls} questions, each in another order, "
            f"{CONCURRENCY} in flight each; a call takes {LATENCY * 1000:g} ms at the scripted "
            f"server, so the calls alone take {floor:.1f} s. Median of {rounds} rounds.",
            f"Without sharing, {PROCESSES * calls} calls would be paid for. Calls that were in "
            f"flight in a killed process, at most {CONCURRENCY}, are made again by another one.",
            "Eight processes, the model server and PostgreSQL share the processors of one machine. "
            "PostgreSQL waits for the disk at each commit; SQLite here does not. The load average "
            f"was {os.getloadavg()[1]:.0f} over the last 5 minutes, on {os.cpu_count()} cores.",
        ],
        command="python -m benchmarks.shared_replies --publish",
        page="scale",
        order=60,
        conditions=versions("psycopg"),
        data=[
            {"way": name, "kill": kill, "rounds": [run.__dict__ for run in some]}
            for (name, kill), some in by_way.items()
        ],
    )


def main() -> None:
    """Measure, print, and publish where asked."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--publish", action="store_true")
    arguments = parser.parse_args()
    report = section(arguments.calls, arguments.rounds)
    print("\n".join(section_lines(report)))
    print(json.dumps(report.data))
    if arguments.publish:
        publish("shared-replies", report)


if __name__ == "__main__":
    main()
