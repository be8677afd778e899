"""Rows of a file, in ragas' names or those of other tools."""

from __future__ import annotations

import difflib
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, fields, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from ... import measure
from ...core import GoldSpan, MetaValue, Row, TestsetError, Turn, well_formed
from ._conversations import one_question_each
from ._dialects import (
    ALIASES,
    AMBIGUOUS,
    drop_scores,
    one_system_each,
    parse_cells,
    rename_record,
    spell_columns,
)
from ._records import TABLES, records_of

_READERS = ("to_dicts", "to_pylist", "to_list")
"""Methods of polars, of Arrow, and of ragas' data sets."""


def records_in(rows: Any) -> Iterable[Row | Mapping[str, Any]]:
    """Return the rows of a list, a data frame (pandas, polars), an Arrow table or a data set.

    A frame's missing values (None, NaN, NaT) are left out; arrays become lists.

    Raises:
        TestsetError: The object is none of these.
    """
    if hasattr(rows, "columns") and hasattr(rows, "itertuples"):  # pandas
        names = [str(name) for name in rows.columns]
        return (
            _plain_record(dict(zip(names, line, strict=True)))
            for line in rows.itertuples(index=False, name=None)
        )
    for method in _READERS:
        read = getattr(rows, method, None)
        if callable(read):
            return map(_plain_record, read())
    if isinstance(rows, Mapping) or not isinstance(rows, Iterable):
        raise TestsetError(
            f"{type(rows).__name__} holds no rows",
            hint="give a file, a list of objects, a data frame or a data set"
            + (", one split of it" if isinstance(rows, Mapping) else ""),
        )
    return _rows_or_mappings(rows)


def _rows_or_mappings(rows: Iterable[Any]) -> Iterator[Row | Mapping[str, Any]]:
    for number, row in enumerate(rows, 1):
        if not isinstance(row, Row | Mapping):
            raise TestsetError(
                f"a row is {type(row).__name__}, not an object",
                where=f"row {number}",
                hint="give each row as a dict with user_input and so on",
            )
        yield row


def _plain_record(record: Any) -> Any:
    if not isinstance(record, Mapping):
        return record
    return {name: _plain_cell(value) for name, value in record.items()}


def _plain_cell(value: Any) -> Any:
    """Convert a cell of a frame: NaN, NaT, arrays and numbers of numpy become plain values."""
    if isinstance(value, str | bool | int) or value is None:
        return value
    if isinstance(value, list | tuple | Mapping):
        return value
    if hasattr(value, "tolist"):  # arrays and scalars of numpy
        value = value.tolist()
    if isinstance(value, float):
        return None if math.isnan(value) else value
    if hasattr(value, "isoformat"):
        return None if value != value else value.isoformat()  # NaT
    return None if type(value).__name__ == "NAType" else value


_MARK = "half_characters"
"""Metadata key of the columns in which U+FFFD replaces half a character."""


def replace_surrogates(row: Row) -> Row:
    """Replace every half of a surrogate pair by U+FFFD; the metadata names the columns.

    Models, stores and terminals cannot handle such a half: one row would end the whole run.
    """
    changed = {
        field.name: mended
        for field in fields(Row)
        if (mended := _mend_value(value := getattr(row, field.name))) != value
    }
    if not changed:
        return row
    metadata = changed.get("metadata", row.metadata)
    columns = [name for name in changed if name != "metadata"]
    columns += [name for name in metadata if metadata[name] != row.metadata.get(name)]
    return replace(row, **{**changed, "metadata": {**metadata, _MARK: tuple(columns)}})


def holds_half(row: Row) -> bool:
    """True for a row in which :func:`replace_surrogates` replaced something."""
    return _MARK in row.metadata


def half_note(count: int, total: int) -> tuple[str, ...]:
    """Return a note on the rows with :func:`holds_half`; empty if there are none."""
    if not count:
        return ()
    return (f"{count} of {total} rows hold half a character (a lone surrogate), read as U+FFFD",)


def _mend_value(value: Any) -> Any:
    if isinstance(value, str):
        return well_formed(value)
    if isinstance(value, tuple):
        return tuple(_mend_value(item) for item in value)
    if isinstance(value, Mapping):
        return {well_formed(key): _mend_value(item) for key, item in value.items()}
    if isinstance(value, GoldSpan | Turn):
        return type(value)(**{key: _mend_value(item) for key, item in asdict(value).items()})
    return value


_KNOWN = tuple(field.name for field in fields(Row))
_LISTS_OF_ONE = frozenset({"reference_ids", "retrieved_context_ids", "reference_contexts"})


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
    """Read rows of a JSONL, JSON, CSV, TSV, Parquet or Excel file, one row (and all ids) in memory.

    With ``questions``, ``question, answer`` are read as question and reference.
    Case and punctuation of column names are ignored. A single id is a list of one.

    ``user_input`` is required; ``id`` is the row's number by default. ``reference_ids`` is an
    object of grades or a list of ids (grade 1 each); ``reference_spans`` a list of
    ``{document_id, start, end, text}``, and so is ``retrieved_spans``, the positions of the
    retrieved contexts, in their order. A list of turns under ``user_input`` or ``messages`` (ragas,
    OpenAI, MTRAG) is read by :func:`one_question_each`. Rows of ragas v1, DeepEval, MLflow and
    RAGChecker are read by their names; a pair of RAGChecker's (``model1``, ``model2``) is two rows,
    distinguished by ``system``. An unknown column becomes metadata, unless its name is nearly a
    known one. Half of a surrogate pair becomes U+FFFD; ``half_characters`` in the metadata names
    the columns.

    An empty ``response`` is an empty answer; null, or a missing column, means no answer. In a table
    an empty cell is an empty answer.

    Raises:
        TestsetError: A row cannot be read, a value has the wrong type, a column may mean two
            things, or an id occurs twice; with file and line.
    """
    source = Path(path)
    table = source.suffix.lower() in TABLES
    records = (
        (place, parse_cells(columns, place) if table else columns)
        for where, source_record in records_of(source)
        for place, record in one_system_each(drop_scores(source_record), where)
        for columns in (spell_columns(record, place),)
    )
    yield from _number_rows(
        _questions_in(records, questions=questions), f"{source}:", questions=questions
    )


def rows_of(
    records: Iterable[Row | Mapping[str, Any]], *, questions: bool = False
) -> Iterator[Row]:
    """Read rows from memory: rows as they are, objects as :func:`iter_rows` reads them.

    ``records`` may be a data frame, an Arrow table or a data set; see :func:`records_in`.

    Raises:
        TestsetError: As :func:`iter_rows`; with the number of the object.
    """
    numbered = (
        (place, record)
        for number, item in enumerate(records_in(records), 1)
        for place, record in (
            [(f"row {number}", item)]
            if isinstance(item, Row)
            else one_system_each(
                spell_columns(drop_scores(item), f"row {number}"),
                f"row {number}",
            )
        )
    )
    yield from _number_rows(
        _questions_in(numbered, questions=questions), "row ", questions=questions
    )


def _questions_in(
    records: Iterable[tuple[str, Row | Mapping[str, Any]]], *, questions: bool
) -> Iterator[tuple[str, Row | Mapping[str, Any]]]:
    """Return rows and single questions as they are, and each question of a conversation."""
    for number, (where, record) in enumerate(records, 1):
        if isinstance(record, Row):
            yield where, record
        else:
            yield from one_question_each(record, where, number, questions=questions)


def _number_rows(
    records: Iterable[tuple[str, Row | Mapping[str, Any]]], source: str, *, questions: bool = False
) -> Iterator[Row]:
    """Number rows without an id, and refuse duplicate ids.

    ``source`` is the prefix of their places.
    """
    seen: dict[str, str] = {}  # one entry per row of a long file, so without the file name
    for number, (where, record) in enumerate(records, 1):
        if isinstance(record, Row):
            row = record
        else:
            row = _row_of(rename_record(record, where, questions=questions), str(number), where)
        row = replace_surrogates(row)
        if row.id in seen:
            raise TestsetError(
                f"id {row.id!r} occurs twice",
                where=where,
                hint=f"{source}{seen[row.id]} has it too; keep one of the two rows, "
                "or leave the ids out (id, query_id, instance_id) and the rows are numbered",
            )
        seen[row.id] = where.removeprefix(source)
        yield row


def _row_of(value: Mapping[str, Any], number: str, where: str) -> Row:
    """Read one JSON object as a row."""
    known: dict[str, Any] = {}
    extra: dict[str, MetaValue] = {}
    for column, content in value.items():
        if content is None:
            continue
        if column in _KNOWN:
            known[column] = content
            continue
        if near := _similar_column(column):
            raise TestsetError(
                f"unknown column {column!r}",
                where=where,
                hint=f"did you mean {near!r}? If it is your own column, rename it",
            )
        extra[column] = _metadata_value(column, content, where)
    if "user_input" not in known:
        raise TestsetError(
            "the row has no user_input",
            where=where,
            hint="name the question user_input, question, query, input or request; the columns "
            "are: "
            f"{', '.join(value) or 'no columns'}",
        )
    known.setdefault("id", number)
    converted = {name: _CONVERT[name](name, content, where) for name, content in known.items()}
    if known.get("retrieved_context_ids") == []:
        extra.setdefault("retrieved", True)  # searched, and nothing was found
    if extra:
        converted["metadata"] = {**extra, **converted.get("metadata", {})}
    return Row(**converted)


@lru_cache(maxsize=1024)
def _similar_column(column: str) -> str:
    """Return the known column with a similar name; empty if there is none.

    One letter (two in long names) may be missing, added, wrong or swapped with another. Capitals,
    blanks and hyphens are ignored.
    """
    if column == "references":
        return ""
    normalised = column.casefold().replace(" ", "_").replace("-", "_")
    known = (*_KNOWN, *ALIASES, *AMBIGUOUS)
    if normalised in known:
        return normalised
    close = difflib.get_close_matches(normalised, known, n=1, cutoff=0.85)
    if close:
        return close[0]
    for name in known:
        allowed = 0 if len(name) < 4 else 1 if len(name) < 10 else 2
        distance = measure.edit_distance(normalised, name)
        if distance <= allowed or (
            distance == 2 and allowed and sorted(normalised) == sorted(name)
        ):
            return name
    return ""


def _type_error(name: str, content: Any, expected: str, where: str) -> TestsetError:
    return TestsetError(f"{name} is {type(content).__name__}, not {expected}", where=where)


def _check_text(name: str, content: Any, where: str) -> str:
    """Return a text; a number is its text."""
    if isinstance(content, int | float) and not isinstance(content, bool):
        return str(content)
    if not isinstance(content, str):
        raise _type_error(name, content, "a string", where)
    return content


def _check_texts(name: str, content: Any, where: str) -> tuple[str, ...]:
    if isinstance(content, str | int) and not isinstance(content, bool) and name in _LISTS_OF_ONE:
        content = [content]
    if not isinstance(content, list):
        raise _type_error(name, content, "a list of strings", where)
    return tuple(_check_text(f"an entry of {name}", entry, where) for entry in content)


def _check_grades(name: str, content: Any, where: str) -> dict[str, int]:
    if isinstance(content, list | str | int) and not isinstance(content, bool):
        return dict.fromkeys(_check_texts(name, content, where), 1)
    if not isinstance(content, dict):
        raise _type_error(name, content, "an object of grades or a list of ids", where)
    for grade in content.values():
        if not isinstance(grade, int) or isinstance(grade, bool):
            raise _type_error(f"a grade in {name}", grade, "a whole number", where)
    return dict(content)


def _check_spans(name: str, content: Any, where: str) -> tuple[GoldSpan, ...]:
    if not isinstance(content, list):
        raise _type_error(name, content, "a list of spans", where)
    spans = []
    for entry in content:
        try:
            span = GoldSpan(**entry)
            good = isinstance(span.document_id, str) and 0 <= span.start < span.end
        except TypeError:
            good = False
        if not good:
            raise TestsetError(
                f"an entry of {name} is not a span",
                where=where,
                hint="write {document_id, start, end, text} with 0 <= start < end",
            )
        spans.append(span)
    return tuple(spans)


def _metadata_value(name: str, content: Any, where: str) -> MetaValue:
    if isinstance(content, str | int | float | bool):
        return content
    if isinstance(content, list) and all(isinstance(entry, str) for entry in content):
        return tuple(content)
    raise _type_error(f"column {name!r}", content, "a scalar or a list of strings", where)


def _check_metadata(name: str, content: Any, where: str) -> dict[str, MetaValue]:
    if not isinstance(content, dict):
        raise _type_error(name, content, "an object", where)
    return {key: _metadata_value(key, entry, where) for key, entry in content.items()}


_CONVERT: dict[str, Callable[[str, Any, str], Any]] = {
    "id": _check_text,
    "user_input": _check_text,
    "response": _check_text,
    "reference": _check_text,
    "retrieved_contexts": _check_texts,
    "reference_contexts": _check_texts,
    "retrieved_context_ids": _check_texts,
    "reference_ids": _check_grades,
    "reference_spans": _check_spans,
    "retrieved_spans": _check_spans,
    "persona_name": _check_text,
    "metadata": _check_metadata,
    "history": lambda _, content, __: tuple(content),  # read by one_question_each
}
