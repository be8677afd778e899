"""`ragwright report` from the command line."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from ragwright.app import command_line

ROWS = [
    {"id": f"q{n}", "user_input": f"Question {n}?", "response": text, "reference": "two years"}
    for n, text in enumerate(["Every two years.", "Once.", "Two years, says the manual."] * 4)
]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "ragwright.yaml").write_text("sources: [docs/]\n")
    (tmp_path / "rows.jsonl").write_text("\n".join(map(json.dumps, ROWS)))
    for name in ("one", "two"):
        called("score", "rows.jsonl", "--measures", "TokenF1", "--name", name, "-q")
    return tmp_path


def called(*words: str, code: int = 0) -> str:
    done = CliRunner().invoke(command_line(), list(words))
    assert done.exit_code == code, done.output
    return done.output


@pytest.mark.slow
def test_a_file_is_written_and_its_verdict_said(folder: Path) -> None:
    said = called("report", "one")
    assert "TokenF1 (0-1) is" in said
    assert "written to report.html" in said
    document = (folder / "report.html").read_text("utf-8")
    assert '"measures":["TokenF1"]' in document


def test_two_runs(folder: Path) -> None:
    said = called("report", "one", "two", "-o", "out/pair.html")
    assert "No difference between one and two is proven." in said
    assert (folder / "out" / "pair.html").exists()


@pytest.mark.slow
def test_json_and_csv(folder: Path) -> None:
    told = json.loads(called("report", "latest", "--json", "-q"))
    assert told["kind"] == "run"
    assert "histogram-TokenF1" in told["charts"]
    called("report", "one", "-o", "numbers.csv", "-q")
    [line] = csv.DictReader((folder / "numbers.csv").read_text().splitlines())
    assert float(line["mean"]) == told["entries"][0]["measures"]["TokenF1"]["mean"]
    called("report", "one", "-o", "numbers.json", "-q")
    assert json.loads((folder / "numbers.json").read_text())["title"] == told["title"]


@pytest.mark.slow
def test_pictures(folder: Path) -> None:
    called("report", "one", "--pictures", "charts", "-q")
    assert {path.suffix for path in (folder / "charts").iterdir()} == {".png", ".svg"}


def test_a_run_that_is_not_there(folder: Path) -> None:
    assert "unknown run 'three'" in called("report", "three", code=1)
