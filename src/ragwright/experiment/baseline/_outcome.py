"""Shifts of distances: whether answers moved nearer to their questions than a baseline's."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from ...core import MeasureError, Score
from ...measure import aggregate, compare_rows

BaselineOutcome: TypeAlias = Literal["smaller", "about equal", "larger", "undecided"]

_DISTANCE = "QADistance"
_LEVEL = 0.05
_SETTLED = 0.9
"""Share of the remaining margin that the interval may fill, when pairs are estimated."""


@dataclass(frozen=True, slots=True)
class DistanceShift:
    """The difference between two sets of distances, pair by pair.

    Attributes:
        outcome: ``about equal`` where the interval lies within the margin; else ``smaller`` or
            ``larger`` where the paired test shows it at 5 %; else ``undecided``.
        n: Pairs that both sets have an answer to.
        difference: Mean of the second distance minus the first, None without pairs.
        low: Lower end of its 95 % interval, ``high`` its upper end; None below two pairs.
        p: Two-sided p-value of the paired permutation test.
        margin: Largest difference that counts as equal, in units of the distance.
        more: About how many more pairs would show that the two are equal; None where they differ
            by more than the margin, or it is shown already.
        rare: The test shows a difference that pairs of a kind too rare to be among these could
            reverse: true of most small sets.
        reason: Why it is undecided although there are pairs enough; empty else.
    """

    outcome: BaselineOutcome
    n: int
    difference: float | None
    low: float | None
    high: float | None
    p: float | None
    margin: float
    more: int | None = None
    rare: bool = False
    reason: str = ""


def distance_shift(
    before: Mapping[str, float], after: Mapping[str, float], margin: float, *, seed: int = 0
) -> DistanceShift:
    """Compare two sets of distances over the pairs that both hold (SPEC C3).

    Args:
        before: Row id -> distance of the baseline.
        after: Likewise of the experiment.
        margin: Largest mean difference that counts as equal, in units of the distance. At 0 or
            less the baseline's own answers are no nearer than shuffled ones, and there is no
            outcome.
        seed: Seed of the interval and of the test.
    """
    shared = [name for name in before if name in after]
    differences = [round(after[name] - before[name], 6) for name in shared]
    summary = aggregate([Score("difference", "scored", value) for value in differences], seed)
    low, high = summary.low, summary.high
    if len(differences) > 1 and len(set(differences)) == 1:
        low = high = differences[0]
    try:
        compared = compare_rows(_distance_scores(before), _distance_scores(after), seed=seed)[
            _DISTANCE
        ]
    except MeasureError:
        return DistanceShift("undecided", 0, None, None, None, None, margin)
    outcome: BaselineOutcome = "undecided"
    reason = ""
    if margin <= 0:
        reason = (
            "the baseline's own answers are no nearer to their questions than shuffled answers, so "
            "these distances say nothing: use another embedding model"
        )
    elif low is not None and high is not None and -margin <= low and high <= margin:
        outcome = "about equal"
    elif summary.mean and compared.p is not None and compared.p <= _LEVEL:
        outcome = "smaller" if summary.mean < 0 else "larger"
    rare = outcome in ("smaller", "larger") and compared.verdict == "no change proven"
    more = _more_pairs(differences, margin) if outcome == "undecided" and not reason else None
    return DistanceShift(
        outcome,
        len(differences),
        summary.mean,
        low,
        high,
        compared.p,
        max(margin, 0.0),
        more,
        rare,
        reason,
    )


def _more_pairs(differences: Sequence[float], margin: float) -> int | None:
    """Estimate how many more pairs of this spread put the interval within the margin."""
    if len(differences) < 2:
        return None
    mean = sum(differences) / len(differences)
    room = _SETTLED * (margin - abs(mean))
    if room <= 0:
        return None
    spread = math.sqrt(sum((value - mean) ** 2 for value in differences) / (len(differences) - 1))
    return max(1, math.ceil((1.96 * spread / room) ** 2) - len(differences))


def _distance_scores(distances: Mapping[str, float]) -> dict[str, tuple[Score, ...]]:
    return {name: (Score(_DISTANCE, "scored", value),) for name, value in distances.items()}
