"""Trials of a study: how they are chosen, their results, and the leaderboard."""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, islice, product
from pathlib import Path
from statistics import fmean
from typing import Any, Literal, TypeAlias

from ...answer import prompt_parts
from ...core import (
    ConfigError,
    PromptError,
    RagwrightError,
    Score,
    StudyError,
    canonical_json,
)
from ...measure import Measure, MeasureScale, Selection, Summary, choose_best, find_scale
from ...project import Overrides, Project, Settings, load_settings, project_sections
from ..evaluations import AnswerRecord, Evaluation, RowResult
from ._study import FACTS, Axis, Study, load_study

TrialState: TypeAlias = Literal["done", "errored", "invalid", "same", "skipped"]
"""``invalid`` if the values are incompatible; ``same`` as the current settings: no candidate."""


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
        """``T007``: sorts by number up to a thousand trials, and is a row's name in the run."""
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


def objective_of(name: str, measures: Sequence[Measure]) -> Objective:
    """The objective with a name; by default the first measure.

    Raises:
        StudyError: It is neither a measure of the study nor a fact.
    """
    known = {
        str(m): Objective(str(m), m.definition.higher_is_better, m.known_scale) for m in measures
    }
    known.update((fact, Objective(fact, False)) for fact in FACTS)
    if name and name not in known:
        raise StudyError(
            f"the objective {name!r} is not measured",
            where="study.objective",
            hint=f"one of: {', '.join(known)}",
        )
    return known[name or str(measures[0])]


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


def leaderboard(trials: Sequence[TrialResult], objective: Objective) -> tuple[TrialResult, ...]:
    """Trials that are done and have a value, best first; ties are broken by number.

    Rows without a score count as the worst value (:meth:`TrialResult.ranked_value`).
    """
    sign = -1 if objective.higher_is_better else 1
    placed = [
        (sign * value, trial.number, trial)
        for trial in trials
        if trial.state == "done"
        and trial.value(objective.name) is not None
        and (value := trial.ranked_value(objective.name)) is not None
    ]
    return tuple(trial for _, _, trial in sorted(placed, key=lambda place: place[:2]))


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
    )
    return replace(selection, questions=questions or selection.questions)


def scale_of(objective: Objective) -> MeasureScale | None:
    """Range and direction of an objective; None for cost, seconds and tokens."""
    if objective.name in FACTS:
        return None
    return objective.scale or find_scale(objective.name)


_TRIES = 100
"""Consecutive repeated points after which a search ends."""

Point: TypeAlias = Mapping[str, Any]
"""Swept key -> value; empty for the current settings."""


def grid_points(study: Study) -> Iterator[Mapping[str, Any]]:
    """Every combination of values, the last key changing first; or the listed points."""
    if study.points:
        yield from study.points
        return
    for values in product(*(axis.values for axis in study.axes)):
        yield {axis.key: value for axis, value in zip(study.axes, values, strict=True)}


def search_points(
    study: Study, objective: Objective | None = None
) -> Generator[Point, float | None, None]:
    """Yield different points to try; each is answered by the value of its trial, None without one.

    Values of a list are drawn uniformly, those of a range uniformly or by their logarithm; TPE
    draws where earlier values were good. Equal values give equal points, so an interrupted study is
    resumed by repeating it from the start with stored results. It ends where every point, or a
    hundred in a row, were tried before.
    """
    options, size = study.options, study.size
    if options.search == "grid":
        for point in grid_points(study):  # its values change nothing
            yield point
        return
    from optuna.trial import TrialState

    search, space = _open_search(study, objective), _search_space(study)
    most = options.trials if size is None else min(options.trials, size)
    values: dict[str, float | None] = {}
    repeated = 0
    while len(values) < most and repeated < _TRIES:
        suggestion = search.ask(space)
        point = {axis.key: _axis_value(axis, suggestion.params[axis.key]) for axis in study.axes}
        text = canonical_json(point)
        repeated = repeated + 1 if text in values else 0
        if not repeated:
            values[text] = yield point
        search.tell(suggestion, values[text], TrialState.FAIL if values[text] is None else None)


def random_points(study: Study) -> list[Point]:
    """Draw ``study.trials`` different points with the study's seed; fewer if there are fewer."""
    return list(search_points(replace(study, options=replace(study.options, search="random"))))


def _open_search(study: Study, objective: Objective | None) -> Any:
    import optuna

    samplers, options = optuna.samplers, study.options
    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(max(before, optuna.logging.WARNING))
    search = optuna.create_study(
        sampler=samplers.TPESampler(seed=options.seed)
        if options.search == "tpe"
        else samplers.RandomSampler(options.seed),
        direction="maximize" if objective and objective.higher_is_better else "minimize",
    )
    optuna.logging.set_verbosity(before)
    return search


def _search_space(study: Study) -> dict[str, Any]:
    from optuna.distributions import (
        CategoricalDistribution,
        FloatDistribution,
        IntDistribution,
    )

    space: dict[str, Any] = {}
    for axis in study.axes:
        if axis.range is None:
            space[axis.key] = CategoricalDistribution(list(range(len(axis.values))))
        elif axis.range.whole:
            low, high = int(axis.range.low), int(axis.range.high)
            space[axis.key] = IntDistribution(low, high, log=axis.range.log)
        else:
            space[axis.key] = FloatDistribution(axis.range.low, axis.range.high, log=axis.range.log)
    return space


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
    for name in study.options.personas:
        project.persona(name)
    for axis in study.axes:
        for value in axis.values:
            _check_value(project, study, axis, value)
    return study


def _check_value(project: Project, study: Study, axis: Axis, value: Any) -> None:
    """Build settings with a value; a value that is invalid alone may be valid with others."""
    others = replace(study, axes=tuple(a for a in study.axes if a != axis and a.values))
    combinations = map(others.settings_of, islice(grid_points(others), _TRIED))
    fault: RagwrightError | None = None
    for values in chain([study.fixed], combinations):
        try:
            settings = _trial_settings(project, study, {**values, axis.path: value})
            if axis.path[0] == "prompt":
                prompt_parts(settings.prompt)
            elif axis.path == ("answer", "persona") and value:
                project.persona(value)
            return
        except (ConfigError, PromptError) as error:
            fault = fault or error
    assert fault is not None
    raise ConfigError(fault.what, where=axis.where, hint=fault.hint) from fault


def variant_of(project: Project, study: Study, point: Point) -> Project:
    """The project under a trial's settings; an empty point is the project as it is.

    It is judged like the trials: with the study's judge settings, and by the first of several
    judges. Ranked trials have one judge.

    Raises:
        ConfigError: The values are incompatible.
    """
    judge = {path: value for path, value in study.fixed.items() if path[0] == "judge"}
    judge |= {axis.path: axis.values[0] for axis in study.judging}
    values = study.settings_of(point) if point else judge
    return project.variant(_trial_settings(project, study, values))


def _trial_settings(
    project: Project, study: Study, values: Mapping[tuple[str, ...], Any]
) -> Settings:
    return load_settings(
        project.folder.file, project.session.overrides, Overrides({**values}, study.places)
    )
