"""A shared database of the older layout: its tables are taken over by the command, whole."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from forgetting import forget_at
from former_files import old_file, rows_in

from ragwright.core import SchemaVersionError, StoreError
from ragwright.drafting import OutputQuery, Outputs
from ragwright.flow import Runs
from ragwright.ledger import (
    Ledger,
    SharedPlace,
    Tables,
    copy_rows,
    ledger_tables,
    open_database,
)

pytestmark = pytest.mark.slow

SHARED = [former for former in ledger_tables().former if former.schema]


@pytest.fixture(scope="module")
def server(postgres: str) -> str:
    return f"postgresql://admin@/postgres?host={postgres}"


@pytest.fixture
def place(server: str, request: pytest.FixtureRequest) -> SharedPlace:
    return SharedPlace(server, f"t{abs(hash(request.node.name)) % 10**9}")


def older_schemas(place: SharedPlace, data: Path) -> dict[str, int]:
    """The schemas of the older version with the rows of its files; returns rows by table of now."""
    counts: dict[str, int] = {}
    for former in SHARED:
        path = old_file(data, former.schema)
        with closing(sqlite3.connect(path)) as file:
            made = file.execute(
                "SELECT sql FROM sqlite_master WHERE sql LIKE 'CREATE%' "
                "AND name NOT LIKE 'sqlite%' ORDER BY rowid"
            )
            statements = [sql for (sql,) in made]
        rules = dict.fromkeys(former.tables, "ON CONFLICT DO NOTHING")
        numbered = {"batches": ("batch",), "feedback": ("number",)}
        numbered = numbered if former.schema == "outputs" else {}
        tables = Tables(former.schema, statements, former.version, moved=rules, numbered=numbered)
        with closing(open_database(place, tables)) as database:
            copy_rows(path, database)
        counts |= {now: len(rows_in(path, old)) for old, now in former.tables.items()}
    return counts


def counted(place: SharedPlace) -> dict[str, int]:
    with closing(Ledger(place)) as ledger:
        return {
            now: ledger.select(f"SELECT count(*) FROM {now}")[0][0]
            for former in SHARED
            for now in former.tables.values()
        }


def test_the_tables_are_taken_over_by_the_command_and_by_nothing_else(
    place: SharedPlace, tmp_path: Path
) -> None:
    expected = older_schemas(place, tmp_path)
    with pytest.raises(SchemaVersionError, match="of an older ragwright") as caught:
        Runs(place)
    assert "ragwright shared migrate" in (caught.value.hint or "")
    assert "pg_dump" in (caught.value.hint or "")
    for _ in range(2):
        Ledger(place, upgrade=True).close()
        assert counted(place) == expected
    with closing(Runs(place)) as runs:
        assert [run.name for run in runs.list("eval")] == ["main"]
        assert forget_at(place, source="doc")["rows"] == 2
    with closing(Outputs(place)) as outputs:
        assert [found.id for found in outputs.find(OutputQuery(scope=None))] == [
            *("1.p1", "1.1", "1.2")  # 2.1 was made of the document
        ]
        assert outputs.get("1.1").verdict == "accepted"
    for former in SHARED:  # an older program does not begin anew beside it
        with pytest.raises(SchemaVersionError, match="this ragwright reads"):
            open_database(place, Tables(former.schema, (), former.version))


def test_a_take_over_that_fails_leaves_the_tables_where_they_were(
    place: SharedPlace, tmp_path: Path
) -> None:
    import psycopg

    expected = older_schemas(place, tmp_path)
    theirs = f"public.theirs_of_{place.schema}"
    with psycopg.connect(place.address, autocommit=True) as sql:
        sql.execute(f"CREATE VIEW {theirs} AS SELECT id FROM {place.schema}_outputs.outputs")
        with pytest.raises(StoreError, match="depend on it"):  # after the tables of runs were moved
            Ledger(place, upgrade=True)
        with pytest.raises(SchemaVersionError, match="of an older ragwright"):
            Runs(place)
        sql.execute(f"DROP VIEW {theirs}")
    Ledger(place, upgrade=True).close()
    assert counted(place) == expected
