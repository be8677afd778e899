"""Dose-response curves of capability suites, from a stored run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TypeAlias

from ..core import Row, Score, TestsetError
from ..measure import MeasureSetup, aggregate, compare_rows, parse_measure, read_mark, score_rows
from ..testsets import CLOSED_BOOK, GoldAnswer, gold_answer
from ._results import Evaluation, RowResult

ACCURACY = "Contains"
"""Name of the default accuracy of an answer, part by part."""

_DOSES: Mapping[str, str] = {
    "noise": "share of irrelevant passages",
    "rejection": "share of irrelevant passages",
    "integration": "share of irrelevant passages",
    "sources": "questions joined",
    "counterfactual": "share of falsified passages",
}


@dataclass(frozen=True, slots=True)
class CurvePoint:
    """Summary of the rows of one dose; numbers are None if undefined.

    Attributes:
        dose: The dose.
        n: Rows with a value; ``questions`` is the number of their questions.
        without: Rows without a value, by state.
        mean: Mean of the values, with its 95 % interval ``low`` to ``high``: exact for shares
            (Clopper and Pearson 1934), a bootstrap over questions if a question has several rows or
            parts.
        abstained: Share of the rows in which the generator declined to answer.
        closed_book: Mean over the same questions asked without any passage.
        above: ``mean - closed_book``, paired by question, with its 95 % interval ``above_low``
            to ``above_high``: the effect of the passages beyond the model's own knowledge.
        paired: Rows that have a control.
    """

    dose: float
    n: int = 0
    questions: int = 0
    without: Mapping[str, int] = field(default_factory=dict)
    mean: float | None = None
    low: float | None = None
    high: float | None = None
    abstained: float | None = None
    closed_book: float | None = None
    above: float | None = None
    above_low: float | None = None
    above_high: float | None = None
    paired: int = 0


@dataclass(frozen=True, slots=True)
class Curve:
    """One quantity of one suite by dose.

    Attributes:
        suite: Name of the suite.
        quantity: The measured quantity: ``accuracy``, ``share of parts``, ``rejection rate``, ….
        measure: The measure behind it, as a text that parses.
        dose_name: Name of the dose's unit.
        among: The questions: ``all``, or ``known``, those answered right without passages.
        points: By rising dose.
        change: Difference between the largest and the smallest dose, paired by question, with
            its 95 % interval ``change_low`` to ``change_high``.
    """

    suite: str
    quantity: str
    measure: str
    dose_name: str
    among: str
    points: tuple[CurvePoint, ...]
    change: float | None = None
    change_low: float | None = None
    change_high: float | None = None


_Pair: TypeAlias = tuple[RowResult, Row]
CurveScore: TypeAlias = Callable[[RowResult, Row], Score]
"""One quantity of one row."""


def capability_curves(
    evaluation: Evaluation, *, accuracy: str = "", setup: MeasureSetup | None = None, seed: int = 0
) -> tuple[Curve, ...]:
    """Curves of a run of capability suites, suite by suite.

    An answer is accurate if it contains every part of its gold answer in one of its wordings and
    the generator did not abstain; ``share of parts`` counts the parts. Refusals, reports of errors
    and corrections are the capability measures, as stored in the run, else computed now.

    Args:
        evaluation: A run of a testset with suites.
        accuracy: A measure of the run to use instead, such as a judged one.
        setup: Cues of capability measures that the run did not store.
        seed: Seed of the intervals.

    Raises:
        TestsetError: No row of the run belongs to a suite, or the run has no such measure.
    """
    rows = [
        (result, result.row)
        for result in evaluation.results
        if result.row is not None and "suite" in result.row.metadata
    ]
    if not rows:
        raise TestsetError(
            "no row of the run belongs to a capability suite",
            where=evaluation.name,
            hint="make one with `ragwright suite make`, and run `ragwright eval --testset` on it",
        )
    if accuracy and not any(
        score.measure == accuracy for result, _ in rows for score in result.scores
    ):
        measures = ", ".join(summary.measure for summary in evaluation.summaries)
        raise TestsetError(
            f"the run has no scores of {accuracy}",
            where=evaluation.name,
            hint=f"it has: {measures}",
        )
    lost: dict[tuple[str, str], Counter[str]] = {}
    for result in evaluation.results:
        suite, dose, *_ = (*result.row_id.split("/"), "", "")
        if result.row is None and suite in _DOSES:
            lost.setdefault((suite, dose), Counter())[result.scores[0].state] += 1
    by_suite: dict[str, list[_Pair]] = {}
    for result, row in rows:
        by_suite.setdefault(str(row.metadata["suite"]), []).append((result, row))
    controls = {_control_key(row): (result, row) for result, row in by_suite.pop(CLOSED_BOOK, [])}
    curves = _Curves(accuracy, setup or MeasureSetup(), seed, lost, controls)
    return tuple(
        curves.curve(suite, quantity, of_quantity)
        for suite in (*_DOSES, *(name for name in by_suite if name not in _DOSES))
        if suite in by_suite
        for quantity, of_quantity in curves.quantities(suite, by_suite[suite])
    )


@dataclass(frozen=True, slots=True)
class _Quantity:
    """A quantity read from every row of a suite: its name, measure and reader."""

    name: str
    measure: str
    reading: CurveScore
    controlled: bool = False
    among: str = "all"


@dataclass(frozen=True, slots=True)
class _Curves:
    """How the curves of a run are made; ``controls`` are rows asked without passages."""

    named: str
    setup: MeasureSetup
    seed: int
    lost: Mapping[tuple[str, str], Mapping[str, int]]
    controls: Mapping[tuple[str, str], _Pair]

    def quantities(
        self, suite: str, rows: Sequence[_Pair]
    ) -> Iterator[tuple[_Quantity, Sequence[_Pair]]]:
        if suite == "rejection":
            yield self._stored("rejection rate", "RejectionRate"), rows
        if suite == "counterfactual":
            known = [pair for pair in rows if self._is_known_without(pair[1])]
            among = {"all": rows, "known": known if len(known) < len(rows) else []}
            for name, of_rows in among.items():
                # At dose 0 errors reported are false alarms.
                for quantity in (
                    _Quantity("errors reported", "ErrorDetection", self._detected),
                    self._stored("errors corrected, of those reported", "ErrorCorrection"),
                    self._stored("errors corrected, of all", "ErrorCorrection(all)"),
                    _Quantity("false answer given", ACCURACY, _false_answer_given),
                ):
                    if of_rows:
                        yield replace(quantity, among=name), of_rows
        yield _Quantity("accuracy", self.named or ACCURACY, self._accuracy, True), rows
        if not self.named and any(len(_gold_or_empty(row).parts) > 1 for _, row in rows):
            yield _Quantity("share of parts", ACCURACY, _share_of_parts, True), rows

    def _stored(self, name: str, measure: str) -> _Quantity:
        return _Quantity(name, measure, partial(self._stored_score, measure=measure))

    def curve(self, suite: str, quantity: _Quantity, rows: Sequence[_Pair]) -> Curve:
        by_dose: dict[float, list[tuple[Row, Score]]] = {}
        for result, row in rows:
            score = replace(quantity.reading(result, row), measure=quantity.measure)
            by_dose.setdefault(_dose_of(row), []).append((row, score))
        points = []
        for dose in sorted(by_dose):
            # Failed rows are stored without metadata; their ids identify them.
            lost = self.lost.get((suite, f"{dose:g}"), {}) if quantity.among == "all" else {}
            point = self._point(dose, by_dose[dose], lost)
            if quantity.controlled and self.controls:
                point = self._with_control(point, by_dose[dose], quantity)
            points.append(point)
        change: tuple[float | None, ...] = (None, None, None)
        if len(by_dose) > 1:
            first, last = (
                {_base_question(row): (score,) for row, score in by_dose[end]}
                for end in (min(by_dose), max(by_dose))
            )
            change = self._difference(first, last)[:3]
        return Curve(
            suite,
            quantity.name,
            quantity.measure,
            _DOSES.get(suite, "dose"),
            quantity.among,
            tuple(points),
            *change,
        )

    def _point(
        self, dose: float, pairs: Sequence[tuple[Row, Score]], lost: Mapping[str, int]
    ) -> CurvePoint:
        bases = [_base_question(row) for row, _ in pairs]
        summary = aggregate((score for _, score in pairs), self.seed, clusters=bases)
        scored = {_base_question(row) for row, score in pairs if score.value is not None}
        without = Counter({s: n for s, n in summary.states.items() if s != "scored"})
        return CurvePoint(
            dose,
            summary.n,
            len(scored),
            dict(without + Counter(lost)),
            summary.mean,
            summary.low,
            summary.high,
            sum(read_mark(row, "abstained") is True for row, _ in pairs) / len(pairs),
        )

    def _with_control(
        self, point: CurvePoint, pairs: Sequence[tuple[Row, Score]], quantity: _Quantity
    ) -> CurvePoint:
        """Add the values of the same questions without passages."""
        paired = {
            row.id: (row, score) for row, score in pairs if _control_key(row) in self.controls
        }
        without = {
            row.id: (
                replace(
                    quantity.reading(*self.controls[_control_key(row)]), measure=quantity.measure
                ),
            )
            for row, _ in paired.values()
        }
        above, low, high, mean = self._difference(
            without,
            {key: (score,) for key, (_, score) in paired.items()},
            {row.id: _base_question(row) for row, _ in pairs},
        )
        return replace(
            point, closed_book=mean, above=above, above_low=low, above_high=high, paired=len(paired)
        )

    def _difference(
        self,
        a: Mapping[str, tuple[Score, ...]],
        b: Mapping[str, tuple[Score, ...]],
        clusters: Mapping[str, str] | None = None,
    ) -> tuple[float | None, float | None, float | None, float | None]:
        """Return the difference b - a on shared rows with its interval, and the mean of a."""
        if not a.keys() & b.keys():
            return None, None, None, None
        comparison = compare_rows(a, b, seed=self.seed, clusters=clusters).measures[0]
        return comparison.difference, comparison.low, comparison.high, comparison.mean_a

    def _is_known_without(self, row: Row) -> bool:
        """True if the model answers the question right without passages."""
        control = self.controls.get(_control_key(row))
        return control is not None and self._accuracy(*control).value == 1.0

    def _accuracy(self, result: RowResult, row: Row) -> Score:
        if self.named:
            return next(score for score in result.scores if score.measure == self.named)
        share = _share_of_parts(result, row)
        return replace(share, value=None if share.value is None else float(share.value == 1.0))

    def _detected(self, result: RowResult, row: Row) -> Score:
        if row.metadata.get("falsified") is True:
            return self._stored_score(result, row, "ErrorDetection")
        marked = replace(row, metadata={**row.metadata, "falsified": True})
        return self._stored_score(replace(result, scores=()), marked, "ErrorDetection")

    def _stored_score(self, result: RowResult, row: Row, measure: str) -> Score:
        """Return the score of the run; compute it if missing."""
        for score in result.scores:
            if score.measure == measure:
                return score
        [[score]] = score_rows((row,), (parse_measure(measure),), self.setup)
        return score


def _gold_or_empty(row: Row) -> GoldAnswer:
    return gold_answer(row) or GoldAnswer(((),))


def _share_of_parts(result: RowResult, row: Row) -> Score:
    """Score the share of the gold answer's parts in an answer; 0 if it abstained."""
    if row.response is None:
        return Score(ACCURACY, "not_applicable", reason="the row has no answer")
    if read_mark(row, "abstained"):
        return Score(ACCURACY, "scored", 0.0)
    held_parts = _gold_or_empty(row).held(row.response_text)
    return Score(ACCURACY, "scored", sum(held_parts) / len(held_parts))


def _false_answer_given(result: RowResult, row: Row) -> Score:
    """Score 1 if the answer is the false one: it contains that and not the true one."""
    fake = row.metadata.get("fake")
    if not isinstance(fake, tuple) or not fake or row.response is None:
        return Score(ACCURACY, "not_applicable", reason="no false answer is known")
    false_parts = GoldAnswer((fake,), _gold_or_empty(row).language).held(row.response_text)
    return Score(
        ACCURACY,
        "scored",
        float(all(false_parts) and not all(_gold_or_empty(row).held(row.response_text))),
    )


def _control_key(row: Row) -> tuple[str, str]:
    return row.user_input, row.persona_name


def _base_question(row: Row) -> str:
    return str(row.metadata.get("base", row.id))


def _dose_of(row: Row) -> float:
    dose = row.metadata.get("dose")
    if isinstance(dose, bool) or not isinstance(dose, int | float):
        raise TestsetError(
            f"row {row.id!r} has the dose {dose!r}", hint="a suite's rows need a number in `dose`"
        )
    return float(dose)
