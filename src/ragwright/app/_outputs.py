"""`ragwright outputs`."""

from __future__ import annotations

import json
import os
import textwrap
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from typer import Argument, BadParameter, Option

from ..core import ConfigError, count_noun, current_user
from ..drafting import (
    FeedbackVerdict,
    Output,
    OutputBatch,
    OutputKind,
    OutputQuery,
    OutputSample,
    moment,
)
from ..experiment import EvaluationOptions
from ..jobs import DriftReport, MeasureReport, measure_options
from ..measure import AnytimeMean
from ..report import ResultBlock, print_result
from ..testsets import write_rows
from ..workbench import Workbench
from ._console import EXIT_ERROR, EXIT_FAILED, EXIT_UNTRUSTED, table, visible, width
from ._flags import MEASURING, Flags, takes, tenant_name
from ._show import (
    cost_text,
    do_work,
    is_trusted,
    say_price,
    show_evaluation,
    show_list,
    show_progress,
    take_few,
    turn_lines,
)

outputs_group = typer.Typer(
    help="Show, export and measure stored texts.\n\nThese are the texts that `draft` wrote and "
    "the answers that were served.",
    no_args_is_help=True,
)

_LINES = 2
"""Lines of a text shown in a list."""


@dataclass(frozen=True, slots=True)
class SampleFlags:
    """The options that select texts for a sample."""

    since: Annotated[
        str, Option(help="Only outputs stored at or after this time: 2026-11-01, or 24h, 7d ago.")
    ] = ""
    until: Annotated[str, Option(help="Only outputs stored before this time.")] = ""
    client: Annotated[str, Option(help="Only texts for this client.")] = ""
    model: Annotated[str, Option(help="Only texts by this model.")] = ""
    verdict: Annotated[
        Literal["", "accepted", "rejected"], Option(help="Only texts with this verdict.")
    ] = ""
    scope: Annotated[
        str | None,
        Option(
            help="Only outputs of this tenant; by default those without a tenant.",
            callback=tenant_name,
        ),
    ] = None
    configuration: Annotated[
        str,
        Option(
            help="Only outputs of this configuration: its number, or the beginning of its hash."
        ),
    ] = ""

    def query(
        self, kind: OutputKind | Literal[""], batch: int | None = None, every_scope: bool = False
    ) -> OutputQuery:
        """The query of these options."""
        if self.scope and every_scope:
            raise ConfigError("--every-scope covers more than one tenant", where="--scope")
        return OutputQuery(
            batch,
            moment(self.since) if self.since else "",
            moment(self.until) if self.until else "",
            self.client,
            self.model,
            kind or None,
            self.verdict,
            None if every_scope else self.scope or "",
            self.configuration,
        )


@dataclass(frozen=True, slots=True)
class QueryFlags(SampleFlags):
    """The options that select outputs."""

    batch: Annotated[int | None, Option(help="Only outputs of the batch with this number.")] = None
    kind: Annotated[Literal["", "text", "prompt"], Option(help="Only outputs of this kind.")] = ""
    every_scope: Annotated[
        bool, Option("--every-scope", help="Outputs of all tenants, and those without one.")
    ] = False

    def select(self, kind: OutputKind | Literal[""] = "") -> OutputQuery:
        """The query of these options; of this kind by default."""
        return self.query(self.kind or kind, self.batch, self.every_scope)


@outputs_group.command("list")
@takes("project as_json")
def outputs_list(
    flags: Flags,
    selection: QueryFlags,
    limit: int = Option(20, min=1, help="Maximum number of outputs to show, the newest first."),
) -> None:
    """List stored texts, the newest batch first.

    With --kind prompt, the stored prompts are listed.
    """
    query, console = selection.select("text"), flags.console
    with flags.open() as bench:
        outputs = list(bench.outputs.find(query, limit=limit, newest=True))
        total = bench.outputs.count(query)
        if not flags.as_json:
            _remark_tenants(flags, bench, query)
    console.show(
        lambda: {"total": total, "outputs": [asdict(output) for output in outputs]},
        lambda: "\n".join(line for output in outputs for line in _listed(output)) or "no outputs",
    )
    if total > len(outputs) and not flags.as_json:
        console.remark(f"{len(outputs)} of {total}; --limit shows more")


@outputs_group.command("show")
@takes("project as_json")
def outputs_show(
    flags: Flags,
    batch: str = Argument(help="Number of a batch, or id of a text or prompt: 12, 12.3, 12.p1."),
    prompts: bool = Option(False, "--prompts", help="Print the prompts in full, too."),
) -> None:
    """Show a batch or one text of it.

    It is shown with its request, marks, feedback, hits, prompts and cost.
    """
    shown: Output | OutputBatch
    with flags.open() as bench:
        if batch.isdecimal():
            shown = bench.outputs.batch(int(batch))
            lines = _batch_lines(shown, prompts)
        else:
            shown = bench.outputs.get(batch)
            lines = [*_request_lines(bench.outputs.batch(shown.batch)), "", *_output_lines(shown)]
    flags.console.show(lambda: asdict(shown), lambda: "\n".join(lines).rstrip())


@outputs_group.command("export")
@takes("project quiet")
def outputs_export(
    flags: Flags,
    selection: QueryFlags,
    output: Path = Option(
        ...,
        "--output",
        "-o",
        metavar="FILE",
        help=".jsonl rows in ragas' names; .csv or .parquet one line per output; .chat.jsonl "
        "accepted texts as chats to fine-tune a model on.",
    ),
) -> None:
    """Export stored texts and prompts to a file."""
    query, console = selection.select(), flags.console
    with flags.open() as bench:
        console.make_folder_of(output)
        count = bench.export_outputs(query, output)
        _remark_tenants(flags, bench, query)
    console.remark(f"{count} written to {output}")


@outputs_group.command("feedback")
@takes("project as_json")
def outputs_feedback(
    flags: Flags,
    output: str = Argument(metavar="ID", help="Id of a text: 12.3."),
    accept: bool = Option(False, "--accept", help="The text is good enough to use."),
    reject: bool = Option(False, "--reject", help="The text is not good enough to use."),
    score: float | None = Option(None, help="A score from -1 to 100, on the scale of a measure."),
    note: str = Option("", help="A remark."),
    correction: str = Option("", help="The answer as it should be."),
    passage: list[int] | None = Option(
        None, help="Number of a citation that holds what was asked for; repeatable."
    ),
    by: str = Option("", help="Who gives the feedback; you by default.", show_default=False),
    history: bool = Option(False, "--history", help="Show the feedback history instead."),
) -> None:
    """Give feedback on a text.

    The latest counts; the history is kept.
    """
    if accept and reject:
        raise BadParameter("use --accept or --reject, not both", param_hint="--reject")
    verdict: FeedbackVerdict = "accepted" if accept else "rejected" if reject else ""
    if history and (verdict or note or correction or passage or score is not None):
        raise ConfigError(
            "--history cannot be combined with feedback", where="ragwright outputs feedback"
        )
    with flags.open() as bench:
        if not history:
            bench.outputs.respond(
                output,
                by=by or current_user(),
                verdict=verdict,
                score=score,
                note=note,
                correction=correction,
                passages=passage or (),
            )
        entries = bench.outputs.feedback(output)
    columns = ("at", "by", "verdict", "score", "note", "correction", "passages")
    show_list(flags, "feedback", [asdict(f) for f in entries], columns, "no feedback yet")


@outputs_group.command("evaluate")
@takes(f"measures {MEASURING} with_rows")
def outputs_evaluate(
    flags: Flags,
    selection: SampleFlags,
    sample: int | None = Option(None, min=1, help="Size of the sample; all texts by default."),
    labels: Path | None = Option(
        None, help="File for the rows with people's feedback, for `passport`."
    ),
) -> int:
    """Measure a sample of the texts as a new run.

    The sample is random (--seed).
    """
    sampling, console = OutputSample(selection.query("text"), sample, flags.seed), flags.console
    options = EvaluationOptions(resume=flags.resume, seed=flags.seed, name=flags.name)
    told, each = partial(say_price, console), take_few(flags, [])
    evaluation, run, sampled = do_work(
        flags,
        lambda bench: bench.forecast_outputs(flags.measures, sampling),
        lambda bench: bench.evaluate_outputs(
            flags.measures, sampling, options, told=told, each=each
        ),
    )
    if labels is not None:
        judged = [row for row in sampled.rows if row.metadata.keys() & _LABELS]
        flags.note_export("outputs evaluate", labels)
        console.make_folder_of(labels)
        write_rows(judged, labels)
        console.remark(
            f"{count_noun(len(judged), 'row')} with feedback written to {labels}: "
            f"ragwright passport {labels} --map 'metadata.accepted=label.accepted(0..1)' "
            f"--verdicts {run.run}"
        )
    show_evaluation(flags, evaluation, run.run)
    return console.ended(run, is_trusted(evaluation))


_LABELS = {"accepted", "feedback_score"}


def _remark_tenants(flags: Flags, bench: Workbench, query: OutputQuery) -> None:
    """Say if outputs are left out because they belong to a tenant and none was given."""
    outputs = bench.outputs
    if query.scope == "" and outputs.count(replace(query, scope=None)) > outputs.count(query):
        flags.console.remark("outputs of tenants are left out: --scope TENANT, or --every-scope")


def _feedback_text(output: Output) -> str:
    return " ".join(part for part in (output.verdict, _number(output.score)) if part)


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:g}"


def _listed(output: Output) -> list[str]:
    model = output.source.rpartition("#")[2].rpartition("/")[2]
    stored = output.at[:16].replace("T", " ")
    facts = (output.id, stored, model, output.client, _feedback_text(output))
    lines = textwrap.wrap("  ".join(filter(None, facts)), width(), subsequent_indent="    ")
    below = textwrap.TextWrapper(width(), initial_indent="    ", subsequent_indent="    ")
    if output.marks:
        lines += below.wrap(f"[{', '.join(output.marks)}]")
    below.max_lines, below.placeholder = _LINES, " …"
    return lines + below.wrap(visible(" ".join(output.text.split())))


def _batch_lines(batch: OutputBatch, prompts: bool) -> list[str]:
    lines = [f"batch {batch.batch}, {batch.at}", *_request_lines(batch), ""]
    for output in batch.outputs:
        if output.kind == "text" or prompts:
            lines += _output_lines(output)
    rows = [["rank", "score", "level", "met", "document"]]
    rows += [
        [str(h.rank), f"{h.score:.4f}", _number(h.weight), ", ".join(h.met), h.document_id]
        for h in batch.hits
    ]
    return [*lines, table(rows, right=(0, 1, 2))] if batch.hits else lines


def _request_lines(batch: OutputBatch) -> list[str]:
    lines = [f"  {key}: {_value(value)}" for key, value in batch.request.items() if value]
    served = "not served" if batch.served is None else f"served as {batch.served}"
    cost = cost_text(batch.usage)
    tokens = f"{batch.usage.prompt_tokens} + {batch.usage.completion_tokens} tokens"
    lines.append(f"  configuration: {batch.configuration[:12] or 'unknown'} ({served})")
    lines += [f"  scope: {batch.scope}"] if batch.scope else []
    lines.append(f"  {count_noun(batch.usage.calls, 'call')}, {tokens}, {cost}")
    return [*lines, *(f"  note: {note}" for note in batch.details.get("notes", ()))]


def _output_lines(output: Output) -> list[str]:
    marks = f" [{', '.join(output.marks)}]" if output.marks else ""
    feedback = _feedback_text(output)
    head = f"{output.id} {output.source}{marks}{f' ({feedback})' if feedback else ''}"
    if output.kind == "prompt":
        turns = json.loads(output.text)
        return [head, *turn_lines((turn["role"], turn["content"]) for turn in turns), ""]
    return [head, output.text, ""]


def _value(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


@outputs_group.command("measure")
@takes("project overrides quiet as_json")
def measure_command(
    flags: Flags,
    retry_errors: bool = Option(
        False, "--retry-errors", help="Also score answers again whose scoring failed."
    ),
    limit: int | None = Option(None, min=1, help="Maximum number of answers to score."),
    background: bool = Option(
        False,
        "--background",
        help="Yield to served answers: one request at a time, none while an answer is written.",
    ),
) -> int:
    """Score a share of the served answers.

    `serve.measure` sets the share; `serve` does this by itself.
    """
    console = flags.console
    if background and hasattr(os, "nice"):
        os.nice(10)
    with flags.open(replace(flags.session, background=background)) as bench:
        with show_progress(console, bench):
            done = bench.measure_served(retry_errors, limit)
        budget = measure_options(bench.project.settings).daily_budget
    console.show(
        lambda: {**asdict(done), "daily_budget": budget},
        lambda: "\n".join(_done_lines(done, budget)),
    )
    return EXIT_ERROR if done.stopped and done.reason and not done.scored else 0


def _done_lines(done: MeasureReport, budget: float | None) -> list[str]:
    limit = "" if budget is None else f" of {budget:g}"
    reason = f"last error: {done.reason}" if done.reason else ""
    lines = [
        f"{count_noun(done.drawn, 'answer')} drawn; {count_noun(done.scored, 'score')}, "
        f"{done.unscored} without a value, "
        f"{done.failed} failed; {count_noun(done.waiting, 'answer waits', 'answers wait')}",
        f"cost {done.cost:.6f}; today {done.spent_today:.6f}{limit}",
        f"stopped: {done.stopped}" if done.stopped else reason,
    ]
    busy = ["another process measures served answers at the moment"]
    return busy if done.busy else [line for line in lines if line]


@outputs_group.command("drift")
@takes("project overrides as_json")
def drift_command(
    flags: Flags,
    scope: str | None = Option(
        None,
        help="Only outputs of this tenant; by default those without a tenant.",
        callback=tenant_name,
    ),
    every_scope: bool = Option(
        False, "--every-scope", help="Outputs of all tenants, and those without one."
    ),
) -> int:
    """Show how scores of served answers moved.

    Exit code: 0 not worse, 100 worse, 101 not trustworthy.
    """
    if scope and every_scope:
        raise ConfigError("--every-scope covers more than one tenant", where="--scope")
    with flags.open() as bench:
        report = bench.drift(None if every_scope else scope or "")
        share = measure_options(bench.project.settings).share
    console = flags.console
    console.show(lambda: _document(report), lambda: _drift_text(report))
    if not share and not flags.as_json:
        console.remark("serve.measure.share is 0: no served answer is measured now")
    if not report.trusted:
        return EXIT_UNTRUSTED
    return EXIT_FAILED if report.worse else 0


def _document(report: DriftReport) -> dict[str, Any]:
    state = "worse" if report.worse else "passed"
    measures = [
        {"text": str(drift), "coverage": drift.coverage, **asdict(drift)}
        for drift in report.measures
    ]
    return {
        "state": state if report.trusted else "untrusted",
        **asdict(report),
        "measures": measures,
    }


def _drift_text(report: DriftReport) -> str:
    rows = tuple(
        (
            drift.measure,
            *_watched(drift.reference),
            *_watched(drift.current),
            str(drift.current.n),
            "" if drift.coverage is None else f"{drift.coverage:.1%}",
        )
        for drift in report.measures
    )
    silent = [(drift.measure, drift.states.get("abstained", 0)) for drift in report.measures]
    remarks = [
        f"{measure}: {count_noun(count, 'answer')} abstained, outside n and coverage"
        for measure, count in silent
        if count
    ]
    distrust = "not trustworthy: too few of the drawn answers have a score"
    head = ("measure", "reference", "interval", "newest", "interval", "n", "coverage")
    blocks = [
        ResultBlock("measures", "", "", head, rows, remarks=tuple(remarks)),
        ResultBlock("trust", "" if report.trusted else distrust, "", (), ()),
    ]
    return print_result(map(str, report.measures), blocks, notes=report.notes, width=width())


def _watched(watched: AnytimeMean) -> tuple[str, str]:
    if watched.mean is None or watched.low is None or watched.high is None:
        return "", ""
    interval = f"{watched.low:.4f} to {watched.high:.4f}"
    return f"{watched.mean:.4f}", "moved within it" if watched.moved else interval
