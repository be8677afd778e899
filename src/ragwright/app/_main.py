"""The command line: parse, call the workbench, show."""

from __future__ import annotations

import functools
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, ParamSpec

import typer

from ..core import ConfigError, RagwrightError
from ..flow import Message, TraceEntry
from ..workbench import (
    Asking,
    Evaluating,
    IngestProgress,
    Session,
    Workbench,
    doctor,
    init_project,
    project_keys,
)
from ._console import EXIT_ERROR, EXIT_UNTRUSTED, Console, fail, table
from ._demo import run_demo
from ._options import (
    DryRun,
    Jobs,
    Json,
    MaxCost,
    NoCache,
    Output,
    Overrides,
    Project,
    Quiet,
    Resume,
    RetryErrors,
    Seed,
)
from ._show import (
    answer_json,
    answer_text,
    checks_text,
    evaluation_json,
    evaluation_text,
    forecast_text,
    hit_json,
    hits_text,
    ingest_line,
    ingest_text,
    runner_line,
    trace_json,
    trace_text,
)

P = ParamSpec("P")

app = typer.Typer(
    name="ragwright",
    help="A workbench for retrieval-augmented generation: build, tailor, measure, tune and run it.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
cache_app = typer.Typer(help="The store of replies that were paid for.", no_args_is_help=True)
app.add_typer(cache_app, name="cache")

_HERE = Path()


def main() -> None:
    """Run the command line."""
    app()


def _reported(command: Callable[P, int | None]) -> Callable[P, None]:
    """Turn our errors into a message and an exit code; anything else is a fault of ours."""

    @functools.wraps(command)
    def reported(*args: P.args, **kwargs: P.kwargs) -> None:
        try:
            code = command(*args, **kwargs) or 0
        except RagwrightError as error:
            code = fail(error)
        except KeyboardInterrupt:
            sys.stderr.write("\nstopped; what was done is kept\n")
            code = 130
        except BrokenPipeError:  # the reader of our output went away
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            code = 0
        if code:
            raise typer.Exit(code)

    return reported


@app.command()
@_reported
def init(
    folder: Annotated[Path, typer.Argument(help="Folder to make the project in.")] = _HERE,
    source: Annotated[
        list[str] | None, typer.Option("--source", help="A source to list in the file.")
    ] = None,
    quiet: Quiet = False,
) -> None:
    """Write a new project: ragwright.yaml, personas/, prompts/, testsets/."""
    console = Console(quiet)
    for path in init_project(folder, tuple(source or ())):
        console.remark(f"wrote {path}")
    console.remark("next: list your sources in ragwright.yaml, then: ragwright ingest")


@app.command()
@_reported
def ingest(
    sources: Annotated[
        list[str] | None,
        typer.Argument(help="Files, folders, addresses; the project's own where none is given."),
    ] = None,
    project: Project = _HERE,
    overrides: Overrides = None,
    prune: Annotated[
        bool, typer.Option("--prune", help="Remove documents that are no longer there.")
    ] = False,
    strict: Annotated[
        bool, typer.Option("--strict", help="Exit with 1 where a source could not be read.")
    ] = False,
    as_json: Json = False,
    quiet: Quiet = False,
    output: Output = None,
    jobs: Jobs = None,
    max_cost: MaxCost = None,
) -> int:
    """Read sources into the index; unchanged documents cost nothing."""
    console = Console(quiet, output)
    started = time.monotonic()
    shown: list[IngestProgress] = []

    def line() -> str:
        return ingest_line(shown[0], time.monotonic() - started) if shown else "opening"

    session = Session(tuple(overrides or ()), jobs=jobs, max_cost=max_cost)
    with Workbench.open(project, session) as bench, console.progress(line):
        report = bench.ingest(*(sources or ()), prune=prune, on_start=shown.append)
    if as_json:
        console.json(report.as_dict())
    else:
        console.result(ingest_text(report, time.monotonic() - started))
    return EXIT_ERROR if strict and report.failures else 0


@app.command()
@_reported
def retrieve(
    query: Annotated[str, typer.Argument(help="What to look for.")],
    project: Project = _HERE,
    overrides: Overrides = None,
    k: Annotated[int | None, typer.Option("-k", min=1, help="Chunks to return.")] = None,
    as_json: Json = False,
    quiet: Quiet = False,
    output: Output = None,
    no_cache: NoCache = False,
) -> None:
    """Show the chunks that answer a query best, with their scores per channel."""
    console = Console(quiet, output)
    session = Session(tuple(overrides or ()), reuse=not no_cache)
    with Workbench.open(project, session) as bench:
        found = bench.retrieve(query, k)
    if as_json:
        console.json({"hits": [hit_json(hit) for hit in found.hits], "notes": list(found.notes)})
    else:
        console.result(hits_text(found))


@app.command()
@_reported
def ask(
    question: Annotated[
        str | None, typer.Argument(help="The question; without one, a conversation begins.")
    ] = None,
    project: Project = _HERE,
    overrides: Overrides = None,
    personas: Annotated[
        str, typer.Option("--personas", "--persona", help="Names, separated by commas.")
    ] = "",
    trace: Annotated[
        bool, typer.Option("--trace", help="Show every request, prompt, hit, token and cost.")
    ] = False,
    as_json: Json = False,
    quiet: Quiet = False,
    output: Output = None,
    no_cache: NoCache = False,
    max_cost: MaxCost = None,
    dry_run: DryRun = False,
) -> None:
    """Answer a question from the index, with citations, for one or several personas."""
    console = Console(quiet, output)
    names = [name.strip() for name in personas.split(",") if name.strip()] or [""]
    plain = not as_json and output is None and len(names) == 1 and not trace
    extra = ("answer.stream=true",) if plain else ()
    session = Session((*extra, *(overrides or ())), reuse=not no_cache, max_cost=max_cost)
    with Workbench.open(project, session) as bench:
        if question is None:
            _converse(bench, console, names)
            return
        if dry_run:
            console.result(forecast_text(bench.forecast_ask(question, names)))
            return
        entries: list[TraceEntry] | None = [] if trace else None
        pieces: list[str] = []
        sink = _shown(console, pieces) if plain else None
        answers = bench.ask_all(question, names, Asking(sink=sink, trace=entries))
        if pieces:
            console.piece("\n")
    if as_json:
        shown = {"answers": [answer_json(made) for made in answers]}
        if entries is not None:
            shown["trace"] = trace_json(entries)
        console.json(shown)
        return
    blocks = [answer_text(made, streamed=bool(pieces)) for made in answers]
    if entries is not None:
        blocks.append(trace_text(entries, answers))
    console.result("\n\n".join(blocks))


def _shown(console: Console, pieces: list[str]) -> Callable[[str], None]:
    def sink(piece: str) -> None:
        pieces.append(piece)
        console.piece(piece)

    return sink


def _converse(bench: Workbench, console: Console, names: list[str]) -> None:
    """Questions from standard input, each read in the light of the earlier ones."""
    console.remark("Ask; an empty line or end of input ends the conversation.")
    history: list[Message] = []
    while True:
        if sys.stdin.isatty():
            console.piece("> ")
        line = sys.stdin.readline().strip()
        if not line:
            return
        try:
            answers = bench.ask_all(line, names, Asking(history=tuple(history)))
        except RagwrightError as error:
            fail(error)
            continue
        console.result("\n\n".join(answer_text(made) for made in answers) + "\n")
        history += [Message("user", line), Message("assistant", answers[0].text)]


@app.command("eval")
@_reported
def evaluate(
    testset: Annotated[str, typer.Option("--testset", help="beir:DIR/SPLIT, or a JSONL file.")],
    measures: Annotated[
        str, typer.Option("--measures", help="Separated by commas: nDCG@10,Recall@100,MRR@10.")
    ] = "nDCG@10,Recall@100,MRR@10",
    retrieval_only: Annotated[
        bool, typer.Option("--retrieval-only", help="Score what is found; write no answers.")
    ] = False,
    project: Project = _HERE,
    overrides: Overrides = None,
    as_json: Json = False,
    quiet: Quiet = False,
    output: Output = None,
    resume: Resume = False,
    retry_errors: RetryErrors = False,
    no_cache: NoCache = False,
    jobs: Jobs = None,
    max_cost: MaxCost = None,
    seed: Seed = 0,
) -> int:
    """Run a testset through the project and score what it finds."""
    if not retrieval_only:
        raise ConfigError(
            "this version scores retrieval only",
            where="ragwright eval",
            hint="add --retrieval-only; measures of answers are on the roadmap",
        )
    console = Console(quiet, output)
    session = Session(
        tuple(overrides or ()),
        jobs=jobs,
        reuse=not no_cache,
        attempt=int(retry_errors),
        max_cost=max_cost,
        seed=seed,
    )
    how = Evaluating(resume=resume or retry_errors, retry_errors=retry_errors, seed=seed)
    with (
        Workbench.open(project, session) as bench,
        console.progress(lambda: runner_line(bench.runner.progress)),
    ):
        evaluation, run = bench.evaluate(testset, measures, how)
    if as_json:
        console.json(evaluation_json(evaluation, run.run))
    else:
        console.result(evaluation_text(evaluation, run.run))
    if run.reason is not None:
        fail(run.reason)
    return 0 if run.complete else EXIT_UNTRUSTED


@cache_app.command("show")
@_reported
def cache_show(project: Project = _HERE, as_json: Json = False) -> None:
    """Replies that are stored, by kind and model, with what they cost."""
    console = Console()
    with Workbench.open(project) as bench:
        rows = [list(row) for row in bench.replies.statistics()]
        size = bench.replies.size()
    names = ["kind", "model", "replies", "prompt_tokens", "completion_tokens", "cost"]
    if as_json:
        console.json({"bytes": size, "replies": [dict(zip(names, r, strict=True)) for r in rows]})
        return
    body = [[str(r[0]), str(r[1]), *(f"{v:.0f}" for v in r[2:5]), f"{r[5]:.6f}"] for r in rows]
    console.result(f"{table([names, *body], right=(2, 3, 4, 5))}\n{size / 1e6:.1f} MB")


@cache_app.command("clear")
@_reported
def cache_clear(project: Project = _HERE, quiet: Quiet = False) -> None:
    """Delete every stored reply; only time and money are lost, runs stay."""
    with Workbench.open(project) as bench:
        count = bench.replies.clear()
    Console(quiet).remark(f"{count} replies deleted")


@app.command()
@_reported
def forget(
    document: Annotated[str | None, typer.Argument(help="Id of a document.")] = None,
    tenant: Annotated[
        str | None, typer.Option("--tenant", help="Forget what was made in this scope.")
    ] = None,
    project: Project = _HERE,
    as_json: Json = False,
) -> int:
    """Purge a document, or a tenant, from store, replies and runs."""
    if (document is None) == (tenant is None):
        raise ConfigError("name a document, or a tenant with --tenant", where="ragwright forget")
    with Workbench.open(project) as bench:
        gone = bench.forget_tenant(tenant) if tenant is not None else bench.forget(document or "")
    console = Console()
    if as_json:
        console.json(dict(gone))
    else:
        console.result(", ".join(f"{name}: {count}" for name, count in gone.items()))
    return 0 if any(gone.values()) else EXIT_ERROR


@app.command("doctor")
@_reported
def doctor_command(
    project: Project = _HERE,
    overrides: Overrides = None,
    show_keys: Annotated[
        bool, typer.Option("--keys", help="List every key of a project file.")
    ] = False,
    as_json: Json = False,
) -> int:
    """Say what is configured, what is missing and what would be paid for."""
    console = Console()
    if show_keys:
        rows = [["key", "when", "default", "meaning"]]
        rows += [[name, when, repr(default), text] for name, when, default, text in project_keys()]
        console.result(table(rows))
        return 0
    with Workbench.open(project, Session(tuple(overrides or ()))) as bench:
        checks = doctor(bench)
    if as_json:
        fields = ("topic", "state", "text", "do")
        console.json({"checks": [{f: getattr(c, f) for f in fields} for c in checks]})
    else:
        console.result(checks_text(checks))
    return EXIT_ERROR if any(check.state == "fault" for check in checks) else 0


@app.command()
@_reported
def demo(
    folder: Annotated[Path, typer.Argument(help="Folder to make the demo project in.")] = Path(
        "ragwright-demo"
    ),
    quiet: Quiet = False,
) -> None:
    """Build a workbench over the guide, and ask it three questions as two personas."""
    run_demo(folder, Console(quiet))
