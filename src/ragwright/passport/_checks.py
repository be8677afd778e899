"""What a gate and a report say about the passports of the judges of a run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from ..experiment import Evaluation, judge_identity
from ..measure import JudgeCheck, parse_measure
from ._passport import JudgeFigures, JudgePassport, Passport
from ._stored import passport_of_judge


def with_passports(
    root: Path, evaluation: Evaluation, checks: Mapping[str, JudgeCheck]
) -> dict[str, JudgeCheck]:
    """Add the passports of a project to the calibrations of the judges of a run.

    A calibration counts as before. Without one, a passport is enough if its agreement is above
    chance and not below the best free measure.

    Args:
        root: Folder of the project.
        evaluation: The run.
        checks: Text of a measure -> the calibration of its judge.

    Raises:
        TestsetError: A file in ``passports/`` is no passport.
    """
    return {
        measure: _with_passport(root, evaluation, measure, check)
        if parse_measure(measure).definition.kind == "judged"
        else check
        for measure, check in checks.items()
    }


def passport_line(root: Path, evaluation: Evaluation, measure: str) -> str:
    """The passport of a judged measure of a run in one line, or that it has none."""
    match = passport_of_judge(root, judge_identity(evaluation, measure))
    figures = None if match is None else _gate_figures(match[2])
    if match is None or figures is None:
        return (
            f"{measure}: its judge has no passport; `ragwright passport SET --judge MODEL "
            f"--measures {measure}` makes one"
        )
    return _named_passport(measure, *match, figures)


def _with_passport(
    root: Path, evaluation: Evaluation, measure: str, check: JudgeCheck
) -> JudgeCheck:
    match = passport_of_judge(root, judge_identity(evaluation, measure))
    line = passport_line(root, evaluation, measure)
    figures = None if match is None else _gate_figures(match[2])
    if match is None or figures is None:
        if not check.why_not:
            return check
        hint = f"{check.hint}; or make its passport: ragwright passport SET --judge MODEL"
        return replace(check, why_not=f"{check.why_not}; it has no passport either", hint=hint)
    if not check.why_not:
        return replace(check, passport=line)
    if figures.trusted:
        return JudgeCheck(figures.rows, figures.weighted_kappa, passport=line, trusted=True)
    reason = f"its passport on {match[1].set} does not show that it can be trusted: "
    return replace(check, why_not=reason + figures.advice, passport=line)


def _gate_figures(judge: JudgePassport) -> JudgeFigures | None:
    """The figures of the dimension that the measure is about."""
    return judge.dimensions.get(judge.dimension)


def _named_passport(
    measure: str, path: Path, passport: Passport, judge: JudgePassport, figures: JudgeFigures
) -> str:
    value, low, high = (
        "?" if number is None else f"{number:.2f}"
        for number in (figures.spearman.value, figures.spearman.low, figures.spearman.high)
    )
    return (
        f"{measure}: passport on {passport.set} ({judge.dimension}, {path.name}): Spearman {value} "
        f"({low} to {high}) with people; {figures.advice}"
    )
