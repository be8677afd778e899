"""Diagnoses of a project: stored, resumable runs of rows with every oracle."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from ...core import ConfigError, TestsetError, count_noun
from ...flow import Flow, Forecast, Job, Runs, RunSummary
from ...measure import Measure
from ...models import NO_MODEL
from ...project import Project, refuse_forget
from ...retrieve import RetrieveOptions
from ...testsets import Testset
from ..evaluations import Evaluating, RunOptions, judging, plan_evaluation, run_named
from ._diagnosis import (
    Diagnosis,
    diagnosis_by,
    diagnosis_of,
    read_diagnosed_row,
    write_diagnosed_row,
)
from ._gold_places import has_gold
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
class Diagnosing(RunOptions):
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
    project: Project, testset: Testset, measures: str | Sequence[Measure], options: Diagnosing
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
    rows, errors = _diagnosed_rows(project.runs, summary.run)
    parts: dict[str, Any] = {"seed": options.seed, "cluster": options.cluster}
    diagnosis = diagnosis_of(rows, work.measures, work.stages, name=testset.name, **parts)
    for field in options.by:
        diagnosis = diagnosis_by(diagnosis, field, work.measures, work.stages, **parts)
    notes = [*work.testset.notes, *diagnosis.notes, *_diagnosis_notes(project, work, errors)]
    notes += _shallow_measures_note(diagnosis, work, project.settings.retrieve)
    return replace(diagnosis, notes=tuple(notes)), summary


def forecast_diagnosis(
    project: Project, testset: Testset, measures: str | Sequence[Measure], options: Diagnosing
) -> Forecast:
    """Forecast the calls and cost of a diagnosis."""
    work = _diagnosis_work(project, testset, measures, options)
    return project.runner.forecast(make for _, make in work.items)


def _diagnosis_work(
    project: Project, testset: Testset, measures: str | Sequence[Measure], options: Diagnosing
) -> _DiagnosisWork:
    stages = _checked_stages(options.stages, testset)
    if options.closed_book and project.settings.answer.model == NO_MODEL:
        raise ConfigError(
            "without a chat model there is no answer without passages",
            where="--closed-book",
            hint="set a chat model: answer.model",
        )
    rows, wanted_measures, base = plan_evaluation(project, testset, measures, Evaluating())
    plan = project.plan(stream=False)
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
    manifest = {**base.manifest, "stages": list(stages), "closed_book": options.closed_book}
    items = [(row.id, partial(diagnose_row, row, case)) for row in rows.rows]
    return _DiagnosisWork(rows, wanted_measures, stages, manifest, items)


def _needs_replies(project: Project, options: RetrieveOptions) -> bool:
    """True if the result depends on a reply that a dry run does not have."""
    rewriting = {*options.query.methods} - {"glossary"}
    model_decides = options.iterate.method == "model" or options.route.method == "model"
    embedder = project.settings.embed.model if options.search != "keyword" else ""
    reranker = options.rerank.model.removeprefix("embed:")
    models = [name for name in (embedder, reranker) if name]
    remote = [name for name in models if name != NO_MODEL and not project.models.is_local(name)]
    return bool(rewriting or model_decides or remote)


def _checked_stages(requested: tuple[Stage, ...], testset: Testset) -> tuple[Stage, ...]:
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


def _diagnosed_rows(runs: Runs, run: str) -> tuple[list[DiagnosedRow], list[str]]:
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
