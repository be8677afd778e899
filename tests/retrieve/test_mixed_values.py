"""Filters over mixed values, and questions of stop words, through the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from command_line import ragwright

FRONT = {
    "a": "date: 2024-01-15\nprice: 10",
    "b": "date: 2024-06-30T23:59:59+02:00\nprice: 99.5",
    "c": "date: 2025-02-01 10:30\nprice: 1000",
    "d": "note: none of them",
    "e": "date: June 2024\nprice: 12,50",
    "f": "date: 20240615\nprice: 007",
}


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("mixed")
    (folder / "docs").mkdir()
    for name, front in FRONT.items():
        (folder / "docs" / f"{name}.md").write_text(f"---\n{front}\n---\nThe pump report {name}.\n")
    (folder / "docs" / "it.txt").write_text("IT services are billed. It is so.")
    (folder / "docs" / "who.txt").write_text("WHO publishes guides. Who else?")
    (folder / "docs" / "street.txt").write_text("Die Größe der Straße an der Mühle.")
    (folder / "docs" / "ar.txt").write_text("يمكن الإرجاع خلال ١٤ يومًا من أحمد.")
    ragwright(folder, "init", ".", "--source", "docs/")
    ragwright(folder, "ingest", "--quiet")
    return folder


def found(project: Path, query: str, *filters: str) -> tuple[list[str], str]:
    flags = [word for text in filters for word in ("--filter", text)]
    words = ["retrieve", "--json", "--set", "retrieve.search=keyword", "-k", "20", *flags]
    result = json.loads(ragwright(project, *words, "--", query).stdout)
    names = sorted(Path(hit["source"]).stem for hit in result["hits"])
    return names, " ".join(result["notes"])


@pytest.mark.parametrize(
    ("condition", "names", "left"),
    [
        ("date=2025..", "c", "6 documents without a date in 'date'"),
        ("date=2024-06..2024-06", "bf", "6 documents without a date"),
        ("date=..2024", "abf", "6 documents without a date"),
        ("date=2024-06-16..2024-06-30", "b", "6 documents without a date"),
        ("price=50..", "bc", "6 documents without a number in 'price'"),
        ("price=..20", "af", "6 documents without a number"),
        ("price=7..10", "af", "6 documents without a number"),
        ("date!=*", "d", ""),
        ("price=*", "abcef", ""),
    ],
)
def test_numbers_and_dates_are_compared_as_such(
    project: Path, condition: str, names: str, left: str
) -> None:
    hits, notes = found(project, "pump report", condition)
    assert hits == list(names)
    assert left in notes
    assert bool(left) == ("left out by" in notes)


def test_a_count_is_of_documents_that_the_other_filters_leave(project: Path) -> None:
    _, notes = found(project, "pump report", "price=50..", "date=*")
    assert "1 document without a number in 'price' left out by price=50.." in notes


@pytest.mark.parametrize("condition", ["price=100..5", "date=2025..2024-01", "name=b..a"])
def test_a_reversed_range_is_refused(project: Path, condition: str) -> None:
    done = ragwright(project, "retrieve", "pump", "--filter", condition, code=None)
    assert done.returncode
    assert "is reversed" in done.stderr


@pytest.mark.parametrize(
    ("query", "name"),
    [("IT", "it"), ("WHO", "who"), ("Groesse", "street"),
     ("Muehle", "street"), ("Grösse", "street"),
     ("Strasse", "street"), ("14", "ar"), ("احمد", "ar"), ("الارجاع", "ar")],
)  # fmt: skip
def test_words_are_found_in_other_spellings(project: Path, query: str, name: str) -> None:
    assert found(project, query)[0] == [name]
