"""The configured SQL databases, the handler that reads them, and answers from their rows."""

from __future__ import annotations

import asyncio
import json
import re
import threading
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

from ..core import (
    ConfigError,
    DatabaseError,
    Filter,
    Hit,
    RagwrightError,
    StatementError,
    fill_address,
    load_shipped_mapping,
    neutral,
    opens_to,
    render,
    suggest_name,
    text_hash,
)
from ..flow import ChatReply, Flow, Message, OnDelta, SendHandler, Sql, SqlReply, branch, chat, sql
from ..index import unique
from ..models import words
from ._options import SHEETS, DatabaseOptions
from ._query import json_object, object_schema, unwrap_fence
from ._tables import (
    Column,
    DatabaseReader,
    PostgresReader,
    QueryDatabase,
    Sheet,
    SqliteReader,
    Table,
)
from ._target import Retrieved

_GRACE = 15.0
"""Seconds for connecting and fetching, on top of what a statement may take."""

_LISTED = (
    'SELECT name, shown, document, source, title, sheet, page, start, "end", groups, hash '
    "FROM _tables JOIN _documents ON id = document ORDER BY _tables.rowid"
)
_OWN = (Column("_row", "integer"),)
"""Before the columns of a sheet: the number of the row."""


_SHEET_OPTIONS = DatabaseOptions(
    SHEETS,
    "sqlite:///",
    "Tables of the spreadsheets and CSV files that were ingested; _row numbers their rows.",
)
"""The settings of the database of spreadsheets."""


class SheetReader(SqliteReader):
    """Reads the file of :func:`ragwright.index.keep_sheets`."""

    hidden = ("_row", "_start", "_end")
    examples = 3

    def sheets(self) -> tuple[Sheet, ...]:
        """All tables of the file, in the order in which they were read.

        Raises:
            DatabaseError: The file cannot be read.
        """
        columns = {table.name: (*_OWN, *table.columns) for table in self.schema()}
        with self._opened() as connection:
            return tuple(
                Sheet(
                    Table(shown, columns[name]), name,
                    document, source, title, sheet, page, (start, end), tuple(json.loads(groups)),
                    stamp,
                )
                for name, shown, document, source, title, sheet, page, start, end, groups, stamp
                in connection.execute(_LISTED)
                if name in columns
            )  # fmt: skip

    def read_within(
        self, statement: str, max_rows: int, within: Sequence[tuple[str, str, str]]
    ) -> SqlReply:
        """Rows of one statement on some tables, as :class:`ragwright.flow.Sql` names them.

        Raises:
            StatementError: It was rejected, or took too long.
            DatabaseError: The file cannot be opened, or one of the tables has changed.
        """
        return self._reply(statement, max_rows, {"sheets": [list(sheet) for sheet in within]})


class Databases:
    """The configured databases, opened when first needed; schemas are read once.

    Args:
        options: The entries.
        root: Folder that relative SQLite paths start from.
        sheets: File of the tables of spreadsheets; it may come and go.

    Raises:
        ConfigError: Two databases have one name, or one that of the spreadsheets.
    """

    def __init__(
        self, options: Sequence[DatabaseOptions], root: Path = Path(), sheets: Path | None = None
    ) -> None:
        self._options = {entry.name: entry for entry in options}
        if len(self._options) != len(options):
            raise ConfigError("two databases have one name", hint="give each its own name")
        if SHEETS in self._options:
            raise ConfigError(
                f"the database name {SHEETS!r} is that of ingested spreadsheets",
                where="retrieve.databases",
                hint="give the database another name",
            )
        self._root = root
        self._sheets = sheets
        self._sheets_age: tuple[int, int] | None = None
        self._readers: dict[str, DatabaseReader] = {}
        self._described: dict[str, QueryDatabase] = {}
        self._lock = threading.Lock()

    @property
    def grouped(self) -> bool:
        """True if some databases name groups of readers."""
        return any(entry.groups for entry in self._options.values())

    def regroup(self, entries: Sequence[DatabaseOptions]) -> None:
        """Let the groups of readers in some entries hold, for the databases of these names."""
        for entry in entries:
            known = self._options.get(entry.name)
            if known is not None and known.groups != entry.groups:
                self._options[entry.name] = replace(known, groups=entry.groups)
                self._described.pop(entry.name, None)

    def options(self, name: str) -> DatabaseOptions:
        """The entry of a database.

        Raises:
            DatabaseError: It is not configured.
        """
        if name == SHEETS and self._sheets is not None:
            return _SHEET_OPTIONS
        if name not in self._options:
            raise DatabaseError(
                f"no database {name!r} is configured", hint=suggest_name(name, self._options)
            )
        return self._options[name]

    def reader(self, name: str) -> DatabaseReader:
        """The reader of a database; opens nothing yet.

        Raises:
            ConfigError: The address is of an unknown kind, or names a variable that is not set.
            DatabaseError: It is not configured.
        """
        options = self.options(name)
        with self._lock:
            if name not in self._readers:
                self._readers[name] = (
                    SheetReader(options, self._sheets)
                    if name == SHEETS and self._sheets is not None
                    else _open_reader(options, self._root)
                )
            return self._readers[name]

    def described(self) -> tuple[QueryDatabase, ...]:
        """All databases with their schemas, or the reason why one cannot be read.

        Tables of spreadsheets come last, if there are any.
        """
        names = list(self._options)
        if self._sheets is not None and self._sheets.is_file():
            stat = self._sheets.stat()
            age = (stat.st_mtime_ns, stat.st_size)
            if self._sheets_age != age:  # read again when the file has changed
                self._described.pop(SHEETS, None)
                self._sheets_age = age
            names.append(SHEETS)
        return tuple(map(self._describe_database, names))

    def fingerprints(self) -> Mapping[str, str]:
        """Name of a database -> hash of its present content (see :class:`DatabaseReader`).

        Empty for one that cannot be read.
        """
        hashes: dict[str, str] = {}
        sheets = (SHEETS,) if self._sheets is not None and self._sheets.is_file() else ()
        for name in (*self._options, *sheets):
            try:
                hashes[name] = self.reader(name).fingerprint()
            except RagwrightError:
                hashes[name] = ""
        return hashes

    def _describe_database(self, name: str) -> QueryDatabase:
        database = self._described.get(name)
        if database is None:
            options = self.options(name)
            try:
                reader = self.reader(name)
                if isinstance(reader, SheetReader):
                    sheets = reader.sheets()
                    database = QueryDatabase(options, (), reader.dialect, sheets=sheets)
                else:
                    database = QueryDatabase(options, reader.schema(), reader.dialect)
                self._described[name] = database
            except RagwrightError as error:  # not cached: it may be available next time
                database = QueryDatabase(options, problem=error.what)
        return database


class SqlHandler(SendHandler[Sql, SqlReply]):
    """Carries out read-only statements, a few at a time per database, off the loop."""

    def __init__(self, databases: Databases, workers: int = 4) -> None:
        self._databases = databases
        self._workers = workers
        self._pool = ThreadPoolExecutor(workers, thread_name_prefix="ragwright-sql")

    def lane(self, request: Sql) -> str:
        """The database."""
        return f"sql:{request.database}"

    def limit(self, lane: str) -> int | None:
        """As many statements at once as there are threads."""
        return self._workers

    def timeout(self, request: Sql) -> float | None:
        """The statement's own limit and some time to connect and fetch."""
        return self._databases.options(request.database).timeout + _GRACE

    def durable(self, request: Sql) -> bool:
        """False: tables change, so rows are only kept in their run."""
        return False

    def free(self, request: Sql) -> bool:
        """True for the tables of spreadsheets, which are a file of the project."""
        return request.database == SHEETS

    async def send(self, request: Sql, on_delta: OnDelta | None = None) -> SqlReply:
        """Read the rows of the statement.

        Raises:
            StatementError: It is rejected or stopped.
            DatabaseError: The database cannot be queried.
        """
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._pool, self._read_statement, request)

    def _read_statement(self, request: Sql) -> SqlReply:
        statement = request.statement
        most = min(request.max_rows, self._databases.options(request.database).max_rows)
        reader = self._databases.reader(request.database)
        if isinstance(reader, SheetReader):
            return reader.read_within(statement, most, request.within)
        return reader.read(statement, most)

    async def aclose(self) -> None:
        """Release the threads; statements under way end at their time limit."""
        self._pool.shutdown(wait=False, cancel_futures=True)


def _open_reader(options: DatabaseOptions, root: Path) -> DatabaseReader:
    from_variables = fill_address(options.address)
    scheme, _, rest = from_variables.partition("://")
    if scheme == "sqlite":
        path = Path(rest.removeprefix("/")).expanduser()
        return SqliteReader(options, path if path.is_absolute() else root / path)
    if scheme in {"postgresql", "postgres"}:
        return PostgresReader(options, from_variables)
    raise ConfigError(
        f"the database {options.name!r} has an address of an unknown kind",
        hint="sqlite:///PATH or postgresql://USER:${VARIABLE}@HOST/NAME",
    )


def open_databases(
    databases: Sequence[QueryDatabase],
    filters: Sequence[Filter],
    documents: Collection[str] | None = None,
) -> tuple[QueryDatabase, ...]:
    """The databases that a question under some filters may be sent to, with the tables it may see.

    Args:
        databases: The databases.
        filters: Hard filters; rights to read close databases and tables of spreadsheets.
        documents: The only documents whose tables may be seen; None for all.
    """
    allowed = []
    for database in databases:
        if database.options.name == SHEETS:
            narrowed = _narrowed_sheets(database, filters, documents)
            allowed += [narrowed] if narrowed.sheets else []
        elif opens_to(database.options.readers, filters):
            allowed.append(database)
    return tuple(allowed)


def _narrowed_sheets(
    database: QueryDatabase, filters: Sequence[Filter], documents: Collection[str] | None
) -> QueryDatabase:
    """The tables that a reader may see; their names tell of no other table."""
    taken: set[str] = set()
    sheets = tuple(
        replace(sheet, table=replace(sheet.table, name=unique(sheet.table.name, taken)))
        for sheet in database.sheets
        if opens_to(sheet.groups, filters) and (documents is None or sheet.document in documents)
    )
    options = replace(database.options, keywords=tuple(dict.fromkeys(s.sheet for s in sheets)))
    return replace(
        database, options=options, tables=tuple(sheet.table for sheet in sheets), sheets=sheets
    )


DATABASE = "sql:"
"""Beginning of the source of passages that are rows of a database."""

MOST_TABLES = 40
"""Most tables that the model sees; of more, those that share the most words with the question."""

_MAX_TOKENS = 600
_SCHEMA = object_schema({"statement": {"type": "string"}})


def sql_context(question: str, database: QueryDatabase, model: str) -> Flow[Retrieved]:
    """One hit: a Markdown table of the rows that a model's statement fetches.

    The model sees the schema; the question is a value of its prompt and never part of our SQL. A
    statement that is refused or fails is shown to the model with the reason, once. The hit's source
    is ``sql:NAME``, its metadata holds the statement.

    Raises:
        StatementError: The model finds no table for it, or its second statement fails too.
        DatabaseError: The database cannot be queried.
    """
    data = load_shipped_mapping("retrieve", "prompts/sql.yaml")
    tables, notes = _shown_tables(question, database)
    values = _prompt_values(question, database, tables)
    turns = [Message(role, render(data.text(role), values)) for role in ("system", "user")]
    options = database.options
    params = {"temperature": 0.0, "max_tokens": _MAX_TOKENS}

    def write_statement(fault: str = "") -> Flow[ChatReply]:
        """The model's reply; with a fault, it sees its last one and what was wrong."""
        if fault:
            again = render(data.text("again"), {"fault": fault})
            turns.extend((Message("assistant", reply.text), Message("user", again)))
        return (yield from chat(model, turns, params, schema=_SCHEMA, sources=database.documents))

    reply = yield from write_statement()
    planned = yield from branch(0, 0, 1)
    if reply.finish == "forecast":
        if planned:
            yield from write_statement("…")
        return Retrieved(question, (_hit(database, "", SqlReply((), ())),), "sql")
    try:
        statement = read_statement(reply)
        rows = yield from sql(options.name, statement, options.max_rows, database.within)
    except StatementError as error:
        if error.what == _NO_TABLE:
            raise
        notes.append(f"a first statement did not work: {error.what}")
        reply, statement = (yield from write_statement(error.what)), ""
        try:
            statement = read_statement(reply)
            rows = yield from sql(options.name, statement, options.max_rows, database.within)
        except StatementError as second:
            raise StatementError(
                second.what, where=f"second statement: {statement[:300]!r}", hint=second.hint
            ) from second
    notes = [f"from the database {options.name}: {statement}", *notes, *rows.notes]
    hit = _hit(database, statement, rows)
    hits = _sheet_hits(hit, rows, database) if database.sheets else (hit,)
    return Retrieved(question, hits, "sql", tuple(notes))


def read_statement(reply: ChatReply) -> str:
    """The statement in a reply: a JSON object, or one fenced block of SQL.

    Raises:
        StatementError: It contains neither or both, or says that the tables cannot answer.
    """
    if reply.finish == "length":
        raise StatementError(f"the reply was cut at {_MAX_TOKENS} tokens")
    kind, inner = unwrap_fence(reply.text)
    if kind in {"sql", "sqlite", "postgresql", "postgres"}:
        statement = inner
    else:
        try:
            statement = str(json_object(reply.text, {"statement": str})["statement"]).strip()
        except ValueError as error:
            raise StatementError(f"no statement in the reply: {error}") from error
    if not statement:
        raise StatementError(_NO_TABLE, hint="ask differently, or describe the tables better")
    return statement


_NO_TABLE = "the model finds no table that answers the question"


def _shown_tables(question: str, database: QueryDatabase) -> tuple[tuple[Table, ...], list[str]]:
    """The tables that a model sees, in the database's order, and a note if some are left out."""
    if len(database.tables) <= MOST_TABLES:
        return database.tables, []
    question_words = {word.casefold() for word in words(question)}

    def shared(table: Table) -> int:
        identifiers = " ".join([table.name, *(column.name for column in table.columns)])
        return len(
            question_words & {piece.casefold() for piece in re.findall(r"[^\W_]+", identifiers)}
        )

    best = sorted(database.tables, key=lambda table: (-shared(table), table.name))[:MOST_TABLES]
    kept = {table.name for table in best}
    note = f"{MOST_TABLES} of {len(database.tables)} tables were shown to the model"
    return tuple(table for table in database.tables if table.name in kept), [note]


def _prompt_values(
    question: str, database: QueryDatabase, tables: Sequence[Table]
) -> dict[str, Any]:
    """Values for the prompt; names and values of the database cannot imitate its marks."""
    return {
        "question": question,
        "dialect": database.dialect,
        "database": database.options.name,
        "description": database.options.description,
        "tables": [
            {
                "name": _spelt(table.name),
                "columns": [
                    {
                        "name": _spelt(column.name),
                        "type": _line(column.type),
                        "examples": [_line(value) for value in column.examples],
                    }
                    for column in table.columns
                ],
            }
            for table in tables
        ],
    }


def _spelt(name: str) -> str:
    """A name as a statement writes it: quoted, unless it is plain in every dialect."""
    line = _line(name)
    plain = re.fullmatch(r"[a-z_][a-z0-9_]*(\.[a-z_][a-z0-9_]*)?", line)
    return line if plain else '"' + line.replace('"', '""') + '"'


def _line(text: str) -> str:
    return " ".join(neutral(text).split())


def _hit(database: QueryDatabase, statement: str, rows: SqlReply) -> Hit:
    """The rows as one passage, under the statement that fetched them."""
    table = markdown_table(rows)
    text = f"```sql\n{statement}\n```\n\n{table}"
    if rows.truncated:
        text += f"\n\nOnly the first {len(rows.rows)} rows are shown; there are more."
    name = f"{DATABASE}{database.options.name}"
    return Hit(
        rank=1,
        score=1.0,
        document_id=name,
        chunk_id=f"{name}:{text_hash(statement)[:12]}",
        source=name,
        title=database.options.description or database.options.name,
        page=None,
        start=0,
        end=len(text),
        text=text,
        metadata={
            "database": database.options.name,
            "statement": statement,
            "rows": len(rows.rows),
            "truncated": rows.truncated,
        },
    )


def markdown_table(rows: SqlReply) -> str:
    """Columns and rows as a Markdown table; no value can break out of its cell."""
    lines = ["| " + " | ".join(map(_cell, row)) + " |" for row in (rows.columns, *rows.rows)]
    lines.insert(1, "|" + "---|" * max(1, len(rows.columns)))
    return "\n".join(lines if rows.rows else [*lines, "\n(no rows)"])


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return json.dumps(value)
    return " ".join(str(value).split()).replace("|", "\\|").replace("```", "'''")


def _sheet_hits(hit: Hit, rows: SqlReply, database: QueryDatabase) -> tuple[Hit, ...]:
    """The rows of a statement as hits of the documents whose tables it read; the first has them."""
    places = {name: (start, end) for name, start, end in rows.read}
    read = [sheet for sheet in database.sheets if sheet.table.name in places]
    if not read:
        raise StatementError("the statement reads no table", hint="select rows of a table")
    hits = []
    for rank, sheet in enumerate(read, 1):
        place = places[sheet.table.name]
        start, end = place if place[1] else sheet.span
        also = f"The statement of passage 1 reads this table, too: {sheet.table.name}"
        own = replace(
            hit,
            rank=rank,
            document_id=sheet.document,
            chunk_id=f"{sheet.document}:{start}-{end}",
            source=sheet.source,
            title=f"{sheet.title or sheet.source}, {sheet.sheet}",
            page=sheet.page,
            start=start,
            end=end,
            text=hit.text if rank == 1 else also,
        )
        hits.append(own)
    return tuple(hits)
