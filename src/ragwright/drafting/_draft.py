"""The record declarations that drafts depend on, the present or the promoted ones."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote

from .. import answer, models, records
from ..answer import DraftOptions
from ..core import (
    ConfigError,
    GoldSpan,
    RagwrightError,
    Row,
    Usage,
    case_folded,
    count_noun,
    rights_first,
    value_hash,
)
from ..flow import Flow, Forecast, gather, run_in_pool
from ..models import NO_MODEL
from ..project import (
    Project,
    ProjectFolder,
    Served,
    Settings,
    configuration_of,
    read_promoted_settings,
    refuse_forget,
)
from ..records import RecordsSpec
from ..retrieve import Target
from ..testsets import FEEDBACK, store_candidates
from ._copies import copies_among
from ._export import output_row
from ._find import DraftPlan, check_biography, find_pool, settle_request
from ._records import DraftBatch, Drafting, DraftPrompt, DraftRequest, DraftText, Feedback, Origin
from ._store import Outputs
from ._write import (
    NEAR_COPY,
    DraftJob,
    Known,
    ModelDrafts,
    partial_results,
    preview_calls,
    write_texts,
)

_RECORDS = "records"
"""The section of the project file, and the key of a promoted configuration."""

_BIOGRAPHIES = "biographies"


def draft_declarations(folder: ProjectFolder, settings: Settings) -> RecordsSpec:
    """The record declarations that drafts depend on: rollups, biographies, rules, text format.

    Under the served configuration they are the promoted ones.

    Raises:
        RecordsError: A declaration is wrong, with file and line.
    """
    name = _format_name(folder, settings)
    if folder.frozen is None:
        return records.load_spec(folder.root / _RECORDS, name)
    return records.load_draft_spec(folder.frozen / _RECORDS, name)


def read_promoted_declarations(
    folder: ProjectFolder, settings: Settings
) -> tuple[dict[str, Any], list[str]]:
    """What a promoted configuration contains of record declarations.

    Returns:
        Keys of the section ``records`` that differ from their defaults, and paths of the files
        that drafts depend on, relative to the project folder.
    """
    name = _format_name(folder, settings)
    changed = {"format": name} if name != records.RecordsOptions().format else {}
    return changed, [path for path in _declarations(folder.parts, name) if _within(path)]


def _format_name(folder: ProjectFolder, settings: Settings) -> str:
    """Name of the text format, perhaps the promoted one."""
    options = settings.part(_RECORDS, records.RecordsOptions)
    if folder.frozen is not None:
        options = records.RecordsOptions(**(read_promoted_settings(folder).get(_RECORDS) or {}))
    return options.format


def _within(path: str) -> bool:
    """True for a path that stays within its folder."""
    plain = Path(os.path.normpath(path))
    return not plain.is_absolute() and ".." not in plain.parts


def _declarations(root: Path, name: str) -> Iterator[str]:
    """Files of declarations that drafts depend on, relative to the project folder."""
    yield f"{_RECORDS}/rules.yaml"
    yield os.path.normpath(f"{_RECORDS}/text_formats/{name}.yaml")
    yield f"{_RECORDS}/rollups.yaml"
    if table := _biographies(root / _RECORDS / "rollups.yaml"):
        yield os.path.normpath(f"{_RECORDS}/{table}")


def _biographies(rollups: Path) -> str:
    """The table of biographies in a file of rollups; empty if there is none."""
    import yaml

    # The file may list thousands of clients: libyaml events are several times faster than values
    # with lines. Its composer is not used: deep nesting overflows its stack and ends the process.
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        text = rollups.read_text("utf-8-sig")
        return _value_of(_BIOGRAPHIES, yaml.parse(text, loader)) if _BIOGRAPHIES in text else ""
    except (OSError, ValueError, yaml.YAMLError):  # reading the file for a draft reports the fault
        return ""


def _value_of(name: str, events: Iterable[Any]) -> str:
    """The text of a key of the outermost mapping, empty if the key or text is missing."""
    import yaml

    level = 0
    key: str | None = None  # the last key of the outermost mapping, until its value follows
    for event in events:
        if isinstance(event, yaml.CollectionEndEvent):
            level -= 1
        elif level == 1 and key is None and isinstance(event, yaml.ScalarEvent):
            key = str(event.value)
            continue
        elif level == 1 and key == name:
            return str(event.value) if isinstance(event, yaml.ScalarEvent) else ""
        elif isinstance(event, yaml.CollectionStartEvent):
            level += 1
        if level == 1:
            key = None
    return ""


@dataclass(slots=True)
class Underway:
    """A draft in progress, with its partial result if it is stopped."""

    job: DraftJob | None = None

    def batch(self, known: Known, reason: str) -> DraftBatch | None:
        """Return the answered calls and their texts, marked partial; None if there are none.

        Args:
            known: Returns the stored reply to a request, None if there is none.
            reason: Reason of the stop.
        """
        results = [] if self.job is None else partial_results(self.job, known)
        if self.job is None or not results:
            return None
        batch = _batch_of(self.job, results)
        return replace(
            batch, notes=(f"stopped before its end: {reason}", *batch.notes), partial=True
        )


def draft(
    request: DraftRequest, target: Target, plan: DraftPlan, underway: Underway | None = None
) -> Flow[DraftBatch]:
    """Draft texts in a client's style, by every model of the plan, from records found once.

    Soft filters choose the records: client, ask type, length, every topic and every tone. A model
    gets a sample of them as turns and writes all texts at once; of long texts
    each text has its own call with mutually dissimilar examples. Missing texts and those of a wrong
    length are requested once more. Near copies are marked.

    With ``plan.preview`` prompts are built but not sent; no model is needed. ``underway`` holds the
    partial result if the draft is stopped (budget, interrupt).

    Raises:
        PromptError: An unknown name, with the nearest; too few records; a template that fails; a
            window that is too small.
        RetrieveError: The index holds no records.
        ModelError: Every model failed; with the error of each.
        ConfigError: There is no model.
    """
    settled = settle_request(request, plan)
    if not plan.models and not plan.preview:
        raise no_model()
    typed = request.client.strip()
    pool = yield from find_pool(settled, target, plan, typed)
    yield from check_biography(settled, target, plan, typed)
    job = DraftJob(settled, plan, pool, target.snapshot)
    if underway is not None:
        underway.job = job
    if plan.preview:
        return (yield from run_in_pool(partial(_preview_batch, job)))
    outcomes = yield from gather([write_texts(model, job) for model in plan.models], settle=True)
    results = [
        _result_or_failure(model, outcome)
        for model, outcome in zip(plan.models, outcomes, strict=True)
    ]
    errors = [(result.model, result.error) for result in results if result.error is not None]
    if len(errors) == len(results):
        raise _combined_error(errors)
    return (yield from run_in_pool(partial(_batch_of, job, results)))


def no_model() -> ConfigError:
    """Return the error if no model is configured for drafts."""
    return ConfigError(
        "no chat model is configured",
        where="answer.draft.models",
        hint="--model provider:name, or answer.model or answer.draft.models in ragwright.yaml "
        "(openai:…, ollama:…, http://host/v1#name); --show-prompt and --dry-run need none",
    )


def _preview_batch(job: DraftJob) -> DraftBatch:
    return _batch_of(job, [preview_calls(model, job) for model in job.plan.models or ("",)])


def _result_or_failure(model: str, outcome: ModelDrafts | Exception) -> ModelDrafts:
    """Return the result of a model; an error of its prompt does not affect other models."""
    if isinstance(outcome, ModelDrafts):
        return outcome
    if not isinstance(outcome, RagwrightError):
        raise outcome
    return ModelDrafts(
        model, notes=(f"{model}: {type(outcome).__name__}: {outcome.what}",), error=outcome
    )


def _combined_error(errors: Sequence[tuple[str, RagwrightError]]) -> RagwrightError:
    """Combine the errors of all models, in their common class."""
    _, first = errors[0]
    if len(errors) == 1:
        return first
    kind = next(k for k in type(first).__mro__ if all(isinstance(error, k) for _, error in errors))
    messages = "; ".join(
        f"{model}: {type(error).__name__}: {error.what}" for model, error in errors
    )
    hints = dict.fromkeys(error.hint for _, error in errors if error.hint)
    combined: RagwrightError = kind(
        f"each of the {len(errors)} models failed: {messages}",
        where=", ".join(dict.fromkeys(error.where for _, error in errors if error.where)) or None,
        hint="; ".join(hints) or None,
    )
    combined.__cause__ = first
    return combined


def _batch_of(job: DraftJob, results: Sequence[ModelDrafts]) -> DraftBatch:
    prompts: list[DraftPrompt] = []
    texts: list[DraftText] = []
    notes = [*job.plan.notes, *job.pool.retrieved.notes]
    for result in results:
        texts += [replace(text, prompt=len(prompts) + text.prompt) for text in result.texts]
        prompts += result.prompts
        notes += result.notes
    # Near copies are marked: of examples of the pool, and of earlier texts.
    examples = [(example.hit.document_id, example.text) for example in job.pool.examples]
    copies = copies_among([text.text for text in texts], examples, NEAR_COPY)
    return DraftBatch(
        job.request,
        tuple(
            replace(text, marks=(*text.marks, *map(str, near))) if near else text
            for text, near in zip(texts, copies, strict=True)
        ),
        tuple(prompts),
        job.pool.retrieved.hits,
        job.pool.retrieved.query,
        job.pool.retrieved.mode,
        tuple(result.model for result in results if result.model),
        tuple(dict.fromkeys(notes)),
        # The cost of a failed call is unknown; it must not hide that of the others.
        sum((prompt.usage for prompt in prompts if not prompt.error), Usage()),
        bool(prompts) and all(prompt.cached for prompt in prompts),
        snapshot=job.snapshot,
    )


def project_outputs(project: Project) -> Outputs:
    """Return the table of outputs of a project, own or shared; it is closed with the project."""
    path = project.settings.shared.place(project.folder.ledger)
    return project.attached(Outputs, lambda: Outputs(path))


def save_drafts(
    project: Project, batch: DraftBatch, scope: str = "", origin: Origin | None = None
) -> int:
    """Store a batch of drafts with its origin; return its number.

    Args:
        project: Project of the draft.
        batch: The drafts, with the snapshot of the index that was searched.
        scope: Visibility of the batch (tenant, permissions).
        origin: :func:`origin_of` from before the drafting, as files may change meanwhile; the
            present one if None.

    Raises:
        StoreError: It cannot be stored; nothing is stored.
    """
    return project_outputs(project).save(
        batch, replace(origin or origin_of(project), snapshot=batch.snapshot, scope=scope)
    )


def origin_of(project: Project, settings: Settings | None = None) -> Origin:
    """Return the present configuration of an opened project, and its number if it is served.

    The snapshot and the scope are the batch's own. ``settings`` are those of the batch, if they
    differ from the project's.
    """
    configuration = configuration_of(project.folder, settings or project.settings)
    served = Served(project.folder).current()
    is_served = served is not None and served.configuration == configuration.hash
    return Origin(
        configuration=configuration.hash,
        settings=configuration.body(),
        served=served.number if served is not None and is_served else None,
    )


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
    if pool < examples:
        raise ConfigError(
            f"a pool of {pool} records cannot give {examples} examples",
            where="answer.draft.pool",
            hint=f"raise answer.draft.pool (--pool) to {examples} or more, or lower "
            "answer.draft.examples (--examples)",
        )
    return replace(options, examples=examples, pool=pool)


def _settings_of_draft(project: Project, options: Drafting) -> Settings:
    """Return the project's settings with those of one draft."""
    project_answer = project.settings.answer
    return replace(
        project.settings,
        answer=replace(project_answer, draft=set_draft_numbers(project_answer.draft, options)),
    )


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
        ConfigError: No model writes the drafts, or a name is not a model.
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
    plan = replace(
        plan,
        models=models,
        preview=options.preview,
        retrieve=replace(plan.retrieve, filters=filters),
    )
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


def collect_feedback(project: Project, scope: str = "") -> Path:
    """Write what readers rated or corrected as candidate rows into a testset; return its path.

    A question for a persona is one row: of its latest correction, else of the latest feedback on
    it. Rows that a person decided on stay as they are. Answers that follow earlier turns are left
    out: of those turns only the questions are stored. Without feedback no file is written.

    Args:
        project: The project; the testset is ``testsets/feedback.jsonl``, for a tenant
            ``testsets/feedback-NAME.jsonl``.
        scope: The tenant whose answers are collected; those without a tenant by default.

    Raises:
        StoreError: The outputs cannot be read.
        TestsetError: The testset cannot be read or written.
    """
    outputs = project_outputs(project)
    given = sorted(outputs.feedback_on_answers(scope), key=lambda entry: bool(entry.correction))
    rows = {row.id: row for entry in given for row in _candidate_rows(outputs, entry)}
    name = f"-{quote(scope, safe='')}" if scope else ""
    path = project.folder.testsets / f"feedback{name}.jsonl"
    store_candidates(path, [*rows.values()])
    return path


def _candidate_rows(outputs: Outputs, given: Feedback) -> Iterator[Row]:
    """Yield an answer with feedback as a row, if it does not follow earlier turns.

    Its gold answer is the correction. Its gold passages are the citations that the reader named, or
    all if readers accept the answer. Snippets stand one by one, so only the best is proposed.
    """
    output = outputs.get(given.output)
    if output.request.get("asked_before"):
        return
    row = output_row(outputs, output)
    cited = outputs.batch(output.batch).details.get("citations", ())
    most = 1 if output.model == NO_MODEL else len(cited)
    gold = [cited[n - 1] for n in given.passages] or cited[: most * (output.verdict == "accepted")]
    spans = (GoldSpan(c["document_id"], c["start"], c["end"], c["quote"]) for c in gold)
    name = value_hash([case_folded(row.user_input), row.persona_name])[:12]
    yield replace(
        row,
        id=f"feedback-{name}",
        reference=given.correction,
        reference_spans=tuple(dict.fromkeys(spans)),
        metadata={
            **row.metadata,
            "kind": FEEDBACK,
            "scope": output.scope,
            "corrected": bool(given.correction),
        },
    )
