"""`ragwright forget`."""

from __future__ import annotations

import json
import signal
from collections.abc import Sequence
from contextlib import closing
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import typer
import typer.main
from typer import Argument, Option

from ..core import ConfigError, StoreError, count_noun
from ..jobs import (
    Event,
    EventKind,
    EventQuery,
    JobRun,
    Jobs,
    ListedJob,
    NoticeSent,
    RunListener,
    audit_log,
    back_up_project,
    check_backup,
    event_json,
    owner_event,
    record,
    run_added_step,
    run_lines,
)
from ..project import ProjectFolder, load_settings
from ..testsets import files_naming
from ._commands import line_problem
from ._console import EXIT_ERROR, table
from ._flags import Flags, takes, tenant_name
from ._show import show_list

_KINDS = {
    "answers": "answers and drafts that the person asked for",
    "feedback": "verdicts, scores and notes on them, and those that the person gave",
    "corrections": "corrections among these",
    "replies": "replies of models to what the person asked",
    "rows": "rows of runs that hold their questions",
    "feedback rows": "rows of test sets collected from their feedback",
    "keys": "keys with this name",
    "limits": "counts of requests and costs: the costs are kept without the name",
    "events": "events of the audit log: kept with a hash in place of the name",
    "promotions": "promotions: kept with a hash in place of the name",
}
"""What is counted for a person."""


@takes("project as_json")
def forget_command(
    flags: Flags,
    document: str | None = Argument(None, help="Id of a document."),
    tenant: str | None = Option(None, help="Tenant (scope) to forget.", callback=tenant_name),
    person: str | None = Option(
        None, metavar="NAME", help="Key or person to forget: their questions, answers, feedback."
    ),
    dry_run: bool = Option(
        False, "--dry-run", help="With --person: list what would be erased; change nothing."
    ),
) -> None:
    """Delete a document, tenant or person everywhere.

    Nothing that is stored keeps them.
    """
    if sum(name is not None for name in (document, tenant, person)) != 1:
        raise ConfigError(
            "give a document, or a tenant with --tenant, or a person with --person",
            where="ragwright forget",
        )
    if dry_run and person is None:
        raise ConfigError("--dry-run needs --person", where="ragwright forget")
    if person is not None:
        _forget_person(flags, person, dry_run)
        return
    with flags.open() as bench:
        gone = bench.forget_tenant(tenant) if tenant is not None else bench.forget(document or "")
        listed = bool(bench.project.settings.sources)
    if not any(gone.values()):
        raise StoreError(
            f"there is nothing stored for {tenant or document!r}",
            hint="ids are what `ragwright retrieve --json` shows as document_id",
        )
    console = flags.console
    console.show(
        lambda: dict(gone), lambda: ", ".join(f"{name}: {count}" for name, count in gone.items())
    )
    if document is not None and listed:
        console.remark("if its source is still listed, the next ingest adds it again")
    if gone.get("records"):
        console.remark("if its row is still in the source, the next refresh adds it again")


def _forget_person(flags: Flags, person: str, dry_run: bool) -> None:
    with flags.open() as bench:
        counts = bench.forget_person(person, dry_run=dry_run)
        named = files_naming(bench.project.folder.testsets, person)
    if not any(counts.values()):
        raise StoreError(
            f"there is nothing stored for {person!r}",
            hint="names are those of: ragwright keys list, log",
        )
    console = flags.console
    rows = [[str(count), _KINDS.get(name, name)] for name, count in counts.items() if count]
    console.show(
        lambda: {"dry_run": dry_run, **counts, "named_in": [str(path) for path in named]},
        lambda: table([["would erase" if dry_run else "erased", "what"], *rows], right=(0,)),
    )
    for path in named:
        console.remark(f"{path} names {person!r}: edit it if the name must go there too")
    if not dry_run:
        console.remark("backups and earlier exports still hold what they held")


cache_group = typer.Typer(
    help="Show or clear the stored replies.\n\nThese are the replies of models that were paid for.",
    no_args_is_help=True,
)


@cache_group.command("show")
@takes("project as_json")
def cache_show(flags: Flags) -> None:
    """Show the stored replies and their cost.

    They are counted by kind and model.
    """
    with flags.open() as bench:
        rows = [list(row) for row in bench.project.replies.statistics()]
        size = bench.project.replies.size()
    names = ["kind", "model", "replies", "prompt_tokens", "completion_tokens", "cost"]
    body = [[str(r[0]), str(r[1]), *(f"{v:.0f}" for v in r[2:5]), f"{r[5]:.6f}"] for r in rows]
    flags.console.show(
        lambda: {"bytes": size, "replies": [dict(zip(names, r, strict=True)) for r in rows]},
        lambda: f"{table([names, *body], right=(2, 3, 4, 5))}\n{size / 1e6:.1f} MB",
    )


@cache_group.command("clear")
@takes("project quiet")
def cache_clear(flags: Flags) -> None:
    """Delete every stored reply; runs stay.

    Later runs make the calls again, which costs time and money.
    """
    with flags.open() as bench:
        count = bench.clear_replies()
    flags.console.remark(f"{count} replies deleted")


@takes("project overrides as_json quiet")
def backup(
    flags: Flags,
    file: Path = Argument(metavar="FILE", help="The archive (zip); a new file without --check."),
    check: bool = Option(
        False, "--check", help="Compare every file of an archive with its checksum; write none."
    ),
) -> None:
    """Write the project to one archive, or check it."""
    if check:
        manifest = check_backup(file)
    else:
        folder = ProjectFolder(flags.project).require()
        settings = load_settings(folder.settings, flags.settings)
        record(folder, settings, owner_event("exported", "backup", file.name))
        manifest = back_up_project(folder, settings, file)
    files, at = len(manifest["files"]), manifest["at"][:19]
    left_out, size = manifest["left_out"], file.stat().st_size
    flags.console.show(
        lambda: {"file": str(file), "bytes": size, "files": files, "at": at, "left_out": left_out},
        lambda: (
            f"{count_noun(files, 'file')} of {at} UTC in {file} ({size / 1e6:,.1f} MB)"
            f"{': every checksum is right' if check else ''}"
        ),
    )
    for name, reason in left_out.items():
        flags.console.remark(f"not in it: {name} ({reason})")


_LAST = 50
"""Events of the table, the newest."""


@takes("project overrides as_json output quiet")
def log_command(
    flags: Flags,
    kind: EventKind | None = Option(None, help="Events of this kind."),
    who: str = Option("", help="Events of a key, a person or a user of the machine."),
    document: str = Option("", help="Events in which this document was shown or used."),
    request: str = Option("", help="Events of the request with this id."),
    since: str = Option("", metavar="TIME", help="From this UTC time on: 2026-11-26T08:00."),
    until: str = Option("", metavar="TIME", help="Before this UTC time."),
    last: int | None = Option(
        None, min=1, help=f"The newest events only; {_LAST} in a table by default."
    ),
    lines: bool = Option(False, "--lines", help="Print every event as a line of JSON (JSONL)."),
) -> None:
    """Show the audit log: who did what.

    It says who asked, saw, changed, exported and erased what.
    """
    exported = lines or flags.writes_json or flags.output is not None
    most = last if last is not None or exported else _LAST
    begin, end = _utc(since, "--since"), _utc(until, "--until")
    query = EventQuery(kind or "", who, document, request, begin, end, most)
    folder = ProjectFolder(flags.project).require()
    settings = load_settings(folder.settings, flags.settings)
    if exported and flags.output is None:  # else that is noted for every command
        record(folder, settings, owner_event("exported", "log", "audit log"))
    with closing(audit_log(folder, settings)) as log:
        events = list(log.select(query))
        begun = log.begun
    if lines or (flags.output is not None and flags.output.suffix == ".jsonl"):
        texts = (json.dumps(event_json(*event), ensure_ascii=False) for event in events)
        if events or flags.output is not None:
            flags.console.result("\n".join(texts))
        return
    flags.console.show(
        lambda: {"events": [event_json(*event) for event in events]},
        lambda: _list_events(events, begun),
    )


def _utc(text: str, option: str) -> str:
    """A typed time as events have it, in UTC; empty for none."""
    if not text:
        return ""
    try:
        time = datetime.fromisoformat(text)
    except ValueError as error:
        raise ConfigError(
            f"{text!r} is not a time",
            where=option,
            hint="write a time in UTC: 2026-11-26 or 2026-11-26T08:00",
        ) from error
    return (time.astimezone(UTC) if time.tzinfo else time).replace(tzinfo=None).isoformat()


def _list_events(events: Sequence[tuple[int, Event]], begun: bool) -> str:
    if not events:
        return "no such event" if begun else "the audit log is empty: it begins with the first key"
    rows = []
    for _, event in events:
        documents = ", ".join(event.documents[:3]) + (" …" if len(event.documents) > 3 else "")
        what = "; ".join(filter(None, (event.action, event.subject, documents, event.question)))
        facts = [event.at[:19], event.who or "-", event.origin, event.kind, what]
        rows.append([*facts, event.outcome, event.request])
    return table([["at", "who", "from", "event", "what", "outcome", "request"], *rows])


@takes("project overrides as_json")
def models_command(flags: Flags) -> int:
    """List the models, with the size of their files.

    These are the models that the project names and those in the cache.
    """
    with flags.open() as bench:
        listed = bench.list_models()
        embeds = bool(bench.project.settings.embed.model)
    columns = ("name", "keys", "kind", "state", "text")
    show_list(flags, "models", [asdict(model) for model in listed], columns, "")
    if not embeds and not flags.as_json:
        flags.console.remark(
            "search uses keywords alone; for semantic search too, set embed.model, for example "
            "hf:sentence-transformers/all-MiniLM-L6-v2"
        )
    return EXIT_ERROR if any(model.state == "fault" for model in listed) else 0


job_group = typer.Typer(help="Run scheduled jobs and show past runs.", no_args_is_help=True)

_NAME = Argument(help="Name of the job, a key under `jobs`.")


@job_group.command("run")
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
    listener = RunListener(console.remark, console.remark)
    run = Jobs(flags.project, line_problem).run(name, switches or (), listener, wait=wait)
    console.show(lambda: _document(run), lambda: "\n".join([f"job      {name}", *run_lines(run)]))
    return run.code


@job_group.command("step")
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


@job_group.command("serve")
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


@job_group.command("list")
@takes("project as_json")
def job_list(flags: Flags) -> None:
    """List the jobs.

    Each has its next run and the result of the last one.
    """
    jobs = [_listed(job) for job in Jobs(flags.project).listed()]
    show_list(flags, "jobs", jobs, ("name", "schedule", "next_run", "outcome"), "")


@job_group.command("history")
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
    columns = ("run", "job", "started", "trigger", "outcome", "reason")
    nothing = "no such run" if number else "no runs yet: ragwright job run NAME"
    if not (number and runs) or flags.as_json:
        show_list(flags, "runs", [_document(run) for run in runs], columns, nothing)
        return
    notices = [f"  {_notice(notice)}" for notice in runs[0].notices]
    lines = [f"job      {runs[0].job}", *run_lines(runs[0])]
    flags.console.result("\n".join([*lines, *(["", "notices", *notices] if notices else [])]))


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
        "outcome": None if job.last is None else job.last.state,
        "last": None if job.last is None else _document(job.last),
    }


def _document(run: JobRun) -> dict[str, Any]:
    """A run as JSON; times are ISO 8601 in the job's time zone."""
    steps = [
        {
            "step": step.step,
            "attempt": step.attempt,
            "run": step.line,
            "started": _iso(step.started, run.timezone),
            "seconds": step.seconds,
            "exit_code": step.code,
            "outcome": step.state,
            "output": step.output,
        }
        for step in run.steps
    ]
    return {
        "run": run.id,
        "job": run.job,
        "trigger": run.trigger,
        "due": _iso(run.due, run.timezone),
        "started": _iso(run.started, run.timezone),
        "ended": _iso(run.ended, run.timezone),
        "outcome": run.state,
        "reason": run.reason,
        "flags": dict(run.flags),
        "attempts": run.attempts,
        "steps": steps,
        "notices": [asdict(notice) for notice in run.notices],
    }


def _iso(at: float | None, timezone: str) -> str | None:
    if at is None:
        return None
    return datetime.fromtimestamp(at, ZoneInfo(timezone)).isoformat(timespec="seconds")
