"""What the program keeps in `.ragwright/`, after every part of it was used: six kinds of file."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest
from children import printed
from served import served

from ragwright import Session, Workbench
from ragwright.project import init_project

KINDS = {
    "databases": r"(data|cache)/[a-z]+\.sqlite(-wal|-shm|-journal)?",
    "tables of records": r"data/records/(?!.*lock$).*",
    "promoted files": r"data/served/\d{4}/.*",
    "locks and marks": r"data/(.*/)?(lock|turn|[\w-]+\.lock|\d+-\w+\.json|answering|erasures)",
    "views": r"cache/(views|glossary)/.*",
    "trained parts": r"cache/training/.*",
}
"""Kind -> its paths below `.ragwright/`; the guide's page on the project folder lists them."""

SETTINGS = """
retrieve: {query: {methods: [glossary]}}
jobs: {nightly: {steps: [records refresh -q, ingest -q]}}
sources: [docs/]
"""


def kind_of(path: str) -> str:
    """The one kind of a path, or the path itself where it has none or two."""
    kinds = [kind for kind, pattern in KINDS.items() if re.fullmatch(pattern, path)]
    return kinds[0] if len(kinds) == 1 else path


def command(folder: Path, *words: str) -> None:
    done = printed(folder, words, os.environ)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.slow
def test_a_project_in_full_use_holds_six_kinds_of_file(tmp_path: Path) -> None:
    folder = tmp_path / "project"
    init_project(folder, template="records")
    (folder / "ragwright.yaml").write_text(SETTINGS)
    (folder / "docs").mkdir()
    for part in ("brake", "coolant", "filter", "belt", "battery", "tyre"):
        text = f"# The {part}\n\nThe {part} fluid (PF) is changed every two years.\n"
        (folder / "docs" / f"{part}.md").write_text(text)
    rows = [
        {"user_input": f"When is the {part} changed?", "reference_context_ids": [f"docs/{part}.md"]}
        for part in ("brake", "coolant", "filter", "belt", "battery", "tyre")
    ]
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    (folder / "testsets").mkdir(exist_ok=True)
    (folder / "testsets" / "main.jsonl").write_text(lines)
    command(folder, "records", "refresh", "-q")
    command(folder, "ingest", "-q")
    command(folder, "ask", "-q", "When is the brake fluid changed?")
    measures = ("--measures", "HitRate@3", "--retrieval-only", "--name", "first")
    command(folder, "eval", "-q", "--testset", "testsets/main.jsonl", *measures)
    command(folder, "promote", "first", "--gate", "HitRate@3>=0.1", "--least", "2")
    command(folder, "keys", "add", "owner", "--role", "owner")
    command(folder, "job", "run", "nightly")
    with served(folder) as running:
        assert running.http.get("/v1/models").status_code == 401
    with Workbench.open(folder, Session(served=True)) as bench:
        bench.forget("docs/belt.md")
    command(folder, "ask", "-q", "When is the coolant changed?", "--served")
    data = folder / ".ragwright"
    files = [path.relative_to(data).as_posix() for path in data.rglob("*") if path.is_file()]
    assert {kind_of(path) for path in files} <= {*KINDS}
    assert {*KINDS} - {kind_of(path) for path in files} <= {"trained parts"}
    assert len(KINDS) == 6


def test_the_guide_lists_the_kinds() -> None:
    page = Path(__file__).parents[2] / "docs" / "guide" / "project-folder.md"
    _, _, rest = page.read_text("utf-8").partition("## What the program keeps")
    section, _, _ = rest.partition("\n## ")
    assert re.findall(r"^\| ([a-z ]+) \|", section, re.MULTILINE)[1:] == [*KINDS]
