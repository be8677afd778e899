"""Running commands as a person would: in a process of their own, warnings as errors."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import chdir
from pathlib import Path

from typer.testing import CliRunner, Result

from ragwright.app import command_line


def ragwright(
    folder: Path, *words: str, code: int = 0, typed: str = "", **environment: str
) -> subprocess.CompletedProcess[str]:
    """A command that was run in a folder and ended with this exit code.

    Args:
        folder: Where it is run.
        words: The command and its arguments.
        code: The exit code that is expected.
        typed: What stands on its standard input.
        environment: Variables beside those of the tests.
    """
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", "from ragwright.app import main; main()", *words],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        input=typed,
        env={**os.environ, "COLUMNS": "120", **environment},
    )
    assert done.returncode == code, done.stderr + done.stdout
    return done


def called(folder: Path, *words: str, code: int = 0) -> Result:
    """A command as :func:`ragwright` runs it, within this process: for tests of many commands."""
    with chdir(folder):
        done = CliRunner().invoke(command_line([words[0]]), list(words))
    assert done.exit_code == code, f"{done.stderr}{done.stdout}{done.exception!r}"
    return done
