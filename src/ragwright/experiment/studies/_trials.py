"""Trials of a study: how they are chosen, their results, the leaderboard and the Pareto front."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from statistics import fmean
from typing import Any, Literal, TypeAlias

from ...answer import prompt_parts
from ...core import ConfigError, PromptError, Score, StudyError, canonical_json, make_plain
from ...measure import Measure, MeasureScale, Selection, Summary, choose_best, find_scale
from ...project import Overrides, Project, Settings, load_settings, project_sections
from ..evaluations import AnswerRecord, Evaluation, RowResult
from ._study import FACTS, Axis, Study, load_study

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
        reason: Why the trial has no result.
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


def _facts_of(answer: AnswerRecord) -> dict[str, float | None]:
    usage = answer.usage
    return {
        "context_tokens": float(answer.context_tokens),
        "cost": usage.cost if usage.calls else 0.0,
        "seconds": usage.seconds,
    }


def usage_means(results: Sequence[RowResult]) -> dict[str, float]:
    """Return the mean usage per answer; a cost that is unknown for one row is unknown."""
    facts = [_facts_of(result.made) for result in results if result.made is not None]
    means = {}
    for name in sorted(FACTS):
        values = [fact[name] for fact in facts]
        known = [value for value in values if value is not None]
        if known and len(known) == len(values):
            means[name] = round(fmean(known), 9)
    return means


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
    first = objectives[0].name
    finished = [
        (trial, _merits(trial, objectives))
        for trial in trials
        if trial.state == "done" and trial.value(first) is not None
    ]
    finished.sort(key=lambda pair: ([-merit for merit in pair[1]], pair[0].number))
    return tuple(trial for trial, _ in finished)


def _merits(trial: TrialResult, objectives: Sequence[Objective]) -> list[float]:
    """Return a trial's values, more is better; one that is missing is worse than any."""
    values = [(trial.ranked_value(each.name), each.higher_is_better) for each in objectives]
    return [-math.inf if v is None else v if higher else -v for v, higher in values]


def pareto_front(
    trials: Sequence[TrialResult], objectives: Sequence[Objective]
) -> tuple[TrialResult, ...]:
    """The Pareto front: trials that no other trial dominates.

    Trials without a value for an objective are left out; rows without a score count as the worst
    value.
    """
    placed = [(trial, _merits(trial, objectives)) for trial in trials if trial.state == "done"]
    known = [(trial, merits) for trial, merits in placed if -math.inf not in merits]
    return tuple(
        trial
        for trial, merits in known
        if not any(
            other != merits and all(o >= v for o, v in zip(other, merits, strict=True))
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


def objective_scores(results: Sequence[RowResult], name: str) -> dict[str, Score]:
    """Row id -> score of an objective; a fact of making an answer counts as a score."""
    scores = {}
    for result in results:
        if name in FACTS:
            value = None if result.made is None else _facts_of(result.made)[name]
            score: Score | None = (
                Score(name, "not_applicable", reason="the project answered no row")
                if value is None
                else Score(name, "scored", value)
            )
        else:
            score = next((s for s in result.scores if s.measure == name), None)
        if score is None:
            raise StudyError(f"the rows have no score for {name}", where=result.row_id)
        scores[result.row_id] = score
    return scores


def common_reason(scores: Iterable[Score]) -> str:
    """Why rows have no score, for most of them; empty if any row has one."""
    states = [(score.state, score.reason) for score in scores]
    if any(state == "scored" for state, _ in states):
        return ""
    reasons = Counter(reason for _, reason in states if reason)
    return reasons.most_common(1)[0][0] if reasons else ""


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


_TRIES = 100
"""Consecutive repeated points after which a search ends."""


@dataclass(frozen=True, slots=True)
class Trial:
    """One choice of values for the swept keys of a study; number 0 is the project with its current
    settings.
    """

    number: int
    values: Mapping[str, Any]

    @property
    def id(self) -> str:
        """``T007``: sorts by number up to a thousand trials, and is a row's name in the run."""
        return f"T{self.number:03d}"


def grid_points(study: Study) -> Iterator[Mapping[str, Any]]:
    """Every combination of values, the last key changing first; or the listed points."""
    if study.points:
        yield from study.points
        return
    for values in itertools.product(*(axis.values for axis in study.axes)):
        yield {axis.key: value for axis, value in zip(study.axes, values, strict=True)}


def random_points(study: Study) -> list[Mapping[str, Any]]:
    """Draw ``study.trials`` different points with the study's seed; fewer if there are fewer.

    Values of a list are drawn uniformly, those of a range uniformly or by their logarithm.
    """
    drawn = replace(study, options=replace(study.options, search="random"))
    return [trial.values for trial in Sampler(drawn, ()).ask()]


class Sampler:
    """Chooses trials in fixed batches; equal results give equal suggestions.

    A grid and random points are one batch; TPE suggests ``study.batch`` points at a time, and with
    several objectives searches for the Pareto front. Optuna draws points; the stored result of a
    repeated point is reported again. An interrupted study is resumed by replaying it from the
    start with stored results, so the state of a search is never saved.
    """

    def __init__(self, study: Study, objectives: Sequence[Objective]) -> None:
        self._study = study
        self._trials: dict[str, Trial] = {}
        self._suggestions: dict[int, Any] = {}
        self._results: dict[int, Sequence[float] | None] = {}
        if study.options.search == "grid":
            return
        import optuna

        seed = study.options.seed
        self._failed = optuna.trial.TrialState.FAIL
        self._space = {axis.key: _axis_distribution(optuna, axis) for axis in study.axes}
        with _quiet_optuna(optuna):
            self._search = optuna.create_study(
                sampler=optuna.samplers.TPESampler(seed=seed, constant_liar=True)
                if study.options.search == "tpe"
                else optuna.samplers.RandomSampler(seed),
                directions=["maximize" if o.higher_is_better else "minimize" for o in objectives]
                or ["minimize"],
            )

    def ask(self) -> Sequence[Trial]:
        """The next batch, empty once the search is over, or if nearby points were all run."""
        options, size = self._study.options, self._study.size
        batch: list[Trial] = []
        if options.search == "grid":
            points = () if self._trials else grid_points(self._study)
            batch = [Trial(number, point) for number, point in enumerate(points, 1)]
            self._trials.update((trial.id, trial) for trial in batch)
            return batch
        most = min(options.trials, options.trials if size is None else size)
        wanted = options.batch if options.search == "tpe" else most
        repeated = 0
        while len(batch) < wanted and len(self._trials) < most and repeated < _TRIES:
            suggestion = self._search.ask(self._space)
            point = {
                axis.key: _axis_value(axis, suggestion.params[axis.key])
                for axis in self._study.axes
            }
            trial = Trial(len(self._trials) + 1, point)
            known = self._trials.setdefault(canonical_json(point), trial)
            if known is trial:
                repeated = 0
                self._suggestions[trial.number] = suggestion
                batch.append(trial)
            else:
                repeated += 1
                self._report(suggestion, self._results.get(known.number))
        return batch

    def tell(self, trial: Trial, values: Sequence[float] | None) -> None:
        """Report a trial's values, in objective order; None if it has none.

        Trials are reported in their order, not in the order in which they ended.
        """
        if trial.number in self._suggestions:
            self._results[trial.number] = values
            self._report(self._suggestions[trial.number], values)

    def _report(self, suggestion: Any, values: Sequence[float] | None) -> None:
        if values is None:
            self._search.tell(suggestion, state=self._failed)
        else:
            self._search.tell(suggestion, list(values))


@contextmanager
def _quiet_optuna(optuna: Any) -> Iterator[None]:
    """Silence Optuna's log; its level is restored afterwards."""
    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(max(before, optuna.logging.WARNING))
    try:
        yield
    finally:
        optuna.logging.set_verbosity(before)


def _axis_distribution(optuna: Any, axis: Axis) -> Any:
    among = axis.range
    if among is None:
        return optuna.distributions.CategoricalDistribution(list(range(len(axis.values))))
    if among.whole:
        step = 1 if among.step is None else int(among.step)
        return optuna.distributions.IntDistribution(
            int(among.low), int(among.high), log=among.log, step=step
        )
    return optuna.distributions.FloatDistribution(
        among.low, among.high, log=among.log, step=among.step
    )


def _axis_value(axis: Axis, drawn: Any) -> Any:
    if axis.range is None:
        return axis.values[drawn]
    return drawn if axis.range.whole else round(drawn, 6)


_TRIED = 200
"""Most combinations tried for a value that is invalid with the current settings."""


def read_study(project: Project, file: Path) -> Study:
    """The study in a file, with every value checked against the project file.

    Raises:
        ConfigError: With the file and line of the key or value that is wrong.
        StudyError: The study sweeps no setting, its grid is too large, or it names no testset.
    """
    study = load_study(file, project_sections(project.settings))
    if not study.options.testset:
        raise StudyError(
            "the study has no testset",
            where=str(file),
            hint="write  study: {testset: testsets/mine.jsonl}",
        )
    for axis in study.axes:
        for value in axis.values:
            _check_value(project, study, axis, value)
    _check_personas(project, study)
    return study


def _check_personas(project: Project, study: Study) -> None:
    names = [(name, "study.personas") for name in study.options.personas]
    for axis in study.axes:
        if axis.path == ("answer", "persona"):
            names += [(str(value), axis.where) for value in axis.values if value]
    for name, where in names:
        if name not in project.personas:
            raise StudyError(
                f"unknown persona {name!r}",
                where=where,
                hint=f"known: {', '.join(sorted(project.personas))}",
            )


def _check_value(project: Project, study: Study, axis: Axis, value: Any) -> None:
    """Build settings with a value; a value that is invalid alone may be valid with others."""
    try:
        settings = _trial_settings(project, study, {**study.fixed, axis.path: value})
    except ConfigError as error:
        among = replace(study, axes=tuple(a for a in study.axes if a != axis and a.values))
        for point in islice(grid_points(among), _TRIED):
            with suppress(ConfigError):
                _trial_settings(project, study, {**among.settings_of(point), axis.path: value})
                return
        raise ConfigError(error.what, where=axis.where, hint=error.hint) from error
    if axis.path[0] == "prompt":
        try:
            prompt_parts(settings.prompt)
        except PromptError as error:
            raise ConfigError(error.what, where=axis.where, hint=error.hint) from error


def variant_of(project: Project, study: Study, trial: Trial) -> Project:
    """The project under a trial's settings; trial 0 is the project with its current settings.

    It is judged like the trials: with the study's judge settings, and by the first of several
    judges. Ranked trials have one judge.

    Raises:
        ConfigError: The values are incompatible.
    """
    judge = {path: value for path, value in study.fixed.items() if path[0] == "judge"}
    judge |= {axis.path: axis.values[0] for axis in study.judging if axis.values}
    values = study.settings_of(trial.values) if trial.number else judge
    return project.variant(_trial_settings(project, study, values))


def _trial_settings(
    project: Project, study: Study, values: Mapping[tuple[str, ...], Any]
) -> Settings:
    return load_settings(
        project.folder.file, project.session.overrides, Overrides({**values}, study.places)
    )
