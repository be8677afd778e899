"""`-o rows.csv|jsonl|json|parquet|xlsx`: questions, answers, scores, reasons, passages."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest
from command_line import ragwright

from ragwright.experiment import read_results

ROWS: list[dict[str, Any]] = [
    {
        "id": "good",
        "user_input": "Who?",
        "response": "=Ada, by name",
        "reference": "Ada",
        "retrieved_contexts": ["Ada was first.", "=1+1"],
        "reference_ids": {"a.md": 2},
        "retrieved_context_ids": ["a.md", "b.md"],
        "team": "red",
        "year": 3,
    },
    {"id": "none", "user_input": "Where?", "retrieved_contexts": ["Here."], "reference": "Here"},
    {"id": "gone", "user_input": "When?", "response": "x", "metadata": {"marks": ["a", "b"]}},
    {
        "id": "mute",
        "user_input": "Why?",
        "response": "I do not know",
        "reference": "so",
        "abstained": True,
        "answerable": False,
    },
]
MEASURES = ("--measures", "TokenF1, nDCG@10, KPrecision")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "rows.jsonl").write_text("\n".join(map(json.dumps, ROWS)), "utf-8")
    return tmp_path


def records(path: Path) -> list[dict[str, Any]]:
    """The rows of a file as another program reads them; cells without a value left out."""
    if path.suffix == ".csv":
        with path.open(encoding="utf-8", newline="") as file:
            found: list[dict[str, Any]] = list(csv.DictReader(file))
    elif path.suffix == ".json":
        found = json.loads(path.read_text("utf-8"))["rows"]
    else:
        import pandas

        read = pandas.read_parquet if path.suffix == ".parquet" else _sheet
        found = read(path).to_dict("records")
    return [{k: v for k, v in row.items() if str(v) not in ("None", "", "nan")} for row in found]


def _sheet(path: Path) -> Any:
    import pandas

    return pandas.read_excel(path, engine="calamine")


@pytest.mark.parametrize("name", ["out.csv", "out.json", "out.parquet", "out.xlsx"])
def test_a_file_holds_each_row_whole(folder: Path, name: str) -> None:
    ragwright(folder, "score", "rows.jsonl", *MEASURES, "-q", "-o", name)
    good, none, gone, mute = _texts(records(folder / name))
    assert good["user_input"] == "Who?"
    assert good["response"].lstrip("'") == "=Ada, by name"
    assert good["reference"] == "Ada"
    assert float(good["TokenF1"]) == pytest.approx(0.5)
    assert good["TokenF1 state"] == "scored"
    assert "Ada was first." in good["retrieved_contexts"]
    assert (good["team"], float(good["year"])) == ("red", 3)
    assert "TokenF1" not in none
    assert (none["TokenF1 state"], none["TokenF1 reason"]) == (
        "not_applicable",
        "the row has no response",
    )
    assert gone["nDCG@10 state"] == "not_applicable (no gold)"
    assert mute["TokenF1 state"] == "abstained (unanswerable)"


def _texts(rows: list[dict[str, Any]]) -> list[dict[str, str]]:
    return [{name: str(value) for name, value in row.items()} for row in rows]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["a.csv", "a.json", "a.jsonl", "a.parquet", "a.xlsx"])
def test_a_file_is_scored_again_and_compared(folder: Path, name: str) -> None:
    first = ragwright(folder, "score", "rows.jsonl", *MEASURES, "--json").stdout
    ragwright(folder, "score", "rows.jsonl", *MEASURES, "-q", "-o", name)
    again = ragwright(folder, "score", name, *MEASURES, "--json").stdout
    assert json.loads(again)["measures"] == json.loads(first)["measures"]
    assert len(json.loads(again)["notes"]) == len(json.loads(first)["notes"])
    read = read_results(folder / name)
    told = json.loads(first)["measures"]
    for summary in read.summaries:
        mine = told[summary.measure]
        assert (summary.mean, summary.n, summary.coverage, dict(summary.states)) == (
            mine["mean"],
            mine["n"],
            mine["coverage"],
            mine["states"],
        )
        assert (summary.no_gold, summary.unanswerable) == (mine["no_gold"], mine["unanswerable"])
    ragwright(folder, "compare", name, name)


def test_json_holds_rows_where_that_is_asked_for(folder: Path) -> None:
    bare = ragwright(folder, "score", "rows.jsonl", *MEASURES, "--json").stdout
    assert "rows" not in json.loads(bare)
    full = json.loads(
        ragwright(folder, "score", "rows.jsonl", *MEASURES, "--json", "--rows").stdout
    )
    assert [row["id"] for row in full["rows"]] == ["good", "none", "gone", "mute"]
    assert full["rows"][0]["retrieved_contexts"] == ["Ada was first.", "=1+1"]
    assert full["rows"][0]["reference_ids"] == {"a.md": 2}


@pytest.mark.parametrize("name", ["rows.xls", "rows.xslx", "rows.pdf", "rows.CSVV"])
def test_an_unknown_ending_is_an_error_before_anything_is_scored(folder: Path, name: str) -> None:
    done = ragwright(folder, "score", "rows.jsonl", "-o", name, code=1)
    assert "unknown ending" in done.stderr
    assert ".xlsx" in done.stderr
    assert not (folder / name).exists()


def test_a_sheet_runs_nothing_and_says_what_is_cut(folder: Path) -> None:
    import python_calamine as calamine

    long = {"id": "1", "user_input": "?", "response": "=1+1", "reference": "y" * 40_000}
    (folder / "long.jsonl").write_text(json.dumps(long), "utf-8")
    done = ragwright(folder, "score", "long.jsonl", "--measures", "TokenF1", "-o", "l.xlsx")
    assert "1 cells are cut at 32,767 characters" in done.stderr
    sheet = calamine.CalamineWorkbook.from_path(folder / "l.xlsx").get_sheet_by_index(0)
    head, row = sheet.to_python()
    assert row[head.index("response")] == "=1+1"  # a text: nothing was computed
    assert str(row[head.index("reference")]).endswith(" … (cut)")


def test_a_run_writes_the_questions_of_rows_without_an_answer(tmp_path: Path) -> None:
    (tmp_path / "rag.py").write_text(
        "def ask(q):\n    if q == 'b':\n        raise ValueError('down')\n    return q\n", "utf-8"
    )
    (tmp_path / "t.csv").write_text("question,answer\na,a\nb,b\n", "utf-8")
    words = ("eval", "--system", "rag:ask", "--testset", "t.csv", "--measures", "TokenF1")
    ragwright(tmp_path, *words, "-q", "-o", "out.csv")
    first, second = records(tmp_path / "out.csv")
    assert (first["user_input"], first["response"], first["TokenF1"]) == ("a", "a", "1.0")
    assert (second["user_input"], second["TokenF1 state"]) == ("b", "errored")
    assert "ValueError: down" in second["TokenF1 reason"]


def test_a_report_is_no_sheet(folder: Path) -> None:
    (folder / "ragwright.yaml").write_text("sources: [docs/]\n", "utf-8")
    ragwright(folder, "score", "rows.jsonl", *MEASURES, "-q")
    done = ragwright(folder, "report", "latest", "-o", "rows.xlsx", code=1)
    assert "unknown ending '.xlsx'" in done.stderr
    assert "ragwright score latest -o rows.xlsx" in done.stderr
