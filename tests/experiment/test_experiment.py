"""What a measurement pins: its rows and their gold, files of settings, one state of the index."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from small_project import MANUAL, MakeProject

from ragwright import Session, Workbench
from ragwright.core import PromptError, Row, TestsetError
from ragwright.experiment import EvaluationOptions, plan_evaluation
from ragwright.project import ProjectFolder
from ragwright.testing import ScriptedServer, ServerRequest
from ragwright.testsets import Openings, Testset, project_testset

ANSWERS, RANKINGS = EvaluationOptions(answers=True), EvaluationOptions(answers=False)
TEMPLATE = "parts:\n  role: You answer for {word}.\n"

# -- files that settings name --------------------------------------------------------------------


def questions(rows: int = 2) -> Testset:
    gold: dict[str, Any] = {"reference": "every two years"}
    gold["reference_ids"] = {"docs/service.md": 1}
    asked = "How often must brake fluid number {} be changed?"
    return Testset("rows", tuple(Row(f"q{n}", asked.format(n), **gold) for n in range(rows)))


def manifest(folder: Path, answers: bool = True) -> Mapping[str, Any]:
    with Workbench.open(folder) as bench:
        bench.ingest()
        measures, how = ("TokenF1", ANSWERS) if answers else ("MRR@5", RANKINGS)
        return plan_evaluation(bench.project, questions(), measures, how).job.manifest


GLOSSARY = "retrieve: {query: {methods: [glossary]}, glossary: terms.yaml}\n"
OWN = "prompt: {template: own.yaml}\n"


@pytest.mark.parametrize(
    ("settings", "name", "before", "after", "answers"),
    [
        (OWN, "own.yaml", TEMPLATE.format(word="Acme"), TEMPLATE.format(word="Bolt"), True),
        (GLOSSARY, "terms.yaml", "brake: stopping device\n", "brake: slowing device\n", True),
        (GLOSSARY, "terms.yaml", "brake: stopping device\n", "brake: slowing device\n", False),
    ],
    ids=["a template", "a glossary", "a glossary without answers"],
)
def test_what_a_named_file_says_is_part_of_the_manifest(
    tmp_path: Path, settings: str, name: str, before: str, after: str, answers: bool
) -> None:
    folder = MakeProject(tmp_path)()
    assert not manifest(folder, answers).keys() & {"template", "glossary", "databases"}
    MakeProject(tmp_path)(settings)
    (folder / name).write_text(before)
    first = manifest(folder, answers)
    assert manifest(folder, answers) == first
    (folder / name).write_text(after)
    assert manifest(folder, answers) != first


def test_what_a_database_holds_is_part_of_the_manifest(tmp_path: Path) -> None:
    parts = "{name: parts, address: 'sqlite:///parts.db'}"
    folder = MakeProject(tmp_path)(f"retrieve:\n  databases: [{parts}]\n")
    with closing(sqlite3.connect(folder / "parts.db")) as db:
        db.execute("PRAGMA journal_mode = wal")
        db.execute("CREATE TABLE parts (name TEXT)")
        db.commit()
        first = manifest(folder)
        assert manifest(folder) == first
        db.execute("INSERT INTO parts VALUES ('brake')")
        db.commit()
        assert manifest(folder) != first


@pytest.mark.slow
def test_an_ingest_while_rows_are_answered_changes_none_of_them(tmp_path: Path) -> None:
    calls: list[str] = []

    def reply(request: ServerRequest) -> str:
        if not calls:
            (folder / "docs" / "service.md").write_text("# Plan\n\nNEWER brake fluid text.\n")
            with Workbench.open(folder) as other:
                other.ingest()
        calls.append(request.prompt)
        return "every two years [1]"

    with ScriptedServer(reply) as server:
        model = f"{server.url}#m"
        folder = MakeProject(tmp_path)(
            f"answer: {{model: '{model}'}}\nmodels: {{'{model}': {{concurrency: 1}}}}\n"
        )
        with Workbench.open(folder, Session(jobs=1)) as bench:
            bench.ingest()
            bench.evaluate(questions(200), "TokenF1", ANSWERS)
    assert len(calls) == 200  # more than are open at once
    assert not any("NEWER" in prompt for prompt in calls)


def test_a_template_is_read_once(tmp_path: Path) -> None:
    calls: list[str] = []

    def reply(request: ServerRequest) -> str:
        (folder / "own.yaml").write_text(TEMPLATE.format(word="Bolt"))
        calls.append(str(request.body))
        return "every two years [1]"

    with ScriptedServer(reply) as server:
        folder = MakeProject(tmp_path)(f"answer: {{model: '{server.url}#m'}}\n{OWN}")
        (folder / "own.yaml").write_text(TEMPLATE.format(word="Acme"))
        with Workbench.open(folder, Session(jobs=1)) as bench:
            bench.ingest()
            bench.evaluate(questions(20), "TokenF1", ANSWERS)
            assert len(calls) == 20
            assert all("for Acme." in prompt for prompt in calls)
            bench.evaluate(questions(1), "TokenF1", ANSWERS)
            assert "for Bolt." in calls[-1]
    (folder / "own.yaml").write_text("parts:\n  role: a\n  role: b\n")
    with pytest.raises(PromptError) as caught:
        manifest(folder)
    assert str(caught.value.where).endswith("own.yaml:3")


# -- splits, openings, and documents that changed under the gold -----------------------------------

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
        span = {"document_id": document.id, "start": start, "end": start + len(text), "text": text}
        split = {"metadata": {"split": "tune" if number else "confirm"}} if named else {}
        rows.append({"user_input": question, "reference_spans": [span], **split})
    path = project / "testsets" / "set.jsonl"
    path.parent.mkdir(exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


def test_splits_are_opened_in_writing_and_a_dry_run_is_not(project: Path) -> None:
    folder = ProjectFolder(project)
    log = folder.testsets / "openings.jsonl"
    assert len(project_testset(folder, written(project)).rows) == 3  # where none names a split
    address = written(project, named=True)
    tune = project_testset(folder, address)
    assert (len(tune.rows), tune.split) == (2, "tune")
    assert "only the tune split" in tune.notes[-1]
    assert len(project_testset(folder, address, "confirm", dry_run=True).rows) == 1
    assert not log.exists()
    assert len(project_testset(folder, address, "confirm").rows) == 1
    assert len(project_testset(folder, address, "all", purpose="a look").rows) == 3
    assert [(o.purpose, o.rows) for o in Openings.of(log)] == [("eval", 1), ("a look", 1)]


@pytest.mark.parametrize(("measure", "how"), [("HitRate@1", RANKINGS), ("SpanIoU@5", ANSWERS)])
def test_rows_of_changed_text_are_named(
    project: Path, measure: str, how: EvaluationOptions
) -> None:
    address = written(project)
    changed = "New first line.\n\n" + MANUAL.replace("every five years", "every six years")
    for text in (changed, "# Service plan\n\nNothing is changed ever.\n"):
        (project / "docs" / "service.md").write_text(text)
        with Workbench.open(project) as bench:
            bench.ingest()
            if text != changed:
                with pytest.raises(TestsetError, match="all 3 rows changed"):
                    bench.evaluate(address, measure, how)
                return
            testset = project_testset(bench.project.folder, address)
            result, _ = bench.evaluate(testset, measure, how)
        assert [r.row_id for r in result.results] == ["1", "3"]
        left_out = "1 of 3 rows are left out, the documents changed: 2"
        assert any(left_out in note for note in result.notes)
        assert any("measured at its new place: 1, 3" in note for note in result.notes)


def test_gold_passages_are_gold_where_the_index_holds_their_text(project: Path) -> None:
    rows: list[dict[str, Any]] = [
        {"user_input": question, "reference_contexts": [text.upper().replace(" ", "\n ", 2)]}
        for text, question in QUESTIONS.items()
    ]
    rows[2]["reference_contexts"] = ["The moon must be changed every year."]
    with Workbench.open(project) as bench:
        found, _ = bench.evaluate(rows, "Recall@5, MRR@5", RANKINGS)
        answered, _ = bench.evaluate(rows, "Recall@5", ANSWERS)
        name = next(iter(bench.documents())).id
        row = {"user_input": "?", "reference_ids": [name], "reference_contexts": ["moon"]}
        named, _ = bench.evaluate([row], "Recall@5")
        # Gold documents that are not indexed are counted.
        lost = Row("x", "?", reference_ids={"docs/lost.md": 1, "docs/service.md": 1})
        some = plan_evaluation(bench.project, Testset("t", (lost,)), "MRR@5", RANKINGS).rows
        whole = plan_evaluation(bench.project, questions(), "MRR@5", RANKINGS).rows
    assert (found["Recall@5"].n, found["Recall@5"].mean) == (2, 1.0)
    assert found["Recall@5"].no_gold == 1
    assert (answered["Recall@5"].n, answered["Recall@5"].mean) == (2, 1.0)
    note = "gold passages of 2 rows were found in the index by their text; 1 of 3 passages are not"
    assert any(one.startswith(note) for one in found.notes)
    assert named["Recall@5"].n == 1  # ids and spans win over passages
    assert not any("by their text" in note for note in named.notes)
    assert some.notes == ("1 of 2 gold documents are not in the index",)
    assert whole.notes == ()
