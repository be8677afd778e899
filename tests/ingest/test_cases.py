"""Small files of many kinds beside the checkout, checked by their own script."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from benchmarks.data_sets import DATA

FOLDER = DATA.parent / "cases" / "documents"
CASES = FOLDER / "cases.json"
IDS = [case["id"] for case in json.loads(CASES.read_text("utf-8"))] if CASES.is_file() else []

pytestmark = [
    pytest.mark.slow,
    pytest.mark.needs_data,
    pytest.mark.skipif(not IDS, reason="the cases are not beside the checkout"),
]

FAIL: dict[str, str] = {"headings": "head-query"}
"""Kind -> ids that do not hold. A chunk of several short sections has the headings at its start, in
every format; the case expects those of the sentence that matches."""


@pytest.fixture(scope="module")
def faults(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """What is wrong, by case: one run of the script, which puts many files into each project."""
    report = tmp_path_factory.mktemp("cases") / "report.json"
    script = FOLDER / "check_cases.py"
    done = subprocess.run(
        [sys.executable, script, FOLDER, "--project-python", sys.executable, "--json", report],
        capture_output=True,
        text=True,
        timeout=1800,
        check=False,
    )
    assert report.exists(), done.stderr
    result: dict[str, list[str]] = json.loads(report.read_text("utf-8"))
    return result


@pytest.mark.parametrize("case", IDS)
def test_a_file_is_read_as_it_is_shown(case: str, faults: dict[str, list[str]]) -> None:
    fails = {name for names in FAIL.values() for name in names.split()}
    if case in fails:
        assert faults[case], "it holds now: take it off FAIL"
    else:
        assert not faults[case], faults[case]
