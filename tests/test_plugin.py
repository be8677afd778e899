"""The example of a plug-in: built as a wheel, installed, and used as a stranger would."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from children import printed

pytestmark = pytest.mark.slow

PLUGIN = Path(__file__).resolve().parents[1] / "examples" / "plugin"
Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="session")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder into which the wheel of the example is installed."""
    wheels, target = tmp_path_factory.mktemp("wheels"), tmp_path_factory.mktemp("installed")
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(wheels)]
    subprocess.run(build, cwd=PLUGIN, check=True, capture_output=True)
    [wheel] = wheels.glob("*.whl")
    # A wheel is a zip archive; unpacking one of pure Python on the path is installing it.
    shutil.unpack_archive(wheel, target, "zip")
    return target


@pytest.fixture
def environment(installed: Path) -> dict[str, str]:
    """The variables of a program that finds the plug-in."""
    path = os.pathsep.join(filter(None, (str(installed), os.environ.get("PYTHONPATH", ""))))
    return {**os.environ, "PYTHONPATH": path, "COLUMNS": "200"}


@pytest.fixture
def run(environment: dict[str, str], tmp_path: Path) -> Run:
    """Runs a command with the plug-in installed, in a copy of its project."""
    shutil.copytree(PLUGIN / "desk", tmp_path / "desk")
    return lambda *words: printed(tmp_path / "desk", words, environment)


def document(done: subprocess.CompletedProcess[str]) -> Any:
    """The JSON that a command printed."""
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_it_passes_the_conformance_suites(environment: dict[str, str], tmp_path: Path) -> None:
    suites = str(PLUGIN / "tests")
    words = [suites, "-q", "-p", "no:cacheprovider", "--rootdir", suites]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *words],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        env=environment,
    )
    assert done.returncode == 0, done.stdout
    assert "[100%]" in done.stdout


def test_it_is_used_as_if_it_were_built_in(run: Run, tmp_path: Path) -> None:
    done = run("ingest", "--json")
    report = json.loads(done.stdout)
    assert report["documents"]["added"] == 3
    assert [failure["source"] for failure in report["failures"]] == ["2026.tickets:4"]

    hits = document(run("retrieve", "pump start", "--json"))["hits"]
    assert [hit["document_id"] for hit in hits[:2]] == ["2026.tickets#1", "2026.tickets#2"]
    assert {"keyword", "recency"} <= hits[0]["channels"].keys()
    explained = run("retrieve", "pump", "--explain").stdout
    assert "recency #1" in explained

    older = run("retrieve", "pump start", "--json", "--set", "recency.half_life=1000000")
    assert document(older)["hits"][0]["document_id"] == "2026.tickets#2"

    (tmp_path / "rows.jsonl").write_text(
        '{"user_input": "a", "response": "One. Two words."}\n{"user_input": "b"}\n'
    )
    rows = str(tmp_path / "rows.jsonl")
    scored = document(run("score", rows, "--measures", "WordsPerSentence", "--json"))
    measured = scored["measures"]["WordsPerSentence"]
    assert measured["mean"] == 1.5
    assert measured["states"]["not_applicable"] == 1

    assert run("tickets").stdout.split() == ["2", "pump", "1", "firmware", "1", "fuse", "1", "leak"]
    assert document(run("job", "run", "nightly", "--json"))


def test_a_promoted_configuration_keeps_its_settings(run: Run, tmp_path: Path) -> None:
    run("ingest", "-q")
    gold = {"user_input": "pump start", "reference_context_ids": ["2026.tickets#1"]}
    rows = [{**gold, "user_input": f"pump start {number}"} for number in range(12)]
    (tmp_path / "rows.jsonl").write_text("\n".join(map(json.dumps, rows)))
    testset = str(tmp_path / "rows.jsonl")
    asked = ("--testset", testset, "--retrieval-only", "--measures", "Recall@5", "--name", "first")
    document(run("eval", *asked, "--json"))
    assert run("promote", "first", "--gate", "Recall@5>=0.1").returncode == 0
    file = tmp_path / "desk" / "ragwright.yaml"
    file.write_text(file.read_text().replace("half_life: 730", "half_life: 1000000"))
    served = document(run("retrieve", "pump start", "--served", "--json"))["hits"]
    present = document(run("retrieve", "pump start", "--json"))["hits"]
    assert served[0]["document_id"] == "2026.tickets#1"
    assert present[0]["document_id"] == "2026.tickets#2"


def test_it_is_listed(run: Run) -> None:
    _, _, others = run("--help").stdout.partition("From installed packages:\n")
    assert others.split(maxsplit=1) == ["tickets", "Count the tickets of the index by tag.\n"]
    assert "WordsPerSentence" in run("measures").stdout
    output = run("doctor").stdout
    for name in ("tickets", "WordsPerSentence", "recency", "check-tickets"):
        assert name in output


def test_its_settings_are_settings_of_the_project(run: Run, tmp_path: Path) -> None:
    keys = {setting["key"] for setting in document(run("doctor", "--keys", "--json"))["keys"]}
    assert {"recency.half_life", "serve.port", "jobs.NAME.steps"} <= keys

    run("ingest")
    gold = {"document_id": "2026.tickets#1", "start": 0, "end": 9}
    row = {"user_input": "pump start", "split": "tune", "reference_spans": [gold]}
    (tmp_path / "desk" / "testset.jsonl").write_text(json.dumps(row) + "\n")
    (tmp_path / "desk" / "study.yaml").write_text(
        "study: {testset: testset.jsonl, measures: MRR@3, retrieval_only: true}\n"
        "recency: {half_life: [30, 1000000]}\n"
    )
    swept = document(run("sweep", "study.yaml", "--json"))
    assert len(swept["trials"]) == 3
    assert swept["trials"][0]["current"] == {"recency.half_life": 730.0}
    runs = [trial["run"] for trial in swept["trials"]]
    assert len(set(runs)) == 3
    wrong = run("retrieve", "pump", "--set", "recency.half_life=0")
    assert "recency.half_life must be above 0" in wrong.stderr
    changed = document(run("compare", *runs[1:], "--json"))["settings"]
    assert [change["key"] for change in changed] == ["recency.half_life"]


def test_a_package_that_fails_harms_nothing_else(run: Run, installed: Path, tmp_path: Path) -> None:
    broken = installed / "broken-1.0.dist-info"
    broken.mkdir()
    (broken / "METADATA").write_text("Metadata-Version: 2.1\nName: broken\nVersion: 1.0\n")
    (broken / "entry_points.txt").write_text(
        "[ragwright.commands]\nbroken = no_such_module:command\n"
        "tickets = no_such_module:hidden\n"
        "[ragwright.extensions]\nbroken = no_such_module:EXTENSION\n"
    )
    planted = tmp_path / "desk" / "no_such_module.py"
    planted.write_text("raise SystemExit('a file of the folder was imported')")
    try:
        assert run("--help").returncode == 0
        assert run("tickets", "--help").returncode == 0
        called = run("broken")
        assert called.returncode == 1
        assert "no_such_module" in called.stderr
        assert "a file of the folder" not in called.stderr
        assert "Traceback" not in called.stderr
        output = run("doctor").stdout
        assert "no_such_module" in output
    finally:
        shutil.rmtree(broken)


def test_settings_of_a_stage_are_under_the_name_of_its_class(
    run: Run, installed: Path, tmp_path: Path
) -> None:
    other = installed / "other-1.0.dist-info"
    other.mkdir()
    (other / "METADATA").write_text("Metadata-Version: 2.1\nName: other\nVersion: 1.0\n")
    (other / "entry_points.txt").write_text(
        "[ragwright.stages]\nageing = ragwright_tickets:Recency\n"
    )
    file = tmp_path / "desk" / "ragwright.yaml"
    file.write_text("sources: [2026.tickets]\nretrieve: {stages: [ageing]}\nageing: {half_life: 9}")
    try:
        assert "write its settings under recency:" in run("retrieve", "pump").stderr
        file.write_text(file.read_text().replace("ageing: {", "recency: {"))
        assert "recency" not in run("retrieve", "pump").stderr
    finally:
        shutil.rmtree(other)
