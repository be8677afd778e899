"""What a terminal of 80 columns shows, and that nothing in it commands the terminal."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from pathlib import Path

import pytest
from command_line import ragwright
from terminal import on_terminal

from ragwright.testing import ScriptedServer

pytestmark = pytest.mark.slow

COLUMNS = 80
PLAIN = {"NO_COLOR": "1"}
JOBS = """
jobs:
  the-refresh-of-every-morning:
    steps: [records check -q, score nowhere-at-all-to-be-found.jsonl --measures ExactMatch]
    schedule: 30 7 * * mon-fri
    timezone: America/Argentina/Buenos_Aires
"""
REPLY = (
    "1. Give \x1b[31m$5\x1b[0m \u202etonight, since every single cent is counted twice until the "
    "very end of this long month, and not one day longer.\n2. Give now.\x07"
)


def lines_of(folder: Path, *words: str) -> list[str]:
    """The lines of a command's output on a terminal of 80 columns."""
    shown = on_terminal(folder, *words, width=COLUMNS, unread=True, environment=PLAIN)
    return shown.replace("\r\n", "\n").splitlines()


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("project")
    ragwright(folder, "init", "--template", "records")
    settings = folder / "ragwright.yaml"
    text = settings.read_text("utf-8")
    settings.write_text(re.sub(r"^jobs:\n(?s:.*)", "", text, flags=re.MULTILINE) + JOBS, "utf-8")
    ragwright(folder, "records", "refresh")
    ragwright(folder, "job", "run", "the-refresh-of-every-morning", code=1)
    with ScriptedServer(REPLY) as server:
        asked = ("--client", "Maya Delgado", "-n", "2", "--examples", "3", "--pool", "5")
        model = f"{server.url}#a-model-of-a-rather-long-name-instruct"
        ragwright(folder, "draft", *asked, "--model", model)
        ragwright(folder, "outputs", "feedback", "1.1", "--accept", "--score", "4")
        yield folder


@pytest.mark.parametrize(
    "words",
    [
        ("records", "refresh"),
        ("records", "check"),
        ("records", "history"),
        ("job", "list"),
        ("job", "history"),
        ("outputs", "list"),
        ("outputs", "feedback", "1.1", "--history"),
        ("promote", "--history"),
        ("cache", "show"),
    ],
)
def test_lines_fit_a_terminal_of_80_columns(project: Path, words: tuple[str, ...]) -> None:
    lines = lines_of(project, *words)
    assert lines
    prose = ("note: ", "version ", "records: ", "left out: ", "  | ")
    assert [at for at in lines if len(at) > COLUMNS and not at.startswith(prose)] == []


def test_a_list_of_outputs_is_legible(project: Path) -> None:
    lines = lines_of(project, "outputs", "list")
    first = " ".join(lines[:2])
    assert re.match(r"1\.1  \d{4}-\d\d-\d\d \d\d:\d\d  a-model-of-a-rather-long-name-", first)
    assert "Maya Delgado" in first
    assert "accepted 4" in first
    assert "every single cent is counted twice" in " ".join(" ".join(lines).split())


@pytest.mark.parametrize("words", [("outputs", "list"), ("outputs", "show", "1", "--prompts")])
def test_what_a_model_wrote_commands_no_terminal(project: Path, words: tuple[str, ...]) -> None:
    shown = "\n".join(lines_of(project, *words))
    assert "\\u001b[31m$5" in shown
    assert "\\u202e" in shown
    assert {c for c in shown if unicodedata.category(c) == "Cc"} == {"\n"}
    assert "\u202e" not in shown
    piped = ragwright(project, *words, "--json").stdout
    assert "\u202e" not in piped
    assert "\\u202e" in piped
