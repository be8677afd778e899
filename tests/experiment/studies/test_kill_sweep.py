"""A sweep that is killed at any moment goes on where it was and comes to the same end."""

from __future__ import annotations

import json
import random
import sqlite3
import threading
import zlib
from collections import Counter
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import pytest
from children import command, started
from small_project import MakeProject

from ragwright import Workbench
from ragwright.testing import Reply, ScriptedServer, ServerRequest

pytestmark = pytest.mark.slow

KILLS = 20
SECONDS = 120
OPEN = 128
"""Rows open at once: the runner's default."""

TEXT = " ".join(
    f"## Part {n}\n\nThe part {n} is changed every {n + 2} years, and it weighs {3 * n} grams.\n\n"
    for n in range(14)
)
ROWS = "\n".join(
    json.dumps({"id": f"q{n}", "user_input": f"When is part {n} changed?", "reference": f"{n} 9"})
    for n in range(8)
)
STUDY = """
study: {testset: SET, measures: TokenF1, search: tpe, trials: 16, batch: 4, seed: 5}
chunk: {size: [20, 30, 60], overlap: 0}
retrieve: {top_k: {low: 1, high: 8}}
prompt: {without: [[], [role], [tailor]]}
"""


class Counting:
    """Answers by the hash of the request; counts requests by it."""

    def __init__(self) -> None:
        self.asked: Counter[int] = Counter()
        self.goal = 0
        self.reached = threading.Event()

    def __call__(self, request: ServerRequest) -> Reply:
        mark = zlib.crc32(json.dumps(request.body, sort_keys=True).encode())
        self.asked[mark] += 1
        if self.asked.total() >= self.goal:
            self.reached.set()
        return Reply(f"Every {mark % 11} {mark % 7} years, sign {mark} [1].", delay=0.02)

    def ring_at(self, calls: int) -> None:
        self.goal = calls
        self.reached.clear()
        if self.asked.total() >= calls:
            self.reached.set()


def project(folder: Path, url: str) -> Path:
    made = MakeProject(folder)(f"answer: {{model: '{url}#m'}}\n", **{"parts.md": TEXT})
    (made / "set.jsonl").write_text(ROWS)
    (made / "s.yaml").write_text(STUDY.replace("SET", "set.jsonl"))
    with Workbench.open(made) as bench:
        bench.ingest()
    return made


def start(folder: Path) -> BaseProcess:
    return started(command, folder, "sweep", "s.yaml", "-q", "--json", "-j", "4")


def finish(folder: Path) -> dict[str, Any]:
    process = start(folder)
    process.join(SECONDS)
    assert process.exitcode == 0
    found: dict[str, Any] = json.loads((folder / "printed").read_text("utf-8"))
    return found


def comparable(document: dict[str, Any]) -> dict[str, Any]:
    """Everything but names of runs, times and spend."""
    for trial in document["trials"]:
        trial["facts"] = {"context_tokens": trial["facts"]["context_tokens"]}
        del trial["run"]
    return {name: value for name, value in document.items() if name != "run"}


def committed(folder: Path) -> set[int]:
    """Marks of the requests whose replies are on disk."""
    connection = sqlite3.connect(folder / ".ragwright" / "cache" / "replies.sqlite")
    try:
        found = connection.execute("SELECT body FROM replies WHERE state = 'done'").fetchall()
    except sqlite3.OperationalError:  # killed before its tables were made
        return set()
    finally:
        connection.close()
    texts = [json.loads(body)["text"] for (body,) in found]
    return {int(text.partition("sign ")[2].partition(" ")[0]) for text in texts}


@pytest.mark.slow
def test_twenty_kills_of_a_learning_sweep_change_nothing(tmp_path: Path) -> None:
    chance = random.Random(9)
    script = Counting()
    with ScriptedServer(script, record=False) as server:
        smooth = comparable(finish(project(tmp_path / "smooth", server.url)))
        calls = script.asked.total()
        assert calls == len(script.asked)
        before = set(script.asked)
        script.asked.clear()
        rough = project(tmp_path / "rough", server.url)
        paid: dict[int, int] = {}
        for kill in range(KILLS):
            process = start(rough)
            if kill % 2:  # by time: while it starts, plans, cuts, writes
                threading.Event().wait(chance.uniform(0.0, 1.2))
            else:
                script.ring_at(script.asked.total() + chance.randint(1, max(2, calls // 12)))
                script.reached.wait(3.0)
            process.kill()
            process.join()
            again = [mark for mark, n in paid.items() if script.asked[mark] != n]
            assert not again, "a committed reply was asked for again"
            paid = {mark: script.asked[mark] for mark in committed(rough)}
        found = finish(rough)
    assert comparable(found) == smooth
    assert set(script.asked) == before
    assert all(script.asked[mark] == n for mark, n in paid.items())
    assert script.asked.total() - calls <= KILLS * OPEN
