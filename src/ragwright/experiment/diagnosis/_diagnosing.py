"""Diagnoses as runs: with every oracle, or of a stored run from its answers alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from math import comb
from typing import Any, Literal, TypeAlias

from ...core import ConfigError, Row, TestsetError, count_noun
from ...flow import Flow, Forecast, Job, Runs, RunSummary
from ...measure import Measure, p_text, read_mark
from ...models import NO_MODEL
from ...project import Project, refuse_forget
from ...retrieve import RetrieveOptions
from ...testsets import Testset
from ..evaluations import (
    Evaluation,
    EvaluationOptions,
    RowResult,
    RunOptions,
    judging,
    plan_evaluation,
    run_named,
)
from ._diagnosis import (
    Diagnosis,
    diagnosis_by,
    diagnosis_of,
    group_by_field,
    read_diagnosed_row,
    write_diagnosed_row,
)
from ._gold_places import has_gold, is_right
from ._oracles import (
    DiagnosedRow,
    DiagnosisCase,
    Stage,
    diagnose_row,
    pool_depth,
    stage_names,
)

_FRONT = ("filter", "retrieve", "rerank", "truncate")
_WIDE = 0.5
"""Share of the index above which a pool says little, since chance finds gold too."""


@dataclass(frozen=True, slots=True)
class DiagnosisOptions(RunOptions):
    """Options of a diagnosis.

    Attributes:
        stages: Stages that get an oracle; by default all that the rows and measures allow.
        by: Fields to slice by: ``persona_name``, or columns.
        closed_book: Also ask without passages.
        cluster: What dependent rows have in common; see ``clusters_of_results``.
    """

    stages: tuple[Stage, ...] = ()
    by: Sequence[str] = ()
    closed_book: bool = False
    cluster: str = ""


@dataclass(frozen=True, slots=True)
class _DiagnosisWork:
    """The rows, measures and flows of a diagnosis."""

    testset: Testset
    measures: Sequence[Measure]
    stages: tuple[Stage, ...]
    manifest: Mapping[str, Any]
    items: Sequence[tuple[str, Callable[[], Flow[DiagnosedRow]]]]


@refuse_forget("diagnose")
def run_diagnosis(
    project: Project, testset: Testset, measures: str | Sequence[Measure], options: DiagnosisOptions
) -> tuple[Diagnosis, RunSummary]:
    """Answer every row as the project does and with each oracle, and locate lost points.

    Rows are stored as they end, as a run of the kind ``diagnose``. Replies are shared with every
    other run, and an oracle that changes nothing on a row makes no calls.

    Raises:
        TestsetError: No row has the gold that the stages need.
        ConfigError: A stage is unknown, or there is no chat model to answer without passages.
        MeasureError: A measure is unknown, or its model is not set.
    """
    work = _diagnosis_work(project, testset, measures, options)
    job = Job(
        kind="diagnose",
        manifest=work.manifest,
        items=work.items,
        encode=write_diagnosed_row,
        sources=lambda row: row.documents,
    )
    summary = run_named(project.runner, project.runs, job, options)
    rows, errors = _read_diagnosed_rows(project.runs, summary.run)
    parts: dict[str, Any] = {"seed": options.seed, "cluster": options.cluster}
    diagnosis = diagnosis_of(rows, work.measures, work.stages, name=testset.name, **parts)
    for name_of_slice in options.by:
        diagnosis = diagnosis_by(diagnosis, name_of_slice, work.measures, work.stages, **parts)
    notes = [*work.testset.notes, *diagnosis.notes, *_diagnosis_notes(project, work, errors)]
    notes += _shallow_measures_note(diagnosis, work, project.settings.retrieve)
    return replace(diagnosis, notes=tuple(notes)), summary


def forecast_diagnosis(
    project: Project, testset: Testset, measures: str | Sequence[Measure], options: DiagnosisOptions
) -> Forecast:
    """Forecast the calls and cost of a diagnosis."""
    return project.runner.forecast(
        make for _, make in _diagnosis_work(project, testset, measures, options).items
    )


def _diagnosis_work(
    project: Project, testset: Testset, measures: str | Sequence[Measure], options: DiagnosisOptions
) -> _DiagnosisWork:
    stages = _check_stages(options.stages, testset)
    if options.closed_book and project.settings.answer.model == NO_MODEL:
        raise ConfigError(
            "without a chat model there is no answer without passages",
            where="--closed-book",
            hint="set a chat model: answer.model",
        )
    base = plan_evaluation(project, testset, measures, EvaluationOptions())
    rows, wanted_measures = base.rows, base.measures
    plan = project.plan()
    setup = judging(project)
    case = DiagnosisCase(
        project.target(),
        plan,
        project.persona,
        wanted_measures,
        setup,
        stages,
        options.closed_book,
        _needs_replies(project, plan.retrieve),
    )
    manifest = {**base.job.manifest, "stages": list(stages), "closed_book": options.closed_book}
    items = [(row.id, partial(diagnose_row, row, case)) for row in rows.rows]
    return _DiagnosisWork(rows, wanted_measures, stages, manifest, items)


def _needs_replies(project: Project, options: RetrieveOptions) -> bool:
    """True if the result depends on a reply that a dry run does not have."""
    rewriting = {*options.query.methods} - {"glossary"}
    model_decides = options.iterate.model or options.route.method == "model"
    embedder = project.settings.embed.model if options.search != "keyword" else ""
    reranker = options.rerank.model.removeprefix("embed:")
    models = [name for name in (embedder, reranker) if name]
    remote = [name for name in models if name != NO_MODEL and not project.models.is_local(name)]
    return bool(rewriting or model_decides or remote)


def _check_stages(requested: tuple[Stage, ...], testset: Testset) -> tuple[Stage, ...]:
    """Return the requested stages, from the front; refuse those whose gold is missing."""
    unknown = [stage for stage in requested if stage not in stage_names()]
    if unknown:
        raise ConfigError(
            f"unknown stage {unknown[0]!r}",
            where="--stages",
            hint=f"one of {', '.join(stage_names())}",
        )
    stages = tuple(stage for stage in stage_names() if not requested or stage in requested)
    if any(stage in _FRONT for stage in stages) and not any(map(has_gold, testset.rows)):
        raise TestsetError(
            f"none of the {len(testset.rows)} rows has gold for retrieval",
            where=testset.name,
            hint="give rows reference_spans ({document_id, start, end, text}) or reference_ids "
            "(document ids); or use --stages generate,judge, which only need gold answers",
        )
    answer_stages = [stage for stage in stages if stage not in _FRONT]
    if answer_stages == list(stages) and not any(row.reference.strip() for row in testset.rows):
        raise TestsetError(
            f"none of the {len(testset.rows)} rows has a gold answer",
            where=testset.name,
            hint="give rows a reference, or use stages of the search",
        )
    return stages


def _read_diagnosed_rows(runs: Runs, run: str) -> tuple[list[DiagnosedRow], list[str]]:
    """Read the rows of a run, and the reasons of those without a result."""
    rows, errors = [], []
    for row in runs.rows(run):
        if row.state == "done":
            rows.append(read_diagnosed_row(row.body))
        else:
            reason = row.body.get("what", "not reached")
            errors.append(f"row {row.id} {row.state}: {reason}")
    return rows, errors


def _diagnosis_notes(project: Project, work: _DiagnosisWork, errors: Sequence[str]) -> list[str]:
    notes = []
    if errors:
        rest = f" and {len(errors) - 1} more" if len(errors) > 1 else ""
        notes.append(f"left out: {errors[0]}{rest}")
    without = sum(not has_gold(row) for row in work.testset.rows)
    if without:
        notes.append(
            f"{count_noun(without, 'row has', 'rows have')} no gold for retrieval: they are "
            "not used for the search stages"
        )
    options = project.settings.retrieve
    target = project.target()
    depth = pool_depth(options)
    chunks, _ = project.views.answer(target.snapshot, lambda view: view.count())
    if chunks and depth >= _WIDE * chunks:
        notes.append(
            f"the first {depth} candidates count as found, but the index has only {chunks} "
            "chunks: chance finds most of them (lower rerank.candidates or retrieve.pool to see "
            "more)"
        )
    if not options.rerank.model:
        notes.append("no reranker is set: `rerank` shows what a perfect one could add")
    return notes


def _shallow_measures_note(
    diagnosis: Diagnosis, work: _DiagnosisWork, options: RetrieveOptions
) -> list[str]:
    """Add a note if rows are lost to the cut but no measure looks beyond it."""
    lost, top_k, depth = diagnosis.losses.get("truncate", 0), options.top_k, pool_depth(options)
    shallow = [str(m) for m in work.measures if m.cutoff is not None and m.cutoff <= top_k]
    if not lost or not shallow or options.context_tokens is not None:
        return []
    return [
        f"{count_noun(lost, 'row is', 'rows are')} lost to the cut: {', '.join(shallow)} look "
        "only as deep as top_k "
        f"({top_k}) and cannot show the effect of keeping more; use a deeper one, such as "
        f"Recall@{depth}"
    ]


Place: TypeAlias = Literal["", "retrieve", "generate", "errored", "unknown"]
"""Stage where a row is lost; ``""`` if its answer is right."""

_LEVEL = 0.05


@dataclass(frozen=True, slots=True)
class RunRowLoss:
    """One row of a run, and the stage where it is lost.

    Attributes:
        row_id: The row.
        lost: Stage where it is lost.
        right: True if the answer is right by the reference; None without one.
        gold: True if the system returned a gold passage; None if unknown.
        by: Evidence for that: ``spans``, ``ids`` or ``words`` of the reference; empty if unknown.
        reason: Reason of an errored or unknown row.
        user_input: The question; ``reference`` its gold answer, ``response`` the answer.
    """

    row_id: str
    lost: Place
    right: bool | None = None
    gold: bool | None = None
    by: str = ""
    reason: str = ""
    user_input: str = ""
    reference: str = ""
    response: str = ""


@dataclass(frozen=True, slots=True)
class RunDiagnosis:
    """The places where the rows of a run are lost.

    Attributes:
        run: The run.
        verdict: Sentences, the conclusion first.
        stage: ``retrieve`` or ``generate``, where significantly more rows are lost; else empty.
        losses: Place -> number of rows.
        rows: Every row.
        notes: Remarks on what the run cannot show.
        parts: ``field = value`` -> the diagnosis of the rows with that value.
    """

    run: str
    verdict: tuple[str, ...]
    stage: Literal["", "retrieve", "generate"]
    losses: dict[Place, int]
    rows: tuple[RunRowLoss, ...]
    notes: tuple[str, ...]
    parts: Mapping[str, RunDiagnosis] = field(default_factory=dict)


def diagnose_run(
    evaluation: Evaluation, language: str = "en", by: Sequence[str] = ()
) -> RunDiagnosis:
    """Split the rows of a run by where they are lost.

    An answer is right by :data:`RIGHT_RULE`. Gold is found among the passages by spans, by ids of
    documents or, for a row with neither, by the words of the reference. The two places are compared
    by an exact binomial test (5 %, two-sided).

    Args:
        evaluation: The run.
        language: ISO code of the texts.
        by: Fields to slice by: ``persona_name``, or columns.

    Raises:
        TestsetError: The run holds no answers, no row has a reference, or none has a field.
    """
    rows = tuple(_row_loss(result, language) for result in evaluation.results)
    if all(row.right is None and row.lost != "errored" for row in rows):
        raise TestsetError(
            "no row of the run has an answer and a reference to compare it with",
            where=evaluation.name,
            hint="evaluate a test set with a `reference` for each question",
        )
    result_rows = [result.row for result in evaluation.results]
    parts = {
        f"{name} = {value}": _run_diagnosis(value, tuple(groups[value]), ())
        for name in by
        for groups in (group_by_field(rows, result_rows, name),)
        for value in sorted(groups)
    }
    return replace(_run_diagnosis(evaluation.name, rows, _run_notes(evaluation, rows)), parts=parts)


def _run_diagnosis(name: str, rows: tuple[RunRowLoss, ...], notes: tuple[str, ...]) -> RunDiagnosis:
    losses: dict[Place, int] = dict(Counter(row.lost for row in rows))
    missed, wrong = losses.get("retrieve", 0), losses.get("generate", 0)
    n = missed + wrong
    tail = sum(comb(n, k) for k in range(min(missed, wrong) + 1)) / 2**n if n else 1.0
    p = min(1.0, 2 * tail)
    stage: Literal["", "retrieve", "generate"] = ""
    if p <= _LEVEL:
        stage = "retrieve" if missed > wrong else "generate"
    return RunDiagnosis(name, _run_verdict(losses, len(rows), p), stage, losses, rows, notes)


def _row_loss(result: RowResult, language: str) -> RunRowLoss:
    """Locate the loss of one row, with its texts."""
    loss, row = _loss_place(result, language), result.row
    if row is None:
        return loss
    texts = row.user_input, row.reference, row.response or ""
    return replace(loss, user_input=texts[0], reference=texts[1], response=texts[2])


def _loss_place(result: RowResult, language: str) -> RunRowLoss:
    row = result.row
    failed = next((score.reason for score in result.scores if score.state == "errored"), "")
    if row is None or row.response is None:
        reason = failed or "the run holds no answer of it"
        return RunRowLoss(result.row_id, "errored" if failed else "unknown", reason=reason)
    response = "" if read_mark(row, "abstained") else row.response
    right = is_right(row, response, language)
    gold, by = _gold_evidence(row, language)
    if right is None:
        return RunRowLoss(row.id, "unknown", gold=gold, by=by, reason="it has no reference")
    if right:
        return RunRowLoss(row.id, "", right, gold, by)
    if gold is None:
        reason = "its answer is wrong, and the system returned no passages"
        return RunRowLoss(row.id, "unknown", right, reason=reason)
    return RunRowLoss(row.id, "generate" if gold else "retrieve", right, gold, by)


def _gold_evidence(row: Row, language: str) -> tuple[bool | None, str]:
    """Return True if the passages hold gold, and the kind of evidence."""
    searched = row.metadata.get("retrieved") is True
    if row.reference_spans and (row.retrieved_spans or searched):
        is_held = any(
            passage.document_id == span.document_id
            and 2 * (min(passage.end, span.end) - max(passage.start, span.start))
            >= span.end - span.start
            for span in row.reference_spans
            for passage in row.retrieved_spans
        )
        return is_held, "spans"
    if row.reference_ids and (row.retrieved_context_ids or searched):
        gold = {name for name, grade in row.reference_ids.items() if grade > 0}
        return bool(gold & set(row.retrieved_context_ids)), "ids"
    if row.retrieved_contexts or searched:
        return is_right(row, "\n".join(row.retrieved_contexts), language), "words"
    return None, ""


def _run_verdict(losses: dict[Place, int], total: int, p: float) -> tuple[str, ...]:
    right, missed, wrong = (losses.get("", 0), losses.get("retrieve", 0), losses.get("generate", 0))
    sentences = [f"{right} of {total} rows are answered right (see the rule)."]
    if missed or wrong:
        sentences.append(
            f"{missed} are lost in retrieval: no passage that the system returned holds the gold. "
            f"{wrong} are lost in answering: the gold is among the passages, and the answer is "
            "wrong."
        )
        first = "retrieval" if missed > wrong else "answering"
        if p <= _LEVEL:
            sentences.append(
                f"Work on {first} first: it loses more rows ({p_text(p)}, exact test)."
            )
        else:
            sentences.append(f"Too few rows to prove which of the two loses more (p = {p:.2f}).")
    if failed := losses.get("errored", 0):
        sentences.append(f"{failed} failed.")
    if unknown := losses.get("unknown", 0):
        sentences.append(f"{unknown} cannot be placed.")
    return tuple(sentences)


def _run_notes(evaluation: Evaluation, rows: Sequence[RunRowLoss]) -> tuple[str, ...]:
    notes = [
        "filters, reranking, cuts and judges are not separated: that needs the system's own "
        "stages (`diagnose --testset` tests those of a project)"
    ]
    by_words = sum(row.by == "words" for row in rows)
    if by_words:
        notes.append(
            f"{count_noun(by_words, 'row has', 'rows have')} no gold passages: passages count "
            "as gold if they hold the words of the reference"
        )
    for reason, count in Counter(row.reason for row in rows if row.reason).most_common(3):
        notes.append(f"{count_noun(count, 'row')}: {reason}")
    return (*evaluation.notes, *notes)
