"""Renames columns of other tools: ragas v1, DeepEval, MLflow, RAGChecker.

A column has the meaning of its name in its tool; if two tools use the name for different things,
the other columns decide, and it is refused if they do not.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import fields
from functools import lru_cache
from typing import Any

from ... import measure
from ...core import MeasureError, Row, TestsetError
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

AMBIGUOUS = ("answer", "context", "expectations", "inputs", "outputs")
"""Columns whose meaning depends on other columns or on their content."""

_PLAIN = re.compile(r"[\W_]+")

_GOLD = {"contexts", "reference", "references", "retrieved_contexts"} | {
    column for column, ours in ALIASES.items() if ours == "reference"
}
_DEEPEVAL = {"actual_output", "expected_output", "retrieval_context"}
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
    "inputs",
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

_NESTED = ("multi_responses", "reference_tool_calls", "rubrics")
"""Nested columns of ragas that are not measured here."""

_OURS = {field.name for field in fields(Row)}
_NAMES = _OURS | ALIASES.keys() | set(AMBIGUOUS) | {"references"}
_SPELT = {_PLAIN.sub("", name): name for name in sorted(_NAMES)}
_SIDES = ("model1", "model2")
_QUESTIONS = ("question", "query", "input", "user_input", "prompt")
_ANSWERS = ("response", "answer", "output", "result", "text", "content")
_EXPECTED = ("expected_response", "expected_answer", "ground_truth", "answer")
_PASSAGES = ("retrieved_context", "retrieved_contexts", "contexts", "documents")
_TEXTS = ("text", "content", "page_content")
_IDS = ("doc_id", "doc_uri", "document_id", "id")


def with_known_names(record: Mapping[str, Any], where: str) -> dict[str, Any]:
    """A record whose columns are spelt as they are known: case and punctuation do not count.

    Raises:
        TestsetError: Two columns are one and the same.
    """
    found: dict[str, Any] = {}
    sources: dict[str, str] = {}
    for column, content in record.items():
        name = column if column in _NAMES else _SPELT.get(_plain(column), column)
        if name in found:
            raise TestsetError(
                f"columns {sources[name]!r} and {column!r} mean the same, {name}",
                where=where,
                hint="keep one of the two",
            )
        found[name], sources[name] = content, column
    return found


def _plain(column: str) -> str:
    return _PLAIN.sub("", column).casefold()


def from_cells(record: Mapping[str, Any], where: str) -> dict[str, Any]:
    """A table's line, with lists and objects parsed; cells that are no text stay as they are.

    Lists are JSON, or as Python prints them. Without a bracket ``|`` separates ids and accepted
    answers, ``;`` ids. In a column of passages such a cell is one passage, however it is written.
    """
    found: dict[str, Any] = {}
    for column, cell in record.items():
        opens = cell.lstrip()[:1] if isinstance(cell, str) else ""
        if (column in _LISTS | _OBJECTS and opens == "[") or (column in _OBJECTS and opens == "{"):
            found[column] = list_of(cell.strip(), where)
        elif isinstance(cell, str) and column in _ID_LISTS | _SEVERAL:
            found[column] = _separated(cell, "|" if "|" in cell or column in _SEVERAL else ";")
        else:
            found[column] = [cell] if isinstance(cell, str) and column in _LISTS else cell
    return found


def _separated(cell: str, mark: str) -> list[str]:
    return [part.strip() for part in cell.split(mark) if part.strip()]


def without_scores(record: Mapping[str, Any]) -> dict[str, Any]:
    """A row without the scores that ``score -o rows.csv`` wrote beside it, so as to score again.

    They are columns of a measure's name, known by the column ``NAME state`` beside them. Beside
    them ``answered`` tells a missing answer from an empty one, which a table writes alike.
    """
    told = [name.removesuffix(" state") for name in record if name.endswith(" state")]
    scored = [name for name in told if _is_measure(name)]
    if not scored:
        return dict(record)
    ours = {f"{name}{end}" for name in scored for end in ("", " state", " reason", " detail")}
    ours |= {"answered"}
    if str(record.get("answered")).lower() == "false":
        ours |= {"response"}
    return {name: value for name, value in record.items() if name not in ours}


@lru_cache(maxsize=256)
def _is_measure(name: str) -> bool:
    try:
        measure.parse_measure(name)
    except MeasureError:
        return False
    return True


def one_system_each(record: Mapping[str, Any], where: str) -> list[tuple[str, Mapping[str, Any]]]:
    """The record, or the two records of a RAGChecker pair, in which two systems answer.

    The two share the question and differ in ``system``, the name of the model; fields of the pair
    are in both.

    Raises:
        TestsetError: A side of the pair has no response.
    """
    sides = [side for side in _SIDES if isinstance(record.get(side), Mapping)]
    if len(sides) < len(_SIDES):
        return [(where, record)]
    key = record.get("instance_id", record.get("query_id"))
    shared = {
        name: value
        for name, value in record.items()
        if name not in (*_SIDES, "instance_id", "query_id", "response")
    }
    found: list[tuple[str, Mapping[str, Any]]] = []
    for side in sides:
        said = {name: value for name, value in record[side].items() if name != "model_name"}
        if "response" not in said:
            raise TestsetError(
                f"{side} has no response", where=where, hint="each side of a pair needs one"
            )
        own = {**shared, **said, "system": record[side].get("model_name") or side}
        found.append((f"{where} ({side})", own if key is None else {**own, "id": f"{key}-{side}"}))
    return found


def in_our_names(
    record: Mapping[str, Any], where: str, *, questions: bool = False
) -> dict[str, Any]:
    """A record's columns under ragwright's names; unknown ones are unchanged.

    Args:
        record: Columns as they are named.
        where: Its place, for errors.
        questions: The rows are questions to be asked: an ``answer`` beside no other reference is
            the reference, a ``context`` the passage that holds it.

    Raises:
        TestsetError: Two columns mean the same, or one may mean two things; both are named.
    """
    given = {column: content for column, content in record.items() if content is not None}
    if questions:
        given = _as_gold(given)
    foreign = given.keys() & (ALIASES.keys() - {"reference_context_ids"} | set(AMBIGUOUS))
    for column in _NESTED:
        if column in given and _deep(given[column]):
            given[column] = json.dumps(given[column], ensure_ascii=False)
    if isinstance(given.get("references"), str):
        given["references"] = [given["references"]]
    if foreign or "reference_context_ids" in given:
        given = _all_renamed(given, where, keep_deep=bool(foreign))
    return _with_reference(given)


def _as_gold(given: Mapping[str, Any]) -> dict[str, Any]:
    """Columns of a question with its answer, as a reference and its passage."""
    found = dict(given)
    if "answer" in found and not found.keys() & (_GOLD - {"contexts", "retrieved_contexts"}):
        found["reference"] = found.pop("answer")
    if "context" in found and not found.keys() & (_DEEPEVAL | {"reference_contexts"}):
        found["reference_contexts"] = found.pop("context")
    return found


def _all_renamed(given: Mapping[str, Any], where: str, *, keep_deep: bool) -> dict[str, Any]:
    """Every column under ragwright's name; nested values of other tools (traces, claims) as
    text.
    """
    found: dict[str, Any] = {}
    sources: dict[str, str] = {}
    for column, content in given.items():
        for name, value in _renamed(column, content, given, where).items():
            if name in sources:
                raise TestsetError(
                    f"columns {sources[name]!r} and {column!r} mean the same, {name}",
                    where=where,
                    hint="keep one of the two",
                )
            sources[name] = column
            kept = keep_deep and name not in _OURS and _deep(value)
            found[name] = json.dumps(value, ensure_ascii=False) if kept else value
    return found


def _with_reference(given: dict[str, Any]) -> dict[str, Any]:
    """The columns, with the first accepted answer as the reference if there is none."""
    accepted = given.get("references")
    if given.get("reference") is not None or not isinstance(accepted, list):
        return given
    texts = [text for text in accepted if isinstance(text, str) and text.strip()]
    return {**given, "reference": texts[0]} if texts else given


def _renamed(column: str, content: Any, given: Mapping[str, Any], where: str) -> dict[str, Any]:
    if column == "answer":
        if not given.keys() & _GOLD:
            raise _unclear(column, "response", "reference", where)
        return {"response": content}
    if column == "context":
        if not given.keys() & _DEEPEVAL:
            raise _unclear(column, "retrieved_contexts", "reference_contexts", where)
        return {"reference_contexts": content}
    if column in ("inputs", "request"):
        return {"user_input": _one_text(column, content, _QUESTIONS, where)}
    if column == "outputs":
        return _outputs(content, where)
    if column == "expectations":
        return _expectations(content, where)
    name = ALIASES.get(column, column)
    if name == "retrieved_contexts":
        return _passages(name, "retrieved_context_ids", content, where)
    if name == "reference" and isinstance(content, list):
        return _references(column, content, where)
    return {name: content}


def _references(column: str, content: Sequence[Any], where: str) -> dict[str, Any]:
    """The first of several accepted answers as the reference, with all of them in metadata."""
    if not all(isinstance(text, str) for text in content):
        raise TestsetError(f"{column} is not a list of strings", where=where)
    if not content:
        return {}
    return {"reference": content[0]} | ({"references": list(content)} if content[1:] else {})


def _passages(name: str, ids: str, content: Any, where: str) -> dict[str, Any]:
    """Passages given as texts, or as objects of text and document id."""
    if not isinstance(content, list) or not any(isinstance(entry, dict) for entry in content):
        return {name: content}
    texts = [_one_text(f"an entry of {name}", entry, _TEXTS, where) for entry in content]
    found: dict[str, Any] = {name: texts}
    keys = [
        next((entry[key] for key in _IDS if entry.get(key) is not None), None)
        if isinstance(entry, dict)
        else None
        for entry in content
    ]
    if all(key is not None for key in keys):
        found[ids] = keys
    return found


def _outputs(content: Any, where: str) -> dict[str, Any]:
    """MLflow's outputs: a text, or an object of the answer and perhaps its passages."""
    if not isinstance(content, dict):
        return {"response": content}
    choices = content.get("choices")
    if isinstance(choices, list) and choices and isinstance(choices[0], dict):
        return {"response": (choices[0].get("message") or {}).get("content")}
    found = {"response": _one_text("outputs", content, _ANSWERS, where)}
    held = [key for key in _PASSAGES if content.get(key) is not None]
    if len(held) > 1:
        raise _unclear("outputs", held[0], held[1], where)
    if held:
        found |= _passages("retrieved_contexts", "retrieved_context_ids", content[held[0]], where)
    return found


def _expectations(content: Any, where: str) -> dict[str, Any]:
    """MLflow's expectations: the expected answer, under one of several names."""
    if not isinstance(content, dict):
        raise TestsetError(f"expectations is {type(content).__name__}, not an object", where=where)
    rest = {key: value for key, value in content.items() if value is not None}
    found: dict[str, Any] = {}
    if any(key in rest for key in _EXPECTED):
        found["reference"] = _one_text("expectations", rest, _EXPECTED, where)
    gold = rest.pop("expected_retrieved_context", None)
    if gold is not None:
        passages = _passages("reference_contexts", "reference_ids", gold, where)
        texts = passages.pop("reference_contexts")
        found |= passages
        if any(texts):
            found["reference_contexts"] = texts
    more = {key: value for key, value in rest.items() if key not in _EXPECTED}
    return found | more


def _one_text(column: str, content: Any, names: Sequence[str], where: str) -> Any:
    """The text itself, or that of the one known key of an object.

    A chat (``messages``) gives its user's last message.
    """
    if not isinstance(content, dict):
        return content
    if isinstance(content.get("messages"), list) and names is _QUESTIONS:
        said = [
            turn.get("content")
            for turn in content["messages"]
            if isinstance(turn, dict) and turn.get("role") == "user"
        ]
        if said:
            return said[-1]
    held = [name for name in names if content.get(name) is not None]
    if len(held) > 1:
        raise _unclear(column, held[0], held[1], where)
    if held:
        return content[held[0]]
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


def _deep(value: Any) -> bool:
    """True if a value is more than a list of strings."""
    return isinstance(value, dict) or (
        isinstance(value, list) and not all(isinstance(entry, str) for entry in value)
    )


def _unclear(column: str, one: str, other: str, where: str) -> TestsetError:
    return TestsetError(
        f"column {column!r} may be {one} or {other}",
        where=where,
        hint=f"rename it to {one} or {other}",
    )
