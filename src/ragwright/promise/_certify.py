"""The arithmetic of a promise: a threshold chosen on some rows, certified on others.

Learn then test (Angelopoulos, Bates, Candès, Jordan and Lei 2021) with fixed-sequence testing: the
tune rows order the thresholds of one score from strict to loose; on the confirm rows each is
tested, with an exact binomial p-value of "the risk among answered questions is above the stated
one", until one is not rejected. Every threshold before it is certified at once, because a sequence
fixed beforehand needs no correction (Maurer, Hothorn and Lehmacher 1995).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..measure import incomplete_beta

Numbers = NDArray[np.float64]
Flags = NDArray[np.bool_]

_MOST_STEPS = 50
"""Thresholds of a sequence: about 2 % of the questions lie between two."""

_SURE = 0.001
"""A sequence begins at the strictest threshold whose expected p is this share of the level.

Chosen on development parts of PIAF and SQuAD 2: more answers fewer questions; 0, which begins at
the least p, answers a little more.
"""

_HOPELESS = 0.3
"""Expected p of the best threshold above which the confirm split is not opened."""


@dataclass(frozen=True, slots=True)
class Step:
    """One threshold on the confirm rows.

    Attributes:
        threshold: Least score of an answer.
        answered: Questions with an answer of at least that score.
        errors: Wrong ones among them.
    """

    threshold: float
    answered: int
    errors: int


@dataclass(frozen=True, slots=True)
class Candidate:
    """A score on the tune rows.

    Attributes:
        score: Its name.
        auc: Chance that a right answer scores above a wrong one, 0 to 1; None if all are right or
            all wrong.
        coverage: Share of the questions that are expected to be answered under a certificate; 0
            if none is expected.
    """

    score: str
    auc: float | None
    coverage: float


@dataclass(frozen=True, slots=True)
class Plan:
    """A fixed sequence of thresholds.

    Attributes:
        score: Name of the score.
        thresholds: From strict to loose, in the order of the tests.
        coverage: Expected share of answered questions; 0 if no certificate is expected.
        p: Expected p-value of the first threshold.
        rates: Of every threshold: share of answered questions, and estimated share of wrong ones
            among them.
    """

    score: str
    thresholds: tuple[float, ...]
    coverage: float
    p: float
    rates: tuple[tuple[float, float], ...] = ()

    @property
    def hopeless(self) -> bool:
        """True if the first test is not expected to come near its level."""
        return self.p > _HOPELESS

    def questions_needed(self, risk: float, alpha: float) -> int | None:
        """Held-out questions, answered or not, from which on some threshold is expected to pass.

        None if none is expected to, however many there are.
        """
        needs = [
            math.ceil(answers / share)
            for share, rate in self.rates
            if (answers := rows_needed(risk, alpha, rate)) is not None
        ]
        return min(needs, default=None)


def risk_p(errors: float, answered: float, risk: float) -> float:
    """P(at most so many errors) among ``answered`` rows of exactly this risk: the exact p-value.

    Counts need not be whole: then it is the continuous extension by the incomplete beta function.
    """
    if answered <= 0 or errors >= answered:
        return 1.0
    return incomplete_beta(answered - errors, errors + 1, 1 - risk)


def risk_bound(errors: int, answered: int, alpha: float) -> float:
    """The one-sided upper bound of Clopper and Pearson (1934), valid with chance 1 - alpha."""
    low, high = errors / answered if answered else 0.0, 1.0
    if risk_p(errors, answered, 1.0 - 1e-12) > alpha:
        return 1.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if risk_p(errors, answered, middle) > alpha else (low, middle)
    return high


def rows_needed(risk: float, alpha: float, rate: float = 0.0) -> int | None:
    """Answered rows from which on a risk can be certified where a share ``rate`` of them is wrong.

    59 for a risk of .05, alpha .05 and no error. None if the rate is not below the risk.
    """
    if rate >= risk:
        return None
    if not rate:
        return math.ceil(round(math.log(alpha) / math.log1p(-risk), 9))
    low, high = 0, 1
    while risk_p(rate * high, high, risk) > alpha:
        low, high = high, 2 * high
        if high > 10**7:
            return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if risk_p(rate * middle, middle, risk) > alpha else (low, middle)
    return high


def auc(scores: Numbers, wrong: Flags) -> float | None:
    """Chance that a right answer scores above a wrong one, ties counted half; None without both.

    Rows without an answer (score minus infinity) are left out.
    """
    answered = np.isfinite(scores)
    values, bad = scores[answered], wrong[answered]
    if not len(values) or bad.all() or not bad.any():
        return None
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(counts) - (counts - 1) / 2)[inverse]
    right = int((~bad).sum())
    above = ranks[~bad].sum() - right * (right + 1) / 2
    return float(above / (right * int(bad.sum())))


def plan_of(
    score: str, scores: Numbers, wrong: Flags, *, risk: float, alpha: float, rows: int
) -> Plan:
    """The fixed sequence of one score, from the tune rows.

    It begins at the strictest threshold that is expected to pass easily, or else at the one with
    the least expected p-value, and becomes looser.

    Args:
        score: Name of the score.
        scores: One per tune row; minus infinity without an answer.
        wrong: Whether the answer of the row is wrong.
        risk: Stated risk of a wrong answer.
        alpha: Level of the test.
        rows: Number of confirm rows.
    """
    thresholds, answered, errors = _counts(scores, wrong)
    if not len(thresholds):
        return Plan(score, (), 0.0, 1.0)
    scale = rows / len(scores)
    expected = [risk_p(k * scale, n * scale, risk) for n, k in zip(answered, errors, strict=True)]
    sure = [number for number, p in enumerate(expected) if p <= _SURE * alpha]
    first = sure[0] if sure else int(np.argmin(expected))
    passing = first - 1
    while passing + 1 < len(expected) and expected[passing + 1] <= alpha:
        passing += 1
    coverage = float(answered[passing] / len(scores)) if passing >= first else 0.0
    return Plan(
        score,
        tuple(float(value) for value in thresholds[first:]),
        coverage,
        expected[first],
        tuple(zip(answered / len(scores), (errors + 0.5) / (answered + 1), strict=True)),
    )


def _counts(scores: Numbers, wrong: Flags) -> tuple[Numbers, Numbers, Numbers]:
    """Thresholds from strict to loose, with the answered and the wrong rows of each."""
    order = np.argsort(-scores, kind="stable")
    values = scores[order]
    values = values[np.isfinite(values)]
    if not len(values):
        return values, values, values
    errors = np.cumsum(wrong[order][: len(values)]).astype(np.float64)
    last = np.flatnonzero(np.append(np.diff(values) != 0, True))  # of equal scores
    if len(last) > _MOST_STEPS:
        wanted = np.linspace(0, len(values) - 1, _MOST_STEPS + 1)[1:]
        last = np.unique(last[np.searchsorted(last, wanted)])
    return values[last], (last + 1).astype(np.float64), errors[last]


def best_plan(
    scores: Mapping[str, Numbers], wrong: Flags, *, risk: float, alpha: float, rows: int
) -> tuple[Plan, tuple[Candidate, ...]]:
    """The score that is expected to answer most, and every candidate; from tune rows alone.

    Equal ones: the least expected p-value, then the order of the scores.
    """
    plans = [
        plan_of(name, values, wrong, risk=risk, alpha=alpha, rows=rows)
        for name, values in scores.items()
    ]
    candidates = tuple(
        Candidate(plan.score, auc(scores[plan.score], wrong), plan.coverage) for plan in plans
    )
    return min(plans, key=lambda plan: (-plan.coverage, plan.p)), candidates


def certified_steps(
    plan: Plan, scores: Numbers, wrong: Flags, *, risk: float, alpha: float
) -> tuple[tuple[Step, ...], Step | None]:
    """The thresholds certified on confirm rows, strict to loose, and the one that failed.

    With chance 1 - ``alpha`` or more, the risk of every certified threshold is at most ``risk``,
    for rows drawn independently from the questions to come.
    """
    certified: list[Step] = []
    for threshold in plan.thresholds:
        above = scores >= threshold
        answered, errors = int(above.sum()), int((above & wrong).sum())
        step = Step(threshold, answered, errors)
        if risk_p(errors, answered, risk) > alpha:
            return tuple(certified), step
        certified.append(step)
    return tuple(certified), None
