"""The conformance suites of tables and of handlers of requests."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ..flow import (
    AddedReply,
    AddedRequest,
    BatchHandler,
    Flow,
    Runner,
    SendHandler,
    send,
)
from ..ledger import Ledger, SqliteDatabase, Tables, checked_tables, copy_rows, forget

_MARK = "QXMARKED"


class TablesSuite(ABC):
    """Inherit it, name the declaration, and write rows; the files are SQLite's.

    Attributes:
        tables: The declaration.
        by_scope: True if rows go with the scope (tenant) that they were made in.
    """

    tables: Tables
    by_scope: bool = False

    @abstractmethod
    def fill(self, ledger: Ledger, document: str, scope: str, text: str) -> None:
        """Write rows of a document and a scope that hold this text, into every table."""

    @pytest.fixture
    def ledger(self, tmp_path: Path) -> Any:
        """The tables, opened in a file of their own."""
        with closing(Ledger(tmp_path / "added_own.sqlite", self.checked())) as opened:
            yield opened

    def checked(self) -> Tables:
        """The declaration as a project uses it."""
        return checked_tables("own", self.tables, "TablesSuite")

    def test_a_later_version_keeps_the_rows(self, tmp_path: Path) -> None:
        """Statements run again when the version rises; rows stay."""
        file = tmp_path / "added_own.sqlite"
        with closing(Ledger(file, self.checked())) as opened:
            self.fill(opened, "a.md", "tenant=a", _MARK)
        before = self.contents(file, self.checked())
        later = replace(self.checked(), version=self.tables.version + 1)
        SqliteDatabase(file, later).close()
        assert self.contents(file, later) == before
        assert all(before.values()), "fill writes into every table"

    def test_forget_leaves_no_byte_of_a_document(self, ledger: Ledger, tmp_path: Path) -> None:
        """What a document left is deleted and overwritten; what others left stays."""
        self.fill(ledger, "a.md", "tenant=a", f"{_MARK}1")
        self.fill(ledger, "b.md", "tenant=a", f"{_MARK}2")
        forget(ledger.database, source="a.md")
        kept = b"".join(file.read_bytes() for file in tmp_path.rglob("*") if file.is_file())
        assert f"{_MARK}1".encode() not in kept
        assert f"{_MARK}2".encode() in kept

    def test_forget_leaves_no_byte_of_a_scope(self, ledger: Ledger, tmp_path: Path) -> None:
        """The same for a tenant."""
        if not self.by_scope:
            pytest.skip("rows do not go with a scope")
        self.fill(ledger, "a.md", "tenant=a", f"{_MARK}1")
        forget(ledger.database, scope="tenant=a")
        kept = b"".join(file.read_bytes() for file in tmp_path.rglob("*") if file.is_file())
        assert f"{_MARK}1".encode() not in kept

    def test_rows_move_once(self, ledger: Ledger, tmp_path: Path) -> None:
        """`ragwright shared move` copies all rows, and none twice."""
        self.fill(ledger, "a.md", "tenant=a", _MARK)
        file, other = tmp_path / "added_own.sqlite", tmp_path / "other.sqlite"
        ledger.write(lambda connection: None)  # wait for what is queued
        copy_rows(file, SqliteDatabase(other, self.checked()))
        copy_rows(file, SqliteDatabase(other, self.checked()))
        assert self.contents(other, self.checked()) == self.contents(file, self.checked())

    def contents(self, file: Path, tables: Tables) -> Mapping[str, list[Any]]:
        """The rows of every table."""
        with closing(Ledger(file, tables)) as opened:
            return {
                table: sorted(map(repr, opened.select(f"SELECT * FROM {table}")))  # noqa: S608
                for table in tables.moved
            }


class HandlerSuite(ABC):
    """Inherit it and say how to make the handler, and a request that it carries out.

    Attributes:
        request: The request.
        reply: Class of its reply.
    """

    request: AddedRequest
    reply: type[AddedReply]

    @abstractmethod
    def make(self) -> SendHandler[Any, Any] | BatchHandler[Any, Any]:
        """A handler; a project calls the declared function with itself."""

    def flow(self) -> Flow[AddedReply]:
        """A flow that sends the request."""
        return send(self.request, self.reply)

    def test_it_carries_out_its_kind_alone(self) -> None:
        """The class of the request is declared, and requests can be compared."""
        assert self.make().carries is type(self.request)
        assert isinstance(self.request, AddedRequest)
        assert hash(self.request) == hash(replace(self.request))
        assert self.request == replace(self.request)

    def test_a_flow_gets_its_reply(self) -> None:
        """The reply is of the class that is declared."""
        with Runner({type(self.request): self.make()}) as runner:
            assert isinstance(runner.run(self.flow()), self.reply)

    def test_a_dry_run_sends_nothing(self) -> None:
        """A forecast counts the request, or carries it out where it is free local work."""
        handler = self.make()
        with Runner({type(self.request): handler}) as runner:
            forecast = runner.forecast([self.flow])
        assert forecast.uncertain == 0
        assert forecast.calls.expected == isinstance(handler, SendHandler)
