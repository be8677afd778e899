"""A sweep in another process: its progress is seen; it stops when asked, what is done is kept."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from children import command, started
from command_line import ragwright
from small_project import MakeProject
from waiting import wait_until

from ragwright import Workbench
from ragwright.experiment import KnownSweep, list_sweeps, load_trials
from ragwright.testing import Reply, ScriptedServer, ServerRequest

pytestmark = pytest.mark.slow

SECONDS = 60
TEXT = " ".join(
    f"## Part {n}\n\nThe part {n} is changed every {n + 2} years, and it weighs {3 * n} grams.\n\n"
    for n in range(14)
)
ROWS = "\n".join(
    json.dumps({"id": f"q{n}", "user_input": f"When is part {n} changed?", "reference": f"{n} 9"})
    for n in range(6)
)
STUDY = """
study: {testset: set.jsonl, measures: TokenF1}
chunk: {size: [20, 40, 60, 80], overlap: 0}
prompt: {without: [[], [role], [tailor]]}
"""
MODEL = "models: {{'{name}': {{price_in: 1, price_out: 2}}}}\n"


class Server:
    """Answers slowly and counts equal requests."""

    def __init__(self) -> None:
        self.asked: Counter[str] = Counter()
        self.delay = 0.3

    def __call__(self, request: ServerRequest) -> Reply:
        self.asked[json.dumps(request.body, sort_keys=True)] += 1
        return Reply("Every 3 years [1].", delay=self.delay)


@pytest.fixture
def server() -> Iterator[tuple[Server, ScriptedServer]]:
    answering = Server()
    with ScriptedServer(answering) as running:
        yield answering, running


def project(folder: Path, url: str) -> Path:
    name = f"{url}#m"
    made = MakeProject(folder)(
        f"answer: {{model: '{name}'}}\n" + MODEL.format(name=name),
        **{"parts.md": TEXT},
    )
    (made / "set.jsonl").write_text(ROWS)
    (made / "s.yaml").write_text(STUDY)
    with Workbench.open(made) as bench:
        bench.ingest()
    return made


def seen(bench: Workbench, state: str, least: int = 0) -> KnownSweep:
    """The sweep, once it is in a state with this many rows."""
    found: list[KnownSweep] = []

    def look() -> bool:
        found[:] = [
            one
            for one in bench.list_sweeps()
            if one.state == state and one.progress is not None and one.progress.rows >= least
        ]
        return bool(found)

    wait_until(look, f"no sweep is {state}")
    return found[0]


def test_a_running_sweep_is_seen_stopped_and_continued(
    tmp_path: Path, server: tuple[Server, ScriptedServer]
) -> None:
    answering, running = server
    folder = project(tmp_path, running.url)
    process = started(command, folder, "sweep", "s.yaml", "-q", "--json", "-j", "2")
    with Workbench.open(folder) as bench:
        under_way = seen(bench, "running", least=3)
        assert under_way.progress is not None
        assert under_way.progress.planned == 13
        assert under_way.progress.of_rows
        assert under_way.progress.spent > 0
        assert under_way.progress.calls >= 3
        asked = ragwright(folder, "sweep", "--stop")
        assert under_way.id in asked.stdout
        process.join(SECONDS)
        assert process.exitcode == 101, "it is not complete, as after a spent budget"
        [ended] = bench.list_sweeps()
        assert ended.state == "stopped"
        assert ended.asked_by
        trials = {trial.number: trial.state for trial in load_trials(bench.project, ended.id)}
        assert set(trials) == set(range(13)), "every trial is stored, run or not"
        assert "skipped" in trials.values()
        paid = Counter(answering.asked)
    assert "no sweep is running" in ragwright(folder, "sweep", "--stop", code=1).stderr
    answering.delay = 0.0
    ragwright(folder, "sweep", "s.yaml", "-q")
    assert all(answering.asked[body] == 1 for body in paid), "nothing was paid for twice"
    with Workbench.open(folder) as bench:
        [whole] = bench.list_sweeps()
        assert whole.state == "complete"
        assert {t.state for t in load_trials(bench.project, whole.id)} == {"done"}
        assert whole.asked_by == "", "the request was for the earlier start"


def test_a_killed_sweep_is_not_taken_for_running(
    tmp_path: Path, server: tuple[Server, ScriptedServer]
) -> None:
    folder = project(tmp_path, server[1].url)
    process = started(command, folder, "sweep", "s.yaml", "-q", "-j", "2")
    with Workbench.open(folder) as bench:
        seen(bench, "running", least=1)
        process.kill()
        process.join()
        [lost] = list_sweeps(bench.project, now=time.time() + 60)
        assert lost.state == "stopped"
        assert lost.progress is not None
        assert not lost.progress.ended


def test_a_sweep_needs_a_study_or_the_wish_to_stop(tmp_path: Path) -> None:
    folder = MakeProject(tmp_path)()
    assert "STUDY" in ragwright(folder, "sweep", code=2).stderr
    assert "no sweep is running" in ragwright(folder, "sweep", "--stop", code=1).stderr
