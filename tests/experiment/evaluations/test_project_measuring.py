"""What a measurement pins: the files that settings name, and one state of index and prompt."""

from __future__ import annotations

import io
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from small_project import MakeProject

from ragwright import Session, Workbench
from ragwright.core import PromptError, Row
from ragwright.experiment import EvaluationOptions
from ragwright.experiment.evaluations import plan_evaluation
from ragwright.testing import ScriptedServer, ServerRequest
from ragwright.testsets import Testset

TEMPLATE = "parts:\n  role: You answer for {word}.\n"


def questions(rows: int = 2) -> Testset:
    made = tuple(
        Row(
            f"q{n}",
            f"How often must brake fluid number {n} be changed?",
            reference="every two years",
            reference_ids={"docs/service.md": 1},
        )
        for n in range(rows)
    )
    return Testset("rows", made)


def manifest(folder: Path, *, answers: bool = True) -> Mapping[str, Any]:
    with Workbench.open(folder) as bench:
        bench.ingest()
        measures = "TokenF1" if answers else "MRR@5"
        return plan_evaluation(
            bench.project, questions(), measures, EvaluationOptions(answers=answers)
        ).job.manifest


def test_nothing_is_said_of_files_where_none_is_named(tmp_path: Path) -> None:
    found = manifest(MakeProject(tmp_path)())
    assert not found.keys() & {"template", "glossary", "databases"}


@pytest.mark.slow
def test_what_a_template_says_is_part_of_the_manifest(tmp_path: Path) -> None:
    folder = MakeProject(tmp_path)("prompt: {template: own.yaml}\n")
    (folder / "own.yaml").write_text(TEMPLATE.format(word="Acme"))
    first = manifest(folder)
    assert manifest(folder) == first
    (folder / "own.yaml").write_text(TEMPLATE.format(word="Bolt"))
    assert manifest(folder) != first


@pytest.mark.parametrize("answers", [True, False])
def test_what_a_glossary_says_is_part_of_the_manifest(tmp_path: Path, *, answers: bool) -> None:
    setting = "retrieve: {query: {methods: [glossary]}, glossary: terms.yaml}\n"
    folder = MakeProject(tmp_path)(setting)
    (folder / "terms.yaml").write_text("brake: stopping device\n")
    first = manifest(folder, answers=answers)
    assert manifest(folder, answers=answers) == first
    (folder / "terms.yaml").write_text("brake: slowing device\n")
    assert manifest(folder, answers=answers) != first


@pytest.mark.slow
def test_what_a_database_holds_is_part_of_the_manifest(tmp_path: Path) -> None:
    folder = MakeProject(tmp_path)(
        "retrieve:\n  databases: [{name: parts, address: 'sqlite:///parts.db'}]\n"
    )
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
            bench.evaluate(questions(600), "TokenF1", EvaluationOptions(answers=True))
    assert len(calls) == 600
    assert not any("NEWER" in prompt for prompt in calls)


@pytest.mark.slow
def test_a_template_is_read_once_and_its_edit_changes_no_later_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[str] = []
    reads: list[object] = []

    opened = io.open

    def counted(file: Any, mode: str = "r", *how: Any, **more: Any) -> Any:
        if str(file).endswith("own.yaml") and "r" in mode:
            reads.append(file)
        return opened(file, mode, *how, **more)

    def reply(request: ServerRequest) -> str:
        (folder / "own.yaml").write_text(TEMPLATE.format(word="Bolt"))
        calls.append(str(request.body))
        return "every two years [1]"

    with ScriptedServer(reply) as server:
        folder = MakeProject(tmp_path)(
            f"answer: {{model: '{server.url}#m'}}\nprompt: {{template: own.yaml}}\n"
        )
        (folder / "own.yaml").write_text(TEMPLATE.format(word="Acme"))
        with Workbench.open(folder, Session(jobs=1)) as bench:
            bench.ingest()
            with monkeypatch.context() as patch:
                patch.setattr(io, "open", counted)
                bench.evaluate(questions(20), "TokenF1", EvaluationOptions(answers=True))
            assert len(reads) <= 2  # for its hash and its text; never for a row
            assert len(calls) == 20
            assert all("for Acme." in prompt for prompt in calls)
            bench.evaluate(questions(1), "TokenF1", EvaluationOptions(answers=True))
            assert "for Bolt." in calls[-1]


def test_a_wrong_template_is_said_with_its_line_before_the_first_row(tmp_path: Path) -> None:
    folder = MakeProject(tmp_path)("prompt: {template: own.yaml}\n")
    (folder / "own.yaml").write_text("parts:\n  role: a\n  role: b\n")
    with pytest.raises(PromptError) as caught:
        manifest(folder)
    assert str(caught.value.where).endswith("own.yaml:3")


def test_gold_documents_that_are_not_indexed_are_counted(tmp_path: Path) -> None:
    folder = MakeProject(tmp_path)()
    with Workbench.open(folder) as bench:
        bench.ingest()
        options = EvaluationOptions(answers=False)
        rows = plan_evaluation(bench.project, questions(), "MRR@5", options).rows
        lost = Row("x", "?", reference_ids={"docs/lost.md": 1, "docs/service.md": 1})
        other = Testset("t", (lost,))
        some = plan_evaluation(bench.project, other, "MRR@5", options).rows
    assert rows.notes == ()
    assert some.notes == ("1 of 2 gold documents are not in the index",)
