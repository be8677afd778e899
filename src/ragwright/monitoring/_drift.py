"""The drift of served answers: each measure over time, beside a reference period."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np

from ..drafting import project_outputs
from ..experiment import judging
from ..measure import (
    Drift,
    DriftVerdict,
    Measure,
    Watched,
    confidence_sequence,
    drift,
    on_rubric_scales,
    parse_measures,
    period_alpha,
)
from ._moves import Moved, moves_of
from ._options import measure_options

if TYPE_CHECKING:
    from ..drafting import ServedScore
    from ..project import Project

DriftState: TypeAlias = DriftVerdict | Literal["reference"]

ALPHA = 0.05
"""Probability of any false alarm, over all measures and all looks."""

LEAST_COVERAGE = 0.8
"""Share of the drawn answers with a score below which a verdict is not trusted."""

_NEAR = 3
"""Days before and after the estimated day of a drift in which a change is named beside it."""


@dataclass(frozen=True, slots=True)
class DriftDay:
    """The scores of one day.

    Attributes:
        day: ISO 8601.
        n: Number of scores; ``mean`` is theirs.
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
        verdict: ``worse`` or ``better`` where the interval of a period is apart from that of the
            reference; ``unproven``; or ``reference`` while the reference period lasts.
        scale: Least and greatest possible value.
        reference: Mean and interval of the reference period.
        current: Of the newest period.
        reference_from: First day of the reference period; empty without a score.
        reference_until: The first day after it.
        since: Estimated first day of the drift; empty unless proven.
        mean_since: Mean from that day on.
        near: What changed within three days of it.
        moves: Everything that changed, oldest first.
        days: Days with scores, oldest first.
        states: Of the scores of the newest period: how many are in each state.
    """

    measure: str
    verdict: DriftState
    scale: tuple[float, float]
    reference: Watched
    current: Watched
    reference_from: str = ""
    reference_until: str = ""
    since: str = ""
    mean_since: float | None = None
    near: tuple[Moved, ...] = ()
    moves: tuple[Moved, ...] = ()
    days: tuple[DriftDay, ...] = ()
    states: Mapping[str, int] = field(default_factory=dict)

    @property
    def coverage(self) -> float | None:
        """Share of the answers that could be scored and were; None where there are none."""
        lost = sum(self.states.get(name, 0) for name in _LOST)
        scored = self.states.get("scored", 0)
        return scored / (scored + lost) if scored + lost else None

    @property
    def change(self) -> float:
        """How far the mean moved from that of the reference period; 0 unless proven."""
        if self.mean_since is None or self.reference.mean is None:
            return 0.0
        return self.mean_since - self.reference.mean

    def __str__(self) -> str:
        """The verdict as one sentence."""
        return _sentence(self)


_LOST = ("waiting", "errored", "judge_invalid")


@dataclass(frozen=True, slots=True)
class DriftReport:
    """The drift of every measure of served answers.

    Attributes:
        measures: In the order of ``serve.measure.measures``.
        scope: Whose answers; None for all.
        today: The last day that was looked at.
        notes: What else a reader should know.
    """

    measures: tuple[MeasureDrift, ...]
    scope: str | None
    today: str
    notes: tuple[str, ...] = ()

    @property
    def worse(self) -> tuple[MeasureDrift, ...]:
        """The measures that are proven worse."""
        return tuple(one for one in self.measures if one.verdict == "worse")

    @property
    def trusted(self) -> bool:
        """True if there are scores, and enough of the drawn answers have one."""
        shares = [one.coverage for one in self.measures if one.coverage is not None]
        return bool(shares) and min(shares) >= LEAST_COVERAGE


def served_drift(project: Project, scope: str | None = None) -> DriftReport:
    """Compare the current served answers with those of the reference period, for every measure.

    May be asked at any time and as often as wanted: all looks together raise a false alarm with
    probability .05 or less, as long as settings of ``serve.measure`` stay. See
    :func:`ragwright.measure.drift`.

    Args:
        project: The project.
        scope: Of this tenant; empty for answers without one, None for all.
    """
    options = measure_options(project.settings)
    outputs = project_outputs(project)
    rubrics = judging(project).rubrics
    measures = on_rubric_scales(parse_measures(options.measures), rubrics)
    by_measure: dict[str, list[ServedScore]] = {}
    for score in outputs.scores.all(scope):
        by_measure.setdefault(score.measure, []).append(score)
    today = outputs.now()[:10]
    looking = _Looking(options.window, options.reference, today, ALPHA / len(measures))
    found, notes = list[MeasureDrift](), list[str]()
    for measure in measures:
        scale = measure.known_scale
        if scale is None or scale.width is None or scale.high is None:
            notes.append(f"{measure} has no upper bound, so that no interval can be given")
            continue
        scores = by_measure.get(str(measure), [])
        moves = moves_of(scores, outputs.settings)
        found.append(looking.at(measure, (scale.low, scale.high), scores, moves))
    known = {str(measure) for measure in measures}
    others = sorted(by_measure.keys() - known)
    if others:
        notes.append(f"not shown, for it is not among serve.measure.measures: {', '.join(others)}")
    return DriftReport(tuple(found), scope, today, tuple(notes))


@dataclass(frozen=True, slots=True)
class _Looking:
    """How scores are looked at: days of a period, its first day, today, chance of a false alarm."""

    window: int
    reference: str
    today: str
    alpha: float

    def at(
        self,
        measure: Measure,
        scale: tuple[float, float],
        scores: Sequence[ServedScore],
        moves: Sequence[Moved],
    ) -> MeasureDrift:
        """One measure over time."""
        scored = [(_number(s.at), s.value) for s in scores if s.value is not None]
        first = self.reference or min((s.at[:10] for s in scores), default="")
        nothing = Watched(0, None, None, None)
        if not first:
            return MeasureDrift(str(measure), "reference", scale, nothing, nothing)
        start = _number(first)
        scored = [(day, value) for day, value in scored if day >= start]
        number = max(0, (_number(self.today) - start) // self.window)
        values: list[list[float]] = [[] for _ in range(number + 1)]
        for day, value in scored:
            values[min(number, (day - start) // self.window)].append(value)
        looks = self._looks(measure, scale, values)
        verdict, run = _standing([look.verdict for look in looks])
        newest = start + number * self.window
        states = Counter(
            s.state
            for s in scores
            if _number(s.at) >= newest
            and (s.state != "waiting" or _number(s.at) < _number(self.today))
        )
        since = mean = None
        if run:
            begin = start + (run - 1) * self.window
            before = looks[run - 1]
            fell = (before.current.mean or 0.0) < (before.reference.mean or 0.0)
            since = _change_day([one for one in scored if one[0] >= begin], fell)
            mean = float(np.mean([value for day, value in scored if day >= since]))
        reference = (looks or [drift(values[0], (), scale, alpha=self.alpha)])[-1].reference
        return MeasureDrift(
            measure=str(measure),
            verdict=verdict if number else "reference",
            scale=scale,
            reference=reference,
            current=looks[-1].current if looks else reference,
            reference_from=_day(start),
            reference_until=_day(start + self.window),
            since="" if since is None else _day(since),
            mean_since=mean,
            near=_near(moves, since),
            moves=tuple(move for move in moves if move.day >= _day(start)),
            days=self._days(scored, start, scale),
            states=dict(sorted(states.items())),
        )

    def _looks(
        self, measure: Measure, scale: tuple[float, float], values: Sequence[Sequence[float]]
    ) -> list[Drift]:
        """The comparison of every period with the reference, oldest first."""
        lower = not measure.definition.higher_is_better
        return [
            drift(
                values[0],
                values[1 : number + 1],
                scale,
                lower_is_better=lower,
                alpha=self.alpha,
            )
            for number in range(1, len(values))
        ]

    def _days(
        self, scored: Sequence[tuple[int, float]], start: int, scale: tuple[float, float]
    ) -> tuple[DriftDay, ...]:
        """Each day with its mean, and the interval of its period at its end."""
        found: list[DriftDay] = []
        periods: dict[int, list[tuple[int, float]]] = {}
        for day, value in scored:
            periods.setdefault((day - start) // self.window, []).append((day, value))
        for number, some in sorted(periods.items()):
            some.sort(key=lambda one: one[0])
            values = [value for _, value in some]
            alpha = period_alpha(number, self.alpha)
            lows, highs = confidence_sequence(values, *scale, alpha, running=False)
            days = [day for day, _ in some]
            for day in dict.fromkeys(days):
                begin, end = bisect_left(days, day), bisect_left(days, day + 1)
                mean = float(np.mean(values[begin:end]))
                ends = float(lows[end - 1]), float(highs[end - 1])
                found.append(DriftDay(_day(day), end - begin, mean, *ends))
        return tuple(found)


def _standing(verdicts: Sequence[DriftVerdict]) -> tuple[DriftVerdict, int]:
    """The current verdict, and the number of the period in which it began (0 without one).

    A new period begins without values. Until it ends, or proves something itself, a verdict of the
    period before it stays.
    """
    if not verdicts:
        return "unproven", 0
    at = len(verdicts) - 1
    if verdicts[at] == "unproven" and at:
        at -= 1
    if verdicts[at] == "unproven":
        return "unproven", 0
    verdict = verdicts[at]
    while at and verdicts[at - 1] == verdict:
        at -= 1
    return verdict, at + 1


def _change_day(scored: Sequence[tuple[int, float]], fell: bool) -> int:
    """The day that splits the values best into higher, then lower ones (or lower, then higher).

    Best is the largest sum of squares between the two parts: the least-squares estimate of one
    change of a mean.
    """
    days = np.array([day for day, _ in scored])
    values = np.array([value for _, value in scored])
    order = np.argsort(days, kind="stable")
    days, values = days[order], values[order]
    cuts = np.flatnonzero(np.diff(days)) + 1
    if not len(cuts):
        return int(days[0])
    before = np.cumsum(values)[cuts - 1]
    total, n = values.sum(), len(values)
    gap = (total - before) / (n - cuts) - before / cuts
    explained = cuts * (n - cuts) * np.where((gap < 0) == fell, gap, 0.0) ** 2
    return int(days[cuts[int(np.argmax(explained))]])


def _near(moves: Sequence[Moved], since: int | None) -> tuple[Moved, ...]:
    if since is None:
        return ()
    return tuple(move for move in moves if abs(_number(move.day) - since) <= _NEAR)


def _number(at: str) -> int:
    return date.fromisoformat(at[:10]).toordinal()


def _day(number: int) -> str:
    return date.fromordinal(number).isoformat()


def shown_day(day: str) -> str:
    """A day for readers: ``3 Nov 2026``."""
    found = date.fromisoformat(day)
    return f"{found.day} {found:%b %Y}"


def _sentence(one: MeasureDrift) -> str:
    reference, current = one.reference, one.current
    if reference.mean is None and current.mean is None:
        return f"{one.measure} has no score yet."
    if one.verdict == "reference" or reference.mean is None:
        last = shown_day(one.reference_until)
        mean = "no score yet" if reference.mean is None else f"mean {reference.mean:.2f} so far"
        return f"{one.measure}: reference period until {last}, {mean}; no comparison before."
    if one.verdict == "unproven":
        now = "no score" if current.mean is None else f"{current.mean:.2f}"
        return (
            f"{one.measure}: no drift proven. {reference.mean:.2f} in the reference period, "
            f"{now} in the newest one."
        )
    verb = "fell" if one.change < 0 else "rose"
    said = (
        f"{one.measure} {verb} from {reference.mean:.2f} to {one.mean_since:.2f} "
        f"since about {shown_day(one.since)}"
    )
    return f"{said}; {_moved(one)}."


def _moved(one: MeasureDrift) -> str:
    """What changed at the time of a drift, as part of a sentence."""
    if not one.near:
        return "nothing else that is recorded changed within 3 days of it"
    by_day: dict[str, list[str]] = {}
    for move in one.near:
        by_day.setdefault(move.day, []).append(move.part)
    parts = []
    for day, names in by_day.items():
        named = list(dict.fromkeys(names))
        joined = " and ".join(filter(None, [", ".join(named[:-1]), named[-1]]))
        when = "that day" if day == one.since else f"on {shown_day(day)}"
        parts.append(f"the {joined} changed {when}")
    return ", ".join(parts)
