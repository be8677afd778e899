"""Diagnoses as runs: with every oracle, or of a stored run from its answers alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from math import comb
from typing import Any, Literal, TypeAlias

from ..core import ConfigError, Row, TestsetError, count_noun, make_plain, suggest_name
from ..flow import Forecast, Job, RunSummary
from ..measure import Measure, p_text, read_mark
from ..models import NO_MODEL
from ..project import Project, refuse_forget
from ..retrieve import RetrieveOptions
from ..testsets import Testset
from ._diagnosis import Diagnosis, diagnosis_by, diagnosis_of, group_by_field
from ._evaluate import judging, plan_evaluation
from ._oracles import (
    FRONT,
    STAGES,
    DiagnosedRow,
    DiagnosisCase,
    Stage,
    diagnose_row,
    has_gold,
    is_right,
    pool_depth,
)
from ._results import Evaluation, EvaluationOptions, RowResult, RunOptions, read_plain
from ._stored_runs import run_named

_WIDE = 0.5
"""Share of the index above which a pool says little, since chance finds gold too."""


@dataclass(frozen=True, slots=True)
class DiagnosisOptions(RunOptions):
    """Options of a diagnosis.

    Attributes:
        stages: Stages that get an oracle; by default all that the rows and measures allow.
        by: Fields to slice by: ``persona_name``, or columns.
        cluster: What dependent rows have in common; see ``clusters_of_results``.
    """

    stages: tuple[Stage, ...] = ()
    by: Sequence[str] = ()
    cluster: str = ""


@refuse_forget("diagnose")
def run_diagnosis(
    project: Project, testset: Testset, measures: str | Sequence[Measure], options: DiagnosisOptions
) -> tuple[Diagnosis, RunSummary]:
    """Answer every row as the project does and with each oracle, and locate lost points.

    Rows are stored as they end, as a run of the kind ``diagnose``. Replies are shared with every
    other run, and an oracle that changes nothing on a row makes no calls.

    Raises:
        TestsetError: No row has the gold that the stages need.
        ConfigError: A stage is unknown.
        MeasureError: A measure is unknown, or its model is not set.
    """
    job, asked, measures, stages = _diagnosis_job(project, testset, measures, options)
    summary = run_named(project.runner, project.runs, job, options)
    stored = list(project.runs.rows(summary.run))
    rows = [read_plain(DiagnosedRow, row.body) for row in stored if row.state == "done"]
    errors = [
        f"row {row.id} {row.state}: {row.body.get('what', 'not reached')}"
        for row in stored
        if row.state != "done"
    ]
    parts: dict[str, Any] = {"seed": options.seed, "cluster": options.cluster}
    diagnosis = diagnosis_of(rows, measures, stages, name=testset.name, **parts)
    for name_of_slice in options.by:
        diagnosis = diagnosis_by(diagnosis, name_of_slice, measures, stages, **parts)
    notes = (
        *asked.notes,
        *diagnosis.notes,
        *_diagnosis_notes(project, asked, errors, diagnosis.losses.get("truncate", 0), measures),
    )
    return replace(diagnosis, notes=notes), summary


def forecast_diagnosis(
    project: Project, testset: Testset, measures: str | Sequence[Measure], options: DiagnosisOptions
) -> Forecast:
    """Forecast the calls and cost of a diagnosis."""
    job, *_ = _diagnosis_job(project, testset, measures, options)
    return project.runner.forecast(make for _, make in job.items)


def _diagnosis_job(
    project: Project, testset: Testset, measures: str | Sequence[Measure], options: DiagnosisOptions
) -> tuple[Job[DiagnosedRow], Testset, Sequence[Measure], tuple[Stage, ...]]:
    stages = _check_stages(options.stages, testset)
    base = plan_evaluation(project, testset, measures, EvaluationOptions())
    rows, wanted_measures = base.rows, base.measures
    plan = project.plan()
    case = DiagnosisCase(
        project.target(),
        plan,
        project.persona,
        wanted_measures,
        judging(project),
        stages,
        _needs_replies(project, plan.retrieve),
    )
    job = Job(
        kind="diagnose",
        manifest={**base.job.manifest, "stages": list(stages)},
        items=[(row.id, partial(diagnose_row, row, case)) for row in rows.rows],
        encode=make_plain,
        sources=lambda row: row.documents,
    )
    return job, rows, wanted_measures, stages


def _needs_replies(project: Project, options: RetrieveOptions) -> bool:
    """True if the result depends on a reply that a dry run does not have."""
    rewriting = {*options.query.methods} - {"glossary"}
    model_decides = options.iterate.model or options.route.method == "model"
    embedder = project.settings.embed.model if options.search != "keyword" else ""
    models = [name for name in (embedder, options.rerank.model) if name]
    remote = [name for name in models if name != NO_MODEL and not project.models.is_local(name)]
    return bool(rewriting or model_decides or remote)


def _check_stages(requested: tuple[Stage, ...], testset: Testset) -> tuple[Stage, ...]:
    """Return the requested stages, from the front; refuse those whose gold is missing."""
    unknown = [stage for stage in requested if stage not in STAGES]
    if unknown:
        raise ConfigError(
            f"unknown stage {unknown[0]!r}",
            where="--stages",
            hint=suggest_name(unknown[0], STAGES),
        )
    stages = tuple(stage for stage in STAGES if not requested or stage in requested)
    of_rows = f"none of the {len(testset.rows)} rows has"
    if FRONT & set(stages) and not any(map(has_gold, testset.rows)):
        raise TestsetError(
            f"{of_rows} gold for retrieval",
            where=testset.name,
            hint="give rows reference_spans ({document_id, start, end, text}) or reference_ids "
            "(document ids); or use --stages generate,judge, which only need gold answers",
        )
    if not FRONT & set(stages) and not any(row.reference.strip() for row in testset.rows):
        raise TestsetError(
            f"{of_rows} a gold answer",
            where=testset.name,
            hint="give rows a reference, or use stages of the search",
        )
    return stages


def _diagnosis_notes(
    project: Project,
    testset: Testset,
    errors: Sequence[str],
    lost: int,
    measures: Sequence[Measure],
) -> Iterator[str]:
    """What the reader should know; ``lost`` rows are lost to the cut."""
    if errors:
        rest = f" and {len(errors) - 1} more" if len(errors) > 1 else ""
        yield f"left out: {errors[0]}{rest}"
    without = sum(not has_gold(row) for row in testset.rows)
    if without:
        yield (
            f"{count_noun(without, 'row has', 'rows have')} no gold for retrieval: they are not "
            "used for the search stages"
        )
    options, target = project.settings.retrieve, project.target()
    depth, top_k = pool_depth(options), options.top_k
    chunks, _ = project.views.answer(target.snapshot, lambda view: view.count())
    if chunks and depth >= _WIDE * chunks:
        yield (
            f"the first {depth} candidates count as found, but the index has only {chunks} "
            "chunks: chance finds most of them (lower rerank.candidates or retrieve.pool to see "
            "more)"
        )
    if not options.rerank.model:
        yield "no reranker is set: `rerank` shows what a perfect one could add"
    shallow = [str(m) for m in measures if m.cutoff is not None and m.cutoff <= top_k]
    if lost and shallow and options.context_tokens is None:
        yield (
            f"{count_noun(lost, 'row is', 'rows are')} lost to the cut: {', '.join(shallow)} look "
            f"only as deep as top_k ({top_k}) and cannot show the effect of keeping more; use a "
            f"deeper one, such as Recall@{depth}"
        )


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
        f"{name} = {value}": _run_diagnosis(value, group, ())
        for name in by
        for value, group in sorted(group_by_field(rows, result_rows, name).items())
    }
    return replace(_run_diagnosis(evaluation.name, rows, _run_notes(evaluation, rows)), parts=parts)


def _run_diagnosis(name: str, rows: Sequence[RunRowLoss], notes: tuple[str, ...]) -> RunDiagnosis:
    losses: dict[Place, int] = dict(Counter(row.lost for row in rows))
    missed, wrong = losses.get("retrieve", 0), losses.get("generate", 0)
    n = missed + wrong
    p = min(1.0, 2 * sum(comb(n, k) for k in range(min(missed, wrong) + 1)) / 2**n)
    stage: Literal["", "retrieve", "generate"] = "retrieve" if missed > wrong else "generate"
    return RunDiagnosis(
        name,
        _run_verdict(losses, len(rows), p),
        stage if p <= _LEVEL else "",
        losses,
        tuple(rows),
        notes,
    )


def _row_loss(result: RowResult, language: str) -> RunRowLoss:
    """Locate the loss of one row, with its texts."""
    row = result.row
    failed = next((score.reason for score in result.scores if score.state == "errored"), "")
    unplaced = RunRowLoss(
        result.row_id,
        "errored" if failed else "unknown",
        reason=failed or "the run holds no answer of it",
        user_input="" if row is None else row.user_input,
        reference="" if row is None else row.reference,
        response="" if row is None else row.response or "",
    )
    if row is None or row.response is None:
        return unplaced
    right = is_right(row, "" if read_mark(row, "abstained") else row.response, language)
    gold, by = _gold_evidence(row, language)
    lost: Place = "generate" if gold else "retrieve"
    reason = ""
    if right is None:
        lost, reason = "unknown", "it has no reference"
    elif right:
        lost = ""
    elif gold is None:
        lost, reason = "unknown", "its answer is wrong, and the system returned no passages"
    return replace(unplaced, lost=lost, right=right, gold=gold, by=by, reason=reason)


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
    right, missed, wrong = (losses.get(place, 0) for place in ("", "retrieve", "generate"))
    sentences = [f"{right} of {total} rows are answered right (see the rule)."]
    if missed or wrong:
        first = "retrieval" if missed > wrong else "answering"
        sentences += [
            f"{missed} are lost in retrieval: no passage that the system returned holds the gold. "
            f"{wrong} are lost in answering: the gold is among the passages, and the answer is "
            "wrong.",
            f"Work on {first} first: it loses more rows ({p_text(p)}, exact test)."
            if p <= _LEVEL
            else f"Too few rows to prove which of the two loses more (p = {p:.2f}).",
        ]
    ends: dict[Place, str] = {"errored": "failed", "unknown": "cannot be placed"}
    sentences += [f"{losses[place]} {end}." for place, end in ends.items() if losses.get(place)]
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
