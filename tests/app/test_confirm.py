"""`ragwright confirm`: with the settings that the sweep was run with."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from command_line import ragwright
from small_project import MakeProject

from ragwright.testing import ScriptedServer, ServerRequest


def questions(count: int) -> str:
    """Rows that ask the same with other numbers, half of them held out."""
    rows = [
        {
            "id": f"q{n}",
            "user_input": f"How often must the brake fluid be changed, {n}?",
            "reference": "every two years",
            "split": "tune" if n % 2 else "confirm",
        }
        for n in range(count)
    ]
    return "\n".join(map(json.dumps, rows))


def answer(request: ServerRequest) -> str:
    """Better with the plain role in the prompt."""
    system = str(request.body["messages"][0]["content"])
    return "every two years [1]" if "PLAIN" in system else "I think it is soon or so [1]"


@pytest.mark.slow
def test_settings_of_the_sweeps_command_line_are_those_of_the_confirmation(
    tmp_path: Path,
) -> None:
    with ScriptedServer(answer) as server:
        folder = MakeProject(tmp_path)("judge: {model: 'http://127.0.0.1:9/v1#gone'}\n")
        (folder / "set.jsonl").write_text(questions(40))
        (folder / "s.yaml").write_text(
            f"study: {{testset: '{folder / 'set.jsonl'}', measures: TokenF1}}\n"
            "prompt: {replace: [{}, {role: PLAIN words only.}]}\n"
        )
        given = ("--set", f"answer.model={server.url}#m", "--set", "judge.repeat=2")
        ragwright(folder, "ingest")
        ragwright(folder, "sweep", "s.yaml", *given)
        ahead = ragwright(folder, "confirm", "--dry-run").stderr
        assert "least provable gain: about 0." in ahead
        done = ragwright(folder, "confirm")  # reads them from the sweep
        assert f"as in the sweep: --set answer.model={server.url}#m" in done.stderr
        assert "T002 is better" in done.stdout or "T001 is better" in done.stdout
        shown = ragwright(folder, "confirm", *given)  # takes them
        assert "already confirmed" in shown.stderr
        assert "as in the sweep" not in shown.stderr
        told = json.loads(ragwright(folder, "confirm", "--json").stdout)
        for name in (told["run"], "latest"):
            ragwright(folder, "report", name, "-o", "page.html", "-q")
            page = (folder / "page.html").read_text("utf-8")
            assert "is better than the current settings" in page
        other = ragwright(folder, "confirm", "--set", f"answer.model={server.url}#n", code=1)
        assert "the values of --set that the sweep was run with" in other.stderr
