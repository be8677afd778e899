"""Scores a share of the served answers within a daily budget, and the settings of that."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import date
from itertools import takewhile, zip_longest

from ..core import (
    BudgetStopped,
    ConfigError,
    MeasureError,
    Score,
    ScoreState,
    list_changed_options,
    option,
    value_hash,
)
from ..drafting import JudgedBy, WaitingAnswer, output_row, project_outputs
from ..experiment import check_models, choose_measures, judging
from ..flow import Flow
from ..ledger import FileLock
from ..measure import (
    Measure,
    MeasureSetup,
    check_setup,
    load_shipped_rubrics,
    model_fields,
    parse_measures,
    prompts_fingerprint,
    score_row,
)
from ..project import Project, Settings

_AT_ONCE = 16
"""Number of answers whose scores are stored together."""


@dataclass(slots=True)
class MeasureReport:
    """The result of one pass.

    Attributes:
        drawn: Answers newly drawn.
        scored: Scores with a value.
        unscored: Scores without a value that are final: abstained, not applicable, invalid.
        failed: Attempts that ended in an error.
        waiting: Answers that still wait.
        cost: Money spent by this pass; ``spent_today`` by all of today (UTC).
        spent_today: See ``cost``.
        stopped: Reason for an early end: the budget, an unreachable judge; empty if there is none.
        reason: The last error.
        busy: True if another process is measuring; then nothing was done.
    """

    drawn: int = 0
    scored: int = 0
    unscored: int = 0
    failed: int = 0
    waiting: int = 0
    cost: float = 0.0
    spent_today: float = 0.0
    stopped: str = ""
    reason: str = ""
    busy: bool = False


def measure_served(
    project: Project, retry_errors: bool = False, most: int | None = None
) -> MeasureReport:
    """Draw the configured share of the answers served since the last time, and score it.

    Scores are stored as they are made. Answers beyond the budget of the day, and failed ones,
    wait for a later pass. One process of a project measures at a time.

    Args:
        project: The project.
        retry_errors: Also retry answers whose scoring ended in an error.
        most: Most answers of this pass; None for all that wait.

    Raises:
        ConfigError: ``serve.measure.share`` is 0, or a budget is set and a judge has no price.
        MeasureError: A measure cannot be computed from served answers, or lacks its model.
    """
    settings = measure_options(project.settings)
    if not settings.share:
        raise ConfigError(
            "serve.measure.share is 0: no served answer is measured",
            where=str(project.folder.file),
            hint="write for example:  serve: {measure: {share: 0.1}}",
        )
    measures, setup = read_served_measures(project)
    lock = FileLock(project.folder.data / "serve" / "measuring.lock", "measuring")
    if not lock.acquire():
        return MeasureReport(busy=True)
    with lock:
        outputs = project_outputs(project)
        outputs.require_writable()
        if retry_errors:
            outputs.scores.retry_errors()
        names = [str(measure) for measure in measures]
        drawn = outputs.scores.draw(settings.share, names, settings.window)
        return _MeasuringPass(project, measures, setup, MeasureReport(drawn)).run(most)


def read_served_measures(project: Project) -> tuple[tuple[Measure, ...], MeasureSetup]:
    """Return the measures of served answers and their setup, checked.

    Raises:
        MeasureError: A measure needs gold, which no served answer has, or lacks its model.
        ConfigError: A daily budget is set, and a model in use has no price.
    """
    settings = measure_options(project.settings)
    setup = judging(project, ",".join(settings.measures))
    measures = choose_measures(",".join(settings.measures), (), setup).measures
    for measure in measures:
        needed = {field for field in measure.definition.needs if field.startswith("reference")}
        other = measure.definition.instead
        if needed and (not other or any(field.startswith("reference") for field in other)):
            raise MeasureError(
                f"{measure} needs {' and '.join(sorted(needed))}, which served answers lack",
                where="serve.measure.measures",
                hint="use measures of answer and passages, such as Faithfulness or KPrecision",
            )
    check_setup(measures, setup)
    check_models(project.models, measures, setup)
    if settings.daily_budget is not None:
        for name in sorted({n for measure in measures for n in _models_of_measure(measure, setup)}):
            price = project.models.settings_of(name)
            if None in (price.price_in, price.price_out) and not project.models.free(name):
                raise ConfigError(
                    f"serve.measure.daily_budget is set, and the model {name} has no price",
                    where=str(project.folder.file),
                    hint="set price_in and price_out below `models`",
                )
    return measures, setup


class _MeasuringPass:
    def __init__(
        self,
        project: Project,
        measures: Sequence[Measure],
        setup: MeasureSetup,
        report: MeasureReport,
    ) -> None:
        self._project = project
        self._measures = {str(measure): measure for measure in measures}
        self._setup = setup
        self._judges = {str(measure): _judge_of_measure(measure, setup) for measure in measures}
        self._outputs = project_outputs(project)
        self._daily = measure_options(project.settings).daily_budget
        self._report = report

    def run(self, most: int | None) -> MeasureReport:
        """Score until nothing waits, the budget of the day is spent, or every attempt fails."""
        report, scores = self._report, self._outputs.scores
        left = sys.maxsize if most is None else most
        while left > 0 and not report.stopped and self._may_spend():
            waiting = scores.waiting(min(_AT_ONCE, left))
            if not waiting:
                break
            left -= len(waiting)
            with self._project.work.working("measuring", brief=True):
                self._score_answers(waiting)
        report.spent_today, report.waiting = scores.today().cost, scores.count_waiting()
        return report

    def _may_spend(self) -> bool:
        """Bound today's spending; False if nothing may be spent."""
        if self._daily is None:
            return True
        budget, session = self._project.budget, self._project.session.max_cost
        remaining = self._daily - self._outputs.scores.today().cost
        if remaining <= 0:
            self._stop_for_budget(self._daily)
            return False
        most = budget.spent + remaining
        budget.max_cost = most if session is None else min(most, session)
        return True

    def _stop_for_budget(self, budget: float) -> None:
        self._outputs.scores.reached(budget)
        self._report.stopped = (
            f"the daily budget of {budget:g} (serve.measure.daily_budget) is used up"
        )

    def _score_answers(self, waiting: Sequence[WaitingAnswer]) -> None:
        project, report = self._project, self._report
        scores_by_output: dict[str, Sequence[Score]] = {}
        stop: Exception | None = None
        spent = project.budget.spent
        for scope in dict.fromkeys(answer.scope for answer in waiting):
            of_scope = [answer for answer in waiting if answer.scope == scope]
            # an erasure that waits goes first, and the rest follows in a later pass
            flows = map(self._flow, takewhile(lambda _: not project.work.awaited, of_scope))
            # in the background one at a time, so that an erasure waits for one answer at most
            limit = 1 if project.session.background else None
            outcomes = project.runner.outcomes(flows, limit=limit, scope=scope)
            # after a stop, flows that have not begun have no outcome
            for answer, outcome in zip_longest(of_scope, outcomes):
                if outcome is None or outcome.state == "skipped":
                    error = None if outcome is None else outcome.error
                    stop = stop or error or BudgetStopped("the work was stopped")
                else:
                    scores = _scores_of_answer(answer, outcome.value, outcome.error)
                    scores_by_output[answer.output] = scores
            if stop is not None:
                break
        cost = project.budget.spent - spent
        self._outputs.scores.store(scores_by_output, self._judges, cost)
        all_scores = [score for scores in scores_by_output.values() for score in scores]
        failed = [score for score in all_scores if score.state == "errored"]
        scored = sum(score.state == "scored" for score in all_scores)
        report.scored += scored
        report.failed += len(failed)
        report.unscored += len(all_scores) - scored - len(failed)
        report.cost += cost
        report.reason = failed[-1].reason if failed else report.reason
        if isinstance(stop, BudgetStopped) and self._daily is not None:
            self._stop_for_budget(self._daily)
        elif stop is not None:
            report.stopped = str(stop)
        elif failed and len(failed) == len(all_scores):
            report.stopped = f"every attempt failed: {failed[-1].reason}"

    def _flow(self, answer: WaitingAnswer) -> Flow[tuple[Score, ...]]:
        row = output_row(self._outputs, self._outputs.get(answer.output))
        # a judge sees no feedback of people
        seen = {key: value for key, value in row.metadata.items() if "feedback" not in key}
        measures = [self._measures[name] for name in answer.measures if name in self._measures]
        return score_row(replace(row, metadata=seen), measures, self._setup)


def _scores_of_answer(
    answer: WaitingAnswer, scores: Sequence[Score] | None, error: Exception | None
) -> Sequence[Score]:
    """Return one score for each measure that the answer waits for."""
    by_measure = {score.measure: score for score in scores or ()}
    state: ScoreState = "skipped"
    reason = "the measure was removed from the settings"
    if error:
        state, reason = "errored", f"{type(error).__name__}: {error}"
    return [by_measure.get(name) or Score(name, state, reason=reason) for name in answer.measures]


def _models_of_measure(measure: Measure, setup: MeasureSetup) -> list[str]:
    fields = model_fields(measure.definition)
    return [name for field in fields if (name := str(getattr(setup, field)))]


def _judge_of_measure(measure: Measure, setup: MeasureSetup) -> JudgedBy:
    """Return the models of a measure, and the hash of everything else that determines its
    judgments.
    """
    models = _models_of_measure(measure, setup)
    if not models:
        return JudgedBy()
    rubrics = {**load_shipped_rubrics(), **setup.rubrics}
    rules = {name: rubric.fingerprint for name, rubric in sorted(rubrics.items())}
    settings = list_changed_options(replace(setup, rubrics={}, window=None))
    for name in ("model", "embedder", "completer", "token_model"):
        settings.pop(name, None)
    return JudgedBy(", ".join(models), value_hash([settings, prompts_fingerprint(), rules])[:12])


_OFFLINE = ("KPrecision(content+bigrams)",)
"""Measures of served answers where none are named."""


@dataclass(frozen=True, slots=True)
class ServedMeasureOptions:
    """How served answers are measured in the background."""

    share: float = option(
        0.0, "Share of the served answers that is measured, 0 (none) to 1.", ge=0, le=1
    )
    measures: tuple[str, ...] = option(
        _OFFLINE, "Measures that need no reference; judged ones ask `judge.model`."
    )
    daily_budget: float | None = option(
        None, "Most money that measuring may cost a day (UTC); judges then need prices.", gt=0
    )
    interval: float = option(60.0, "Seconds between two looks for answers to measure.", gt=0)
    window: int = option(
        28, "Days of the reference period, and of each period that is compared with it.", ge=1
    )
    reference: str = option(
        "",
        "First day of the reference period, such as 2026-11-03; the first measured day if empty.",
    )

    def __post_init__(self) -> None:
        """Refuse unknown measures and days."""
        if self.measures != _OFFLINE:
            parse_measures(self.measures)  # loads them all
        try:
            _ = self.reference and date.fromisoformat(self.reference)
        except ValueError as error:
            raise ConfigError(
                f"{self.reference!r} is not a day", hint="write reference: '2026-11-03'"
            ) from error


def measure_options(settings: Settings) -> ServedMeasureOptions:
    """Return the keys below ``serve.measure``."""
    options: ServedMeasureOptions = settings.section("serve").measure
    return options
