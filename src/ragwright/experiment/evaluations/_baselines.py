"""Null baselines, needed to interpret distances of questions and answers."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial

from ...core import RagwrightError, Row
from ...flow import Flow, Runner
from ...measure import Measure, MeasureSetup, QADistances, qa_distances
from ._results import Evaluation

_DISTANCE = "QADistance"


def baseline_flows(
    rows: Iterable[Row], measures: Iterable[Measure], setup: MeasureSetup, seed: int = 0
) -> tuple[Callable[[], Flow[QADistances]], ...]:
    """Return the requests of :func:`add_null_baselines`, for a forecast; often none."""
    if not setup.embedder or _DISTANCE not in map(str, measures):
        return ()
    used = [row for row in rows if row.user_input.strip() and row.response_text]
    return (partial(qa_distances, used, setup, seed),) if len(used) > 1 else ()


def add_null_baselines(
    evaluation: Evaluation, runner: Runner, setup: MeasureSetup, seed: int = 0
) -> Evaluation:
    """Add the null baselines of ``QADistance`` to an evaluation that measured it.

    If they cannot be computed, a note gives the reason: paid scores are not lost.
    """
    names = [summary.measure for summary in evaluation.summaries]
    if _DISTANCE not in names or not setup.embedder:
        return evaluation
    position = names.index(_DISTANCE)
    rows = [
        result.row
        for result in evaluation.results
        if result.row is not None and result.scores[position].state == "scored"
    ]
    try:
        distances = runner.run(qa_distances(rows, setup, seed))
    except RagwrightError as error:
        note = f"{_DISTANCE} has no null baselines: {error.what}"
        return replace(evaluation, notes=(*evaluation.notes, note))
    notes = evaluation.notes
    if len(distances.row_ids) < len(rows):
        notes = (
            *notes,
            f"{_DISTANCE}: its null baselines use a sample of {len(distances.row_ids)} rows",
        )
    return replace(evaluation, baselines=distances.baselines(seed), notes=notes)
