"""Tables and handlers of packages: held to their suites, and refused where they are not sound."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from ragwright.core import PluginError, StoreError, UnhandledRequestError
from ragwright.flow import (
    AddedReply,
    AddedRequest,
    BatchHandler,
    OnDelta,
    Runner,
    SendHandler,
    send,
)
from ragwright.ledger import Forgets, Ledger, Tables, checked_tables
from ragwright.project import Project, init_project, kept_tables
from ragwright.testing import HandlerSuite, TablesSuite

NOTES = Tables(
    "notes",
    (
        "CREATE TABLE IF NOT EXISTS notes (document_id TEXT, scope TEXT, note TEXT, "
        "PRIMARY KEY (document_id, note))",
        "CREATE TABLE IF NOT EXISTS note_days (day TEXT PRIMARY KEY, count INTEGER NOT NULL)",
        "CREATE INDEX IF NOT EXISTS notes_by_scope ON notes (scope)",
    ),
    1,
    forgets=(Forgets("notes", "document_id = ?", "scope = ?"),),
    kept={"note_days": "counts"},
)


class TestNotes(TablesSuite):
    tables = NOTES
    by_scope = True

    def fill(self, ledger: Ledger, document: str, scope: str, text: str) -> None:
        ledger.write(
            lambda db: db.execute("INSERT INTO notes VALUES (?, ?, ?)", (document, scope, text))
        )
        ledger.write(
            lambda db: db.execute("INSERT OR IGNORE INTO note_days VALUES ('2026-11-24', 1)")
        )


@dataclass(frozen=True, slots=True)
class Spell(AddedRequest):
    text: str


@dataclass(frozen=True, slots=True)
class Spelling(AddedReply):
    letters: str


class Sends(SendHandler[Spell, Spelling]):
    carries = Spell

    async def send(self, request: Spell, on_delta: OnDelta | None = None) -> Spelling:
        return Spelling("-".join(request.text))

    def stand_in(self, request: Spell) -> Spelling:
        return Spelling("")


class Batches(BatchHandler[Spell, Spelling]):
    carries = Spell

    def carry(self, requests: Sequence[Spell]) -> Sequence[Spelling]:
        return [Spelling("-".join(request.text)) for request in requests]


class TestSending(HandlerSuite):
    request = Spell("abc")
    reply = Spelling

    def make(self) -> Sends:
        return Sends()


class TestBatching(HandlerSuite):
    request = Spell("abc")
    reply = Spelling

    def make(self) -> Batches:
        return Batches()


def test_requests_of_packages_are_batched_and_counted() -> None:
    with Runner({Spell: Batches()}) as runner:
        replies = [*runner.map(send(Spell(text), Spelling) for text in ("ab", "cd"))]
    assert [reply.letters for reply in replies] == ["a-b", "c-d"]


def test_a_request_that_nothing_installed_carries_out_is_named(tmp_path: Path) -> None:
    init_project(tmp_path)
    with (
        Project.open(tmp_path) as project,
        pytest.raises(UnhandledRequestError, match="no handler for Spell") as raised,
    ):
        project.runner.run(send(Spell("a"), Spelling))
    assert "install the package" in str(raised.value)


def test_a_dry_run_names_the_handler_that_has_no_stand_in() -> None:
    class Silent(Sends):
        stand_in = SendHandler.stand_in

    with Runner({Spell: Silent()}) as runner:
        forecast = runner.forecast([lambda: send(Spell("a"), Spelling)])
    assert forecast.uncertain == 1


@pytest.mark.parametrize(
    ("tables", "reason"),
    [
        (replace(NOTES, kept={}), "deletes from note_days"),
        (replace(NOTES, forgets=()), "deletes from notes"),
        (replace(NOTES, statements=("DROP TABLE runs",)), "begin with CREATE TABLE"),
        (replace(NOTES, statements=()), "begin with CREATE TABLE"),
        ("notes", "not a Tables"),
    ],
)
def test_a_declaration_that_is_not_sound_is_refused(tables: object, reason: str) -> None:
    with pytest.raises(PluginError, match=reason):
        checked_tables("notes", tables, "here")


def test_tables_of_a_package_that_is_gone_stop_an_erasure(tmp_path: Path) -> None:
    init_project(tmp_path)
    with Project.open(tmp_path) as project:
        assert [*kept_tables(project)] == []
        Ledger(
            project.folder.data / "added_notes.sqlite", checked_tables("notes", NOTES, "here")
        ).close()
        with pytest.raises(StoreError, match="a package that is not installed left") as raised:
            list(kept_tables(project))
    assert "added_notes.sqlite" in str(raised.value)
