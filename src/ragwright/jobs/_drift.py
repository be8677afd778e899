"""The drift of served answers: each measure over time, compared with a reference period."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from functools import cache
from itertools import groupby, pairwise, takewhile
from operator import itemgetter
from typing import Any, Literal, TypeAlias

import numpy as np

from ..core import value_hash
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
from ._served import measure_options

DriftState: TypeAlias = DriftVerdict | Literal["reference"]

ALPHA = 0.05
"""Probability of any false alarm, over all measures and all looks."""

LEAST_COVERAGE = 0.8
"""Least share of scored answers among the drawn ones for a trusted verdict."""

_NEAR = 3
"""Days before and after the estimated day of a drift in which changes are named."""


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
        current: Mean and interval of the newest period.
        reference_from: First day of the reference period; empty without a score.
        reference_until: The first day after it.
        since: Estimated first day of the drift; empty unless proven.
        mean_since: Mean from that day on.
        near: Changes within three days of it.
        moves: All changes, oldest first.
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
    since: str = ""
    mean_since: float | None = None
    near: tuple[DayShift, ...] = ()
    moves: tuple[DayShift, ...] = ()
    days: tuple[DriftDay, ...] = ()
    states: Mapping[str, int] = field(default_factory=dict)

    @property
    def coverage(self) -> float | None:
        """Share of scored answers among those that could be scored; None if there are none."""
        missing = sum(self.states.get(name, 0) for name in _UNSCORED)
        scored = self.states.get("scored", 0)
        return scored / (scored + missing) if scored + missing else None

    @property
    def change(self) -> float:
        """Difference of the mean from that of the reference period; 0 unless proven."""
        if self.mean_since is None or self.reference.mean is None:
            return 0.0
        return self.mean_since - self.reference.mean

    def __str__(self) -> str:
        """The verdict as one sentence."""
        return _drift_sentence(self)


_UNSCORED = ("waiting", "errored", "judge_invalid")


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
    periods = _Periods(options.window, options.reference, today, ALPHA / len(measures))
    drifts, notes = list[MeasureDrift](), list[str]()
    for measure in measures:
        scale = measure.known_scale
        if scale is None or scale.width is None or scale.high is None:
            notes.append(f"{measure} has no upper bound, so that no interval can be given")
            continue
        scores = by_measure.get(str(measure), [])
        moves = moves_of(scores, outputs.settings)
        drifts.append(periods.drift_of(measure, (scale.low, scale.high), scores, moves))
    names = {str(measure) for measure in measures}
    others = sorted(by_measure.keys() - names)
    if others:
        notes.append(f"not shown, as not in serve.measure.measures: {', '.join(others)}")
    return DriftReport(tuple(drifts), scope, today, tuple(notes))


@dataclass(frozen=True, slots=True)
class _Periods:
    """Periods of a comparison: length in days, first day, today, chance of a false alarm."""

    window: int
    reference: str
    today: str
    alpha: float

    def drift_of(
        self,
        measure: Measure,
        scale: tuple[float, float],
        scores: Sequence[ServedScore],
        moves: Sequence[DayShift],
    ) -> MeasureDrift:
        """Compare one measure over time."""
        scored = [(_day_number(s.at), s.value) for s in scores if s.value is not None]
        first = self.reference or min((s.at[:10] for s in scores), default="")
        unmeasured = AnytimeMean(0, None, None, None)
        if not first:
            return MeasureDrift(str(measure), "reference", scale, unmeasured, unmeasured)
        start = _day_number(first)
        scored = [(day, value) for day, value in scored if day >= start]
        number = max(0, (_day_number(self.today) - start) // self.window)
        values: list[list[float]] = [[] for _ in range(number + 1)]
        for day, value in scored:
            values[min(number, (day - start) // self.window)].append(value)
        # every period with the reference, oldest first
        lower = not measure.definition.higher_is_better
        comparisons = [
            drift(values[0], values[1 : end + 1], scale, lower_is_better=lower, alpha=self.alpha)
            for end in range(1, len(values))
        ]
        verdict, first_period = _current_verdict([comparison.verdict for comparison in comparisons])
        newest = start + number * self.window
        states = Counter(
            s.state
            for s in scores
            if _day_number(s.at) >= newest
            and (s.state != "waiting" or _day_number(s.at) < _day_number(self.today))
        )
        since = mean = None
        if first_period:
            begin = start + (first_period - 1) * self.window
            before = comparisons[first_period - 1]
            fell = (before.current.mean or 0.0) < (before.reference.mean or 0.0)
            since = _change_day([entry for entry in scored if entry[0] >= begin], fell)
            mean = float(np.mean([value for day, value in scored if day >= since]))
        reference = (comparisons or [drift(values[0], (), scale, alpha=self.alpha)])[-1].reference
        return MeasureDrift(
            measure=str(measure),
            verdict=verdict if number else "reference",
            scale=scale,
            reference=reference,
            current=comparisons[-1].current if comparisons else reference,
            reference_from=_day_text(start),
            reference_until=_day_text(start + self.window),
            since="" if since is None else _day_text(since),
            mean_since=mean,
            near=()
            if since is None
            else tuple(move for move in moves if abs(_day_number(move.day) - since) <= _NEAR),
            moves=tuple(move for move in moves if move.day >= _day_text(start)),
            days=self._drift_days(scored, start, scale),
            states=dict(sorted(states.items())),
        )

    def _drift_days(
        self, scored: Sequence[tuple[int, float]], start: int, scale: tuple[float, float]
    ) -> tuple[DriftDay, ...]:
        """Return each day with its mean, and the interval of its period at its end."""
        drift_days: list[DriftDay] = []
        ordered = sorted(scored, key=itemgetter(0))
        for number, of_period in groupby(ordered, lambda entry: (entry[0] - start) // self.window):
            days, values = zip(*of_period, strict=True)
            alpha = period_alpha(number, self.alpha)
            lows, highs = confidence_sequence(values, *scale, alpha, running=False)
            for day in dict.fromkeys(days):
                begin, end = bisect_left(days, day), bisect_left(days, day + 1)
                mean = float(np.mean(values[begin:end]))
                ends = float(lows[end - 1]), float(highs[end - 1])
                drift_days.append(DriftDay(_day_text(day), end - begin, mean, *ends))
        return tuple(drift_days)


def _current_verdict(verdicts: Sequence[DriftVerdict]) -> tuple[DriftVerdict, int]:
    """Return the current verdict, and the number of the period in which it began (0 without one).

    A new period begins without values. Until it ends or has its own verdict, the verdict of the
    period before it stays.
    """
    ended = verdicts[:-1] if len(verdicts) > 1 and verdicts[-1] == "unproven" else verdicts
    if not ended or ended[-1] == "unproven":
        return "unproven", 0
    same = takewhile(lambda verdict: verdict == ended[-1], reversed(ended))
    return ended[-1], len(ended) - sum(1 for _ in same) + 1


def _change_day(scored: Sequence[tuple[int, float]], fell: bool) -> int:
    """Return the day that splits the values best into higher, then lower ones, or the reverse.

    Best is the largest sum of squares between the two parts: the least-squares estimate of one
    change of a mean.
    """
    days, values = np.array(sorted(scored, key=itemgetter(0))).T
    cuts = np.flatnonzero(np.diff(days)) + 1
    if not len(cuts):
        return int(days[0])
    before = np.cumsum(values)[cuts - 1]
    total, n = values.sum(), len(values)
    gap = (total - before) / (n - cuts) - before / cuts
    explained = cuts * (n - cuts) * np.where((gap < 0) == fell, gap, 0.0) ** 2
    return int(days[cuts[int(np.argmax(explained))]])


def _day_number(at: str) -> int:
    return date.fromisoformat(at[:10]).toordinal()


def _day_text(number: int) -> str:
    return date.fromordinal(number).isoformat()


def format_day(day: str) -> str:
    """Format a day for readers: ``3 Nov 2026``."""
    parsed = date.fromisoformat(day)
    return f"{parsed.day} {parsed:%b %Y}"


def _drift_sentence(drifting: MeasureDrift) -> str:
    reference, current = drifting.reference, drifting.current
    if reference.mean is None and current.mean is None:
        return f"{drifting.measure} has no score yet."
    if drifting.verdict == "reference" or reference.mean is None:
        last = format_day(drifting.reference_until)
        mean = "no score yet" if reference.mean is None else f"mean {reference.mean:.2f} so far"
        return f"{drifting.measure}: reference period until {last}, {mean}; no comparison before."
    if drifting.verdict == "unproven":
        newest = "no score" if current.mean is None else f"{current.mean:.2f}"
        return (
            f"{drifting.measure}: no drift proven. {reference.mean:.2f} in the reference period, "
            f"{newest} in the newest one."
        )
    verb = "fell" if drifting.change < 0 else "rose"
    change = (
        f"{drifting.measure} {verb} from {reference.mean:.2f} to {drifting.mean_since:.2f} "
        f"since about {format_day(drifting.since)}"
    )
    return f"{change}; {_moves_text(drifting)}."


def _moves_text(drifting: MeasureDrift) -> str:
    """Describe the changes at the time of a drift, as part of a sentence."""
    if not drifting.near:
        return "no other recorded part changed within 3 days of it"
    by_day: dict[str, dict[str, None]] = {}
    for move in drifting.near:
        by_day.setdefault(move.day, {})[move.part] = None
    parts = []
    for day, names in by_day.items():
        *others, last = names
        joined = f"{', '.join(others)} and {last}" if others else last
        when = "that day" if day == drifting.since else f"on {format_day(day)}"
        parts.append(f"the {joined} changed {when}")
    return ", ".join(parts)


MovedPart: TypeAlias = Literal["corpus", "model", "prompt", "judge", "configuration"]

_SHORT = 8
"""Number of shown characters of a hash."""

_PROMPT_FILES = ("personas/", "prompts/")


@dataclass(frozen=True, slots=True)
class DayShift:
    """A part that was different on a day from the day before it with answers.

    Attributes:
        day: The day, ISO 8601.
        part: The changed part.
        before: Old model, hash of the index, names of sections, ….
        after: The new value.
    """

    day: str
    part: MovedPart
    before: str
    after: str

    def __str__(self) -> str:
        """``model a -> b``."""
        return f"{self.part} {self.before} -> {self.after}"


def moves_of(
    scores: Sequence[ServedScore], settings: Callable[[str], Mapping[str, Any]]
) -> tuple[DayShift, ...]:
    """Return changes between days, oldest first, each once.

    Answers are compared with earlier ones of the same served name and persona, so that two personas
    with their own models are not taken for a change. Within a day the last answer counts.

    Args:
        scores: Scores of one measure, in the order of their answers.
        settings: The settings and files of a configuration, by its hash.
    """
    days: dict[tuple[str, str], dict[str, ServedScore]] = {}
    judged: dict[str, ServedScore] = {}
    for score in scores:
        days.setdefault((score.name, score.persona), {})[score.at[:10]] = score
        if score.state != "waiting":
            judged[score.at[:10]] = score
    parts = cache(lambda name: _configuration_parts(settings(name)))
    moves = [move for pair in _neighbours(judged) for move in _judge_moves(*pair)]
    for of_persona in days.values():
        moves += [m for pair in _neighbours(of_persona) for m in _answer_moves(*pair, parts)]
    order = sorted(moves, key=lambda move: (move.day, move.part, move.before, move.after))
    return tuple(dict.fromkeys(order))


def _neighbours(by_day: Mapping[str, ServedScore]) -> Iterable[tuple[ServedScore, ServedScore]]:
    return pairwise(score for _, score in sorted(by_day.items(), key=itemgetter(0)))


def _answer_moves(
    before: ServedScore, after: ServedScore, parts: Callable[[str], Mapping[str, str]]
) -> Iterable[DayShift]:
    day = after.at[:10]
    if before.snapshot != after.snapshot:
        yield DayShift(day, "corpus", _short_hash(before.snapshot), _short_hash(after.snapshot))
    if before.model != after.model:
        yield DayShift(day, "model", brief_model(before.model), brief_model(after.model))
    old, new = parts(before.configuration), parts(after.configuration)
    changed = [key for key in sorted({*old, *new}) if old.get(key) != new.get(key)]
    prompts = [key for key in changed if key == "prompt" or key.startswith(_PROMPT_FILES)]
    names: dict[MovedPart, list[str]] = {
        "prompt": prompts,
        "configuration": [key for key in changed if key not in prompts],
    }
    for part, keys in names.items():
        if keys:
            hashes = (
                ", ".join(f"{key} {_short_hash(of.get(key, ''))}" for key in keys)
                for of in (old, new)
            )
            yield DayShift(day, part, *hashes)


def _judge_moves(before: ServedScore, after: ServedScore) -> Iterable[DayShift]:
    names = brief_model(before.judge), brief_model(after.judge)
    if before.judge == after.judge:
        if before.prompts == after.prompts:
            return
        names = (
            f"settings {_short_hash(before.prompts)}",
            f"settings {_short_hash(after.prompts)}",
        )
    yield DayShift(after.at[:10], "judge", *names)


def _configuration_parts(body: Mapping[str, Any]) -> dict[str, str]:
    """Hash each section or file, without the model of answers, which is compared separately."""
    sections = dict(body.get("settings", {}))
    answer = sections.get("answer")
    if isinstance(answer, dict):
        sections["answer"] = {key: value for key, value in answer.items() if key != "model"}
    hashes = {name: value_hash(value) for name, value in sections.items() if value}
    return hashes | dict(body.get("files", {}))


def _short_hash(name: str) -> str:
    return name[:_SHORT] or "none"


def brief_model(name: str) -> str:
    """The name of a model without the address of its server."""
    return name.rpartition("#")[2].rpartition("/")[2] or "none"
