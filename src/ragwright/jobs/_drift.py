"""The drift of served answers: each measure over time, compared with a reference period."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from itertools import groupby
from typing import Literal, TypeAlias

import numpy as np

from ..drafting import ServedScore, project_outputs
from ..experiment import judging
from ..measure import (
    AnytimeMean,
    DriftVerdict,
    Measure,
    confidence_sequence,
    drift,
    parse_measures,
    period_alpha,
    set_rubric_scales,
)
from ..project import Project
from ._served import ServedMeasureOptions, measure_options

DriftState: TypeAlias = DriftVerdict | Literal["reference"]

ALPHA = 0.05
"""Probability of any false alarm, over all measures and all looks."""

LEAST_COVERAGE = 0.8
"""Least share of scored answers among the drawn ones for a trusted verdict."""

_UNSCORED = ("waiting", "errored", "judge_invalid")


@dataclass(frozen=True, slots=True)
class DriftDay:
    """The scores of one day.

    Attributes:
        day: ISO 8601.
        n: Number of scores; ``mean`` is their mean.
        mean: See ``n``.
        low: The interval of the mean of its period so far, valid at every look.
        high: See ``low``.
    """

    day: str
    n: int
    mean: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class MeasureDrift:
    """One measure over time.

    Attributes:
        measure: Its text.
        verdict: ``worse`` or ``better`` if the interval of a period does not overlap that of the
            reference; ``unproven``; or ``reference`` while the reference period lasts.
        scale: Least and greatest possible value.
        reference: Mean and interval of the reference period.
        current: Mean and interval of the newest period that has a verdict, else of the newest.
        reference_from: First day of the reference period; empty without a score.
        reference_until: The first day after it.
        days: Days with scores, oldest first.
        states: Number of scores of the newest period in each state.
    """

    measure: str
    verdict: DriftState
    scale: tuple[float, float]
    reference: AnytimeMean
    current: AnytimeMean
    reference_from: str = ""
    reference_until: str = ""
    days: tuple[DriftDay, ...] = ()
    states: Mapping[str, int] = field(default_factory=dict)

    @property
    def coverage(self) -> float | None:
        """Share of scored answers among those that could be scored; None if there are none."""
        missing = sum(self.states.get(name, 0) for name in _UNSCORED)
        scored = self.states.get("scored", 0)
        return scored / (scored + missing) if scored + missing else None

    def __str__(self) -> str:
        """The verdict as one sentence."""
        reference, current = self.reference.mean, self.current.mean
        if reference is None and current is None:
            return f"{self.measure} has no score yet."
        if self.verdict == "reference" or reference is None:
            last = format_day(self.reference_until)
            mean = "no score yet" if reference is None else f"mean {reference:.2f} so far"
            return f"{self.measure}: reference period until {last}, {mean}; no comparison before."
        if self.verdict == "unproven" or current is None:
            newest = "no score" if current is None else f"{current:.2f}"
            return (
                f"{self.measure}: no drift proven. {reference:.2f} in the reference period, "
                f"{newest} in the newest one."
            )
        verb = "fell" if current < reference else "rose"
        return f"{self.measure} {verb} from {reference:.2f} to {current:.2f}."


@dataclass(frozen=True, slots=True)
class DriftReport:
    """The drift of every measure of served answers.

    Attributes:
        measures: In the order of ``serve.measure.measures``.
        scope: Tenant of the answers; None for all.
        today: The last day of the data.
        notes: Further remarks for the reader.
    """

    measures: tuple[MeasureDrift, ...]
    scope: str | None
    today: str
    notes: tuple[str, ...] = ()

    @property
    def worse(self) -> tuple[MeasureDrift, ...]:
        """The measures that are proven worse."""
        return tuple(drifting for drifting in self.measures if drifting.verdict == "worse")

    @property
    def trusted(self) -> bool:
        """True if there are scores, and enough of the drawn answers have one."""
        shares = [drifting.coverage for drifting in self.measures if drifting.coverage is not None]
        return bool(shares) and min(shares) >= LEAST_COVERAGE


def compare_served(project: Project, scope: str | None = None) -> DriftReport:
    """Compare the current served answers with those of the reference period, for every measure.

    This may be called at any time and as often as wanted: all looks together raise a false alarm
    with probability .05 or less, as long as the settings of ``serve.measure`` do not change. See
    :func:`ragwright.measure.drift`.

    Args:
        project: The project.
        scope: Tenant of the answers; empty for answers without one, None for all.
    """
    options = measure_options(project.settings)
    outputs = project_outputs(project)
    rubrics = judging(project).rubrics
    measures = set_rubric_scales(parse_measures(options.measures), rubrics)
    by_measure: dict[str, list[ServedScore]] = {}
    for score in outputs.scores.all(scope):
        by_measure.setdefault(score.measure, []).append(score)
    today = outputs.now()[:10]
    drifts, notes = list[MeasureDrift](), list[str]()
    for measure in measures:
        scale = measure.known_scale
        if scale is None or scale.width is None or scale.high is None:
            notes.append(f"{measure} has no upper bound, so that no interval can be given")
            continue
        scores = by_measure.get(str(measure), [])
        limits, alpha = (scale.low, scale.high), ALPHA / len(measures)
        drifts.append(_compare(measure, limits, scores, options, today, alpha))
    others = sorted(by_measure.keys() - {str(measure) for measure in measures})
    if others:
        notes.append(f"not shown, as not in serve.measure.measures: {', '.join(others)}")
    return DriftReport(tuple(drifts), scope, today, tuple(notes))


def _compare(
    measure: Measure,
    scale: tuple[float, float],
    scores: Sequence[ServedScore],
    options: ServedMeasureOptions,
    today: str,
    alpha: float,
) -> MeasureDrift:
    """Compare the newest period of a measure with its first one, the reference."""
    first = options.reference or min((score.at[:10] for score in scores), default="")
    if not first:
        unmeasured = AnytimeMean(0, None, None, None)
        return MeasureDrift(str(measure), "reference", scale, unmeasured, unmeasured)
    start, window = date.fromisoformat(first).toordinal(), options.window
    newest = max(0, (date.fromisoformat(today).toordinal() - start) // window)
    periods: list[list[ServedScore]] = [[] for _ in range(newest + 1)]
    for score in sorted(scores, key=lambda score: score.at[:10]):
        number = (date.fromisoformat(score.at[:10]).toordinal() - start) // window
        if number >= 0:
            periods[min(number, newest)].append(score)
    values = [[score.value for score in of if score.value is not None] for of in periods]
    lower = not measure.definition.higher_is_better
    found = drift(values[0], values[1:], scale, lower_is_better=lower, alpha=alpha)
    if found.verdict == "unproven" and newest > 1:
        # a new period begins without values: until it has a verdict, the one before it stays
        former = drift(values[0], values[1:-1], scale, lower_is_better=lower, alpha=alpha)
        found = found if former.verdict == "unproven" else former
    # what was served today may still wait for its score
    counted = [s.state for s in periods[-1] if s.state != "waiting" or s.at[:10] < today]
    return MeasureDrift(
        str(measure),
        found.verdict if newest else "reference",
        scale,
        found.reference,
        found.current if newest else found.reference,
        first,
        date.fromordinal(start + window).isoformat(),
        tuple(day for k, of in enumerate(periods) for day in _days(of, scale, k, alpha)),
        dict(sorted(Counter(counted).items())),
    )


def _days(
    scores: Sequence[ServedScore], scale: tuple[float, float], number: int, alpha: float
) -> list[DriftDay]:
    scored = [(score.at[:10], score.value) for score in scores if score.value is not None]
    values = [value for _, value in scored]
    lows, highs = confidence_sequence(values, *scale, period_alpha(number, alpha), running=False)
    days = []
    for day, of_day in groupby(scored, lambda entry: entry[0]):
        last = bisect_right(scored, day, key=lambda entry: entry[0]) - 1
        means = [value for _, value in of_day]
        interval = float(lows[last]), float(highs[last])
        days.append(DriftDay(day, len(means), float(np.mean(means)), *interval))
    return days


def format_day(day: str) -> str:
    """Format a day for readers: ``3 Nov 2026``."""
    parsed = date.fromisoformat(day)
    return f"{parsed.day} {parsed:%b %Y}"


def brief_model(name: str) -> str:
    """The name of a model without the address of its server."""
    return name.rpartition("#")[2].rpartition("/")[2] or "none"
