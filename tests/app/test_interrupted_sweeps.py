"""A sweep in another process: what is done when it is interrupted is kept."""

from __future__ import annotations

import json
import os
import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from children import command, started
from command_line import ragwright
from small_project import MakeProject
from waiting import wait_until

from ragwright import Workbench
from ragwright.experiment import load_trials
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


def test_an_interrupted_sweep_continues_and_pays_nothing_twice(
    tmp_path: Path, server: tuple[Server, ScriptedServer]
) -> None:
    answering, running = server
    folder = project(tmp_path, running.url)
    process = started(command, folder, "sweep", "s.yaml", "-q", "--json", "-j", "2")
    wait_until(lambda: len(answering.asked) >= 4, "nothing was asked")
    assert process.pid is not None
    os.kill(process.pid, signal.SIGINT)
    process.join(SECONDS)
    assert process.exitcode
    paid = Counter(answering.asked)
    answering.delay = 0.0
    ragwright(folder, "sweep", "s.yaml", "-q")
    assert all(answering.asked[body] == 1 for body in paid), "nothing was paid for twice"
    with Workbench.open(folder) as bench:
        [whole] = bench.list_sweeps()
        assert whole.state == "complete"
        assert {trial.state for trial in load_trials(bench.project, whole.id)} == {"done"}


def test_a_sweep_needs_a_study(tmp_path: Path) -> None:
    assert "study" in ragwright(MakeProject(tmp_path)(), "sweep", code=2).stderr
