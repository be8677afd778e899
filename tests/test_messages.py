"""Each message that a user can meet, from the tables in ``tests/messages``: one row, one fault.

A row names the fault and the command (``run``), and lists what standard error ``says``. It may
add ``files``, ``typed`` (standard input), ``env``, the exit ``code`` (1 if it says nothing), what
the message ``hides``, and the ``project`` that the command finds: ``built`` (the small project,
its documents ingested), ``new`` (not ingested), or ``none``.
"""

from __future__ import annotations

import shlex
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml
from command_line import ragwright
from small_project import MakeProject

TABLES = sorted((Path(__file__).parent / "messages").glob("*.yaml"))


ROWS = [
    pytest.param(row, id=f"{table.stem}: {row['fault']}")
    for table in TABLES
    for row in yaml.safe_load(table.read_text("utf-8"))
]


@pytest.fixture(scope="session")
def projects(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    made = {name: tmp_path_factory.mktemp(name) for name in ("none", "new", "built")}
    folders = {name: MakeProject(path)() for name, path in made.items() if name != "none"}
    ragwright(folders["built"], "ingest", "-q")
    return {**folders, "none": made["none"]}


@pytest.mark.parametrize("row", ROWS)
def test_a_fault_is_named_with_what_to_do(
    row: dict[str, Any], projects: dict[str, Path], tmp_path: Path
) -> None:
    folder = tmp_path / "project"
    shutil.copytree(projects[row.get("project", "built")], folder)
    for name, text in row.get("files", {}).items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, "utf-8")
    words = [word.replace("{folder}", str(folder)) for word in shlex.split(row["run"])]
    code, typed = row.get("code", 1), row.get("typed", "")
    done = ragwright(folder, *words, code=code, typed=typed, **row.get("env", {}))
    shown = " ".join(done.stderr.split())
    assert any(text not in row["run"] for text in row["says"]), "the row repeats the command"
    for text in row["says"]:
        assert text.replace("{folder}", str(folder)) in shown
    for text in row.get("hides", ()):
        assert text not in shown
    assert "Traceback" not in shown
