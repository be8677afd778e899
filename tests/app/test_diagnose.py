"""`ragwright diagnose` from the command line, offline."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest
from command_line import ragwright

from ragwright.testing import Reply, ScriptedServer, ServerRequest

NAMES = ("pump", "valve", "tank", "filter", "boiler", "meter", "hose", "clamp", "sieve", "gauge")


def run(folder: Path, *words: str, code: int = 0) -> subprocess.CompletedProcess[str]:
    return ragwright(folder, *words, code=code)


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("project")
    (folder / "docs").mkdir()
    lines = []
    for n, name in enumerate(NAMES):
        text = f"The {name} is checked every {n + 3} weeks by the plumber."
        (folder / "docs" / f"{name}.txt").write_text(text)
        span = {"document_id": f"docs/{name}.txt", "start": 0, "end": len(text)}
        asked = f"How often is the {name} checked?"
        reference = f"every {n + 3} weeks"
        lines.append(
            {"id": name, "user_input": asked, "reference": reference, "reference_spans": [span]}
        )
    (folder / "set.jsonl").write_text("\n".join(map(json.dumps, lines)))
    (folder / "ragwright.yaml").write_text("sources: [docs]\n")
    run(folder, "ingest", "--quiet")
    return folder


@pytest.mark.slow
def test_a_wrong_filter_is_said_first_and_in_plain_words(project: Path) -> None:
    wrong = ("--set", "retrieve.filters=[{field: document_id, values: [docs/pump.txt]}]")
    asked = ("diagnose", "--testset", "set.jsonl", "--measures", "Recall@5,Contains")
    shown = run(project, *asked, *wrong, "--rows", "filter").stdout
    assert shown.startswith("Work on filter first: hard filters exclude gold.")
    assert "9 of 10 rows: excluded by filters" in shown
    assert "docs/valve.txt 0-" in shown
    told = json.loads(run(project, *asked, *wrong, "--json").stdout)
    assert told["stage"] == "filter"
    assert told["losses"] == {"filter": 9, "none": 1}
    assert {row["id"] for row in told["rows"]} == set(NAMES)
    run(project, *asked, *wrong, "-o", "out/diagnosis.json")
    assert json.loads((project / "out" / "diagnosis.json").read_text())["stage"] == "filter"


def test_a_dry_run_of_the_offline_answerer_calls_no_model(project: Path) -> None:
    told = run(project, "diagnose", "--testset", "set.jsonl", "--dry-run", "--json").stdout
    assert json.loads(told)["cost"] is not None


def test_what_does_not_go_together_is_an_error_with_the_way_out(project: Path) -> None:
    asked = ("diagnose", "--testset", "set.jsonl", "--measures", "Contains")
    told = run(project, *asked, "--personas", "a,b", "--stages", "filter", code=1).stderr
    assert "--stages" in told
    assert "engineer" in run(project, *asked, "--personas", "enginer,marketing", code=1).stderr
    assert "one of filter" in run(project, *asked, "--stages", "search", code=1).stderr
    assert "chat model" in run(project, *asked, "--closed-book", code=1).stderr
    assert "one of: index" in run(project, *asked, "--rows", "search", code=1).stderr
    told = run(project, "diagnose", "--run", "latest", "--stages", "filter", code=1).stderr
    assert "--stages: not used with --run" in told


def test_personas_are_compared_by_the_facts_they_are_told(project: Path) -> None:
    asked = ("diagnose", "--testset", "set.jsonl", "--measures", "TokenF1")
    shown = run(project, *asked, "--personas", "engineer,marketing").stdout
    assert "FactsKept" in shown
    assert "No loss of facts is proven for any persona" in shown


@pytest.mark.slow
def test_the_generator_that_is_proven_best_is_written_and_the_rest_is_kept(
    project: Path,
) -> None:
    def speaks(request: ServerRequest) -> str:
        weeks = re.search(r"checked every (\d+) weeks", request.prompt)
        told = f"every {weeks[1]} weeks [1]." if weeks else "who knows"
        return told if request.body["model"] == "good" else "now and then [1]."

    (project / "personas").mkdir()
    (project / "personas" / "fitter.yaml").write_text("audience: fitters\n")
    with ScriptedServer(speaks) as server:
        models = f"{server.url}#bad,{server.url}#good"
        asked = ["diagnose", "--testset", "set.jsonl", "--measures", "Contains"]
        asked += ["--personas", "fitter", "--compare-models", models]
        shown = run(project, *asked, "--json").stdout
        assert json.loads(shown)["best"] == {"fitter": f"{server.url}#good"}
        twins = f"{server.url}#bad,{server.url}#worse"
        same = run(project, *asked[:-1], twins, "--json").stdout
    assert json.loads(same)["best"] == {}


def test_no_generator_is_the_best_while_another_gave_no_answer(project: Path) -> None:
    def speaks(request: ServerRequest) -> str | Reply:
        if request.body["model"] == "down":
            return Reply(status=400)
        weeks = re.search(r"checked every (\d+) weeks", request.prompt)
        told = f"every {weeks[1]} weeks [1]." if weeks else "who knows"
        return told if request.body["model"] == "good" else "now and then [1]."

    with ScriptedServer(speaks) as server:
        models = ",".join(f"{server.url}#{name}" for name in ("bad", "good", "down"))
        asked = ["diagnose", "--testset", "set.jsonl", "--measures", "Contains"]
        shown = json.loads(run(project, *asked, "--compare-models", models, "--json").stdout)
    assert shown["best"] == {}
    assert f"Not compared: {server.url}#down gave no answer" in shown["verdict"][0]
