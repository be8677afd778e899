"""Starting: no sockets, no output, no environment file, no heavy module on import."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

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
