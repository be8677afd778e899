"""People's grades of answers: a file in the project folder, and their means over stored runs.

A grade belongs to the reviewed texts (question, answer and passages), not to a run: equal answers
of several runs share their grades.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import TypeAlias

from ...core import TestsetError, replace_text
from ...flow import Runs
from ...project import ProjectFolder
from ._evaluating import stored_results
from ._review import Label, answer_hash

Grades: TypeAlias = Mapping[tuple[str, str, str], float]
"""(hash of the reviewed texts, measure, person) -> grade."""


@dataclass(frozen=True, slots=True)
class GradeMean:
    """People's grades of the answers of one run by one measure.

    Attributes:
        mean: Mean over the graded answers of the mean of their grades: every answer has the same
            weight.
        n: Number of grades.
    """

    mean: float
    n: int


def record_grades(root: Path, labels: Iterable[Label]) -> Path | None:
    """Add people's labels to the grades of a project; return the file.

    A person's later grade of the same texts replaces the earlier one. If one sheet holds the same
    texts several times, the mean of that person's labels counts. Labels without a hash of their
    answer are left out. None if there is no project, or nothing to store.

    Raises:
        TestsetError: The existing file cannot be read; nothing is written.
    """
    by_key: dict[tuple[str, str, str], list[float]] = {}
    for label in labels:
        if label.shown:
            by_key.setdefault((label.shown, label.measure, label.rater), []).append(label.value)
    if not by_key or not ProjectFolder(root).opened:
        return None
    grades = {**read_grades(root), **{key: fmean(values) for key, values in by_key.items()}}
    lines = [
        json.dumps({"answer": a, "measure": m, "rater": r, "value": value}, ensure_ascii=False)
        for (a, m, r), value in sorted(grades.items())
    ]
    path = _grades_file(root)
    path.parent.mkdir(parents=True, exist_ok=True)
    replace_text(path, "\n".join(lines) + "\n")
    return path


def read_grades(root: Path) -> Grades:
    """Read the stored grades of a project; empty if there are none.

    Raises:
        TestsetError: The file cannot be read; file and line are named.
    """
    path = _grades_file(root)
    if not path.exists():
        return {}
    grades = {}
    for number, line in enumerate(path.read_text("utf-8").splitlines(), 1):
        try:
            body = json.loads(line)
            value = float(body["value"])
            if not math.isfinite(value):
                raise ValueError(f"{value} is not a finite number")
            grades[str(body["answer"]), str(body["measure"]), str(body["rater"])] = value
        except (ValueError, KeyError, TypeError, OverflowError, RecursionError) as error:
            raise TestsetError(
                "this is not a grade of an answer",
                where=f"{path}:{number}",
                hint="restore the file from version control, or move it away and calibrate again",
            ) from error
    return grades


def grade_means(grades: Grades, runs: Runs, run: str) -> dict[str, GradeMean]:
    """Return people's grades of the stored answers of a run by measure; empty without grades."""
    if not grades or not run or not runs.holds(run):
        return {}
    rows = (result.row for result in stored_results(runs, run))
    answers = {answer_hash(row) for row in rows if row is not None and row.response}
    by_measure: dict[str, dict[str, list[float]]] = {}
    for (answer, measure, _), value in grades.items():
        if answer in answers:
            by_measure.setdefault(measure, {}).setdefault(answer, []).append(value)
    return {
        measure: GradeMean(
            round(fmean(map(fmean, of_answer.values())), 6), sum(map(len, of_answer.values()))
        )
        for measure, of_answer in sorted(by_measure.items())
    }


def _grades_file(root: Path) -> Path:
    return ProjectFolder(root).root / "calibrations" / "grades.jsonl"
