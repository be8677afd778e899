"""Rows of databases: a real PostgreSQL server and SQLite files, SQLAlchemy and ADBC."""

from __future__ import annotations

import sqlite3
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pytest
from postgres_server import running_server, stop_server

from ragwright.core import ConfigError, DatabaseError, MissingExtraError, RecordsError
from ragwright.records import RowSource, SourceSpec, open_source

MAKE = """
CREATE TABLE messages (
    id bigint, "Body Text" text, price numeric(10,2), large numeric, at timestamptz,
    plain timestamp, day date, clock time, tags text[], extra jsonb, raw bytea, code uuid,
    ok boolean, ratio real, score float8, padded char(4), small smallint
);
INSERT INTO messages VALUES
    (1, 'x: 50% :a', 12.50, 1e30, '2026-03-01 12:00+02', '2026-03-01 12:00', '2026-03-01',
     '12:00', '{a,NULL}', '{"a": [1.10]}', '\\x00ff', 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11',
     true, 1.1, 2.5, 'ab', 3),
    (2, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
     NULL),
    (3, '', 9, 17, '2026-03-02 00:00Z', '2026-03-02', '2026-03-02', NULL, NULL, 'null', NULL,
     NULL, false, 2, -1, '', 4);
CREATE TABLE many AS SELECT n AS id, 'text ' || n || repeat(' word', 100) AS text
    FROM generate_series(1, 60000) AS n;
CREATE ROLE shopper LOGIN PASSWORD 'hunter2';
GRANT SELECT ON many TO shopper;
"""


def execute(folder: str, *statements: str, database: str = "postgres") -> None:
    import psycopg

    where = f"host={folder} user=admin dbname={database}"
    with psycopg.connect(where, autocommit=True) as connection:
        for statement in statements:
            connection.execute(statement)


@pytest.fixture(scope="module")
def server(postgres: str) -> str:
    execute(postgres, MAKE)
    return postgres


@pytest.fixture(params=["postgresql+psycopg", pytest.param("postgres", marks=pytest.mark.slow)])
def address(request: pytest.FixtureRequest, server: str) -> str:
    return f"{request.param}://admin@/postgres?host={server}"


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    with sqlite3.connect(tmp_path / "shop.db") as made:
        made.executescript(
            "CREATE TABLE messages (id integer, text text, mixed, number numeric, raw blob);"
            "INSERT INTO messages VALUES (1, '007', 1, 5, x'00ff'), (2, 'b', 'x', 2.5, NULL),"
            f"({2**60}, NULL, 2.5, NULL, NULL);"
        )
    made.close()
    return tmp_path


def opened(address: str, query: str, folder: Path | None = None, **more: Any) -> RowSource:
    given = {"key": "id", "text": "text", **more}
    return open_source(SourceSpec(address, query=query, **given), folder or Path())


def rows_of(source: RowSource, since: str = "") -> list[dict[str, Any]]:
    return [row for batch in source.batches(since) for row in batch.rows.to_pylist()]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("SELECT 1/0 AS id, 'x' AS text", "division by zero"),
        ("SELECT 1/(50000 - id) AS id, text FROM many", "division by zero"),
        ("SELECT CAST('a' || id AS int) AS id, text FROM many", "invalid input syntax"),
        ("SELECT id, text FROM nothing", "nothing"),
        ("SELECT pg_sleep(60)::text AS text, 1 AS id", "statement timeout"),
        ("SELECT 1 AS id, pg_read_file('/etc/hostname') AS text", "permission denied"),
    ],
)
def test_what_a_database_says_first_is_told(server: str, query: str, said: str) -> None:
    """Not that its transaction is over, which it says of every statement after that."""
    limit = "&options=-c%20statement_timeout%3D300" if "sleep" in query else ""
    source = opened(f"postgresql+psycopg://shopper@/postgres?host={server}{limit}", query)
    with pytest.raises(DatabaseError, match=said) as caught:
        rows_of(source)
    assert "transaction" not in caught.value.what


@pytest.mark.slow
def test_values_of_postgresql_are_as_they_are(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = opened(address, "SELECT * FROM messages ORDER BY id -- all of it")
    first, second, third = rows_of(source)
    assert first == {
        "id": 1,
        "Body Text": "x: 50% :a",
        "price": "12.50",
        "large": "1" + "0" * 30,
        "at": datetime(2026, 3, 1, 10, tzinfo=UTC),
        "plain": datetime(2026, 3, 1, 12),  # noqa: DTZ001
        "day": date(2026, 3, 1),
        "clock": "12:00:00",
        "tags": '["a",null]',
        "extra": '{"a": [1.10]}',
        "raw": b"\x00\xff",
        "code": "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11",
        "ok": True,
        "ratio": 1.1,
        "score": 2.5,
        "padded": "ab  ",
        "small": 3,
    }
    assert second == {name: (2 if name == "id" else None) for name in first}
    assert (third["Body Text"], third["extra"], third["ok"]) == ("", "null", False)
    assert source.stamp() == ""
    # a query may hold colons and percent signs; an address may stand in a variable as a whole
    query = 'SELECT id::text, "Body Text" AS text FROM messages WHERE "Body Text" LIKE \'%: 50%\''
    assert rows_of(opened(address, query)) == [{"id": "1", "text": "x: 50% :a"}]
    monkeypatch.setenv("WHOLE", address)
    assert rows_of(opened("${WHOLE}", "SELECT 1 AS id")) == [{"id": 1}]
    batches = list(opened(address, "SELECT * FROM many ORDER BY id").batches())
    assert sum(batch.rows.num_rows for batch in batches) == 60_000
    assert batches[-1].place(-1) == "query, row 60000"
    assert len({str(batch.rows.schema.types) for batch in batches}) == 1


@pytest.mark.slow
@pytest.mark.parametrize(
    ("column", "since", "ids", "reached"),
    [
        ("id", "2", [2, 3], "3"),
        ("id", "3", [3], "3"),
        ("id", "9", [], "9"),
        ("at", "2026-03-01T10:00:00+00:00", [1, 2, 3], "2026-03-02T00:00:00.000000+00:00"),
        ("at", "2026-03-01T10:00:01+00:00", [2, 3], "2026-03-02T00:00:00.000000+00:00"),
        ("plain", "2026-03-01T12:00:01", [2, 3], "2026-03-02T00:00:00.000000"),
        ("day", "2026-03-02", [2, 3], "2026-03-02"),
        ("price", "10", [1, 2], "12.50"),
        ("score", "2.5", [1, 2], "2.5"),
        ("Body Text", "a", [1, 2], "x: 50% :a"),
    ],
)
def test_a_watermark_reads_what_is_at_or_above_it_and_nulls(
    address: str, column: str, since: str, ids: list[int], reached: str
) -> None:
    source = opened(address, "SELECT * FROM messages ORDER BY id;", watermark=column)
    assert [row["id"] for row in rows_of(source, since)] == ids
    assert source.reached == reached
    assert len(rows_of(opened(address, "SELECT * FROM messages", watermark=column))) == 3


def test_renamed_watermarks_and_missing_ones(address: str) -> None:
    spec: dict[str, Any] = {"rename": {"id": "number"}, "key": "number"}
    source = opened(address, "SELECT id FROM messages", watermark="number", **spec)
    assert sorted(row["id"] for row in rows_of(source, "2")) == [2, 3]
    with pytest.raises(RecordsError, match="'numbr'") as raised:
        rows_of(opened(address, "SELECT id FROM messages", watermark="numbr"), "2")
    assert raised.value.hint


@pytest.mark.slow
@pytest.mark.parametrize(
    "query",
    [
        "DELETE FROM messages RETURNING id",
        "WITH gone AS (DELETE FROM messages RETURNING id) SELECT * FROM gone",
        "SELECT nextval('none')",
        "SELECT id FROM nowhere",
        "SELEC id",
        "SELECT 1/0 AS id",
    ],
)
def test_what_writes_or_fails_is_an_error(address: str, query: str) -> None:
    with pytest.raises(DatabaseError) as raised:
        rows_of(opened(address, query))
    assert raised.value.where
    assert len(rows_of(opened(address, "SELECT id FROM messages"))) == 3


@pytest.mark.slow
@pytest.mark.needs_postgres
def test_a_server_that_goes_down_half_way() -> None:
    with running_server() as folder:
        many = "SELECT n AS id, repeat('word ', 400) AS text FROM generate_series(1, 60000) AS n"
        execute(folder, f"CREATE TABLE many AS {many}")
        address = f"postgresql+psycopg://admin@/postgres?host={folder}"
        source = opened(address, "SELECT * FROM many")
        batches = source.batches()
        assert next(batches).rows.num_rows
        stop_server(folder)
        with pytest.raises(DatabaseError, match="cannot be read"):
            list(batches)
        with pytest.raises(DatabaseError, match="cannot be opened"):
            next(source.batches())


@pytest.mark.slow
def test_secrets_stay_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    address = "postgresql+psycopg://shopper:${SHOP_PASSWORD}@localhost:1/postgres"
    monkeypatch.delenv("SHOP_PASSWORD", raising=False)
    with pytest.raises(ConfigError, match="SHOP_PASSWORD"):
        opened(address, "SELECT 1 AS id")
    monkeypatch.setenv("SHOP_PASSWORD", "hun/ter2")
    source = opened(address, "SELECT 1 AS id")
    with pytest.raises(DatabaseError, match="cannot be opened") as raised:
        rows_of(source)
    assert "ter2" not in str(raised.value)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["timestamptz", "timestamp", "date"])
@pytest.mark.parametrize("value", ["infinity", "-infinity", "0044-03-15 BC", "20000-01-01"])
def test_a_date_of_no_calendar_is_named(address: str, kind: str, value: str) -> None:
    dates = f"CASE WHEN id = 2500 THEN '{value}' ELSE '2026-03-01' END::{kind} AS at"
    query = f"SELECT id, {dates} FROM many WHERE id < 3000 ORDER BY id"
    told = r"the database cannot be read: .*too (large|small)"
    with pytest.raises(DatabaseError, match=told) as raised:
        rows_of(opened(address, query, watermark="at"))
    assert "NULLIF(column, 'infinity')" in str(raised.value.hint)
    first = f"SELECT id, '{value}'::{kind} AS at FROM many"
    with pytest.raises(DatabaseError, match="cannot be read"):
        rows_of(opened(address, first, watermark="at"), "2026-01-01")
    mended = f"SELECT id, CAST(at AS text) AS at FROM ({query}) AS rows"
    assert len(rows_of(opened(address, mended))) == 2_999


# -- SQLite --------------------------------------------------------------------------------------


def test_sqlite(shop: Path) -> None:
    query = "SELECT id, text, number, raw FROM messages ORDER BY id"
    source = opened("sqlite:///shop.db", query, shop, watermark="id")
    assert rows_of(source) == [
        {"id": 1, "text": "007", "number": 5.0, "raw": b"\x00\xff"},
        {"id": 2, "text": "b", "number": 2.5, "raw": None},
        {"id": 2**60, "text": None, "number": None, "raw": None},
    ]
    assert source.reached == str(2**60)
    assert [row["id"] for row in rows_of(source, "2")] == [2, 2**60]
    with pytest.raises(DatabaseError):
        rows_of(opened("sqlite:///shop.db", "DELETE FROM messages RETURNING id", shop))
    assert len(rows_of(opened(f"sqlite:///{shop}/shop.db", query))) == 3
    # values of several types in one column
    mixed = opened("sqlite:///shop.db", "SELECT mixed FROM messages ORDER BY id", shop)
    assert [row["mixed"] for row in rows_of(mixed)] == ["1", "x", "2.5"]
    with pytest.raises(RecordsError, match="no such file"):
        opened("sqlite:///stop.db", query, shop)
    assert not (shop / "stop.db").exists()
    (shop / "no.db").write_text("this is no database, but it is long enough to be read as one")
    with pytest.raises(DatabaseError):
        rows_of(opened("sqlite:///no.db", query, shop))


def test_a_watermark_of_several_types_is_refused(shop: Path) -> None:
    query = "SELECT id, mixed FROM messages"
    with pytest.raises(RecordsError, match="do not compare"):
        rows_of(opened("sqlite:///shop.db", query, shop, watermark="mixed"))


@pytest.mark.parametrize(
    ("address", "query", "error", "told"),
    [
        ("nodb://h/d", "SELECT 1 AS id", ConfigError, "nodb"),
        ("s3://bucket/rows.parquet", "SELECT 1 AS id", ConfigError, "s3"),
        ("postgresql://u@h:port/d", "SELECT 1 AS id", ConfigError, "cannot read the address"),
        ("mysql+pymysql://u@h/d", "SELECT 1 AS id", MissingExtraError, "pip install"),
        ("sqlite:///shop.db", "  ", RecordsError, "needs a query"),
    ],
)
def test_addresses_that_cannot_be_used(
    shop: Path, address: str, query: str, error: type[Exception], told: str
) -> None:
    with pytest.raises(error, match=told):
        opened(address, query, shop)
