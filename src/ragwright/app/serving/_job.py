"""`ragwright job`."""

from __future__ import annotations

import signal
from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

import typer
import typer.main
from typer import Argument, Option

from ...core import suggest_name
from ...jobs import (
    JobCall,
    JobRun,
    Jobs,
    ListedJob,
    NoticeSent,
    run_added_step,
    run_lines,
    write_time,
)
from .._commands import command_line
from .._console import EXIT_ERROR, table
from .._flags import Flags, takes


def line_problem(words: Sequence[str]) -> str:
    """Return the fault of a command line (command, flags, values); empty if there is none."""
    command: Any = typer.main.get_command(command_line(words[:1]))
    rest = list(words)
    called = "ragwright"
    while (commands := getattr(command, "commands", None)) is not None:
        name = rest.pop(0) if rest else ""
        if name not in commands:
            return f"{called} has no command {name!r} ({suggest_name(name, commands)})"
        command, called = commands[name], f"{called} {name}"
    if "--help" in rest:
        return "it only prints its help"
    try:
        command.make_context(called, rest)
    except Exception as error:
        return str(getattr(error, "format_message", error.__str__)())
    return ""


group = typer.Typer(
    help="Run scheduled jobs and show past runs.",
    no_args_is_help=True,
)

_NAME = Argument(help="Name of the job, a key under `jobs`.")


@group.command("run")
@takes("project as_json quiet")
def job_run(
    flags: Flags,
    name: str = _NAME,
    switches: list[str] | None = Option(
        None, "--flag", metavar="NAME[=false]", help="Turn a flag of the job on, or off."
    ),
    wait: bool = Option(False, "--wait", help="Wait if the job is already running."),
) -> int:
    """Run a job now.

    Exit code: 0, the 100 or 101 of its last step, or 1.
    """
    console = flags.console
    call = JobCall(tuple(switches or ()), wait, console.remark, console.remark)
    run = Jobs(flags.project, line_problem).run(name, call)
    console.show(lambda: _document(run), lambda: "\n".join([f"job      {name}", *run_lines(run)]))
    return run.code


@group.command("step")
@takes("project")
def job_step(
    flags: Flags,
    name: str = Argument(help="Name of a step of an installed package."),
    arguments: list[str] | None = Argument(None, help="Arguments of the step."),
) -> int:
    """Run a step that an installed package adds.

    The exit code is that of the step.
    """
    return run_added_step(name, tuple(arguments or ()), flags.project)


@group.command("serve")
@takes("project")
def job_serve(flags: Flags) -> None:
    """Start jobs on schedule until Ctrl-C.

    The first Ctrl-C waits for the running jobs; a second one ends at once.
    """
    server, lock = Jobs(flags.project, line_problem).server(flags.console.remark)
    with lock:
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: server.signal())
        server.serve()


@group.command("list")
@takes("project as_json")
def job_list(flags: Flags) -> None:
    """List the jobs.

    Each has its next run and the result of the last one.
    """
    jobs = Jobs(flags.project).listed()
    rows = [["job", "schedule", "next run", "last run", "it"]]
    for job in jobs:
        options = job.job.options
        due = "by hand" if job.next_run is None else write_time(job.next_run, options.timezone)
        last = "never" if job.last is None else _started(job.last)
        ended = "" if job.last is None else job.last.state
        rows.append([job.job.name, options.schedule, due, last, ended])
    flags.console.show(lambda: {"jobs": [_listed(job) for job in jobs]}, lambda: table(rows))


@group.command("history")
@takes("project as_json")
def job_history(
    flags: Flags,
    name: str = Argument("", help="Name of a job; all by default."),
    last: int = Option(20, "-n", "--last", min=1, help="Maximum number of runs to list."),
    number: int | None = Option(None, "--run", min=1, help="Show this run in full."),
) -> None:
    """List past runs of the jobs.

    It says when and why each ran, how it ended, and shows every step and notice.
    """
    runs = Jobs(flags.project).history(name, -1 if number else last)
    if number:
        runs = [run for run in runs if run.id == number]
    flags.console.show(
        lambda: {"runs": [_document(run) for run in runs]}, lambda: _runs_text(runs, bool(number))
    )


def _runs_text(runs: Sequence[JobRun], in_full: bool) -> str:
    if not runs:
        return "no such run" if in_full else "no runs yet: ragwright job run NAME"
    if not in_full:
        return table(_table(runs), right=(0,))
    (run,) = runs
    lines = [f"job      {run.start.job}", *run_lines(run)]
    notices = [f"  {_notice(notice)}" for notice in run.notices]
    return "\n".join([*lines, *(["", "notices", *notices] if notices else [])])


@group.command("test-notice")
@takes("project as_json")
def job_test_notice(flags: Flags, name: str = _NAME) -> int:
    """Send a test notice to a job's addresses.

    Exit code 1 if one fails.
    """
    notices = Jobs(flags.project, line_problem).test_notice(name)
    flags.console.show(
        lambda: {"notices": [asdict(notice) for notice in notices]},
        lambda: "\n".join(map(_notice, notices)),
    )
    return 0 if all(notice.sent for notice in notices) else EXIT_ERROR


def _table(runs: Sequence[JobRun]) -> list[list[str]]:
    rows = [["run", "job", "started", "seconds", "started by", "result", "notices"]]
    for run in runs:
        took = "" if run.ended is None else f"{run.ended - run.start.started:.1f}"
        result = f"{run.state}: {run.reason}" if run.reason else run.state
        sent = sum(notice.sent for notice in run.notices)
        notices = f"{sent} of {len(run.notices)}" if run.notices else ""
        rows.append([str(run.id), run.start.job, _started(run), took, run.start.trigger])
        rows[-1] += [result, notices]
    return rows


def _started(run: JobRun) -> str:
    return write_time(run.start.started, run.start.timezone)


def _notice(notice: NoticeSent) -> str:
    return f"{notice.address}: {'sent' if notice.sent else f'not sent: {notice.reason}'}"


def _listed(job: ListedJob) -> dict[str, Any]:
    options = job.job.options
    return {
        "name": job.job.name,
        "schedule": options.schedule,
        "timezone": options.timezone,
        "next_run": _iso(job.next_run, options.timezone),
        "steps": [step.run for step in options.steps],
        "flags": dict(options.flags),
        "last": None if job.last is None else _document(job.last),
    }


def _document(run: JobRun) -> dict[str, Any]:
    """A run as JSON; times are ISO 8601 in the job's time zone."""
    start = run.start
    steps = [
        {
            "step": step.step,
            "attempt": step.attempt,
            "run": step.line,
            "started": _iso(step.started, start.timezone),
            "seconds": step.seconds,
            "exit_code": step.code,
            "outcome": step.state,
            "output": step.output,
        }
        for step in run.steps
    ]
    return {
        "run": run.id,
        "job": start.job,
        "trigger": start.trigger,
        "due": _iso(start.due, start.timezone),
        "started": _iso(start.started, start.timezone),
        "ended": _iso(run.ended, start.timezone),
        "outcome": run.state,
        "reason": run.reason,
        "flags": dict(start.flags),
        "attempts": run.attempts,
        "steps": steps,
        "notices": [asdict(notice) for notice in run.notices],
    }


def _iso(at: float | None, timezone: str) -> str | None:
    if at is None:
        return None
    return datetime.fromtimestamp(at, ZoneInfo(timezone)).isoformat(timespec="seconds")
