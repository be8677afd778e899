"""Ctrl-C at any moment: one sentence, exit code 130, no traceback."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

PRESSED = """
import os, signal, sys

class Presses:
    def __del__(self):
        os.kill(os.getpid(), signal.SIGINT)
        for _ in range(1000):
            pass

class Finder:
    \"\"\"Presses Ctrl-C when a module is about to be loaded.\"\"\"

    def find_spec(self, name, path=None, target=None):
        if name == {module!r}:
            sys.meta_path.remove(self)
            {press}

from ragwright.app import main
sys.meta_path.insert(0, Finder())
sys.argv[1:] = {words!r}
main()
"""
PRESS = "os.kill(os.getpid(), signal.SIGINT)"


def pressed(folder: Path, module: str, *words: str, press: str = PRESS) -> str:
    """What a command says that is interrupted when this module is about to be loaded."""
    (folder / "ragwright.yaml").write_text("sources: []\n", "utf-8")
    done = subprocess.run(
        [sys.executable, "-c", PRESSED.format(module=module, press=press, words=list(words))],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert (done.returncode, done.stdout) == (130, ""), done.stderr
    (line,) = done.stderr.splitlines()
    return line


@pytest.mark.parametrize("module", ["ragwright.workbench", "ragwright.ingest"])
def test_before_the_command_begins_nothing_was_done(tmp_path: Path, module: str) -> None:
    assert pressed(tmp_path, module, "retrieve", "x") == "stopped before any work was done"


def test_while_a_command_works_it_says_what_is_kept(tmp_path: Path) -> None:
    told = pressed(tmp_path, "yaml", "outputs", "list")
    assert told == "stopped; finished work is kept; to continue, run it again"


def test_an_interrupt_that_was_lost_is_raised_again(tmp_path: Path) -> None:
    told = pressed(
        tmp_path, "yaml", "outputs", "list", press="Presses(); import time; time.sleep(5)"
    )
    assert told == "stopped; finished work is kept; to continue, run it again"


def test_an_interrupt_that_a_library_swallowed_is_no_success(tmp_path: Path) -> None:
    press = f"""
            try:
                {PRESS}
                for _ in range(1000):
                    pass
            except BaseException as error:
                raise ImportError("half loaded") from error"""
    told = pressed(tmp_path, "yaml", "outputs", "list", press=press)
    assert told == "stopped; finished work is kept; to continue, run it again"


def test_the_second_time_ends_it_at_once(tmp_path: Path) -> None:
    press = f"""
            try:
                {PRESS}
                for _ in range(1000):
                    pass
            finally:
                import time
                {PRESS}
                time.sleep(60)"""
    told = pressed(tmp_path, "yaml", "outputs", "list", press=press)
    assert told == "stopped at once; stored results are kept"
