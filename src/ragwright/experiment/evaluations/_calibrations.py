"""Calibrations of judges: files in the project folder, to be kept under version control.

One file per judge: measure, model, settings of the judge, prompts and rubrics together. Another
model, or another wording of the rubric, makes another judge.
"""

from __future__ import annotations

import json
import math
import re
import shlex
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from ...core import TestsetError, replace_text, value_hash
from ...measure import Calibration, Estimate, JudgeCheck, judge_check
from ...project import ProjectFolder
from ._judges import differing, judge_identity
from ._results import Evaluation

_SHAPE = 2
"""2 compares the judge with each person and uses means; 1 used the median of several people."""

_NUMBERS = ("agreement", "kappa", "weighted_kappa", "alpha", "bias", "pearson", "spearman", "auc")
_MEANS = ("judge_mean", "human_mean", "corrected")


def record_calibration(
    root: Path, evaluation: Evaluation, found: Calibration, labels: Sequence[str]
) -> Path | None:
    """Add a calibration to the judge's file; returns the file.

    None if the evaluation does not identify its judge. Written via a second file, so that a crash
    leaves the old one.

    Raises:
        TestsetError: The existing file cannot be read; nothing is written.
    """
    identity = judge_identity(evaluation, found.measure)
    if not identity:
        return None
    path = _path(root, identity)
    empty: dict[str, Any] = {"identity": identity, "outcomes": []}
    body = _read(path) if path.exists() else empty
    check = judge_check(found)
    outcome: dict[str, Any] = {
        "run": evaluation.name,
        "labels": list(labels),
        "n": found.n,
        "alpha_level": found.alpha_level,
        **{name: _rounded(getattr(found, name)) for name in _NUMBERS},
        "gate": {
            "shape": _SHAPE,
            "kappa": asdict(check.kappa),
            "bias": asdict(check.bias),
            "judge_mean": found.judge_mean.value,
            "corrected": asdict(found.corrected),
        },
        **{name: _rounded(getattr(found, name)) for name in _MEANS},
        "seed": found.seed,
    }
    kept = [one for one in body["outcomes"] if {**one, "date": ""} != {**outcome, "date": ""}]
    outcome = {"date": time.strftime("%Y-%m-%d"), **outcome}
    body["outcomes"] = [*kept, outcome]
    path.parent.mkdir(parents=True, exist_ok=True)
    replace_text(path, json.dumps(body, ensure_ascii=False, indent=1) + "\n")
    return path


def judge_checks(
    root: Path, evaluation: Evaluation, measures: Iterable[str]
) -> dict[str, JudgeCheck]:
    """The last calibration of the judge of each measure of an evaluation.

    Raises:
        TestsetError: A file of calibrations cannot be read.
    """
    return {measure: _check(root, evaluation, measure) for measure in measures}


def _check(root: Path, evaluation: Evaluation, measure: str) -> JudgeCheck:
    identity = judge_identity(evaluation, measure)
    if not identity:
        return JudgeCheck(
            why_not="the file does not name the judge that scored it",
            hint="give a run, or a file of `score -o results.jsonl`",
        )
    path = _path(root, identity)
    if not path.exists():
        return JudgeCheck(why_not=_why_not(root, identity), hint=_how(evaluation.name, measure))
    outcomes = _read(path)["outcomes"]
    try:
        last = outcomes[-1]
        gate = last["gate"]
        if gate.get("shape", 1) < _SHAPE:
            return JudgeCheck(
                why_not=f"its calibration in {path.name} took the median of several people's "
                "labels, which is biased",
                hint="calibrate again: " + _again(last, measure),
            )
        check = JudgeCheck(int(last["n"]), _estimate(gate["kappa"]), _estimate(gate["bias"]))
        if last["run"] == evaluation.name and gate["judge_mean"] == _mean(evaluation, measure):
            check = replace(check, corrected=_estimate(gate["corrected"]))
    except (KeyError, IndexError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise _unreadable(path) from error
    return check


def _estimate(said: Mapping[str, Any]) -> Estimate:
    """A number with its interval from a file; refuses numbers that are not finite."""
    numbers = {name: said[name] for name in ("value", "low", "high")}
    for number in numbers.values():
        if number is not None and not math.isfinite(number):
            raise ValueError(f"{number} is not a finite number")
    return Estimate(**numbers)


def _mean(evaluation: Evaluation, measure: str) -> float | None:
    """The judge's mean over all rows of an evaluation."""
    return next((s.mean for s in evaluation.summaries if s.measure == measure), None)


def _again(outcome: Mapping[str, Any], measure: str) -> str:
    """The command that repeats a calibration."""
    labels = " ".join(f"--labels {shlex.quote(str(path))}" for path in outcome["labels"])
    run = shlex.quote(str(outcome["run"]))
    return f"ragwright calibrate {run} --measure {shlex.quote(measure)} {labels}"


def _why_not(root: Path, identity: Mapping[str, Any]) -> str:
    """The reason that this judge was not checked, and the similar judges that were."""
    measure = identity["measure"]
    model = identity.get("judge", {}).get("model", "unknown")
    said = f"its judge was never checked against people: {model}"
    others = []
    for path in sorted(_folder(root).glob(f"{_slug(measure)}-*.json")):
        other = _read(path)["identity"]
        if other.get("measure") == measure:
            others.append(", ".join(differing(identity, other)))
    if others:
        said += f"; one that differs in {'; one in '.join(others)} was"
    return said


def _how(run: str, measure: str) -> str:
    """The commands for checking a judge."""
    return (
        f"ragwright review {run} --measures '{measure}' -o sheet.csv, have the sheet filled in, "
        f"then ragwright calibrate {run} --measure '{measure}' --labels sheet.csv"
    )


def _folder(root: Path) -> Path:
    return ProjectFolder(root).root / "calibrations"


def _path(root: Path, identity: Mapping[str, Any]) -> Path:
    return _folder(root) / f"{_slug(identity['measure'])}-{value_hash(identity)[:10]}.json"


def _slug(measure: str) -> str:
    return re.sub(r"[^A-Za-z0-9]+", "-", measure).strip("-")


def _read(path: Path) -> dict[str, Any]:
    try:
        body = json.loads(path.read_text("utf-8"))
        if isinstance(body["identity"], dict) and isinstance(body["outcomes"], list):
            return dict(body)
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise _unreadable(path) from error
    raise _unreadable(path)


def _unreadable(path: Path) -> TestsetError:
    return TestsetError(
        "this is not a record of calibrations",
        where=str(path),
        hint="restore the file from version control, or move it away and calibrate again",
    )


def _rounded(found: Estimate) -> list[float | None]:
    """Value and both ends as text."""
    return [None if one is None else round(one, 4) for one in (found.value, found.low, found.high)]
