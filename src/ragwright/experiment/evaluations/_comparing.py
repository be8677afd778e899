"""Comparison of two evaluations row by row: clusters, and the comparability of scores."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace

from ...core import TestsetError
from ...measure import Comparisons, MeasureScale, compare_rows, paired_by_question
from ._clusters import (
    DOCUMENT,
    GOLD_PASSAGES,
    PASSAGE,
    QUESTION,
    Clusters,
    clusters_of_gold,
    no_field,
    shared_by,
)
from ._grounds import questions_of
from ._judges import scored_differently
from ._results import Evaluation, RowResult

ROW = "row"
"""Value of ``by`` for independent rows."""


def clusters_of_results(results: Sequence[RowResult], by: str = "") -> Clusters:
    """Cluster rows by their stored results: row id -> cluster.

    Args:
        results: One or several per row; each field is taken from the first result that has it.
        by: Empty, ``document`` or ``passage`` as for :func:`clusters_of_rows`, ``row`` for
            independent rows, else ``persona_name`` or a metadata field that every scored row has.

    Returns:
        Empty if all rows are independent.

    Raises:
        TestsetError: A scored row does not have the field, or its result lacks it.
    """
    if by == ROW:
        return Clusters({}, ROW)
    facts_by_row: dict[str, Mapping[str, tuple[str, ...]]] = {}
    scored: dict[str, bool] = {}
    for result in results:
        facts = shared_by(result.row) if result.row is not None else result.shared
        facts_by_row[result.row_id] = {**facts, **facts_by_row.get(result.row_id, {})}
        has_value = any(score.value is not None for score in result.scores)
        scored[result.row_id] = scored.get(result.row_id, False) or has_value
    has_column = any(PASSAGE in facts for facts in facts_by_row.values())
    if by in ("", DOCUMENT) or (by == PASSAGE and not has_column):
        known_passages = any(GOLD_PASSAGES in facts for facts in facts_by_row.values())
        if (by == DOCUMENT and not any(facts_by_row.values())) or (
            by == PASSAGE and not known_passages
        ):
            raise no_field(next(iter(facts_by_row), ""), by)
        return clusters_of_gold(
            {row: facts.get(DOCUMENT, ()) for row, facts in facts_by_row.items()},
            {row: "".join(facts.get(QUESTION, ())) for row, facts in facts_by_row.items()},
            {row: facts.get(GOLD_PASSAGES, ()) for row, facts in facts_by_row.items()},
            by,
        )
    clusters: dict[str, Hashable] = {}
    for row, facts in facts_by_row.items():
        if by not in facts and scored[row]:
            raise no_field(row, by)
        clusters[row] = facts.get(by, ("row", row))
    if not any(by in facts for facts in facts_by_row.values()):
        raise no_field(next(iter(facts_by_row), ""), by)
    return Clusters(clusters, by)


def compare_evaluations(
    a: Evaluation, b: Evaluation, *, seed: int = 0, clusters: Mapping[str, Hashable] | None = None
) -> Comparisons:
    """Compare the rows of b with those of a; see :func:`ragwright.measure.compare_rows`.

    Rows that have only their number for an id are paired by their questions. A measure scored by
    two different judges gets no verdict; see :func:`scored_differently`.

    Args:
        a: The baseline evaluation.
        b: The evaluation that the verdicts are about.
        seed: Seed of flips and resampling.
        clusters: Row id -> cluster; empty if rows are independent, None to cluster by gold
            documents (:func:`clusters_of_results`).

    Raises:
        MeasureError: They share no row or no measure.
        TestsetError: A row has different questions in the two evaluations.
    """
    asked, also = (
        {result.row_id: result.row.user_input for result in run.results if result.row}
        for run in (a, b)
    )
    different = [row for row in asked if row in also and asked[row] != also[row]]
    numbered = all(map(str.isdecimal, asked)) or all(map(str.isdecimal, also))
    if different and not numbered:
        raise TestsetError(
            f"row {different[0]!r} has different questions in the two runs",
            hint="compare runs of one testset",
        )
    if different or (
        numbered and asked and also and not asked.keys() & also.keys()
    ):  # without ids of their own
        ids, clusters = paired_by_question(asked.items(), also.items()), None
        a = replace(
            a,
            results=tuple(replace(r, row_id=ids.get(r.row_id, r.row_id)) for r in a.results),
        )
    sides = [{result.row_id: result.scores for result in run.results} for run in (a, b)]
    scales: dict[str, MeasureScale | None] = {}
    for summary in (*a.summaries, *b.summaries):
        if scales.setdefault(summary.measure, summary.scale) != summary.scale:
            raise TestsetError(
                f"{summary.measure} is on the scale {scales[summary.measure]} in one run and "
                f"{summary.scale} in the other",
                hint="score both by the same rubric file",
            )
    if clusters is None:
        clusters = clusters_of_results([*a.results, *b.results])
    return compare_rows(
        *sides,
        seed=seed,
        clusters=clusters or None,
        scales=scales,
        incomparable=scored_differently(a, b),
        questions=questions_of(a.results),
    )
