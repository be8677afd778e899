"""Whatever table holds a text: after `forget`, no byte of it is in any file of the project."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from small_project import MakeProject

from ragwright import Workbench
from ragwright.core import StoreDamagedError, Usage, hash_erased_name, person_source
from ragwright.flow import ReplyEntry
from ragwright.ledger import ledger_tables

MARK = "QXEVERYWHERE4711"
NAME = "docs/press.md"
SCOPE = "tenant=acme"
KEYS = {"source": NAME, "document_id": NAME, "scope": SCOPE, "run": "r", "row": "a", "batch": 7}
KEYS |= {"position": 1, "rank": 1}

NOT_OF_A_DOCUMENT = {
    "runs": "what was run: settings, and the names of files",
    "names": "given by people",
    "facts": "counts and costs",
    "configurations": "settings",
    "drawn": "a number",
    "measuring_days": "counts, and the last error",
    **dict.fromkeys(
        ("spending", "reserved", "served_minutes", "served_calls", "served_reserved"), "counts"
    ),
    **dict.fromkeys(
        ("job_runs", "job_ends", "job_notices", "job_schedules"), "of the project file"
    ),
    "serve_keys": "rights, which people give and revoke",
    "served_changes": "who promoted which run, and people's reasons",
    "embedders": "names of models",
    "system_rounds": "hashes and random ids",
}
NOT_OF_A_SCOPE = {"configurations", "drawn", "measuring_days", "spending", "reserved"} | {
    name for name in NOT_OF_A_DOCUMENT if name.startswith(("serve", "job_"))
}
NOT_OF_A_SCOPE |= {"job_steps", "embedders", "system_rounds", "last_ingest"}
PERSON = "proxy:QXPERSON4711@example.org"

NOT_OF_A_PERSON = {
    "runs": "what was run: settings, and the names of files",
    "rows": "by their ids, see test_what_is_kept_of_a_person",
    "row_sources": "ids of documents, with the rows",
    "names": "names of runs",
    "facts": "counts and costs",
    **dict.fromkeys(("configurations", "embedders"), "settings"),
    **dict.fromkeys(("drawn", "measuring_days", "spending", "reserved"), "numbers"),
    **dict.fromkeys(
        ("job_runs", "job_ends", "job_notices", "job_schedules"), "of the project file"
    ),
    **dict.fromkeys(("last_ingest",), "names of files and documents"),
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


def project(tmp_path: Path, text: str) -> Path:
    folder = MakeProject(tmp_path)(**{"press.md": f"# Press\n\n{text}\n", "other.md": "# Other\n"})
    with Workbench.open(folder) as bench:
        bench.ingest()
    return folder


def held(folder: Path, text: str = MARK) -> list[str]:
    """Files of the program that hold a text."""
    files = [file for file in (folder / ".ragwright").rglob("*") if file.is_file()]
    return [file.name for file in files if text.encode() in file.read_bytes()]


def fill(folder: Path, text: str, kept: set[str]) -> set[str]:
    """A row with the text in every column of every other table; returns all names of tables."""
    with closing(sqlite3.connect(folder / ".ragwright/data/ledger.sqlite")) as ledger, ledger:
        found = ledger.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
        tables = {name for (name,) in found if not name.startswith("sqlite_")}
        for table in tables - kept:
            columns = ledger.execute(f"PRAGMA table_info({table})").fetchall()
            row = {
                name: KEYS.get(name, text if kind == "TEXT" else 1) for _, name, kind, *_ in columns
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
            names, marks = ", ".join(f'"{name}"' for name in row), ", ".join("?" * len(row))
            ledger.execute(f"INSERT INTO {table} ({names}) VALUES ({marks})", [*row.values()])
    return tables


def store_reply(bench: Workbench, text: str, source: str = NAME) -> None:
    entry = ReplyEntry(
        "k", "Chat", "m", SCOPE, text.encode(), True, Usage(1, 5, 5), 15, 0.1, (source,)
    )
    bench.project.replies.put(entry).result(10)


@pytest.mark.parametrize("size", [1, 300, 8_000])
def test_no_byte_of_a_document_is_left(tmp_path: Path, size: int) -> None:
    text = f"The code is {MARK}. " * size
    folder = project(tmp_path, text[:50_000])
    with Workbench.open(folder) as bench:
        list(bench.project.runs.list())  # makes the ledger
        tables = fill(folder, text, {*NOT_OF_A_DOCUMENT})
        assert {rule.table for rule in ledger_tables().forgets if rule.document} == tables - {
            *NOT_OF_A_DOCUMENT
        }, "a new table says what goes with a document, or why nothing does"
        store_reply(bench, text)
        assert {"ledger.sqlite", "replies.sqlite", "store.sqlite"} <= {
            name.removesuffix("-wal") for name in held(folder)
        }
        (folder / NAME).unlink()
        counts = bench.forget(NAME)
        assert held(folder) == []
    assert (counts["rows"], counts["outputs"], counts["jobs"], counts["replies"]) == (1, 1, 1, 1)
    assert held(folder) == []


@pytest.mark.parametrize("size", [1, 8_000])
def test_no_byte_of_a_tenant_is_left(tmp_path: Path, size: int) -> None:
    text = f"The code is {MARK}. " * size
    folder = project(tmp_path, "Nothing.")
    with Workbench.open(folder) as bench:
        list(bench.project.runs.list())
        tables = fill(folder, text, NOT_OF_A_SCOPE)
        assert {rule.table for rule in ledger_tables().forgets if rule.scope} == (
            tables - NOT_OF_A_SCOPE
        )
        store_reply(bench, text)
        counts = bench.forget_tenant(SCOPE)
        assert held(folder) == []
    assert dict(counts) == {"replies": 1, "rows": 1, "outputs": 1}


def fill_for_person(folder: Path) -> set[str]:
    """A row of the person in every table, with the mark in all texts that go with them."""
    with closing(sqlite3.connect(folder / ".ragwright/data/ledger.sqlite")) as ledger, ledger:
        names = ledger.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
        tables = {name for (name,) in names if not name.startswith("sqlite_")}
        for table in tables - NOT_OF_A_PERSON.keys():
            columns = ledger.execute(f"PRAGMA table_info({table})").fetchall()
            kept = table in KEPT_WITHOUT
            text = "x" if kept else MARK
            row: dict[str, object] = {
                name: text if kind == "TEXT" else 7 for _, name, kind, *_ in columns
            }
            row |= {name: value for name, value in PEOPLE.items() if name in row}
            row |= KEPT_WITHOUT.get(table, {})
            row |= {"serve_keys": {"name": PERSON, "hash": PERSON}}.get(table, {})
            if table == "feedback":
                row["batch"] = 8  # of another person's answer
            if table == "audit_events":  # the owner made a key for the person
                ledger.execute(*insertion(table, row))
                row |= {"who": "boss", "subject": PERSON, "question": "", "origin": "", "number": 8}
            ledger.execute(*insertion(table, row))
    return tables


def insertion(table: str, row: dict[str, object]) -> tuple[str, list[object]]:
    names, marks = ", ".join(f'"{name}"' for name in row), ", ".join("?" * len(row))
    return f"INSERT INTO {table} ({names}) VALUES ({marks})", [*row.values()]


def test_no_byte_of_a_person_is_left(tmp_path: Path) -> None:
    folder = project(tmp_path, "Nothing.")
    with Workbench.open(folder) as bench:
        list(bench.project.runs.list())
        tables = fill_for_person(folder)
        assert {rule.table for rule in ledger_tables().forgets if rule.person} == (
            tables - NOT_OF_A_PERSON.keys()
        ), "a new table says what goes with a person, or why nothing does"
        store_reply(bench, MARK, person_source(PERSON))
        listed = bench.forget_person(PERSON, dry_run=True)
        assert "ledger.sqlite" in {name.removesuffix("-wal") for name in held(folder)}
        counts = bench.forget_person(PERSON)
        assert held(folder) == held(folder, PERSON) == []
    assert counts == listed
    several = {"limits": 3, "events": 2, "rows": 0, "feedback rows": 0}
    assert counts == dict.fromkeys(counts, 1) | several
    with closing(sqlite3.connect(folder / ".ragwright/data/ledger.sqlite")) as ledger:
        kept = {table: ledger.execute(f"SELECT * FROM {table}").fetchall() for table in tables}
    assert {table for table in tables - NOT_OF_A_PERSON.keys() if kept[table]} == {*KEPT_WITHOUT}
    assert {row[3] for row in kept["audit_events"][:2]} == {hash_erased_name(PERSON), "boss"}


def test_a_person_can_be_forgotten_twice_on_a_day(tmp_path: Path) -> None:
    folder = project(tmp_path, "Nothing.")
    with Workbench.open(folder) as bench:
        list(bench.project.runs.list())
        for _ in range(2):
            with closing(sqlite3.connect(folder / ".ragwright/data/ledger.sqlite")) as db, db:
                db.execute("INSERT INTO served_calls VALUES (?, '2026', 1, 1, 1, 1)", [PERSON])
            assert bench.forget_person(PERSON)["limits"] == 1
    with closing(sqlite3.connect(folder / ".ragwright/data/ledger.sqlite")) as db:
        assert len(db.execute("SELECT * FROM served_calls").fetchall()) == 2
    assert held(folder, PERSON) == []


@pytest.mark.parametrize("damage", ["file", "table"])
def test_a_damaged_ledger_stops_forgetting_before_anything_is_gone(
    tmp_path: Path, damage: str
) -> None:
    folder = project(tmp_path, f"The code is {MARK}.")
    with Workbench.open(folder) as bench:
        store_reply(bench, MARK)
        list(bench.project.runs.list())
    path = folder / ".ragwright/data/ledger.sqlite"
    if damage == "file":
        path.write_bytes(b"not a database at all" * 400)
    else:  # found by the first statement that needs it
        with closing(sqlite3.connect(path)) as ledger:
            ledger.execute("DROP TABLE uses")
    before = held(folder)
    with Workbench.open(folder) as bench:
        with pytest.raises(StoreDamagedError, match=r"ledger\.sqlite"):
            bench.forget(NAME)
        assert NAME in {document.id for document in bench.documents()}
        assert bench.project.replies.get("k") is not None
    assert {"store.sqlite", "replies.sqlite"} <= {*before}
    assert {*before} <= {*held(folder)}
