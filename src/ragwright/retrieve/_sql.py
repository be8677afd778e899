"""Answering from a database: the model writes one SELECT, and its rows become a passage."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ..core import Hit, StatementError, load_shipped_mapping, neutral, render, text_hash
from ..flow import ChatReply, Flow, Message, SqlReply, branch, chat, sql
from ..models import words
from ._asking import json_object, object_schema, unwrap_fence
from ._tables import QueryDatabase, Table
from ._target import Retrieved

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
    """The rows of a statement as hits of the documents whose tables it read; the first has them.

    Raises:
        StatementError: It read no table.
    """
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
