"""The commands that build: init, ingest, retrieve, ask, audit and doctor."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Literal

from typer import Argument, Option

from .. import report
from ..answer import marks_for_hits
from ..audit import AuditPlan, check_audit, read_rules
from ..core import ConfigError, Hit, count_noun, make_plain
from ..flow import ChatReply, SearchReply, TraceEntry
from ..project import (
    Check,
    IngestForecast,
    IngestProgress,
    ProjectFolder,
    init_project,
    project_keys,
)
from ..report import audit_json, audit_page, audit_table, audit_verdict
from ..workbench import AskOptions, Workbench
from ._commands import line_problem
from ._console import EXIT_ERROR, EXIT_FAILED, Console, ProgressStep, question_text
from ._flags import HERE, WORK, Flags, names_of, takes
from ._show import (
    answer_text,
    do_work,
    forecast_text,
    hits_text,
    ingest_step,
    ingest_text,
    runner_step,
    stop_if_dry,
    trace_text,
)

_NEXT = {"records": "ragwright records check, then: ragwright records refresh"}
"""Template -> next commands."""


@takes("quiet")
def init_command(
    flags: Flags,
    folder: Path = Argument(HERE, help="Folder to make the project in."),
    source: list[str] | None = Option(None, help="A source to list in the file."),
    template: str = Option(
        "", metavar="NAME", help="Start from working files: records (rows to texts)."
    ),
) -> None:
    """Write a new project into a folder.

    It gets ragwright.yaml, personas/, prompts/ and testsets/.
    """
    console = flags.console
    for path in init_project(folder, tuple(source or ()), template):
        console.remark(f"wrote {path}")
    for named in source or ():
        if not set(named) & set(":*?[~") and not (folder / named).exists():
            console.remark(f"note: {folder / named} does not exist yet")
    first = "" if source else "list your sources in ragwright.yaml, then: "
    console.remark(f"next: {_NEXT.get(template) or first + 'ragwright ingest'}")


@takes("project overrides as_json quiet output jobs max_cost served dry_run")
def ingest_command(
    flags: Flags,
    sources: list[str] | None = Argument(
        None, help="Files, folders, URLs; by default the project's sources."
    ),
    prune: bool = Option(False, "--prune", help="Remove documents that are no longer there."),
    embed_again: bool = Option(
        False, "--embed-again", help="Embed every text again, even if its vector is stored."
    ),
    engine: str = Option("", help="Where documents are read: local, or ray.", show_default=False),
    strict: bool = Option(
        False, "--strict", help="Exit with code 1 if any source failed, not only if all did."
    ),
) -> int:
    """Read the sources into the index.

    Unchanged documents cost nothing.
    """
    console = flags.console
    started = time.monotonic()
    shown: list[IngestProgress] = []

    def line() -> str | ProgressStep:
        return ingest_step(shown[0], bench.progress) if shown else "opening"

    with flags.open() as bench, console.progress(line, work=lambda: bench.progress):
        if flags.dry_run:
            planned = bench.forecast_ingest(*(sources or ()))
            console.show(
                lambda: {
                    "documents": planned.documents,
                    "chunks": planned.chunks,
                    "unchanged": planned.unchanged,
                    "failed": len(planned.failures),
                    "skipped": len(planned.skipped),
                    "texts": planned.texts,
                    "calls": None if planned.calls is None else asdict(planned.calls),
                },
                lambda: ingest_forecast_text(planned),
            )
            return 0
        report = bench.ingest(
            *(sources or ()),
            prune=prune,
            embed_again=embed_again,
            engine=engine,
            on_start=shown.append,
        )
    console.show(report.as_dict, lambda: ingest_text(report, time.monotonic() - started))
    failed = report.nothing_read or (strict and bool(report.failures))
    return EXIT_ERROR if failed else 0


@takes(
    "project overrides filters soft as_groups as_json quiet output no_cache max_cost served dry_run"
)
def retrieve_command(
    flags: Flags,
    query: str = Argument(help="The query; - reads standard input."),
    k: int | None = Option(None, "-k", min=1, help="Number of chunks to return."),
    explained: bool = Option(
        False,
        "--explain",
        help="Show the words searched for, what each hit matched, weights and filter levels.",
    ),
) -> None:
    """Show the passages that match a query best.

    Each one is shown with its score per channel.
    """
    query = question_text(query, "retrieve")
    with flags.open() as bench:
        stop_if_dry(flags, lambda: bench.forecast_retrieve(query, k))
        retrieved = bench.retrieve(query, k, filters=flags.rights(bench))
        why = bench.explain(retrieved) if explained else None
    document = {"hits": make_plain(list(retrieved.hits)), "notes": list(retrieved.notes)}
    flags.console.show(
        lambda: document if why is None else {**document, "explanation": asdict(why)},
        lambda: hits_text(retrieved, why),
    )


@takes(
    "project overrides filters soft as_groups as_json quiet output no_cache max_cost served dry_run"
)
def ask_command(
    flags: Flags,
    question: str = Argument(help="The question; - reads standard input."),
    personas: str = Option("", "--personas", "--persona", help="Comma-separated personas."),
    trace: bool = Option(False, "--trace", help="Show every request, prompt, hit, token and cost."),
) -> None:
    """Answer a question, with citations.

    One or several personas can answer; without a chat model the best passages are shown.
    """
    question = question_text(question, "ask")
    console = flags.console
    names = list(names_of(personas)) or [""]
    streams = not flags.as_json and flags.output is None and len(names) == 1 and not trace
    with flags.open() as bench:
        rights = flags.rights(bench)
        stop_if_dry(flags, lambda: bench.forecast_ask(question, names))
        entries: list[TraceEntry] | None = [] if trace else None
        shown = _Streamed(console)
        asking = AskOptions(trace=entries, filters=rights)
        if streams:
            asking = replace(asking, sink=shown.piece, on_context=shown.context)
        with console.progress(lambda: shown.waiting(bench), work=lambda: bench.progress):
            answers = bench.ask_all(question, names, asking)
        if shown.any:
            shown.end()
    if flags.as_json:
        document: dict[str, Any] = {"answers": [report.answer_json(answer) for answer in answers]}
        console.json(document if entries is None else {**document, "trace": trace_json(entries)})
    else:
        blocks = [answer_text(answer, streamed=shown.any) for answer in answers]
        console.result("\n\n".join(blocks if entries is None else [*blocks, trace_text(entries)]))


class _Streamed:
    """An answer printed while it is written; its marks have the numbers of the sources below."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._hits: Sequence[Hit] = ()
        self._marks = marks_for_hits(lambda: self._hits)
        self.any = False

    def context(self, hits: Sequence[Hit]) -> None:
        """The passages that the marks name."""
        self._hits = tuple(hits)

    def piece(self, piece: str) -> None:
        """Print the next piece; hold a partial citation mark back until it is complete."""
        self.any = True
        if text := self._marks.feed(piece):
            self._console.piece(text)

    def waiting(self, bench: Workbench) -> str:
        """The line of progress until the answer begins."""
        return "" if self.any else runner_step(bench.progress).text()

    def end(self) -> None:
        """Print the text that was held back, and end the line."""
        self._console.piece(self._marks.feed("", last=True) + "\n")


@takes("project overrides as_json")
def doctor_command(
    flags: Flags,
    show_keys: bool = Option(False, "--keys", help="List every key of a project file."),
    ask_models: bool = Option(
        False, "--ask-models", help="Also ask each server whether it has the model."
    ),
) -> int:
    """Show what is configured and what is missing.

    It says, too, what would cost money.
    """
    if show_keys:
        names = ("key", "when", "default", "meaning")
        keys = list(project_keys())
        flags.console.show(
            lambda: {"keys": [dict(zip(names, key, strict=True)) for key in keys]},
            lambda: "\n".join(
                f"{name} = {default!r}   ({when})\n    {text}" for name, when, default, text in keys
            ),
        )
        return 0
    with flags.open() as bench:
        checks = bench.doctor(ask_models=ask_models, check_line=line_problem)
    flags.console.show(
        lambda: {"checks": [asdict(check) for check in checks]}, lambda: checks_text(checks)
    )
    return EXIT_ERROR if any(check.state == "fault" for check in checks) else 0


@takes(f"{WORK} output name retry_errors")
def audit_command(
    flags: Flags,
    kinds: str = Option(
        "",
        help="Comma-separated kinds: contradictions, copies, codes, references, damage, reach; by "
        "default all that need no more than is given.",
    ),
    level: Literal["default", "all"] = Option(
        "default", help="default, or all: also findings of rules that are often wrong."
    ),
    since: str = Option(
        "", help="Show only what this earlier audit does not have: latest, its run or name."
    ),
    testset: str = Option("", help="Find passages that no question of this test set finds."),
    judge: bool = Option(
        False, "--judge", help="Let the judge model decide which statements contradict each other."
    ),
    gate: str | None = Option(
        None, help='Exit code 100 with more findings than this: "references=0, copies<=5".'
    ),
    everything: bool = Option(
        False, "--all", help="Print every finding, not only the first five of each kind."
    ),
    dismiss: str = Option("", help="Dismiss the finding with this id, for the reason in --why."),
    why: str = Option("", help="With --dismiss: the reason."),
) -> int:
    """Find faults of the documents.

    These are copies, dead references, damage, undefined codes, gaps, and contradictions.
    """
    ProjectFolder(flags.project).require()
    if why and not dismiss:
        raise ConfigError(
            "--why is the reason of --dismiss", where="--why", hint="add --dismiss ID"
        )
    if dismiss:
        with flags.open() as bench:
            flags.console.result(f"dismissed in {bench.dismiss_finding(dismiss, why)}")
        return 0
    rules = () if gate is None else read_rules(gate)
    plan = AuditPlan(kinds=names_of(kinds), every=level == "all", since=since, testset=testset)
    return _audit(flags, replace(plan, judge=judge, gate=rules), everything)


def _audit(flags: Flags, plan: AuditPlan, everything: bool) -> int:
    console = flags.console
    plan = replace(
        plan,
        resume=flags.resumes,
        retry_errors=flags.retry_errors,
        seed=flags.seed,
        name=flags.name,
    )
    audit, run = do_work(flags, lambda b: b.forecast_audit(plan), lambda b: b.audit(plan))
    if flags.output is not None and flags.output.suffix in (".html", ".htm"):
        printed = Console(flags.quiet, as_json=flags.as_json)
        printed.show(lambda: audit_json(audit), lambda: audit_verdict(audit))
        console.result(audit_page(audit))
    else:
        console.show(
            lambda: audit_json(audit),
            lambda: audit_table(audit, width=console.columns(), every=everything),
        )
    failed = check_audit(audit, plan.gate)
    for sentence in failed:
        console.remark(f"gate: failed: {sentence}")
    code = console.ended(run, True)
    return EXIT_FAILED if failed and not code else code


def trace_json(trace: Sequence[TraceEntry]) -> list[dict[str, Any]]:
    """The trace as data; vectors and bodies are left out."""
    shown = []
    for entry in trace:
        fields = asdict(entry.request)
        item: dict[str, Any] = {
            "kind": type(entry.request).__name__,
            "request": {k: v for k, v in fields.items() if k not in ("vector", "timeout")},
            "seconds": round(entry.seconds, 6),
            "cached": entry.cached,
            "error": str(entry.error) if entry.error is not None else None,
        }
        if isinstance(entry.reply, ChatReply):
            item["reply"] = asdict(entry.reply)
        elif isinstance(entry.reply, SearchReply):
            item["candidates"] = list(entry.reply.candidates)
        shown.append(item)
    return shown


def ingest_forecast_text(forecast: IngestForecast) -> str:
    """A dry run of an ingest as text."""
    lines = [
        f"documents to write: {forecast.documents} ({count_noun(forecast.chunks, 'chunk')}), "
        f"unchanged: {forecast.unchanged}, cannot be read: {len(forecast.failures)}"
        + (f", skipped: {len(forecast.skipped)}" if forecast.skipped else ""),
        f"texts to embed: {forecast.texts}",
    ]
    if forecast.calls is not None:
        lines.append(forecast_text(forecast.calls))
    return "\n".join(lines)


def checks_text(checks: Sequence[Check]) -> str:
    """Findings of `doctor`."""
    marks = {"ok": "ok   ", "note": "note ", "fault": "FAULT"}
    lines = []
    for check in checks:
        lines.append(f"{marks[check.state]} {check.topic}: {check.text}")
        if check.do:
            lines.append(f"      do: {check.do}")
    return "\n".join(lines)
