"""Read-only SQL: whatever a statement tries, rows come back or it is refused; nothing changes."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from ragwright.core import ConfigError, DatabaseError, RagwrightError, StatementError
from ragwright.flow import Runner, Sql, SqlReply, sql
from ragwright.retrieve import DatabaseOptions, Databases, SqlHandler

MAKE = """
CREATE TABLE orders (id integer PRIMARY KEY, customer text, amount real, placed text);
CREATE TABLE secrets (id integer PRIMARY KEY, word text);
CREATE VIEW large AS SELECT id, amount FROM orders WHERE amount > 50;
INSERT INTO orders VALUES (1, 'Ada', 10.5, '2026-01-02'), (2, 'Bob', 99.0, '2026-02-03'),
  (3, 'Ada', 70.0, '2026-02-04');
INSERT INTO secrets VALUES (1, 'xyzzy');
"""


@pytest.fixture(scope="module")
def sqlite_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("sql") / "shop.db"
    connection = sqlite3.connect(path)
    connection.executescript(MAKE)
    connection.close()
    return path


@pytest.fixture(scope="module")
def server(postgres: str) -> str:
    import psycopg

    with psycopg.connect(f"host={postgres} user=admin dbname=postgres", autocommit=True) as made:
        made.execute(MAKE)
        made.execute("CREATE SEQUENCE numbers")
        made.execute('CREATE TABLE "odd\'s" ("a;b" text)')
        made.execute("CREATE EXTENSION IF NOT EXISTS tablefunc")
        made.execute("CREATE ROLE reader LOGIN")
        made.execute("CREATE ROLE filer LOGIN IN ROLE pg_read_server_files")
        made.execute("CREATE ROLE heir LOGIN NOINHERIT IN ROLE admin")
        made.execute("GRANT SELECT ON orders, large TO reader")
        made.execute(
            "CREATE FUNCTION sly() RETURNS int LANGUAGE plpgsql VOLATILE AS "
            "'BEGIN DELETE FROM orders; RETURN 1; END'"
        )
    return postgres


def options(name: str, address: str, **more: object) -> DatabaseOptions:
    return DatabaseOptions(name, address, **more)  # type: ignore[arg-type]


@pytest.fixture(
    params=[
        "sqlite",
        pytest.param("postgresql", marks=[pytest.mark.slow, pytest.mark.needs_postgres]),
    ]
)
def address(request: pytest.FixtureRequest) -> str:
    """The same tables in a SQLite file, and on a server as a reader."""
    if request.param == "sqlite":
        return f"sqlite:///{request.getfixturevalue('sqlite_file')}"
    folder = request.getfixturevalue("server")
    return f"postgresql://reader@/postgres?host={folder}"


def ask(address: str, statement: str, **more: object) -> SqlReply:
    databases = Databases([options("shop", address, **more)])
    return databases.reader("shop").read(statement, 100)


def snapshot(address: str) -> list[tuple[object, ...]]:
    return list(ask(address, "SELECT id, customer, amount FROM orders ORDER BY id").rows)


@pytest.mark.slow
def test_rows_come_back_with_their_columns(address: str) -> None:
    reply = ask(
        address,
        "SELECT customer, count(*) AS n, sum(amount) AS total FROM orders "
        "GROUP BY customer ORDER BY customer;",
    )
    assert reply.columns == ("customer", "n", "total")
    assert [(row[0], row[1], float(row[2])) for row in reply.rows] == [
        ("Ada", 2, 80.5),
        ("Bob", 1, 99.0),
    ]
    assert not reply.truncated


@pytest.mark.slow
@pytest.mark.parametrize(
    "statement",
    [
        "SELECT ';' AS a, '--' AS b, 'it''s /* ok */' AS c",
        "WITH a AS (SELECT 1 AS x) SELECT x FROM a",
        "VALUES (1), (2)",
        "SELECT 1 AS x, 2 AS x",
        "(SELECT 1) UNION (SELECT 2)",
        "SELECT count(*) FROM orders WHERE customer LIKE '%a%'",
        "SELECT 100 % 7",
    ],
)
def test_honest_statements_run(address: str, statement: str) -> None:
    if address.startswith("sqlite") and statement.startswith("("):
        pytest.skip("no SQL of SQLite")
    assert ask(address, statement).rows


ATTACKS = [
    "DELETE FROM orders",
    "INSERT INTO orders VALUES (9, 'x', 1, '')",
    "UPDATE orders SET amount = 0",
    "DROP TABLE orders",
    "CREATE TABLE more (x int)",
    "SELECT 1; DELETE FROM orders",
    "SELECT 1;; DELETE FROM orders",
    "SELECT 1) AS a; DELETE FROM orders; SELECT (1",
    "WITH gone AS (DELETE FROM orders RETURNING id) SELECT * FROM gone",
    "SELECT * INTO copied FROM orders",
    "COPY orders TO PROGRAM 'touch /tmp/owned'",
    "COPY (SELECT 1) TO '/tmp/owned'",
    "SELECT pg_read_file('/etc/passwd')",
    "SELECT \"pg_read_file\"('/etc/passwd')",
    "SELECT U&\"pg\\005fread_file\"('/etc/passwd')",
    "SELECT pg_catalog . pg_read_file('/etc/passwd')",
    "SELECT pg_ls_dir('/')",
    "SELECT lo_import('/etc/passwd')",
    "SELECT lo_export(1, '/tmp/owned')",
    "SELECT nextval('numbers')",
    "SELECT setval('numbers', 9)",
    "SELECT sly()",
    "SELECT dblink('dbname=postgres', 'DELETE FROM orders')",
    "SELECT set_config('transaction_read_only', 'off', false)",
    "SELECT set_config('transaction_read_only', 'off', false), sly()",
    "SELECT set_config('role', 'admin', true)",
    "SELECT 1 LIMIT 0) AS a; DELETE FROM orders; --",
    "SELECT query_to_xml('SELECT pg_read_file(''/etc/passwd'')', true, true, '')",
    "SELECT rolpassword FROM pg_authid",
    "SELECT * FROM orders FOR UPDATE",
    "SET ROLE admin",
    "BEGIN",
    "COMMIT",
    "VACUUM",
    "EXPLAIN ANALYZE DELETE FROM orders",
    "ATTACH DATABASE '/tmp/other.db' AS other",
    "PRAGMA writable_schema = 1",
    "SELECT * FROM pragma_database_list",
    "SELECT load_extension('evil')",
    "SELECT readfile('/etc/passwd')",
    "SELECT writefile('/tmp/owned', 'x')",
    "SELECT 'unclosed",
    "",
    ";",
    "SELECT \x00 1",
    "SELECT " + "1+" * 20_000 + "1",
]


@pytest.mark.slow
@pytest.mark.parametrize("statement", ATTACKS)
def test_what_writes_escapes_or_injects_is_refused(address: str, statement: str) -> None:
    before = snapshot(address)
    with pytest.raises(StatementError) as raised:
        ask(address, statement)
    assert raised.value.hint
    assert snapshot(address) == before
    assert not Path("/tmp/owned").exists()


@pytest.mark.slow
def test_a_slow_statement_is_stopped(address: str) -> None:
    endless = (
        "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT max(x % 7) FROM n"
    )
    slow = [endless] if address.startswith("sqlite") else [endless, "SELECT 1 FROM pg_sleep(30)"]
    for statement in slow:
        with pytest.raises(StatementError, match=r"longer than 0\.3 s"):
            ask(address, statement, timeout=0.3)


@pytest.mark.slow
@pytest.mark.parametrize(
    "statement",
    [
        # Each compares two million places with a million characters.
        "SELECT instr(hex(zeroblob(1900000)), hex(zeroblob(900000)) || '1')",
        "SELECT length(replace(hex(zeroblob(1900000)), hex(zeroblob(900000)) || '1', ''))",
    ],
)
def test_time_is_over_within_one_function_too(sqlite_file: Path, statement: str) -> None:
    """SQLite looks at the clock between functions alone: these took hours."""
    with pytest.raises(StatementError, match=r"longer than 0\.5 s"):
        ask(f"sqlite:///{sqlite_file}", statement, timeout=0.5)


@pytest.mark.slow
def test_memory_has_a_limit(sqlite_file: Path) -> None:
    many = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n WHERE x < 900) "
    large = "SELECT DISTINCT x || hex(zeroblob(1900000)) AS long FROM n"
    with pytest.raises(StatementError, match="memory"):
        ask(f"sqlite:///{sqlite_file}", f"{many} SELECT count(*) FROM ({large})", timeout=60)


def test_rows_characters_and_values_have_limits(address: str) -> None:
    many = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n WHERE x < 500) "
    reply = ask(address, many + "SELECT x FROM n")
    assert len(reply.rows) == 100
    assert reply.truncated
    assert "first 100 rows" in reply.notes[0]
    exact = ask(address, many + "SELECT x FROM n LIMIT 100")
    assert (len(exact.rows), exact.truncated, exact.notes) == (100, False, ())
    make = "printf('%.*c', 9000, 'x')" if address.startswith("sqlite") else "repeat('x', 9000)"
    (row,) = ask(address, f"SELECT {make}").rows
    assert 1_000 < len(row[0]) < 2_100
    reply = ask(address, many + f"SELECT {make} FROM n", max_characters=5_000)
    assert reply.truncated
    assert 0 < sum(len(row[0]) for row in reply.rows) <= 5_000


@pytest.mark.slow
def test_a_value_as_large_as_memory_never_arrives(address: str) -> None:
    if address.startswith("sqlite"):
        with pytest.raises(StatementError):
            ask(address, "SELECT zeroblob(900000000)")
    else:
        (row,) = ask(address, "SELECT repeat('x', 50000000)").rows
        assert len(row[0]) < 2_100


def test_the_schema_is_read_with_types_and_without_values(address: str) -> None:
    plain = Databases([options("shop", address, tables=("orders", "large"))]).described()[0]
    assert not plain.problem
    assert [table.name for table in plain.tables] == ["large", "orders"]
    columns = plain.tables[1].columns
    assert [column.name for column in columns] == ["id", "customer", "amount", "placed"]
    assert columns[0].type == "integer"
    assert not any(column.examples for column in columns)


def test_sqlite_reads_only_the_tables_that_are_named(sqlite_file: Path) -> None:
    address = f"sqlite:///{sqlite_file}"
    assert ask(address, "SELECT * FROM large", tables=("large",)).rows
    for statement in ("SELECT * FROM secrets", "SELECT sql FROM sqlite_master"):
        with pytest.raises(StatementError, match=r"no such table|prohibited"):
            ask(address, statement, tables=("orders", "large"))


def test_the_rights_of_the_role_hold(server: str) -> None:
    reader = f"postgresql://reader@/postgres?host={server}"
    with pytest.raises(StatementError, match="permission denied"):
        ask(reader, "SELECT * FROM secrets")


@pytest.mark.parametrize("user", ["admin", "filer", "heir"])
def test_a_user_that_can_do_more_than_read_is_refused(server: str, user: str) -> None:
    """Else a function that runs text as SQL could read a file of the server."""
    address = f"postgresql://{user}@/postgres?host={server}"
    (described,) = Databases([options("shop", address)]).described()
    assert "is not asked" in described.problem
    with pytest.raises(DatabaseError, match="is not asked") as raised:
        ask(address, "SELECT 1")
    assert "GRANT SELECT" in str(raised.value.hint)
    crosstab = (
        "SELECT * FROM crosstab('SELECT 1, set_config(''role'', ''admin'', true), "
        "pg_read_file(''/etc/hostname'')') AS t(a int, b text, c text)"
    )
    for statement in (crosstab, "SELECT pg_read_file('/etc/hostname')"):
        with pytest.raises(DatabaseError, match="is not asked"):
            ask(address, statement)
        with pytest.raises(StatementError, match="permission denied"):
            ask(f"postgresql://reader@/postgres?host={server}", statement)


def test_through_a_runner_statements_run_side_by_side(address: str) -> None:
    databases = Databases([options("shop", address, max_rows=2)])
    with Runner({Sql: SqlHandler(databases)}) as runner:
        flows = [sql("shop", f"SELECT id + {n} AS x FROM orders ORDER BY 1") for n in range(8)]
        replies = list(runner.map(flows))
        assert [reply.rows[0][0] for reply in replies] == [n + 1 for n in range(8)]
        assert all(reply.truncated and len(reply.rows) == 2 for reply in replies)
        with pytest.raises(StatementError):
            runner.run(sql("shop", "SELECT 1; SELECT 2"))
        with pytest.raises(DatabaseError, match="no database 'stop'"):
            runner.run(sql("stop", "SELECT 1"))


@pytest.mark.parametrize(
    "address",
    ["postgresql://u:secret@h/d", "postgresql://h/d?password=x", "postgresql://u:a${B}@h/d"],
)
def test_a_password_in_the_file_is_refused(address: str) -> None:
    with pytest.raises(ConfigError, match="holds a password") as raised:
        options("shop", address)
    assert "secret" not in str(raised.value)


def test_a_server_that_cannot_be_reached_says_so_without_the_secret(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("SHOP_PASSWORD", "hunter2")
    address = f"postgresql://u:${{SHOP_PASSWORD}}@/d?host={tmp_path}"
    databases = Databases([options("shop", address)])
    (described,) = databases.described()
    assert "cannot be opened" in described.problem
    with pytest.raises(DatabaseError) as raised:
        databases.reader("shop").read("SELECT 1", 1)
    assert "hunter2" not in str(raised.value)


@pytest.mark.parametrize(
    "entry",
    [("", "sqlite:///a"), ("a b", "sqlite:///a"), ("a", "")],
)
def test_entries_without_name_or_address_are_refused(entry: tuple[str, str]) -> None:
    with pytest.raises(ConfigError):
        options(*entry)


def test_bad_addresses_and_files(tmp_path: Path) -> None:
    (tmp_path / "no.db").write_text("this is no database, but it is long enough to be read")
    for address in ("mysql://h/d", "sqlite:///missing.db", "sqlite:///no.db"):
        (described,) = Databases([options("x", address)], tmp_path).described()
        assert described.problem
    with pytest.raises(ConfigError, match="one name"):
        Databases([options("x", "sqlite:///a"), options("x", "sqlite:///b")])
    with pytest.raises(RagwrightError):
        Databases([options("x", "sqlite:///no.db")], tmp_path).reader("x").read(
            "SELECT a FROM t", 1
        )


@pytest.mark.parametrize(
    "statement",
    [
        "WITH orders AS (SELECT word FROM secrets) SELECT * FROM orders",
        "WITH large AS (SELECT word FROM secrets) SELECT * FROM large",
        "WITH Large(x) AS NOT MATERIALIZED (SELECT word FROM secrets) SELECT * FROM LARGE",
        "WITH 'large' AS (SELECT word FROM secrets) SELECT * FROM large",
        "WITH [large] AS (SELECT word FROM secrets) SELECT * FROM large",
        'WITH "large" AS (SELECT word FROM secrets) SELECT * FROM large',
        "WITH large([a)]) AS (SELECT word FROM secrets) SELECT * FROM large",
        "SELECT * FROM (WITH large AS (SELECT word FROM secrets) SELECT * FROM large)",
        "SELECT e'\\', w FROM (SELECT 1 AS e), (WITH large(w) AS (SELECT word FROM secrets) "
        "SELECT * FROM large) WHERE '' = ''",
        "WITH RECURSIVE a AS (SELECT 1), large AS (SELECT word FROM secrets) SELECT * FROM large",
        "WITH t AS (SELECT word FROM secrets) SELECT * FROM t",
        "SELECT * FROM (SELECT word FROM secrets) AS large",
    ],
)
def test_no_name_given_in_a_statement_opens_another_table(
    sqlite_file: Path, statement: str
) -> None:
    with pytest.raises(StatementError):
        ask(f"sqlite:///{sqlite_file}", statement, tables=("orders", "large"))


def test_allowed_views_and_honest_subqueries_still_run(sqlite_file: Path) -> None:
    address = f"sqlite:///{sqlite_file}"
    for statement in (
        "SELECT * FROM LARGE",
        "WITH a(x) AS (SELECT amount FROM orders), b AS (SELECT id FROM large) SELECT * FROM a, b",
        "SELECT sum(amount) OVER w FROM orders WINDOW w AS (ORDER BY id)",
        "SELECT CAST(amount AS integer) AS n FROM (SELECT amount FROM orders)",
    ):
        assert ask(address, statement, tables=("orders", "large")).rows
    assert ask(address, "SELECT * FROM large", tables=("large",)).rows


def test_a_fingerprint_follows_what_is_stored(address: str, tmp_path: Path) -> None:
    databases = Databases(
        [options("shop", address), options("no", "sqlite:///missing.db")], tmp_path
    )
    first = databases.fingerprints()
    assert len(first["shop"]) >= 32
    assert first["no"] == ""
    assert databases.fingerprints() == first
    other = tmp_path / "other.db"
    with closing(sqlite3.connect(other)) as connection:
        connection.executescript(MAKE.replace("99.0", "99.5"))
    changed = Databases([options("shop", f"sqlite:///{other}")]).fingerprints()
    assert changed["shop"] != first["shop"]
