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
from ragwright.records.sources import place

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


@pytest.fixture(scope="module")
def server(postgres: str) -> str:
    import psycopg

    with psycopg.connect(f"host={postgres} user=admin dbname=postgres", autocommit=True) as made:
        made.execute(MAKE)
    return postgres


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


def opened(folder: Path, address: str, query: str, **more: Any) -> RowSource:
    given = {"key": "id", "text": "text", **more}
    return open_source(SourceSpec(address, query=query, **given), folder)


def rows_of(source: RowSource, since: str = "") -> list[dict[str, Any]]:
    return [row for batch in source.batches(1_000, since) for row in batch.to_pylist()]


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
    limit = "options=-c%20statement_timeout%3D300" if "sleep" in query else ""
    source = opened(
        Path(), f"postgresql+psycopg://shopper@/postgres?host={server}&{limit}".strip("&"), query
    )
    with pytest.raises(DatabaseError, match=said) as caught:
        rows_of(source)
    assert "transaction" not in caught.value.what


@pytest.fixture(params=["postgresql+psycopg", pytest.param("postgres", marks=pytest.mark.slow)])
def address(request: pytest.FixtureRequest, server: str) -> str:
    return f"{request.param}://admin@/postgres?host={server}"


@pytest.mark.slow
def test_values_of_postgresql_are_as_they_are(address: str) -> None:
    source = opened(Path(), address, "SELECT * FROM messages ORDER BY id -- all of it")
    found = rows_of(source)
    assert found[0] == {
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
    assert found[1] == {name: (2 if name == "id" else None) for name in found[0]}
    assert (found[2]["Body Text"], found[2]["extra"], found[2]["ok"]) == ("", "null", False)
    assert source.stamp() == ""


def test_a_query_may_hold_colons_and_percent_signs(address: str) -> None:
    query = 'SELECT id::text, "Body Text" AS text FROM messages WHERE "Body Text" LIKE \'%: 50%\''
    assert rows_of(opened(Path(), address, query)) == [{"id": "1", "text": "x: 50% :a"}]


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
    source = opened(Path(), address, "SELECT * FROM messages ORDER BY id;", watermark=column)
    found = rows_of(source, since)
    assert [row["id"] for row in found] == ids
    assert source.reached == reached
    everything = opened(Path(), address, "SELECT * FROM messages", watermark=column)
    assert len(rows_of(everything)) == 3


def test_renamed_watermarks_and_missing_ones(address: str) -> None:
    spec: dict[str, Any] = {"rename": {"id": "number"}, "key": "number"}
    query = "SELECT id FROM messages"
    source = opened(Path(), address, query, watermark="number", **spec)
    assert sorted(row["id"] for row in rows_of(source, "2")) == [2, 3]
    with pytest.raises(RecordsError, match="'numbr'") as raised:
        rows_of(opened(Path(), address, query, watermark="numbr"), "2")
    assert raised.value.hint


@pytest.mark.slow
def test_rows_are_counted_for_messages(address: str) -> None:
    batches = list(opened(Path(), address, "SELECT * FROM many ORDER BY id").batches(7_000))
    assert [batch.num_rows for batch in batches] == [7_000] * 8 + [4_000]
    assert place(batches[-1], 3_999) == "query, row 60000"
    assert len({str(batch.schema.types) for batch in batches}) == 1


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
        rows_of(opened(Path(), address, query))
    assert raised.value.where
    assert len(rows_of(opened(Path(), address, "SELECT id FROM messages"))) == 3


@pytest.mark.slow
@pytest.mark.needs_postgres
def test_a_server_that_goes_down_half_way() -> None:
    import psycopg

    with running_server() as folder:
        with psycopg.connect(f"host={folder} user=admin dbname=postgres", autocommit=True) as made:
            made.execute(
                "CREATE TABLE many AS SELECT n AS id, repeat('word ', 400) AS text "
                "FROM generate_series(1, 60000) AS n"
            )
        source = opened(
            Path(), f"postgresql+psycopg://admin@/postgres?host={folder}", "SELECT * FROM many"
        )
        batches = source.batches(500)
        assert next(batches).num_rows == 500
        stop_server(folder)
        with pytest.raises(DatabaseError, match="cannot be read"):
            for _ in batches:
                pass
        with pytest.raises(DatabaseError, match="cannot be opened"):
            next(source.batches(500))


@pytest.mark.slow
def test_secrets_stay_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    address = "postgresql+psycopg://shopper:${SHOP_PASSWORD}@localhost:1/postgres"
    monkeypatch.delenv("SHOP_PASSWORD", raising=False)
    with pytest.raises(ConfigError, match="SHOP_PASSWORD"):
        opened(Path(), address, "SELECT 1 AS id")
    monkeypatch.setenv("SHOP_PASSWORD", "hun/ter2")
    source = opened(Path(), address, "SELECT 1 AS id")
    with pytest.raises(DatabaseError, match="cannot be opened") as raised:
        rows_of(source)
    assert "ter2" not in str(raised.value)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["timestamptz", "timestamp", "date"])
@pytest.mark.parametrize("value", ["infinity", "-infinity", "0044-03-15 BC", "20000-01-01"])
def test_a_date_of_no_calendar_is_named(address: str, kind: str, value: str) -> None:
    dates = f"CASE WHEN id = 2500 THEN '{value}' ELSE '2026-03-01' END::{kind} AS at"
    query = f"SELECT id, {dates} FROM many WHERE id < 3000 ORDER BY id"
    with pytest.raises(
        DatabaseError, match=r"the database cannot be read: .*too (large|small)"
    ) as raised:
        rows_of(opened(Path(), address, query, watermark="at"))
    assert "NULLIF(column, 'infinity')" in str(raised.value.hint)
    first = f"SELECT id, '{value}'::{kind} AS at FROM many"
    with pytest.raises(DatabaseError, match="cannot be read"):
        rows_of(opened(Path(), address, first, watermark="at"), "2026-01-01")
    mended = f"SELECT id, CAST(at AS text) AS at FROM ({query}) AS rows"
    assert len(rows_of(opened(Path(), address, mended))) == 2_999


def test_an_address_stands_in_a_variable_as_a_whole(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WHOLE", address)
    assert rows_of(opened(Path(), "${WHOLE}", "SELECT 1 AS id")) == [{"id": 1}]


@pytest.mark.slow
def test_texts_of_no_encoding_are_utf8_or_refused(server: str) -> None:
    import psycopg

    name = "mixed"
    with psycopg.connect(f"host={server} user=admin dbname=postgres", autocommit=True) as made:
        made.execute(f"CREATE DATABASE {name} ENCODING 'SQL_ASCII' TEMPLATE template0")
    with psycopg.connect(f"host={server} user=admin dbname={name}", autocommit=True) as made:
        made.execute(
            "CREATE TABLE t AS SELECT 1 AS id, convert_from('\\xc3a9', 'SQL_ASCII') AS text "
            "UNION ALL SELECT 2, convert_from('\\xe9', 'SQL_ASCII')"
        )
    address = f"postgresql+psycopg://admin@/{name}?host={server}"
    assert rows_of(opened(Path(), address, "SELECT * FROM t WHERE id = 1")) == [
        {"id": 1, "text": "é"}
    ]
    with pytest.raises(DatabaseError):
        rows_of(opened(Path(), address, "SELECT * FROM t"))


# -- SQLite ------------------------------------------------------------------------------------


def test_sqlite(shop: Path) -> None:
    query = "SELECT id, text, number, raw FROM messages ORDER BY id"
    source = opened(shop, "sqlite:///shop.db", query, watermark="id")
    assert rows_of(source) == [
        {"id": 1, "text": "007", "number": 5.0, "raw": b"\x00\xff"},
        {"id": 2, "text": "b", "number": 2.5, "raw": None},
        {"id": 2**60, "text": None, "number": None, "raw": None},
    ]
    assert source.reached == str(2**60)
    assert [row["id"] for row in rows_of(source, "2")] == [2, 2**60]
    absolute = f"sqlite:///{shop}/shop.db"
    assert len(rows_of(opened(Path(), absolute, query))) == 3
    with pytest.raises(DatabaseError):
        rows_of(opened(shop, "sqlite:///shop.db", "DELETE FROM messages RETURNING id"))
    assert len(rows_of(opened(Path(), absolute, query))) == 3
    with pytest.raises(RecordsError, match="does not exist"):
        opened(shop, "sqlite:///stop.db", query)
    assert not (shop / "stop.db").exists()
    (shop / "no.db").write_text("this is no database, but it is long enough to be read as one")
    with pytest.raises(DatabaseError):
        rows_of(opened(shop, "sqlite:///no.db", query))


def test_values_of_several_types_in_one_column_of_sqlite(shop: Path) -> None:
    source = opened(shop, "sqlite:///shop.db", "SELECT mixed FROM messages ORDER BY id")
    assert rows_of(source) == [{"mixed": "1"}, {"mixed": "x"}, {"mixed": "2.5"}]


def test_types_hold_for_all_of_a_reading(shop: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As with databases that do not tell types: the first rows decide, and later ones fit."""
    monkeypatch.setattr("ragwright.records.sources._alchemy._ROWS", 1)
    monkeypatch.setattr(
        "ragwright.records.sources._alchemy._Reading._sqlite_types", lambda *_: None
    )
    query = "SELECT id, CASE id WHEN 1 THEN NULL ELSE mixed END AS m FROM messages ORDER BY id"
    found = rows_of(opened(shop, "sqlite:///shop.db", query))
    assert [row["m"] for row in found] == [None, "x", "2.5"]
    with pytest.raises(
        RecordsError, match="other types of values than in the first rows"
    ) as raised:
        rows_of(opened(shop, "sqlite:///shop.db", "SELECT mixed FROM messages ORDER BY id"))
    assert "CAST(mixed AS" in str(raised.value.hint)


# -- what is not there -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("address", "error"),
    [
        ("nodb://h/d", ConfigError),
        ("s3://bucket/rows.parquet", ConfigError),
        ("postgresql://u@h:port/d", ConfigError),
        ("mysql+pymysql://u@h/d", MissingExtraError),
    ],
)
def test_addresses_that_cannot_be_used(address: str, error: type[Exception]) -> None:
    with pytest.raises(error) as raised:
        opened(Path(), address, "SELECT 1 AS id")
    assert "pip install" in str(raised.value) or error is ConfigError


def test_a_database_needs_a_query(shop: Path) -> None:
    with pytest.raises(RecordsError, match="needs a query"):
        opened(shop, "sqlite:///shop.db", "  ")
