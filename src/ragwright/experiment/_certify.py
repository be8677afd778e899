"""The arithmetic of a promise: how sure an answer looks, and a threshold that is certified.

Learn then test (Angelopoulos, Bates, Candès, Jordan and Lei 2021) with fixed-sequence testing: the
tune rows order the thresholds of one score from strict to loose; on the confirm rows each is
tested, with an exact binomial p-value of "the risk among answered questions is above the stated
one", until one is not rejected. Every threshold before it is certified at once, because a sequence
fixed beforehand needs no correction (Maurer, Hothorn and Lehmacher 1995).
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from ..core import Answer, ConfigError, MeasureError, Row, Score, suggest_name
from ..flow import Flow
from ..measure import (
    GateRule,
    Measure,
    MeasureSetup,
    incomplete_beta,
    parse_measure,
    parse_rule,
    read_mark,
    score_row,
)
from ._oracles import RIGHT_ANSWER, is_right
from ._results import RowResult
from ._rows import add_answer

Numbers = NDArray[np.float64]
Flags = NDArray[np.bool_]

_MOST_STEPS = 50
"""Thresholds of a sequence: about 2 % of the questions lie between two."""

_SURE = 0.001
"""A sequence begins at the strictest threshold whose expected p is this share of the level.

Chosen on development parts of PIAF and SQuAD 2: more answers fewer questions; 0, which begins at
the least p, answers a little more.
"""

LEAST_CHANCE = 0.5
"""Chance of passing below which the confirm split is not opened: a pass would probably be luck."""

_HALVES = 10
"""Random halves of the tune rows on which the choice of a threshold is repeated."""

POWER = 0.8
"""Chance of passing that numbers of rows are planned for."""


@dataclass(frozen=True, slots=True)
class ThresholdStep:
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
class ScoreCandidate:
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
        chance: Chance that the first threshold passes on the confirm rows, from the tune rows.
        luck: Chance that its risk is above the stated one, if it passes.
        rates: Of every threshold: share of answered questions, and estimated share of wrong ones
            among them.
    """

    score: str
    thresholds: tuple[float, ...]
    coverage: float
    p: float
    chance: float = 0.0
    luck: float = 1.0
    rates: tuple[tuple[float, float], ...] = ()

    @property
    def hopeless(self) -> bool:
        """True if a pass would probably be luck."""
        return self.chance < LEAST_CHANCE

    def questions_needed(self, risk: float, alpha: float) -> int | None:
        """Held-out questions, answered or not, with which some threshold passes by a chance of 0.8.

        None if none does, however many there are.
        """
        needs = [
            math.ceil(answers / share)
            for share, rate in self.rates
            if (answers := rows_needed(risk, alpha, rate)) is not None
        ]
        return min(needs, default=None)


@lru_cache(2**16)  # halves of the tune rows ask for the same counts
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
    for _ in range(60 if risk_p(errors, answered, 1.0 - 1e-12) <= alpha else 0):
        middle = (low + high) / 2
        low, high = (middle, high) if risk_p(errors, answered, middle) > alpha else (low, middle)
    return high


def rows_needed(risk: float, alpha: float, rate: float = 0.0) -> int | None:
    """Answered rows that certify a risk by a chance of 0.8 if a share ``rate`` of them is wrong.

    59 for a risk of .05, alpha .05 and no error. None if the rate is not below the risk.
    """
    if rate >= risk:
        return None

    def is_enough(errors: int) -> bool:
        return risk_p(errors, _rows_for(errors, risk, alpha), rate) >= POWER

    powers = (2**bits - 1 for bits in range(64))
    most = next(errors for errors in powers if errors > risk * 10**7 or is_enough(errors))
    if most > risk * 10**7:
        return None
    return _rows_for(bisect_left(range(most), True, lo=(most + 1) // 2, key=is_enough), risk, alpha)


def _rows_for(errors: int, risk: float, alpha: float) -> int:
    """The fewest answered rows that certify a risk although so many of them are wrong."""
    if not errors:
        return math.ceil(round(math.log(alpha) / math.log1p(-risk), 9))
    most = math.ceil((2 * errors - 3 * math.log(alpha)) / risk)  # Chernoff
    return bisect_left(
        range(most), True, lo=errors, key=lambda rows: risk_p(errors, rows, risk) <= alpha
    )


def passing_chance(
    errors: float, answered: float, rows: int, *, risk: float, alpha: float
) -> tuple[float, float]:
    """Chance that further answered rows certify a risk, and chance that such a pass is luck.

    Both from what tune rows say of the error rate: a beta distribution with Jeffreys' prior.

    Args:
        errors: Wrong ones among the answered tune rows.
        answered: Answered tune rows.
        rows: Answered confirm rows to expect.
        risk: Stated risk.
        alpha: Level of the test.
    """
    wrong, right = errors + 0.5, answered - errors + 0.5
    chance = luck = 0.0
    for count in range(rows + 1):
        if risk_p(count, rows, risk) > alpha:
            break
        after = (wrong + count, right + rows - count)
        ways = _log_beta(*after) - _log_beta(wrong, right) - math.log(rows + 1)
        share = math.exp(ways - _log_beta(count + 1, rows - count + 1))
        chance += share
        luck += share * incomplete_beta(after[1], after[0], 1 - risk)
    return chance, luck / chance if chance else 1.0


def _log_beta(a: float, b: float) -> float:
    return math.lgamma(a) + math.lgamma(b) - math.lgamma(a + b)


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
    failing = (number for number, p in enumerate(expected) if number >= first and p > alpha)
    passed = next(failing, len(expected))
    coverage = float(answered[passed - 1] / len(scores)) if passed > first else 0.0
    return Plan(
        score,
        tuple(float(value) for value in thresholds[first:]),
        coverage,
        expected[first],
        rates=tuple(zip(answered / len(scores), (errors + 0.5) / (answered + 1), strict=True)),
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


def choose_plan(
    scores: Mapping[str, Numbers], wrong: Flags, *, risk: float, alpha: float, rows: int
) -> tuple[Plan, tuple[ScoreCandidate, ...]]:
    """The score that is expected to answer most, and every candidate; from tune rows alone.

    Equal ones: the least expected p-value, then the order of the scores. The chance of passing is
    that of a choice like it: made on random halves of the tune rows, its error rate is counted on
    the other halves.
    """
    plans = _plans(scores, wrong, risk=risk, alpha=alpha, rows=rows)
    candidates = tuple(
        ScoreCandidate(plan.score, auc(scores[plan.score], wrong), plan.coverage) for plan in plans
    )
    best = _best(plans)
    if best.thresholds:
        answered = int((scores[best.score] >= best.thresholds[0]).sum())
        errors = answered * _honest_rate(scores, wrong, risk=risk, alpha=alpha, rows=rows)
        expected = round(answered * rows / len(wrong))
        chance, luck = passing_chance(errors, answered, expected, risk=risk, alpha=alpha)
        best = replace(best, chance=chance, luck=luck)
    return best, candidates


def _plans(
    scores: Mapping[str, Numbers], wrong: Flags, *, risk: float, alpha: float, rows: int
) -> list[Plan]:
    return [
        plan_of(name, values, wrong, risk=risk, alpha=alpha, rows=rows)
        for name, values in scores.items()
    ]


def _best(plans: Sequence[Plan]) -> Plan:
    return min(plans, key=lambda plan: (-plan.coverage, plan.p))


def _honest_rate(
    scores: Mapping[str, Numbers], wrong: Flags, *, risk: float, alpha: float, rows: int
) -> float:
    """Share of wrong answers at a first threshold, on tune rows that had no part in its choice."""
    draw = np.random.default_rng(0)
    answered = errors = 0
    for _ in range(_HALVES):
        order = draw.permutation(len(wrong))
        choosing, others = np.array_split(order, 2)
        part = {name: values[choosing] for name, values in scores.items()}
        best = _best(_plans(part, wrong[choosing], risk=risk, alpha=alpha, rows=rows))
        if best.thresholds:
            above = scores[best.score][others] >= best.thresholds[0]
            answered += int(above.sum())
            errors += int((above & wrong[others]).sum())
    return errors / answered if answered else 1.0


def certify_steps(
    plan: Plan, scores: Numbers, wrong: Flags, *, risk: float, alpha: float
) -> tuple[tuple[ThresholdStep, ...], ThresholdStep | None]:
    """The thresholds certified on confirm rows, strict to loose, and the one that failed.

    With chance 1 - ``alpha`` or more, the risk of every certified threshold is at most ``risk``,
    for rows drawn independently from the questions to come.
    """
    steps = [
        ThresholdStep(threshold, int(above.sum()), int((above & wrong).sum()))
        for threshold in plan.thresholds
        for above in (scores >= threshold,)
    ]
    failed = [step for step in steps if risk_p(step.errors, step.answered, risk) > alpha]
    certified = steps[: steps.index(failed[0])] if failed else steps
    return tuple(certified), failed[0] if failed else None


_SHOWN = {
    "hit": "best hit score",
    "margin": "margin of the best hit",
    "snippet": "score of the first snippet",
}

SCORES = (*_SHOWN, "KPrecision(content+bigrams)")
"""The scores that are tried by default; none costs a call."""

_DIGITS = 6


@dataclass(frozen=True, slots=True)
class RightRule:
    """When an answer counts as right.

    Attributes:
        rule: A measure with its bound; None for the rule of gold answers.
        language: Of answers whose row names none.
    """

    rule: GateRule | None = None
    language: str = "en"

    def __str__(self) -> str:
        """The rule for readers."""
        if self.rule is not None:
            return str(self.rule)
        return f"{RIGHT_ANSWER}; any answer to an unanswerable question is wrong"

    def wrong(self, result: RowResult) -> bool | None:
        """True if a given answer is wrong; None if its row has no gold to say so.

        An answer to a question that is marked unanswerable is wrong, and so is one that the measure
        could not score. A row without an answer is not wrong.
        """
        row = result.row
        if row is None or _is_silent(result):
            return False
        if read_mark(row, "answerable") is False:
            return True
        if self.rule is None:
            right = is_right(row, row.response or "", self.language)
            return None if right is None else not right
        name = str(self.rule.measure)
        score = next(score for score in result.scores if score.measure == name)
        if score.value is None:
            return None if score.state == "not_applicable" else True
        value = round(score.value, _DIGITS)
        return value < self.rule.bound if self.rule.upward else value > self.rule.bound


def parse_right_rule(text: str, language: str = "en") -> RightRule:
    """The rule of an option ``--measure``: ``TokenF1>=0.5``, or empty for gold answers.

    Raises:
        MeasureError: Not a measure with a bound.
        ConfigError: The bound is relative to a baseline.
    """
    if not text.strip():
        return RightRule(None, language)
    rule = parse_rule(text)
    if rule.margin is not None:
        raise ConfigError(
            "a promise needs a fixed bound, not one relative to a baseline",
            where="--measure",
            hint="write for example --measure 'TokenF1>=0.5'",
        )
    return RightRule(rule, language)


def name_score(name: str) -> str:
    """The name of a score in sentences."""
    return _SHOWN.get(name, name)


def score_measures(names: Iterable[str]) -> tuple[Measure, ...]:
    """The measures among the scores.

    Raises:
        ConfigError: A name is neither a score nor a measure, or a measure needs a gold answer,
            which questions to come do not have.
    """
    measures = []
    for name in names:
        if name in _SHOWN:
            continue
        try:
            measure = parse_measure(name)
        except MeasureError as error:
            if not error.what.startswith("unknown measure"):
                raise
            raise ConfigError(
                f"{name!r} is neither a score nor a measure",
                where="--scores",
                hint=f"{suggest_name(name, _SHOWN)}; or a measure of answer and passages, "
                f"such as {SCORES[-1]}",
            ) from error
        gold = sorted(need for need in measure.definition.needs if need.startswith("reference"))
        if gold:
            raise ConfigError(
                f"{measure} needs {' and '.join(gold)}, which new questions do not have",
                where="--scores",
                hint=f"use {', '.join(_SHOWN)}, or measures of answer and passages",
            )
        measures.append(measure)
    return tuple(measures)


def _search_score(name: str, scores: Iterable[float], snippet: float | None) -> float | None:
    """The best of the hits' scores, how far it is above the second, or the first snippet's."""
    if name == "snippet":
        return snippet
    ordered = sorted((round(score, _DIGITS) for score in scores), reverse=True)
    if name == "margin" and len(ordered) > 1:
        return round(ordered[0] - ordered[1], _DIGITS)
    return ordered[0] if ordered else None


def answer_score(name: str, answer: Answer, setup: MeasureSetup) -> Flow[float | None]:
    """The score of an answer as it is given; None if it has none."""
    if name in _SHOWN:
        snippet = answer.snippets[0].score if answer.snippets else None
        return _search_score(name, (hit.score for hit in answer.hits), snippet)
    [measure] = score_measures([name])
    row = add_answer(Row("answer", answer.question), answer)
    [score] = yield from score_row(row, [measure], setup)
    return _sign_score(measure, score)


def _row_score(name: str, result: RowResult) -> float:
    """The score of a stored row as :func:`answer_score` gives it; minus infinity without one."""
    score: float | None = None
    if result.row is not None and not _is_silent(result):
        if name in _SHOWN:
            hits = () if result.made is None else result.made.hits
            snippet = result.row.metadata.get("snippet_score")
            number = float(snippet) if isinstance(snippet, float | int) else None
            score = _search_score(name, (hit_score for _, _, hit_score in hits), number)
        else:
            [measure] = score_measures([name])
            stored = next(s for s in result.scores if s.measure == str(measure))
            score = _sign_score(measure, stored)
    return -math.inf if score is None else score


def _is_silent(result: RowResult) -> bool:
    """True if nobody was shown an answer: an error is shown to a user, not an answer."""
    row = result.row
    return row is None or row.response is None or read_mark(row, "abstained") is True


def _sign_score(measure: Measure, score: Score) -> float | None:
    """A score of which higher is better."""
    if score.value is None:
        return None
    value = round(score.value, _DIGITS)
    return value if measure.definition.higher_is_better else -value


@dataclass(frozen=True, slots=True)
class GradedRows:
    """Rows of a split as numbers.

    Attributes:
        scores: Name of a score -> one per row; minus infinity where nothing is answered.
        wrong: Whether the answer is wrong; False where nothing is answered.
        ungraded: Answered rows that were left out, because no gold says whether they are right.
        unanswerable: Rows that are marked so.
    """

    scores: dict[str, Numbers]
    wrong: Flags
    ungraded: int
    unanswerable: int = 0


def grade_rows(results: Sequence[RowResult], names: Sequence[str], rule: RightRule) -> GradedRows:
    """Grade the rows of a run; rows that failed count as not answered."""
    judged = [(result, rule.wrong(result)) for result in results]
    graded = [(result, wrong) for result, wrong in judged if wrong is not None]
    return GradedRows(
        {name: np.array([_row_score(name, result) for result, _ in graded]) for name in names},
        np.array([wrong for _, wrong in graded], np.bool_),
        len(judged) - len(graded),
        sum(r.row is not None and read_mark(r.row, "answerable") is False for r in results),
    )
