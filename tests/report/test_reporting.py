"""Reports on the runs of a real project: found by name, read from the run store alone."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from small_project import MakeProject

from ragwright import Workbench
from ragwright.core import StoreError, StudyError
from ragwright.experiment import (
    DiagnosisOptions,
    EvaluationOptions,
    read_study,
)
from ragwright.project import Session
from ragwright.report import Report, ReportOptions, Subject, report_subject
from ragwright.testing import Reply, ScriptedServer, ServerRequest
from ragwright.testsets import project_testset, read_rows

FACTS = [
    ("How often must the brake fluid be changed?", "every two years", "service.md"),
    ("How often must the coolant be changed?", "every five years", "service.md"),
    ("When is the oil filter changed?", "every 15,000 kilometres", "service.md"),
    ("What does APP_w304 mean?", "two different positions", "codes.md"),
    ("What does APP_w305 mean?", "the brake light switch does not respond", "codes.md"),
    ("What reports two different positions?", "the accelerator pedal sensor", "codes.md"),
]
ROWS = [
    {
        "id": f"q{n}",
        "user_input": question,
        "reference": reference,
        "reference_ids": [f"docs/{document}"],
        "split": ("tune", "confirm")[n % 2],
    }
    for n, (question, reference, document) in enumerate(FACTS * 3)
]


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project with a sweep, its confirmation, two evaluations and a diagnosis."""

    def reply(request: ServerRequest) -> str:
        return f"{request.prompt[-90:]} [1]"

    base = tmp_path_factory.mktemp("reporting")
    with ScriptedServer(reply) as server:
        settings = f"answer: {{model: '{server.url}#m'}}\nchunk: {{size: 12, overlap: 0}}\n"
        folder = MakeProject(base)(settings)
        (folder / "testsets").mkdir()
        asked = folder / "testsets" / "set.jsonl"
        asked.write_text("\n".join(map(json.dumps, ROWS)))
        (folder / "wide.yaml").write_text(
            f"study: {{testset: '{asked}', measures: 'TokenF1, KPrecision'}}\n"
            "chunk: {size: [12, 40], overlap: 4}\nretrieve: {top_k: [1, 3]}\n"
        )
        with Workbench.open(folder) as bench:
            bench.ingest()
            swept = bench.sweep(read_study(bench.project, folder / "wide.yaml"))
            bench.confirm(swept.run)
            testset = project_testset(bench.project.folder, str(asked), "tune")
            bench.diagnose(testset, "nDCG@5, TokenF1", DiagnosisOptions(name="stages"))
        for top_k in (1, 3):
            session = Session((f"retrieve.top_k={top_k}",))
            with Workbench.open(folder, session) as bench:
                how = EvaluationOptions(answers=True, name=f"k{top_k}")
                bench.evaluate(str(asked), "TokenF1, KPrecision", how)
    return folder


def subject(folder: Path, *names: str, how: ReportOptions | None = None) -> Subject:
    with Workbench.open(folder) as bench:
        found = report_subject(bench.project.folder, bench.project.runs, names, how)
        Report(found).html()  # rows are read while the store is open
        return found


@pytest.mark.slow
def test_a_study_with_its_confirmation(project: Path) -> None:
    found = subject(project, "wide")
    assert found.kind == "study"
    assert [entry.id for entry in found.entries] == [f"T{n:03d}" for n in range(5)]
    assert found.incumbent == "T000"
    assert set(found.boards[0].entries) == {entry.id for entry in found.entries}
    assert found.verdict is not None
    with Workbench.open(project) as bench:
        [run] = bench.project.runs.list("sweep")
        confirmed = bench.project.runs.list("confirm")
        assert found.facts["run"] == run.id
    assert len(found.verdict.confirmations) == len(confirmed)
    assert found.openings == len(confirmed)
    best = found.best
    assert best is not None
    assert best.value("TokenF1") == max(entry.value("TokenF1") or 0 for entry in found.entries)


@pytest.mark.slow
def test_the_same_report_after_the_cache_is_gone(project: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(project, tmp_path / "project")

    def told() -> str:
        with Workbench.open(folder) as bench:
            return Report(report_subject(bench.project.folder, bench.project.runs, ["wide"])).html()

    before = told()
    shutil.rmtree(folder / ".ragwright" / "cache")
    shutil.rmtree(folder / "docs")
    assert told() == before


def test_numbers_are_those_that_were_stored(project: Path) -> None:
    with Workbench.open(project) as bench:
        stored = bench.results("k3")
    found = subject(project, "k1", "k3")
    assert found.kind == "pair"
    assert found.entries[1].summaries == stored.summaries
    assert [entry.label for entry in found.entries] == ["k1", "k3"]


@pytest.mark.slow
def test_names_of_runs(project: Path) -> None:
    with Workbench.open(project) as bench:
        newest = bench.project.runs.list("eval")[-1].id
    assert subject(project, "latest").facts["run"] == newest
    assert subject(project, newest).entries[0].id == newest
    assert subject(project, "latest~1").entries[0].label == "k1"
    with pytest.raises(StoreError, match="unknown run 'nothing'"):
        subject(project, "nothing")


def test_a_diagnosis(project: Path) -> None:
    found = subject(project, "stages")
    assert found.diagnosis is not None
    names = {chart.name for chart in Report(found).charts}
    assert "losses" in names
    assert "stages-TokenF1" in names


@pytest.mark.slow
def test_a_study_beside_a_run(project: Path) -> None:
    found = subject(project, "wide", "k3")
    assert found.entries[-1].label == "k3"
    assert found.entries[-1].id not in found.boards[0].entries
    pair = subject(project, "k3", "wide")
    assert pair.kind == "pair"
    assert pair.entries[1].label.startswith("T0")


def test_chosen_trials_are_kept_whole(project: Path) -> None:
    with Workbench.open(project) as bench:
        how = ReportOptions(("T003",))
        found = report_subject(bench.project.folder, bench.project.runs, ["wide"], how)
        whole = {
            entry.id
            for entry in found.entries
            if all(row.row is not None for row in entry.read(True))
        }
        assert whole == {"T000", "T003"}
        with pytest.raises(StoreError, match="no trial 'T099'"):
            report_subject(
                bench.project.folder, bench.project.runs, ["wide"], ReportOptions(("T099",))
            )


def test_rows_that_failed_have_their_reason(project: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(project, tmp_path / "project")
    with Workbench.open(folder) as bench:
        rows = read_rows(str(folder / "testsets" / "set.jsonl"))
        assert rows
        how = EvaluationOptions(answers=True, name="broken")
    with ScriptedServer(Reply(status=400)) as server:
        session = Session((f"answer.model={server.url}#gone",))
        with Workbench.open(folder, session) as bench:
            bench.evaluate(str(folder / "testsets" / "set.jsonl"), "TokenF1", how)
            found = report_subject(bench.project.folder, bench.project.runs, ["broken"])
            [entry] = found.entries
            states = {score.state for row in entry.read(True) for score in row.scores}
            reasons = {score.reason for row in entry.read(True) for score in row.scores}
            assert states == {"errored"}
            assert all(reasons)
            assert "has a score" in Report(found).headline.text


def test_studies_that_cannot_be_read(tmp_path: Path) -> None:
    folder = MakeProject(tmp_path)()
    with (
        Workbench.open(folder) as bench,
        pytest.raises((StoreError, StudyError), match="unknown run"),
    ):
        report_subject(bench.project.folder, bench.project.runs, ["latest"])
