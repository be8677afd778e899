"""After `forget` no byte of what was forgotten is kept."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from small_project import MakeProject

from ragwright import Workbench
from ragwright.core import StoreDamagedError, Usage, hash_erased_name, person_source
from ragwright.flow import ReplyEntry
from ragwright.ledger import ledger_tables

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
