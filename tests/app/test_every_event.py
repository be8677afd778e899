"""Every door that shows or exports stored text has an event in the audit log, or a reason."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from command_line import ragwright
from served import served
from small_project import MakeProject
from typer.main import get_command

from ragwright import Workbench
from ragwright.app import command_line
from ragwright.project import ProjectFolder
from ragwright.serve import ServeKey, ServeKeys

HERE = "prints for the user of the machine, who can read the files of the project"
WRITES = "works on files of the project, which the user of the machine can read"

EVENTS = {
    **dict.fromkeys(
        (
            *("ablate", "ask", "audit", "baseline", "compare", "confirm"),
            *("diagnose", "draft", "eval", "gate", "ingest", "log", "passport", "promise"),
            *("records check", "records refresh", "report", "retrieve", "score"),
            *("suite curves", "suite make", "sweep"),
            *("outputs evaluate", "outputs export", "records export", "review", "backup"),
        ),
        "exported",  # where they write to a file outside the folder of the program
    ),
    **dict.fromkeys(
        ("keys add", "keys change", "keys revoke", "keys rotate"),
        "changed",
    ),
    "forget": "erased",
    "promote": "promoted",
    "serve": "those of its routes",
    "mcp": "asked and saw, by the tools that are called",
}

WITHOUT_EVENT = {
    **dict.fromkeys(
        (
            *("doctor", "models", "measures", "cache show", "job list", "job history"),
            "keys list",
            *("records show", "records history"),
            *("outputs list", "outputs show", "outputs feedback", "outputs drift"),
        ),
        HERE,
    ),
    **dict.fromkeys(
        (
            *("init", "demo", "synth", "outputs measure"),
            "cache clear",
            *("tune embedder", "tune reranker"),
        ),
        WRITES,
    ),
    **dict.fromkeys(("job run", "job step", "job serve", "job test-notice"), "runs commands"),
}


def commands(command: Any, words: tuple[str, ...] = ()) -> Iterator[str]:
    """The names of a command's own commands, or its own."""
    if hasattr(command, "commands"):
        for name, inner in command.commands.items():
            yield from commands(inner, (*words, name))
    else:
        yield " ".join(words)


def test_every_command_has_an_event_or_a_reason() -> None:
    own = {*commands(get_command(command_line()))}
    assert own == EVENTS.keys() | WITHOUT_EVENT.keys(), (
        "a new command that exports stored text adds an event, any other one a reason here"
    )
    assert not EVENTS.keys() & WITHOUT_EVENT.keys()


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = MakeProject(tmp_path)()
    rows = [{"id": "a", "user_input": "When is it changed?", "reference": "every two years"}]
    (folder / "set.jsonl").write_text("\n".join(map(json.dumps, rows)), "utf-8")
    with Workbench.open(folder) as bench:
        bench.ingest()
    return folder


def exported(folder: Path) -> list[tuple[str, str]]:
    lines = ragwright(folder, "log", "--kind", "exported", "--lines").stdout.splitlines()
    events = [json.loads(line) for line in lines]
    return [(e["action"], e["subject"]) for e in events if e["subject"] != "audit log"]


def test_what_commands_write_to_files_is_in_the_log(project: Path) -> None:
    ServeKeys(ProjectFolder(project)).add(ServeKey("ann"))
    ragwright(project, "keys", "add", "ben")
    ragwright(project, "eval", "--testset", "set.jsonl", "--measures", "TokenF1", "-o", "run.json")
    written = (
        ("records export", ("gold", "-o", "gold.csv"), "gold.csv"),
        ("report", (), "report.html"),
        ("report", ("-o", "other.html"), "other.html"),
        ("report", ("--json",), "report.html"),
        ("score", ("latest", "-o", "rows.csv"), "rows.csv"),
        ("retrieve", ("brakes", "-o", "hits.json"), "hits.json"),
        ("review", ("set.jsonl", "--csv", "sheet.csv"), "sheet.csv"),
        ("outputs export", ("-o", "all.jsonl"), "all.jsonl"),
        ("log", ("-o", "log.jsonl"), "log.jsonl"),
    )
    for command, words, _ in written:
        ragwright(project, *command.split(), *words, code=None)  # it has no records
    expected = [("eval", "run.json"), *((command, name) for command, _, name in written)]
    assert exported(project) == expected
    ragwright(project, "score", "latest", "-o", "dry.csv", "--dry-run", code=None)
    assert exported(project) == expected, "a dry run writes nothing"


def test_without_keys_no_log_is_begun(project: Path) -> None:
    ragwright(project, "retrieve", "brakes", "-o", "hits.json")
    assert exported(project) == []


def test_lists_are_in_the_log(project: Path) -> None:
    owner = ServeKeys(ProjectFolder(project)).add(ServeKey("boss", "owner"))
    with served(project) as running:
        http = running.client(owner)
        for path in ("/sources", "/outputs"):
            http.get(path)
    lines = ragwright(project, "log", "--lines").stdout.splitlines()
    events = [json.loads(line) for line in lines]
    assert [(e["kind"], e["action"], e["subject"]) for e in events[:2]] == [
        ("saw", "GET /sources", ""),
        ("saw", "GET /outputs", ""),
    ]
