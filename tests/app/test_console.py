"""What a command decides does not depend on who reads what it prints."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ragwright.jobs import Jobs

pytestmark = pytest.mark.slow

GATE = ("gate", "a", "--rule", "ExactMatch>=0.99", "--least", "1")


@contextmanager
def nobody() -> Iterator[int]:
    """A pipe that nobody reads."""
    end, pipe = os.pipe()
    os.close(end)
    yield pipe
    os.close(pipe)


def unheard(folder: Path, *words: str, deaf: str = "both") -> tuple[int, str]:
    """Exit code of a command of whose streams (stdout, stderr, both) nobody hears; the rest."""
    with nobody() as pipe:
        done = subprocess.run(
            [sys.executable, "-W", "error", "-m", "ragwright", *words],
            cwd=folder,
            stdout=subprocess.PIPE if deaf == "stderr" else pipe,
            stderr=subprocess.PIPE if deaf == "stdout" else pipe,
            text=True,
            check=False,
        )
    return done.returncode, (done.stdout or "") + (done.stderr or "")


def project(folder: Path, settings: str = "sources: []\n") -> Path:
    (folder / "ragwright.yaml").write_text(settings, "utf-8")
    return folder


@pytest.mark.parametrize("deaf", ["stdout", "both"])
def test_a_gate_that_fails_fails_unheard(tmp_path: Path, deaf: str) -> None:
    row = {"user_input": "Why?", "response": "No.", "reference": "Yes."}
    (project(tmp_path) / "rows.jsonl").write_text(json.dumps(row), "utf-8")
    scored = ("score", "rows.jsonl", "--measures", "ExactMatch", "--name", "a")
    assert unheard(tmp_path, *scored, deaf=deaf)[0] == 0
    code, said = unheard(tmp_path, *GATE, deaf=deaf)
    assert (code, said) == (100, "")


@pytest.mark.parametrize("deaf", ["stdout", "stderr", "both"])
def test_a_job_that_fails_fails_unheard_and_is_written_down(tmp_path: Path, deaf: str) -> None:
    project(
        tmp_path,
        "jobs:\n  a:\n    steps: [score nowhere.jsonl --measures ExactMatch]\n"
        "    notify: {failure: ['json://127.0.0.1:9/']}\n",
    )
    code, said = unheard(tmp_path, "job", "run", "a", deaf=deaf)
    assert code == 1
    assert "Traceback" not in said
    (run,) = Jobs(tmp_path).history()
    assert run.state == "failed"
    assert "nowhere.jsonl" in run.steps[0].output
    assert [one.sent for one in run.notices] == [False]  # tried, and written down


def test_an_error_is_an_error_unheard(tmp_path: Path) -> None:
    assert unheard(tmp_path, "doctor")[0] == 1
    assert unheard(tmp_path, "outputs", "list", deaf="stderr") == (1, "")
    assert unheard(project(tmp_path), "retrieve", "--no-such-flag", deaf="stdout")[0] == 2


def test_a_stream_that_the_shell_closed_is_no_fault(tmp_path: Path) -> None:
    folder = project(tmp_path)
    line = f"{sys.executable} -m ragwright outputs list >&- 2>&-"
    done = subprocess.run(["/bin/sh", "-c", line], cwd=folder, check=False)
    assert done.returncode == 0
