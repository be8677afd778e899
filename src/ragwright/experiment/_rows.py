"""Rows in JSONL with ragas' names: one JSON object a line."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from ..core import GoldSpan, MetaValue, Row, TestsetError
from ._files import objects_of

_KNOWN = tuple(field.name for field in fields(Row))
_SAME = {"reference_context_ids": "reference_ids"}
"""Names of others for a field of ours; both at once would be ambiguous."""


def read_rows(path: str | Path) -> tuple[Row, ...]:
    """Rows of a JSONL file in ragas' names, in order.

    ``user_input`` is required; ``id`` is the line's number among the rows where left out.
    ``reference_ids`` is an object of grades or a list of ids (grade 1 each);
    ``reference_spans`` a list of ``{document_id, start, end, text}``, and so is
    ``retrieved_spans``, where the retrieved contexts stand, in their order. A column nobody
    knows becomes metadata, unless it looks like a misspelt one.

    Raises:
        TestsetError: A line is not JSON, a value has the wrong type, or an id occurs twice.
    """
    rows: list[Row] = []
    seen: dict[str, str] = {}
    for where, value in objects_of(Path(path)):
        row = _row(value, str(len(rows) + 1), where)
        if row.id in seen:
            raise TestsetError(
                f"id {row.id!r} occurs twice", where=where, hint=f"first at {seen[row.id]}"
            )
        seen[row.id] = where
        rows.append(row)
    if not rows:
        raise TestsetError("the file holds no rows", where=str(path))
    return tuple(rows)


def _row(value: Mapping[str, Any], number: str, where: str) -> Row:
    """One JSON object as a row."""
    known: dict[str, Any] = {}
    extra: dict[str, MetaValue] = {}
    for column, content in value.items():
        name = _SAME.get(column, column)
        if name in _KNOWN:
            if name in known:
                raise TestsetError(
                    f"columns {column!r} and {name!r} mean the same",
                    where=where,
                    hint="keep one of the two",
                )
            if content is not None:
                known[name] = content
            continue
        near = difflib.get_close_matches(column, [*_KNOWN, *_SAME], n=1, cutoff=0.85)
        if near:
            raise TestsetError(
                f"unknown column {column!r}", where=where, hint=f"did you mean {near[0]!r}?"
            )
        if content is not None:
            extra[column] = _meta(column, content, where)
    if "user_input" not in known:
        raise TestsetError("the row has no user_input", where=where, hint="name the question so")
    known.setdefault("id", number)
    converted = {name: _CONVERT[name](name, content, where) for name, content in known.items()}
    if extra:
        converted["metadata"] = {**extra, **converted.get("metadata", {})}
    return Row(**converted)


def _wrong(name: str, content: Any, due: str, where: str) -> TestsetError:
    return TestsetError(f"{name} is {type(content).__name__}, not {due}", where=where)


def _text(name: str, content: Any, where: str) -> str:
    if not isinstance(content, str):
        raise _wrong(name, content, "a string", where)
    return content


def _id(name: str, content: Any, where: str) -> str:
    """Ids are strings; whole numbers are taken as they are written."""
    if isinstance(content, int) and not isinstance(content, bool):
        return str(content)
    return _text(name, content, where)


def _texts(name: str, content: Any, where: str) -> tuple[str, ...]:
    if not isinstance(content, list):
        raise _wrong(name, content, "a list of strings", where)
    return tuple(_id(f"an entry of {name}", entry, where) for entry in content)


def _grades(name: str, content: Any, where: str) -> dict[str, int]:
    if isinstance(content, list):
        return dict.fromkeys(_texts(name, content, where), 1)
    if not isinstance(content, dict):
        raise _wrong(name, content, "an object of grades or a list of ids", where)
    for grade in content.values():
        if not isinstance(grade, int) or isinstance(grade, bool):
            raise _wrong(f"a grade in {name}", grade, "a whole number", where)
    return dict(content)


def _spans(name: str, content: Any, where: str) -> tuple[GoldSpan, ...]:
    if not isinstance(content, list):
        raise _wrong(name, content, "a list of spans", where)
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


def _meta(name: str, content: Any, where: str) -> MetaValue:
    if isinstance(content, str | int | float | bool):
        return content
    if isinstance(content, list) and all(isinstance(entry, str) for entry in content):
        return tuple(content)
    raise _wrong(f"column {name!r}", content, "a scalar or a list of strings", where)


def _metadata(name: str, content: Any, where: str) -> dict[str, MetaValue]:
    if not isinstance(content, dict):
        raise _wrong(name, content, "an object", where)
    return {key: _meta(key, entry, where) for key, entry in content.items()}


_CONVERT: dict[str, Callable[[str, Any, str], Any]] = {
    "id": _id,
    "user_input": _text,
    "response": _text,
    "reference": _text,
    "retrieved_contexts": _texts,
    "reference_contexts": _texts,
    "retrieved_context_ids": _texts,
    "reference_ids": _grades,
    "reference_spans": _spans,
    "retrieved_spans": _spans,
    "persona_name": _text,
    "metadata": _metadata,
}
