"""The passport of judges as frozen records and as JSON, and what gates say about it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, Literal, TypeAlias

from ..core import Score, TestsetError, make_plain, replace_text, value_hash
from ..measure import (
    Estimate,
    FlipRate,
    JudgeCheck,
    JudgeSpread,
    MeasureScale,
    RankFigures,
    parse_measure,
)
from ..project import ProjectFolder
from ._compare_runs import differing, judge_identity
from ._results import Evaluation, read_plain

JudgeKind: TypeAlias = Literal["free", "model", "recorded"]
"""``free``: a measure that calls no model; ``model``: one that does; ``recorded``: verdicts that
the set or a file holds."""

_FIGURES = tuple(figure.name for figure in fields(RankFigures))


@dataclass(frozen=True, slots=True)
class PeopleFigures(RankFigures):
    """People in one dimension: their labels, and how far they agree with each other.

    Attributes:
        low: Worst label; ``high`` the best one.
        mapping: How labels of the set became numbers; empty if they are unchanged.
        raters: Different people; 1 if the set does not say who judged.
        twice: Rows with two labels or more, on which the next figures rest; without value if there
            are none.
        spearman: Each label against the mean of the others of its row (leave one out): the ceiling
            for ``one_person`` of a judge. Likewise ``kendall`` and ``auc``.
        kappa: Labels of a row, pair by pair; ``weighted_kappa`` with quadratic weights.
    """

    name: str
    low: float
    high: float
    mapping: str = ""
    rows: int = 0
    labels: int = 0
    raters: int = 1
    tasks: int = 0
    mean: Estimate = Estimate()
    twice: int = 0


@dataclass(frozen=True, slots=True)
class GroupBias:
    """Bias of a judge in some of the rows: mean of its verdict minus people's mean label.

    Attributes:
        name: Value that the rows share: a system or a topic.
        bias: In points of the people's scale.
    """

    name: str
    rows: int
    bias: Estimate


@dataclass(frozen=True, slots=True)
class FreeDifference:
    """Agreement of a judge minus that of a free measure, on the same rows and resamples.

    Attributes:
        name: Text of the free measure.
        rows: Rows that both scored.
        spearman: Difference of the rank correlations with people; above 0 the judge is better.
    """

    name: str
    rows: int
    spearman: Estimate


@dataclass(frozen=True, slots=True)
class LabelPlan:
    """Labels of people that a gate needs so that this judge's mean counts.

    Attributes:
        margin: Half width of the 95 % interval of the mean, as a share of the people's scale.
        labels: Labelled rows that are needed beside the judge's scores of many rows.
        alone: Labelled rows that are needed without a judge.
        saving: Share of the labels that the judge saves, at most 1; below 0 it costs some.
        text: The same in a sentence.
    """

    margin: float
    labels: int
    alone: int
    saving: float
    text: str = ""


@dataclass(frozen=True, slots=True)
class JudgeFigures(RankFigures):
    """One judge beside people in one dimension.

    Correlations are with the mean of people's labels of a row; kappa and AUC compare the judge with
    each label, and the labels of a row share the weight 1. All intervals are 95 % and resample
    whole tasks.

    Attributes:
        rows: Rows with a label and a verdict.
        tasks: Different tasks of these rows.
        one_person: Rank correlation with single labels, to be read beside ``spearman`` of people.
        bias: Mean of verdict minus people's mean, in points of their scale; None if the scale of
            the verdicts is unknown or open.
        mapped: How verdicts were mapped to the people's scale, in words.
        groups: ``system``, ``topic`` -> bias in each group of rows.
        versus: Paired differences to each free measure; empty for the best of them.
        advice: Which judge to use for this dimension, in one sentence.
        trusted: True if the agreement is above chance, and not below the best free measure.
        plan: Labels needed until its mean counts; None if it cannot be said.
    """

    rows: int
    tasks: int
    one_person: Estimate = Estimate()
    bias: Estimate = Estimate()
    mapped: str = ""
    groups: Mapping[str, tuple[GroupBias, ...]] = field(default_factory=dict)
    versus: tuple[FreeDifference, ...] = ()
    advice: str = ""
    trusted: bool = False
    plan: LabelPlan | None = None


@dataclass(frozen=True, slots=True)
class JudgePassport:
    """A judge on a set of people's verdicts.

    Attributes:
        name: ``KPrecision``; ``Faithfulness by openai:gpt-4o``; name of recorded verdicts.
        measure: Text of the measure; empty for recorded verdicts; likewise ``model``.
        identity: Everything that determines its verdicts: measure, model, settings, prompts.
        states: State of a score -> rows: ``scored``, ``judge_invalid``, ….
        unusable: Share of the rows whose verdict cannot be used: invalid replies and errors.
        spread: Spread of repeated judgments (``--repeat``); None without repeats.
        flips: How often the order of two texts decides; None if it was not judged in both orders.
        cost: Cost of judging 100 rows; 0 for free measures, None if no price is known.
        dimension: The dimension that the measure is about, which gates read.
        run: Stored run of the scores; empty if there is none.
        dimensions: Figures by dimension; a dimension without common rows is missing.
    """

    name: str
    kind: JudgeKind
    measure: str = ""
    model: str = ""
    identity: Mapping[str, Any] = field(default_factory=dict)
    states: Mapping[str, int] = field(default_factory=dict)
    unusable: Estimate = Estimate()
    spread: JudgeSpread | None = None
    flips: FlipRate | None = None
    cost: float | None = None
    dimension: str = ""
    run: str = ""
    dimensions: Mapping[str, JudgeFigures] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Passport:
    """Judges beside people on one set.

    Attributes:
        source: The set as it was named, with its path.
        rows: Answers or pairs with a label.
        tasks: Their tasks, which the intervals resample.
        people: People by dimension, in the order of the set.
        judges: Judges: models and recorded verdicts first, then free measures, best first.
        notes: What was left out and how labels were read.
        seed: Seed of the resamples.
        date: Time of the computation, ISO 8601, UTC: the newest passport of a judge counts.
        fingerprint: Hash of the rows and labels.
    """

    set: str
    source: str
    rows: int
    tasks: int
    people: tuple[PeopleFigures, ...]
    judges: tuple[JudgePassport, ...]
    notes: tuple[str, ...] = ()
    seed: int = 0
    date: str = ""
    fingerprint: str = ""

    def judge(self, name: str) -> JudgePassport | None:
        """The judge of a name; None if it is not in the passport."""
        return next((judge for judge in self.judges if judge.name == name), None)

    def best_free(self, dimension: str) -> JudgePassport | None:
        """The free measure with the highest rank correlation in a dimension; None without any."""
        scored = [
            (figures.spearman.value, judge)
            for judge in self.judges
            if judge.kind == "free"
            and (figures := judge.dimensions.get(dimension)) is not None
            and figures.spearman.value is not None
        ]
        return max(scored, key=lambda pair: pair[0])[1] if scored else None


@dataclass(frozen=True, slots=True)
class Verdicts:
    """The verdicts of one judge.

    Attributes:
        name: Its name in the passport.
        scores: Row id -> score in any state; of a pair, the second answer's minus the first's.
        scale: Range and direction; None if unknown.
        measure: Text of the measure; empty for recorded verdicts; likewise ``model``.
        identity: Everything that determines the verdicts.
        cost: Cost of 100 rows; 0 if free, None if unknown.
        run: Stored run of the scores.
    """

    name: str
    kind: JudgeKind
    scores: Mapping[str, Score]
    scale: MeasureScale | None = None
    measure: str = ""
    model: str = ""
    identity: Mapping[str, Any] = field(default_factory=dict)
    cost: float | None = None
    run: str = ""


def passport_json(passport: Passport) -> dict[str, Any]:
    """The passport as a JSON document: ``judges`` -> name -> dimension -> figures.

    Every figure is ``{"value", "low", "high"}``, null where undefined. What is about a judge as a
    whole, such as its cost, is under ``about``.
    """
    return {
        "set": passport.set,
        "source": passport.source,
        "rows": passport.rows,
        "tasks": passport.tasks,
        "people": {
            figures.name: {
                **{
                    name: getattr(figures, name)
                    for name in (
                        "low",
                        "high",
                        "mapping",
                        "rows",
                        "labels",
                        "raters",
                        "tasks",
                        "twice",
                    )
                },
                **{name: _estimate_json(getattr(figures, name)) for name in ("mean", *_FIGURES)},
            }
            for figures in passport.people
        },
        "judges": {
            judge.name: {name: _figures_json(figures) for name, figures in judge.dimensions.items()}
            for judge in passport.judges
        },
        "about": {
            judge.name: {
                "kind": judge.kind,
                "measure": judge.measure,
                "model": judge.model,
                "identity": dict(judge.identity),
                "states": dict(judge.states),
                "unusable": _estimate_json(judge.unusable),
                "spread": None if judge.spread is None else asdict(judge.spread),
                "flips": None if judge.flips is None else asdict(judge.flips),
                "cost_100": judge.cost,
                "dimension": judge.dimension,
                "run": judge.run,
            }
            for judge in passport.judges
        },
        "notes": list(passport.notes),
        "seed": passport.seed,
        "date": passport.date,
        "fingerprint": passport.fingerprint,
    }


def _figures_json(figures: JudgeFigures) -> dict[str, Any]:
    return {
        "rows": figures.rows,
        "tasks": figures.tasks,
        **{name: _estimate_json(getattr(figures, name)) for name in _FIGURES},
        "one_person": _estimate_json(figures.one_person),
        "bias": {**_estimate_json(figures.bias), "mapped": figures.mapped},
        "groups": {
            name: [
                {"name": group.name, "rows": group.rows, **_estimate_json(group.bias)}
                for group in groups
            ]
            for name, groups in figures.groups.items()
        },
        "versus": {
            free.name: {"rows": free.rows, **_estimate_json(free.spearman)}
            for free in figures.versus
        },
        "advice": figures.advice,
        "trusted": figures.trusted,
        "labels_needed": None if figures.plan is None else asdict(figures.plan),
    }


def _estimate_json(estimate: Estimate) -> dict[str, float | None]:
    """Value and ends, rounded to 4 digits."""
    return {
        name: None if number is None else round(number, 4)
        for name, number in asdict(estimate).items()
    }


FOLDER = "passports"
"""Folder of the passports in a project."""


def record_passport(root: Path, passport: Passport) -> Path:
    """Write a passport into the project; return its file.

    Written via a second file, so that a crash leaves the old one.
    """
    judges = sorted(value_hash(dict(judge.identity)) for judge in passport.judges)
    slug = re.sub(r"[^A-Za-z0-9]+", "-", passport.set).strip("-") or "set"
    path = (
        ProjectFolder(root).root / FOLDER / f"{slug}-{value_hash([passport.set, judges])[:10]}.json"
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    body = json.dumps(make_plain(passport), ensure_ascii=False, indent=1)
    replace_text(path, body + "\n")
    return path


def list_passports(root: Path) -> Iterator[tuple[Path, Passport]]:
    """Every passport of a project with its file, the newest last.

    Raises:
        TestsetError: A file is no passport.
    """
    passports = [
        (path, read_passport(path)) for path in (ProjectFolder(root).root / FOLDER).glob("*.json")
    ]
    yield from sorted(passports, key=lambda pair: (pair[1].date, pair[0].name))


def read_passport(path: Path) -> Passport:
    """Read a passport that :func:`record_passport` wrote.

    Raises:
        TestsetError: The file is missing, or no passport.
    """
    try:
        return read_plain(Passport, json.loads(path.read_text("utf-8")))
    except FileNotFoundError as error:
        raise TestsetError("no such file", where=str(path), hint="check the path") from error
    except (OSError, ValueError, RecursionError) as error:
        raise TestsetError(
            "this is not a passport",
            where=str(path),
            hint="restore the file from version control, or move it away and make it again",
        ) from error


def passport_of_judge(
    root: Path, identity: Mapping[str, Any]
) -> tuple[Path, Passport, JudgePassport] | None:
    """The newest passport with figures of the judge with this identity; None without one.

    Raises:
        TestsetError: A file in ``passports/`` is no passport.
    """
    if not identity:
        return None
    wanted, newest = value_hash(dict(identity)), None
    for path, passport in list_passports(root):
        for judge in passport.judges:
            if judge.dimension in judge.dimensions and value_hash(dict(judge.identity)) == wanted:
                newest = path, passport, judge
    return newest


def judge_checks(root: Path, evaluation: Evaluation) -> dict[str, JudgeCheck]:
    """Return what the passports of a project say about the judges of a run, by judged measure.

    Args:
        root: Folder of the project.
        evaluation: The run.

    Raises:
        TestsetError: A file in ``passports/`` is no passport.
    """
    return {
        summary.measure: _judge_check(root, evaluation, summary.measure)
        for summary in evaluation.summaries
        if parse_measure(summary.measure).definition.kind == "judged"
    }


def passport_line(root: Path, evaluation: Evaluation, measure: str) -> str:
    """The passport of a judged measure of a run in one line, or that it has none."""
    match = passport_of_judge(root, judge_identity(evaluation, measure))
    if match is None:
        return (
            f"{measure}: its judge has no passport; `ragwright passport SET --judge MODEL "
            f"--measures {measure}` makes one"
        )
    return _named_passport(measure, *match)


def _judge_check(root: Path, evaluation: Evaluation, measure: str) -> JudgeCheck:
    identity, run = judge_identity(evaluation, measure), evaluation.name
    if not identity:
        return JudgeCheck(
            why_not="the file does not name the judge that scored it",
            hint="give a run, or a file of `score -o results.jsonl`",
        )
    match = passport_of_judge(root, identity)
    if match is None:
        return JudgeCheck(
            why_not=_explain_unchecked(root, identity),
            hint=f"ragwright review {run} --measures '{measure}' -o sheet.csv, have the sheet "
            f"filled in, then ragwright passport review:sheet.csv --verdicts {run}; or on a "
            "published set: ragwright passport SET --judge MODEL",
        )
    _, passport, judge = match
    figures = judge.dimensions[judge.dimension]
    doubt = f"its passport on {passport.set} does not show that it can be trusted: {figures.advice}"
    return JudgeCheck(
        figures.trusted,
        "" if figures.trusted else doubt,
        passport=_named_passport(measure, *match),
    )


def _explain_unchecked(root: Path, identity: Mapping[str, Any]) -> str:
    """Explain that this judge was not checked, and name similar judges that were."""
    others = dict.fromkeys(
        ", ".join(differing(identity, judge.identity))
        for _, passport in list_passports(root)
        for judge in passport.judges
        if judge.identity.get("measure") == identity["measure"] and judge.dimensions
    )
    reason = "its judge has no passport, so it was never checked against people: "
    reason += str(identity["judge"].get("model", "unknown"))
    return reason + (f"; one that differs in {'; one in '.join(others)} was" if others else "")


def _named_passport(measure: str, path: Path, passport: Passport, judge: JudgePassport) -> str:
    figures = judge.dimensions[judge.dimension]
    value, low, high = (
        "?" if number is None else f"{number:.2f}"
        for number in (figures.spearman.value, figures.spearman.low, figures.spearman.high)
    )
    return (
        f"{measure}: passport on {passport.set} ({judge.dimension}, {path.name}): Spearman {value} "
        f"({low} to {high}) with people; {figures.advice}"
    )
