"""A project with jobs, a clock that only moves when it is told, and steps that end as asked."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from ragwright.jobs import Clock, JobRun, JobRunner, Notices, ProjectJob, RunListener, project_jobs
from ragwright.project import ProjectFolder, load_settings

STEPS = """
import os, pathlib, signal, subprocess, sys, time
word, *rest = sys.argv[1:]
with open("ran.txt", "a") as file:
    file.write(" ".join(sys.argv[1:]) + chr(10))
if word == "say":
    print(*rest)
elif word == "fail":
    print("this went wrong")
    sys.exit(int(rest[0]))
elif word == "flood":
    print(*(f"line {n}" for n in range(int(rest[0]) // 20)), sep=chr(10))
elif word == "once":  # fails until it has failed so often
    left = pathlib.Path("left.txt")
    count = int(left.read_text()) if left.exists() else int(rest[0])
    left.write_text(str(count - 1))
    sys.exit(1 if count > 0 else 0)
elif word == "sleep":
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    print("sleeping", flush=True)  # first: whoever sees the file may end our reader
    pathlib.Path("child.txt").write_text(str(child.pid))
    time.sleep(600)
elif word == "die":
    os.kill(os.getpid(), signal.SIGKILL)
"""
PROGRAM = (sys.executable, "-c", STEPS)


class FakeClock(Clock):
    """A clock that moves when somebody waits or sleeps, and calls out before each sleep."""

    def __init__(self, at: float = 1_800_000_000.0) -> None:
        self.at = at
        self.waits: list[float] = []
        self.each: Callable[[], None] = lambda: None

    def now(self) -> float:
        return self.at

    def wait(self, event: threading.Event, seconds: float) -> bool:
        self.waits.append(seconds)
        self.at += seconds
        return event.is_set()

    def sleep(self, seconds: float) -> None:
        self.each()
        self.at += seconds


def project_with(folder: Path, jobs: str) -> ProjectFolder:
    (folder / "ragwright.yaml").write_text(f"sources: []\njobs:\n{jobs}", "utf-8")
    return ProjectFolder(folder)


def jobs_of(project: ProjectFolder) -> dict[str, ProjectJob]:
    return dict(project_jobs(load_settings(project.file)))


def runner_in(
    project: ProjectFolder,
    clock: Clock | None = None,
    notices: Notices | None = None,
    program: Sequence[str] = PROGRAM,
) -> JobRunner:
    return JobRunner(project, notices, clock or FakeClock(), program)


def run_job(
    runner: JobRunner,
    job: ProjectJob,
    trigger: Any = "by hand",
    flags: Sequence[str] = (),
    hears: Sequence[Callable[[str], None]] = (),
    stop: threading.Event | None = None,
) -> JobRun:
    lock = runner.take(job, trigger)
    assert lock is not None
    order = runner.start(job, trigger, None if trigger == "by hand" else 1.0, job.flags(flags))
    return runner.run(job, lock, order, RunListener(*hears), stop or threading.Event())


def ran(
    folder: Path,
    jobs: str,
    *flags: str,
    clock: Clock | None = None,
    notices: Notices | None = None,
    hears: Sequence[Callable[[str], None]] = (),
) -> JobRun:
    """The run of job `a` of these jobs: by hand, or by its schedule where notices are sent."""
    project = project_with(folder, jobs)
    runner, trigger = runner_in(project, clock, notices), "schedule" if notices else "by hand"
    return run_job(runner, jobs_of(project)["a"], trigger, flags, hears)


def run_alone(folder: Path) -> None:
    """Run job `a` of a project by its schedule and tell of it, for a process of its own."""
    project = ProjectFolder(folder)
    run_job(runner_in(project, Clock(), Notices()), jobs_of(project)["a"], "schedule")
