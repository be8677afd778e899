"""Trials of a study: how they are chosen, their results, and the leaderboard."""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, islice, product
from pathlib import Path
from statistics import fmean
from typing import Any, Literal, TypeAlias

from ..answer import prompt_parts
from ..core import ConfigError, PromptError, RagwrightError, Score, StudyError, canonical_json
from ..measure import Measure, Selection, Summary, choose_best
from ..project import Overrides, Project, Settings, load_settings, project_sections
from ._results import Evaluation, RowResult
from ._study import Axis, Study, load_study

TrialState: TypeAlias = Literal["done", "errored", "invalid", "same", "skipped"]
"""``invalid`` if the values are incompatible; ``same`` as the current settings: no candidate."""


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

    def value(self, measure: str) -> float | None:
        """Mean of a measure over its scored rows, rounded to 6 digits; None without one."""
        value = next((s.mean for s in self.summaries if s.measure == measure), None)
        return None if value is None else round(value, 6)

    def ranked_value(self, measure: str) -> float | None:
        """The value for ordering: rows without a score count as the worst value.

        Rows without gold are not counted. Otherwise refusing hard questions would lead every
        leaderboard. If the scale has no worst end it is the plain value.
        """
        worst = next((s.worst for s in self.summaries if s.measure == measure), None)
        return self.value(measure) if worst is None else round(worst, 6)


def objective_of(name: str, measures: Sequence[Measure]) -> Measure:
    """The measure with a name, by which trials are ordered; by default the first.

    Raises:
        StudyError: It is no measure of the study.
    """
    known = {str(measure): measure for measure in measures}
    if name and name not in known:
        raise StudyError(
            f"the objective {name!r} is not measured",
            where="study.objective",
            hint=f"one of: {', '.join(known)}",
        )
    return known[name or str(measures[0])]


def usage_means(results: Sequence[RowResult]) -> dict[str, float]:
    """Mean cost, seconds and tokens of passages per answer; a cost unknown for one is unknown."""
    made = [result.made for result in results if result.made is not None]
    facts: dict[str, list[float | None]] = {
        "context_tokens": [float(answer.context_tokens) for answer in made],
        "cost": [answer.usage.cost if answer.usage.calls else 0.0 for answer in made],
        "seconds": [answer.usage.seconds for answer in made],
    }
    means = {}
    for name, values in facts.items():
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


def leaderboard(trials: Sequence[TrialResult], objective: Measure) -> tuple[TrialResult, ...]:
    """Trials that are done and have a value, best first; ties are broken by number.

    Rows without a score count as the worst value (:meth:`TrialResult.ranked_value`).
    """
    sign, name = -1 if objective.definition.higher_is_better else 1, str(objective)
    placed = [
        (sign * value, trial.number, trial)
        for trial in trials
        if trial.state == "done"
        and (value := trial.ranked_value(name)) is not None
        and trial.value(name) is not None
    ]
    return tuple(trial for _, _, trial in sorted(placed, key=lambda place: place[:2]))


def objective_scores(results: Iterable[RowResult], objective: Measure) -> dict[str, Score]:
    """Row id -> score of an objective."""
    name = str(objective)
    return {r.row_id: score for r in results for score in r.scores if score.measure == name}


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
    objective: Measure,
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
        higher_is_better=objective.definition.higher_is_better,
        seed=seed,
        clusters=clusters,
        scale=objective.known_scale,
    )
    return replace(selection, questions=questions or selection.questions)


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
    study: Study, objective: Measure | None = None
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


def _open_search(study: Study, objective: Measure | None) -> Any:
    import optuna

    samplers, options = optuna.samplers, study.options
    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(max(before, optuna.logging.WARNING))
    search = optuna.create_study(
        sampler=samplers.TPESampler(seed=options.seed)
        if options.search == "tpe"
        else samplers.RandomSampler(options.seed),
        direction="maximize" if objective and objective.definition.higher_is_better else "minimize",
    )
    optuna.logging.set_verbosity(before)
    return search


def _search_space(study: Study) -> dict[str, Any]:
    from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

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
