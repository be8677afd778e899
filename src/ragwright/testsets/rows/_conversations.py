"""Conversations in records: the turns of ragas, OpenAI and MTRAG become a question with history."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ... import answer
from ...core import TestsetError, Turn
from ...flow import Message
from ._dialects import passage_columns

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

_TEXTS = {"role": "content", "speaker": "text", "type": "content"}
"""Key of a turn's role -> key of its text: OpenAI, MTRAG, ragas."""

_COLUMNS = ("user_input", "messages", "input", "turns", "conversation", "request", "inputs")
_PARTS = frozenset({"input_text", "output_text", "text"})
_MTRAG = frozenset({"contexts", "predictions", "targets", "task_id"})
_OF_LAST = frozenset(
    {
        *("reference", "reference_contexts", "reference_ids", "reference_spans", "references"),
        *("retrieved_contexts", "retrieved_context_ids", "retrieved_spans"),
        *("answerability", "standalone"),
    }
)
"""Columns of a whole conversation that describe only its last question."""

_KINDS = {
    "answerable": "answerable",
    "conversational": "conversational",
    "partial": "partial",
    "partially answerable": "partial",
    "unanswerable": "unanswerable",
    "underspecified": "underspecified",
}
_ANSWERABLE = {"answerable": True, "unanswerable": False}


def one_question_each(
    record: Mapping[str, Any], where: str, number: int, *, questions: bool = False
) -> list[tuple[str, Mapping[str, Any]]]:
    """Return a record as it is, or one record per question of its conversation, with their places.

    A conversation that ends with the user is one question: its last turn; the turns before it are
    the ``history``. One that ends with an answer is one question per turn of the user, with the
    ids ``CONVERSATION-TURN``: the answer to each turn is its ``response``, or, if the rows are
    ``questions`` to ask, its ``reference``; columns with gold belong to the last question.

    ``turn`` (from 1), ``standalone`` and ``answerability`` become metadata; ``standalone`` is
    decided by the question's words where the record does not say it (:func:`answer.stands_alone`).

    Raises:
        TestsetError: A turn cannot be read, or the last one is no question.
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
    if column == "input" or _MTRAG & columns.keys():
        columns = _mtrag_columns(columns)
    if turns[-1].role == "user":
        return [(where, {**columns, **_question_columns(turns, columns)})]
    return _each_turn(turns, columns, where, number, questions=questions)


def _column_of(record: Mapping[str, Any]) -> str | None:
    """Return the column that holds a list of turns; None if the record is a single question."""
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
    """Read the turns of a list in one dialect; those of systems and tools are left out.

    Raises:
        TestsetError: There is no turn, a turn cannot be read, or the dialects are mixed.
    """
    turns: list[Turn] = []
    first_key = ""
    for number, entry in enumerate(content, 1):
        place = f"turn {number} of {column}"
        key = ""
        if isinstance(entry, Mapping):
            key = next((key for key in _TEXTS if isinstance(entry.get(key), str)), "")
        if not key:
            raise TestsetError(
                f"{place} is not an object with a role",
                where=where,
                hint='write {"role": "user", "content": "…"}, {"type": "human", "content": "…"} '
                'or {"speaker": "user", "text": "…"}',
            )
        first_key = first_key or key
        if key != first_key:
            raise TestsetError(
                f"{place} has {key!r}, the turns before it have {first_key!r}",
                where=where,
                hint="write all turns of a conversation in one format",
            )
        role = ROLES.get(str(entry[key]).casefold())
        if role is None:
            raise TestsetError(
                f"{place} has the unknown role {entry[key]!r}",
                where=where,
                hint=f"one of {', '.join(ROLES)}",
            )
        text = _text_of(entry.get(_TEXTS[key]), place, where)
        if role == "user" and not text.strip():
            raise TestsetError(
                f"{place} is a question without text",
                where=where,
                hint=f"write it under {_TEXTS[key]!r}, or leave the turn out",
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
    """Return the text of a turn, which may be a list of parts; a tool call has none."""
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
    kind = columns.get("answerability")
    if isinstance(kind, list) and len(kind) == 1:
        kind = kind[0]
    if kind := _KINDS.get(str(kind).casefold().replace("_", " ")):
        known["answerability"] = kind
        if kind in _ANSWERABLE and columns.get("answerable") is None:
            known["answerable"] = _ANSWERABLE[kind]
    return known


def _mtrag_columns(columns: Mapping[str, Any]) -> dict[str, Any]:
    """Return the columns of a task of MTRAG: its passages are gold, its targets references."""
    renamed = {
        "answerability" if n.casefold() == "answerability" else n: columns[n] for n in columns
    }
    if "task_id" in renamed:
        renamed.setdefault("id", str(renamed.pop("task_id")).replace("<::>", "-"))
    texts: dict[str, list[str]] = {}
    for name, ours in (("targets", "reference"), ("predictions", "response")):
        entries = renamed.pop(name, None)
        texts[ours] = [
            entry["text"]
            for entry in (entries if isinstance(entries, list) else [])
            if isinstance(entry, Mapping) and isinstance(entry.get("text"), str)
        ]
        if texts[ours] and renamed.get(ours) is None:
            renamed[ours] = texts[ours][0]
    if texts["reference"][1:]:
        renamed["references"] = texts["reference"]
    contexts = renamed.get("contexts")
    if isinstance(contexts, list) and all(isinstance(entry, Mapping) for entry in contexts):
        del renamed["contexts"]
        gold = passage_columns("reference_contexts", "reference_ids", contexts, "")
        if texts["response"]:
            gold["retrieved_contexts"] = gold["reference_contexts"]
        renamed = {**gold, **renamed}
    return renamed


def _each_turn(
    turns: Sequence[Turn], columns: Mapping[str, Any], where: str, number: int, *, questions: bool
) -> list[tuple[str, Mapping[str, Any]]]:
    """Return one record per question of a conversation that ends with an answer."""
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
