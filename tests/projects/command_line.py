"""Running commands: within the tests' process, or in one of their own where that is the subject."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import chdir, contextmanager
from pathlib import Path

from typer.testing import CliRunner

from ragwright.app import command_line
from ragwright.core import import_plugins_from, plugin_folder

Done = subprocess.CompletedProcess[str]


def ragwright(
    folder: Path, *words: str, code: int | None = 0, typed: str = "", **environment: str
) -> Done:
    """A command that was run in a folder, within this process, and ended with this exit code."""
    runner = CliRunner(env={**_without_keys(), "COLUMNS": "120", **environment})
    app = command_line(words[:1])
    with chdir(folder), _importing_from(folder):
        done = runner.invoke(app, list(words), input=typed, prog_name="ragwright")
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    assert code is None or done.exit_code == code, done.stderr + done.stdout
    return Done([*words], done.exit_code, done.stdout, done.stderr)


def spawned(folder: Path, *words: str, code: int = 0, **environment: str) -> Done:
    """The same in a process of its own, warnings as errors: for what a process does as a whole."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", "from ragwright.app import main; main()", *words],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        stdin=subprocess.DEVNULL,
        env={**os.environ, "COLUMNS": "120", **environment},
    )
    assert done.returncode == code, done.stderr + done.stdout
    return done


def _without_keys() -> dict[str, str | None]:
    return {name: None for name in os.environ if name.endswith("_API_KEY")}


@contextmanager
def _importing_from(folder: Path) -> Iterator[None]:
    """Modules of the folder can be named in settings, as in a process that starts there."""
    path, known, before = list(sys.path), set(sys.modules), plugin_folder()
    import_plugins_from(str(Path.cwd()))
    try:
        yield
    finally:
        import_plugins_from(before)
        sys.path[:] = path
        for name in set(sys.modules) - known:
            if str(getattr(sys.modules[name], "__file__", None)).startswith(str(folder)):
                del sys.modules[name]
