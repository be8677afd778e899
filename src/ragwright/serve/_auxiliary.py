"""Calls that chat programs make beside the conversation: titles, tags, follow-up questions.

They ask about the conversation itself, so nothing is retrieved and nothing is stored for them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from ..core import Usage
from ..flow import Flow, Message, chat
from ..models import ExtractiveReranker

Purpose: TypeAlias = Literal["title", "tags", "follow_ups", "query", "other"]

_TASK = re.compile(r"\A\s*### Task:\s*(?P<task>.{1,2000})", re.DOTALL)
_PURPOSES: Sequence[tuple[Purpose, re.Pattern[str]]] = (
    ("title", re.compile(r"\btitle\b", re.IGNORECASE)),
    ("tags", re.compile(r"\btags\b", re.IGNORECASE)),
    ("follow_ups", re.compile(r"\bfollow[- ]?up", re.IGNORECASE)),
    ("query", re.compile(r"\bquer(?:y|ies)\b", re.IGNORECASE)),
)
_PLAIN_TITLE = re.compile(
    r"(?:provide|generate|write|create|give me|suggest)[^.\n]{0,60}\btitle\b[^.\n]{0,60}"
    r"\b(?:conversation|chat)\b",
    re.IGNORECASE,
)
_HISTORY = re.compile(r"<chat_history>(.*?)</chat_history>", re.DOTALL | re.IGNORECASE)
_FIRST = re.compile(r"(?:^|\n)\s*(?:user|human)\s*:\s*(.+)", re.IGNORECASE)
_TITLE_WORDS = 6
_MAX_TOKENS = 200


@dataclass(frozen=True, slots=True)
class AuxiliaryReply:
    """What such a call is answered."""

    text: str
    model: str
    usage: Usage = Usage()


def purpose_of(messages: Sequence[Message]) -> Purpose | None:
    """What the last message asks for beside the conversation; None for a question like any other.

    Known are the prompts of Open WebUI (``### Task:`` ...) and requests to name the conversation.
    """
    text = messages[-1].content
    task = _TASK.match(text)
    if task:
        found = (name for name, pattern in _PURPOSES if pattern.search(task["task"][:300]))
        return next(found, "other")
    if _PLAIN_TITLE.search(text[:400]):
        return "title"
    return None


def auxiliary_reply(
    messages: Sequence[Message], purpose: Purpose, model: str
) -> Flow[AuxiliaryReply]:
    """The reply of the chat model to the messages as they are; by rule where there is none."""
    if model == ExtractiveReranker.name:
        return AuxiliaryReply(_by_rule(messages, purpose), model)
    reply = yield from chat(model, messages, {"max_tokens": _MAX_TOKENS})
    return AuxiliaryReply(reply.text, model, reply.usage)


def _by_rule(messages: Sequence[Message], purpose: Purpose) -> str:
    if purpose == "title":
        return json.dumps({"title": _title(messages)}, ensure_ascii=False)
    empty: dict[Purpose, dict[str, list[str]]] = {
        "tags": {"tags": []},
        "follow_ups": {"follow_ups": []},
        "query": {"queries": []},
    }
    return json.dumps(empty.get(purpose, {}))


def _title(messages: Sequence[Message]) -> str:
    """The first words of the first question."""
    history = _HISTORY.search(messages[-1].content)
    said = _FIRST.search(history[1]) if history else None
    first = said[1] if said else next((m.content for m in messages[:-1] if m.role == "user"), "")
    words = first.split()
    return " ".join(words[:_TITLE_WORDS]) + (" …" if len(words) > _TITLE_WORDS else "")
