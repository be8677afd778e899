"""Runs of jobs with real child processes: retries, limits, locks, kill -9."""

from __future__ import annotations

import os
import signal
import sqlite3
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest
from children import started
from job_project import FakeClock, jobs_of, project_with, ran, run_alone, run_job, runner_in
from waiting import wait_until

from ragwright.jobs import Clock


def steps_ran(folder: Path) -> list[str]:
    return (folder / "ran.txt").read_text().splitlines()


def alive(pid: int) -> bool:
    """True where a process runs (one that has ended and waits for its parent does not)."""
    try:
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False


def test_steps_run_in_order_in_the_project_folder_and_are_written_down(tmp_path: Path) -> None:
    heard: list[str] = []
    run = ran(
        tmp_path,
        "  a: {steps: [say one, 'say \"two words\"']}\n",
        hears=(heard.append, heard.append),
    )
    assert (run.state, run.code, run.attempts) == ("succeeded", 0, 1)
    assert steps_ran(tmp_path) == ["say one", "say two words"]
    assert [(s.line, s.state, s.code, s.output) for s in run.steps] == [
        ("say one", "succeeded", 0, "one"),
        ('say "two words"', "succeeded", 0, "two words"),
    ]
    assert heard[:3] == ["started (by hand)", "one", "two words"]


def test_a_flag_leaves_a_step_out(tmp_path: Path) -> None:
    jobs = "  a: {flags: {fresh: false}, steps: [{run: say one, when: fresh}, say two]}\n"
    run = ran(tmp_path, jobs)
    assert [step.state for step in run.steps] == ["skipped", "succeeded"]
    assert steps_ran(tmp_path) == ["say two"]
    run = ran(tmp_path, jobs, "fresh")
    assert [step.state for step in run.steps] == ["succeeded", "succeeded"]
    assert run.flags == {"fresh": True}


LATE = "step 1 (fail 1) ended with exit code 1; no time was left for a retry"


@pytest.mark.parametrize(
    ("job", "state", "code", "attempts", "reason"),
    [
        ("steps: [fail 7, say x]", "failed", 1, 1, "step 1 (fail 7) ended with exit code 7"),
        ("steps: [die]", "failed", 1, 1, "step 1 (die) was killed by signal 9"),
        ("steps: [fail 1], retries: 2", "failed", 1, 3, "step 1 (fail 1) ended with exit code 1"),
        ("steps: [fail 1], retries: 5, retry_wait: 60, timeout: 30", "failed", 1, 1, LATE),
        # a wrong command line and a result are not tried again; a result is that of the job
        ("steps: [fail 2], retries: 3", "failed", 1, 1, "step 1 (fail 2) ended with exit code 2"),
        ("steps: [fail 100], retries: 3", "gate failed", 100, 1, ""),
        ("steps: [fail 101], retries: 3", "not trusted", 101, 1, ""),
        ("steps: [say x], timeout: .inf", "succeeded", 0, 1, ""),
    ],
)
def test_a_failed_step_ends_the_job(
    tmp_path: Path, job: str, state: str, code: int, attempts: int, reason: str
) -> None:
    run = ran(tmp_path, f"  a: {{{job}}}\n")
    assert (run.state, run.code, run.attempts) == (state, code, attempts)
    assert run.reason.startswith(reason)
    assert len(steps_ran(tmp_path)) == attempts
    if "fail 7" in job:
        assert run.steps[-1].output == "this went wrong"


def test_a_job_is_tried_again_from_the_step_that_failed(tmp_path: Path) -> None:
    clock = FakeClock()
    jobs = "  a: {steps: [say one, once 2, say three], retries: 2, retry_wait: 60}\n"
    run = ran(tmp_path, jobs, clock=clock)
    assert (run.state, run.attempts) == ("succeeded", 3)
    assert clock.waits == [60, 60]
    assert steps_ran(tmp_path) == ["say one", "once 2", "once 2", "once 2", "say three"]
    assert [(s.step, s.attempt) for s in run.steps] == [(1, 1), (2, 1), (2, 2), (2, 3), (3, 3)]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("limits", "reason"),
    [
        ("timeout: 0.8", "the job took longer than 0.8 s, in step 1"),
        ("timeout: 60", "step 1 (sleep) took longer than its limit"),
    ],
)
def test_the_time_limit_kills_a_step_with_its_children(
    tmp_path: Path, limits: str, reason: str
) -> None:
    step = "{run: sleep, timeout: 0.8}" if limits.endswith("60") else "sleep"
    run = ran(tmp_path, f"  a: {{steps: [{step}, say two], {limits}}}\n")
    assert (run.state, run.code, run.reason) == ("timed out", 1, reason)
    assert run.steps[0].code is None
    assert run.steps[0].output == "sleeping"
    child = int((tmp_path / "child.txt").read_text())
    wait_until(lambda: not alive(child))


def test_a_stop_ends_the_running_step_at_once(tmp_path: Path) -> None:
    project = project_with(tmp_path, "  a: {steps: [sleep]}\n")
    job, stop = jobs_of(project)["a"], threading.Event()
    with ThreadPoolExecutor(1) as pool:
        work = pool.submit(run_job, runner_in(project), job, "schedule", stop=stop)
        wait_until((tmp_path / "child.txt").exists)
        stop.set()
        assert (work.result(10).state, work.result().code) == ("stopped", 130)


def test_a_job_runs_once_at_a_time_and_says_who_runs_it(tmp_path: Path) -> None:
    project = project_with(tmp_path, "  a: {steps: [say x], timezone: Europe/Paris}\n")
    job, runner = jobs_of(project)["a"], runner_in(project)
    assert runner.taken_by(job) == ""
    lock = runner.take(job, "schedule")
    assert lock is not None
    assert runner_in(project).take(job, "by hand") is None
    said = runner.taken_by(job)
    assert f"schedule, by process {os.getpid()} on " in said
    assert "since Fri 2027-01-15 09:00:00 CET" in said
    lock.release()
    assert runner.taken_by(job) == ""


@pytest.mark.slow
def test_a_killed_process_leaves_a_run_that_was_cut_off(tmp_path: Path) -> None:
    project = project_with(tmp_path, "  a: {steps: [sleep]}\n")
    job, runner = jobs_of(project)["a"], runner_in(project)
    other = started(run_alone, tmp_path)
    wait_until((tmp_path / "child.txt").exists)
    assert [run.state for run in runner.runs()] == ["running"]
    other.kill()
    other.join()
    # the step outlives its parent, and the job stays taken as long as it does
    assert runner.take(job, "by hand") is None
    assert [run.state for run in runner.runs()] == ["running"]
    said = runner.taken_by(job)
    assert f"schedule, by process {other.pid} on " in said
    assert said.endswith("that process has ended, but one of its steps still runs")
    child = int((tmp_path / "child.txt").read_text())
    step = int(Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()[1])
    os.killpg(step, signal.SIGKILL)
    wait_until(lambda: not runner.taken_by(job))
    assert [(run.state, run.ended) for run in runner.runs()] == [("cut off", None)]
    project_with(tmp_path, "  a: {steps: [say x]}\n")
    job = jobs_of(project)["a"]
    heard: list[str] = []
    run_job(runner, job, hears=[heard.append])
    assert [run.state for run in runner.runs()] == ["succeeded", "cut off"]
    assert heard[0] == "run 1 was cut off"
    assert runner.history.open("a") == []


def test_only_the_newest_runs_are_kept(tmp_path: Path) -> None:
    ran(tmp_path, "  a: {steps: [say x]}\n")
    project = project_with(tmp_path, "  a: {steps: [say x]}\n")
    with closing(sqlite3.connect(project.ledger)) as ledger, ledger:
        columns = [row[1] for row in ledger.execute("PRAGMA table_info(job_runs)")]
        others = ", ".join(f'"{name}"' for name in columns if name != "id")
        for number in range(2, 1002):
            ledger.execute(
                f"INSERT INTO job_runs (id, {others}) SELECT {number}, {others} FROM job_runs "
                "WHERE id = 1"
            )
    ran(tmp_path, "  a: {steps: [say x]}\n")
    ids = [run.id for run in runner_in(project).runs()]
    assert (ids[0], ids[-1], len(ids)) == (1002, 3, 1000)


def test_output_is_kept_to_its_last_lines(tmp_path: Path) -> None:
    words = "\\n".join(map(str, range(100)))
    run = ran(tmp_path, f"  a: {{steps: [\"say '{words}'\"]}}\n")
    kept = run.steps[0].output.splitlines()
    assert len(kept) == 40
    assert kept[-1] == "99"


@pytest.mark.slow
def test_who_hears_of_a_run_cannot_end_it(tmp_path: Path) -> None:
    """A log whose reader has gone: the step's output is read on, or it would wait for ever."""

    def gone(_: str) -> None:
        raise BrokenPipeError

    jobs = "  a: {steps: [flood 200000, fail 3], retries: 1, retry_wait: 1}\n"
    run = ran(tmp_path, jobs, hears=(gone, gone))
    assert (run.state, run.attempts) == ("failed", 2)
    assert run.steps[0].output.endswith("line 9999")
    assert run.steps[-1].output == "this went wrong"


def test_a_clock_waits_longer_than_any_table_can_hold() -> None:
    event = threading.Event()
    event.set()
    assert Clock().wait(event, 1e300)
