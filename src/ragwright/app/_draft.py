"""`ragwright draft`: texts written from records, by one or several models."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass

from typer import BadParameter, Option

from ..core import Hit, count_noun
from ..drafting import DraftBatch, Drafting, DraftRequest
from ..report import batch_json
from ._console import EXIT_ERROR, width
from ._flags import Flags, takes, tenant_name
from ._show import cost_text, show_forecast, show_progress, turn_lines


@dataclass(frozen=True, slots=True)
class DraftFlags:
    """The options of `draft` alone."""

    client: str | None = Option(None, help="Client who sends the texts.")
    ask: str | None = Option(None, help="What the client asks for.")
    topics: list[str] | None = Option(None, "--topic", help="Topic of the texts; repeatable.")
    tones: list[str] | None = Option(None, "--tone", help="Tone of the texts; repeatable.")
    length: str = Option("short", help="Group of lengths: short, medium, long.")
    count: int = Option(5, "-n", "--count", min=1, help="Number of texts from each model.")
    bio: bool = Option(False, "--bio", help="Show models the client's biography.")
    headlines: list[str] | None = Option(
        None, "--headline", help="News that a text may refer to; repeatable."
    )
    models: list[str] | None = Option(
        None, "--model", "-m", help="Model that writes the texts; repeatable."
    )
    examples: int | None = Option(None, min=1, help="Number of examples in a prompt.")
    pool: int | None = Option(None, min=1, help="Number of records from which examples are taken.")
    scope: str | None = Option(
        None, help="Tenant whose replies and outputs these are.", callback=tenant_name
    )
    show_prompt: bool = Option(
        False, "--show-prompt", help="Show the prompts without calling a model."
    )
    save: bool = Option(True, help="Keep prompts and texts as outputs.")

    @property
    def request(self) -> DraftRequest:
        """The request for texts.

        Raises:
            BadParameter: A name is empty: a variable of a script that is not set, perhaps.
        """
        values = {
            "--client": [self.client],
            "--ask": [self.ask],
            "--topic": self.topics or (),
            "--tone": self.tones or (),
            "--headline": self.headlines or (),
        }
        for flag, texts in values.items():
            if any(text is not None and not text.strip() for text in texts):
                raise BadParameter("it is empty; leave it out to allow any", param_hint=flag)
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


@takes("project overrides filters served as_json quiet output no_cache jobs max_cost seed dry_run")
def command(flags: Flags, own: DraftFlags) -> int:
    """Write texts from records in a client's style.

    Lengths are checked, and near copies are marked.
    """
    console = flags.console
    options = Drafting(
        tuple(own.models or ()),
        own.show_prompt,
        save=own.save,
        scope=own.scope or "",
        examples=own.examples,
        pool=own.pool,
    )
    with flags.open() as bench:
        if flags.dry_run:
            show_forecast(console, bench.forecast_draft(own.request, options))
            return 0
        with show_progress(console, bench):
            batch = bench.draft(own.request, options)
    console.show(
        lambda: batch_json(batch),
        lambda: prompts_text(batch) if own.show_prompt else batch_text(batch),
    )
    return 0 if batch.texts or own.show_prompt else EXIT_ERROR


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
    blocks += [
        _examples_text(batch.hits),
        *(f"note: {note}" for note in batch.notes),
        _ending(batch),
    ]
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
    blocks += [_examples_text(batch.hits), *(f"note: {note}" for note in batch.notes)]
    return "\n\n".join(blocks)


def _examples_text(hits: Sequence[Hit]) -> str:
    """Number of records by the filters they meet."""
    rungs: dict[str, int] = {}
    for hit in hits:
        if hit.rung is not None:
            met = ", ".join(map(str, hit.rung.met)) or "no filter"
            rung = f"{hit.rung.weight:g}: {met}"
            rungs[rung] = rungs.get(rung, 0) + 1
    lines = [
        f"examples from {count_noun(len(hits), 'record')}, by the total weight of the filters "
        "they meet:"
    ]
    lines += [f"  {count:3d} x {rung}" for rung, count in rungs.items()]
    short = [textwrap.shorten(line, 200, placeholder=" …") for line in lines[:9]]
    return "\n".join(textwrap.fill(line, width(), subsequent_indent=" " * 8) for line in short)


def _ending(batch: DraftBatch) -> str:
    stored = "not stored" if batch.number is None else f"batch {batch.number}"
    usage = batch.usage
    known = ", from stored replies" if batch.cached else ""
    return (
        f"{stored}: {count_noun(len(batch.texts), 'text')}, {count_noun(usage.calls, 'call')}, "
        f"{usage.prompt_tokens} prompt tokens, {usage.completion_tokens} completion tokens, "
        f"{cost_text(usage)}{known}"
    )
