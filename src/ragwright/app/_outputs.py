"""`ragwright outputs`."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from ..core import ConfigError, counted, current_user
from ..drafting import (
    FeedbackVerdict,
    Output,
    OutputBatch,
    OutputKind,
    OutputQuery,
    Sampling,
    export_outputs,
    moment,
    turns_of,
)
from ..experiment import Evaluating
from ..testsets import write_rows
from ..workbench import Workbench
from ._console import EXIT_UNTRUSTED, Console, fail, reported, table, visible, width
from ._flags import ScoringFlags, with_flags
from ._options import HERE, Json, Project, Quiet, tenant_name
from ._outcome import FewRows, say_price, show_evaluation, trusted
from ._outputs_drift import drift_command, measure_command
from ._show import show_forecast, show_progress, turn_lines

group = typer.Typer(
    help="Drafted and served texts: list, show, export, judge, measure a sample.",
    no_args_is_help=True,
)

Since = Annotated[
    str, typer.Option("--since", help="Stored then or later: 2026-11-01, or 24h, 7d ago.")
]
Until = Annotated[str, typer.Option("--until", help="Stored before that.")]
Client = Annotated[str, typer.Option("--client", help="For this client.")]
Model = Annotated[str, typer.Option("--model", help="By this model.")]
OfBatch = Annotated[int | None, typer.Option("--batch", help="In the batch with this number.")]
Kind = Annotated[str, typer.Option("--kind", help="text or prompt.")]
Judged = Annotated[str, typer.Option("--verdict", help="accepted or rejected.")]
OfScope = Annotated[
    str | None,
    typer.Option(
        "--scope", help="Of this tenant; by default those without a tenant.", callback=tenant_name
    ),
]
EveryScope = Annotated[
    bool, typer.Option("--every-scope", help="Of all tenants, and those without one.")
]
Under = Annotated[
    str,
    typer.Option(
        "--configuration",
        help="Made under this configuration: its served number, or the beginning of its hash.",
    ),
]
_LINES = 2
"""Lines of a text shown in a list."""


@dataclass(frozen=True, slots=True)
class QueryFlags:
    """The flags that select outputs; each is an option of the command line."""

    batch: OfBatch = None
    since: Since = ""
    until: Until = ""
    client: Client = ""
    model: Model = ""
    kind: Kind = ""
    verdict: Judged = ""
    scope: OfScope = None
    every_scope: EveryScope = False
    configuration: Under = ""
    project: Project = HERE

    def query(self, kind: str = "") -> OutputQuery:
        """The query of these flags; of this kind by default."""
        if self.scope and self.every_scope:
            raise ConfigError("--every-scope covers more than one tenant", where="--scope")
        return OutputQuery(
            self.batch,
            _time(self.since),
            _time(self.until),
            self.client,
            self.model,
            _kind(self.kind or kind),
            _verdict(self.verdict),
            None if self.every_scope else self.scope or "",
            self.configuration,
        )


@group.command("list")
@reported
@with_flags
def outputs_list(
    flags: QueryFlags,
    limit: Annotated[int, typer.Option("--limit", min=1, help="Most to show, the newest.")] = 20,
    as_json: Json = False,
) -> int:
    """List stored texts, or with --kind prompts, the newest batch first."""
    query = flags.query("text")
    with Workbench.open(flags.project) as bench:
        found = list(bench.outputs.find(query, limit=limit, newest=True))
        total = bench.outputs.count(query)
        hidden = _of_tenants(bench, query)
    console = Console()
    if as_json:
        console.json({"total": total, "outputs": [asdict(output) for output in found]})
        return 0
    console.result("\n".join(line for o in found for line in _listed(o)) or "no outputs")
    if total > len(found):
        console.remark(f"{len(found)} of {total}; --limit shows more")
    _say_hidden(console, hidden)
    return 0


@group.command("show")
@reported
def outputs_show(
    batch: Annotated[
        str, typer.Argument(help="Number of a batch, or id of a text or prompt: 12, 12.3, 12.p1.")
    ],
    prompts: Annotated[
        bool, typer.Option("--prompts", help="Print the prompts in full, too.")
    ] = False,
    project: Project = HERE,
    as_json: Json = False,
) -> None:
    """Show a batch: request, texts, marks, feedback, hits, prompts, cost; or one output of it."""
    console = Console()
    with Workbench.open(project) as bench:
        if not batch.isdecimal():
            output = bench.outputs.get(batch)
            shown = [*_request_lines(bench.outputs.batch(output.batch)), "", *_output_lines(output)]
            if as_json:
                console.json(asdict(output))
            else:
                console.result("\n".join(shown).rstrip())
            return
        found = bench.outputs.batch(int(batch))
    if as_json:
        console.json(asdict(found))
    else:
        console.result("\n".join(_batch_lines(found, prompts)))


@group.command("export")
@reported
@with_flags
def outputs_export(
    flags: QueryFlags,
    output: Annotated[
        Path,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help=".jsonl rows in ragas' names; .csv or .parquet one line per output; .chat.jsonl "
            "accepted texts as chats to fine-tune a model on.",
        ),
    ],
    quiet: Quiet = False,
) -> int:
    """Export stored texts and prompts to a file."""
    query, console = flags.query(), Console(quiet)
    with Workbench.open(flags.project) as bench:
        console.make_folder_of(output)
        count = export_outputs(bench.outputs, query, output)
        hidden = _of_tenants(bench, query)
    console.remark(f"{count} written to {output}")
    _say_hidden(console, hidden)
    return 0


@group.command("feedback")
@reported
def outputs_feedback(
    output: Annotated[str, typer.Argument(metavar="ID", help="Id of a text: 12.3.")],
    accept: Annotated[
        bool, typer.Option("--accept", help="The text is good enough to use.")
    ] = False,
    reject: Annotated[
        bool, typer.Option("--reject", help="The text is not good enough to use.")
    ] = False,
    score: Annotated[
        float | None,
        typer.Option("--score", help="A score from -1 to 100, on the scale of a measure."),
    ] = None,
    note: Annotated[str, typer.Option("--note", help="A sentence.")] = "",
    by: Annotated[
        str,
        typer.Option("--by", help="Who gives the feedback; you by default.", show_default=False),
    ] = "",
    history: Annotated[
        bool, typer.Option("--history", help="Show the feedback history instead.")
    ] = False,
    project: Project = HERE,
    as_json: Json = False,
) -> None:
    """Give feedback on a text; the latest counts, the history is kept."""
    if accept and reject:
        raise typer.BadParameter("use --accept or --reject, not both", param_hint="--reject")
    said: FeedbackVerdict = "accepted" if accept else "rejected" if reject else ""
    if history and (said or note or score is not None):
        raise ConfigError(
            "--history cannot be combined with feedback", where="ragwright outputs feedback"
        )
    with Workbench.open(project) as bench:
        if not history:
            bench.outputs.respond(
                output, by=by or current_user(), verdict=said, score=score, note=note
            )
        found = bench.outputs.feedback(output)
    console = Console()
    if as_json:
        console.json({"feedback": [asdict(one) for one in found]})
    elif not found:
        console.result("no feedback yet")
    else:
        rows = [["at", "by", "verdict", "score", "note"]]
        rows += [[f.at, f.by, f.verdict, _number(f.score), f.note] for f in found]
        console.result(table(rows))


@group.command("evaluate")
@reported
@with_flags
def outputs_evaluate(
    flags: ScoringFlags,
    measures: Annotated[
        str, typer.Option("--measures", help="Separated by commas; by default those that suit.")
    ] = "",
    sample: Annotated[
        int | None,
        typer.Option("--sample", min=1, help="Size of the sample; all texts by default."),
    ] = None,
    since: Since = "",
    until: Until = "",
    client: Client = "",
    model: Model = "",
    verdict: Judged = "",
    scope: OfScope = None,
    configuration: Under = "",
    labels: Annotated[
        Path | None,
        typer.Option("--labels", help="File for the rows with people's feedback, for `calibrate`."),
    ] = None,
) -> int:
    """Measure a random sample (--seed) of the stored texts as a new run."""
    chosen = QueryFlags(None, since, until, client, model, "text", verdict, scope)
    query = replace(chosen, configuration=configuration).query()
    sampling, console = Sampling(query, sample, flags.seed), flags.console
    with Workbench.open(flags.project, flags.session()) as bench:
        if flags.dry_run:
            show_forecast(console, bench.forecast_outputs(measures, sampling), flags.as_json)
            return 0
        how = Evaluating(resume=flags.resume, seed=flags.seed, name=flags.name)
        each = FewRows().each(flags)
        with show_progress(console, bench):
            evaluation, summary, sampled = bench.evaluate_outputs(
                measures, sampling, how, told=partial(say_price, console), each=each
            )
    if labels is not None:
        judged = [row for row in sampled.rows if row.metadata.keys() & _LABELS]
        console.make_folder_of(labels)
        write_rows(judged, labels)
        console.remark(
            f"{counted(len(judged), 'row')} with feedback written to {labels}: ragwright calibrate "
            f"{summary.run} --labels {labels} --column accepted (or feedback_score)"
        )
    if summary.reason is not None:
        fail(summary.reason)
        console.remark("run it again with --resume to go on")
    show_evaluation(flags, evaluation, summary.run)
    return 0 if summary.complete and trusted(evaluation) else EXIT_UNTRUSTED


_LABELS = {"accepted", "feedback_score"}

group.command("measure")(measure_command)
group.command("drift")(drift_command)


def _of_tenants(bench: Workbench, query: OutputQuery) -> bool:
    """True if outputs are left out because they belong to a tenant and none was given."""
    if query.scope != "":
        return False
    return bench.outputs.count(replace(query, scope=None)) > bench.outputs.count(query)


def _say_hidden(console: Console, hidden: bool) -> None:
    if hidden:
        console.remark("outputs of tenants are left out: --scope TENANT, or --every-scope")


def _time(text: str) -> str:
    return moment(text) if text else ""


def _kind(text: str) -> OutputKind | None:
    if text == "text":
        return "text"
    if text == "prompt":
        return "prompt"
    if text:
        raise ConfigError(f"unknown kind {text!r}", where="--kind", hint="text or prompt")
    return None


def _verdict(text: str) -> FeedbackVerdict:
    if text == "accepted":
        return "accepted"
    if text == "rejected":
        return "rejected"
    if text:
        raise ConfigError(
            f"unknown verdict {text!r}", where="--verdict", hint="accepted or rejected"
        )
    return ""


def _said(output: Output) -> str:
    return " ".join(part for part in (output.verdict, _number(output.score)) if part)


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:g}"


def _listed(output: Output) -> list[str]:
    """An output in a list: id, marks, and the beginning of its text."""
    model = output.source.rpartition("#")[2].rpartition("/")[2]
    facts = (output.id, output.at[:16].replace("T", " "), model, output.client, _said(output))
    lines = textwrap.wrap("  ".join(filter(None, facts)), width(), subsequent_indent="    ")
    below = textwrap.TextWrapper(width(), initial_indent="    ", subsequent_indent="    ")
    if output.marks:
        lines += below.wrap(f"[{', '.join(output.marks)}]")
    below.max_lines, below.placeholder = _LINES, " …"
    return lines + below.wrap(visible(" ".join(output.text.split())))


def _batch_lines(found: OutputBatch, prompts: bool) -> list[str]:
    """A batch as text."""
    lines = [f"batch {found.batch}, {found.at}", *_request_lines(found)]
    lines += ["", *_text_lines(found.outputs, prompts)]
    rows = [["rank", "score", "level", "met", "document"]]
    rows += [
        [str(h.rank), f"{h.score:.4f}", _number(h.weight), ", ".join(h.met), h.document_id]
        for h in found.hits
    ]
    return [*lines, table(rows, right=(0, 1, 2))] if found.hits else lines


def _request_lines(found: OutputBatch) -> list[str]:
    said = [f"  {key}: {_value(value)}" for key, value in found.request.items() if value]
    served = "not served" if found.served is None else f"served as {found.served}"
    cost = "cost unknown" if found.usage.cost is None else f"cost {found.usage.cost:.6f}"
    tokens = f"{found.usage.prompt_tokens} + {found.usage.completion_tokens} tokens"
    said.append(f"  configuration: {found.configuration[:12] or 'unknown'} ({served})")
    said += [f"  scope: {found.scope}"] if found.scope else []
    said.append(f"  {counted(found.usage.calls, 'call')}, {tokens}, {cost}")
    return [*said, *(f"  note: {note}" for note in found.details.get("notes", ()))]


def _text_lines(outputs: Sequence[Output], prompts: bool) -> list[str]:
    lines = []
    for output in outputs:
        if output.kind == "text" or prompts:
            lines += _output_lines(output)
    return lines


def _output_lines(output: Output) -> list[str]:
    """An output as text: a text as it is, a prompt by its turns, then an empty line."""
    marks = f" [{', '.join(output.marks)}]" if output.marks else ""
    said = _said(output)
    head = f"{output.id} {output.source}{marks}{f' ({said})' if said else ''}"
    if output.kind == "prompt" and output.details.get("format") == "chat":
        turns = turns_of(output)
        return [head, *turn_lines((turn["role"], turn["content"]) for turn in turns), ""]
    return [head, output.text, ""]


def _value(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)
