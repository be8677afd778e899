"""Nuggets of rows: as objects, as lines of text that people edit, and in nuggetizer's format."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, get_args

from ...core import Assignment, Importance, Nugget, Row, TestsetError

_IMPORTANCES = get_args(Importance)
_ASSIGNMENTS = get_args(Assignment)
_WRONG = "wrong"
_KEYS = ("text", "importance", "assignment")
_IGNORED = ("reasoning", "trace")
"""Keys that nuggetizer adds on request."""

_LINE = "write a line `vital: FACT` or `okay: FACT` for each; `wrong: FACT` removes one"


def checked_nuggets(name: str, content: Any, where: str) -> tuple[Nugget, ...]:
    """Read nuggets: objects ``{text, importance, assignment}``, texts, or lines of a cell.

    Importance is ``vital`` by default, as in nuggetizer.

    Raises:
        TestsetError: One is none of these, has no text, or occurs twice.
    """
    if isinstance(content, str):
        return nuggets_of_lines(content, where)
    if not isinstance(content, list):
        raise TestsetError(f"{name} is {type(content).__name__}, not a list", where=where)
    nuggets = tuple(
        _nugget_of(f"nugget {number}", entry, where) for number, entry in enumerate(content, 1)
    )
    return _without_twins(nuggets, where)


def nugget_lines(nuggets: Iterable[Nugget]) -> str:
    """Return nuggets as lines ``vital: FACT``, which :func:`nuggets_of_lines` reads back."""
    return "\n".join(f"{nugget.importance}: {nugget.text}" for nugget in nuggets)


def nuggets_of_lines(text: str, where: str = "") -> tuple[Nugget, ...]:
    """Read lines ``vital: FACT`` or ``okay: FACT``; lines ``wrong: FACT`` are left out.

    Raises:
        TestsetError: A line begins with something else, has no text, or occurs twice.
    """
    nuggets = []
    for line in filter(str.strip, text.splitlines()):
        importance, colon, fact = line.strip().partition(":")
        importance = importance.strip().casefold()
        if not colon or importance not in (*_IMPORTANCES, _WRONG):
            raise TestsetError(f"{line.strip()[:80]!r} is not a nugget", where=where, hint=_LINE)
        if importance != _WRONG:
            entry = {"text": fact, "importance": importance}
            nuggets.append(_nugget_of("a nugget", entry, where))
    return _without_twins(tuple(nuggets), where)


def from_nuggetizer(record: Mapping[str, Any]) -> Mapping[str, Any]:
    """Rename the columns of a record of castorini/nuggetizer; other records are unchanged.

    Its answers share a ``qid``: the id of such a row is that and the run (or passage), and
    ``system`` the run.
    """
    if "qid" not in record or "nuggets" not in record or "id" in record:
        return record
    renamed = {k: v for k, v in record.items() if k not in ("qid", "run_id", "response_length")}
    part = record.get("run_id") or record.get("docid")
    renamed["id"] = f"{record['qid']}-{part}" if part else str(record["qid"])
    if part:
        renamed["topic"] = str(record["qid"])
    if record.get("run_id"):
        renamed["system"] = str(record["run_id"])
    for theirs, ours in _NUGGETIZER.items():
        if theirs in renamed:
            renamed[ours] = renamed.pop(theirs)
    return renamed


def nuggetizer_lines(rows: Iterable[Row]) -> list[str]:
    """Return the rows with nuggets as lines in the format of castorini/nuggetizer.

    A row with a response and recorded assignments is one of its assignment records.
    """
    return [json.dumps(_nuggetizer_record(row), ensure_ascii=False) for row in rows if row.nuggets]


def nugget_record(nugget: Nugget) -> dict[str, str]:
    """Return a nugget as an object, without an empty assignment."""
    assigned = {"assignment": nugget.assignment} if nugget.assignment else {}
    return {"text": nugget.text, "importance": nugget.importance, **assigned}


def _nuggetizer_record(row: Row) -> dict[str, Any]:
    record: dict[str, Any] = {
        "query": row.user_input,
        "qid": str(row.metadata.get("topic", row.id)),
    }
    if row.response is not None and all(nugget.assignment for nugget in row.nuggets):
        record["answer_text"] = row.response
        record["response_length"] = len(row.response.split())
        record["run_id"] = str(row.metadata.get("system", "ragwright"))
        return {**record, "nuggets": [nugget_record(nugget) for nugget in row.nuggets]}
    plain = [{"text": nugget.text, "importance": nugget.importance} for nugget in row.nuggets]
    return {**record, "nuggets": plain}


_NUGGETIZER = {"answer_text": "response", "candidate_text": "response", "text": "user_input"}


def _nugget_of(name: str, entry: Any, where: str) -> Nugget:
    values = {"text": entry} if isinstance(entry, str) else entry
    if not isinstance(values, dict):
        raise TestsetError(f"{name} is {type(entry).__name__}, not an object", where=where)
    unknown = [key for key in values if key not in (*_KEYS, *_IGNORED)]
    if unknown:
        raise TestsetError(
            f"{name} has the unknown key {unknown[0]!r}",
            where=where,
            hint=f"use {', '.join(_KEYS)}",
        )
    text = values.get("text")
    if not isinstance(text, str) or not any(map(str.isalnum, text)):
        raise TestsetError(f"{name} has no text", where=where)
    importance: Any = values.get("importance") or "vital"
    assignment: Any = values.get("assignment") or ""
    for key, value, known in (
        ("importance", importance, _IMPORTANCES),
        ("assignment", assignment, _ASSIGNMENTS),
    ):
        if value not in known:
            raise TestsetError(
                f"{name} has the {key} {value!r}",
                where=where,
                hint=f"one of {', '.join(filter(None, known))}",
            )
    return Nugget(" ".join(text.split()), importance, assignment)


def _without_twins(nuggets: tuple[Nugget, ...], where: str) -> tuple[Nugget, ...]:
    seen: set[str] = set()
    for nugget in nuggets:
        if nugget.text in seen:
            raise TestsetError(f"the nugget {nugget.text[:80]!r} occurs twice", where=where)
        seen.add(nugget.text)
    return nuggets
