"""`ragwright ask`: one question, or a conversation."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from typer import Argument, Option

from .. import report
from ..answer import marks_for_hits
from ..core import ConfigError, Filter, Hit, RagwrightError
from ..flow import Message, TraceEntry
from ..workbench import AskOptions, Workbench
from ._console import Console, fail, question_text
from ._flags import Flags, names_of, takes
from ._show import answer_text, runner_step, show_forecast, trace_json, trace_text


@takes(
    "project overrides filters soft as_groups as_json quiet output no_cache max_cost served dry_run"
)
def command(
    flags: Flags,
    question: str | None = Argument(
        None, help="The question; - reads standard input; none starts a conversation."
    ),
    personas: str = Option("", "--personas", "--persona", help="Comma-separated personas."),
    trace: bool = Option(False, "--trace", help="Show every request, prompt, hit, token and cost."),
) -> None:
    """Answer a question, with citations.

    One or several personas can answer; without a chat model the best passages are shown.
    """
    if question is None:
        _refuse_in_conversation(trace or flags.dry_run)
    question = question_text(question, "ask") if question else question
    console, session = flags.console, flags.session
    names = list(names_of(personas)) or [""]
    plain = not flags.as_json and flags.output is None and len(names) == 1 and not trace
    if plain:
        session = replace(session, overrides=("answer.stream=true", *session.overrides))
    with flags.open(session) as bench:
        rights = flags.rights(bench)
        if question is None:
            _converse(bench, console, names, flags.as_json, rights)
            return
        if flags.dry_run:
            show_forecast(console, bench.forecast_ask(question, names))
            return
        entries: list[TraceEntry] | None = [] if trace else None
        shown = _Streamed(console)
        asking = AskOptions(trace=entries, filters=rights)
        if plain:
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


def _refuse_in_conversation(requested: bool) -> None:
    if requested:
        raise ConfigError(
            "a conversation has no --trace and no --dry-run",
            where="ragwright ask",
            hint="give the question on the command line",
        )


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
        """Print the next piece; what may be the beginning of a mark waits for the rest."""
        self.any = True
        if text := self._marks.feed(piece):
            self._console.piece(text)

    def waiting(self, bench: Workbench) -> str:
        """The line of progress until the answer begins."""
        return "" if self.any else str(runner_step(bench.progress))

    def end(self) -> None:
        """Print what still waits, and end the line."""
        self._console.piece(self._marks.feed("", last=True) + "\n")


def _converse(
    bench: Workbench,
    console: Console,
    names: list[str],
    as_json: bool,
    rights: tuple[Filter, ...] = (),
) -> None:
    """Answer questions from standard input, each with the earlier ones as history.

    With ``as_json`` all answers are one document at the end.
    """
    console.remark("Ask; an empty line or end of input ends the conversation.")
    history: list[Message] = []
    documents: list[dict[str, object]] = []
    while True:
        if sys.stdin.isatty():
            console.piece("> ")
        line = sys.stdin.readline().strip()
        if not line:
            break
        try:
            answers = bench.ask_all(line, names, AskOptions(history=tuple(history), filters=rights))
        except RagwrightError as error:
            fail(error)
            continue
        if as_json:
            documents += [{"question": line, **report.answer_json(a)} for a in answers]
        else:
            console.result("\n\n".join(map(answer_text, answers)) + "\n")
        history += [Message("user", line), Message("assistant", answers[0].text)]
    if as_json:
        console.json({"answers": documents})
