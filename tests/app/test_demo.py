from __future__ import annotations

import os
import subprocess
import sys
import venv
from pathlib import Path

import pytest

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
