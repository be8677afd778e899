"""Reports on the runs of a real project: found by name, read from the run store alone."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from small_project import MakeProject
from study_project import fact_rows, study_project, swept

from ragwright import EvaluationOptions, Session, Workbench
from ragwright.core import StoreError, StudyError
from ragwright.experiment import DiagnosisOptions
from ragwright.report import Report, Subject, report_subject
from ragwright.testing import ScriptedServer, ServerRequest
from ragwright.testsets import project_testset

STUDY = "chunk: {size: [12, 40], overlap: 4}\nretrieve: {top_k: [1, 3]}\n"


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project with a sweep, its confirmation, two evaluations and a diagnosis."""

    def reply(request: ServerRequest) -> str:
        return f"{request.prompt[-90:]} [1]"

    with ScriptedServer(reply) as server:
        settings = f"answer: {{model: '{server.url}#m'}}\nchunk: {{size: 12, overlap: 0}}\n"
        measures = "TokenF1, KPrecision"
        base = tmp_path_factory.mktemp("reporting")
        folder = study_project(
            base, fact_rows(18, "tune", "confirm"), STUDY, settings, measures=measures
        )
        run = swept(folder).run
        asked = str(folder / "set.jsonl")
        with Workbench.open(folder) as bench:
            bench.confirm(run)
            testset = project_testset(bench.project.folder, asked, "tune")
            bench.diagnose(testset, "nDCG@5, TokenF1", DiagnosisOptions(name="stages"))
        for top_k in (1, 3):
            with Workbench.open(folder, Session((f"retrieve.top_k={top_k}",))) as bench:
                how = EvaluationOptions(answers=True, name=f"k{top_k}")
                bench.evaluate(asked, measures, how)
    return folder


def subject(folder: Path, *names: str) -> Subject:
    with Workbench.open(folder) as bench:
        found = report_subject(bench.project.folder, bench.project.runs, names)
        Report(found).html()  # rows are read while the store is open
        return found


@pytest.mark.slow
def test_a_study_with_its_confirmation(project: Path) -> None:
    found = subject(project, "s")
    names = [f"T{n:03d}" for n in range(5)]
    assert (found.kind, [entry.id for entry in found.entries]) == ("study", names)
    assert found.incumbent == "T000"
    assert set(found.boards[0].entries) == {*names}
    assert found.verdict is not None
    with Workbench.open(project) as bench:
        [run] = bench.project.runs.list("sweep")
        confirmed = len(bench.project.runs.list("confirm"))
    assert found.facts["run"] == run.id
    assert len(found.verdict.confirmations) == found.openings == confirmed
    best = found.best
    assert best is not None
    assert best.value("TokenF1") == max(entry.value("TokenF1") or 0 for entry in found.entries)


@pytest.mark.slow
def test_the_same_report_after_the_cache_is_gone(project: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(project, tmp_path / "project")

    def told() -> str:
        with Workbench.open(folder) as bench:
            return Report(report_subject(bench.project.folder, bench.project.runs, ["s"])).html()

    before = told()
    shutil.rmtree(folder / ".ragwright" / "cache")
    shutil.rmtree(folder / "docs")
    assert told() == before


def test_runs_are_found_by_name_and_their_numbers_are_those_stored(project: Path) -> None:
    with Workbench.open(project) as bench:
        newest = bench.project.runs.list("eval")[-1].id
        stored = bench.results("k3")
    found = subject(project, "k1", "k3")
    assert (found.kind, [entry.label for entry in found.entries]) == ("pair", ["k1", "k3"])
    assert found.entries[1].summaries == stored.summaries
    assert subject(project, "latest").facts["run"] == newest
    assert subject(project, newest).entries[0].id == newest
    assert subject(project, "latest~1").entries[0].label == "k1"
    with pytest.raises(StoreError, match="unknown run 'nothing'"):
        subject(project, "nothing")


def test_a_diagnosis(project: Path) -> None:
    found = subject(project, "stages")
    assert found.diagnosis is not None
    assert {"losses", "stages-TokenF1"} <= {chart.name for chart in Report(found).charts}


def test_a_study_is_reported_alone(project: Path) -> None:
    with pytest.raises(StoreError, match="of `ragwright sweep`, which is reported alone"):
        subject(project, "k3", "s")


def test_a_project_without_runs_has_no_latest(tmp_path: Path) -> None:
    with pytest.raises((StoreError, StudyError), match="unknown run"):
        subject(MakeProject(tmp_path)(), "latest")
