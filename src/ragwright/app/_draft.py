"""`ragwright draft`: texts written from records, by one or several models."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import typer

from ..core import Hit, Usage, counted
from ..drafting import DraftBatch, Drafting, DraftRequest
from ..project import Session
from ..report import batch_json
from ..workbench import Workbench
from ._console import EXIT_ERROR, Console, reported, width
from ._flags import with_flags
from ._options import (
    HERE,
    DryRun,
    Filters,
    Jobs,
    Json,
    MaxCost,
    NoCache,
    Output,
    Overrides,
    Project,
    Quiet,
    Seed,
    Served,
    tenant_name,
)
from ._show import show_forecast, show_progress, turn_lines

Topics = Annotated[
    list[str] | None, typer.Option("--topic", help="Topic of the texts; repeatable.")
]
Tones = Annotated[list[str] | None, typer.Option("--tone", help="Tone of the texts; repeatable.")]
Headlines = Annotated[
    list[str] | None, typer.Option("--headline", help="News that a text may refer to; repeatable.")
]
ModelNames = Annotated[
    list[str] | None, typer.Option("--model", "-m", help="Model that writes; repeatable.")
]


@dataclass(frozen=True, slots=True)
class DraftFlags:
    """The flags of `draft`; each is an option of the command line."""

    project: Project = HERE
    overrides: Overrides = None
    client: Annotated[str | None, typer.Option("--client", help="Client who sends the texts.")] = (
        None
    )
    ask: Annotated[str | None, typer.Option("--ask", help="What they ask for.")] = None
    topics: Topics = None
    tones: Tones = None
    length: Annotated[
        str, typer.Option("--length", help="Group of lengths: short, medium, long.")
    ] = "short"
    count: Annotated[int, typer.Option("-n", "--count", min=1, help="Texts of each model.")] = 5
    bio: Annotated[bool, typer.Option("--bio", help="Show models the client's biography.")] = False
    headlines: Headlines = None
    models: ModelNames = None
    examples: Annotated[
        int | None, typer.Option("--examples", min=1, help="Examples in a prompt.")
    ] = None
    pool: Annotated[
        int | None, typer.Option("--pool", min=1, help="Records that examples are taken from.")
    ] = None
    filters: Filters = None
    scope: Annotated[
        str | None,
        typer.Option(
            "--scope", help="Tenant whose replies and outputs these are.", callback=tenant_name
        ),
    ] = None
    served: Served = False
    show_prompt: Annotated[
        bool, typer.Option("--show-prompt", help="Show the prompts without calling a model.")
    ] = False
    save: Annotated[
        bool, typer.Option("--save/--no-save", help="Keep prompts and texts as outputs.")
    ] = True
    as_json: Json = False
    quiet: Quiet = False
    output: Output = None
    no_cache: NoCache = False
    jobs: Jobs = None
    max_cost: MaxCost = None
    seed: Seed = 0
    dry_run: DryRun = False

    @property
    def session(self) -> Session:
        """The session for these flags."""
        return Session(
            tuple(self.overrides or ()),
            jobs=self.jobs,
            reuse=not self.no_cache,
            max_cost=self.max_cost,
            seed=self.seed,
            filters=tuple(self.filters or ()),
            served=self.served,
        )

    @property
    def request(self) -> DraftRequest:
        """The request for texts.

        Raises:
            BadParameter: A name is empty: a variable of a script that is not set, perhaps.
        """
        given = {
            "--client": [self.client],
            "--ask": [self.ask],
            "--topic": self.topics or (),
            "--tone": self.tones or (),
            "--headline": self.headlines or (),
        }
        for flag, values in given.items():
            if any(value is not None and not value.strip() for value in values):
                raise typer.BadParameter("it is empty; leave it out to allow any", param_hint=flag)
        return DraftRequest(
            self.client or "",
            self.ask or "",
            tuple(self.topics or ()),
            tuple(self.tones or ()),
            self.length,
            self.count,
            tuple(self.headlines or ()),
            self.bio,
        )


@reported
@with_flags
def command(flags: DraftFlags) -> int:
    """Write texts from records in a client's style; check lengths and mark near copies."""
    console = Console(flags.quiet, flags.output)
    scope = flags.scope or ""
    how = Drafting(
        tuple(flags.models or ()),
        flags.show_prompt,
        save=flags.save,
        scope=scope,
        examples=flags.examples,
        pool=flags.pool,
    )
    with Workbench.open(flags.project, flags.session) as bench:
        if flags.dry_run:
            show_forecast(console, bench.forecast_draft(flags.request, how), flags.as_json)
            return 0
        with show_progress(console, bench):
            batch = bench.draft(flags.request, how)
    if flags.as_json:
        console.json(batch_json(batch))
    else:
        console.result(prompts_text(batch) if flags.show_prompt else batch_text(batch))
    return 0 if batch.texts or flags.show_prompt else EXIT_ERROR


def batch_text(batch: DraftBatch) -> str:
    """A batch as text: texts by model with their marks, hits, cost."""
    blocks = []
    for model in batch.models:
        lines = [f"[{model}]"]
        for number, text in enumerate(batch.texts, 1):
            if text.model != model:
                continue
            marks = f"   <- {'; '.join(text.marks)}" if text.marks else ""
            lines.append(f"{number}. ({text.characters} characters){marks}")
            lines.append(textwrap.indent(text.text, "   "))
        if len(lines) == 1:
            lines.append("no texts")
        blocks.append("\n".join(lines))
    blocks.append(_found_text(batch.hits))
    blocks += [f"note: {note}" for note in batch.notes]
    blocks.append(_ending(batch))
    return "\n\n".join(blocks)


def prompts_text(batch: DraftBatch) -> str:
    """The prompts exactly as they would be sent."""
    blocks = []
    for number, prompt in enumerate(batch.prompts, 1):
        who = prompt.model or "no model configured"
        head = f"--- prompt {number} of {len(batch.prompts)}: {who}, {prompt.format}"
        if prompt.text:
            blocks.append(f"{head}\n{prompt.text}")
        else:
            blocks.append("\n".join([head, *turn_lines(prompt.messages)]))
    blocks.append(_found_text(batch.hits))
    blocks += [f"note: {note}" for note in batch.notes]
    return "\n\n".join(blocks)


def _found_text(hits: Sequence[Hit]) -> str:
    """Number of records by the filters they meet."""
    rungs: dict[str, int] = {}
    for hit in hits:
        if hit.rung is not None:
            met = ", ".join(map(str, hit.rung.met)) or "no filter"
            told = f"{hit.rung.weight:g}: {met}"
            rungs[told] = rungs.get(told, 0) + 1
    lines = [
        f"examples from {counted(len(hits), 'record')}, by the total weight of the filters "
        "they meet:"
    ]
    lines += [f"  {count:3d} x {told}" for told, count in rungs.items()]
    short = [textwrap.shorten(line, 200, placeholder=" …") for line in lines[:9]]
    return "\n".join(textwrap.fill(line, width(), subsequent_indent=" " * 8) for line in short)


def _ending(batch: DraftBatch) -> str:
    stored = "not stored" if batch.number is None else f"batch {batch.number}"
    return (
        f"{stored}: {counted(len(batch.texts), 'text')}, {_usage_text(batch.usage, batch.cached)}"
    )


def _usage_text(usage: Usage, cached: bool) -> str:
    cost = "cost unknown: no price" if usage.cost is None else f"cost {usage.cost:.6f}"
    known = ", from stored replies" if cached else ""
    return (
        f"{counted(usage.calls, 'call')}, {usage.prompt_tokens} prompt tokens, "
        f"{usage.completion_tokens} "
        f"completion tokens, {cost}{known}"
    )
