"""The command line as a whole: its help, a process for each command, what it loads and what not."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from children import printed
from command_line import ragwright, spawned
from small_project import MakeProject
from story_tools import run, write_files, write_rows
from typer.main import get_command

from ragwright.app import command_line, commands, line_problem

GATE = "gate a --rule ExactMatch>=0.5 --least 1"
PROCESSES = {
    "init": ("init new", 0, "new"),
    "ingest": ("ingest", 0, "2 unchanged"),
    "retrieve": ("retrieve 'brake fluid'", 0, "docs/service.md"),
    "ask": ("ask 'How often must the brake fluid be changed?'", 0, "every two years"),
    "audit": ("audit", 0, "finding"),
    "doctor": ("doctor", 0, "no chat model"),
    "demo": ("demo --help", 0, "--quiet"),
    "eval": ("eval --testset rows.jsonl --measures TokenF1", 0, "TokenF1"),
    "score": ("score rows.jsonl --measures ExactMatch", 0, "ExactMatch"),
    "compare": ("compare a a", 0, "ExactMatch"),
    "gate": (GATE, 0, "passed"),
    "report": ("report a --json", 0, "ExactMatch"),
    "measures": ("measures nDCG", 0, "nDCG"),
    "passport": ("passport rows.jsonl --map stars=label.q(1..5) --measures TokenF1", 0, "TokenF1"),
    "promise": ("promise --status", 0, "no promise in force"),
    "synth": ("synth --kinds clozes", 1, "clozes"),
    "review": ("review rows.jsonl --csv sheet.csv", 0, "sheet.csv"),
    "suite": ("suite curves a", 1, "no row of the run belongs to a capability suite"),
    "sweep": ("sweep study.yaml --dry-run", 0, "trials: 2"),
    "confirm": ("confirm", 1, "ragwright sweep STUDY"),
    "ablate": ("ablate --testset rows.jsonl --parts role", 1, "chat model"),
    "diagnose": ("diagnose --run a", 0, "4 of 4 rows are answered right"),
    "baseline": ("baseline --testset rows.jsonl", 1, "distances need an embedding model"),
    "tune": ("tune embedder --testset none.jsonl", 1, "none.jsonl"),
    "promote": ("promote --history", 0, "no configuration has been served yet"),
    "records": ("records history", 0, ""),
    "draft": ("draft --client ' '", 2, "it is empty"),
    "outputs": ("outputs list", 0, "no outputs"),
    "job": ("job list", 1, "this project has no jobs"),
    "serve": ("serve --port many", 2, "whole number"),
    "mcp": ("mcp", 0, ""),
    "keys": ("keys list", 0, "no keys"),
    "forget": ("forget nosuch", 1, "nosuch"),
    "cache": ("cache show", 0, "replies"),
    "backup": ("backup ../b.zip", 0, "b.zip"),
    "log": ("log", 0, "the audit log is empty"),
    "models": ("models", 0, "snippet"),
}
"""Command -> its words, exit code, and a piece of what it says."""


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project with documents, rows and a run."""
    folder = MakeProject(tmp_path_factory.mktemp("commands"))()
    asked = "How often must the brake fluid be changed?"
    row = {"user_input": asked, "reference": "two years", "response": "two years"}
    write_rows(folder / "rows.jsonl", [{**row, "id": str(n), "stars": 1 + n} for n in range(4)])
    study = "study: {testset: rows.jsonl, measures: TokenF1}\nretrieve: {top_k: [2]}\n"
    write_files(folder, {"study.yaml": study})
    run(folder, "ingest -q")
    run(folder, "score rows.jsonl --measures ExactMatch --name a -q")
    return folder


def test_every_command_is_run_in_a_process() -> None:
    assert list(PROCESSES) == list(commands())
    assert len(PROCESSES) <= 37


@pytest.mark.slow
@pytest.mark.parametrize("name", PROCESSES)
def test_a_command_runs_in_a_process_of_its_own(project: Path, name: str) -> None:
    line, code, said = PROCESSES[name]
    done = printed(project, shlex.split(line), {**os.environ, "COLUMNS": "120"})
    assert done.returncode == code, done.stderr
    assert said in done.stdout + done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.slow
def test_the_listed_sentences_are_the_commands_own(tmp_path: Path) -> None:
    assert spawned(tmp_path, "--version").stdout.startswith("ragwright 0.")
    shown = ragwright(tmp_path, "--help", COLUMNS="80").stdout
    _, *groups = re.findall(r"^([A-Z][\w ]+):\n((?:  .+\n)+)", shown, re.MULTILINE)
    assert [title for title, _ in groups] == [
        *("Build", "Measure", "Test sets", "Tune", "Records", "Serve", "Keep")
    ]
    listed = [line.split(maxsplit=1) for _, lines in groups for line in lines.splitlines()]
    assert [name for name, _ in listed] == list(commands())
    assert dict(listed) == commands()
    for name, sentence in commands().items():
        assert sentence in " ".join(run(tmp_path, f"{name} --help").split())


def every_command(group: Any, *words: str) -> Iterator[tuple[str, Any]]:
    """The commands below a group, and those of the groups within it."""
    for name, command in group.commands.items():
        yield " ".join((*words, name)), command
        if hasattr(command, "commands"):
            yield from every_command(command, *words, name)


def test_every_summary_has_at_most_48_characters() -> None:
    for words, command in every_command(get_command(command_line())):
        summary, *_ = (command.help or "").split("\n\n")
        assert len(summary) <= 48, f"{words}: {summary}"
        assert summary.endswith("."), words


@pytest.mark.parametrize(
    ("line", "part"),
    [
        ("ingest docs --prune", ""),
        ("cache show", ""),
        ("cache", "no command ''"),
        ("cache shw", "did you mean show?"),
        ("records refrsh", "did you mean refresh?"),
        ("retrieve", "Missing argument"),
        ("ingest --prnue", "--prune"),
        ("ingest -j many", "valid integer"),
        ("ingest --help", "prints its help"),
    ],
)
def test_command_lines_are_judged_without_running_them(line: str, part: str) -> None:
    problem = line_problem(line.split())
    assert (part in problem) if part else not problem


# -- what is loaded, and what of a stranger's folder is not ----------------------------------

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


@pytest.mark.slow
@pytest.mark.parametrize("module", ["ragwright", "ragwright.workbench", "ragwright.app"])
def test_an_import_loads_nothing_heavy_opens_no_socket_and_says_nothing(
    tmp_path: Path, module: str
) -> None:
    (tmp_path / ".env").write_text("OPENAI_API_KEY=secret\n", "utf-8")
    words = [sys.executable, "-W", "error", "-c", WATCH.format(module=module)]
    done = subprocess.run(words, capture_output=True, text=True, check=True, cwd=tmp_path)
    assert (done.stdout.strip(), done.stderr) == ("", "")


PLANTED = ("msvcrt", "_winapi", "winreg", "json", "multiprocessing", "colorama", "ragwright_extra")
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
PROGRAM = str(Path(sys.executable).with_name("ragwright"))


@pytest.fixture
def stranger(tmp_path: Path) -> Iterator[Path]:
    """A folder of a stranger with planted modules, of which none may have run in the end."""
    hit, folder = tmp_path / "HIT", tmp_path / "documents"
    manual = "# Manual\n\nThe price of a bolt is four euros.\n"
    write_files(folder, {"ragwright.yaml": "sources: [manual.md]\n", "manual.md": manual})
    planted = f"open({str(hit)!r}, 'a').write(__name__ + '\\n')\n"
    write_files(folder, {f"{name}.py": planted for name in PLANTED})
    yield folder
    assert not hit.exists(), hit.read_text()


def called(folder: Path, line: str, *start: str) -> str:
    words = [*(start or (PROGRAM,)), *shlex.split(line)]
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False)
    return done.stdout + done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("start", [(), (sys.executable, "-P", "-m", "ragwright")])
def test_no_command_runs_what_lies_in_the_folder(stranger: Path, start: tuple[str, ...]) -> None:
    for line in ("--help", "doctor", "ingest"):
        called(stranger, line, *start)
    assert "four euros" in called(stranger, "ask 'What is the price?'", *start)


@pytest.mark.slow
def test_workers_of_a_server_run_nothing_of_the_folder(stranger: Path) -> None:
    run(stranger, "ingest -q")
    words = [PROGRAM, "serve", "--port", "0", "--workers", "2"]
    quiet = subprocess.DEVNULL
    with subprocess.Popen(
        words, cwd=stranger, stdout=quiet, stderr=subprocess.PIPE, text=True
    ) as server:
        assert server.stderr is not None
        server.stderr.readline()
        server.terminate()
        server.communicate(timeout=60)


@pytest.mark.slow
def test_a_module_that_settings_name_is_imported_with_what_it_imports(stranger: Path) -> None:
    write_files(stranger, {"cutting.py": CHUNKER, "sentences.py": "", "late.py": ""})
    with (stranger / "ragwright.yaml").open("a") as settings:
        settings.write("chunk: {by: 'cutting:WHOLE'}\n")
    said = called(stranger, "ingest --json")
    assert '"chunks"' in said, said
    assert "four euros" in called(stranger, "ask 'What is the price of a bolt?'")
