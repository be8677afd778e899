"""Calls that chat programs make beside the conversation: titles, tags, follow-ups, completions.

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
from ..models import NO_MODEL

Purpose: TypeAlias = Literal["title", "tags", "follow_ups", "query", "completion", "other"]

_PURPOSES: Sequence[tuple[Purpose, re.Pattern[str]]] = (
    ("title", re.compile(r"\btitle\b", re.IGNORECASE)),
    ("tags", re.compile(r"\btags\b", re.IGNORECASE)),
    ("follow_ups", re.compile(r"\bfollow[- ]?up", re.IGNORECASE)),
    ("query", re.compile(r"\bquer(?:y|ies)\b", re.IGNORECASE)),
)
_COMPLETES = re.compile(r"\bauto-?complet(?:e|es|ion)\b", re.IGNORECASE)
_BEGUN = re.compile(r"<text>.*</text>", re.DOTALL)
_TITLE = re.compile(
    r"\s*(?:please )?(?:provide|generate|write|create|give me|suggest)\b[^\n]{0,200}\btitle\b",
    re.IGNORECASE,
)
_ASKED = re.compile(r"^[ \t]*(?:user|human):[ \t]*(.*)", re.IGNORECASE | re.MULTILINE)
_REPLIED = re.compile(r"^[ \t]*(?:ai|assistant|model):", re.IGNORECASE | re.MULTILINE)
_TASK = "### Task:"
_TASK_LENGTH = 300
_TITLE_WORDS = 6
_MAX_TOKENS = 200


@dataclass(frozen=True, slots=True)
class AuxiliaryReply:
    """The reply to such a call."""

    text: str
    model: str
    usage: Usage = Usage()


def purpose_of(messages: Sequence[Message]) -> Purpose | None:
    """Return the purpose of a call beside the conversation; None for a question like any other.

    Known are the prompts of Open WebUI and LibreChat. They hold a transcript of the conversation,
    or the beginning of a text to complete; what holds neither is a question, also where it speaks
    of titles.
    """
    text = messages[-1].content.lstrip()
    if text.startswith(_TASK) and _COMPLETES.search(text[:_TASK_LENGTH]) and _BEGUN.search(text):
        return "completion"
    if text.startswith(_TASK) and "<chat_history>" in text and "</chat_history>" in text:
        task = text[len(_TASK) :][:_TASK_LENGTH]
        return next((name for name, known in _PURPOSES if known.search(task)), "other")
    question = _TITLE.match(text) and _ASKED.search(text)
    return "title" if question and _REPLIED.search(text, question.end()) else None


def auxiliary_reply(
    messages: Sequence[Message], purpose: Purpose, model: str
) -> Flow[AuxiliaryReply]:
    """The reply of the chat model to the messages as they are; by rule where there is none."""
    if model == NO_MODEL:
        return AuxiliaryReply(_by_rule(messages, purpose), model)
    reply = yield from chat(model, messages, {"max_tokens": _MAX_TOKENS})
    return AuxiliaryReply(reply.text, model, reply.usage)


def _by_rule(messages: Sequence[Message], purpose: Purpose) -> str:
    if purpose == "title":
        return json.dumps({"title": _conversation_title(messages)}, ensure_ascii=False)
    empty: dict[Purpose, dict[str, list[str] | str]] = {
        "completion": {"text": ""},
        "tags": {"tags": []},
        "follow_ups": {"follow_ups": []},
        "query": {"queries": []},
    }
    return json.dumps(empty.get(purpose, {}))


def _conversation_title(messages: Sequence[Message]) -> str:
    """The first words of the first question."""
    question = _ASKED.search(messages[-1].content)
    first = (
        question[1]
        if question
        else next((m.content for m in messages[:-1] if m.role == "user"), "")
    )
    words = first.split()
    return " ".join(words[:_TITLE_WORDS]) + (" …" if len(words) > _TITLE_WORDS else "")
