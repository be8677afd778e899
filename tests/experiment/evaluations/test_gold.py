"""Testsets of a project: splits, openings, and documents that changed under the gold."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from small_project import MANUAL, MakeProject

from ragwright import Workbench
from ragwright.core import TestsetError
from ragwright.experiment import EvaluationOptions
from ragwright.project import ProjectFolder
from ragwright.testsets import Openings, project_testset

QUESTIONS = {
    "The brake fluid must be changed every two years.": "When is brake fluid changed?",
    "The coolant must be changed every five years.": "When is coolant changed?",
    "The oil filter must be changed every 15,000 kilometres.": "When is the oil filter changed?",
}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = MakeProject(tmp_path)()
    with Workbench.open(folder) as bench:
        bench.ingest()
    return folder


def written(project: Path, named: bool = False) -> str:
    with Workbench.open(project) as bench:
        document = next(d for d in bench.documents() if "coolant" in d.text)
    rows = []
    for number, (text, question) in enumerate(QUESTIONS.items()):
        start = document.text.index(text)
        span = {
            "document_id": document.id,
            "start": start,
            "end": start + len(text),
            "text": text,
        }
        split = {"metadata": {"split": "tune" if number else "confirm"}} if named else {}
        rows.append({"user_input": question, "reference_spans": [span], **split})
    path = project / "testsets" / "set.jsonl"
    path.parent.mkdir(exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


def test_all_rows_where_none_names_a_split_and_tune_where_some_do(project: Path) -> None:
    folder = ProjectFolder(project)
    assert len(project_testset(folder, written(project)).rows) == 3
    tune = project_testset(folder, written(project, named=True))
    assert (len(tune.rows), tune.split) == (2, "tune")
    assert "only the tune split" in tune.notes[-1]
    assert not (folder.testsets / "openings.jsonl").exists()


def test_confirm_and_all_are_written_down_and_a_dry_run_is_not(project: Path) -> None:
    folder = ProjectFolder(project)
    address = written(project, named=True)
    log = folder.testsets / "openings.jsonl"
    assert len(project_testset(folder, address, "confirm", dry_run=True).rows) == 1
    assert not log.exists()
    assert len(project_testset(folder, address, "confirm").rows) == 1
    assert len(project_testset(folder, address, "all", purpose="a look").rows) == 3
    assert [(o.purpose, o.rows) for o in Openings.of(log)] == [("eval", 1), ("a look", 1)]


@pytest.mark.parametrize("answers", [False, True])
def test_rows_whose_documents_changed_are_named(project: Path, answers: bool) -> None:
    address = written(project)
    changed = "New first line.\n\n" + MANUAL.replace("every five years", "every six years")
    (project / "docs" / "service.md").write_text(changed)
    with Workbench.open(project) as bench:
        bench.ingest()
        measures = "SpanIoU@5" if answers else "HitRate@1"
        testset = project_testset(bench.project.folder, address)
        result, _ = bench.evaluate(testset, measures, EvaluationOptions(answers=answers))
    assert [r.row_id for r in result.results] == ["1", "3"]
    assert any("1 of 3 rows are left out, the documents changed: 2" in n for n in result.notes)
    assert any("measured at its new place: 1, 3" in n for n in result.notes)


def test_where_all_changed_nothing_is_measured(project: Path) -> None:
    address = written(project)
    (project / "docs" / "service.md").write_text("# Service plan\n\nNothing is changed ever.\n")
    with Workbench.open(project) as bench:
        bench.ingest()
        with pytest.raises(TestsetError, match="all 3 rows changed"):
            bench.evaluate(address, "HitRate@1")


def test_gold_passages_are_gold_where_the_index_holds_their_text(project: Path) -> None:
    rows = [
        {"user_input": question, "reference_contexts": [text.upper().replace(" ", "\n ", 2)]}
        for text, question in QUESTIONS.items()
    ]
    rows[2]["reference_contexts"] = ["The moon must be changed every year."]
    with Workbench.open(project) as bench:
        found, _ = bench.evaluate(rows, "Recall@5, MRR@5", EvaluationOptions(answers=False))
        answered, _ = bench.evaluate(rows, "Recall@5", EvaluationOptions(answers=True))
    assert (found["Recall@5"].n, found["Recall@5"].mean) == (2, 1.0)
    assert found["Recall@5"].no_gold == 1
    assert (answered["Recall@5"].n, answered["Recall@5"].mean) == (2, 1.0)
    note = "gold passages of 2 rows were found in the index by their text; 1 of 3 passages are not"
    assert any(one.startswith(note) for one in found.notes)


def test_gold_ids_and_spans_win_over_gold_passages(project: Path) -> None:
    with Workbench.open(project) as bench:
        name = next(iter(bench.documents())).id
        row = {"user_input": "?", "reference_ids": [name], "reference_contexts": ["moon"]}
        found, _ = bench.evaluate([row], "Recall@5")
    assert found["Recall@5"].n == 1
    assert not any("by their text" in note for note in found.notes)
