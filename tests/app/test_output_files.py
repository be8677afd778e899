"""Files behind `-o`: whole or as they were, and with no formula that a spreadsheet would run."""

from __future__ import annotations

import csv
import json
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from command_line import ragwright as called

FORMULA = "=cmd|' /C calc'!A0"
ROWS = [
    {
        "id": f"={n}" if n else FORMULA,
        "user_input": "-5 or +1?",
        "response": FORMULA,
        "reference": "@SUM(1)",
        "retrieved_contexts": ["=1+1"],
        "persona_name": "+x",
    }
    for n in range(40)
]


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
def rows(tmp_path: Path) -> Path:
    (tmp_path / "rows.jsonl").write_text("\n".join(map(json.dumps, ROWS)))
    return tmp_path


def cells(path: Path, delimiter: str = ",") -> list[str]:
    with path.open(encoding="utf-8-sig", newline="") as file:
        return [cell for line in csv.reader(file, delimiter=delimiter) for cell in line]


def harmless(found: list[str]) -> bool:
    return not any(cell.startswith(("=", "+", "@", "\t", "\r")) for cell in found)


@pytest.mark.parametrize(
    "name", ["out.csv", "out.jsonl", "out.xml", "out.json", "out.txt", "out.xlsx", "out.parquet"]
)
def test_scores_on_a_full_disk_leave_the_old_file(rows: Path, name: str) -> None:
    (rows / name).write_text("as it was")
    with full_disk(64):
        done = called(rows, "score", "rows.jsonl", "--measures", "TokenF1", "-o", name, code=1)
    assert name in done.stderr
    assert (rows / name).read_text() == "as it was"
    assert {path.name for path in rows.iterdir()} == {"rows.jsonl", name}


def test_a_report_on_a_full_disk_leaves_the_old_page(rows: Path) -> None:
    (rows / "ragwright.yaml").write_text("sources: [docs/]\n")
    called(rows, "score", "rows.jsonl", "--measures", "TokenF1", "-q")
    (rows / "page.html").write_text("as it was")
    with full_disk(200_000):
        done = called(rows, "report", "latest", "-o", "page.html", code=1)
        called(rows, "report", "latest", "-o", "new.html", code=1)
    assert "page.html" in done.stderr
    assert (rows / "page.html").read_text() == "as it was"
    assert not (rows / "new.html").exists()


@pytest.mark.slow
def test_scores_of_rows_run_nothing_in_a_spreadsheet(rows: Path) -> None:
    called(rows, "score", "rows.jsonl", "--measures", "TokenF1", "-o", "out.csv")
    found = cells(rows / "out.csv")
    assert f"'{FORMULA}" in found
    assert harmless(found)


@pytest.mark.parametrize("name", ["sheet.csv", "sheet.tsv"])
def test_a_review_sheet_runs_nothing_in_a_spreadsheet(rows: Path, name: str) -> None:
    (rows / "ragwright.yaml").write_text("sources: [docs/]\n")
    called(rows, "score", "rows.jsonl", "--measures", "TokenF1", "-q")
    called(rows, "review", "latest", "--measures", "Groundedness", "-o", name)
    found = cells(rows / name, "\t" if name.endswith("tsv") else ",")
    assert found.count(f"'{FORMULA}") == len(ROWS)
    assert harmless(found)


def test_a_table_of_rows_is_read_without_its_guard(tmp_path: Path) -> None:
    with (tmp_path / "rows.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["id", "user_input", "response", "reference"])
        writer.writerow(["'=1", "-5", "'=a", "'=a"])
        writer.writerow(["2", "?", "''=a", "'=a"])
    called(tmp_path, "score", "rows.csv", "--measures", "EditDistance", "-o", "out.jsonl")
    lines = map(json.loads, (tmp_path / "out.jsonl").read_text().splitlines())
    one, two = (line["row"] for line in lines if "row" in line)
    assert (one["id"], one["user_input"]) == ("=1", "-5")
    assert (one["response"], two["response"]) == ("=a", "'=a")
