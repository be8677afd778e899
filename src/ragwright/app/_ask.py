"""`ragwright ask`: one question, or a conversation."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from .. import report
from ..answer import marks_for_hits
from ..core import ConfigError, Hit, RagwrightError
from ..flow import Message, TraceEntry
from ..project import Session
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
    session = Session(
        (*(("answer.stream=true",) if plain else ()), *(overrides or ())),
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
        shown = _Streamed(console)
        asking = shown.asking(entries) if plain else Asking(trace=entries)
        with console.progress(lambda: shown.waiting(bench), work=lambda: bench.progress):
            answers = bench.ask_all(question, names, asking)
        shown.end()
    if as_json:
        body = {"answers": [report.answer_json(made) for made in answers]}
        console.json(body if entries is None else {**body, "trace": trace_json(entries)})
    else:
        _print(console, [answer_text(made, streamed=shown.any) for made in answers], entries)


def _print(console: Console, blocks: list[str], entries: list[TraceEntry] | None) -> None:
    """Print answers, and the trace if it was asked for."""
    console.result("\n\n".join(blocks if entries is None else [*blocks, trace_text(entries)]))


def _refuse_in_conversation(asked: bool) -> None:
    if asked:
        raise ConfigError(
            "a conversation has no --trace and no --dry-run",
            where="ragwright ask",
            hint="give the question on the command line",
        )


class _Streamed:
    """An answer on the screen as it is written, its marks numbered as below it."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._hits: Sequence[Hit] = ()
        self._marks = marks_for_hits(lambda: self._hits)
        self.any = False

    def context(self, hits: Sequence[Hit]) -> None:
        """The passages that the marks name."""
        self._hits = tuple(hits)

    def asking(self, entries: list[TraceEntry] | None) -> Asking:
        """How to ask so that the answer is printed while it is written."""
        return Asking(trace=entries, sink=self.piece, on_context=self.context)

    def piece(self, piece: str) -> None:
        """The next piece; what may be the beginning of a mark waits for the rest."""
        self.any = True
        if said := self._marks.feed(piece):
            self._console.piece(said)

    def waiting(self, bench: Workbench) -> str:
        """The line of progress until the answer begins."""
        return "" if self.any else runner_step(bench.progress).line()

    def end(self) -> None:
        """What still waits, and the end of the line."""
        if self.any:
            self._console.piece(self._marks.feed("", last=True) + "\n")


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
            told += [{"question": line, **report.answer_json(made)} for made in answers]
        else:
            console.result("\n\n".join(answer_text(made) for made in answers) + "\n")
        history += [Message("user", line), Message("assistant", answers[0].text)]
    if as_json:
        console.json({"answers": told})
