"""Consistency of a judge: its spread over repeats, and how often the order decides.

The judge's spread on the same row differs from the spread over questions, which a mean's interval
describes. Both are needed to call a difference real.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from statistics import fmean, variance

from ..core import Score
from ._definition import MeasureScale

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
    within = fmean(variance(values) for values in rows)
    between = None
    if len(rows) > 1:
        means = [fmean(values) for values in rows]
        noise = fmean(variance(values) / len(values) for values in rows)
        between = max(0.0, variance(means) - noise)
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
        between=between,
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
    lines = []
    if len(valid) < len(samples):
        lines.append(f"{len(valid)} of {len(samples)} repeats are valid")
    lines += [f"{SAMPLE}{at} ({score.value:g}): {score.detail}" for at, score in valid]
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
        parts={**_common_parts([score.parts for _, score in valid]), **orders, **parts},
    )


def _common_parts(parts: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Means of the parts that every judgment has."""
    names = [name for name in parts[0] if all(name in part for part in parts)]
    return {name: fmean(part[name] for part in parts) for name in names}
