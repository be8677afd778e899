"""Runs of `ragwright baseline` as evaluations: the distances of the experiment's answers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...core import Row, Score, StoreError
from ...flow import Run, Runs
from ...measure import parse_measures
from ._comparing import clusters_of_results
from ._names import BASELINE
from ._results import Evaluation, RowResult, evaluation_of

EXPERIMENT = "experiment"
"""Name of the set of answers that a baseline run measures; `baseline` holds the given pairs."""

_MEASURE = "QADistance"


def distance_evaluation(runs: Runs, run: Run, seed: int = 0, *, of: str = EXPERIMENT) -> Evaluation:
    """Return the pairs of one set of a baseline as rows scored by ``QADistance``.

    Its manifest is that of the run in which the experiment answered, so that the settings of two
    experiments can be compared; the embedding model of the distances is its judge.

    Raises:
        StoreError: The run holds no pair of this set.
    """
    results = [distance_row(row.body) for row in runs.rows(run.id) if row.body.get("set") == of]
    if not results:
        raise StoreError(
            f"the baseline {run.id} has no answers of the set {of!r}",
            hint="run `ragwright baseline` again",
        )
    groups = clusters_of_results(results)
    evaluation = evaluation_of(
        results,
        parse_measures(_MEASURE),
        name=run.id,
        seed=seed,
        clusters=groups.values() or None,
    )
    answers_run = str(run.manifest.get("runs", {}).get(of, ""))
    settings: Mapping[str, Any] = runs.get(answers_run).manifest if runs.holds(answers_run) else {}
    judge = {**settings.get("judge", {}), "embedder": run.manifest.get("embedder", "")}
    pinned = {
        "testset": run.manifest.get("testset", ""),
        "judge": judge,
        "measures": [_MEASURE],
        BASELINE: run.id,
    }
    return Evaluation(
        run.id, evaluation.summaries, evaluation.results, manifest={**settings, **pinned}
    )


def distance_row(pair: Mapping[str, Any]) -> RowResult:
    """Return a stored pair as a row scored by ``QADistance``."""
    row = Row(
        pair["id"],
        pair["question"],
        response=pair["answer"],
        retrieved_contexts=tuple(pair["passages"]),
    )
    return RowResult(pair["id"], (), (Score(_MEASURE, "scored", pair["distance"]),), row)
