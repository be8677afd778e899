"""Makes a passport: reads the set, collects the verdicts, computes, and stores the result.

Verdicts are free measures, recorded values, files of verdicts, and measures of a chat model.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import reduce
from operator import add
from pathlib import Path
from typing import Any

from ..core import ConfigError, Row, Score, TestsetError, count_noun, value_hash
from ..flow import Forecast
from ..measure import (
    Measure,
    MeasureScale,
    MeasureSetup,
    default_measures,
    definitions,
    model_fields,
    parse_measure,
    parse_measures,
    score_rows,
    set_rubric_scales,
)
from ..project import Project, refuse_forget
from ..testsets import Testset, records_of
from ._compare_runs import judge_identity
from ._compute_passport import measures_about, passport_from
from ._evaluate import judging
from ._given import is_results_file, open_results
from ._passport import Passport, Verdicts
from ._passport_columns import MappedColumn, open_people, read_column_map
from ._passport_people import PeopleSet, read_graded_rows
from ._results import Evaluation, EvaluationOptions
from ._score_rows import OnForecast, forecast_rows, forecast_stored, score_stored

_FREE = (
    "KPrecision(content+bigrams), KPrecision(content), KPrecision, KF1(content), TokenF1, "
    "ROUGE(L), ROUGE(L,recall), Contains, ExactMatch"
)
"""Free measures that a passport computes by default, where the rows have their fields."""

_IDS = ("id", "row_id", "row", "query_id")
_VALUES = ("verdict", "score", "value", "label", "rating", "grade")
_LEAST = 0.5  # share of the rows that a free measure must score


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
    testset = Testset(people.source, _rows_of_set(people))
    parts = [forecast_stored(project, testset, str(measure)) for measure in judged]
    return reduce(add, parts) if parts else forecast_passport(None, text, options)


def _read_recorded_part(
    text: str, options: PassportOptions, root: Path
) -> tuple[PeopleSet, list[Verdicts], list[str]]:
    columns = read_column_map(options.columns)
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
            scores = verdicts[0].scores.values()
            reasons = (f" ({score.reason})" for score in scores if score.reason)
            why = f"{verdicts[0].name} scored none of them{next(reasons, '')}"
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
    usual = (_usual_measure(dimension.name, people, setup) for dimension in people.dimensions)
    texts = list(dict.fromkeys(filter(None, usual))) or [
        str(measure)
        for measure in default_measures(_rows_of_set(people), setup).measures
        if measure.definition.kind == "judged"
    ]
    return (), set_rubric_scales([parse_measure(text) for text in texts], setup.rubrics)


def _usual_measure(dimension: str, people: PeopleSet, setup: MeasureSetup) -> str:
    """The judged measure about a dimension that the rows and models allow; empty without one."""
    known = {definition.name: definition for definition in definitions()}
    fitting = (
        name
        for name in measures_about(dimension)
        if (definition := known.get(name)) is not None
        and definition.kind == "judged"
        and definition.cutoff != "required"
        and all(getattr(setup, field) for field in model_fields(definition) if field != "model")
        and all(getattr(people.rated[0].row, needed) for needed in definition.needs)
    )
    return next(fitting, "")


def _rows_of_set(people: PeopleSet) -> tuple[Row, ...]:
    """All answers of a set; of a pair both."""
    return tuple(row for item in people.rated for row in (item.row, item.second) if row is not None)


def _model_verdicts(
    project: Project,
    people: PeopleSet,
    measure: Measure,
    options: PassportOptions,
    on_forecast: OnForecast | None,
) -> Verdicts:
    prices: list[bool] = []

    def priced(forecast: Forecast) -> None:
        prices.append(forecast.cost is not None)
        if on_forecast is not None:
            on_forecast(forecast)

    progress = project.runner.progress
    spent, calls, reused = progress.cost, progress.calls, progress.reused
    evaluating = EvaluationOptions(resume=options.resume, seed=options.seed)
    testset = Testset(people.source, _rows_of_set(people))
    evaluation, summary = score_stored(project, testset, [measure], evaluating, on_forecast=priced)
    if summary.reason is not None:  # figures of half a set would mislead
        raise summary.reason
    new_calls, known = progress.calls - calls, progress.reused - reused
    per_row = (new_calls + known) / max(1, len(people.rated))
    verdicts, *_ = _verdicts_of_evaluation(evaluation, people)
    model = verdicts.model or "a model"
    return replace(
        verdicts,
        name=f"{measure} by {model}",
        kind="model",
        scale=_scale_of(people, measure.known_scale),
        model=model,
        cost=(progress.cost - spent) / new_calls * per_row * 100
        if new_calls and all(prices)
        else None,
        run=summary.run,
    )


def free_verdicts(
    people: PeopleSet, measures: Sequence[Measure] = (), setup: MeasureSetup | None = None
) -> list[Verdicts]:
    """Score the rows by measures that call no model.

    Args:
        people: The set.
        measures: Measures without a model; by default those of :data:`_FREE` that score at least
            half of the rows, and not all alike.
        setup: Language and cues.
    """
    chosen = tuple(measures) or parse_measures(_FREE)
    rows = _rows_of_set(people)
    by_row = {
        row.id: scores for row, scores in zip(rows, score_rows(rows, chosen, setup), strict=True)
    }
    verdicts = []
    for at, measure in enumerate(chosen):
        scores = _score_pairs(people, {key: scores[at] for key, scores in by_row.items()})
        scored = sum(score.value is not None for score in scores.values())
        differ = len({score.value for score in scores.values()}) > 1
        if not measures and (scored < _LEAST * len(scores) or not differ):
            continue
        verdicts.append(
            Verdicts(
                str(measure),
                "free",
                scores,
                _scale_of(people, measure.known_scale),
                str(measure),
                identity={"measure": str(measure)},
                cost=0.0,
            )
        )
    return verdicts


def _score_pairs(people: PeopleSet, scores: Mapping[str, Score]) -> dict[str, Score]:
    """Row id -> score; of a pair the difference, if both answers have a value."""
    combined = {}
    for item in people.rated:
        score = scores.get(item.row.id)
        second = score if item.second is None else scores.get(item.second.id)
        if score is None or second is None:
            continue
        if item.second is None or score.value is None or second.value is None:
            combined[item.row.id] = second if score.value is not None else score
        else:
            value = second.value - score.value
            combined[item.row.id] = Score(score.measure, "scored", value)
    return combined


def _scale_of(people: PeopleSet, scale: MeasureScale | None) -> MeasureScale | None:
    """The scale of verdicts: for pairs that of differences."""
    if scale is None or not people.pairs:
        return scale
    width = scale.width
    return None if width is None else MeasureScale(-width, width, scale.higher_is_better)


def read_recorded_verdicts(people: PeopleSet) -> list[Verdicts]:
    """The verdicts of other judges that the set itself holds, in the order of their names."""
    names = dict.fromkeys(name for item in people.rated for name in item.verdicts)
    return [
        _read_recorded(
            name,
            {item.row.id: item.verdicts[name] for item in people.rated if name in item.verdicts},
            people.scales.get(name),
        )
        for name in names
    ]


def _read_recorded(
    name: str, values: Mapping[str, float], ends: tuple[float, float] | None = None
) -> Verdicts:
    scores = {key: Score(name, "scored", value) for key, value in values.items()}
    identity = {"verdicts": name, "hash": value_hash(sorted(values.items()))}
    scale = None if ends is None else MeasureScale(*ends)
    return Verdicts(name, "recorded", scores, scale, identity=identity)


def verdicts_in(
    text: str, people: PeopleSet, columns: Sequence[MappedColumn] = (), root: Path = Path()
) -> tuple[list[Verdicts], tuple[str, ...]]:
    """Read recorded verdicts, and notes on them.

    Args:
        text: A file of qrels (for a set of qrels), a file of scores by ``score -o``, a file of rows
            with ids and numbers, or a run of the project.
        people: The set; the file uses its row ids.
        columns: For rows: the columns with id and verdicts; by default ``id`` and every column of
            numbers.
        root: Folder of the project, for runs.

    Raises:
        TestsetError: The file cannot be read, or none of its ids is in the set.
    """
    path = Path(text)
    if people.name == "qrels":
        values = {key: float(grade) for key, (_, grade) in read_graded_rows(text).items()}
        verdicts = [_read_recorded(path.stem, values)]
    elif is_run(text):
        (evaluation,) = open_results(root, (text,))
        verdicts = _verdicts_of_evaluation(evaluation, people)
    else:
        verdicts = _verdicts_of_records(path, columns)
    known = {item.row.id for item in people.rated}
    given = {key for judge in verdicts for key in judge.scores}
    foreign, missing = given - known, len(known - given)
    if not given & known:
        raise TestsetError(
            f"none of the {count_noun(len(foreign), 'id')} of the verdicts is in the set",
            where=text,
            hint=f"ids of the file: {', '.join(sorted(foreign)[:2]) or 'none'}; of the set: "
            f"{', '.join(sorted(known)[:2])}",
        )
    notes = (
        foreign and f"{text}: {count_noun(len(foreign), 'verdict')} of rows that the set lacks",
        missing and f"{text}: no verdict for {count_noun(missing, 'row')} of the set",
    )
    return verdicts, tuple(note for note in notes if isinstance(note, str))


def is_run(text: str) -> bool:
    """True for a run of the project or a file of scores, False for another file."""
    return not Path(text).exists() or is_results_file(Path(text))


def _verdicts_of_evaluation(evaluation: Evaluation, people: PeopleSet) -> list[Verdicts]:
    """The scores of an evaluation, one judge per measure.

    Raises:
        TestsetError: It scored another answer than people.
    """
    answers = {item.row.id: item.row.response for item in people.rated}
    for result in evaluation.results:
        own = None if result.row is None else result.row.response
        if own is not None and answers.get(result.row_id) not in (None, own):
            raise TestsetError(
                f"people judged another answer of row {result.row_id!r} than the run scored",
                where=evaluation.name,
                hint="score the rows that people judged",
            )
    verdicts = []
    for summary in evaluation.summaries:
        scores = {
            result.row_id: score
            for result in evaluation.results
            for score in result.scores
            if score.measure == summary.measure
        }
        identity = judge_identity(evaluation, summary.measure)
        model = str(identity.get("judge", {}).get("model", ""))
        verdicts.append(
            Verdicts(
                f"{summary.measure} by {model}"
                if model
                else f"{summary.measure} in {evaluation.name}",
                "recorded",
                _score_pairs(people, scores),
                _scale_of(people, summary.scale),
                summary.measure,
                model,
                identity or {"verdicts": evaluation.name},
                run=evaluation.name,
            )
        )
    return verdicts


def _verdicts_of_records(path: Path, columns: Sequence[MappedColumn]) -> list[Verdicts]:
    """Columns of numbers in a file of rows."""
    mapped = [column for column in columns if column.role == "verdict"]
    ids = (*(column.column for column in columns if column.role == "id"), *_IDS)
    values: dict[str, dict[str, float]] = {}
    seen: dict[str, None] = {}
    for where, record in records_of(path):
        seen.update(dict.fromkeys(record))
        key = next((record[name] for name in ids if record.get(name) not in (None, "")), None)
        if key is None:
            raise TestsetError(
                "the row has no id",
                where=where,
                hint="name the column id, or map it: --map COLUMN=id",
            )
        for name, value in _numbers_in(record, mapped, ids, where):
            if str(key) in values.setdefault(name, {}):
                raise TestsetError(f"{key!r} has two verdicts under {name!r}", where=where)
            values[name][str(key)] = value
    if not values:
        raise TestsetError(
            "no column holds numbers",
            where=str(path),
            hint=f"its columns: {', '.join(seen) or 'none'}; map one: --map COLUMN=verdict",
        )
    ends = {column.name: column.ends for column in mapped}
    alone = len(values) == 1 and next(iter(values)).casefold() in _VALUES
    return [
        _read_recorded(path.stem if alone else name, of_name, ends.get(name))
        for name, of_name in values.items()
    ]


def _numbers_in(
    record: Mapping[str, Any], mapped: Sequence[MappedColumn], ids: Sequence[str], where: str
) -> Iterator[tuple[str, float]]:
    for column in mapped:
        number = column.number(record.get(column.column), where)
        if number is not None:
            yield column.name, number
    for name, value in record.items():
        if not mapped and name not in ids and not isinstance(value, list | dict | None):
            with suppress(ValueError):
                yield name, float(value)
