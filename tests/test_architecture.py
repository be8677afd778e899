"""The walks through the code on the page about the architecture are those of the code."""

from __future__ import annotations

import ast
import re
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from types import FrameType

import pytest
from small_project import MakeProject

import ragwright
from ragwright.core import Row
from ragwright.experiment import EvaluationOptions
from ragwright.testsets import write_rows
from ragwright.workbench import Workbench

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[1]
SOURCE = Path(ragwright.__file__).parent
HOP = re.compile(r"^\| `(\w+)` \| `([\w.]+)` \|", re.MULTILINE)
NEEDS_A_MODEL = {("answer", "write"), ("index", "SegmentView.dense"), ("measure", "judge_measure")}
"""Hops that an offline project does not take."""


def walks() -> dict[str, list[tuple[str, str]]]:
    """Heading -> (room, function) of each hop, in the order of the page."""
    sections = (ROOT / "docs" / "architecture.md").read_text("utf-8").split("\n### ")[1:]
    return {text.splitlines()[0]: HOP.findall(text) for text in sections}


@cache
def functions(room: str) -> set[str]:
    """Functions of a room, and methods as ``Class.method``."""
    names = set()
    for path in (SOURCE / room).rglob("*.py"):
        for node in ast.parse(path.read_text("utf-8")).body:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                names.add(node.name)
            elif isinstance(node, ast.ClassDef):
                names |= {
                    f"{node.name}.{inner.name}"
                    for inner in node.body
                    if isinstance(inner, ast.FunctionDef | ast.AsyncFunctionDef)
                }
    return names


@pytest.mark.parametrize("walk", walks())
def test_every_hop_exists_in_its_room(walk: str) -> None:
    hops = walks()[walk]
    assert len(hops) > 5
    assert not [(room, name) for room, name in hops if name not in functions(room)]


@contextmanager
def calls_noted() -> Iterator[list[tuple[str, str]]]:
    """(room, function) of every call into the package, in the order of the first calls."""
    first: dict[tuple[str, str], None] = {}

    def note(frame: FrameType, event: str, _arg: object) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(str(SOURCE)):
            room = Path(code.co_filename).relative_to(SOURCE).parts[0]
            first.setdefault((room, code.co_qualname))

    noted: list[tuple[str, str]] = []
    before = sys.getprofile()
    threading.setprofile(note)
    sys.setprofile(note)
    try:
        yield noted
    finally:
        sys.setprofile(before)
        threading.setprofile(None)
        noted += first


def taken(walk: str, noted: list[tuple[str, str]], *elsewhere: tuple[str, str]) -> bool:
    """Assert that every hop of a walk was called, in the order of the page."""
    due = [hop for hop in walks()[walk] if hop not in NEEDS_A_MODEL and hop not in elsewhere]
    assert [hop for hop in due if hop not in noted] == []
    assert [hop for hop in noted if hop in due] == due
    return True


ROWS = [
    Row("1", "brake fluid", reference_ids={"docs/service.md": 1}, metadata={"split": "tune"}),
    Row("2", "coolant", reference_ids={"docs/service.md": 1}, metadata={"split": "tune"}),
    Row("3", "brake light", reference_ids={"docs/codes.md": 1}, metadata={"split": "confirm"}),
    Row("4", "pedal sensor", reference_ids={"docs/codes.md": 1}, metadata={"split": "confirm"}),
]
STUDY = "study: {testset: main.jsonl, measures: nDCG@5}\nretrieve: {top_k: [1, 3]}\n"


def test_a_project_is_worked_as_the_page_says(tmp_path: Path) -> None:
    folder = MakeProject(tmp_path)()
    write_rows(ROWS, folder / "main.jsonl")
    (folder / "study.yaml").write_text(STUDY, "utf-8")
    with Workbench.open(folder) as bench, calls_noted() as noted:
        bench.ingest()
        bench.project.views.current(bench.project.index_spec)  # else the first question opens it
    assert taken("A chunk", noted)
    with Workbench.open(folder) as bench, calls_noted() as noted:
        bench.ask("How often must the brake fluid be changed?")
    assert taken("A question", noted, ("app", "ask_command"))
    with Workbench.open(folder) as bench, calls_noted() as noted:
        bench.evaluate(
            str(folder / "main.jsonl"), "nDCG@5,TokenF1", EvaluationOptions(answers=True)
        )
    assert taken("A row", noted)
    assert taken("A score", noted)
    with Workbench.open(folder) as bench, calls_noted() as noted:
        assert bench.sweep(folder / "study.yaml").board
        bench.confirm()
    assert taken("A trial", noted)
