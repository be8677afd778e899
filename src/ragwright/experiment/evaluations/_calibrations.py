"""Calibrations of judges: files in the project folder, to keep under version control.

A judge is a measure with its model, settings, prompts and rubrics, and has one file. Another model,
or another wording of the rubric, is another judge.
"""

from __future__ import annotations

import json
import math
import re
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

_NUMBERS = ("agreement", "kappa", "weighted_kappa", "alpha", "bias", "pearson", "spearman", "auc")
_MEANS = ("judge_mean", "human_mean", "corrected")


def record_calibration(
    root: Path, evaluation: Evaluation, calibration: Calibration, labels: Sequence[str]
) -> Path | None:
    """Add a calibration to the judge's file; return the file.

    None if the evaluation does not identify its judge. Written via a second file, so that a crash
    leaves the old one.

    Raises:
        TestsetError: The existing file cannot be read; nothing is written.
    """
    identity = judge_identity(evaluation, calibration.measure)
    if not identity:
        return None
    path = _calibration_file(root, identity)
    empty: dict[str, Any] = {"identity": identity, "outcomes": []}
    body = _read_calibrations(path) if path.exists() else empty
    check = judge_check(calibration)
    outcome: dict[str, Any] = {
        "run": evaluation.name,
        "labels": list(labels),
        "n": calibration.n,
        "alpha_level": calibration.alpha_level,
        **{name: _rounded_estimate(getattr(calibration, name)) for name in _NUMBERS},
        "gate": {
            "kappa": asdict(check.kappa),
            "bias": asdict(check.bias),
            "judge_mean": calibration.judge_mean.value,
            "corrected": asdict(calibration.corrected),
        },
        **{name: _rounded_estimate(getattr(calibration, name)) for name in _MEANS},
        "seed": calibration.seed,
    }
    others = [
        stored for stored in body["outcomes"] if {**stored, "date": ""} != {**outcome, "date": ""}
    ]
    outcome = {"date": time.strftime("%Y-%m-%d"), **outcome}
    body["outcomes"] = [*others, outcome]
    path.parent.mkdir(parents=True, exist_ok=True)
    replace_text(path, json.dumps(body, ensure_ascii=False, indent=1) + "\n")
    return path


def judge_checks(
    root: Path, evaluation: Evaluation, measures: Iterable[str]
) -> dict[str, JudgeCheck]:
    """Return the last calibration of the judge of each measure of an evaluation.

    Raises:
        TestsetError: A file of calibrations cannot be read.
    """
    return {measure: _judge_check(root, evaluation, measure) for measure in measures}


def _judge_check(root: Path, evaluation: Evaluation, measure: str) -> JudgeCheck:
    identity = judge_identity(evaluation, measure)
    if not identity:
        return JudgeCheck(
            why_not="the file does not name the judge that scored it",
            hint="give a run, or a file of `score -o results.jsonl`",
        )
    path = _calibration_file(root, identity)
    if not path.exists():
        return JudgeCheck(
            why_not=_unchecked_reason(root, identity),
            hint=_check_commands(evaluation.name, measure),
        )
    outcomes = _read_calibrations(path)["outcomes"]
    try:
        last = outcomes[-1]
        gate = last["gate"]
        check = JudgeCheck(int(last["n"]), _estimate_of(gate["kappa"]), _estimate_of(gate["bias"]))
        if last["run"] == evaluation.name and gate["judge_mean"] == _judge_mean(
            evaluation, measure
        ):
            check = replace(check, corrected=_estimate_of(gate["corrected"]))
    except (KeyError, IndexError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise _unreadable_calibrations(path) from error
    return check


def _estimate_of(body: Mapping[str, Any]) -> Estimate:
    """Read a number with its interval; refuse numbers that are not finite."""
    numbers = {name: body[name] for name in ("value", "low", "high")}
    for number in numbers.values():
        if number is not None and not math.isfinite(number):
            raise ValueError(f"{number} is not a finite number")
    return Estimate(**numbers)


def _judge_mean(evaluation: Evaluation, measure: str) -> float | None:
    """The judge's mean over all rows of an evaluation."""
    return next((s.mean for s in evaluation.summaries if s.measure == measure), None)


def _unchecked_reason(root: Path, identity: Mapping[str, Any]) -> str:
    """Explain that this judge was not checked, and name similar judges that were."""
    measure = identity["measure"]
    model = identity.get("judge", {}).get("model", "unknown")
    reason = f"its judge was never checked against people: {model}"
    others = []
    for path in sorted(_calibrations_folder(root).glob(f"{_slug(measure)}-*.json")):
        other = _read_calibrations(path)["identity"]
        if other.get("measure") == measure:
            others.append(", ".join(differing(identity, other)))
    if others:
        reason += f"; one that differs in {'; one in '.join(others)} was"
    return reason


def _check_commands(run: str, measure: str) -> str:
    """Return the commands for checking a judge."""
    return (
        f"ragwright review {run} --measures '{measure}' -o sheet.csv, have the sheet filled in, "
        f"then ragwright calibrate {run} --measure '{measure}' --labels sheet.csv"
    )


def _calibrations_folder(root: Path) -> Path:
    return ProjectFolder(root).root / "calibrations"


def _calibration_file(root: Path, identity: Mapping[str, Any]) -> Path:
    return (
        _calibrations_folder(root)
        / f"{_slug(identity['measure'])}-{value_hash(identity)[:10]}.json"
    )


def _slug(measure: str) -> str:
    return re.sub(r"[^A-Za-z0-9]+", "-", measure).strip("-")


def _read_calibrations(path: Path) -> dict[str, Any]:
    try:
        body = json.loads(path.read_text("utf-8"))
        if isinstance(body["identity"], dict) and isinstance(body["outcomes"], list):
            return dict(body)
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise _unreadable_calibrations(path) from error
    raise _unreadable_calibrations(path)


def _unreadable_calibrations(path: Path) -> TestsetError:
    return TestsetError(
        "this is not a record of calibrations",
        where=str(path),
        hint="restore the file from version control, or move it away and calibrate again",
    )


def _rounded_estimate(estimate: Estimate) -> list[float | None]:
    """Round the value and both ends."""
    return [
        None if number is None else round(number, 4)
        for number in (estimate.value, estimate.low, estimate.high)
    ]
