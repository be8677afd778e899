"""Makes a passport: reads the set, collects the verdicts, computes, and stores the result."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from ...core import ConfigError, Row, count_noun
from ...flow import Forecast
from ...measure import (
    Measure,
    MeasureSetup,
    default_measures,
    definitions,
    model_fields,
    parse_measure,
    parse_measures,
    set_rubric_scales,
)
from ...project import Project, refuse_forget
from ...testsets import Testset
from ..evaluations import (
    EvaluationOptions,
    OnForecast,
    forecast_rows,
    forecast_stored,
    judge_identity,
    judging,
    score_stored,
)
from ._compute import measures_about, passport_from
from ._passport import Passport
from ._people import PeopleSet
from ._verdicts import (
    Verdicts,
    free_verdicts,
    is_run,
    read_recorded_verdicts,
    scale_of,
    score_pairs,
    verdicts_in,
)
from .sets import MappedColumn, open_people, read_column_map


@dataclass(frozen=True, slots=True)
class PassportOptions:
    """Options of a passport.

    Attributes:
        columns: For a file of rows: ``COLUMN=ROLE``; see ``read_column_map``.
        measures: Text with commas; by default free measures that suit the rows, and with a judge
            the measures about the dimensions of the set.
        verdicts: Files or runs with recorded verdicts.
        resume: Continue unfinished runs of a judge.
        seed: Seed of the resamples.
    """

    columns: tuple[str, ...] = ()
    measures: str = ""
    verdicts: tuple[str, ...] = ()
    resume: bool = False
    seed: int = 0

    @property
    def runs(self) -> list[str]:
        """Those of the verdicts that are runs or files of scores."""
        return [name for name in self.verdicts if is_run(name)]


def calls_a_model(options: PassportOptions) -> bool:
    """True if a named measure needs a model."""
    named = parse_measures(options.measures) if options.measures else ()
    return any(measure.definition.model != "none" for measure in named)


def free_passport(
    text: str,
    options: PassportOptions | None = None,
    *,
    setup: MeasureSetup | None = None,
    root: Path = Path(),
) -> Passport:
    """Make the passport of free measures and recorded verdicts; no model is called.

    Args:
        text: The set: ``mtrag:PATH``, ``module:object:PATH``, a file of rows.
        options: Options.
        setup: Language and cues of the measures.
        root: Folder of the project, for verdicts that are runs.

    Raises:
        ConfigError: The set is unknown, or a measure needs a model.
        TestsetError: The set or the verdicts cannot be read, or nothing can judge its rows.
    """
    options = options or PassportOptions()
    people, verdicts, notes = _read_recorded_part(text, options, root)
    named = parse_measures(options.measures) if options.measures else ()
    verdicts += free_verdicts(people, named, setup)
    return _check_passport(people, verdicts, options, notes)


@refuse_forget("passport")
def make_judged_passport(
    project: Project,
    text: str,
    options: PassportOptions | None = None,
    *,
    on_forecast: OnForecast | None = None,
) -> Passport:
    """Make a passport with measures of a chat model, as runs of the project.

    Budget, resumption and stored replies are those of ``score``; every measure is a run.

    Args:
        project: Its judge is ``judge.model``.
        text: As for :func:`free_passport`.
        options: Options.
        on_forecast: Gets the forecast of each measure before its first call.

    Raises:
        ConfigError: No chat model is set.
        StoppedError: The budget or a key stopped it; finished rows are stored.
    """
    options = options or PassportOptions()
    people, verdicts, notes = _read_recorded_part(text, options, project.folder.root)
    setup = judging(project, options.measures)
    free, judged = _measures_for(people, options, setup)
    models = [_model_verdicts(project, people, measure, options, on_forecast) for measure in judged]
    if free or not options.measures:
        verdicts += free_verdicts(people, free, setup)
    return _check_passport(people, [*models, *verdicts], options, notes)


def forecast_passport(
    project: Project | None, text: str, options: PassportOptions | None = None
) -> Forecast:
    """Forecast the calls and cost of a passport, without calling any model."""
    options = options or PassportOptions()
    root = Path() if project is None else project.folder.root
    people = open_people(text, options.columns, root=root, runs=options.runs)
    if project is None:
        return forecast_rows(_rows_of_set(people)[:1], parse_measures("Contains"))
    _, judged = _measures_for(people, options, judging(project, options.measures))
    total: Forecast | None = None
    for measure in judged:
        part = forecast_stored(project, _rows_to_judge(people), str(measure))
        total = part if total is None else total + part
    return forecast_passport(None, text, options) if total is None else total


def _read_recorded_part(
    text: str, options: PassportOptions, root: Path
) -> tuple[PeopleSet, list[Verdicts], list[str]]:
    """The set, the recorded verdicts on it, and notes."""
    columns: Sequence[MappedColumn] = read_column_map(options.columns)
    of_people = [m for m in options.columns if not (options.verdicts and m.endswith("=verdict"))]
    people = open_people(text, of_people, root=root, runs=options.runs)
    verdicts, notes = read_recorded_verdicts(people), list[str]()
    for name in (*options.verdicts, *people.runs):
        further, remarks = verdicts_in(name, people, columns, root)
        known = {judge.name for judge in verdicts}
        verdicts += [
            replace(judge, name=f"{judge.name} ({Path(name).stem})")
            if judge.name in known
            else judge
            for judge in further
        ]
        notes += remarks
    return people, verdicts, notes


def _check_passport(
    people: PeopleSet, verdicts: Sequence[Verdicts], options: PassportOptions, notes: Sequence[str]
) -> Passport:
    """Compute the passport, unless nothing can judge the rows."""
    if not any(score.value is not None for judge in verdicts for score in judge.scores.values()):
        why = "the set holds no verdicts, and no measure without a model suits its rows"
        if verdicts:
            first = verdicts[0]
            reason = next((score.reason for score in first.scores.values() if score.reason), "")
            why = f"{first.name} scored none of them" + (f" ({reason})" if reason else "")
        raise ConfigError(
            f"nothing can judge the {count_noun(len(people.rated), 'row')} of {people.name}: {why}",
            where=people.source,
            hint="name a judge (--judge MODEL), measures (--measures) or recorded verdicts "
            "(--verdicts FILE); --map gives columns of a file their role",
        )
    passport = passport_from(people, verdicts, seed=options.seed, notes=notes)
    return replace(passport, date=datetime.now(UTC).isoformat())


def _measures_for(
    people: PeopleSet, options: PassportOptions, setup: MeasureSetup
) -> tuple[tuple[Measure, ...], tuple[Measure, ...]]:
    """Measures without a model and with one: those named, or those about the dimensions."""
    if options.measures:
        named = set_rubric_scales(parse_measures(options.measures), setup.rubrics)
        free = tuple(measure for measure in named if measure.definition.model == "none")
        return free, tuple(measure for measure in named if measure not in free)
    if not setup.model and not setup.by:
        raise ConfigError(
            "no chat model judges",
            where="judge.model",
            hint="name one with --judge PROVIDER:MODEL, or leave the judge out",
        )
    judged = dict.fromkeys(
        name
        for dimension in people.dimensions
        if (name := _usual_measure(dimension.name, people, setup))
    )
    texts = list(judged) or [
        str(measure)
        for measure in default_measures(_rows_of_set(people), setup).measures
        if measure.definition.kind == "judged"
    ]
    return (), set_rubric_scales([parse_measure(text) for text in texts], setup.rubrics)


def _usual_measure(dimension: str, people: PeopleSet, setup: MeasureSetup) -> str:
    """The judged measure about a dimension that the rows and models allow; empty without one."""
    known = {definition.name: definition for definition in definitions()}
    row = people.rated[0].row
    for name in measures_about(dimension):
        definition = known.get(name)
        if definition is None or definition.kind != "judged" or definition.cutoff == "required":
            continue
        fields = model_fields(definition)
        if all(getattr(setup, model) for model in fields if model != "model") and all(
            getattr(row, needed) for needed in definition.needs
        ):
            return name
    return ""


def _rows_of_set(people: PeopleSet) -> tuple[Row, ...]:
    """All answers of a set; of a pair both."""
    return tuple(row for item in people.rated for row in (item.row, item.second) if row is not None)


def _rows_to_judge(people: PeopleSet) -> Testset:
    return Testset(people.source, _rows_of_set(people))


def _model_verdicts(
    project: Project,
    people: PeopleSet,
    measure: Measure,
    options: PassportOptions,
    on_forecast: OnForecast | None,
) -> Verdicts:
    """Score the rows by a measure of a model, as a run of the project."""
    prices: list[bool] = []

    def priced(forecast: Forecast) -> None:
        prices.append(forecast.cost is not None)
        if on_forecast is not None:
            on_forecast(forecast)

    progress = project.runner.progress
    spent, calls, reused = progress.cost, progress.calls, progress.reused
    evaluating = EvaluationOptions(resume=options.resume, seed=options.seed)
    evaluation, summary = score_stored(
        project, _rows_to_judge(people), [measure], evaluating, on_forecast=priced
    )
    if summary.reason is not None:  # figures of half a set would mislead
        raise summary.reason
    new_calls, known = progress.calls - calls, progress.reused - reused
    per_row = (new_calls + known) / max(1, len(people.rated))
    cost = (
        (progress.cost - spent) / new_calls * per_row * 100 if new_calls and all(prices) else None
    )
    scores = {result.row_id: score for result in evaluation.results for score in result.scores}
    identity = judge_identity(evaluation, str(measure))
    model = str(identity.get("judge", {}).get("model", "")) or "a model"
    return Verdicts(
        f"{measure} by {model}",
        "model",
        score_pairs(people, scores),
        scale_of(people, measure.known_scale),
        str(measure),
        model,
        identity,
        cost,
        summary.run,
    )
