"""Renames columns of other tools.

A column has the meaning of its name in its tool. If two tools use the name for different things,
the other columns decide; if they do not, the column is refused.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from functools import lru_cache
from typing import Any

from .. import measure
from ..core import MeasureError, Row, TestsetError
from ._records import list_of

ALIASES = {
    "actual_output": "response",
    "contexts": "retrieved_contexts",
    "correct_answer": "reference",
    "expected": "reference",
    "expected_answer": "reference",
    "expected_output": "reference",
    "expected_response": "reference",
    "gold_answer": "reference",
    "ground_truth": "reference",
    "ground_truths": "reference",
    "gt_answer": "reference",
    "input": "user_input",
    "query": "user_input",
    "query_id": "id",
    "question": "user_input",
    "reference_answer": "reference",
    "reference_context_ids": "reference_ids",
    "request": "user_input",
    "retrieval_context": "retrieved_contexts",
    "retrieved_context": "retrieved_contexts",
}
"""Column of another tool -> ours."""

_TURNS = re.compile(r"""\s*\[\s*\{\s*["'](?:content|role|type)["']\s*:""")
"""Beginning of a cell that holds the turns of a conversation."""

_PLAIN = re.compile(r"[\W_]+")

_GOLD = {"contexts", "reference", "references", "retrieved_contexts"} | {
    column for column, ours in ALIASES.items() if ours == "reference"
}
_DEEPEVAL = {"actual_output", "expected_output", "retrieval_context"}

EITHER = {
    "answer": (_GOLD, "response", "reference", "response"),
    "context": (_DEEPEVAL, "retrieved_contexts", "reference_contexts", "reference_contexts"),
}
"""Columns that mean one of two things: the columns beside which it is sure, both, the sure one."""

NESTED = ("expectations", "inputs", "outputs")
"""Columns of MLflow that hold several of ours."""

_LISTS = {
    "context",
    "contexts",
    "ground_truths",
    "reference_contexts",
    "references",
    "retrieval_context",
    "retrieved_context",
    "retrieved_contexts",
}
_OBJECTS = {
    "expectations",
    "history",
    "inputs",
    "messages",
    "metadata",
    "outputs",
    "reference_context_ids",
    "reference_ids",
    "reference_spans",
    "retrieved_context_ids",
    "retrieved_spans",
}
_ID_LISTS = {"reference_context_ids", "reference_ids", "retrieved_context_ids"}
_SEVERAL = {"ground_truths", "references"}
"""Columns of accepted answers: ``|`` separates them; ``;`` may be part of one."""

_OURS = {field.name for field in fields(Row)}
_NAMES = _OURS | ALIASES.keys() | EITHER.keys() | {*NESTED, "references"}
_SPELT = {_PLAIN.sub("", name): name for name in sorted(_NAMES)}
_QUESTIONS = ("question", "query", "input", "user_input", "prompt")
_ANSWERS = ("response", "answer", "output", "result", "text", "content")
_EXPECTED = ("expected_response", "expected_answer", "ground_truth", "answer")
_PASSAGES = ("retrieved_context", "retrieved_contexts", "contexts", "documents")
_TEXTS = ("text", "content", "page_content")
_IDS = ("doc_id", "doc_uri", "document_id", "id")


def _name_columns(columns: Iterable[tuple[str, str, Any]], where: str) -> dict[str, Any]:
    """Return contents by name, of (column, name, content)."""
    renamed: dict[str, Any] = {}
    sources: dict[str, str] = {}
    for column, name, content in columns:
        if name in renamed:
            raise TestsetError(
                f"columns {sources[name]!r} and {column!r} mean the same, {name}",
                where=where,
                hint="keep one of the two",
            )
        renamed[name], sources[name] = content, column
    return renamed


def _parse_cells(record: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Parse lists and objects in the cells of a table's line; other cells stay as they are.

    Lists are JSON, or as Python prints them. Without a bracket, ``|`` separates ids and accepted
    answers, ``;`` separates ids. In a column of passages, such a cell is one passage.
    """
    parsed: dict[str, Any] = {}
    for column, cell in record.items():
        bracket = cell.lstrip()[:1] if isinstance(cell, str) else ""
        if (
            (column in ("input", "user_input") and _TURNS.match(str(cell)))
            or (column in _LISTS | _OBJECTS and bracket == "[")
            or (column in _OBJECTS and bracket == "{")
        ):
            parsed[column] = list_of(cell.strip(), where)
        elif isinstance(cell, str) and column in _ID_LISTS | _SEVERAL:
            parsed[column] = [
                part.strip()
                for part in cell.split("|" if "|" in cell or column in _SEVERAL else ";")
                if part.strip()
            ]
        else:
            parsed[column] = [cell] if isinstance(cell, str) and column in _LISTS else cell
    return parsed


def _drop_scores(record: Mapping[str, Any]) -> dict[str, Any]:
    """Remove the scores that ``score -o rows.csv`` wrote, so that a row can be scored again.

    Scores are columns with a measure's name and a column ``NAME state`` beside them. The column
    ``answered`` separates missing answers from empty ones, which look alike in a table.
    """
    names = [name.removesuffix(" state") for name in record if name.endswith(" state")]
    ends = ("", " state", " reason", " detail")
    written = {f"{name}{end}" for name in names if _is_measure(name) for end in ends}
    if written:
        written |= {"answered"}
        if str(record.get("answered")).lower() == "false":
            written |= {"response"}
    return {name: value for name, value in record.items() if name not in written}


@lru_cache(maxsize=256)
def _is_measure(name: str) -> bool:
    try:
        measure.parse_measure(name)
    except MeasureError:
        return False
    return True


def spell_columns(record: Mapping[str, Any], where: str, *, table: bool = False) -> dict[str, Any]:
    """Return a record with its columns spelt as they are known, ignoring case and punctuation.

    The cells of a ``table`` may hold lists and objects.

    Raises:
        TestsetError: Two columns have the same name.
    """
    columns = _drop_scores(record).items()
    named = _name_columns(((column, _spell(column), content) for column, content in columns), where)
    return _parse_cells(named, where) if table else named


def _spell(column: str) -> str:
    return column if column in _NAMES else _SPELT.get(_PLAIN.sub("", column).casefold(), column)


def rename_record(
    record: Mapping[str, Any], where: str, *, questions: bool = False
) -> dict[str, Any]:
    """Rename a record's columns to ragwright's names; unknown ones are unchanged.

    Nested values of columns that are not ours (traces, claims, rubrics) become text. Without a
    reference, the first accepted answer is it.

    Args:
        record: Columns as they are named.
        where: Its place, for errors.
        questions: The rows are questions to ask: an ``answer`` without another reference is
            the reference, a ``context`` the passage that holds it.

    Raises:
        TestsetError: Two columns mean the same, or one may mean two things; both are named.
    """
    columns = {column: content for column, content in record.items() if content is not None}
    if questions:
        if "answer" in columns and not columns.keys() & _GOLD - {"contexts", "retrieved_contexts"}:
            columns["reference"] = columns.pop("answer")
        if "context" in columns and not columns.keys() & (_DEEPEVAL | {"reference_contexts"}):
            columns["reference_contexts"] = columns.pop("context")
    if isinstance(columns.get("references"), str):
        columns["references"] = [columns["references"]]
    renamed = _name_columns(
        (
            (column, name, _plain_text(name, value))
            for column, content in columns.items()
            for name, value in _rename_column(column, content, columns, where).items()
        ),
        where,
    )
    accepted = renamed.get("references")
    if renamed.get("reference") is None and isinstance(accepted, list):
        texts = [text for text in accepted if isinstance(text, str) and text.strip()]
        renamed |= {"reference": texts[0]} if texts else {}
    return renamed


def _rename_column(
    column: str, content: Any, columns: Mapping[str, Any], where: str
) -> dict[str, Any]:
    if column in EITHER:
        beside, first, second, ours = EITHER[column]
        if not columns.keys() & beside:
            raise _ambiguous_column(column, first, second, where)
        return {ours: content}
    if column in ("inputs", "request"):
        return {"user_input": _one_text(column, content, _QUESTIONS, where)}
    if column == "outputs":
        return _output_columns(content, where)
    if column == "expectations":
        return _expectation_columns(content, where)
    name = ALIASES.get(column, column)
    if name == "retrieved_contexts":
        return passage_columns(name, "retrieved_context_ids", content, where)
    if name == "reference" and isinstance(content, list):
        if not all(isinstance(text, str) for text in content):
            raise TestsetError(f"{column} is not a list of strings", where=where)
        further = {"references": content} if content[1:] else {}
        return {"reference": content[0], **further} if content else {}
    return {name: content}


def passage_columns(name: str, ids: str, content: Any, where: str) -> dict[str, Any]:
    """Read passages given as texts, or as objects of text and document id."""
    if not isinstance(content, list) or not any(isinstance(entry, dict) for entry in content):
        return {name: content}
    entries = [entry if isinstance(entry, dict) else {"text": entry} for entry in content]
    keys = [next((e[key] for key in _IDS if e.get(key) is not None), None) for e in entries]
    texts = [_one_text(f"an entry of {name}", entry, _TEXTS, where) for entry in entries]
    return {name: texts} | ({} if None in keys else {ids: keys})


def _output_columns(content: Any, where: str) -> dict[str, Any]:
    """Read MLflow's outputs: a text, or an object of the answer and perhaps its passages."""
    if not isinstance(content, dict):
        return {"response": content}
    choices = content.get("choices")
    if isinstance(choices, list) and choices and isinstance(choices[0], dict):
        return {"response": (choices[0].get("message") or {}).get("content")}
    columns = {"response": _one_text("outputs", content, _ANSWERS, where)}
    keys = [key for key in _PASSAGES if content.get(key) is not None]
    if len(keys) > 1:
        raise _ambiguous_column("outputs", keys[0], keys[1], where)
    if keys:
        columns |= passage_columns(
            "retrieved_contexts", "retrieved_context_ids", content[keys[0]], where
        )
    return columns


def _expectation_columns(content: Any, where: str) -> dict[str, Any]:
    """Read MLflow's expectations: the expected answer, under one of several names."""
    if not isinstance(content, dict):
        raise TestsetError(f"expectations is {type(content).__name__}, not an object", where=where)
    rest = {key: value for key, value in content.items() if value is not None}
    columns: dict[str, Any] = {}
    if any(key in rest for key in _EXPECTED):
        columns["reference"] = _one_text("expectations", rest, _EXPECTED, where)
    gold = rest.pop("expected_retrieved_context", None)
    if gold is not None:
        passages = passage_columns("reference_contexts", "reference_ids", gold, where)
        texts = passages.pop("reference_contexts")
        columns |= passages
        if any(texts):
            columns["reference_contexts"] = texts
    return columns | {key: value for key, value in rest.items() if key not in _EXPECTED}


def _one_text(column: str, content: Any, names: Sequence[str], where: str) -> Any:
    """Return the text itself, or that of the one known key of an object, or its only text."""
    if not isinstance(content, dict):
        return content
    keys = [name for name in names if content.get(name) is not None]
    if len(keys) > 1:
        raise _ambiguous_column(column, keys[0], keys[1], where)
    if keys:
        return content[keys[0]]
    if names is _TEXTS:
        return ""  # a gold document may have only an address
    texts = [value for value in content.values() if isinstance(value, str)]
    if len(texts) == 1:
        return texts[0]
    raise TestsetError(
        f"{column} has none of the keys {', '.join(names)}",
        where=where,
        hint="put the text under one of these keys",
    )


def _plain_text(name: str, value: Any) -> Any:
    """Return a value; one that is more than a list of strings, in a column not ours, as JSON."""
    nested = isinstance(value, dict) or (
        isinstance(value, list) and not all(isinstance(entry, str) for entry in value)
    )
    return json.dumps(value, ensure_ascii=False) if nested and name not in _OURS else value


def _ambiguous_column(column: str, first: str, second: str, where: str) -> TestsetError:
    return TestsetError(
        f"column {column!r} may be {first} or {second}",
        where=where,
        hint=f"rename it to {first} or {second}",
    )
