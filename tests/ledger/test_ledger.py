"""What a project keeps: six kinds of file, and after `forget` no byte of what was forgotten."""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from command_line import ragwright
from served import served
from small_project import MakeProject

from ragwright import Session, Workbench
from ragwright.core import StoreDamagedError, Usage, hash_erased_name, person_source
from ragwright.flow import ReplyEntry
from ragwright.ledger import ledger_tables
from ragwright.project import init_project

MARK, PERSON = "QXEVERYWHERE4711", "proxy:QXPERSON4711@example.org"
NAME, SCOPE = "docs/press.md", "tenant=acme"
KEYS: dict[str, object] = {"source": NAME, "document_id": NAME, "scope": SCOPE, "run": "r"}
KEYS |= {"row": "a", "batch": 7, "position": 1, "rank": 1}

COUNTS = dict.fromkeys(
    ("spending", "reserved", "served_minutes", "served_calls", "served_reserved"), "counts"
)
OF_JOBS = dict.fromkeys(("job_runs", "job_schedules"), "of the project file")
NOT_OF_A_DOCUMENT = {
    "runs": "what was run: settings, and the names of files",
    "names": "given by people",
    "facts": "counts and costs",
    "configurations": "settings",
    "drawn": "a number",
    "measuring_days": "counts, and the last error",
    **COUNTS,
    **OF_JOBS,
    "serve_keys": "rights, which people give and revoke",
    "served_changes": "who promoted which run, and people's reasons",
    "system_rounds": "hashes and random ids",
}
NOT_OF_A_SCOPE = {
    *("configurations", "drawn", "measuring_days", "spending", "reserved"),
    *(name for name in NOT_OF_A_DOCUMENT if name.startswith(("serve", "job_"))),
    *("job_steps", "system_rounds", "last_ingest"),
}
NOT_OF_A_PERSON = {
    "runs": "what was run: settings, and the names of files",
    "rows": "by their ids, see test_what_is_kept_of_a_person",
    "row_sources": "ids of documents, with the rows",
    "names": "names of runs",
    "facts": "counts and costs",
    "configurations": "settings",
    **dict.fromkeys(("drawn", "measuring_days", "spending", "reserved"), "numbers"),
    **OF_JOBS,
    "last_ingest": "names of files and documents",
    "system_rounds": "hashes and random texts",
}
PEOPLE = dict.fromkeys(("by", "person", "who", "key"), PERSON)
"""Columns with names of people, but for those that have other names."""

KEPT_WITHOUT: dict[str, dict[str, object]] = {
    "audit_events": {"question": MARK, "origin": MARK, "kept_until": 9e12},
    "served_changes": {},
    "served_calls": {},
    "served_reserved": {"name": "x"},
    "job_steps": {"output": MARK},
}
"""Tables whose rows stay, without the columns of a person."""


@contextmanager
def used(tmp_path: Path, text: str = "Nothing.") -> Iterator[tuple[Path, Workbench]]:
    """A project with a document of this text, and its ledger."""
    folder = MakeProject(tmp_path)(**{"press.md": f"# Press\n\n{text}\n", "other.md": "# Other\n"})
    with Workbench.open(folder) as bench:
        bench.ingest()
        list(bench.project.runs.list())  # makes the ledger
        yield folder, bench


def held(folder: Path, text: str = MARK) -> list[str]:
    """Databases of the program that hold a text."""
    files = [file for file in (folder / ".ragwright").rglob("*") if file.is_file()]
    return [f.name.removesuffix("-wal") for f in files if text.encode() in f.read_bytes()]


@contextmanager
def ledger_of(folder: Path) -> Iterator[sqlite3.Connection]:
    path = folder / ".ragwright/data/ledger.sqlite"
    with closing(sqlite3.connect(path)) as ledger, ledger:
        yield ledger


def columns_of(ledger: sqlite3.Connection) -> dict[str, dict[str, str]]:
    """Table -> its columns -> their types."""
    found = ledger.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
    return {
        table: {row[1]: row[2] for row in ledger.execute(f"PRAGMA table_info({table})")}
        for (table,) in found
        if not table.startswith("sqlite_")
    }


def insert(ledger: sqlite3.Connection, table: str, row: dict[str, object]) -> None:
    names, marks = ", ".join(f'"{name}"' for name in row), ", ".join("?" * len(row))
    ledger.execute(f"INSERT INTO {table} ({names}) VALUES ({marks})", [*row.values()])


def fill(folder: Path, text: str, kept: set[str]) -> set[str]:
    """A row with the text in every column of every other table; returns all names of tables."""
    with ledger_of(folder) as ledger:
        tables = columns_of(ledger)
        for table in tables.keys() - kept:
            row = {
                name: KEYS.get(name, text if kind == "TEXT" else 1)
                for name, kind in tables[table].items()
            }
            if table == "last_ingest":
                ledger.execute("DELETE FROM last_ingest")
            if "kind" in row and table != "runs":
                row["kind"] = "answer" if table == "batches" else "text"
            if table == "audit_events":  # the fact stays: who, when and what kind
                row = {name: "x" if value == text else value for name, value in row.items()}
                row |= {"documents": f"\n{NAME}\n", "question": text, "kind": "asked"}
            if table == "job_steps":
                row |= {"run": 1, "line": "ask", "state": "succeeded"}
            insert(ledger, table, row)
    return {*tables}


def store_reply(bench: Workbench, text: str, source: str = NAME) -> None:
    usage = Usage(1, 5, 5)
    entry = ReplyEntry("k", "Chat", "m", SCOPE, text.encode(), True, usage, 15, 0.1, (source,))
    bench.project.replies.put(entry).result(10)


@pytest.mark.parametrize("size", [1, 300, 8_000])
def test_no_byte_of_a_document_or_a_tenant_is_left(tmp_path: Path, size: int) -> None:
    text = f"The code is {MARK}. " * size
    rules = ledger_tables().forgets
    with used(tmp_path, text[:50_000]) as (folder, bench):
        tables = fill(folder, text, {*NOT_OF_A_DOCUMENT})
        assert {rule.table for rule in rules if rule.document} == tables - {*NOT_OF_A_DOCUMENT}, (
            "a new table says what goes with a document, or why nothing does"
        )
        store_reply(bench, text)
        assert {"ledger.sqlite", "replies.sqlite", "store.sqlite"} <= {*held(folder)}
        (folder / NAME).unlink()
        counts = bench.forget(NAME)
        assert held(folder) == []
        found = [counts[name] for name in ("rows", "outputs", "jobs", "replies")]
        assert found == [1, 1, 1, 1]
    with used(tmp_path / "tenants") as (folder, bench):
        tables = fill(folder, text, NOT_OF_A_SCOPE)
        assert {rule.table for rule in rules if rule.scope} == tables - NOT_OF_A_SCOPE
        store_reply(bench, text)
        counts = bench.forget_tenant(SCOPE)
        assert held(folder) == []
        assert dict(counts) == {"replies": 1, "rows": 1, "outputs": 1}


def fill_for_person(folder: Path) -> set[str]:
    """A row of the person in every table, with the mark in all texts that go with them."""
    with ledger_of(folder) as ledger:
        tables = columns_of(ledger)
        for table in tables.keys() - NOT_OF_A_PERSON.keys():
            text = "x" if table in KEPT_WITHOUT else MARK
            row: dict[str, object] = {
                name: PEOPLE.get(name, text if kind == "TEXT" else 7)
                for name, kind in tables[table].items()
            }
            row |= KEPT_WITHOUT.get(table, {})
            row |= {"serve_keys": {"name": PERSON, "hash": PERSON}}.get(table, {})
            if table == "feedback":
                row["batch"] = 8  # of another person's answer
            if table == "audit_events":  # the owner made a key for the person
                insert(ledger, table, row)
                row |= {"who": "boss", "subject": PERSON, "question": "", "origin": "", "number": 8}
            insert(ledger, table, row)
    return {*tables}


def test_no_byte_of_a_person_is_left_and_a_person_can_be_forgotten_again(tmp_path: Path) -> None:
    with used(tmp_path) as (folder, bench):
        tables = fill_for_person(folder)
        of_a_person = tables - NOT_OF_A_PERSON.keys()
        assert {rule.table for rule in ledger_tables().forgets if rule.person} == of_a_person, (
            "a new table says what goes with a person, or why nothing does"
        )
        store_reply(bench, MARK, person_source(PERSON))
        listed = bench.forget_person(PERSON, dry_run=True)
        assert "ledger.sqlite" in held(folder)
        counts = bench.forget_person(PERSON)
        assert held(folder) == held(folder, PERSON) == []
        assert counts == listed
        several = {"limits": 3, "events": 2, "rows": 0, "feedback rows": 0}
        assert counts == dict.fromkeys(counts, 1) | several
        with ledger_of(folder) as ledger:
            kept = {table: ledger.execute(f"SELECT * FROM {table}").fetchall() for table in tables}
            ledger.execute("INSERT INTO served_calls VALUES (?, '2026', 1, 1, 1, 1)", [PERSON])
        assert {table for table in of_a_person if kept[table]} == {*KEPT_WITHOUT}
        assert {row[3] for row in kept["audit_events"][:2]} == {hash_erased_name(PERSON), "boss"}
        assert bench.forget_person(PERSON)["limits"] == 1  # twice on a day
    with ledger_of(folder) as ledger:
        again = ledger.execute("SELECT * FROM served_calls").fetchall()
    assert len(again) == len(kept["served_calls"]) + 1
    assert held(folder, PERSON) == []


@pytest.mark.parametrize("damage", ["file", "table"])
def test_a_damaged_ledger_stops_forgetting_at_its_beginning(tmp_path: Path, damage: str) -> None:
    with used(tmp_path, f"The code is {MARK}.") as (folder, bench):
        store_reply(bench, MARK)
    if damage == "file":
        (folder / ".ragwright/data/ledger.sqlite").write_bytes(b"not a database at all" * 400)
    else:  # found by the first statement that needs it
        with ledger_of(folder) as ledger:
            ledger.execute("DROP TABLE uses")
    before = held(folder)
    with Workbench.open(folder) as bench:
        with pytest.raises(StoreDamagedError, match=r"ledger\.sqlite"):
            bench.forget(NAME)
        assert NAME in {document.id for document in bench.documents()}
        assert bench.project.replies.get("k") is not None
    assert {"store.sqlite", "replies.sqlite"} <= {*before}
    assert {*before} <= {*held(folder)}


# -- kinds of file -------------------------------------------------------------------------

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


@pytest.mark.slow
def test_a_project_in_full_use_holds_six_kinds_of_file(tmp_path: Path) -> None:
    folder = tmp_path / "project"
    init_project(folder, template="records")
    (folder / "ragwright.yaml").write_text(SETTINGS)
    for name in ("docs", "testsets"):
        (folder / name).mkdir(exist_ok=True)
    lines = []
    for part in ("brake", "coolant", "filter", "belt", "battery", "tyre"):
        text = f"# The {part}\n\nThe {part} fluid (PF) is changed every two years.\n"
        (folder / "docs" / f"{part}.md").write_text(text)
        row = {"user_input": f"When is the {part} changed?"}
        lines.append(json.dumps({**row, "reference_context_ids": [f"docs/{part}.md"]}))
    (folder / "testsets" / "main.jsonl").write_text("\n".join(lines))
    for words in (
        "records refresh -q",
        "ingest -q",
        "ask -q brakes",
        "eval -q --testset testsets/main.jsonl --measures HitRate@3 --retrieval-only --name first",
        "promote first --gate HitRate@3>=0.1 --least 2",
        "keys add owner --role owner",
        "job run nightly",
    ):
        ragwright(folder, *words.split())
    with served(folder) as running:
        assert running.http.get("/v1/models").status_code == 401
    with Workbench.open(folder, Session(served=True)) as bench:
        bench.forget("docs/belt.md")
    ragwright(folder, "ask", "-q", "When is the coolant changed?", "--served")
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
