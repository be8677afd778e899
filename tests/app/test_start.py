"""Starting: no sockets, no output, no environment file, no heavy module on import."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from command_line import ragwright

pytestmark = pytest.mark.slow

WATCH = """
import sys, socket
def refuse(*args, **kwargs):
    raise AssertionError("a socket was opened on import")
socket.socket.connect = refuse
socket.getaddrinfo = refuse
import {module}
heavy = {{"torch", "transformers", "onnxruntime", "lancedb", "pyarrow", "openai", "optuna",
         "pydantic", "yaml", "jinja2", "Stemmer", "pypdfium2", "docx", "rich"}}
print(",".join(sorted(heavy & set(sys.modules))))
"""


def loaded(module: str, folder: Path) -> str:
    (folder / ".env").write_text("OPENAI_API_KEY=secret\n", "utf-8")
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", WATCH.format(module=module)],
        capture_output=True,
        text=True,
        check=True,
        cwd=folder,
    )
    assert done.stderr == ""
    return done.stdout.strip()


def test_importing_the_package_loads_nothing_heavy(tmp_path: Path) -> None:
    assert loaded("ragwright", tmp_path) == ""


def test_importing_the_workbench_loads_nothing_heavy(tmp_path: Path) -> None:
    assert loaded("ragwright.workbench", tmp_path) == ""


def test_importing_the_command_line_loads_nothing_heavy(tmp_path: Path) -> None:
    assert loaded("ragwright.app", tmp_path) == ""


ENDED = """
import atexit, sys
from ragwright.app import main
atexit.register(lambda: print(*(m for m in sys.modules if m.startswith("ragwright."))))
main()
"""

SETTINGS = ("_options", "_setup", "_rubric")
"""Files that reading the settings of a project needs of any room."""


def machinery(folder: Path, *words: str) -> set[str]:
    """Rooms of which a command loaded more than doors and options."""
    done = subprocess.run(
        [sys.executable, "-c", ENDED, *words],
        capture_output=True,
        text=True,
        check=True,
        cwd=folder,
    )
    names = done.stdout.splitlines()[-1].split()
    return {
        name.split(".")[1]
        for name in names
        if name.rsplit(".", 1)[1].startswith("_") and not name.endswith(SETTINGS)
    }


def test_a_refresh_that_finds_nothing_changed_loads_no_other_machinery(tmp_path: Path) -> None:
    ragwright(tmp_path, "init", "--template", "records")
    ragwright(tmp_path, "records", "refresh", "--no-index")
    found = machinery(tmp_path, "records", "refresh", "--no-index", "--quiet")
    assert "records" in found
    assert not found & {"answer", "experiment", "index", "ingest", "measure", "retrieve"}


@pytest.mark.parametrize(
    ("words", "unneeded"),
    [
        ("ingest", {"answer", "experiment", "measure", "records"}),
        ("retrieve brake", {"answer", "experiment", "measure", "records"}),
        ("ask brake", {"experiment", "measure", "records"}),
        ("outputs list", {"answer", "index", "ingest", "measure", "records", "retrieve"}),
        ("draft --help", {"experiment", "index", "ingest", "measure", "records", "retrieve"}),
    ],
)
def test_a_command_loads_what_it_needs(words: str, unneeded: set[str], tmp_path: Path) -> None:
    (tmp_path / "ragwright.yaml").write_text("sources: [docs/]\n", "utf-8")
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "a.md").write_text("The brake fluid is changed yearly.\n", "utf-8")
    ragwright(tmp_path, "ingest")
    assert not machinery(tmp_path, *words.split()) & unneeded
