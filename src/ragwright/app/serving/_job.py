"""`ragwright job`."""

from __future__ import annotations

import signal
from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Any
from zoneinfo import ZoneInfo

import typer

from ...jobs import JobCall, JobRun, Jobs, ListedJob, run_added_step, run_lines, told_time
from .._console import EXIT_ERROR, Console, reported, table
from .._options import HERE, Json, Project, Quiet
from ._job_lines import line_problem

group = typer.Typer(
    help="Scheduled jobs: run one, start the scheduler, see past runs.",
    no_args_is_help=True,
)

Name = Annotated[str, typer.Argument(help="Name of the job, a key under `jobs`.")]
AnyName = Annotated[str, typer.Argument(help="Name of a job; all by default.")]
Flags = Annotated[
    list[str] | None,
    typer.Option("--flag", metavar="NAME[=false]", help="Turn a flag of the job on, or off."),
]
Wait = Annotated[bool, typer.Option("--wait", help="Wait if the job is already running.")]
Last = Annotated[int, typer.Option("-n", "--last", min=1, help="Most runs to list.")]
Number = Annotated[int | None, typer.Option("--run", min=1, help="Show this run in full.")]


@group.command("run")
@reported
def job_run(
    name: Name,
    flags: Flags = None,
    wait: Wait = False,
    project: Project = HERE,
    as_json: Json = False,
    quiet: Quiet = False,
) -> int:
    """Run a job now; its exit code is 0, the 100 or 101 of its last step, or 1."""
    console = Console(quiet)
    call = JobCall(tuple(flags or ()), wait, console.remark, console.remark)
    run = Jobs(project, line_problem).run(name, call)
    if as_json:
        console.json(_document(run))
    else:
        console.result("\n".join([f"job      {name}", *run_lines(run)]))
    return run.code


@group.command("step")
@reported
def job_step(
    name: Annotated[str, typer.Argument(help="Name of a step of an installed package.")],
    arguments: Annotated[list[str] | None, typer.Argument(help="Arguments of the step.")] = None,
    project: Project = HERE,
) -> int:
    """Run a step that an installed package adds; its exit code is the step's."""
    return run_added_step(name, tuple(arguments or ()), project)


@group.command("serve")
@reported
def job_serve(project: Project = HERE) -> None:
    """Start jobs on schedule; Ctrl-C ends it after the running jobs, a second Ctrl-C at once."""
    server, lock = Jobs(project, line_problem).server(Console().remark)
    with lock:
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: server.signal())
        server.serve()


@group.command("list")
@reported
def job_list(project: Project = HERE, as_json: Json = False) -> None:
    """List the jobs, with the next run and the result of the last one."""
    console = Console()
    listed = Jobs(project).listed()
    if as_json:
        console.json({"jobs": [_listed(one) for one in listed]})
        return
    rows = [["job", "schedule", "next run", "last run", "it"]]
    for one in listed:
        options = one.job.options
        due = "by hand" if one.next_run is None else told_time(one.next_run, options.timezone)
        last = "never" if one.last is None else _started(one.last)
        ended = "" if one.last is None else one.last.state
        rows.append([one.job.name, options.schedule, due, last, ended])
    console.result(table(rows))


@group.command("history")
@reported
def job_history(
    name: AnyName = "",
    last: Last = 20,
    number: Number = None,
    project: Project = HERE,
    as_json: Json = False,
) -> None:
    """List past runs: when, why, how they ended, every step and notice."""
    console = Console()
    runs = Jobs(project).history(name, -1 if number else last)
    if number:
        runs = [run for run in runs if run.id == number]
    if as_json:
        console.json({"runs": [_document(run) for run in runs]})
    elif not runs:
        console.result("no such run" if number else "no runs yet: ragwright job run NAME")
    elif number:
        lines = [f"job      {runs[0].start.job}", *run_lines(runs[0]), *_told(runs[0])]
        console.result("\n".join(lines))
    else:
        console.result(table(_table(runs), right=(0,)))


@group.command("test-notice")
@reported
def job_test_notice(name: Name, project: Project = HERE, as_json: Json = False) -> int:
    """Send a test notice to every address of a job; exit code 1 if one fails."""
    console = Console()
    sent = Jobs(project, line_problem).test_notice(name)
    if as_json:
        fields = ("address", "sent", "reason")
        console.json({"notices": [{f: getattr(one, f) for f in fields} for one in sent]})
    else:
        console.result("\n".join(_notice(one.address, one.sent, one.reason) for one in sent))
    return 0 if all(one.sent for one in sent) else EXIT_ERROR


def _table(runs: Sequence[JobRun]) -> list[list[str]]:
    rows = [["run", "job", "started", "seconds", "started by", "result", "notices"]]
    for run in runs:
        took = "" if run.ended is None else f"{run.ended - run.start.started:.1f}"
        result = f"{run.state}: {run.reason}" if run.reason else run.state
        sent = sum(notice.sent for notice in run.notices)
        told = f"{sent} of {len(run.notices)}" if run.notices else ""
        rows.append([str(run.id), run.start.job, _started(run), took, run.start.trigger])
        rows[-1] += [result, told]
    return rows


def _started(run: JobRun) -> str:
    return told_time(run.start.started, run.start.timezone)


def _told(run: JobRun) -> list[str]:
    told = [f"  {_notice(one.address, one.sent, one.reason)}" for one in run.notices]
    return ["", "notices", *told] if told else []


def _notice(address: str, sent: bool, reason: str) -> str:
    return f"{address}: sent" if sent else f"{address}: not sent: {reason}"


def _listed(one: ListedJob) -> dict[str, Any]:
    options = one.job.options
    return {
        "name": one.job.name,
        "schedule": options.schedule,
        "timezone": options.timezone,
        "next_run": _iso(one.next_run, options.timezone),
        "steps": [step.run for step in options.steps],
        "flags": dict(options.flags),
        "last": None if one.last is None else _document(one.last),
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
        "notices": [
            {"address": one.address, "sent": one.sent, "reason": one.reason} for one in run.notices
        ],
    }


def _iso(at: float | None, timezone: str) -> str | None:
    if at is None:
        return None
    return datetime.fromtimestamp(at, ZoneInfo(timezone)).isoformat(timespec="seconds")
