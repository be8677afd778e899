"""Summaries of scores, with interval, coverage and states, and the consistency of a judge."""

from __future__ import annotations

import math
from array import array
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from statistics import fmean, variance
from typing import get_args

import numpy as np

from ..core import MeasureError, Score, ScoreState, count_noun
from ._definition import MeasureScale
from ._measure import Measure, parse_measure
from .statistics import Method, Values, mean_interval, number_clusters


@dataclass(frozen=True, slots=True)
class Summary:
    """Scores of one measure over rows; numbers except counts are None if undefined.

    Attributes:
        measure: Text of the measure.
        mean: Mean of the scored rows; likewise ``median``.
        sd: Sample standard deviation (divisor n - 1), None below two scored rows.
        n: Number of scored rows.
        coverage: Share of scored rows among the rows with gold, 0 to 1; without ``unanswerable``
            rows.
        low: Lower end of the 95 % interval of the mean, ``high`` its upper end; None below two
            scored rows (or clusters).
        states: State -> number of rows; ``scored`` and every other state that occurs.
        seed: Seed of the bootstrap.
        interval: How the interval was made: ``exact`` (a share; Clopper and Pearson 1934),
            ``bootstrap`` (BCa over rows; Efron 1987, Hesterberg 2015), ``clusters`` (the same over
            whole clusters), ``no spread`` (all values are equal).
        worst: Mean if every row without a score had the worst value of the scale, ``best`` with the
            best one; None if the scale is unbounded there.
        histogram: Value -> number of rows, for judged measures on a scale of points, else empty.
        clusters: Number of clusters of the scored rows, None if rows are independent.
        no_gold: Rows without the gold that the measure needs, such as a reference. They are
            ``not_applicable`` for every system, and not part of coverage and bounds.
        scale: Range and direction of the measure; None where they are not known.
        unanswerable: Rows marked ``answerable: false`` on which the system rightly abstained. They
            are not part of coverage and bounds.
        counted: ``spans`` or ``documents`` -> scored rows in which a measure of retrieval counted
            them; empty for other measures.
        missed: Other rows with gold on which the system abstained.
        stability: ``stable right``, ``flaky``, ``stable wrong`` -> rows that were judged several
            times; see :func:`row_stability`.
        mean_with_abstained: Mean in which each missed row has the worst value of the scale, with
            its interval ``low_with_abstained`` to ``high_with_abstained``; ``mean`` if there are
            none. Rankings and gates use it. None if the scale has no worst value.
    """

    measure: str = ""
    mean: float | None = None
    median: float | None = None
    sd: float | None = None
    n: int = 0
    coverage: float = 0.0
    low: float | None = None
    high: float | None = None
    states: Mapping[ScoreState, int] = field(default_factory=dict)
    seed: int = 0
    interval: Method = ""
    worst: float | None = None
    best: float | None = None
    histogram: Mapping[str, int] = field(default_factory=dict)
    clusters: int | None = None
    no_gold: int = 0
    scale: MeasureScale | None = None
    unanswerable: int = 0
    counted: Mapping[str, int] = field(default_factory=dict)
    missed: int = 0
    mean_with_abstained: float | None = None
    low_with_abstained: float | None = None
    high_with_abstained: float | None = None
    stability: Mapping[str, int] = field(default_factory=dict)

    @property
    def deciding(self) -> tuple[float | None, float | None, float | None]:
        """The mean that orders and decides, and the ends of its interval.

        With missed rows at the worst value; of the scored rows if the scale has no worst value.
        """
        if self.mean_with_abstained is None:
            return self.mean, self.low, self.high
        return self.mean_with_abstained, self.low_with_abstained, self.high_with_abstained

    @property
    def accounted(self) -> float:
        """Share of the rows with gold behind ``deciding``: scored, or at the worst value."""
        return self.coverage * self._deciding_rows / self.n if self.n else 0.0

    @property
    def judge_range(self) -> tuple[float, float] | None:
        """The ends between which rows with an invalid judgment could move ``deciding``; None
        without such rows, or without a mean or an end.
        """
        mean, failed, scale = self.deciding[0], self.states.get("judge_invalid", 0), self.scale
        if not failed or mean is None or scale is None or scale.high is None:
            return None
        rows = self._deciding_rows
        low, high = mean * rows + failed * scale.low, mean * rows + failed * scale.high
        return low / (rows + failed), high / (rows + failed)

    @property
    def _deciding_rows(self) -> int:
        return self.n + (self.missed if self.mean_with_abstained is not None else 0)

    @property
    def lost(self) -> dict[ScoreState, int]:
        """State -> rows that lack a score although they have gold."""
        excused = {"scored": self.n, "not_applicable": self.no_gold, "abstained": self.unanswerable}
        lost = {state: count - excused.get(state, 0) for state, count in self.states.items()}
        return {state: count for state, count in lost.items() if count}


class Tally:
    """Collects the scores of one measure one at a time: 8 bytes per value.

    Args:
        measure: The measure or its text; empty: that of the first score. The text of a custom
            rubric does not contain its scale; the measure does.
    """

    def __init__(self, measure: str | Measure = "") -> None:
        self.measure = str(measure)
        self._known = measure if isinstance(measure, Measure) else None
        self._values = array("d")
        self._clusters: list[Hashable] = []
        self._missed_clusters: list[Hashable] = []
        self._states: Counter[ScoreState] = Counter()
        self._counts: Counter[str] = Counter()
        self._stability: Counter[str] = Counter()

    def add(self, score: Score, cluster: Hashable = None) -> None:
        """Add one score; ``cluster`` is the name of its cluster, for all scores or for none.

        Raises:
            MeasureError: The score is of another measure, its value is not finite, or only some
                scores have a cluster.
        """
        self.measure = self.measure or score.measure
        if score.measure != self.measure:
            names = " and ".join(sorted((self.measure, score.measure)))
            raise MeasureError(
                f"scores of {names} cannot be averaged together",
                hint="aggregate each measure separately",
            )
        if score.value is not None:
            if not math.isfinite(score.value):
                raise MeasureError(
                    f"{self.measure} has a value that is not a number",
                    hint="use a state other than scored if a measure is undefined for a row",
                )
            if self._clusters and (cluster is None) != (self._clusters[0] is None):
                raise MeasureError(
                    "only some of the rows have a cluster", hint="give every row one, or none"
                )
            self._values.append(score.value)
            self._clusters.append(cluster)
            self._counts[score.counted] += 1
        if score.missed:
            self._missed_clusters.append(cluster)
        self._states[score.state] += 1
        self._counts["no gold"] += score.no_gold
        self._counts["unanswerable"] += score.unanswerable
        if samples_of(score):
            _, scale = self._measure()
            self._stability[row_stability(score, scale)] += 1

    def _measure(self) -> tuple[Measure | None, MeasureScale | None]:
        measure = self._known or find_measure(self.measure)
        return measure, None if measure is None else measure.known_scale

    def summary(self, seed: int = 0) -> Summary:
        """The summary of the scores so far."""
        measure, scale = self._measure()
        no_gold, unanswerable = self._counts["no gold"], self._counts["unanswerable"]
        values: Values = np.array(self._values, dtype=np.float64)
        n, total = len(values), self._states.total() - no_gold - unanswerable
        bare = Summary(
            self.measure,
            states={
                state: self._states[state]
                for state in get_args(ScoreState)
                if self._states[state] or state == "scored"
            },
            seed=seed,
            no_gold=no_gold,
            scale=scale,
            unanswerable=unanswerable,
            missed=len(self._missed_clusters),
            stability={name: count for name, count in self._stability.items() if name},
        )
        if not n:
            return bare  # no mean of nothing: abstentions alone are no measurement
        mean, low, high, method = _mean_of(values, self._clusters, scale, seed)
        worst, best = _extreme_means(values, total, scale)
        with_abstained: tuple[float | None, float | None, float | None] = mean, low, high
        if bare.missed:
            with_abstained = None, None, None
            if scale is not None and scale.worst is not None:
                every = np.append(values, np.full(bare.missed, scale.worst))
                clusters = [*self._clusters, *self._missed_clusters]
                with_abstained = _mean_of(every, clusters, scale, seed)[:3]
        return replace(
            bare,
            mean=mean,
            median=float(np.median(values)),
            sd=float(np.std(values, ddof=1)) if n > 1 else None,
            n=n,
            coverage=n / total,
            low=low,
            high=high,
            interval=method,
            worst=worst,
            best=best,
            histogram=_score_histogram(values, measure),
            clusters=None if self._clusters[0] is None else len(set(self._clusters)),
            counted={
                gold: self._counts[gold] for gold in ("spans", "documents") if self._counts[gold]
            },
            mean_with_abstained=with_abstained[0],
            low_with_abstained=with_abstained[1],
            high_with_abstained=with_abstained[2],
        )


def _mean_of(
    values: Values, clusters: Sequence[Hashable], scale: MeasureScale | None, seed: int
) -> tuple[float, float | None, float | None, Method]:
    ends, method = mean_interval(
        values,
        seed,
        scale=None if scale is None else scale.ends,
        clusters=None if clusters[0] is None else number_clusters(clusters),
    )
    return math.fsum(values) / len(values), *(ends or (None, None)), method


def aggregate(
    scores: Iterable[Score], seed: int = 0, *, clusters: Sequence[Hashable] | None = None
) -> Summary:
    """Summarise the scores of one measure; only those in the state ``scored`` are averaged.

    Args:
        scores: Any states, read once.
        seed: Seed of the interval.
        clusters: One name per score, if rows are not independent: they share a document, or are
            repeats of one question.

    Raises:
        MeasureError: The scores are of several measures, a value is not finite, or the number of
            clusters differs from that of scores.
    """
    tally, scores = Tally(), list(scores)
    if clusters is not None and len(scores) != len(clusters):
        raise MeasureError(
            f"{len(clusters)} clusters for {count_noun(len(scores), 'score')}",
            hint="give one cluster per score",
        )
    for score, cluster in zip(scores, clusters or [None] * len(scores), strict=True):
        tally.add(score, cluster)
    return tally.summary(seed)


def find_measure(text: str) -> Measure | None:
    """The measure of a text, None if it is unknown."""
    try:
        return parse_measure(text)
    except MeasureError:
        return None


def find_scale(text: str, measures: Iterable[Measure] = ()) -> MeasureScale | None:
    """Range and direction of the measure of a text, None if unknown.

    ``measures`` adds what texts do not contain: the scales of rubric files.
    """
    measure = next((m for m in measures if str(m) == text), None) or find_measure(text)
    return None if measure is None else measure.known_scale


def _extreme_means(
    values: Values, total: int, scale: MeasureScale | None
) -> tuple[float | None, float | None]:
    """Mean over all rows with the missing ones at the worst and the best end."""
    sum_, missing = math.fsum(values), total - len(values)
    if not missing:
        return sum_ / total, sum_ / total
    if scale is None:
        return None, None
    bottom = (sum_ + missing * scale.low) / total
    top = None if scale.high is None else (sum_ + missing * scale.high) / total
    return (bottom, top) if scale.higher_is_better else (top, bottom)


def _score_histogram(values: Values, measure: Measure | None) -> dict[str, int]:
    """Counts of each point of a judged scale, including empty points.

    Values between points (means of two orders or of repeats) are counted as they are; a scale used
    as a continuum, with more than four values per point, has none.
    """
    if measure is None or measure.definition.kind != "judged":
        return {}
    low, high = measure.definition.low, measure.definition.high
    counts = Counter(round(float(value), 6) for value in values)
    if high is None or high - low < 2 or len(counts) > 4 * (high - low) + 1:
        return {}
    return {
        f"{point:g}": counts[point]
        for point in sorted({*counts, *map(float, range(int(low), int(high) + 1))})
    }


SAMPLE = "sample "
FIRST_ORDER = "first order"
SECOND_ORDER = "second order"
_KEPT = 2000


@dataclass(frozen=True, slots=True)
class JudgeSpread:
    """The spread of a judge over its repeats; numbers are None if no row was repeated.

    Attributes:
        rows: Rows with at least two valid repeats.
        samples: Valid repeats of these rows together.
        within: Variance of the repeats of one row (divisor n - 1), averaged over the rows.
        sd: Its square root: the random difference between two judgments of one row.
        difference: Mean absolute difference of two repeats of one row.
        agree: Share of the rows whose repeats are all equal.
        between: Variance over the rows without the judge's share in it, 0 or more; None below
            two rows. One-way analysis of variance with the rows as groups.
    """

    rows: int
    samples: int
    within: float | None = None
    sd: float | None = None
    difference: float | None = None
    agree: float | None = None
    between: float | None = None


@dataclass(frozen=True, slots=True)
class FlipRate:
    """The share of rows in which the order of two texts decides; numbers are None if no row was
    judged twice.

    Attributes:
        rows: Rows judged in both orders.
        judgments: Judgments in both orders: one per row, or one per valid repeat.
        flipped: Judgments whose two orders have different scores.
        rate: Their share of the judgments. Not of rows: the means of (5, 3) and (3, 5) are equal,
            although the order decided twice.
        difference: Mean absolute difference of the two orders.
        lean: Mean of first minus second order: the position that the judge favours.
    """

    rows: int
    judgments: int
    flipped: int
    rate: float | None = None
    difference: float | None = None
    lean: float | None = None


def judge_spread(scores: Iterable[Score]) -> JudgeSpread:
    """The spread of the judge over the stored repeats of one measure."""
    rows = [samples_of(score) for score in scores]
    rows = [values for values in rows if len(values) > 1]
    if not rows:
        return JudgeSpread(0, 0)
    means = [fmean(values) for values in rows]
    within = fmean(map(variance, rows))
    noise = fmean(variance(values) / len(values) for values in rows)
    return JudgeSpread(
        rows=len(rows),
        samples=sum(map(len, rows)),
        within=within,
        sd=math.sqrt(within),
        difference=fmean(
            fmean(abs(first - second) for first, second in combinations(values, 2))
            for values in rows
        ),
        agree=fmean(float(len(set(values)) == 1) for values in rows),
        between=max(0.0, variance(means) - noise) if len(rows) > 1 else None,
    )


def flip_rate(scores: Iterable[Score]) -> FlipRate:
    """How often the order of the texts changes the scores of a measure that is judged in both
    orders.
    """
    of_rows = [_order_pairs(score.parts) for score in scores if score.state == "scored"]
    pairs = [pair for row in of_rows for pair in row]
    flipped = sum(first != second for first, second in pairs)
    if not pairs:
        return FlipRate(0, 0, 0)
    return FlipRate(
        rows=sum(bool(row) for row in of_rows),
        judgments=len(pairs),
        flipped=flipped,
        rate=flipped / len(pairs),
        difference=fmean(abs(first - second) for first, second in pairs),
        lean=fmean(first - second for first, second in pairs),
    )


def _order_pairs(parts: Mapping[str, float]) -> list[tuple[float, float]]:
    """Scores in both orders: of each stored repeat, else of the single judgment."""
    pairs = [
        (parts[name], parts[SECOND_ORDER + name.removeprefix(FIRST_ORDER)])
        for name in parts
        if name.startswith(f"{FIRST_ORDER}, ")
    ]
    if not pairs and {FIRST_ORDER, SECOND_ORDER} <= set(parts):
        pairs = [(parts[FIRST_ORDER], parts[SECOND_ORDER])]
    return pairs


def samples_of(score: Score) -> tuple[float, ...]:
    """Values of the repeats of a score, in their order; none where it was judged once."""
    return tuple(value for name, value in score.parts.items() if name.startswith(SAMPLE))


def row_stability(score: Score, scale: MeasureScale | None) -> str:
    """``stable right``, ``flaky`` or ``stable wrong``: whether all repeats of a row, some or none
    are beyond the middle of the scale; empty if it was judged once, or has no middle.
    """
    values = samples_of(score)
    if len(values) < 2 or scale is None or scale.high is None:
        return ""
    middle, sign = (scale.low + scale.high) / 2, 1 if scale.higher_is_better else -1
    right = sum(sign * value > sign * middle for value in values)
    return "stable wrong" if not right else "stable right" if right == len(values) else "flaky"


def combine_repeats(samples: Sequence[Score]) -> Score:
    """One score of several independent judgments of one row: the mean of the valid ones.

    More than half of them must be valid; else the row has the state of the first that is not.
    """
    if len(samples) == 1:
        return samples[0]
    valid = [(at, score) for at, score in enumerate(samples, 1) if score.value is not None]
    if 2 * len(valid) <= len(samples):
        first = next(score for score in samples if score.value is None)
        valid_note = f"{len(valid)} of {len(samples)} repeats are valid. " if valid else ""
        return replace(first, reason=valid_note + first.reason)
    note = [f"{len(valid)} of {len(samples)} repeats are valid"]
    lines = note if len(valid) < len(samples) else []
    lines += [f"{SAMPLE}{at} ({score.value:g}): {score.detail}" for at, score in valid]
    # Means of the parts that every judgment has.
    common = {
        name: fmean(score.parts[name] for _, score in valid)
        for name in valid[0][1].parts
        if all(name in score.parts for _, score in valid)
    }
    parts = {f"{SAMPLE}{at}": float(score.value or 0) for at, score in valid}
    orders = {
        f"{order}, {SAMPLE}{at}": score.parts[order]
        for at, score in valid
        for order in (FIRST_ORDER, SECOND_ORDER)
        if order in score.parts
    }
    return Score(
        samples[0].measure,
        "scored",
        fmean(parts.values()),
        detail="\n".join(line[:_KEPT] for line in lines),
        parts={**common, **orders, **parts},
    )
