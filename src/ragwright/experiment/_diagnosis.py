"""Results of oracles: points that stages lose, rows they lose first, and the stage to work on.

Every number is a paired difference over the rows, positive is better; all stages and
measures are tested together (Holm 1979).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, TypeVar

from ..core import Row, Score, TestsetError, count_noun
from ..measure import Comparison, Measure, MeasureScale, compare_rows, p_text, read_mark
from ._clusters import clusters_of_results
from ._compare_runs import row_values
from ._oracles import FRONT, LOSSES, RIGHT_RULE, STAGES, DiagnosedRow, Lost, Stage, is_judged
from ._rows import RANKING

LOST_RULE = (
    "a row is lost at the first stage that drops a piece of its gold; with all gold in the "
    f"context, at generate if its answer is wrong ({RIGHT_RULE}), or at judge if the judge puts a "
    "right answer into the lower half of its scale"
)
"""Definition of a lost row, for the verdict and the table of rows."""


@dataclass(frozen=True, slots=True)
class StagePoints:
    """The points that one stage's oracle recovers by one measure; differences are improvements.

    Attributes:
        stage: The stage.
        measure: Text of the measure.
        plain: Mean without oracles, on the compared rows.
        recovered: The oracle compared with no oracle, on all rows.
        first: The same comparison if only rows first lost at this stage get the oracle.
        rows: Number of these rows; ``first.wins`` of them gain by it.
        scale: Width of the measure's scale, None if unbounded.
    """

    stage: Stage
    measure: str
    plain: float | None
    recovered: Comparison
    first: Comparison
    rows: int
    scale: float | None = None

    @property
    def proven(self) -> bool:
        """True if both differences are proven improvements."""
        return self.recovered.verdict == "better" and self.first.verdict == "better"

    @property
    def weight(self) -> float:
        """Points on rows it loses first, as a share of the scale: comparable between measures."""
        points = self.first.difference or 0.0
        return points / self.scale if self.scale else points


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """The places where a pipeline loses points.

    Attributes:
        name: The testset.
        verdict: The verdict as text.
        stage: The stage to work on; empty if none is proven to lose points.
        points: One per stage and measure, stages from the front.
        losses: Place where rows are first lost -> number of rows; ``""`` counts rows that are not
            lost.
        rows: Every row that was answered, with its oracles.
        notes: What the reader should know.
        parts: ``field = value`` -> the diagnosis of the rows with that value.
    """

    name: str
    verdict: tuple[str, ...]
    stage: Stage | None
    points: tuple[StagePoints, ...]
    losses: Mapping[Lost, int]
    rows: tuple[DiagnosedRow, ...]
    notes: tuple[str, ...] = ()
    parts: Mapping[str, Diagnosis] = field(default_factory=dict)

    def of(self, stage: str, measure: str) -> StagePoints:
        """The points of a stage by a measure; raises KeyError without any."""
        return {(str(p.stage), p.measure): p for p in self.points}[stage, measure]


def diagnosis_of(
    rows: Sequence[DiagnosedRow],
    measures: Sequence[Measure],
    stages: Sequence[Stage] = STAGES,
    *,
    name: str = "",
    seed: int = 0,
    cluster: str = "",
) -> Diagnosis:
    """Summarise diagnosed rows.

    One rule decides everything (:data:`LOST_RULE`): a row's points are credited to the stage that
    first loses it, and no stage is blamed for rows where nothing is lost. An abstention counts as
    the worst value, as the row has an answer. Rows that share gold documents or a question are not
    independent observations; ``cluster`` is as for :func:`clusters_of_results`.
    """
    row_clusters = clusters_of_results([row.plain for row in rows], cluster)
    clusters = row_clusters or None
    points = _stage_points(rows, (measures, stages), seed, clusters)
    losses = Counter(row.lost for row in rows)
    by_stage: dict[Lost, int] = {lost: losses[lost] for lost in (*LOSSES, "") if losses[lost]}
    stage, verdict = _diagnosis_verdict(points, by_stage, rows)
    abstentions = sum(
        row.plain.row is not None and bool(read_mark(row.plain.row, "abstained")) for row in rows
    )
    note = count_noun(abstentions, "answer abstains", "answers abstain")
    notes = (f"{note}: they count as the worst value" if abstentions else "", row_clusters.note)
    return Diagnosis(
        name, verdict, stage, points, by_stage, tuple(rows), tuple(filter(None, notes))
    )


def diagnosis_by(
    diagnosis: Diagnosis,
    by: str,
    measures: Sequence[Measure],
    stages: Sequence[Stage] = STAGES,
    *,
    seed: int = 0,
    cluster: str = "",
) -> Diagnosis:
    """Add the diagnosis of each value of a field: ``persona_name``, or a column."""
    groups = group_by_field(diagnosis.rows, [row.plain.row for row in diagnosis.rows], by)
    parts = {
        f"{by} = {value}": diagnosis_of(
            groups[value], measures, stages, name=value, seed=seed, cluster=cluster
        )
        for value in sorted(groups)
    }
    return replace(diagnosis, parts={**diagnosis.parts, **parts})


def _stage_points(
    rows: Sequence[DiagnosedRow],
    axes: tuple[Sequence[Measure], Sequence[Stage]],
    seed: int,
    clusters: Mapping[str, Hashable] | None,
) -> tuple[StagePoints, ...]:
    """Measure every valid pair of stage and measure; all of them are one family of tests."""
    measures, stages = axes
    keys = [
        (stage, at, f"{stage} {measure}")
        for stage in stages
        for at, measure in enumerate(measures)
        if _can_lose(stage, measure)
    ]
    if not keys or not rows:
        return ()
    sides = {
        row.plain.row_id: [
            _score_sides(row, stage, at, measures[at], name) for stage, at, name in keys
        ]
        for row in rows
    }
    plain, perfect, first = (
        {row_id: [scores[side] for scores in of_row] for row_id, of_row in sides.items()}
        for side in range(3)
    )
    scales = {name: turn_scale_upward(measures[at]) for _, at, name in keys}
    recovered = compare_rows(plain, perfect, seed=seed, clusters=clusters, scales=scales)
    own_points = compare_rows(plain, first, seed=seed, clusters=clusters, scales=scales)
    points = []
    for stage, at, name in keys:
        measure, mean = measures[at], recovered[name].mean_a
        low, high = measure.definition.low, measure.definition.high
        points.append(
            StagePoints(
                stage,
                str(measure),
                mean if mean is None or measure.definition.higher_is_better else -mean,
                rename_comparison(recovered[name], str(measure)),
                rename_comparison(own_points[name], str(measure)),
                sum(row.lost == stage for row in rows),
                None if high is None else high - low,
            )
        )
    return tuple(points)


def _score_sides(
    row: DiagnosedRow, stage: Stage, at: int, measure: Measure, name: str
) -> tuple[Score, Score, Score]:
    """A row's score as it is, with the oracle, and with the oracle only if the stage loses it."""
    before = upward_score(row.plain.scores[at], measure, name)
    # Without gold for the measure, an oracle changes nothing.
    after = before if before.no_gold else upward_score(row.oracles[stage][at], measure, name)
    # A row is compared if it has a score on both sides.
    same = before if after.value is not None or before.value is None else after
    return same, after, after if stage == row.lost else same


def _can_lose(stage: Stage, measure: Measure) -> bool:
    if stage == "judge":
        return is_judged(measure)
    return stage in FRONT or measure.definition.kind not in RANKING


def _diagnosis_verdict(
    points: Sequence[StagePoints], losses: Mapping[Lost, int], rows: Sequence[DiagnosedRow]
) -> tuple[Stage | None, tuple[str, ...]]:
    best: dict[Stage, StagePoints] = {}
    for loss in sorted(points, key=lambda loss: -round(loss.weight, 6)):
        if loss.proven and loss.weight > 0:
            best.setdefault(loss.stage, loss)
    sentences = [
        f"{'Then' if at else 'Work on'} {loss.stage}{'' if at else ' first'}: "
        f"{_loss_text(loss, rows)}"
        for at, loss in enumerate(best.values())
    ] or _nothing_proven(points, len(rows))
    sentences += [
        f"{losses[lost]} of {len(rows)} rows are lost before any stage: {reason}."
        for lost, reason in _BEFORE.items()
        if lost in losses
    ]
    return next(iter(best), None), tuple(sentences)


def _nothing_proven(points: Sequence[StagePoints], rows: int) -> list[str]:
    """Describe the largest loss that is not proven with the reason, and what could be proven."""
    sentences = ["No stage is proven to lose points."]
    lost = [loss for loss in points if loss.weight > 0]
    if lost:
        loss = max(lost, key=lambda loss: round(loss.weight, 6))
        c = loss.first
        p = "" if c.p_holm is None else f" ({p_text(c.p_holm)})"
        doubt = f": {c.doubt}" if c.doubt else ""
        sentences.append(
            f"The largest loss seen is at {loss.stage}: {c.difference:.3f} points of "
            f"{loss.measure}, on {c.wins} of {rows} rows{p}. It is not proven{doubt}."
        )
    least = [loss.first.smallest for loss in points if loss.first.smallest]
    if least:
        sentences.append(
            f"With {count_noun(rows, 'row')}, only differences of about {min(least):.3f} or more "
            "can be proven."
        )
    return sentences


def _loss_text(loss: StagePoints, rows: Sequence[DiagnosedRow]) -> str:
    c = loss.first
    points = f"{c.difference:.3f}" if c.difference is not None else "?"
    span = f" ({c.low:.3f} to {c.high:.3f})" if c.low is not None and c.high is not None else ""
    p = f", {p_text(c.p_holm)}" if c.p_holm is not None else ""
    return (
        f"{REASONS[loss.stage]}. A perfect stage would recover "
        f"{points}{span} points of {loss.measure} on the rows it loses first, on {c.wins} of "
        f"{len(rows)} "
        f"rows: proven{p}."
    )


_BEFORE: Mapping[Lost, str] = {
    "index": "their gold is in no chunk of the index, so no stage can find it",
    "route": "they were not answered from the index, and their gold was not read",
}

REASONS: Mapping[Stage, str] = {
    "filter": "hard filters exclude gold",
    "retrieve": "the search does not find gold",
    "rerank": "gold is ranked lower than possible",
    "truncate": "top_k, selection or context budget cut gold that was found",
    "generate": "the answer falls short of the gold answer although gold is in the context",
    "judge": "the judge gives the gold answer itself less than full points",
}
"""Description of the loss of each stage."""


T = TypeVar("T")


def group_by_field(items: Sequence[T], rows: Sequence[Row | None], by: str) -> dict[str, list[T]]:
    """Group items by the values of their rows in a field; ``""`` for those without one.

    Raises:
        TestsetError: No row has the field.
    """
    groups: dict[str, list[T]] = {}
    for item, row in zip(items, rows, strict=True):
        for value in ("",) if row is None else row_values(row, by):
            groups.setdefault(value, []).append(item)
    if not groups.keys() - {""}:
        columns = dict.fromkeys(name for row in rows if row is not None for name in row.metadata)
        raise TestsetError(
            f"no row has a value in {by!r}",
            where="--by",
            hint=f"persona_name, or one of: {', '.join(columns) or '(the rows have no columns)'}",
        )
    return groups


def turn_scale_upward(measure: Measure) -> MeasureScale | None:
    """Return the scale with higher values better: inverted if lower is better."""
    scale = measure.known_scale
    if scale is None or scale.higher_is_better:
        return scale
    return MeasureScale(-math.inf if scale.high is None else -scale.high, -scale.low)


def rename_comparison(comparison: Comparison, measure: str) -> Comparison:
    """Rename a comparison to a measure; infinite bounds become None."""
    endless: dict[str, Any] = {
        field.name: None
        for field in fields(comparison)
        if isinstance(value := getattr(comparison, field.name), float) and math.isinf(value)
    }
    return replace(comparison, measure=measure, scale=None, **endless)


def upward_score(score: Score, measure: Measure, name: str) -> Score:
    """Turn a score so that higher is better; an abstention is the worst value."""
    low, high = measure.definition.low, measure.definition.high
    upward = measure.definition.higher_is_better
    silent = score.state == "abstained" and not score.unanswerable
    value = (low if upward else high) if silent else score.value
    if value is None:
        return replace(score, measure=name)
    return Score(name, "scored", value if upward else -value)
