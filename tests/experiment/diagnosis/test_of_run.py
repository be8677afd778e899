"""Where the rows of a stored run are lost, by its answers and passages alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from ragwright.core import ConfigError, Row, TestsetError
from ragwright.experiment import diagnose_run
from ragwright.project import ProjectFolder
from ragwright.report import run_diagnosis_json, run_diagnosis_table, write_lost_rows
from ragwright.testsets import Testset
from ragwright.workbench import Workbench

ASKED = ("right", "missed", "wrong", "failed", "silent")


def system(question: str) -> tuple[str, list[str]]:
    """A system that fails in one way for each question."""
    passages = ["The town is Paris."] if question in ("right", "wrong") else ["It rained."]
    if question == "failed":
        raise ValueError("down")
    answers = {"right": "Paris", "silent": "no idea"}
    return answers.get(question, "Rome"), passages if question != "silent" else []


def rows(**gold: object) -> list[dict[str, object]]:
    return [{"id": name, "question": name, "answer": "Paris", **gold} for name in ASKED]


@pytest.mark.parametrize(
    ("gold", "by"),
    [({"reference_contexts": ["The town is Paris."]}, "spans"), ({}, "words")],
)
def test_retrieval_is_told_from_answering(tmp_path: Path, gold: dict[str, object], by: str) -> None:
    ProjectFolder(tmp_path).begin()
    with Workbench.open(tmp_path) as bench:
        bench.evaluate(rows(**gold), "TokenF1", system=system)
        found = bench.diagnose_run()
    placed = {row.row_id: row.lost for row in found.rows}
    assert placed == {
        "right": "",
        "missed": "retrieve",
        "wrong": "generate",
        "failed": "errored",
        "silent": "retrieve",  # it returned no passages, and said so
    }
    assert {row.by for row in found.rows if row.row_id in ("right", "missed", "wrong")} == {by}
    assert found.stage == ""  # so few rows prove nothing
    assert "Too few rows to prove" in " ".join(found.verdict)
    assert any("filters, reranking, cuts and judges are not separated" in n for n in found.notes)


@pytest.mark.parametrize("missed", [9, 1])
def test_the_place_that_loses_more_is_named_where_that_is_proven(
    tmp_path: Path, missed: int
) -> None:
    asked = [
        {"id": str(n), "question": "missed" if n < missed else "wrong", "answer": "Paris"}
        for n in range(10)
    ]
    ProjectFolder(tmp_path).begin()
    with Workbench.open(tmp_path) as bench:
        bench.evaluate(asked, "TokenF1", system=system)
        found = bench.diagnose_run()
    assert found.stage == ("retrieve" if missed == 9 else "generate")
    assert "p = 0.021" in " ".join(found.verdict)


def test_a_run_by_ids(tmp_path: Path) -> None:
    asked = [Row("1", "q", reference="Paris", reference_ids={"a": 1})]
    ProjectFolder(tmp_path).begin()
    with Workbench.open(tmp_path) as bench:
        passages = [{"text": "so", "id": "b"}]
        bench.evaluate(Testset("t", tuple(asked)), "TokenF1", system=lambda q: ("Rome", passages))
        (row,) = bench.diagnose_run().rows
    assert (row.lost, row.by, row.gold) == ("retrieve", "ids", False)


def test_a_run_without_references_says_what_is_missing(tmp_path: Path) -> None:
    ProjectFolder(tmp_path).begin()
    with Workbench.open(tmp_path) as bench:
        asked = [{"question": "right"}]
        bench.evaluate(asked, "KPrecision", system=system)
        with pytest.raises(TestsetError, match="a reference to compare it with"):
            diagnose_run(bench.results())


def test_a_run_is_split_by_a_field_and_its_rows_are_shown(tmp_path: Path) -> None:
    ProjectFolder(tmp_path).begin()
    given = [{**row, "kind": "yes" if row["id"] == "right" else "no"} for row in rows()]
    with Workbench.open(tmp_path) as bench:
        bench.evaluate(given, "TokenF1", system=system)
        found = bench.diagnose_run(by=["kind"])
        with pytest.raises(TestsetError, match="no row has a value in 'sort'"):
            bench.diagnose_run(by=["sort"])
    assert found.parts["kind = yes"].losses == {"": 1}
    assert found.parts["kind = no"].losses["generate"] == 1
    assert sum(part.losses.get("", 0) for part in found.parts.values()) == 1
    text = run_diagnosis_table(found)
    assert "kind = no" in text
    assert "rule: an answer is right if it holds a gold answer of up to 5 words" in text
    assert run_diagnosis_json(found)["parts"]["kind = no"]["losses"]["generate"] == 1
    shown = write_lost_rows(found, "generate")
    assert "wrong: wrong\n  gold: Paris\n  answer: Rome" in shown
    with pytest.raises(ConfigError, match="no row can be lost at 'rerank'"):
        write_lost_rows(found, "rerank")
