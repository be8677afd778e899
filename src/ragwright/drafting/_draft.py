"""Drafts of a project: what they depend on, running and storing them, and feedback on them."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, nullcontext, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote

from .. import answer, models, records
from ..answer import CONVERSATION, DraftOptions
from ..core import (
    ConfigError,
    GoldSpan,
    PromptError,
    Row,
    case_folded,
    person_source,
    read_mapping,
    rights_first,
    value_hash,
)
from ..flow import Flow, Forecast
from ..index import forget_sheets
from ..ledger import Database, Ledger, count_kept_of_person, forget, one_to_forget
from ..models import NO_MODEL
from ..project import (
    Project,
    ProjectFolder,
    Served,
    Settings,
    configuration_of,
    forget_glossaries,
    forget_stamps,
    read_promoted_settings,
    refuse_forget,
)
from ..records import RecordsSpec
from ..testsets import FEEDBACK, forget_feedback, store_candidates
from ._export import output_row
from ._find import DraftPlan
from ._project_records import ProjectRecords
from ._records import DraftBatch, Drafting, DraftRequest, Feedback, Origin
from ._store import Outputs
from ._write import draft

_RECORDS = "records"
"""The section of the project file, and the key of a promoted configuration."""


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
    rollups = f"{_RECORDS}/rollups.yaml"
    names = [f"{_RECORDS}/rules.yaml", f"{_RECORDS}/text_formats/{name}.yaml", rollups]
    with suppress(PromptError):  # reading the file for a draft reports the fault
        table = read_mapping(folder.parts / rollups).text("biographies")
        names += [f"{_RECORDS}/{table}"] if table else []
    paths = [Path(os.path.normpath(name)) for name in names]
    inside = [path for path in paths if not path.is_absolute() and ".." not in path.parts]
    return changed, [path.as_posix() for path in inside]


def _format_name(folder: ProjectFolder, settings: Settings) -> str:
    options = settings.part(_RECORDS, records.RecordsOptions)
    if folder.frozen is not None:
        options = records.RecordsOptions(**(read_promoted_settings(folder).get(_RECORDS) or {}))
    return options.format


def project_outputs(project: Project) -> Outputs:
    """Return the table of outputs of a project, own or shared; it is closed with the project."""
    path = project.settings.shared.place(project.folder.ledger)
    return project.resource(Outputs, lambda: Outputs(path))


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

    A stopped draft stores no batch; its replies are kept, so the next run pays only the missing
    calls.

    Raises:
        StoppedError: The budget was spent.
        StoreError: The table of outputs cannot be written; no model was called.
    """
    storing, scope = options.save and not options.preview, options.scope
    if storing:  # before any call is paid for
        project_outputs(project).require_writable()
    flow = drafts(project, request, options)()
    origin = Origin()
    if storing:  # before the run: files may change meanwhile
        whole = project.settings.answer
        numbers = replace(whole, draft=_set_numbers(whole.draft, options))
        origin = origin_of(project, replace(project.settings, answer=numbers))
    batch = project.runner.run(flow, scope=scope, timeout=options.timeout, trace=options.trace)
    batch = replace(batch, notes=(*batch.notes, *project.replies.notes))
    return replace(batch, number=save_drafts(project, batch, scope, origin)) if storing else batch


def _set_numbers(options: DraftOptions, drafting: Drafting) -> DraftOptions:
    """Set the numbers of examples and records that a draft requests."""
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


def forecast_drafts(project: Project, request: DraftRequest, options: Drafting) -> Forecast:
    """Forecast the calls and cost of drafting; without a model, of finding the records."""
    previewed = options if models_of(project, options) else replace(options, preview=True)
    return project.runner.forecast([drafts(project, request, previewed)], scope=options.scope)


def drafts(
    project: Project, request: DraftRequest, options: Drafting
) -> Callable[[], Flow[DraftBatch]]:
    """Open everything a draft needs; return a function that makes the flow.

    Raises:
        ConfigError: No model writes the drafts, or a name is not a model.
        RecordsError: A declaration of the records is wrong, with file and line.
    """
    models = models_of(project, options)
    if not models and not options.preview:
        raise ConfigError(
            "no chat model is configured",
            where="answer.draft.models",
            hint="--model provider:name, or answer.model or answer.draft.models in ragwright.yaml "
            "(openai:…, ollama:…, http://host/v1#name); --show-prompt and --dry-run need none",
        )
    for model in models:
        # a misspelt name is reported before other calls are paid for
        project.models.settings_of(model)
    plan = draft_plan(project)
    plan = replace(
        plan,
        options=_set_numbers(plan.options, options),
        models=models,
        preview=options.preview,
        retrieve=replace(
            plan.retrieve, filters=rights_first(plan.retrieve.filters + options.filters)
        ),
    )
    return partial(draft, request, project.target(), plan)


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


_END_WORK = (
    "nothing was forgotten, because running work could store the text again; wait for it to "
    "end, or end it (Ctrl-C, or `kill` with its process id), then forget again"
)


@contextmanager
def _erasing_alone(project: Project, name: str) -> Iterator[None]:
    """Erase without other work on the project; announce the erasure before and after.

    After the first announcement, answers that use the erased text end; after the second, other
    processes read the remaining data again.
    """
    note = partial(project.erasures.add, [name])
    with project.work.exclusive("forget", hint=_END_WORK, announce=note):
        try:
            yield
        finally:
            note()


def forget_document(project: Project, document_id: str) -> Mapping[str, int]:
    """Purge a document from store, replies, runs, outputs and tables; return the counts.

    The document of a record is also removed from the tables, with all their earlier versions.
    Replies to prompts that held earlier answers are removed too, since those may have quoted it.
    Every process reads :attr:`Project.erasures` again before it shows or stores an answer.

    Args:
        project: The project.
        document_id: The document.

    Raises:
        StoreError: The name is empty, or there are tables of a package that is not installed.
        StoreBusyError: Other processes work on the project and could store the text again; the
            message names them, and nothing was forgotten.
    """
    one_to_forget(document_id)
    with _erasing_alone(project, document_id), _ledgers(project) as ledgers:
        document = project.store.document(document_id)
        names = {document_id, CONVERSATION} | ({document.source} if document else set())
        records = ProjectRecords(project)
        # the document last: it can be named again if anything else cannot be forgotten
        counts = _add_counts(ledgers, partial(forget, source=document_id))
        replies = sum(project.replies.forget(source=name) for name in sorted(names))
        forget_sheets(project.folder.sheets, document_id)
        removed = project.store.remove([document_id], purge=True)
        forget_glossaries(project.folder.cache)  # they may be mined from the document
        forget_stamps(project.folder.cache / "files.sqlite", document_id)
        candidates = forget_feedback(project.folder.testsets, document_id)
        return {
            "documents": removed.removed,
            "chunks": removed.chunks_removed,
            "replies": replies,
            "rows": counts["rows"],
            "outputs": counts["outputs"],
            "records": records.forget(document_id),
            "jobs": counts["jobs"],
            **({"feedback rows": candidates} if candidates else {}),
        }


def scope_name(scope: str) -> str:
    """Return the name of a visibility scope among the erasures of a project."""
    return f"ragwright:scope:{scope}"


def forget_tenant(project: Project, scope: str) -> Mapping[str, int]:
    """Purge the replies, runs and outputs made in a visibility scope; return the counts.

    Raises:
        StoreError: The name is empty.
        StoreBusyError: As :func:`forget_document`.
    """
    one_to_forget(scope=scope)
    with _erasing_alone(project, scope_name(scope)), _ledgers(project) as ledgers:
        counts = _add_counts(ledgers, partial(forget, scope=scope))
        replies = project.replies.forget(scope=scope)
        candidates = forget_feedback(project.folder.testsets, scope=scope)
        return {
            "replies": replies,
            "rows": counts["rows"],
            "outputs": counts["outputs"],
            **({"feedback rows": candidates} if candidates else {}),
        }


def forget_person(project: Project, person: str, *, dry_run: bool = False) -> Mapping[str, int]:
    """Purge everything that is stored under the name of a key or person; return the counts.

    Answers and drafts with all feedback on them, feedback and
    corrections that the person gave, the key, counts of requests and replies to what they
    asked are deleted, as are rows of runs and of feedback that hold their questions. Events of the
    audit log and promotions stay, with a hash in place of the name; the day's spend stays without
    one. With ``dry_run`` this is counted, and nothing is changed.

    Raises:
        StoreError: The name is empty.
        StoreBusyError: As :func:`forget_document`.
    """
    one_to_forget(person=person)
    source = person_source(person)
    with (
        nullcontext() if dry_run else _erasing_alone(project, source),
        _ledgers(project) as ledgers,
    ):
        asked = project_outputs(project).of_person(person)
        rows = sum(_question_rows(ledger, asked, dry_run=dry_run) for ledger in ledgers)
        candidates = forget_feedback(
            project.folder.testsets, outputs=[text[0] for text in asked], dry_run=dry_run
        )
        purge = count_kept_of_person if dry_run else forget
        counts = _add_counts(ledgers, partial(purge, person=person))
        replies = project.replies
        return {
            # what other packages and jobs keep goes with any person: it says nothing of this one
            **{name: number for name, number in counts.items() if name not in ("jobs", "added")},
            "replies": replies.number_of(source) if dry_run else replies.forget(source=source),
            "rows": rows,
            "feedback rows": candidates,
        }


_AT_ONCE = 500
"""Ids of rows that are looked up by one statement."""


def _question_rows(
    ledger: Ledger, asked: Sequence[tuple[str, str]], *, dry_run: bool = False
) -> int:
    """Delete, or count, the rows of runs that hold what a person asked.

    Args:
        ledger: The ledger.
        asked: Id and question of each text.
        dry_run: Count them only.
    """
    questions = {row: question for row, question in asked if question}
    names, lost = sorted(questions), []
    for at in range(0, len(names), _AT_ONCE):
        some = names[at : at + _AT_ONCE]
        marks = ", ".join("?" * len(some))
        for run, row, body in ledger.select(
            f"SELECT run, row, body FROM rows WHERE row IN ({marks})",  # noqa: S608
            some,
        ):
            # rows of a test set may have ids like those of outputs
            if _holds_text(str(body), questions[row]):
                lost.append((run, row))
    if lost and not dry_run:
        with ledger.database.transaction() as connection:
            for table in ("rows", "row_sources"):
                deletion = f"DELETE FROM {table} WHERE run = ? AND row = ?"  # noqa: S608
                connection.executemany(deletion, lost)
    return len(lost)


def _holds_text(body: str, text: str) -> bool:
    """True if a JSON text holds a text, however its characters are escaped."""
    return any(json.dumps(text, ensure_ascii=plain)[1:-1] in body for plain in (True, False))


@contextmanager
def _ledgers(project: Project) -> Iterator[Sequence[Ledger]]:
    """The ledgers of a project, opened before anything is removed: one may be damaged.

    With a shared database, that of the project folder too: it holds promotions and
    what jobs have printed.
    """
    file = project.folder.ledger
    with ExitStack() as stack:
        yield [
            stack.enter_context(closing(Ledger(place)))
            for place in dict.fromkeys((file, project.settings.shared.place(file)))
        ]


def _add_counts(
    ledgers: Sequence[Ledger], purge: Callable[[Database], Mapping[str, int]]
) -> Counter[str]:
    counts = Counter[str]()
    for ledger in ledgers:
        counts.update(purge(ledger.database))
    return counts
