"""Served answers are measured in the background, and a restart goes on where it ended."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
from served import served
from small_project import MakeProject
from waiting import wait_until

from ragwright import Workbench
from ragwright.testing import Reply, ScriptedServer, ServerRequest

pytestmark = pytest.mark.slow

GRADE = json.dumps({"reasoning": "Seen.", "score": 4})


def scored(folder: Path) -> list[float | None]:
    with Workbench.open(folder) as bench:
        return [s.value for s in bench.outputs.scores.all(None) if s.state == "scored"]


def test_answers_are_scored_while_serving_and_after_a_restart(tmp_path: Path) -> None:
    down = [True]

    def judged(request: ServerRequest) -> Reply | str:
        if request.body["model"] == "judge":
            return Reply("", status=400) if down[0] else GRADE
        return "Every two years [1]."

    with ScriptedServer(judged) as server:
        folder = MakeProject(tmp_path)(
            f"answer: {{model: '{server.url}#writer'}}\njudge: {{model: '{server.url}#judge'}}\n"
            "serve:\n  name: handbook\n"
            "  measure: {share: 1, measures: [Faithfulness], interval: 0.2}\n"
        )
        with Workbench.open(folder) as bench:
            bench.ingest()
        with served(folder) as running:
            for at in range(3):
                assert (
                    running.ask(f"How often must the brake fluid be changed, {at}?").status_code
                    == 200
                )
            with Workbench.open(folder) as bench:
                wait_until(lambda: bench.outputs.scores.today().failed >= 3)
                assert running.ask("And the brake fluid now?").status_code == 200, (
                    "a judge that is down hurts no one"
                )
        assert scored(folder) == []
        down[0] = False
        with Workbench.open(folder) as bench:
            bench.outputs.scores.retry_errors()
        with served(folder):
            wait_until(lambda: len(scored(folder)) == 4)
        with Workbench.open(folder) as bench:
            [first, *_] = bench.outputs.scores.all(None)
            assert (first.name, first.judge.endswith("#judge")) == ("handbook", True)
            assert first.snapshot
            assert first.configuration


def test_nothing_is_measured_unless_asked_for(tmp_path: Path) -> None:
    folder = MakeProject(tmp_path)("serve: {measure: {interval: 0.05}}\n")
    with Workbench.open(folder) as bench:
        bench.ingest()
    with served(folder) as running:
        assert running.ask("How often must the brake fluid be changed?").status_code == 200
        time.sleep(1)
    with Workbench.open(folder) as bench:
        assert bench.outputs.scores.all(None) == []
