"""Results of a study's trials: the leaderboard, the Pareto front, the best of several."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from statistics import fmean
from typing import Any, Literal, TypeAlias

from ...core import Score, StudyError, make_plain
from ...measure import Measure, MeasureScale, Selection, Summary, choose_best, find_scale
from ...project import Settings
from ..evaluations import Evaluation, RowResult
from ._study import FACTS

TrialState: TypeAlias = Literal["done", "dropped", "errored", "invalid", "same", "skipped"]
"""``dropped`` by a rung of successive halving; ``invalid`` if the values are incompatible; ``same``
as the current settings, and so no candidate."""


@dataclass(frozen=True, slots=True)
class Objective:
    """An objective of trials: a measure, or a fact of making an answer.

    ``scale`` is that of a measure whose text does not define it, such as a custom rubric.
    """

    name: str
    higher_is_better: bool
    scale: MeasureScale | None = None


@dataclass(frozen=True, slots=True)
class TrialResult:
    """One trial: its values, the run with its rows, and their summaries.

    Attributes:
        number: Position in the study; 0 is the project with its current settings.
        values: Swept key -> value.
        state: Final state.
        run: Run of its rows, empty if there is none.
        rows: Number of rows that were measured.
        summaries: One per measure.
        facts: Mean per row of ``cost`` (money, as if every reply were paid), ``seconds`` (time
            of its replies) and ``context_tokens``; those that are known.
        reason: Why there is no result.
        current: Of trial 0, the value of each swept key in the project's settings.
    """

    number: int
    values: Mapping[str, Any]
    state: TrialState
    run: str = ""
    rows: int = 0
    summaries: tuple[Summary, ...] = ()
    facts: Mapping[str, float] = field(default_factory=dict)
    reason: str = ""
    current: Mapping[str, Any] = field(default_factory=dict)

    @property
    def shown(self) -> Mapping[str, Any]:
        """Swept key -> value, those of the current settings included."""
        return self.values or self.current

    @property
    def id(self) -> str:
        """``T007``."""
        return f"T{self.number:03d}"

    def value(self, objective: str) -> float | None:
        """Mean of a measure over its scored rows, or a fact, rounded to 6 digits; else None."""
        if objective in FACTS:
            value = self.facts.get(objective)
        else:
            value = next((s.mean for s in self.summaries if s.measure == objective), None)
        return None if value is None else round(value, 6)

    def ranked_value(self, objective: str) -> float | None:
        """The value for ordering: rows without a score count as the worst value.

        Rows without gold are not counted. Otherwise refusing hard questions would lead every
        leaderboard. If the scale has no worst end it is the plain value.
        """
        if objective not in FACTS:
            for summary in self.summaries:
                if summary.measure == objective and summary.worst is not None:
                    return round(summary.worst, 6)
        return self.value(objective)


def objectives_of(names: Sequence[str], measures: Sequence[Measure]) -> tuple[Objective, ...]:
    """Objectives by name; by default the first measure.

    Raises:
        StudyError: One is neither a measure of the study nor a fact.
    """
    known = {
        str(m): Objective(str(m), m.definition.higher_is_better, m.known_scale) for m in measures
    }
    known.update((fact, Objective(fact, False)) for fact in FACTS)
    objectives = []
    for name in names or [str(measures[0])]:
        if name not in known:
            raise StudyError(
                f"the objective {name!r} is not measured",
                where="study.objective",
                hint=f"one of: {', '.join(known)}",
            )
        objectives.append(known[name])
    return tuple(objectives)


def usage_means(results: Sequence[RowResult]) -> dict[str, float]:
    """Return the mean usage per answer; a cost that is unknown for one row is unknown."""
    answers = [result.made for result in results if result.made is not None]
    if not answers:
        return {}
    facts = {
        "seconds": fmean(answer.usage.seconds for answer in answers),
        "context_tokens": fmean(answer.context_tokens for answer in answers),
    }
    costs = [answer.usage.cost if answer.usage.calls else 0.0 for answer in answers]
    known = [cost for cost in costs if cost is not None]
    if len(known) == len(costs):
        facts["cost"] = fmean(known)
    return {name: round(value, 9) for name, value in sorted(facts.items())}


def trial_result(
    number: int, values: Mapping[str, Any], run: str, evaluation: Evaluation
) -> TrialResult:
    """The result of a trial from its evaluation."""
    results = evaluation.results
    return TrialResult(
        number, values, "done", run, len(results), evaluation.summaries, usage_means(results)
    )


def swept_settings(settings: Settings, paths: Iterable[tuple[str, ...]]) -> dict[str, Any]:
    """Swept key -> its value in a project's settings, None where it has none."""
    values = {key: settings.value(key) for key in map(".".join, paths)}
    return {
        key: make_plain(list(value) if isinstance(value, tuple) else value)
        for key, value in values.items()
    }


def leaderboard(
    trials: Sequence[TrialResult], objectives: Sequence[Objective]
) -> tuple[TrialResult, ...]:
    """Trials that are done and have a value, best first by the first objective.

    Rows without a score count as the worst value (:meth:`TrialResult.ranked_value`). Ties are
    broken by the further objectives, then by number.
    """

    def place(trial: TrialResult) -> tuple[float, ...]:
        values = []
        for objective in objectives:
            value = trial.ranked_value(objective.name)
            worst = float("inf")
            values.append(
                worst if value is None else -value if objective.higher_is_better else value
            )
        return (*values, trial.number)

    first = objectives[0].name
    finished = [
        trial for trial in trials if trial.state == "done" and trial.value(first) is not None
    ]
    return tuple(sorted(finished, key=place))


def pareto_front(
    trials: Sequence[TrialResult], objectives: Sequence[Objective]
) -> tuple[TrialResult, ...]:
    """The Pareto front: trials that no other trial dominates.

    Trials without a value for an objective are left out; rows without a score count as the worst
    value.
    """

    def scored(trial: TrialResult) -> tuple[float, ...] | None:
        values = []
        for objective in objectives:
            value = trial.ranked_value(objective.name)
            if value is None:
                return None
            values.append(value if objective.higher_is_better else -value)
        return tuple(values)

    placed = [(trial, scored(trial)) for trial in trials if trial.state == "done"]
    known = [(trial, values) for trial, values in placed if values is not None]
    return tuple(
        trial
        for trial, values in known
        if not any(
            other != values and all(o >= v for o, v in zip(other, values, strict=True))
            for _, other in known
        )
    )


def survivors(
    trials: Sequence[TrialResult], objectives: Sequence[Objective], keep: float
) -> tuple[TrialResult, ...]:
    """The trials that continue after a rung of successive halving, at least one.

    With several objectives whole fronts continue, the best first; the last of them is filled up in
    the order of the leaderboard (Jamieson and Talwalkar 2016; fronts as in NSGA-II, Deb 2002).
    """
    remaining = list(leaderboard(trials, objectives))
    count = max(1, math.ceil(keep * len(remaining)))
    chosen: list[TrialResult] = []
    while remaining and len(chosen) < count:
        front = {trial.number for trial in pareto_front(remaining, objectives)} or {
            remaining[0].number
        }
        chosen += [trial for trial in remaining if trial.number in front][: count - len(chosen)]
        remaining = [trial for trial in remaining if trial.number not in front]
    return tuple(chosen)


def trial_body(trial: TrialResult) -> dict[str, Any]:
    """Return a trial as JSON-able values, for the run store."""
    return asdict(trial)


def trial_of(body: Mapping[str, Any]) -> TrialResult:
    """Rebuild the trial from the values of :func:`trial_body`."""
    summaries = (
        Summary(
            **{
                **each,
                "scale": MeasureScale(**each["scale"]) if each.get("scale") is not None else None,
            }
        )
        for each in body["summaries"]
    )
    return TrialResult(**{**body, "summaries": tuple(summaries)})


def objective_scores(results: Sequence[RowResult], name: str) -> dict[str, Score]:
    """Row id -> score of an objective; a fact of making an answer counts as a score."""
    scores = {}
    for result in results:
        if name not in FACTS:
            score = next((s for s in result.scores if s.measure == name), None)
            if score is None:
                raise StudyError(f"the rows have no score for {name}", where=result.row_id)
            scores[result.row_id] = score
            continue
        value = None if result.made is None else _answer_fact(result, name)
        scores[result.row_id] = (
            Score(name, "not_applicable", reason="the project answered no row")
            if value is None
            else Score(name, "scored", value)
        )
    return scores


def common_reason(scores: Iterable[Score]) -> str:
    """Why rows have no score, for most of them; empty if any row has one."""
    states = [(score.state, score.reason) for score in scores]
    if any(state == "scored" for state, _ in states):
        return ""
    reasons = Counter(reason for _, reason in states if reason)
    return reasons.most_common(1)[0][0] if reasons else ""


def _answer_fact(result: RowResult, name: str) -> float | None:
    answer = result.made
    if answer is None:
        return None
    if name == "context_tokens":
        return float(answer.context_tokens)
    if name == "seconds":
        return answer.usage.seconds
    return answer.usage.cost if answer.usage.calls else 0.0


def selection_of(
    incumbent: Mapping[str, Score],
    candidates: Mapping[str, Mapping[str, Score]],
    objective: Objective,
    *,
    seed: int = 0,
    clusters: Mapping[str, Hashable] | None = None,
    eligible: Collection[str] | None = None,
    questions: str = "",
) -> Selection:
    """The best candidate on the rows that selected it; see :func:`ragwright.measure.choose_best`.

    Scores are those of :func:`objective_scores`; ``questions`` are those of :func:`questions_of`.
    """
    selection = choose_best(
        incumbent,
        candidates,
        higher_is_better=objective.higher_is_better,
        seed=seed,
        clusters=clusters,
        scale=scale_of(objective),
        eligible=eligible,
    )
    return replace(selection, questions=questions or selection.questions)


def scale_of(objective: Objective) -> MeasureScale | None:
    """Range and direction of an objective; None for cost, seconds and tokens."""
    if objective.name in FACTS:
        return None
    return objective.scale or find_scale(objective.name)
