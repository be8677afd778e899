"""Rows of a file, in ragas' names or those of other tools."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

from .. import answer
from ..core import Row, TestsetError, Turn, nearest_name, well_formed
from ..flow import Message
from ..measure import edit_distance
from ._dialects import ALIASES, EITHER, NESTED, rename_record, spell_columns
from ._records import TABLES, make_plain_row, records_of

_READERS = ("to_dicts", "to_pylist", "to_list")
"""Methods of polars, of Arrow, and of ragas' data sets."""

_MISSING = ("NAType", "NaTType")
"""Types of a missing value in pandas, beside NaN."""


def records_in(rows: Any) -> Iterator[Row | Mapping[str, Any]]:
    """Return the rows of a list, a data frame (pandas, polars), an Arrow table or a data set.

    A frame's missing values (None, NaN, NaT) are left out; arrays become lists.

    Raises:
        TestsetError: The object is none of these.
    """
    if hasattr(rows, "itertuples"):  # pandas
        rows = rows.to_dict("records")
    for method in _READERS:
        if callable(getattr(rows, method, None)):
            rows = getattr(rows, method)()
    if isinstance(rows, Mapping) or not isinstance(rows, Iterable):
        raise TestsetError(
            f"{type(rows).__name__} holds no rows",
            hint="give a file, a list of objects, a data frame or a data set"
            + (", one split of it" if isinstance(rows, Mapping) else ""),
        )
    for number, row in enumerate(rows, 1):
        if not isinstance(row, Row | Mapping):
            raise TestsetError(
                f"a row is {type(row).__name__}, not an object",
                where=f"row {number}",
                hint="give each row as a dict with user_input and so on",
            )
        if isinstance(row, Mapping):
            row = {str(name): _plain_cell(value) for name, value in row.items()}
        yield row


def _plain_cell(value: Any) -> Any:
    """Convert a cell of a frame: NaN, NaT, arrays and numbers of numpy become plain values."""
    if hasattr(value, "tolist"):  # arrays and scalars of numpy
        value = value.tolist()
    if type(value).__name__ in _MISSING or (isinstance(value, float) and value != value):
        return None
    return value.isoformat() if hasattr(value, "isoformat") else value


def replace_surrogates(row: Row) -> Row:
    """Replace every half of a surrogate pair by U+FFFD.

    Models, stores and terminals cannot handle such a half: one row would end the whole run.
    """
    text = json.dumps(make_plain_row(row), ensure_ascii=False, default=str)
    whole = well_formed(text)
    mended: Row = row if whole == text else _row_adapter().validate_python(json.loads(whole))
    return mended


def read_rows(path: str | Path, *, questions: bool = False) -> tuple[Row, ...]:
    """Read all rows of a file, in order, as :func:`iter_rows` reads them.

    Raises:
        TestsetError: As :func:`iter_rows`, or the file holds no rows.
    """
    rows = tuple(iter_rows(path, questions=questions))
    if not rows:
        raise TestsetError("the file holds no rows", where=str(path))
    return rows


def iter_rows(path: str | Path, *, questions: bool = False) -> Iterator[Row]:
    """Read rows of a JSONL, JSON, CSV, TSV or Parquet file.

    With ``questions``, ``question, answer`` are read as question and reference.
    Case and punctuation of column names are ignored. A single id is a list of one.

    ``user_input`` is required; ``id`` is the row's number by default. ``reference_ids`` is an
    object of grades or a list of ids (grade 1 each); ``reference_spans`` a list of
    ``{document_id, start, end, text}``, and so is ``retrieved_spans``, the positions of the
    retrieved contexts, in their order. A list of turns under ``user_input`` or ``messages`` (ragas,
    OpenAI) is read by :func:`one_question_each`. Rows of ragas v1, DeepEval, MLflow and
    RAGChecker are read by their names. An unknown column becomes metadata, unless its name is
    nearly a known one. Half of a surrogate pair becomes U+FFFD.

    An empty ``response`` is an empty answer; null, or a missing column, means no answer. In a table
    an empty cell is an empty answer.

    Raises:
        TestsetError: A row cannot be read, a value has the wrong type, a column may mean two
            things, or an id occurs twice; with file and line.
    """
    source = Path(path)
    table = source.suffix.lower() in TABLES
    yield from _rows_in(records_of(source), str(source), questions=questions, table=table)


def rows_of(
    records: Iterable[Row | Mapping[str, Any]], *, questions: bool = False
) -> Iterator[Row]:
    """Read rows from memory: rows as they are, objects as :func:`iter_rows` reads them.

    ``records`` may be a data frame, an Arrow table or a data set; see :func:`records_in`.

    Raises:
        TestsetError: As :func:`iter_rows`; with the number of the object.
    """
    numbered = ((f"row {number}", item) for number, item in enumerate(records_in(records), 1))
    yield from _rows_in(numbered, "row ", questions=questions)


def _rows_in(
    records: Iterable[tuple[str, Row | Mapping[str, Any]]],
    source: str,
    *,
    questions: bool,
    table: bool = False,
) -> Iterator[Row]:
    """Read the rows of records, number those without an id, and refuse duplicate ids.

    ``source`` is the prefix of their places; cells of a ``table`` may hold lists as text.
    """
    seen: dict[str, str] = {}  # one entry per row of a long file, so without the file name
    count = 0
    for number, (place, item) in enumerate(records, 1):
        singles: list[tuple[str, Any]] = [(place, item)]
        if not isinstance(item, Row):
            columns = spell_columns(item, place, table=table)
            singles = one_question_each(columns, place, number, questions=questions)
        for where, record in singles:
            count += 1
            if not isinstance(record, Row):
                renamed = rename_record(record, where, questions=questions)
                record = _row_of(renamed, str(count), where)
            row = replace_surrogates(record)
            if row.id in seen:
                raise TestsetError(
                    f"id {row.id!r} occurs twice",
                    where=where,
                    hint=f"{source}{seen[row.id]} has it too; keep one of the two rows, "
                    "or leave the ids out (id, query_id, instance_id) and the rows are numbered",
                )
            seen[row.id] = where.removeprefix(source)
            yield row


_KNOWN = frozenset(field.name for field in fields(Row))
_LISTS_OF_ONE = frozenset({"reference_ids", "retrieved_context_ids", "reference_contexts"})
_FORMS = {
    "metadata": "an object of scalars and lists of strings",
    "reference_ids": "an object of grades or a list of ids",
    "reference_contexts": "a list of strings",
    "reference_spans": "a list of {document_id, start, end, text}",
    "retrieved_context_ids": "a list of strings",
    "retrieved_contexts": "a list of strings",
    "retrieved_spans": "a list of {document_id, start, end, text}",
}
"""What a column of a row must be, unless it is a string."""


@cache
def _row_adapter() -> Any:
    """Return what makes a row of plain values; a number is its text."""
    from pydantic import ConfigDict, TypeAdapter

    return TypeAdapter(Row | None, config=ConfigDict(extra="forbid", coerce_numbers_to_str=True))


def _row_of(columns: Mapping[str, Any], number: str, where: str) -> Row:
    """Make a row of columns under our names; the others become metadata."""
    from pydantic import ValidationError

    known = {name: value for name, value in columns.items() if value is not None}
    extra = {name: known.pop(name) for name in list(known) if name not in _KNOWN}
    for column in extra:
        if near := _similar_column(column):
            raise TestsetError(
                f"unknown column {column!r}",
                where=where,
                hint=f"did you mean {near}? If it is your own column, rename it",
            )
    if "user_input" not in known:
        raise TestsetError(
            "the row has no user_input",
            where=where,
            hint="name the question user_input, question, query, input or request; the columns "
            f"are: {', '.join(columns) or 'no columns'}",
        )
    if known.get("retrieved_context_ids") == []:
        extra.setdefault("retrieved", True)  # searched, and nothing was found
    for name in _LISTS_OF_ONE & known.keys():
        if isinstance(known[name], str | int):
            known[name] = [known[name]]
    ids, metadata = known.get("reference_ids"), known.get("metadata", {})
    if isinstance(ids, list) and all(isinstance(name, str | int) for name in ids):
        known["reference_ids"] = dict.fromkeys(ids, 1)
    if isinstance(metadata, Mapping):
        known["metadata"] = {**extra, **metadata}
    try:
        row: Row = _row_adapter().validate_python({"id": number, **known})
    except ValidationError as error:
        fault = error.errors()[0]
        name, *inside = map(str, fault["loc"])
        raise TestsetError(
            f"{'.'.join([name, *inside[:1]])} is {type(fault['input']).__name__}: {name} must be "
            f"{_FORMS.get(name, 'a string')}",
            where=where,
        ) from error
    if any(not 0 <= span.start < span.end for span in row.reference_spans + row.retrieved_spans):
        raise TestsetError("a span is not 0 <= start < end", where=where)
    return row


@lru_cache(maxsize=1024)
def _similar_column(column: str) -> str:
    """Return the known column with a similar name; empty if there is none.

    One letter (two in long names) may be missing, added, wrong or swapped with another. Capitals,
    blanks and hyphens are ignored.
    """
    if column == "references":
        return ""
    normalised = column.casefold().replace(" ", "_").replace("-", "_")
    names = (*sorted(_KNOWN), *ALIASES, *EITHER, *NESTED)

    def is_typo(name: str) -> bool:
        swapped = sorted(normalised) == sorted(name)
        return edit_distance(normalised, name) <= (len(name) > 3) * (1 + (len(name) > 9) + swapped)

    return nearest_name(normalised, names, least=0.85) or next(filter(is_typo, names), "")


ROLES: Mapping[str, str] = {
    "agent": "assistant",
    "ai": "assistant",
    "assistant": "assistant",
    "developer": "",
    "function": "",
    "human": "user",
    "system": "",
    "tool": "",
    "user": "user",
}
"""Role in a file -> ours; turns of the roles without one are left out of the history."""

_ROLE_KEYS = ("role", "type")
"""Key of a turn's role: OpenAI, ragas; its text is under ``content``."""

_COLUMNS = ("user_input", "messages", "input", "turns", "conversation", "request", "inputs")
_PARTS = frozenset({"input_text", "output_text", "text"})
_OF_LAST = frozenset(
    {
        *("reference", "reference_contexts", "reference_ids", "reference_spans", "references"),
        *("retrieved_contexts", "retrieved_context_ids", "retrieved_spans"),
        *("answerability", "standalone"),
    }
)
"""Columns of a whole conversation that describe only its last question."""


def one_question_each(
    record: Mapping[str, Any], where: str, number: int, *, questions: bool = False
) -> list[tuple[str, Mapping[str, Any]]]:
    """Return a record as it is, or one record per question of its conversation, with their places.

    A conversation that ends with the user is one question: its last turn; the turns before it are
    the ``history``. One that ends with an answer is one question per turn of the user, with the
    ids ``CONVERSATION-TURN``: the answer to each turn is its ``response``, or, if the rows are
    ``questions`` to ask, its ``reference``; columns with gold belong to the last question.

    ``turn`` (from 1) and ``standalone`` become metadata; ``standalone`` is
    decided by the question's words where the record does not say it (:func:`answer.stands_alone`).

    Raises:
        TestsetError: A turn cannot be read, or the last turn is not a question.
    """
    column = _column_of(record)
    if column is None:
        earlier = record.get("history")
        if earlier is None:
            return [(where, record)]
        if not isinstance(earlier, list):
            raise TestsetError(
                f"history is {type(earlier).__name__}, not a list of turns",
                where=where,
                hint='write [{"role": "user", "content": "…"}, {"role": "assistant", …}]',
            )
        history = tuple(_read_turns("history", earlier, where)) if earlier else ()
        return [(where, {**record, **_add_turn(history, record)})]
    content = record[column]
    listed = content["messages"] if isinstance(content, Mapping) else content
    columns = {name: value for name, value in record.items() if name != column}
    turns = _read_turns(column, listed, where)
    if turns[-1].role == "user":
        return [(where, {**columns, **_question_columns(turns, columns)})]
    return _each_turn(turns, columns, where, number, questions=questions)


def _column_of(record: Mapping[str, Any]) -> str | None:
    for column in _COLUMNS:
        content = record.get(column)
        if isinstance(content, str) and column in ("user_input", "input", "request", "inputs"):
            return None
        if isinstance(content, Mapping):
            content = content.get("messages")
        if isinstance(content, list) and (
            column == "user_input"
            or not content
            or any(isinstance(entry, Mapping) for entry in content)
        ):
            return column
    return None


def _read_turns(column: str, content: Sequence[Any], where: str) -> list[Turn]:
    """Read the turns of a list; those of systems and tools are left out."""
    turns: list[Turn] = []
    for number, entry in enumerate(content, 1):
        place = f"turn {number} of {column}"
        key = ""
        if isinstance(entry, Mapping):
            key = next((key for key in _ROLE_KEYS if isinstance(entry.get(key), str)), "")
        if not key:
            raise TestsetError(
                f"{place} is not an object with a role",
                where=where,
                hint='write {"role": "user", "content": "…"} or {"type": "human", "content": "…"}',
            )
        role = ROLES.get(str(entry[key]).casefold())
        if role is None:
            raise TestsetError(
                f"{place} has the unknown role {entry[key]!r}",
                where=where,
                hint=f"one of {', '.join(ROLES)}",
            )
        text = _text_of(entry.get("content"), place, where)
        if role == "user" and not text.strip():
            raise TestsetError(
                f"{place} is a question without text",
                where=where,
                hint="write it under 'content', or leave the turn out",
            )
        if role and text.strip():
            turns.append(Turn(role, text))
        last_role = role
    if not turns or not last_role:
        fault = f"the last turn of {column} is of {entry[key]!r}" if turns else ""
        raise TestsetError(
            fault or f"{column} holds no turn of a user",
            where=where,
            hint="end it with the user's question, or with the answer to it",
        )
    return turns


def _text_of(content: Any, place: str, where: str) -> str:
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    if isinstance(content, list) and all(
        isinstance(part, Mapping)
        and part.get("type") in _PARTS
        and isinstance(part.get("text"), str)
        for part in content
    ):
        return "\n".join(part["text"] for part in content)
    raise TestsetError(
        f"the text of {place} is {type(content).__name__}, not a string",
        where=where,
        hint="images and other parts are not read; leave them out",
    )


def _question_columns(turns: Sequence[Turn], columns: Mapping[str, Any]) -> dict[str, Any]:
    question = {"user_input": turns[-1].content}
    return {**question, **_add_turn(tuple(turns[:-1]), {**columns, **question})}


def _add_turn(history: tuple[Turn, ...], columns: Mapping[str, Any]) -> dict[str, Any]:
    """Return the history of a question, and the columns that describe its place and kind."""
    question, stated = columns.get("user_input"), str(columns.get("turn"))
    turn = int(stated) if stated.isdecimal() else 1 + sum(turn.role == "user" for turn in history)
    known: dict[str, Any] = {"history": history, "turn": turn}
    if columns.get("standalone") is None:
        known["standalone"] = not history or (
            isinstance(question, str)
            and answer.stands_alone(question, [Message(t.role, t.content) for t in history])
        )
    return known


def _each_turn(
    turns: Sequence[Turn], columns: Mapping[str, Any], where: str, number: int, *, questions: bool
) -> list[tuple[str, Mapping[str, Any]]]:
    if columns.get("response") is not None:
        raise TestsetError(
            "the last turn is not by the user, and the row has a response besides",
            where=where,
            hint="end the turns with the question that was answered, or leave the response out",
        )
    asked = [at for at, turn in enumerate(turns) if turn.role == "user"]
    if not asked:
        raise TestsetError(
            "no turn is by the user", where=where, hint="a conversation needs a question"
        )
    name = columns.get("conversation_id") or columns.get("id") or number
    gold = {n: value for n, value in columns.items() if n in _OF_LAST}
    shared = {n: v for n, v in columns.items() if n not in _OF_LAST and n not in ("id", "turn")}
    replies = "reference" if questions else "response"
    records: list[tuple[str, Mapping[str, Any]]] = []
    for turn, at in enumerate(asked, 1):
        record = {**shared, "conversation_id": str(name), "id": f"{name}-{turn}"}
        record |= gold if at == asked[-1] else {}
        for reply in turns[at + 1 : at + 2]:
            if reply.role == "assistant" and record.get(replies) is None:
                record[replies] = reply.content
        records.append(
            (f"{where} (turn {turn})", record | _question_columns(turns[: at + 1], record))
        )
    return records
