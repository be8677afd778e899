"""What a gate and a report say about the passports of the judges of a run."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ..core import TestsetError, replace_text, value_hash
from ..experiment import Evaluation, differing, judge_identity
from ..measure import Estimate, JudgeCheck, parse_measure
from ..project import ProjectFolder
from ._passport import JudgePassport, Passport, passport_json, passport_of

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
    body = json.dumps(passport_json(passport), ensure_ascii=False, indent=1)
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
    """Read a passport that :func:`record_passport` or ``passport --json`` wrote.

    Raises:
        TestsetError: The file is missing, or no passport.
    """
    try:
        return passport_of(json.loads(path.read_text("utf-8")))
    except FileNotFoundError as error:
        raise TestsetError("no such file", where=str(path), hint="check the path") from error
    except (
        OSError,
        ValueError,
        KeyError,
        TypeError,
        AttributeError,
        RecursionError,
    ) as error:
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
            why_not=_unchecked_reason(root, identity),
            hint=f"ragwright review {run} --measures '{measure}' -o sheet.csv, have the sheet "
            f"filled in, then ragwright passport review:sheet.csv --verdicts {run}; or on a "
            "published set: ragwright passport SET --judge MODEL",
        )
    _, passport, judge = match
    figures = judge.dimensions[judge.dimension]
    doubt = f"its passport on {passport.set} does not show that it can be trusted: {figures.advice}"
    return JudgeCheck(
        figures.rows,
        figures.weighted_kappa,
        _bias_of(evaluation, measure, passport, judge),
        figures.trusted,
        "" if figures.trusted else doubt,
        passport=_named_passport(measure, *match),
    )


def _bias_of(
    evaluation: Evaluation, measure: str, passport: Passport, judge: JudgePassport
) -> Estimate:
    """The bias in points of the measure; unknown if people labelled on another scale."""
    scale = next(s.scale for s in evaluation.summaries if s.measure == measure)
    ends = next((p.low, p.high) for p in passport.people if p.name == judge.dimension)
    same = scale is not None and scale.higher_is_better and scale.ends == ends
    return judge.dimensions[judge.dimension].bias if same else Estimate()


def _unchecked_reason(root: Path, identity: Mapping[str, Any]) -> str:
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
