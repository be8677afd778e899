"""`ragwright job`, as a person or a service manager calls it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from command_line import ragwright
from waiting import wait_until

from ragwright.app import line_problem
from ragwright.core import ConfigError, JobError
from ragwright.jobs import JobRunner, Jobs
from ragwright.project import ProjectFolder

pytestmark = pytest.mark.slow

SLOW = """
import pathlib, time
pathlib.Path("begun.txt").touch()
while not pathlib.Path("go.txt").exists():
    time.sleep(0.05)
class Reader:
    pass
"""
WAITING = "sources: [{source: x.slow, reader: 'slow:Reader'}]\n"
"""A project whose `ingest` waits until the file go.txt is there (and fails then)."""


def project(folder: Path, jobs: str, sources: str = "sources: [docs/]\n") -> Path:
    (folder / "docs").mkdir(exist_ok=True)
    (folder / "docs" / "a.md").write_text("# One\n\nThe filter is changed every year.\n", "utf-8")
    (folder / "slow.py").write_text(SLOW, "utf-8")
    (folder / "ragwright.yaml").write_text(sources + jobs, "utf-8")
    return folder


def told(folder: Path, *words: str, code: int = 0) -> Any:
    return json.loads(ragwright(folder, *words, "--json", code=code).stdout)


def started(folder: Path, *words: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-W", "error", "-m", "ragwright", *words],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "COLUMNS": "120"},
    )


def test_a_job_is_run_listed_and_looked_back_on(tmp_path: Path) -> None:
    folder = project(
        tmp_path,
        "jobs:\n  nightly:\n    flags: {shown: false}\n    schedule: 30 7 * * mon-fri\n"
        "    timezone: Europe/Paris\n    steps: [ingest -q, {run: cache show, when: shown}]\n",
    )
    listed = told(folder, "job", "list")["jobs"]
    assert listed[0]["name"] == "nightly"
    assert listed[0]["last"] is None
    assert "T07:30:00+0" in listed[0]["next_run"]
    run = told(folder, "job", "run", "nightly", "--flag", "shown")
    assert (run["outcome"], run["trigger"], run["attempts"]) == ("succeeded", "by hand", 1)
    assert [step["exit_code"] for step in run["steps"]] == [0, 0]
    assert "replies" in run["steps"][1]["output"]
    assert told(folder, "job", "history")["runs"] == [run]
    assert "2. cache show: succeeded" in ragwright(folder, "job", "history", "--run", "1").stdout


def test_a_failed_step_ends_the_job_with_its_output(tmp_path: Path) -> None:
    folder = project(tmp_path, "jobs:\n  a: {steps: [score nowhere.jsonl --measures ExactMatch]}\n")
    done = ragwright(folder, "job", "run", "a", code=1)
    assert "failed: step 1" in done.stdout
    assert "nowhere.jsonl" in done.stdout
    assert "error:" in done.stderr  # what the step printed, as it printed it


def test_what_is_wrong_is_said_before_anything_runs(tmp_path: Path) -> None:
    folder = project(tmp_path, "")
    assert "this project has no jobs" in ragwright(folder, "job", "list", code=1).stderr
    project(
        tmp_path,
        "jobs:\n  a:\n    steps:\n      - ingest\n      - ingst -q\n  b: {steps: [ingest]}\n"
        "  c:\n    steps: [ingest]\n    schedule: 61 * * * *\n",
    )
    said = ragwright(folder, "job", "run", "a", code=1).stderr
    assert "ragwright.yaml:6" in said
    assert "did you mean 'ingest'?" in said
    jobs = Jobs(folder, line_problem)
    with pytest.raises(ConfigError, match="is invalid in the schedule") as caught:
        jobs.job("c")
    assert caught.value.where == "ragwright.yaml:10"
    with pytest.raises(JobError, match="unknown job 'bb'"):
        jobs.run("bb")
    with pytest.raises(ConfigError, match="has no flag 'x'"):
        jobs.run("b", ("x",))
    assert ragwright(folder, "job", "history").stdout.startswith("no runs yet")
    said = ragwright(folder, "doctor", code=1).stdout
    assert "ragwright.yaml:6" in said
    assert "ragwright.yaml:10" in said


@pytest.mark.parametrize(
    ("line", "part"),
    [
        (("ingest", "docs", "--prune"), ""),
        (("cache", "show"), ""),
        (("cache",), "no command ''"),
        (("cache", "shw"), "did you mean 'show'?"),
        (("records", "refrsh"), "did you mean 'refresh'?"),
        (("retrieve",), "Missing argument"),
        (("ingest", "--prnue"), "--prune"),
        (("ingest", "-j", "many"), "valid integer"),
        (("ingest", "--help"), "prints its help"),
    ],
)
def test_command_lines_are_judged_without_running_them(line: tuple[str, ...], part: str) -> None:
    problem = line_problem(line)
    assert (part in problem) if part else not problem


def test_a_job_that_runs_already_is_refused_or_waited_for(tmp_path: Path) -> None:
    folder = project(tmp_path, "jobs:\n  a: {steps: [cache show]}\n")
    lock = JobRunner(ProjectFolder(folder)).take(Jobs(folder).planned["a"], "schedule")
    assert lock is not None
    said = ragwright(folder, "job", "run", "a", code=1).stderr
    assert f"running already: schedule, by process {os.getpid()}" in said
    other = started(folder, "job", "run", "a", "--wait")
    assert other.stderr is not None
    assert "waiting for it" in other.stderr.readline()
    lock.release()
    out, _ = other.communicate(timeout=60)
    assert other.returncode == 0
    assert "succeeded" in out


def test_a_run_by_hand_that_is_ended_ends_its_step(tmp_path: Path) -> None:
    folder = project(tmp_path, "jobs:\n  a: {steps: [ingest]}\n", WAITING)
    process = started(folder, "job", "run", "a")
    wait_until((folder / "begun.txt").exists)
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=60)
    assert process.returncode == 143
    (run,) = Jobs(folder).history()
    assert (run.state, run.reason) == ("stopped", "stopped by hand")
    lock = JobRunner(ProjectFolder(folder)).take(Jobs(folder).planned["a"], "by hand")
    assert lock is not None  # the step is gone, too
    lock.release()


def missed(folder: Path) -> Path:
    """A project with a job that was due half an hour ago, while nothing was serving."""
    schedule = f"{int(time.time() // 60 + 30) % 60} * * * *"
    made = project(folder, f"jobs:\n  a: {{steps: [ingest], schedule: {schedule}}}\n", WAITING)
    JobRunner(ProjectFolder(made)).history.since("a", f"{schedule} UTC", time.time() - 7200)
    return made


def test_the_scheduler_catches_up_and_ends_after_the_running_job(tmp_path: Path) -> None:
    folder = missed(tmp_path)
    served = started(folder, "job", "serve")
    wait_until((folder / "begun.txt").exists)
    said = ragwright(folder, "job", "serve", code=1).stderr
    assert f"already served by process {served.pid}" in said
    served.send_signal(signal.SIGTERM)
    time.sleep(1.0)
    assert served.poll() is None  # the job is not over
    (folder / "go.txt").touch()
    _, heard = served.communicate(timeout=60)
    assert served.returncode == 0
    lines = heard.splitlines()
    assert "a: next run" in lines[0]
    assert lines[1].endswith("a: started (catch-up)")
    assert lines[2] == "ending after a; again to end at once"
    assert "a: failed: step 1 (ingest) ended with exit code 1" in lines[3]
    (run,) = Jobs(folder).history()
    assert (run.trigger, run.state) == ("catch-up", "failed")


def test_a_second_signal_ends_the_running_job_at_once(tmp_path: Path) -> None:
    folder = missed(tmp_path)
    served = started(folder, "job", "serve")
    wait_until((folder / "begun.txt").exists)
    served.send_signal(signal.SIGINT)
    time.sleep(0.2)
    served.send_signal(signal.SIGINT)
    _, heard = served.communicate(timeout=60)
    assert served.returncode == 0
    assert "ending at once" in heard
    assert [run.state for run in Jobs(folder).history()] == ["stopped"]


def test_a_scheduler_with_nothing_to_do_says_so(tmp_path: Path) -> None:
    folder = project(tmp_path, "jobs:\n  a: {steps: [ingest]}\n")
    assert "no job has a schedule" in ragwright(folder, "job", "serve", code=1).stderr


def test_notices_can_be_tried(tmp_path: Path) -> None:
    folder = project(
        tmp_path,
        "jobs:\n  a: {steps: [ingest], notify: {failure: ['${HOOK}']}}\n  b: {steps: [ingest]}\n",
    )
    found = told(folder, "job", "test-notice", "a", code=1)["notices"]
    assert found == [
        {
            "address": "${HOOK}",
            "sent": False,
            "reason": "the environment variable HOOK is not set",
        }
    ]
    assert "has no notice addresses" in ragwright(folder, "job", "test-notice", "b", code=1).stderr
