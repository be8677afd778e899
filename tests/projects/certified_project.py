"""A project whose offline answers are right or wrong in a known way, and its test set."""

from __future__ import annotations

import atexit
import json
import shutil
from functools import cache
from pathlib import Path
from tempfile import mkdtemp

from small_project import MakeProject

from ragwright import Workbench
from ragwright.experiment import PromiseOptions

_FIRST = ("Amber", "Birch", "Cedar", "Dover", "Elmwood", "Falcon", "Garnet", "Harbour", "Ivory")
_SECOND = ("lamp", "kettle", "radio", "bicycle", "camera", "heater", "printer", "toaster", "drill")
_THIRD = ("basic", "classic")


def things() -> list[str]:
    return [f"{a} {b} {c}" for a in _FIRST for b in _SECOND for c in _THIRD]


def certified_rows(split: str, *, known: int, unknown: int) -> list[dict[str, object]]:
    """Questions of a split: about things of the documents, and about things that are in none."""
    start = 0 if split == "tune" else 81
    rows: list[dict[str, object]] = [
        {
            "id": f"{split}-known-{number}",
            "user_input": f"How many watts does the {name} need?",
            "reference": f"{100 + start + number} watts",
            "split": split,
        }
        for number, name in enumerate(things()[start : start + known])
    ]
    return rows + [
        {
            "id": f"{split}-unknown-{number}",
            "user_input": f"Who designed the Quartz {_SECOND[number % 9]}, {split} {number}?",
            "answerable": False,
            "split": split,
        }
        for number in range(unknown)
    ]


def write_rows(folder: Path, rows: list[dict[str, object]], name: str = "set.jsonl") -> Path:
    path = folder / "testsets" / name
    path.parent.mkdir(exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    return path


def certified_project(make: MakeProject, settings: str = "", *, promised: bool = False) -> Path:
    """An ingested project with a test set of which most questions are answered rightly."""
    folder = make(settings, **_files())
    source = _promised() if promised else _ingested()
    own = shutil.ignore_patterns("docs", "ragwright.yaml")
    return Path(shutil.copytree(source, folder, ignore=own, dirs_exist_ok=True))


def _files() -> dict[str, str]:
    sentences = [f"The {name} needs {100 + n} watts." for n, name in enumerate(things())]
    return {f"part-{n}.md": f"# Part {n}\n\n{text}\n" for n, text in enumerate(sentences)}


def _parent() -> Path:
    parent = Path(mkdtemp(prefix="certified-"))
    atexit.register(shutil.rmtree, parent)
    return parent


@cache
def _ingested() -> Path:
    folder = MakeProject(_parent())("", **_files())
    with Workbench.open(folder) as bench:
        bench.ingest()
    tune = certified_rows("tune", known=81, unknown=40)
    write_rows(folder, [*tune, *certified_rows("confirm", known=81, unknown=40)])
    return folder


@cache
def _promised() -> Path:
    folder = certified_project(MakeProject(_parent()))
    with Workbench.open(folder) as bench:
        assert bench.promise(PromiseOptions("testsets/set.jsonl")).certificate is not None
    return folder
