"""`ragwright ablate` from the command line, against a scripted model."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from command_line import ragwright

from ragwright.testing import ScriptedServer, ServerRequest

ROWS = 12


def run(folder: Path, *words: str, code: int = 0) -> subprocess.CompletedProcess[str]:
    return ragwright(folder, *words, code=code)


def reply(request: ServerRequest) -> str:
    """Right only where it is told to keep to the passages."""
    rules = str(request.body["messages"][0]["content"])
    return "Every 3 weeks [1]." if "nowhere else" in rules else "Never."


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("project")
    (folder / "docs").mkdir()
    (folder / "docs" / "pump.txt").write_text("The pump is checked every 3 weeks by the plumber.")
    lines = [
        {"id": f"q{n}", "user_input": f"How often is pump {n} checked?", "reference": "3 weeks"}
        for n in range(ROWS)
    ]
    (folder / "set.jsonl").write_text(
        "\n".join(json.dumps(line | {"split": "tune"}) for line in lines)
    )
    with ScriptedServer(reply) as server:
        (folder / "ragwright.yaml").write_text(
            f"sources: [docs]\nanswer: {{model: '{server.url}#m', max_tokens: 20}}\n"
            f"models: {{'{server.url}#m': {{price_in: 1.0, price_out: 1.0}}}}\n"
        )
        run(folder, "ingest", "--quiet")
        yield folder


ASKED = ("ablate", "--testset", "set.jsonl", "--measures", "Contains", "--parts")


@pytest.mark.slow
def test_the_price_comes_first_and_the_verdict_next(project: Path) -> None:
    dry = json.loads(run(project, *ASKED, "only_context,role", "--dry-run", "--json").stdout)
    assert dry["trials"] == 3
    assert dry["forecast"]["calls"]["expected"] == 3 * ROWS
    shown = run(project, *ASKED, "only_context,role").stdout
    assert shown.startswith("Proven on 12 rows: only_context helps (Contains +1.0000")
    assert "No effect proven, and not proven safe to delete: role." in shown
    assert "Such a proof takes at least 72 independent rows; there are 12." in shown
    told = json.loads(run(project, *ASKED, "only_context,role", "--json", "--quiet").stdout)
    assert [(one["part"], one["safe"]) for one in told["parts"]] == [
        ("only_context", False),
        ("role", False),
    ]
    assert told["parts"][0]["cost"] > 0
    assert told["run"]
    assert told["run"] in shown
    run(project, *ASKED, "only_context", "-o", "out/ablation.json", "--name", "parts")
    assert json.loads((project / "out" / "ablation.json").read_text())["rows"] == ROWS
    run(project, "report", "parts", "-o", "out/report.html", "--quiet")
    assert "only_context" in (project / "out" / "report.html").read_text()


def test_a_budget_ends_it_with_its_own_exit_code(project: Path) -> None:
    done = run(project, *ASKED, "no_extraneous", "--max-cost", "0.0001", code=101)
    assert "error:" in done.stderr
    assert "parts or presets are left out" in done.stdout


def test_slips_are_said_with_the_nearest_name(project: Path) -> None:
    for words, said in (
        (("rolle",), "did you mean 'role'?"),
        (("role", "--presets", "without_stile"), "did you mean 'without_style'?"),
        (("role", "--personas", "enginer"), "did you mean 'engineer'?"),
        (("role", "--set", "answer.model=snippet"), "without a chat model"),
    ):
        assert said in run(project, *ASKED, *words, code=1).stderr
