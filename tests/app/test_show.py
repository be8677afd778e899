"""What commands show and write: hits, traces, files behind `-o`."""

from __future__ import annotations

import csv
import json
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from command_line import ragwright
from story_tools import csv_rows, make_project, read_rows, run, write_files, write_rows

from ragwright.core import TestsetError
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
    {"id": "mute", "user_input": "Why?", "response": "I do not know", "reference": "so"}
    | {"abstained": True, "answerable": False},
]
SCORE = ("score", "rows.jsonl", "--measures", "TokenF1, nDCG@10, KPrecision")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_rows(tmp_path / "rows.jsonl", ROWS)
    return tmp_path


def records(path: Path) -> list[dict[str, str]]:
    """The rows of a file as another program reads them; cells without a value left out."""
    if path.suffix == ".csv":
        found: list[dict[str, Any]] = list(csv_rows(path))
    elif path.suffix == ".json":
        found = json.loads(path.read_text("utf-8"))["rows"]
    else:
        import pandas

        found = pandas.read_parquet(path).to_dict("records")
    texts = [{name: str(value) for name, value in row.items()} for row in found]
    return [{k: v for k, v in row.items() if v not in ("None", "", "nan")} for row in texts]


@pytest.mark.parametrize("name", ["out.csv", "out.json", "out.jsonl", "out.parquet"])
def test_a_file_holds_each_row_whole_and_is_scored_again(folder: Path, name: str) -> None:
    first = json.loads(ragwright(folder, *SCORE, "--json").stdout)
    ragwright(folder, *SCORE, "-q", "-o", name)
    if not name.endswith("jsonl"):
        good, none, gone, mute = records(folder / name)
        assert good["user_input"] == "Who?"
        assert good["response"].lstrip("'") == "=Ada, by name"
        assert good["reference"] == "Ada"
        assert float(good["TokenF1"]) == pytest.approx(0.5)
        assert good["TokenF1 state"] == "scored"
        assert "Ada was first." in good["retrieved_contexts"]
        assert (good["team"], float(good["year"])) == ("red", 3)
        assert "TokenF1" not in none
        assert none["TokenF1 state"] == "not_applicable"
        assert none["TokenF1 reason"] == "the row has no response"
        assert gone["nDCG@10 state"] == "not_applicable (no gold)"
        assert mute["TokenF1 state"] == "abstained (unanswerable)"
    again = json.loads(ragwright(folder, SCORE[0], name, *SCORE[2:], "--json").stdout)
    assert again["measures"] == first["measures"]
    assert len(again["notes"]) == len(first["notes"])
    if not name.endswith("jsonl"):
        return
    for summary in read_results(folder / name).summaries:
        mine = first["measures"][summary.measure]
        facts = ("mean", "n", "coverage", "no_gold", "unanswerable")
        assert [getattr(summary, fact) for fact in facts] == [mine[fact] for fact in facts]
        assert dict(summary.states) == mine["states"]
    run(folder, f"compare {name} {name}")
    text = (folder / name).read_text("utf-8")
    (folder / "nan.jsonl").write_text(text.replace('"value": 0.5', '"value": NaN'), "utf-8")
    with pytest.raises(TestsetError, match="the file was changed since it was written"):
        read_results(folder / "nan.jsonl")


def test_a_run_writes_the_questions_of_rows_without_an_answer(tmp_path: Path) -> None:
    system = "def ask(q):\n    if q == 'b':\n        raise ValueError('down')\n    return q\n"
    write_files(tmp_path, {"rag.py": system, "t.csv": "question,answer\na,a\nb,b\n"})
    run(tmp_path, "eval --system rag:ask --testset t.csv --measures TokenF1 -q -o out.csv")
    first, second = records(tmp_path / "out.csv")
    assert (first["user_input"], first["response"], first["TokenF1"]) == ("a", "a", "1.0")
    assert (second["user_input"], second["TokenF1 state"]) == ("b", "errored")
    assert "ValueError: down" in second["TokenF1 reason"]


FORMULA = "=cmd|' /C calc'!A0"


@contextmanager
def full_disk(room: int) -> Iterator[None]:
    """No file grows beyond so many bytes: writing fails as on a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.fixture
def hostile(tmp_path: Path) -> Path:
    """Rows whose cells a spreadsheet would compute."""
    row = {"user_input": "-5 or +1?", "response": FORMULA, "reference": "@SUM(1)"}
    row |= {"persona_name": "+x"}
    contexts = {"retrieved_contexts": ["=1+1"]}
    rows = [{"id": f"={n}" if n else FORMULA, **row, **contexts} for n in range(40)]
    write_rows(tmp_path / "rows.jsonl", rows)
    return tmp_path


@pytest.mark.parametrize("kind", ["csv", "jsonl", "xml", "json", "txt", "xlsx", "parquet"])
def test_scores_on_a_full_disk_leave_the_old_file(hostile: Path, kind: str) -> None:
    name = f"out.{kind}"
    (hostile / name).write_text("as it was")
    with full_disk(64):
        done = ragwright(
            hostile, "score", "rows.jsonl", "--measures", "TokenF1", "-o", name, code=1
        )
    assert name in done.stderr
    assert (hostile / name).read_text() == "as it was"
    assert {path.name for path in hostile.iterdir()} == {"rows.jsonl", name}


def test_a_report_on_a_full_disk_leaves_the_old_page(hostile: Path) -> None:
    (hostile / "ragwright.yaml").write_text("sources: [docs/]\n")
    run(hostile, "score rows.jsonl --measures TokenF1 -q")
    (hostile / "page.html").write_text("as it was")
    with full_disk(200_000):
        done = ragwright(hostile, "report", "latest", "-o", "page.html", code=1)
        run(hostile, "report latest -o new.html", code=1)
    assert "page.html" in done.stderr
    assert (hostile / "page.html").read_text() == "as it was"
    assert not (hostile / "new.html").exists()


@pytest.mark.parametrize("name", ["out.csv", "sheet.csv"])
def test_no_sheet_runs_anything(hostile: Path, name: str) -> None:
    (hostile / "ragwright.yaml").write_text("sources: [docs/]\n")
    run(hostile, f"score rows.jsonl --measures TokenF1 -q{' -o out.csv' * (name == 'out.csv')}")
    if name != "out.csv":
        run(hostile, f"review latest --measures Groundedness -o {name}")
    with (hostile / name).open(encoding="utf-8-sig", newline="") as file:
        found = [cell for line in csv.reader(file) for cell in line]
    assert found.count(f"'{FORMULA}") == 40 + (name == "out.csv")  # there the id is one, too
    assert not any(cell.startswith(("=", "+", "@", "\t", "\r")) for cell in found)


def test_a_table_of_rows_is_read_without_its_guard(tmp_path: Path) -> None:
    with (tmp_path / "rows.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["id", "user_input", "response", "reference"])
        writer.writerow(["'=1", "-5", "'=a", "'=a"])
        writer.writerow(["2", "?", "''=a", "'=a"])
    run(tmp_path, "score rows.csv --measures EditDistance -o out.jsonl")
    one, two = (line["row"] for line in read_rows(tmp_path / "out.jsonl") if "row" in line)
    assert (one["id"], one["user_input"]) == ("=1", "-5")
    assert (one["response"], two["response"]) == ("=a", "'=a")


# -- hits and traces -------------------------------------------------------------------------


def test_the_text_shown_has_no_marks_of_headings_and_code(tmp_path: Path) -> None:
    page = "# Pump\n\nThe pump.\n\n## Seal\n\n```sh\n# turn it off first\npumpctl seal\n```\n\n"
    page += "### Wear\n\nThe seal wears."
    folder = make_project(tmp_path, {"pump.md": page}, "chunk: {by: whole}\n")
    shown = run(folder, "retrieve seal --explain")
    assert "Pump The pump. Seal # turn it off first pumpctl seal Wear The seal wears." in shown


def test_a_trace_names_no_document_of_another_tenant(tmp_path: Path) -> None:
    texts = {
        "ours.md": "---\ntenant: a\n---\n\n# XK9\n\nXK9 means that the pump is dry.\n",
        "secret.md": "---\ntenant: b\n---\n\n# YK9\n\nYK9 means that the tank is empty.\n",
    }
    make_project(tmp_path, texts, "retrieve: {query: {methods: [glossary]}}\n")
    for form in ((), ("--json",)):
        words = ("ask", "What do XK9 and YK9 mean?", "--trace", *form)
        assert "secret.md" in ragwright(tmp_path, *words).stdout
        told = ragwright(tmp_path, *words, "--filter", "tenant=a").stdout
        assert "ours.md" in told
        assert "secret.md" not in told
        assert "tank is empty" not in told
