"""A project of the older layout: every row of its files is in the ledger, once."""

from __future__ import annotations

import os
import signal
import sqlite3
import stat
from contextlib import closing
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from children import started
from forgetting import forget_at
from former_files import NAMES, TEXTS, old_file, old_files, old_text, rows_in

from ragwright import Workbench
from ragwright.core import (
    SchemaVersionError,
    StoreBusyError,
    StoreDamagedError,
    StoreError,
    StoreFullError,
    Usage,
)
from ragwright.drafting import OutputQuery, Outputs
from ragwright.flow import RunRow, Runs
from ragwright.ledger import Ledger, SqliteDatabase, ledger_tables
from ragwright.project import ProjectFolder, Served
from ragwright.serve import ServeKeys

FORMER_TEXTS = [former for former in ledger_tables().former if former.read is not None]
RUNS = ("runs", "rows", "row_sources", "names", "facts")
BACKUPS = {
    "jobs.sqlite.v1.bak",
    "outputs.sqlite.v4.bak",
    "runs.sqlite.v3.bak",
    "serve/served.sqlite.v2.bak",
    "spending.sqlite.v1.bak",
    *(f"{file}.v1.bak" for file in TEXTS),
}


@pytest.fixture
def data(tmp_path: Path) -> Path:
    (tmp_path / "ragwright.yaml").write_text("sources: []\n")
    return tmp_path / ".ragwright" / "data"


def files(data: Path) -> set[str]:
    """Names below the data folder, without the logs of open files."""
    found = {path.relative_to(data).as_posix() for path in data.rglob("*") if path.is_file()}
    return {name for name in found if not name.endswith(("-wal", "-shm"))}


def whole(data: Path) -> None:
    """Every row of every former file is in the ledger, in its order, and the files are backups."""
    assert files(data) == BACKUPS | {"ledger.sqlite"}
    for former in ledger_tables().former:
        [backup] = [data / name for name in BACKUPS if name.startswith(former.file)]
        assert stat.S_IMODE(backup.stat().st_mode) == 0o600
        if former.read is not None:
            [(table, texts)] = former.read(backup.read_text("utf-8")).rows.items()
            assert texts
            assert rows_in(data / "ledger.sqlite", table, *texts[0]) == [
                tuple(row.values()) for row in texts
            ]
        for old, now in former.tables.items() if former.read is None else ():
            if old != "served_days":
                rows = rows_in(backup, old)
                assert rows, old
                assert rows_in(data / "ledger.sqlite", now) == rows
        if former.file in ("jobs.sqlite", "outputs.sqlite"):
            given = {former.tables[str(old)]: n for old, n in rows_in(backup, "sqlite_sequence")}
            assert given.items() <= dict(rows_in(data / "ledger.sqlite", "sqlite_sequence")).items()


def test_every_row_is_taken_over_and_work_goes_on(data: Path) -> None:
    old_files(data)
    path = data / "ledger.sqlite"
    Ledger(path).close()
    whole(data)
    before = path.read_bytes()
    Ledger(path).close()
    assert path.read_bytes() == before
    (data.parent.parent / "ragwright.yaml").write_text("sources: [docs]\n", "utf-8")
    with Workbench.open(data.parent.parent) as bench:
        [job] = bench.jobs().history()
    assert [step.output for step in job.steps] == ["because", "no"]
    assert [notice.sent for notice in job.notices] == [True]
    with closing(Runs(path)) as runs:
        run = runs.list("eval")[0]
        assert (run.name, run.state) == ("main", "complete")
        assert runs.kept(run.id, "cost") == {"paid": 1.5}
        assert [row.body["text"] for row in runs.rows(run.id)] == ["of the first", "of the second"]
        assert len(runs.list()) == 2
        assert forget_at(path, source="other")["rows"] == 1
    with closing(Outputs(path)) as outputs:
        assert [found.id for found in outputs.find(OutputQuery(scope=None))] == [
            *("1.p1", "1.1", "1.2", "2.1"),
        ]
        assert outputs.named("chat-7") == ("2.1", "key")
        assert outputs.get("1.1").verdict == "accepted"
        assert [score.value for score in outputs.scores.of("2.1")] == [0.5]
        with outputs.writing() as db:
            db.execute("DELETE FROM batches WHERE batch > 1")
            new = "INSERT INTO batches SELECT NULL, at, kind, client, request, asked, snapshot, "
            new += "configuration, served, scope, details, prompt_tokens, completion_tokens, cost, "
            db.execute(f"{new} seconds, calls FROM batches WHERE batch = 1")
            assert db.execute("SELECT max(batch) FROM batches").fetchone() == (4,)  # 3 was given


def test_files_of_the_first_versions_are_taken_over_too(data: Path) -> None:
    old_file(data, "runs", "DROP TABLE names; DROP TABLE facts; PRAGMA user_version = 1;")
    later = "names, scores, drawn, measuring_days, drifts"
    gone = "".join(f"DROP TABLE {name};" for name in later.split(", "))
    share = "UPDATE items SET details = '{}', cost = 0.25 WHERE kind = 'text' AND batch = 1;"
    drop = "DROP VIEW scored; DROP VIEW outputs;"
    old_file(data, "outputs", f"{share}{drop}{gone}PRAGMA user_version = 1;")
    counted = (
        "ALTER TABLE served_calls RENAME TO served_days;"
        "ALTER TABLE served_days RENAME COLUMN calls TO answers;"
        "CREATE TABLE served_answers (id TEXT PRIMARY KEY, output TEXT, key TEXT, scope TEXT);"
        "INSERT INTO served_answers VALUES ('a', '1.1', 'app', 'client-7');"
        "PRAGMA user_version = 1;"
    )
    served = old_file(data, "served", counted)
    calls = rows_in(served, "served_days")
    path = data / "ledger.sqlite"
    Ledger(path).close()
    assert rows_in(path, "served_calls") == calls
    assert b"client-7" not in path.read_bytes()
    with closing(Outputs(path)) as outputs:
        text = outputs.get("1.1")
        assert (text.usage.cost, text.share and text.share.cost) == (None, 0.25)
    with closing(Runs(path)) as runs:
        assert [run.name for run in runs.list()] == ["", ""]
    assert "runs.sqlite.v1.bak" in files(data)


# -- killed in the middle ------------------------------------------------------------------


def opening_that_dies(path: Path, call: str, count: int) -> None:
    """Open the ledger; killed (-9) after so many tables were copied, or files renamed."""
    calls = 0

    def called() -> None:
        nonlocal calls
        calls += 1
        if calls == count:
            os.kill(os.getpid(), signal.SIGKILL)

    class Deadly(sqlite3.Connection):
        def execute(self, sql: str, *values: Any) -> sqlite3.Cursor:
            cursor = super().execute(sql, *values)
            if call == "copy" and sql.startswith("INSERT INTO main."):
                called()
            return cursor

    class DeadlyPath(type(path)):  # type: ignore[misc]
        def replace(self, target: Any) -> Any:
            result = super().replace(target)
            if call == "rename":
                called()
            return result

    connect = sqlite3.connect
    with mock.patch("sqlite3.connect", lambda *a, **k: connect(*a, **{"factory": Deadly} | k)):
        Ledger(DeadlyPath(path)).close()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("call", "count"),
    [
        *(("copy", at) for at in (1, 4, 9, 17, 24, 26, 30)),
        *(("rename", at) for at in (1, 3, 5, 6, 10)),
    ],
)
def test_a_kill_at_any_moment_loses_and_doubles_nothing(data: Path, call: str, count: int) -> None:
    old_files(data)
    process = started(opening_that_dies, data / "ledger.sqlite", call, count)
    process.join(60)
    assert process.exitcode == -signal.SIGKILL
    if call == "copy":
        assert not any(name.endswith(".bak") for name in files(data))
    Ledger(data / "ledger.sqlite").close()
    whole(data)


def opening(path: Path) -> None:
    with closing(Runs(path)) as runs:
        assert len(runs.list()) == 2


@pytest.mark.slow
def test_processes_that_open_it_at_once_all_see_every_row(data: Path) -> None:
    old_files(data)
    processes = [started(opening, data / "ledger.sqlite") for _ in range(4)]
    for process in processes:
        process.join(60)
        assert process.exitcode == 0
    whole(data)


# -- refused, with every file as it was ----------------------------------------------------


def test_a_full_disk_leaves_the_files_and_says_so(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old_files(data)
    run = "INSERT INTO rows SELECT 'r', value, value, 'done', hex(randomblob(500)), 0 FROM "
    numbers = "(WITH RECURSIVE n(value) AS (VALUES (1) UNION ALL SELECT value + 1 FROM n LIMIT 999)"
    with closing(sqlite3.connect(data / "runs.sqlite")) as old:
        old.executescript(f"{run}{numbers} SELECT value FROM n);")
    real = SqliteDatabase._opened

    def small(self: SqliteDatabase) -> sqlite3.Connection:
        connection = real(self)
        connection.execute("PRAGMA max_page_count = 150")
        return connection

    monkeypatch.setattr(SqliteDatabase, "_opened", small)
    with pytest.raises(StoreFullError, match="they are untouched") as caught:
        Ledger(data / "ledger.sqlite")
    assert "free" in (caught.value.hint or "")
    assert not any(name.endswith(".bak") for name in files(data))
    assert len(rows_in(data / "runs.sqlite", "rows")) == 1001
    monkeypatch.undo()
    Ledger(data / "ledger.sqlite").close()
    whole(data)


def test_a_project_that_cannot_be_written_says_who_must_open_it(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old_files(data)
    with monkeypatch.context() as patched:
        patched.setattr(os, "access", lambda _, mode, **__: mode == os.R_OK)
        with pytest.raises(SchemaVersionError, match="of an older ragwright") as caught:
            Ledger(data / "ledger.sqlite")
        assert "as a user who may write" in (caught.value.hint or "")
    assert files(data) >= {"runs.sqlite", "serve/served.sqlite"}
    Ledger(data / "ledger.sqlite").close()
    with monkeypatch.context() as patched:
        patched.setattr(os, "access", lambda _, mode, **__: mode == os.R_OK)
        with closing(Runs(data / "ledger.sqlite")) as runs:
            assert len(runs.list()) == 2


def test_rows_that_an_older_program_wrote_afterwards_are_not_passed_over(data: Path) -> None:
    old_files(data)
    path = data / "ledger.sqlite"
    Ledger(path).close()
    again = old_file(data, "runs", "UPDATE names SET name = 'later';")
    with pytest.raises(SchemaVersionError, match="was written to after") as caught:
        Ledger(path)
    assert "move runs.sqlite away" in (caught.value.hint or "")
    assert rows_in(path, "names") != rows_in(again, "names")
    path.rename(path.with_name("away"))  # as the hint says
    for name in NAMES:
        if name != "runs":
            old_file(data, name)
    for file in TEXTS:
        old_text(data, file)
    Ledger(path).close()
    assert [name for _, name in rows_in(path, "names")] == ["later"]
    assert len(rows_in(path, "batches")) == 2


def test_an_empty_file_that_an_older_program_left_is_removed(data: Path) -> None:
    """It makes one when it only reads; the backup of the rows stays."""
    old_files(data)
    Ledger(data / "ledger.sqlite").close()
    old_file(data, "runs", "".join(f"DELETE FROM {name};" for name in RUNS))
    (data / "spending.sqlite").touch()
    Ledger(data / "ledger.sqlite").close()
    whole(data)


def test_a_file_that_an_older_program_has_open_is_not_taken_from_it(data: Path) -> None:
    old = old_file(data, "outputs")
    with closing(sqlite3.connect(old, isolation_level=None)) as at_work:
        at_work.execute("BEGIN")
        at_work.execute("SELECT count(*) FROM batches").fetchone()
        with pytest.raises(StoreBusyError) as caught:
            Ledger(data / "ledger.sqlite")
    assert "older ragwright" in (caught.value.hint or "")
    Ledger(data / "ledger.sqlite").close()
    assert len(rows_in(data / "ledger.sqlite", "batches")) == 2


def test_what_a_killed_program_left_in_the_log_is_taken_over(data: Path) -> None:
    old = old_file(data, "runs")
    with closing(sqlite3.connect(old, isolation_level=None)) as writing:
        writing.execute("UPDATE names SET name = 'last words'")
        left = {end: Path(f"{old}{end}").read_bytes() for end in ("", "-wal")}
    for end, content in left.items():  # as they lay when it was killed
        Path(f"{old}{end}").write_bytes(content)
    Ledger(data / "ledger.sqlite").close()
    assert [name for _, name in rows_in(data / "ledger.sqlite", "names")] == ["last words"]
    assert files(data) == {"ledger.sqlite", "runs.sqlite.v3.bak"}
    assert not list(data.glob("runs.sqlite-*"))


@pytest.mark.parametrize("kind", ["damaged", "foreign", "newer"])
def test_a_file_that_cannot_be_read_is_named_and_left(data: Path, kind: str) -> None:
    path = old_file(data, "jobs", "PRAGMA user_version = 9;" if kind == "newer" else "")
    if kind == "damaged":
        path.write_bytes(b"not a database at all" * 500)
    if kind == "foreign":
        path.unlink()
        with closing(sqlite3.connect(path)) as theirs:
            theirs.execute("CREATE TABLE theirs (x)")
    before = path.read_bytes()
    error = SchemaVersionError if kind == "newer" else StoreDamagedError
    with pytest.raises(error, match=r"jobs\.sqlite") as caught:
        Ledger(data / "ledger.sqlite")
    assert caught.value.hint
    assert path.read_bytes() == before
    path.unlink()
    with closing(Runs(data / "ledger.sqlite")) as runs:
        assert list(runs.list()) == []


@pytest.mark.parametrize(
    ("file", "content", "error"),
    [
        ("serve/keys.json", "{", StoreDamagedError),
        ("serve/keys.json", '{"version": 1, "keys": [{"name": "app"}]}', StoreDamagedError),
        ("serve/keys.json", '{"version": 9, "keys": []}', SchemaVersionError),
        ("served/history.jsonl", '{"version": 1}\n', StoreDamagedError),
        ("served/history.jsonl", "\xff", StoreDamagedError),
        ("embedders.json", "[]", StoreDamagedError),
        ("systems.json", '{"a": 1}', StoreDamagedError),
        ("ingested.json", "7", StoreDamagedError),
    ],
)
def test_a_file_of_text_that_cannot_be_read_is_named_and_left(
    data: Path, file: str, content: str, error: type[StoreError]
) -> None:
    path = old_text(data, file)
    path.write_text(content, "latin-1")
    with pytest.raises(error, match=path.name) as caught:
        Ledger(data / "ledger.sqlite")
    assert caught.value.where == str(path)
    assert caught.value.hint
    assert path.read_text("latin-1") == content


def test_keys_and_promotions_of_an_older_version_count_on(data: Path) -> None:
    for file in TEXTS:
        old_text(data, file)
    folder = ProjectFolder(data.parents[1])
    with closing(ServeKeys(folder)) as keys:
        assert [key.name for key in keys.all()] == ["app", "owner"]
        key = keys.find("rw_HigPT1fXid85eOZPnJUd4idRFDQnM4TwbWrvtZHx7Sg")
        assert key is not None
        assert (key.filters, key.configurations) == (("tenant=acme",), ("short",))
        assert (key.per_minute, key.daily_budget) == (7, 0.5)
    served = Served(folder).current()
    assert served is not None
    assert (served.number, served.replaced, served.action, served.reason) == (
        *(1, 2, "back", "too long: für alle"),
    )
    assert [change.gate.get("outcome") for change in Served(folder).history()] == [
        *("passed", "passed", None),
    ]


def test_a_server_whose_last_key_was_revoked_by_an_older_version_stays_closed(data: Path) -> None:
    old_text(data, "serve/keys.json").write_text('{"version": 1, "keys": []}')
    with closing(ServeKeys(ProjectFolder(data.parents[1]))) as keys:
        assert keys.all() == ()
        assert keys.used


def test_a_ledger_of_the_first_version_is_migrated_after_a_backup(data: Path) -> None:
    for name in NAMES:
        old_file(data, name)
    path = data / "ledger.sqlite"
    new = [table for former in FORMER_TEXTS for table in former.tables]
    Ledger(path).close()
    with closing(sqlite3.connect(path)) as file:
        file.executescript("".join(f"DROP TABLE {name};" for name in new))
        file.execute("PRAGMA user_version = 1")
    for text in TEXTS:
        old_text(data, text)
    Ledger(path).close()
    backup = path.with_name("ledger.sqlite.v1.bak")
    assert stat.S_IMODE(backup.stat().st_mode) == 0o600
    backup.unlink()
    whole(data)


def test_an_old_file_that_comes_later_is_taken_over_where_nothing_is_in_its_place(
    data: Path,
) -> None:
    with closing(Runs(data / "ledger.sqlite")) as runs:
        run = runs.start("eval", {})
        runs.append(run, RunRow(0, "r", "done", {}))
        runs.finish(run, "complete")
    old_file(data, "outputs")
    with closing(Outputs(data / "ledger.sqlite")) as outputs:
        assert outputs.get("2.1").usage == Usage(1, 9, 3, 0.25)
    with closing(Runs(data / "ledger.sqlite")) as runs:
        assert [found.id for found in runs.list()] == [run]
    assert issubclass(SchemaVersionError, StoreError)
