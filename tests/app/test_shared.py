"""Several machines share replies, runs and outputs in one PostgreSQL database."""

from __future__ import annotations

import itertools
import json
import shutil
from collections import Counter
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from children import command, started
from command_line import ragwright
from drafted import REQUEST, drafted
from small_project import MakeProject

from ragwright import Workbench
from ragwright.ledger import Connection, Ledger
from ragwright.project import ProjectFolder
from ragwright.testing import Reply, ScriptedServer, ServerRequest

pytestmark = pytest.mark.slow

NUMBERS = itertools.count()
SECONDS = 120
ROWS = [
    {"id": f"q{n}", "user_input": f"When is part {n} changed?", "reference": f"every {n} years"}
    for n in range(30)
]


@pytest.fixture
def address(postgres: str) -> str:
    return f"postgresql://admin@/postgres?host={postgres}"


class Counting:
    """Answers a prompt, and counts how often it was asked."""

    def __init__(self) -> None:
        self.asked: Counter[str] = Counter()

    def __call__(self, request: ServerRequest) -> Reply:
        self.asked[request.prompt] += 1
        return Reply(f"Every {len(request.prompt) % 7} years [1].", delay=0.05)


def machines(folder: Path, url: str, address: str, count: int = 2) -> list[Path]:
    """Copies of one project, as several machines have them."""
    shared = f"shared: {{address: '{address}', schema: m{next(NUMBERS)}}}\n"
    first = MakeProject(folder)(f"answer: {{model: '{url}#m'}}\n{shared}")
    (first / "set.jsonl").write_text("\n".join(map(json.dumps, ROWS)))
    with Workbench.open(first) as bench:
        bench.ingest()
    others = [folder / f"machine{n}" for n in range(1, count)]
    for other in others:
        shutil.copytree(first, other)
    return [first, *others]


def fill(bench: Workbench, batches: int = 5) -> None:
    for at in range(batches):
        texts = [f"text {n} of record:{at}" for n in range(4)]
        bench.outputs.save(drafted(texts, (f"record:{at}",), REQUEST))


def evaluate(folder: Path, *words: str) -> dict[str, Any]:
    done = ragwright(
        folder, "eval", "--testset", "set.jsonl", "--measures", "TokenF1", "--json", *words
    )
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_two_machines_pay_once_and_see_each_other_s_runs(tmp_path: Path, address: str) -> None:
    script = Counting()
    words = ("eval", "--testset", "set.jsonl", "--measures", "TokenF1", "--json", "-q")
    with ScriptedServer(script) as model:
        folders = machines(tmp_path, model.url, address)
        both = [started(command, folder, *words) for folder in folders]
        for process in both:
            process.join(SECONDS)
            assert process.exitcode == 0
        assert len(script.asked) == len(ROWS)
        assert set(script.asked.values()) == {1}
        one, other = (json.loads((folder / "printed").read_text()) for folder in folders)
        assert one["measures"] == other["measures"]
        assert one["run"] != other["run"]
        compared = ragwright(folders[1], "compare", "latest~1", "latest", "--json")
        assert json.loads(compared.stdout)
        assert not list(folders[0].rglob("replies.sqlite"))
        [own] = folders[0].rglob("ledger.sqlite")  # what is of this machine alone
        with closing(Ledger(own)) as ledger:
            kept = ("runs", "batches", "spending", "last_ingest")
            assert [len(ledger.select(f"SELECT 1 FROM {name}")) for name in kept] == [0, 0, 0, 1]
        shown = json.loads(ragwright(folders[1], "cache", "show", "--json").stdout)
        assert sum(row["replies"] for row in shown["replies"]) == len(ROWS)


def test_forgetting_reaches_what_another_machine_stored(tmp_path: Path, address: str) -> None:
    with ScriptedServer(Counting()) as model:
        one, other = machines(tmp_path, model.url, address)
        evaluate(one)
        with Workbench.open(one) as bench:
            document = bench.retrieve("When is part 3 changed?").hits[0].document_id
        gone = json.loads(ragwright(other, "forget", document, "--json").stdout)
        assert 0 < gone["replies"] == gone["rows"]
        with Workbench.open(one) as bench:
            [run] = bench.project.runs.list("eval")
            assert len(list(bench.project.runs.rows(run.id))) == len(ROWS) - gone["rows"]


def test_nothing_is_forgotten_while_another_machine_works(tmp_path: Path, address: str) -> None:
    with ScriptedServer(Counting()) as model:
        one, other = machines(tmp_path, model.url, address)
        evaluate(one)
        with Workbench.open(one) as bench, bench.project._while_requesting():
            done = ragwright(other, "forget", "--tenant", "t", code=1)
    assert "another process or machine works" in done.stderr


def test_a_killed_evaluator_costs_no_committed_call(tmp_path: Path, address: str) -> None:
    script = Counting()
    with ScriptedServer(script) as model:
        one, other = machines(tmp_path, model.url, address)
        words = ("eval", "--testset", "set.jsonl", "--measures", "TokenF1", "--json", "-q")
        killed = started(command, one, *words, "-j", "4")
        with Workbench.open(other) as bench:
            while not bench.project.replies.statistics():
                killed.join(0.01)
        killed.kill()
        killed.join()
        with Workbench.open(other) as bench:
            paid = sum(count for _, _, count, *_ in bench.project.replies.statistics())
        evaluate(other)
    assert paid > 0
    assert len(script.asked) == len(ROWS)
    # When it was killed, up to 4 calls were in flight, and 4 replies waited for their commit.
    assert script.asked.total() <= len(ROWS) + 8


def insert(statement: str, connection: Connection) -> int:
    return int(connection.execute(statement).rowcount)


def test_a_person_is_erased_from_the_shared_database(tmp_path: Path, address: str) -> None:
    import psycopg

    schema = f"person{next(NUMBERS)}"
    folder = MakeProject(tmp_path)(f"shared: {{address: '{address}', schema: {schema}}}\n")
    ragwright(folder, "ingest", "--quiet")
    ragwright(folder, "keys", "add", "ann.example")
    place = ProjectFolder(folder)
    with Workbench.open(folder) as bench:
        fill(bench, 1)
        bench.outputs.give_name("1.1", "a1", "ann.example")
        with closing(Ledger(bench.project.settings.shared.place(place.ledger))) as ledger:
            for statement in (
                "INSERT INTO served_calls VALUES ('ann.example', '2026-11-27', 1, 2.5, 3, 4)",
            ):
                ledger.write(partial(insert, statement))
    listed = json.loads(
        ragwright(folder, "forget", "--person", "ann.example", "--dry-run", "--json").stdout
    )
    erased = json.loads(ragwright(folder, "forget", "--person", "ann.example", "--json").stdout)
    facts = ("answers", "keys", "limits", "events")
    assert [listed[name] for name in facts] == [1, 1, 1, 1]
    assert [erased[name] for name in facts] == [1, 1, 1, 1]
    with closing(psycopg.connect(address)) as connection:
        connection.execute(f"SET search_path = {schema}_ledger")
        events = connection.execute("SELECT who, subject FROM audit_events").fetchall()
        assert "ann.example" not in str(events)
        costs = connection.execute("SELECT key, cost FROM served_calls").fetchall()
        assert costs == [("(erased) 0", 2.5)]
        assert connection.execute("SELECT count(*) FROM items").fetchone() == (0,)
