"""A folder of a stranger: none of its Python files run, unless the project file names them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

PLANTED = "open({hit!r}, 'a').write(__name__ + '\\n')\n"
NAMES = ("msvcrt", "_winapi", "winreg", "json", "multiprocessing", "colorama", "ragwright_extra")
CHUNKER = """
import sentences
from ragwright.core import Span
from ragwright.ingest import Chunker


class Whole(Chunker):
    spec = "whole/1"

    def cut(self, document):
        import late
        return [Span(0, len(document.text))]


WHOLE = Whole()
"""


def folder_of_a_stranger(tmp_path: Path) -> tuple[Path, Path]:
    """A folder with planted modules, and the file that says which of them ran."""
    hit = tmp_path / "HIT"
    folder = tmp_path / "documents"
    folder.mkdir()
    (folder / "ragwright.yaml").write_text("sources: [manual.md]\n", "utf-8")
    (folder / "manual.md").write_text("# Manual\n\nThe price of a bolt is four euros.\n", "utf-8")
    for name in NAMES:
        (folder / f"{name}.py").write_text(PLANTED.format(hit=str(hit)), "utf-8")
    return folder, hit


def run(folder: Path, *words: str, start: tuple[str, ...] = ()) -> str:
    program = start or (str(Path(sys.executable).with_name("ragwright")),)
    done = subprocess.run(
        [*program, *words], cwd=folder, capture_output=True, text=True, env=os.environ, check=False
    )
    return done.stdout + done.stderr


@pytest.mark.parametrize("start", [(), (sys.executable, "-P", "-m", "ragwright")])
def test_no_command_runs_what_lies_in_the_folder(tmp_path: Path, start: tuple[str, ...]) -> None:
    folder, hit = folder_of_a_stranger(tmp_path)
    for words in (
        ["--help"],
        ["doctor"],
        ["ingest"],
        ["ask", "What is the price?"],
    ):
        said = run(folder, *words, start=start)
    assert "four euros" in said
    assert not hit.exists(), hit.read_text()


def test_workers_of_a_server_run_nothing_of_the_folder(tmp_path: Path) -> None:
    folder, hit = folder_of_a_stranger(tmp_path)
    run(folder, "ingest", "-q")
    program = str(Path(sys.executable).with_name("ragwright"))
    server = subprocess.Popen(
        [program, "serve", "--port", "0", "--workers", "2"],
        cwd=folder,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ,
    )
    try:
        assert server.stderr is not None
        server.stderr.readline()
        server.terminate()
        server.wait(60)
    finally:
        server.kill()
        server.wait()
        if server.stderr is not None:
            server.stderr.close()
    assert not hit.exists(), hit.read_text()


def test_a_module_that_settings_name_is_imported_with_what_it_imports(tmp_path: Path) -> None:
    folder, hit = folder_of_a_stranger(tmp_path)
    (folder / "cutting.py").write_text(CHUNKER, "utf-8")
    for name in ("sentences", "late"):
        (folder / f"{name}.py").write_text("", "utf-8")
    with (folder / "ragwright.yaml").open("a") as settings:
        settings.write("chunk: {by: 'cutting:WHOLE'}\n")
    said = run(folder, "ingest", "--json")
    assert '"chunks"' in said, said
    assert "four euros" in run(folder, "ask", "What is the price of a bolt?")
    assert not hit.exists(), hit.read_text()


def test_a_named_module_that_is_not_there_says_where_it_is_looked_for(tmp_path: Path) -> None:
    folder, _ = folder_of_a_stranger(tmp_path)
    (folder / "ragwright.yaml").write_text("sources: [.]\nchunk: {by: 'absent:WHOLE'}\n", "utf-8")
    said = run(folder, "ingest")
    assert "cannot import 'absent'" in said
    assert "start from the folder that holds it" in said
