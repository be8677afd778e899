"""The scheduler under a clock of our own: changes of the clock, downtime, suspension, overlap."""

from __future__ import annotations

import threading
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from job_project import FakeClock, jobs_of, project_with, runner_in

from ragwright.jobs import JobRun, JobServer, ProjectJob, RunListener
from ragwright.ledger import FileLock
from ragwright.project import ProjectFolder

PARIS = ZoneInfo("Europe/Paris")
WEEKDAYS = "  a: {steps: [say x], schedule: 30 7 * * mon-fri, timezone: Europe/Paris}\n"


def at(text: str) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=PARIS).timestamp()


class Served:
    """A scheduler whose jobs end at once (or when they are told), and what it said and started.

    Every instance is a new process as far as the scheduler can know: what it knows is on disk.
    """

    def __init__(self, project: ProjectFolder, clock: FakeClock, look: float = 300.0) -> None:
        self.project, self.clock = project, clock
        self.lines: list[str] = []
        self.started: list[tuple[str, str, str]] = []
        self.hold = threading.Event()
        self.hold.set()
        self.runner = runner_in(project, clock)
        self.jobs = jobs_of(project)
        self.server = JobServer(self.runner, self.jobs, self.lines.append, run=self._run, look=look)

    def _run(
        self,
        job: ProjectJob,
        lock: FileLock,
        start: JobRun,
        hearing: RunListener,
        stop: threading.Event,
    ) -> JobRun:
        with lock:
            run = replace(start, id=self.runner.history.begin(start))
            local = datetime.fromtimestamp(start.started, PARIS).isoformat(timespec="minutes")
            self.started.append((job.name, start.trigger, local))
            while not self.hold.is_set() and not stop.is_set():
                self.hold.wait(0.01)
            return self.runner.end(job, run, "stopped" if stop.is_set() else "succeeded", "")

    def until(self, text: str) -> Served:
        """Serve until a moment in Paris; jobs that are not held end before the clock moves."""
        end = at(text)

        def each() -> None:
            if self.hold.is_set():
                for thread in threading.enumerate():
                    if thread.name.startswith("job-"):
                        thread.join()
            if self.clock.at >= end:
                self.server.signal()

        self.clock.each = each
        self.server.serve()
        return self

    def states(self) -> list[tuple[str, str]]:
        """Trigger and state of every run in the history, oldest first."""
        return [(run.trigger, run.state) for run in reversed(self.runner.history.runs())]


NIGHTLY = "  a: {steps: [say x], schedule: 30 2 * * *, timezone: Europe/Paris}\n"
HOURLY = "  a: {steps: [say x], schedule: 0 * * * *, timezone: Europe/Paris}\n"


@pytest.mark.parametrize(
    ("jobs", "start", "end", "started"),
    [
        (WEEKDAYS, "2026-10-22T12:00", "2026-10-27T12:00",
            "2026-10-23T07:30+02:00 2026-10-26T07:30+01:00 2026-10-27T07:30+01:00"),
        (NIGHTLY, "2027-03-27T12:00", "2027-03-29T12:00",
            "2027-03-28T03:00+02:00 2027-03-29T02:30+02:00"),
        (WEEKDAYS, "2026-11-20T08:00", "2026-11-20T20:00", ""),  # nothing was missed before
    ],
)  # fmt: skip
def test_jobs_start_on_the_minute_across_both_changes_of_the_clock(
    tmp_path: Path, jobs: str, start: str, end: str, started: str
) -> None:
    served = Served(project_with(tmp_path, jobs), FakeClock(at(start))).until(end)
    assert served.started == [("a", "schedule", moment) for moment in started.split()]
    if not started:
        assert any("next run Mon 2026-11-23 07:30:00 CET" in line for line in served.lines)


@pytest.mark.parametrize(
    ("from_", "again"),
    [
        ("2026-11-16T12:00", "2026-11-20T10:00"),  # three were missed
        ("2026-11-19T12:00", "2026-11-22T18:00"),  # Friday's, and it is Sunday
    ],
    ids=["once", "never too late"],
)
def test_a_missed_run_is_caught_up_once_after_downtime(
    tmp_path: Path, from_: str, again: str
) -> None:
    project, clock = project_with(tmp_path, WEEKDAYS), FakeClock(at(from_))
    Served(project, clock).until("2026-11-17T12:00" if "16" in from_ else "2026-11-19T13:00")
    clock.at = at(again)
    served = Served(project, clock).until(f"{again[:11]}23:00")
    assert served.started == [("a", "catch-up", f"{again}+01:00")]
    assert served.states()[-1] == ("catch-up", "succeeded")
    assert served.runner.history.runs("a", 1)[0].due == at("2026-11-20T07:30")
    # another start knows from the history that it was caught up
    assert Served(project, clock).until(f"{again[:11]}23:59").started == []


def test_a_catch_up_that_was_cut_off_is_not_done_again(tmp_path: Path) -> None:
    project, clock = project_with(tmp_path, WEEKDAYS), FakeClock(at("2026-11-19T12:00"))
    served = Served(project, clock).until("2026-11-19T13:00")
    morning = (at("2026-11-20T09:00"), at("2026-11-20T07:30"))
    served.runner.history.begin(JobRun("a", "catch-up", *morning))
    clock.at = at("2026-11-20T10:00")
    served = Served(project, clock).until("2026-11-20T12:00")
    assert (served.started, served.states()) == ([], [("catch-up", "cut off")])
    assert any("run 1 was cut off" in line for line in served.lines)


def test_a_clock_that_is_set_back_repeats_nothing(tmp_path: Path) -> None:
    project, clock = project_with(tmp_path, HOURLY), FakeClock(at("2026-11-19T11:59"))
    assert len(Served(project, clock).until("2026-11-19T12:05").started) == 1
    clock.at = at("2026-11-19T11:50")
    assert len(Served(project, clock).until("2026-11-19T12:55").started) == 0
    # a history from next year was written under a wrong clock, and stops nothing
    clock.at = at("2027-11-19T11:59")
    Served(project, clock).until("2027-11-19T12:05")
    clock.at = at("2026-11-19T14:30")
    assert len(Served(project, clock).until("2026-11-19T15:05").started) == 1


def test_a_job_does_not_overlap_with_itself_while_others_go_on(tmp_path: Path) -> None:
    jobs = (
        "  a: {steps: [say x], schedule: '*/10 * * * *'}\n"
        "  b: {steps: [say x], schedule: '5 * * * *'}\n"
    )
    clock = FakeClock(at("2026-11-19T11:59"))
    served = Served(project_with(tmp_path, jobs), clock)
    served.hold.clear()

    def until_started(count: int) -> None:
        while len(served.started) < count:
            served.hold.wait(0.01)

    served.server.tick()
    clock.at = at("2026-11-19T12:00")
    served.server.tick()
    until_started(1)
    clock.at = at("2026-11-19T12:05")
    served.server.tick()
    until_started(2)
    clock.at = at("2026-11-19T12:10")
    served.server.tick()
    assert [run[0] for run in served.started] == ["a", "b"]
    skipped = served.runner.history.runs("a", 1)[0]
    assert (skipped.state, skipped.reason) == ("skipped", "the previous run has not ended")
    served.hold.set()
    served.until("2026-11-19T12:21")
    assert [run[0] for run in served.started] == ["a", "b", "a"]


def test_a_job_that_runs_elsewhere_is_skipped_and_said_so(tmp_path: Path) -> None:
    project, clock = project_with(tmp_path, WEEKDAYS), FakeClock(at("2026-11-19T12:00"))
    served = Served(project, clock)
    lock = runner_in(project, clock).take(jobs_of(project)["a"], "by hand")
    assert lock is not None
    with lock:
        served.until("2026-11-20T08:00")
    assert served.states() == [("schedule", "skipped")]
    assert any("is running already: by hand, by process" in line for line in served.lines)


def test_the_first_signal_waits_for_the_job_and_the_second_ends_it(tmp_path: Path) -> None:
    clock = FakeClock(at("2026-11-20T07:29"))
    served = Served(project_with(tmp_path, WEEKDAYS), clock, look=60)
    served.hold.clear()
    signals = {at("2026-11-20T07:32"), at("2026-11-20T07:35")}

    def each() -> None:
        due = {moment for moment in signals if moment <= clock.at}
        for _ in due:
            served.server.signal()
        signals.difference_update(due)
        threading.Event().wait(0.001)

    clock.each = each
    served.server.serve()
    assert "ending after a; again to end at once" in served.lines
    assert "ending at once" in served.lines
    assert served.states() == [("schedule", "stopped")]


def test_a_schedule_that_was_changed_back_has_missed_nothing(tmp_path: Path) -> None:
    clock = FakeClock(at("2026-11-19T12:00"))
    Served(project_with(tmp_path, WEEKDAYS), clock).until("2026-11-19T13:00")
    Served(project_with(tmp_path, WEEKDAYS.replace("30 7", "30 9")), clock).until(
        "2026-11-19T14:00"
    )
    clock.at = at("2026-11-20T08:00")
    assert Served(project_with(tmp_path, WEEKDAYS), clock).until("2026-11-20T09:00").started == []


def test_a_log_that_cannot_be_written_ends_neither_scheduler_nor_jobs(tmp_path: Path) -> None:
    """And a fault within a run is said and ends no other."""
    served = Served(project_with(tmp_path, WEEKDAYS), FakeClock(at("2026-11-18T12:00")))
    faults: list[Exception] = [BrokenPipeError(), RuntimeError("a fault of ours")]

    def said(line: str) -> None:
        if line.endswith("CET") and len(faults) == 2:
            raise faults.pop(0)
        served.lines.append(line)

    def faulty(*given: Any) -> JobRun:
        if len(faults) == 1:
            raise faults.pop()
        return served._run(*given)

    served.server = JobServer(served.runner, served.jobs, said, run=faulty, look=1800)
    served.until("2026-11-20T12:00")
    assert faults == []
    assert any("failed: RuntimeError('a fault of ours')" in line for line in served.lines)
    assert served.states() == [("schedule", "succeeded")]
