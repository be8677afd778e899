"""Answering the questions of a baseline by a project under other settings, and comparing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ...core import ConfigError, Row, TestsetError, counted
from ...flow import Forecast
from ...measure import MeasureSetup, qa_distances
from ...models import ExtractiveReranker
from ...project import at_work, build_like, load_settings
from ...testsets import CLOSED_BOOK, Testset, project_testset
from ..evaluations import (
    BASELINE,
    Evaluating,
    Evaluation,
    evaluate_testset,
    forecast_testset,
    given_answer,
    gold_texts,
)
from ._pairs import BaselineResult, DistanceSet, kept_pairs
from ._stored import keep_baseline, shifts_of

if TYPE_CHECKING:
    from ...project import Project

_MEASURE = "TokenF1"
_YARDSTICK = "judge."
"""Settings that measure the experiment and are no part of it."""
_INDEXED = ("chunk.", "embed.", "keyword.", "store.")


@dataclass(frozen=True, slots=True)
class Baselining:
    """How answers are compared with a baseline.

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


@at_work("baseline")
def run_baseline(
    project: Project, testset: str | Testset, how: Baselining | None = None
) -> BaselineResult:
    """Compare the distances d(E'(Q), E'(A')) of a project with d(E'(Q), E'(A)) of given pairs.

    The pairs are rows with a question and a reference answer; they are embedded by the embedding
    model of the experiment, so both sets have the same one (SPEC C3). Every pair is kept in a run
    with its vectors.

    Raises:
        ConfigError: No embedding model is set, or answers with and without the chunk are asked
            for and no chat model is set.
        TestsetError: Fewer than two rows are pairs.
        StoppedError: The budget or a key stopped it; what was answered is kept.
    """
    options = how or Baselining()
    variant, embedder = _experiment(project, options)
    rows, notes = _pairs(project, testset)
    build_like(variant, project)
    baseline = _measured(
        variant, BASELINE, [given_answer(row) for row in rows.rows], embedder, options
    )
    sets = [baseline]
    for name, asked in _asked(rows, options):
        evaluation, summary = evaluate_testset(variant, asked, _MEASURE, _evaluating(options, name))
        if summary.reason is not None:  # sets that are cut off cannot be compared
            raise summary.reason
        found = _answered(variant, name, evaluation, embedder, options)
        sets.append(replace(found, run=summary.run))
    whole, baseline = baseline, _same_pairs(variant, rows, sets, embedder, options)
    sets[0] = baseline
    shift, context = shifts_of(sets, options.margin, options.seed)
    result = BaselineResult(
        "",
        rows.name,
        embedder,
        tuple(text for text in options.settings if not text.startswith(_YARDSTICK)),
        tuple(sets),
        shift,
        context,
        (*notes, *_doubts(sets)),
        options.name,
    )
    pinned = {
        "rows": rows.fingerprint,
        "settings": list(options.settings),
        "margin": options.margin,
        "seed": options.seed,
    }
    return keep_baseline(variant.runs, result, whole.pairs, pinned)


def forecast_baseline(
    project: Project, testset: str | Testset, how: Baselining | None = None
) -> tuple[Forecast, tuple[str, ...]]:
    """What the answers of :func:`run_baseline` would call and cost, and what is not counted.

    Where the experiment's index is not built yet, the project's own stands in for it.
    """
    options = how or Baselining()
    variant, _ = _experiment(project, options)
    rows, _ = _pairs(project, testset)
    notes = ["the vectors of questions and answers are not counted"]
    known = variant.store.holds(variant.pair)
    if not known:
        kept = tuple(text for text in options.settings if not text.startswith(_INDEXED))
        variant, _ = _experiment(project, replace(options, settings=kept))
        notes.append("the experiment's index is not built: its vectors are not counted either")
    found: Forecast | None = None
    for name, asked in _asked(rows, options):
        part = forecast_testset(variant, asked, _MEASURE, _evaluating(options, name))
        found = part if found is None else found + part
    assert found is not None
    return found, tuple(notes)


def _experiment(project: Project, how: Baselining) -> tuple[Project, str]:
    """The project under the experiment's settings, and its embedding model."""
    given = (*project.session.overrides, *how.settings)
    settings = load_settings(project.folder.file, given)
    embedder = settings.judge.embedder or settings.embed.model
    if not embedder:
        raise ConfigError(
            "distances need an embedding model, and none is set",
            where=str(project.folder.file),
            hint="set embed.model (or judge.embedder, for the distances alone), for example "
            "--set embed.model=st:FOLDER",
        )
    if how.context and settings.answer.model == ExtractiveReranker.name:
        raise ConfigError(
            "answers without the chunk need a chat model, and none is set",
            where=str(project.folder.file),
            hint="set answer.model, or leave --context out",
        )
    return project.variant(settings), embedder


def _pairs(project: Project, testset: str | Testset) -> tuple[Testset, tuple[str, ...]]:
    """The rows that are pairs, and a note on those that are not."""
    if isinstance(testset, str):
        testset = project_testset(project.folder, testset, purpose=BASELINE)
    rows = tuple(row for row in testset.rows if row.user_input.strip() and row.reference.strip())
    if len(rows) < 2:
        raise TestsetError(
            f"{counted(len(rows), 'row has', 'rows have')} a question and a reference "
            "answer; a baseline needs two",
            where=testset.name,
            hint="make pairs with `ragwright synth`, or write them: user_input, reference, "
            "reference_contexts",
        )
    rows = _with_sources(project, rows)
    left = len(testset.rows) - len(rows)
    notes = (f"left out: {counted(left, 'row')} without a reference answer",) if left else ()
    return replace(testset, rows=rows), (*testset.notes, *notes)


def _with_sources(project: Project, rows: tuple[Row, ...]) -> tuple[Row, ...]:
    """Rows with the documents that hold their chunk, so that these can be forgotten."""
    bare = [row for row in rows if not (row.reference_spans or row.reference_ids)]
    places: dict[str, dict[str, int]] = {
        " ".join(text.split()): {} for row in bare for text in row.reference_contexts
    }
    for document in project.documents() if places else ():
        flat = " ".join(document.text.split())
        for text, found in places.items():
            if text in flat:
                found[document.id] = 1
    held = {
        row.id: {k: 1 for text in row.reference_contexts for k in places[" ".join(text.split())]}
        for row in bare
    }
    return tuple(
        replace(row, reference_ids=held[row.id]) if held.get(row.id) else row for row in rows
    )


def _asked(rows: Testset, how: Baselining) -> list[tuple[str, Testset]]:
    """The sets to be answered: by the project, and from the chunk and without it."""
    found = [("experiment", rows)]
    if how.context:
        known = tuple(row for row in rows.rows if gold_texts(row))
        if not known:
            raise TestsetError(
                "no pair names its chunk, so none can be answered from it",
                where=rows.name,
                hint="add reference_contexts to the rows, or leave --context out",
            )
        for name, suite in (("with_chunk", "chunk"), ("without_chunk", CLOSED_BOOK)):
            carried = tuple(_carrying(row, suite) for row in known)
            found.append((name, replace(rows, rows=carried, notes=())))
    return found


def _carrying(row: Row, suite: str) -> Row:
    given = () if suite == CLOSED_BOOK else gold_texts(row)
    return replace(row, retrieved_contexts=given, metadata={**row.metadata, "suite": suite})


def _evaluating(how: Baselining, name: str) -> Evaluating:
    called = how.name if name == "experiment" else ""
    return Evaluating(resume=how.resume, seed=how.seed, answers=True, name=called)


def _answered(
    project: Project, name: str, evaluation: Evaluation, embedder: str, how: Baselining
) -> DistanceSet:
    rows = [result.row for result in evaluation.results if result.row is not None]
    declined = [row for row in rows if row.metadata.get("abstained")]
    found = _measured(
        project, name, [row for row in rows if not row.metadata.get("abstained")], embedder, how
    )
    return replace(found, asked=len(evaluation.results), abstained=len(declined))


def _measured(
    project: Project, name: str, rows: Sequence[Row], embedder: str, how: Baselining
) -> DistanceSet:
    """Distances of rows that have a response, with their null baselines."""
    if sum(bool(row.said) for row in rows) < 2:
        return DistanceSet(name, len(rows), 0, None)
    setup = MeasureSetup(embedder=embedder)
    found = project.runner.run(qa_distances(rows, setup, how.seed, most=None))
    return DistanceSet(name, len(rows), 0, found, kept_pairs(name, rows, found))


def _same_pairs(
    project: Project, rows: Testset, sets: Sequence[DistanceSet], embedder: str, how: Baselining
) -> DistanceSet:
    """The baseline over the pairs that the experiment answered, as both sets must be compared."""
    baseline, experiment = sets[0], sets[1]
    if len(experiment.own) < 2 or len(experiment.own) == len(baseline.own):
        return baseline
    shared = [given_answer(row) for row in rows.rows if row.id in experiment.own]
    found = _measured(project, BASELINE, shared, embedder, how)
    return replace(found, asked=baseline.asked)


def _doubts(sets: Sequence[DistanceSet]) -> list[str]:
    """What speaks against reading a set's distances as quality."""
    notes = []
    own = sets[0].mean
    for one in sets:
        if len({pair.answer for pair in one.pairs}) == 1:
            notes.append(f"{one.name}: every answer is the same text, so its ranks say nothing")
        if one.distances is not None and one.mean is not None and own is not None:
            echoed = one.distances.echoed
            if one.mean - sum(echoed) / len(echoed) < own - one.mean:
                notes.append(
                    f"{one.name}: the distances are closer to those of the echoed questions than "
                    "to those of the pairs: the answers repeat the questions' words"
                )
        if one.name == BASELINE:
            if len(one.pairs) < one.asked:
                notes.append(
                    f"S_b and S_e are both over the {len(one.pairs)} of {one.asked} pairs that the "
                    "experiment answered"
                )
            continue
        lost = one.asked - one.abstained - len(one.pairs)
        if one.abstained or lost:
            failed = f" and {lost} without an answer" if lost else ""
            notes.append(
                f"{one.name}: {one.abstained} of {one.asked} questions were declined{failed}; they "
                "have no distance and are not compared"
            )
    return notes
