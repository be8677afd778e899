from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import venv
from pathlib import Path

import pytest

from ragwright.app import Console, _demo, _demo_full

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]


def demo(command: list[str], folder: Path) -> str:
    environment = {k: v for k, v in os.environ.items() if not k.endswith("_API_KEY")}
    done = subprocess.run(
        [*command, "demo"], cwd=folder, capture_output=True, text=True, env=environment
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_demo_answers_three_questions_for_two_personas(tmp_path: Path) -> None:
    shown = demo([sys.executable, "-c", "from ragwright.app import main; main()"], tmp_path)
    assert shown.count("[engineer]") == 3
    assert shown.count("[marketing]") == 3
    assert shown.count("sources:") == 6
    assert "Try next" in shown
    again = demo([sys.executable, "-c", "from ragwright.app import main; main()"], tmp_path)
    assert "0 added" in again


def test_the_sample_corpus_is_worth_reading() -> None:
    words = sum(len(p.read_text("utf-8").split()) for p in (ROOT / "docs" / "guide").glob("*.md"))
    assert words > 12_000  # about 25 printed pages


@pytest.mark.slow
def test_the_wheel_alone_runs_the_demo_in_an_empty_folder(tmp_path: Path) -> None:
    subprocess.run(
        [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "-w", tmp_path, ROOT],
        check=True,
    )
    [wheel] = tmp_path.glob("ragwright-*.whl")
    venv.create(tmp_path / "fresh", with_pip=True)
    fresh = tmp_path / "fresh" / "bin"
    subprocess.run([fresh / "python", "-m", "pip", "install", "--quiet", wheel], check=True)
    empty = tmp_path / "empty"
    empty.mkdir()
    assert "[engineer]" in demo([str(fresh / "ragwright")], empty)


def test_the_full_demo_ends_in_a_verdict_and_a_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pages = tmp_path / "guide"
    pages.mkdir()
    for name in ("chunking", "context", "statistics", "tokens"):
        shutil.copy(_demo.sample_corpus() / f"{name}.md", pages)
    monkeypatch.setattr(_demo, "sample_corpus", lambda: pages)
    monkeypatch.setattr(_demo_full, "QUESTIONS", 16)
    folder = tmp_path / "demo"
    _demo.run_demo(folder, Console(quiet=True), full=True)
    shown = capsys.readouterr().out
    assert "# Testset: 16 questions without a model" in shown
    assert "and 13 more trials, in the report" in shown
    [told] = re.findall(r"# Verdict \(.*\)\n\n(.*)", shown)
    report = Path(re.findall(r"open in a browser: (.*)", shown)[0])
    assert report == (folder / "report.html").resolve()
    page = report.read_text("utf-8")
    assert "src=http" not in page
    assert told.split(":")[0] in page
    openings = folder / "testsets" / "openings.jsonl"
    opened = openings.read_text() if openings.exists() else ""
    _demo.run_demo(folder, Console(quiet=True), full=True)
    again = capsys.readouterr().out
    assert "exists already and is used" in again
    assert told in again
    assert opened == (openings.read_text() if openings.exists() else "")
