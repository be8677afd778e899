"""Answer the questions of a baseline by a project under other settings, and compare."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from ...core import ConfigError, Row, TestsetError, count_noun
from ...flow import Forecast, RunRow
from ...measure import MeasureSetup, qa_distances
from ...models import NO_MODEL
from ...project import Project, build_like, load_settings, refuse_forget
from ...testsets import CLOSED_BOOK, Testset, project_testset
from ..evaluations import (
    BASELINE,
    Evaluation,
    EvaluationOptions,
    evaluate_testset,
    forecast_testset,
    gold_texts,
    make_given_row,
)
from ._stored import BaselineResult, DistanceSet, load_baseline, read_kept_pairs

_MEASURE = "TokenF1"
_YARDSTICK = "judge."
"""Settings that measure the experiment but are not part of it."""
_INDEXED = ("chunk.", "embed.", "keyword.", "store.")


@dataclass(frozen=True, slots=True)
class BaselineOptions:
    """Options of a comparison with a baseline.

    Attributes:
        settings: What the experiment changes, as ``key=value``: chunker, embedder, model, prompt.
        context: Also answer every question with its own chunk and with none (SPEC C4).
        margin: Largest mean change that counts as equal, as a share of the way from the baseline's
            own answers to shuffled ones.
        resume: Continue unfinished runs.
        name: Name of the experiment's run.
        seed: Seed of intervals and null baselines.
    """

    settings: tuple[str, ...] = ()
    context: bool = False
    margin: float = 0.1
    resume: bool = False
    name: str = ""
    seed: int = 0


@refuse_forget("baseline")
def run_baseline(
    project: Project, testset: str | Testset, options: BaselineOptions | None = None
) -> BaselineResult:
    """Compare the distances d(E'(Q), E'(A')) of a project with d(E'(Q), E'(A)) of given pairs.

    The pairs are rows with a question and a reference answer; they are embedded by the embedding
    model of the experiment, so both sets have the same one (SPEC C3). Every pair is kept in a run
    with its vectors.

    Raises:
        ConfigError: No embedding model is set, or answers with and without the chunk are requested
            and no chat model is set.
        TestsetError: Fewer than two rows are pairs.
        StoppedError: The budget or a key stopped it; finished answers are stored.
    """
    options = options or BaselineOptions()
    variant, embedder = _experiment_project(project, options)
    rows, notes = _pair_rows(project, testset)
    build_like(variant, project)
    baseline = _distance_set(
        variant, BASELINE, [make_given_row(row) for row in rows.rows], embedder, options
    )
    sets = [baseline]
    for name, questions in _question_sets(rows, options):
        evaluation, summary = evaluate_testset(
            variant, questions, _MEASURE, _evaluating_options(options, name)
        )
        if summary.reason is not None:  # sets that are cut off cannot be compared
            raise summary.reason
        answered = _answer_set(variant, name, evaluation, embedder, options)
        sets.append(replace(answered, run=summary.run))
    given, sets[0] = baseline, _same_pairs(variant, rows, sets, embedder, options)
    manifest = {
        "testset": rows.name,
        "rows": rows.fingerprint,
        "embedder": embedder,
        "settings": list(options.settings),
        "changed": [text for text in options.settings if not text.startswith(_YARDSTICK)],
        "notes": [*notes, *_distance_notes(sets)],
        "name": options.name,
        "asked": {each.name: [each.asked, each.abstained] for each in sets},
        "runs": {each.name: each.run for each in sets if each.run},
        "margin": options.margin,
        "seed": options.seed,
    }
    run = variant.runs.start(BASELINE, manifest)
    compared = {pair.id: pair for pair in sets[0].pairs}
    # Of a pair that the experiment did not answer, the null baselines are those of another set.
    unknown: dict[str, Any] = {"shuffled": None, "echoed": None, "random_chunk": None, "rank": None}
    pairs = [compared.get(pair.id) or replace(pair, **unknown) for pair in given.pairs]
    pairs += [pair for each in sets[1:] for pair in each.pairs]
    for position, pair in enumerate(pairs):
        row = RunRow(position, f"{pair.set}/{pair.id}", "done", pair.body())
        variant.runs.append(run, row, sources=pair.sources)
    variant.runs.finish(run, "complete")
    return load_baseline(variant.runs, run)


def forecast_baseline(
    project: Project, testset: str | Testset, options: BaselineOptions | None = None
) -> tuple[Forecast, tuple[str, ...]]:
    """Forecast the calls and cost of :func:`run_baseline`, and name what is not counted.

    Where the experiment's index is not built yet, the project's own stands in for it.
    """
    options = options or BaselineOptions()
    variant, _ = _experiment_project(project, options)
    rows, _ = _pair_rows(project, testset)
    notes = ["the vectors of questions and answers are not counted"]
    known = variant.store.holds(variant.index_spec)
    if not known:
        query_time = tuple(text for text in options.settings if not text.startswith(_INDEXED))
        variant, _ = _experiment_project(project, replace(options, settings=query_time))
        notes.append("the experiment's index is not built: its vectors are not counted either")
    total: Forecast | None = None
    for name, questions in _question_sets(rows, options):
        part = forecast_testset(variant, questions, _MEASURE, _evaluating_options(options, name))
        total = part if total is None else total + part
    assert total is not None
    return total, tuple(notes)


def _experiment_project(project: Project, options: BaselineOptions) -> tuple[Project, str]:
    """The project under the experiment's settings, and its embedding model."""
    overrides = (*project.session.overrides, *options.settings)
    settings = load_settings(project.folder.file, overrides)
    embedder = settings.judge.embedder or settings.embed.model
    if not embedder:
        raise ConfigError(
            "distances need an embedding model, and none is set",
            where=str(project.folder.file),
            hint="set embed.model (or judge.embedder, for the distances alone), for example "
            "--set embed.model=st:FOLDER",
        )
    if options.context and settings.answer.model == NO_MODEL:
        raise ConfigError(
            "answers without the chunk need a chat model, and none is set",
            where=str(project.folder.file),
            hint="set answer.model, or leave --context out",
        )
    return project.variant(settings), embedder


def _pair_rows(project: Project, testset: str | Testset) -> tuple[Testset, tuple[str, ...]]:
    """The rows that are pairs, and a note on those that are not."""
    if isinstance(testset, str):
        testset = project_testset(project.folder, testset, purpose=BASELINE)
    rows = tuple(row for row in testset.rows if row.user_input.strip() and row.reference.strip())
    if len(rows) < 2:
        raise TestsetError(
            f"{count_noun(len(rows), 'row has', 'rows have')} a question and a reference "
            "answer; a baseline needs two",
            where=testset.name,
            hint="make pairs with `ragwright synth`, or write them: user_input, reference, "
            "reference_contexts",
        )
    rows = _add_sources(project, rows)
    left_out = len(testset.rows) - len(rows)
    notes = (
        (f"left out: {count_noun(left_out, 'row')} without a reference answer",) if left_out else ()
    )
    return replace(testset, rows=rows), (*testset.notes, *notes)


def _add_sources(project: Project, rows: tuple[Row, ...]) -> tuple[Row, ...]:
    """Add the documents that hold each row's chunk, so that these can be forgotten."""
    without_sources = [row for row in rows if not (row.reference_spans or row.reference_ids)]
    holders: dict[str, dict[str, int]] = {
        " ".join(text.split()): {} for row in without_sources for text in row.reference_contexts
    }
    for document in project.documents() if holders else ():
        flat = " ".join(document.text.split())
        for text, ids in holders.items():
            if text in flat:
                ids[document.id] = 1
    ids_by_row = {
        row.id: {k: 1 for text in row.reference_contexts for k in holders[" ".join(text.split())]}
        for row in without_sources
    }
    return tuple(
        replace(row, reference_ids=ids_by_row[row.id]) if ids_by_row.get(row.id) else row
        for row in rows
    )


def _question_sets(rows: Testset, options: BaselineOptions) -> list[tuple[str, Testset]]:
    """Return the sets to answer: by the project, and from the chunk and without it."""
    sets = [("experiment", rows)]
    if options.context:
        known = tuple(row for row in rows.rows if gold_texts(row))
        if not known:
            raise TestsetError(
                "no pair names its chunk, so none can be answered from it",
                where=rows.name,
                hint="add reference_contexts to the rows, or leave --context out",
            )
        for name, suite in (("with_chunk", "chunk"), ("without_chunk", CLOSED_BOOK)):
            with_passages = tuple(
                replace(
                    row,
                    retrieved_contexts=() if suite == CLOSED_BOOK else gold_texts(row),
                    metadata={**row.metadata, "suite": suite},
                )
                for row in known
            )
            sets.append((name, replace(rows, rows=with_passages, notes=())))
    return sets


def _evaluating_options(options: BaselineOptions, name: str) -> EvaluationOptions:
    run_name = options.name if name == "experiment" else ""
    return EvaluationOptions(resume=options.resume, seed=options.seed, name=run_name)


def _answer_set(
    project: Project, name: str, evaluation: Evaluation, embedder: str, options: BaselineOptions
) -> DistanceSet:
    rows = [result.row for result in evaluation.results if result.row is not None]
    declined = [row for row in rows if row.metadata.get("abstained")]
    distances = _distance_set(
        project, name, [row for row in rows if not row.metadata.get("abstained")], embedder, options
    )
    return replace(distances, asked=len(evaluation.results), abstained=len(declined))


def _distance_set(
    project: Project, name: str, rows: Sequence[Row], embedder: str, options: BaselineOptions
) -> DistanceSet:
    """Distances of rows that have a response, with their null baselines."""
    if sum(bool(row.response_text) for row in rows) < 2:
        return DistanceSet(name, len(rows), 0, None)
    distances = project.runner.run(
        qa_distances(rows, MeasureSetup(embedder=embedder), options.seed, most=None)
    )
    return DistanceSet(name, len(rows), 0, distances, read_kept_pairs(name, rows, distances))


def _same_pairs(
    project: Project,
    rows: Testset,
    sets: Sequence[DistanceSet],
    embedder: str,
    options: BaselineOptions,
) -> DistanceSet:
    """Restrict the baseline to the pairs that the experiment answered."""
    baseline, experiment = sets[0], sets[1]
    if len(experiment.own) < 2 or len(experiment.own) == len(baseline.own):
        return baseline
    shared = [make_given_row(row) for row in rows.rows if row.id in experiment.own]
    return replace(
        _distance_set(project, BASELINE, shared, embedder, options), asked=baseline.asked
    )


def _distance_notes(sets: Sequence[DistanceSet]) -> list[str]:
    """Return reasons not to read a set's distances as quality."""
    notes = []
    own = sets[0].mean
    for group in sets:
        if len({pair.answer for pair in group.pairs}) == 1:
            notes.append(f"{group.name}: every answer is the same text, so its ranks say nothing")
        if group.distances is not None and group.mean is not None and own is not None:
            echoed = group.distances.echoed
            if group.mean - sum(echoed) / len(echoed) < own - group.mean:
                notes.append(
                    f"{group.name}: the distances are closer to those of the echoed questions than "
                    "to those of the pairs: the answers repeat the questions' words"
                )
        if group.name == BASELINE:
            if len(group.pairs) < group.asked:
                notes.append(
                    f"S_b and S_e are both over the {len(group.pairs)} of {group.asked} pairs "
                    "that the experiment answered"
                )
            continue
        lost = group.asked - group.abstained - len(group.pairs)
        if group.abstained or lost:
            failed = f" and {lost} without an answer" if lost else ""
            notes.append(
                f"{group.name}: {group.abstained} of {group.asked} questions were "
                f"declined{failed}; they have no distance and are not compared"
            )
    return notes
