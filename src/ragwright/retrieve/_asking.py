"""A call of a chat model whose reply must have a form: checked, requested once more, then given up.

A model that helps with the query must never lose it. If the model fails (a malformed, empty or cut
reply, a timeout, a server error), the question is used as asked, with a note. Errors of the user
(no key, an unknown model) are raised.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from ..core import (
    MissingKeyError,
    ModelError,
    ModelRefusedError,
    canonical_json,
    load_shipped_mapping,
    render,
)
from ..flow import INCOMPLETE, ChatReply, Flow, Message, branch, chat

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class StructuredQuestion(Generic[T]):
    """The prompt, and the form of its reply.

    Attributes:
        model: Chat model.
        prompt: Name of the prompt file, without its suffix.
        values: Values for the prompt's templates.
        parse: Returns the value of a reply's text; raises ValueError with the fault.
        stand_in: Value in a dry run.
        max_tokens: Longest reply.
        schema: JSON schema of the reply, empty for free text.
        sample: Number of an independent sample; from 1 on the temperature is 0.7.
        sources: Documents whose text is in the prompt.
        whole: Refuse a reply that the token limit cut.
    """

    model: str
    prompt: str
    values: Mapping[str, Any]
    parse: Callable[[str], T]
    stand_in: T
    max_tokens: int = 300
    schema: str = ""
    sample: int = 0
    sources: tuple[str, ...] = ()
    whole: bool = True


@dataclass(frozen=True, slots=True)
class StructuredReply(Generic[T]):
    """The result: a value, or None with the reason."""

    value: T | None
    why: str = ""


def ask_structured(asking: StructuredQuestion[T]) -> Flow[StructuredReply[T]]:
    """The value of a model's reply; one retry shows the model its own reply and the fault.

    Raises:
        MissingKeyError: The environment holds no key for the model.
        ModelRefusedError: The server refuses the request itself.
    """
    data = load_shipped_mapping("retrieve", f"prompts/{asking.prompt}.yaml")
    turns = [Message(role, render(data.text(role), asking.values)) for role in ("system", "user")]
    params = {"temperature": 0.7 if asking.sample else 0.0, "max_tokens": asking.max_tokens}

    def send() -> Flow[ChatReply]:
        return (
            yield from chat(
                asking.model,
                turns,
                params,
                schema=asking.schema,
                sample=asking.sample,
                sources=asking.sources,
            )
        )

    try:
        reply = yield from send()
        # Declared before the reply is read: a dry run counts at most one retry.
        planned = yield from branch(0, 0, 1)
        fault = _reply_fault(asking, reply)
        if planned or (fault and planned is None):
            again = render(data.text("again"), {**asking.values, "fault": fault})
            turns += [Message("assistant", reply.text), Message("user", again)]
            reply = yield from send()
            fault = _reply_fault(asking, reply)
    except (MissingKeyError, ModelRefusedError):
        raise
    except ModelError as error:
        return StructuredReply(None, f"{type(error).__name__}: {error.what}")
    if reply.finish == "forecast":
        return StructuredReply(asking.stand_in)
    return StructuredReply(None, fault) if fault else StructuredReply(asking.parse(reply.text))


_FENCE = re.compile(r"```(?P<kind>\w*)[ \t]*\n(?P<inner>.*?)\n?[ \t]*```", re.DOTALL)
_FENCE_LINE = re.compile(r"^[ \t]*```", re.MULTILINE)


def unwrap_fence(text: str) -> tuple[str, str]:
    """The language of the code fence around a reply, and its content.

    The language is in lower case; it is empty without a language or a fence, or with several
    fences.
    """
    bare = text.strip()
    fence = _FENCE.fullmatch(bare)
    if fence is None or _FENCE_LINE.search(fence["inner"]):
        return "", bare
    return fence["kind"].lower(), fence["inner"].strip()


def json_object(text: str, keys: Mapping[str, type]) -> dict[str, Any]:
    """The JSON object of a reply, with exactly these keys and kinds of value.

    A code fence around it is allowed.

    Raises:
        ValueError: It is not such an object; the message says why.
    """
    language, inner = unwrap_fence(text)
    if language not in {"", "json"}:
        raise ValueError(f"the reply is a block of {language}, not JSON")
    try:
        value = json.loads(inner)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"the reply is not JSON ({error})") from error
    if not isinstance(value, dict):
        raise ValueError("the reply is not a JSON object")
    if set(value) != set(keys):
        raise ValueError(f"the object must have the keys {', '.join(keys)} and no others")
    for key, kind in keys.items():
        if not isinstance(value[key], kind):
            raise ValueError(f"{key!r} must be of type {_JSON_NAMES[kind]}")
    return value


def object_schema(properties: Mapping[str, Mapping[str, Any]], title: str = "reply") -> str:
    """JSON schema text of an object with exactly these properties."""
    return canonical_json(
        {
            "title": title,
            "type": "object",
            "properties": dict(properties),
            "required": list(properties),
            "additionalProperties": False,
        }
    )


def one_line(text: str, most: int) -> str:
    """A text on one line.

    Raises:
        ValueError: It is empty, or longer than ``most`` characters.
    """
    line = " ".join(text.split())
    if not line:
        raise ValueError("the text is empty")
    if len(line) > most:
        raise ValueError(f"the text has {len(line)} characters, more than {most}")
    return line


_JSON_NAMES = {str: "string", bool: "boolean", list: "array"}


def _reply_fault(asking: StructuredQuestion[T], reply: ChatReply) -> str:
    """The fault of a reply, empty if there is none."""
    if reply.finish == "forecast":
        return ""
    if asking.whole and reply.finish == "length":
        return f"the reply was cut at {asking.max_tokens} tokens"
    if reply.finish in INCOMPLETE and reply.finish != "length":
        return INCOMPLETE[reply.finish]
    try:
        asking.parse(reply.text)
    except ValueError as error:
        return str(error)
    return ""
