"""`ragwright ask`: one question, or a conversation."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Annotated

import typer

from ..core import ConfigError, RagwrightError
from ..flow import Message, TraceEntry
from ..project import Session
from ..report import answer_json
from ..workbench import Asking, Workbench
from ._console import Console, fail, given_text, reported
from ._options import (
    HERE,
    DryRun,
    Filters,
    Json,
    MaxCost,
    NoCache,
    Output,
    Overrides,
    Project,
    Quiet,
    Served,
    SoftFilters,
    names_of,
)
from ._show import answer_text, runner_step, show_forecast, trace_json, trace_text


@reported
def command(
    question: Annotated[
        str | None,
        typer.Argument(help="The question; - reads standard input; none starts a conversation."),
    ] = None,
    project: Project = HERE,
    overrides: Overrides = None,
    personas: Annotated[
        str, typer.Option("--personas", "--persona", help="Names, separated by commas.")
    ] = "",
    filters: Filters = None,
    soft: SoftFilters = None,
    trace: Annotated[
        bool, typer.Option("--trace", help="Show every request, prompt, hit, token and cost.")
    ] = False,
    as_json: Json = False,
    quiet: Quiet = False,
    output: Output = None,
    no_cache: NoCache = False,
    max_cost: MaxCost = None,
    served: Served = False,
    dry_run: DryRun = False,
) -> None:
    """Answer a question from the index, with citations, for one or several personas."""
    if question is None:
        _refuse_in_conversation(trace or dry_run)
    question = given_text(question, "ask") if question else question
    console = Console(quiet, output)
    names = list(names_of(personas)) or [""]
    plain = not as_json and output is None and len(names) == 1 and not trace
    extra = ("answer.stream=true",) if plain else ()
    session = Session(
        (*extra, *(overrides or ())),
        reuse=not no_cache,
        max_cost=max_cost,
        filters=tuple(filters or ()),
        soft=tuple(soft or ()),
        served=served,
    )
    with Workbench.open(project, session) as bench:
        if question is None:
            _converse(bench, console, names, as_json)
            return
        if dry_run:
            show_forecast(console, bench.forecast_ask(question, names), as_json)
            return
        entries: list[TraceEntry] | None = [] if trace else None
        pieces: list[str] = []
        sink = _shown(console, pieces) if plain else None

        with console.progress(lambda: "" if pieces else runner_step(bench.progress).line()):
            answers = bench.ask_all(question, names, Asking(sink=sink, trace=entries))
        if pieces:
            console.piece("\n")
    if as_json:
        shown = {"answers": [answer_json(made) for made in answers]}
        console.json(shown if entries is None else {**shown, "trace": trace_json(entries)})
    else:
        blocks = [answer_text(made, streamed=bool(pieces)) for made in answers]
        console.result("\n\n".join(blocks if entries is None else [*blocks, trace_text(entries)]))


def _refuse_in_conversation(asked: bool) -> None:
    if asked:
        raise ConfigError(
            "a conversation has no --trace and no --dry-run",
            where="ragwright ask",
            hint="give the question on the command line",
        )


def _shown(console: Console, pieces: list[str]) -> Callable[[str], None]:
    def sink(piece: str) -> None:
        pieces.append(piece)
        console.piece(piece)

    return sink


def _converse(bench: Workbench, console: Console, names: list[str], as_json: bool) -> None:
    """Questions from standard input, each with the earlier ones as history.

    With ``as_json`` all answers are one document at the end.
    """
    console.remark("Ask; an empty line or end of input ends the conversation.")
    history: list[Message] = []
    told: list[dict[str, object]] = []
    while True:
        if sys.stdin.isatty():
            console.piece("> ")
        line = sys.stdin.readline().strip()
        if not line:
            break
        try:
            answers = bench.ask_all(line, names, Asking(history=tuple(history)))
        except RagwrightError as error:
            fail(error)
            continue
        if as_json:
            told += [{"question": line, **answer_json(made)} for made in answers]
        else:
            console.result("\n\n".join(answer_text(made) for made in answers) + "\n")
        history += [Message("user", line), Message("assistant", answers[0].text)]
    if as_json:
        console.json({"answers": told})
