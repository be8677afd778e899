"""Drafts in a project: combines declarations and settings, runs the flow, stores outputs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from .. import answer, models
from ..answer import DraftOptions
from ..core import RagwrightError, count_noun, rights_first
from ..flow import Flow, Forecast
from ..project import Project, Settings, refuse_forget
from ._declarations import draft_declarations
from ._draft import Underway, draft, no_model
from ._find import DraftPlan
from ._options import Drafting
from ._records import DraftBatch, DraftRequest
from ._saving import origin_of, project_outputs, save_drafts
from .outputs import Origin


@refuse_forget("draft")
def run_drafts(project: Project, request: DraftRequest, options: Drafting) -> DraftBatch:
    """Draft the texts of a request, and store them in the table of outputs under a number.

    If the draft is stopped, the texts written so far are stored, marked partial.

    Raises:
        StoppedError: The budget was spent; the hint names the batch of the texts written.
        StoreError: The table of outputs cannot be written; no model was called.
        KeyboardInterrupt: After Ctrl-C; its note names that batch.
    """
    storing = options.save and not options.preview
    if storing:  # before any call is paid for
        project_outputs(project).require_writable()
    underway = Underway()
    flow = drafts(project, request, options, underway)()
    # taken before the run: files may change meanwhile
    origin = origin_of(project, _settings_of_draft(project, options)) if storing else Origin()
    try:
        batch = project.runner.run(
            flow, scope=options.scope, timeout=options.timeout, trace=options.trace
        )
    except (RagwrightError, KeyboardInterrupt) as stop:
        if storing:
            _store_partial(project, underway, options, origin, stop)
        raise
    batch = replace(batch, notes=(*batch.notes, *project.replies.notes))
    if not storing:
        return batch
    return replace(batch, number=save_drafts(project, batch, options.scope, origin))


def set_draft_numbers(options: DraftOptions, drafting: Drafting) -> DraftOptions:
    """Set the numbers of examples and records that a draft requests.

    Raises:
        ConfigError: The pool is smaller than the number of examples.
    """
    examples = options.examples if drafting.examples is None else drafting.examples
    pool = options.pool if drafting.pool is None else drafting.pool
    return replace(options, examples=examples, pool=pool)


def _settings_of_draft(project: Project, options: Drafting) -> Settings:
    """Return the project's settings with those of one draft."""
    project_answer = project.settings.answer
    configured = replace(project_answer, draft=set_draft_numbers(project_answer.draft, options))
    return replace(project.settings, answer=configured)


def _store_partial(
    project: Project,
    underway: Underway,
    options: Drafting,
    origin: Origin,
    stop: RagwrightError | KeyboardInterrupt,
) -> None:
    """Store the texts written before a stop; the error names their place, or the failure."""
    reason = stop.what if isinstance(stop, RagwrightError) else "the user (Ctrl-C)"
    batch = underway.batch(partial(project.runner.known, scope=options.scope), reason)
    if batch is None:
        return
    try:
        number = save_drafts(project, batch, options.scope, origin)
        outcome = (
            f"{count_noun(len(batch.texts), 'text is', 'texts are')} stored as batch "
            f"{number}, marked partial: "
            f"ragwright outputs show {number}"
        )
    except RagwrightError as error:
        outcome = (
            f"{count_noun(len(batch.texts), 'text is', 'texts are')} not stored as outputs: "
            f"{error.what}"
        )
    if isinstance(stop, RagwrightError):
        stop.hint = f"{stop.hint}; {outcome}" if stop.hint else outcome
    else:
        stop.add_note(outcome)


def forecast_drafts(project: Project, request: DraftRequest, options: Drafting) -> Forecast:
    """Forecast the calls and cost of drafting; without a model, of finding the records."""
    previewed = options if models_of(project, options) else replace(options, preview=True)
    return project.runner.forecast([drafts(project, request, previewed)], scope=options.scope)


def drafts(
    project: Project, request: DraftRequest, options: Drafting, underway: Underway | None = None
) -> Callable[[], Flow[DraftBatch]]:
    """Open everything a draft needs; return a function that makes the flow.

    ``underway`` holds the partial draft if the work is stopped.

    Raises:
        ConfigError: There is no model to write, or a name is not a model.
        RecordsError: A declaration of the records is wrong, with file and line.
    """
    models = models_of(project, options)
    if not models and not options.preview:
        raise no_model()
    for model in models:
        # a misspelt name is reported before other calls are paid for
        project.models.settings_of(model)
    plan = draft_plan(project)
    plan = replace(plan, options=set_draft_numbers(plan.options, options))
    filters = rights_first(plan.retrieve.filters + options.filters)
    searching = replace(plan.retrieve, filters=filters)
    plan = replace(plan, models=models, preview=options.preview, retrieve=searching)
    return partial(draft, request, project.target(), plan, underway)


def models_of(project: Project, options: Drafting) -> tuple[str, ...]:
    """Return the models that write, each once; none if none is configured."""
    answer = project.settings.answer
    answering = () if answer.model == models.NO_MODEL else (answer.model,)
    return tuple(dict.fromkeys(options.models or answer.draft.models or answering))


def draft_plan(project: Project) -> DraftPlan:
    """Return the settings of drafting in a project, without request, models and index."""
    settings = project.settings
    spec = draft_declarations(project.folder, settings)
    options = settings.answer.draft
    if project.session.seed:
        options = replace(options, seed=project.session.seed)
    return DraftPlan(
        options,
        format=spec.format,
        rollups=spec.rollups,
        rules=spec.rules,
        retrieve=settings.retrieve,
        window_of=partial(answer.generator_window, models=project.models, replies=project.replies),
        notes=project.partial_note(),
    )
