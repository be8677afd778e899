"""One client under many spellings, and their biographies."""

from __future__ import annotations

from pathlib import Path

import pytest

from ragwright.core import RagwrightError
from ragwright.records import Rollups
from ragwright.records.declared import read_biographies, spelling_key

ROLLUPS = Rollups(
    "sender",
    {"Jane Doe": ("DOE, JANE", "Jane Doe for Congress"), "Sam Roe": ("Roe",)},
    {"doe, jane": "A nurse.", "Ann Poe": "A farmer."},
)


@pytest.mark.parametrize(
    "name", ["Jane Doe", "jane  doe", " DOE, JANE!", "“Jane Doe for Congress”", "JANE DOE."]
)
def test_any_spelling_is_the_client(name: str) -> None:
    assert ROLLUPS.canonical(name) == "Jane Doe"
    assert ROLLUPS.biography(name) == "A nurse."


@pytest.mark.parametrize("name", ["Jane", " Poe ", "", "!!!", "Doe,Jane"])
def test_an_unlisted_name_is_its_own(name: str) -> None:
    assert ROLLUPS.canonical(name) == name
    assert ROLLUPS.biography(name) is None


def test_a_biography_needs_no_rollup() -> None:
    assert ROLLUPS.biography("ann poe") == "A farmer."


def test_nearest_names() -> None:
    assert ROLLUPS.nearest("Jane Do")[0] == "Jane Doe"
    assert ROLLUPS.nearest("Janne Poe", ["Anne Poe"])[:2] == ("Anne Poe", "Jane Doe")
    assert ROLLUPS.nearest("congress") == ("Jane Doe",)
    assert ROLLUPS.nearest("zzz") == ()


def test_punctuation_inside_a_name_counts() -> None:
    assert spelling_key(" J. Doe, Jr. ") == "j. doe, jr"
    assert spelling_key("...") == "..."


def test_biographies(tmp_path: Path) -> None:
    file = tmp_path / "b.csv"
    file.write_text('\ufeffid,Name,Biography\n1, Jane Doe ,"Two\nlines, a comma"\n\n', "utf-8")
    faults: list[RagwrightError] = []
    assert read_biographies(file, "b.csv", faults) == {"Jane Doe": "Two\nlines, a comma"}
    assert not faults


@pytest.mark.parametrize(
    ("data", "line", "told"),
    [
        (b"name\nx\n", 1, "'biography'"),
        (b"", 1, "'name'"),
        (b"name,biography\nx,\xff\n", 1, "not UTF-8"),
        (b"name,biography\n,y\n", 2, "no name"),
        (b"name,biography\nx,y\n\nX!,z\n", 4, "in line 2"),
        (b'name,biography\nx,"y" z\n', 2, "not CSV"),
        (b'name,biography\nx,"y\n', 2, "not CSV"),
    ],
)
def test_faults_of_the_table(tmp_path: Path, data: bytes, line: int, told: str) -> None:
    file = tmp_path / "b.csv"
    file.write_bytes(data)
    faults: list[RagwrightError] = []
    read_biographies(file, "b.csv", faults)
    assert told in faults[0].what
    assert faults[0].where == f"b.csv:{line}"


def test_a_table_that_is_not_there(tmp_path: Path) -> None:
    faults: list[RagwrightError] = []
    assert read_biographies(tmp_path / "b.csv", "b.csv", faults) == {}
    assert "cannot be read" in faults[0].what
