"""People's grades beside a sweep's measures: from the sheet to the leaderboard."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from small_project import MakeProject

from ragwright import Workbench
from ragwright.core import TestsetError
from ragwright.experiment import Calibrating, SweepResult, read_study
from ragwright.report import leaderboard_table, trial_json

ROWS = [
    {"id": f"q{n}", "user_input": question, "reference": reference, "split": "tune"}
    for n, (question, reference) in enumerate(
        [
            ("How often must the brake fluid be changed?", "every two years"),
            ("How often must the coolant be changed?", "every five years"),
            ("When is the oil filter changed?", "every 15,000 kilometres"),
        ]
    )
]
# The corpus has fewer than 40 chunks: the last two trials give the same answers.
STUDY = "study: {testset: set.jsonl, measures: 'Contains, TokenF1'}\nretrieve: {top_k: [1, 40, 41]}"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    made = MakeProject(tmp_path)("chunk: {size: 12, overlap: 0}\n")
    monkeypatch.chdir(made)
    (made / "set.jsonl").write_text("\n".join(map(json.dumps, ROWS)))
    (made / "s.yaml").write_text(STUDY)
    with Workbench.open(made) as bench:
        bench.ingest()
    return made


def swept(folder: Path) -> SweepResult:
    with Workbench.open(folder) as bench:
        return bench.sweep(read_study(bench.project, folder / "s.yaml"))


def reviewed(folder: Path, runs: list[str], grade: Callable[[Mapping[str, str]], str]) -> Path:
    """A sheet over runs, filled in."""
    sheet = folder / "sheet.csv"
    with Workbench.open(folder) as bench:
        bench.review_answers(runs, "Contains, Groundedness", sheet)
    with sheet.open(encoding="utf-8-sig", newline="") as file:
        items = list(csv.DictReader(file))
    for item in items:
        item["Contains (0-1)"] = grade(item)
    with sheet.open("w", newline="") as file:
        table = csv.DictWriter(file, items[0])
        table.writeheader()
        table.writerows(items)
    return sheet


def test_without_grades_a_leaderboard_is_as_before(folder: Path) -> None:
    found = swept(folder)
    assert "people" not in leaderboard_table(found.board)
    assert [trial_json(trial)["people"] for trial in found.trials] == [{}] * 4
    with Workbench.open(folder) as bench:
        report = bench.report(found.run)
        assert "people: " not in report.html()


def test_grades_stand_beside_the_measure_in_every_trial_with_the_same_answers(folder: Path) -> None:
    before = swept(folder)
    run = f"{before.run}:T002"
    sheet = reviewed(folder, [run], lambda item: str(int("coolant" not in item["user_input"])))
    with Workbench.open(folder) as bench:
        done = bench.calibrate(run, [sheet], Calibrating("Contains"))
        bench.calibrate(run, [sheet.resolve()], Calibrating("Contains"))  # the same person again
    assert done.grades == folder / "calibrations" / "grades.jsonl"

    found = swept(folder)
    assert [trial.id for trial in found.board] == [trial.id for trial in before.board]
    people = [trial_json(trial)["people"] for trial in found.trials]
    graded = {"Contains": {"mean": pytest.approx(2 / 3, abs=1e-6), "n": 3}}
    assert people[2:] == [graded, graded]
    assert people[1] == {}
    text = leaderboard_table(found.board)
    head, *lines = text.splitlines()
    assert head.index("Contains") < head.index("people: Contains") < head.index("TokenF1")
    shown = {trial.id: line for trial in found.board for line in lines if trial.id in line}
    assert "0.667 (3)" in shown["T002"]
    assert "0.667 (3)" in shown["T003"]
    assert "0.667 (3)" not in shown["T001"]
    with Workbench.open(folder) as bench:
        report = bench.report(found.run)
        entries = {entry["id"]: entry["people"] for entry in report.json()["entries"]}
        assert entries["T003"] == graded
        page = report.html()
        assert "people: Contains" in page
        assert "0.667 (3)" in page


def test_several_people_and_labels_in_a_column(folder: Path) -> None:
    run = f"{swept(folder).run}:T001"
    sheet = reviewed(folder, [run], lambda item: "1" if "coolant" in item["user_input"] else "")
    given = [{"id": r["id"], "user_input": r["user_input"], "human": 0} for r in ROWS[1:]]
    (folder / "bo.jsonl").write_text("\n".join(map(json.dumps, given)))
    with Workbench.open(folder) as bench:
        bench.calibrate(run, [sheet], Calibrating("Contains"))
        column = Calibrating("Contains", column="human")
        bench.calibrate(run, [folder / "bo.jsonl"], column)
    # The coolant has grades 1 and 0, the filter 0: both answers have the same weight.
    grade = swept(folder).trials[1].people["Contains"]
    assert (grade.mean, grade.n) == (0.25, 3)


def test_grades_are_kept_only_where_asked_for_and_a_damaged_file_is_named(folder: Path) -> None:
    run = f"{swept(folder).run}:T001"
    sheet = reviewed(folder, [run], lambda item: "1")
    kept = folder / "calibrations" / "grades.jsonl"
    with Workbench.open(folder) as bench:
        assert bench.calibrate(run, [sheet], Calibrating("Contains", record=False)).grades is None
        assert not kept.exists()
        bench.calibrate(run, [sheet], Calibrating("Contains"))
    assert "coolant" not in kept.read_text()
    kept.write_text(kept.read_text() + "{\n")
    with pytest.raises(TestsetError, match=r"not a grade of an answer\n.*grades\.jsonl:4"):
        swept(folder)
