"""Drafts in a project: what is declared and configured put together, the flow run, outputs kept."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Protocol

from ..answer import (
    DraftBatch,
    DraftPlan,
    DraftRequest,
    draft,
    generator_window,
    no_model,
)
from ..flow import Flow, Forecast, Replies, TraceEntry
from ..models import ExtractiveReranker
from ._outputs import Serving, save_drafts
from ._served import draft_declarations


@dataclass(frozen=True, slots=True)
class Drafting:
    """How to draft, beyond what is configured.

    Attributes:
        models: Models that write, in place of the configured ones.
        preview: Show the prompts and send none; nothing is stored.
        save: Store prompts and texts in the table of outputs.
        scope: Who may see replies and outputs (tenant, permissions).
        trace: Gets an entry for each request.
    """

    models: tuple[str, ...] = ()
    preview: bool = False
    save: bool = True
    scope: str = ""
    trace: list[TraceEntry] | None = None


class DraftingBench(Serving, Protocol):
    """What drafting needs of an opened project."""

    @property
    def replies(self) -> Replies:
        """What past replies teach of a model's tokens."""

    def partial_note(self) -> tuple[str, ...]:
        """What to say where the index may be partial."""


def run_drafts(bench: DraftingBench, request: DraftRequest, how: Drafting) -> DraftBatch:
    """The texts that a request comes to, stored in the table of outputs under a number."""
    flow = drafts(bench, request, how)()
    batch = bench.runner.run(flow, scope=how.scope, trace=how.trace)
    if how.preview or not how.save:
        return batch
    return replace(batch, number=save_drafts(bench, batch, how.scope))


def forecast_drafts(bench: DraftingBench, request: DraftRequest, how: Drafting) -> Forecast:
    """What drafting would call and cost; without a model, what finding the records would."""
    asked = how if models_of(bench, how) else replace(how, preview=True)
    return bench.runner.forecast([drafts(bench, request, asked)])


def drafts(
    bench: DraftingBench, request: DraftRequest, how: Drafting
) -> Callable[[], Flow[DraftBatch]]:
    """Everything a draft needs, opened here and now; what it gives makes the flow.

    Raises:
        ConfigError: There is no model to write, or what is named is no model.
        RecordsError: A declaration of the records is wrong, with file and line.
    """
    models = models_of(bench, how)
    if not models and not how.preview:
        raise no_model()
    for model in models:
        bench.models.settings_of(model)  # a misspelt name is said before the others are paid
    plan = draft_plan(bench)
    plan = replace(plan, models=models, preview=how.preview)
    return partial(draft, request, bench.target(), plan)


def models_of(bench: DraftingBench, how: Drafting) -> tuple[str, ...]:
    """The models that write, each once; none where none is configured."""
    answer = bench.settings.answer
    written = () if answer.model == ExtractiveReranker.name else (answer.model,)
    return tuple(dict.fromkeys(how.models or answer.draft.models or written))


def draft_plan(bench: DraftingBench) -> DraftPlan:
    """How texts are drafted in a project: all of it but request, models and index."""
    settings = bench.settings
    spec = draft_declarations(bench.folder, settings.records)
    options = settings.answer.draft
    if bench.session.seed:
        options = replace(options, seed=bench.session.seed)
    return DraftPlan(
        options,
        format=spec.format,
        rollups=spec.rollups,
        rules=spec.rules,
        retrieve=settings.retrieve,
        window_of=partial(generator_window, models=bench.models, replies=bench.replies),
        notes=bench.partial_note(),
    )
