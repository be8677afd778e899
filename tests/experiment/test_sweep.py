"""Sweeps of a small project: what is run, shared, stored, taken up again, and killed."""

from __future__ import annotations

import json
import random
import sqlite3
import threading
import zlib
from collections import Counter
from collections.abc import Iterator
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import pytest
from children import command, started
from study_project import fact_rows, part_rows, parts_text, study_project, swept

from ragwright import Session, Workbench
from ragwright.core import StoreError
from ragwright.experiment import SweepOptions, SweepResult, load_trials, read_study
from ragwright.testing import Reply, ScriptedServer, ServerRequest

ROWS = fact_rows(4, "tune", "tune", "tune", "confirm")
SMALL = "chunk: {size: 12, overlap: 0}\n"


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    """Writers, of which ``kind`` and ``strict`` are judges."""

    def reply(request: ServerRequest) -> str:
        if request.body["model"] in ("kind", "strict"):
            score = 5 if request.body["model"] == "kind" else 2
            return json.dumps({"reasoning": "It is as it is.", "score": score})
        return f"{request.prompt[-40:]} [1]"

    with ScriptedServer(reply) as scripted:
        yield scripted


def project(
    folder: Path,
    study: str,
    settings: str = "",
    options: str = "",
    measures: str = "TokenF1, KPrecision",
) -> Path:
    return study_project(folder, ROWS, study, settings, measures=measures, options=options)


def values(found: SweepResult, measure: str) -> list[float | None]:
    return [trial.value(measure) for trial in found.trials]


def test_every_combination_and_the_project_itself_on_the_tune_split(tmp_path: Path) -> None:
    study = "chunk: {size: [12, 40], overlap: 4}\nretrieve: {top_k: [1, 2]}\n"
    folder = project(tmp_path, study)
    ended: list[int] = []
    with Workbench.open(folder) as bench:
        how = SweepOptions(on_trial=lambda trial: ended.append(trial.number))
        found = bench.sweep(read_study(bench.project, folder / "s.yaml"), how)
    assert [trial.number for trial in found.trials] == sorted(ended) == [0, 1, 2, 3, 4]
    assert [dict(trial.values) for trial in found.trials[:3]] == [
        {},
        {"chunk.size": 12, "retrieve.top_k": 1},
        {"chunk.size": 12, "retrieve.top_k": 2},
    ]
    assert all(trial.state == "done" and trial.rows == 3 for trial in found.trials)
    tokens = [trial.facts["context_tokens"] for trial in found.trials]
    assert 0 < tokens[1] < tokens[4]
    assert not (folder / "testsets" / "openings.jsonl").exists()
    assert found.board[0].value("TokenF1") == max(values(found, "TokenF1"))  # type: ignore[type-var]
    with Workbench.open(folder) as bench:
        assert load_trials(bench.project, found.run) == found.trials
        rows = {row.id for row in bench.project.runs.rows(found.trials[1].run)}
        assert rows == {"q0", "q1", "q2"}
        # Trials are runs that can be named.
        assert bench.results("T001").name == found.trials[1].run
        assert bench.results(f"{found.run}:T002").name == found.trials[2].run
        with pytest.raises(StoreError, match="no rows of T009"):
            bench.results("T009")


@pytest.mark.slow
def test_studies_share_their_trials(tmp_path: Path, server: ScriptedServer) -> None:
    study = "retrieve: {top_k: [1, 2]}\nprompt: {without: [[], [role]]}\n"
    folder = project(tmp_path, study, f"answer: {{model: '{server.url}#m'}}\n{SMALL}")
    first = swept(folder)
    asked = len(server.requests)
    assert asked == len({json.dumps(request.body) for request in server.requests})
    again = swept(folder)
    assert (again.run, again.trials) == (first.run, first.trials)
    (folder / "t.yaml").write_text((folder / "s.yaml").read_text().replace("[1, 2]", "[1, 2, 3]"))
    wider = swept(folder, file="t.yaml")
    assert len(wider.trials) == 7
    shared = {trial.run for trial in first.trials} & {trial.run for trial in wider.trials}
    assert len(shared) == len({trial.run for trial in first.trials})
    assert len(server.requests) > asked


def test_values_that_do_not_go_together_are_said_and_cost_nothing(tmp_path: Path) -> None:
    found = swept(project(tmp_path, "chunk: {size: [12, 40], overlap: [0, 20]}\n"))
    [wrong] = [trial for trial in found.trials if trial.state == "invalid"]
    assert dict(wrong.values) == {"chunk.size": 12, "chunk.overlap": 20}
    assert "overlap" in wrong.reason
    assert len(found.board) == 4


def test_a_sweep_stopped_by_its_budget_goes_on(tmp_path: Path, server: ScriptedServer) -> None:
    model = f"{server.url}#m"
    settings = (
        f"answer: {{model: '{model}', max_tokens: 10}}\n"
        f"models: {{'{model}': {{price_in: 0, price_out: 100000, concurrency: 1}}}}\n"
    )
    folder = project(tmp_path, "retrieve: {top_k: [1, 2, 3]}\n", settings)
    part = swept(folder, Session(max_cost=4.0))
    assert part.stopped is not None
    assert {trial.state for trial in part.trials} >= {"skipped"}
    whole = swept(folder)
    assert (whole.run, whole.stopped) == (part.run, None)
    assert all(trial.state == "done" for trial in whole.trials)
    with Workbench.open(folder) as bench:
        assert load_trials(bench.project, whole.run) == whole.trials


def test_a_missing_index_costs_its_own_trials_only(tmp_path: Path, server: ScriptedServer) -> None:
    """And one budget holds for all families of models."""
    model = f"{server.url}#m"
    settings = f"answer: {{model: '{model}', max_tokens: 10}}\n{SMALL}"
    settings += f"models: {{'{model}': {{price_out: 100000, concurrency: 1}}}}\n"
    gone = "'http://127.0.0.1:9/v1#gone', 'hf:no/such'"
    study = f"embed: {{model: ['{server.url}#e', {gone}]}}\n"
    folder = project(tmp_path, f"{study}retrieve: {{top_k: [1, 2, 3]}}\n", settings)
    with Workbench.open(folder, Session(max_cost=6.0)) as bench:
        part = bench.sweep(read_study(bench.project, folder / "s.yaml"))
        assert bench.project.budget.spent <= 6.0
    assert part.stopped is not None
    whole = swept(folder)
    assert [trial.state for trial in whole.trials] == ["done"] * 4 + ["errored"] * 6
    assert all(trial.reason for trial in whole.trials[4:])
    assert whole.stopped is None


def test_judges_of_a_study(tmp_path: Path, server: ScriptedServer) -> None:
    strict, kind = f"{server.url}#strict", f"{server.url}#kind"

    def found(name: str, judges: str, more: str = "") -> SweepResult:
        study = f"retrieve: {{top_k: [1, 2]}}\njudge: {{model: {judges}}}\n"
        return swept(project(tmp_path / name, study, SMALL + more, measures="AnswerRelevance"))

    both = found("both", f"['{strict}', '{kind}']")  # they are shown, and one of them ranks
    assert values(both, "AnswerRelevance") == [2, 2, 5, 2, 5]
    assert {trial.number for trial in both.board} == {0, 1, 3}
    own = found("own", f"'{kind}'", f"judge: {{model: '{strict}'}}\n")
    assert values(own, "AnswerRelevance") == [5, 5, 5]  # it judges the project, too


def test_a_trial_of_the_current_settings_is_not_run(tmp_path: Path, server: ScriptedServer) -> None:
    settings = f"answer: {{model: '{server.url}#m'}}\nretrieve: {{top_k: 2}}\n"
    folder = project(tmp_path, "retrieve: {top_k: [1, 2, 3]}\n", settings)
    found = swept(folder, Session(reuse=False))
    assert [trial.state for trial in found.trials] == ["done", "done", "same", "done"]
    assert found.selection is not None
    assert found.selection.candidates == 2
    assert {trial.id for trial in found.board} == {"T000", "T001", "T003"}
    assert len(server.requests) <= 9, "three settings for three questions"
    with Workbench.open(folder) as bench:
        assert bench.results("T002").name == found.trials[0].run


# -- killed at any moment, a sweep goes on where it was and comes to the same end -----------------

KILLS = 20
SECONDS = 120
OPEN = 128
"""Rows open at once: the runner's default."""
LEARNING = """
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


def learning(folder: Path, url: str) -> Path:
    options = "search: tpe, trials: 16, seed: 5"
    model = f"answer: {{model: '{url}#m'}}\n"
    docs = {"parts.md": parts_text(14)}
    return study_project(folder, part_rows(8), LEARNING, model, options=options, docs=docs)


def start(folder: Path) -> BaseProcess:
    return started(command, folder, "sweep", "s.yaml", "-q", "--json", "-j", "4")


def finish(folder: Path) -> dict[str, Any]:
    """What a sweep prints but for names of runs, times and spend."""
    process = start(folder)
    process.join(SECONDS)
    assert process.exitcode == 0
    document: dict[str, Any] = json.loads((folder / "printed").read_text("utf-8"))
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
        smooth = finish(learning(tmp_path / "smooth", server.url))
        calls = script.asked.total()
        assert calls == len(script.asked)
        before = set(script.asked)
        script.asked.clear()
        rough = learning(tmp_path / "rough", server.url)
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
    assert found == smooth
    assert set(script.asked) == before
    assert all(script.asked[mark] == n for mark, n in paid.items())
    assert script.asked.total() - calls <= KILLS * OPEN
