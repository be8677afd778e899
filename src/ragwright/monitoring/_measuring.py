"""Scores a share of the served answers within a daily budget; what is not done waits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile, zip_longest
from typing import TYPE_CHECKING

from ..core import BudgetStopped, ConfigError, MeasureError, Row, Score, changed_options, value_hash
from ..drafting import JudgedBy, output_row, project_outputs
from ..experiment import check_models, chosen_measures, judging
from ..ledger import FileLock
from ..measure import (
    Measure,
    MeasureSetup,
    check_setup,
    model_fields,
    prompts_fingerprint,
    score_row,
    shipped_rubrics,
)
from ._options import Measuring, measure_options

if TYPE_CHECKING:
    from ..core import MetaValue
    from ..drafting import Outputs, WaitingAnswer
    from ..flow import Flow
    from ..project import Project

_AT_ONCE = 16
"""Answers that are scored before their scores are stored together."""


@dataclass(frozen=True, slots=True)
class Measured:
    """What one pass did.

    Attributes:
        drawn: Answers newly drawn.
        scored: Scores with a value.
        unscored: Scores without one that are not tried again: abstained, not applicable, invalid.
        failed: Attempts that ended in an error.
        waiting: Answers that still wait.
        cost: Money spent by this pass; ``spent_today`` by all of today (UTC).
        spent_today: See ``cost``.
        stopped: Why the pass ended early: the budget, a judge out of reach; empty if it did not.
        reason: The last error.
        busy: Another process measures at the moment; nothing was done.
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


def measure_served(project: Project, how: Measuring | None = None) -> Measured:
    """Draw the configured share of the answers served since the last time, and score it.

    Scores are stored as they are made. What the budget of the day does not cover, and what failed,
    waits for a later pass. One process of a project measures at a time.

    Raises:
        ConfigError: ``serve.measure.share`` is 0, or a budget is set and a judge has no price.
        MeasureError: A measure cannot be computed from served answers, or lacks its model.
    """
    chosen = how or Measuring()
    options = measure_options(project.settings)
    if not options.share:
        raise ConfigError(
            "serve.measure.share is 0: no served answer is measured",
            where=str(project.folder.file),
            hint="write for example:  serve: {measure: {share: 0.1}}",
        )
    measures, setup = served_measures(project)
    lock = FileLock(project.folder.data / "serve" / "measuring.lock", "measuring")
    if not lock.acquire():
        return Measured(busy=True)
    try:
        outputs = project_outputs(project)
        outputs.require_writable()
        if chosen.retry_errors:
            outputs.scores.retry_errors()
        names = [str(measure) for measure in measures]
        drawn = outputs.scores.draw(options.share, names, options.window)
        found = _Pass(project, measures, setup).run(chosen.most)
        return replace(found, drawn=drawn)
    finally:
        lock.release()


def served_measures(project: Project) -> tuple[tuple[Measure, ...], MeasureSetup]:
    """The measures of served answers and their setup, checked.

    Raises:
        MeasureError: A measure needs gold, which no served answer has, or lacks its model.
        ConfigError: A daily budget is set, and a model that would be asked has no price.
    """
    options = measure_options(project.settings)
    setup = judging(project, ",".join(options.measures))
    names = ",".join(options.measures)
    measures = chosen_measures(names, (), setup).measures
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
    if options.daily_budget is not None:
        for name in sorted({name for one in measures for name in _models(one, setup)}):
            known = project.models.settings_of(name)
            if not project.models.free(name) and None in (known.price_in, known.price_out):
                raise ConfigError(
                    f"serve.measure.daily_budget is set, and the model {name} has no price",
                    where=str(project.folder.file),
                    hint="set price_in and price_out below `models`",
                )
    return measures, setup


class _Pass:
    """One pass over the answers that wait."""

    def __init__(self, project: Project, measures: Sequence[Measure], setup: MeasureSetup) -> None:
        self._project = project
        self._measures = {str(measure): measure for measure in measures}
        self._setup = setup
        self._outputs: Outputs = project_outputs(project)
        self._used = {str(measure): _judged_by(measure, setup) for measure in measures}
        self._done = Measured()
        self._spent = project.runner.spent

    def run(self, most: int | None) -> Measured:
        """Score until nothing waits, the budget of the day is spent, or every attempt fails."""
        scores, left = self._outputs.scores, most
        while left is None or left > 0:
            if not self._afford():
                break
            waiting = scores.waiting(_AT_ONCE if left is None else min(_AT_ONCE, left))
            if not waiting:
                break
            left = None if left is None else left - len(waiting)
            with self._project.work.working("measuring", brief=True):
                self._score(waiting)
            if self._done.stopped:
                break
        cost = self._done.cost
        today, open_ = scores.today(), scores.count_waiting()
        return replace(self._done, waiting=open_, cost=cost, spent_today=today.cost)

    def _afford(self) -> bool:
        """Set what may still be spent today; False where nothing may."""
        budget = measure_options(self._project.settings).daily_budget
        if budget is None:
            return True
        left = budget - self._outputs.scores.today().cost
        if left <= 0:
            self._stop_for_budget(budget)
            return False
        session = self._project.session.max_cost
        ceiling = self._project.runner.spent + left
        self._project.runner.set_ceiling(ceiling if session is None else min(ceiling, session))
        return True

    def _stop_for_budget(self, budget: float) -> None:
        self._outputs.scores.reached(budget)
        stopped = f"the daily budget of {budget:g} (serve.measure.daily_budget) is used up"
        self._done = replace(self._done, stopped=stopped)

    def _score(self, waiting: Sequence[WaitingAnswer]) -> None:
        """Score some answers, each under its own scope, and store what came of them."""
        found: dict[str, Sequence[Score]] = {}
        stop: Exception | None = None
        for scope in dict.fromkeys(answer.scope for answer in waiting):
            some = [answer for answer in waiting if answer.scope == scope]
            flows = map(self._flow, takewhile(self._may_begin, some))
            # one at a time where it gives way, so that an erasure waits for one answer at most
            limit = 1 if self._project.session.background else None
            ended = self._project.runner.outcomes(flows, limit=limit, scope=scope)
            # after a stop, flows that were not begun have no outcome
            for answer, outcome in zip_longest(some, ended):
                if outcome is None or outcome.state == "skipped":
                    known = None if outcome is None else outcome.error
                    stop = stop or known or BudgetStopped("the work was stopped")
                else:
                    found[answer.output] = _settled(answer, outcome.value, outcome.error)
            if stop is not None:
                break
        self._keep(found)
        scores = [score for some in found.values() for score in some]
        budget = measure_options(self._project.settings).daily_budget
        if isinstance(stop, BudgetStopped) and budget is not None:
            self._stop_for_budget(budget)
        elif stop is not None:
            self._done = replace(self._done, stopped=str(stop))
        elif scores and all(score.state == "errored" for score in scores):
            reason = f"every attempt failed: {scores[-1].reason}"
            self._done = replace(self._done, stopped=reason)

    def _may_begin(self, _: WaitingAnswer) -> bool:
        """False while an erasure waits: it goes first, and the rest in a later pass."""
        return not self._project.work.awaited

    def _flow(self, answer: WaitingAnswer) -> Flow[tuple[Score, ...]]:
        row = output_row(self._outputs, self._outputs.get(answer.output))
        row = replace(row, metadata=_without_feedback(row))
        measures = [self._measures[name] for name in answer.measures if name in self._measures]
        return score_row(row, measures, self._setup)

    def _keep(self, found: Mapping[str, Sequence[Score]]) -> None:
        spent = self._project.runner.spent
        cost, self._spent = spent - self._spent, spent
        self._outputs.scores.store(found, self._used, cost)
        states = [score.state for some in found.values() for score in some]
        failed = [s for some in found.values() for s in some if s.state == "errored"]
        done = self._done
        self._done = replace(
            done,
            scored=done.scored + states.count("scored"),
            unscored=done.unscored + len(states) - states.count("scored") - len(failed),
            failed=done.failed + len(failed),
            cost=done.cost + cost,
            reason=failed[-1].reason if failed else done.reason,
        )


def _settled(
    answer: WaitingAnswer, scores: Sequence[Score] | None, error: Exception | None
) -> Sequence[Score]:
    """One score for each measure that the answer waits for."""
    found = {score.measure: score for score in scores or ()}
    said = f"{type(error).__name__}: {error}" if error else ""
    return [
        found.get(name)
        or (
            Score(name, "errored", reason=said)
            if error
            else Score(name, "skipped", reason="the measure is not configured any more")
        )
        for name in answer.measures
    ]


def _without_feedback(row: Row) -> dict[str, MetaValue]:
    """What people said of an answer is not shown to a judge."""
    return {key: value for key, value in row.metadata.items() if "feedback" not in key}


def _models(measure: Measure, setup: MeasureSetup) -> list[str]:
    """The models that a measure asks."""
    fields = model_fields(measure.definition)
    return [name for field in fields if (name := str(getattr(setup, field)))]


def _judged_by(measure: Measure, setup: MeasureSetup) -> JudgedBy:
    """The models of a measure, and the hash of everything else that determines its judgments."""
    models = _models(measure, setup)
    if not models:
        return JudgedBy()
    rubrics = {**shipped_rubrics(), **setup.rubrics}
    rules = {name: rubric.fingerprint for name, rubric in sorted(rubrics.items())}
    plain = changed_options(replace(setup, rubrics={}, window=None))
    for name in ("model", "embedder", "completer", "token_model"):
        plain.pop(name, None)
    return JudgedBy(", ".join(models), value_hash([plain, prompts_fingerprint(), rules])[:12])
