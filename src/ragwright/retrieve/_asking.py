"""A question to a chat model whose reply must have a form: checked, asked once more, then given up.

A model on the query side may help and must never lose the question. What it does wrong (a
reply without the form, an empty or cut one, no reply in time, a server that fails) ends in a
note and the question as it was asked. What the user did wrong (no key, a model that the server
does not know) is raised.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from ..core import (
    MissingKeyError,
    ModelError,
    ModelRefusedError,
    canonical_json,
    render,
    shipped_mapping,
)
from ..flow import ChatReply, Flow, Message, branch, chat

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class StructuredQuestion(Generic[T]):
    """What is asked, and what a reply must look like.

    Attributes:
        model: Chat model.
        prompt: Name of the prompt file, without its ending.
        values: What the prompt's templates see.
        parse: The value of a reply's text; raises ValueError that says what is wrong with it.
        stand_in: Value in a dry run.
        max_tokens: Longest reply.
        schema: JSON schema of the reply, empty for free text.
        sample: Number of an independent sample; from 1 on the temperature is 0.7.
        sources: Documents whose text is shown.
        whole: A reply cut by the token limit is refused.
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
    """What came of it: a value, or None and why."""

    value: T | None
    why: str = ""


def asked(asking: StructuredQuestion[T]) -> Flow[StructuredReply[T]]:
    """The value of a model's reply; one re-ask shows the model its own reply and the fault.

    Raises:
        MissingKeyError: The environment holds no key for the model.
        ModelRefusedError: The server refuses the request itself.
    """
    data = shipped_mapping("retrieve", f"prompts/{asking.prompt}.yaml")
    data.check_keys(("system", "user", "again"), "a prompt file")
    turns = [Message(role, render(data.text(role), asking.values)) for role in ("system", "user")]
    try:
        reply = yield from _sent(asking, turns)
        # Declared before the reply is read: a dry run counts at most one re-ask.
        planned = yield from branch(0, 0, 1)
        fault = _fault(asking, reply)
        if planned or (fault and planned is None):
            again = render(data.text("again"), {**asking.values, "fault": fault})
            turns += [Message("assistant", reply.text), Message("user", again)]
            reply = yield from _sent(asking, turns)
            fault = _fault(asking, reply)
    except (MissingKeyError, ModelRefusedError):
        raise
    except ModelError as error:
        return StructuredReply(None, f"{type(error).__name__}: {error.what}")
    if reply.finish == "forecast":
        return StructuredReply(asking.stand_in)
    return StructuredReply(None, fault) if fault else StructuredReply(asking.parse(reply.text))


_THOUGHT = re.compile(r"\s*<think>.*?</think>", re.DOTALL)
_FENCE = re.compile(r"```(?P<kind>\w*)[ \t]*\n(?P<inner>.*?)\n?[ \t]*```", re.DOTALL)
_FENCE_LINE = re.compile(r"^[ \t]*```", re.MULTILINE)


def unwrapped(text: str) -> tuple[str, str]:
    """The language of the one code fence around a reply, and what it holds.

    A thought before it is left out. The language is in small letters, and empty where the fence
    names none, where there is no fence, and where there are several.
    """
    bare = _THOUGHT.sub("", text, count=1) if _THOUGHT.match(text) else text
    bare = bare.strip()
    fence = _FENCE.fullmatch(bare)
    if fence is None or _FENCE_LINE.search(fence["inner"]):
        return "", bare
    return fence["kind"].lower(), fence["inner"].strip()


def json_object(text: str, keys: Mapping[str, type]) -> dict[str, Any]:
    """The one JSON object that a reply is, with exactly these keys and kinds of value.

    One code fence around it and one ``<think>`` block before it are let pass.

    Raises:
        ValueError: It is something else; the message says what.
    """
    language, inner = unwrapped(text)
    if language not in {"", "json"}:
        raise ValueError(f"the reply is a block of {language}, not JSON")
    try:
        found = json.loads(inner)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"the reply is not JSON ({error})") from error
    if not isinstance(found, dict):
        raise ValueError("the reply is not a JSON object")
    if set(found) != set(keys):
        raise ValueError(f"the object must have the keys {', '.join(keys)} and no others")
    for key, kind in keys.items():
        if not isinstance(found[key], kind):
            raise ValueError(f"{key!r} must be of type {_JSON_NAMES[kind]}")
    return found


def object_schema(properties: Mapping[str, Mapping[str, Any]]) -> str:
    """JSON schema text of an object with exactly these properties."""
    return canonical_json(
        {
            "title": "reply",
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
    found = " ".join(text.split())
    if not found:
        raise ValueError("the text is empty")
    if len(found) > most:
        raise ValueError(f"the text has {len(found)} characters, more than {most}")
    return found


_JSON_NAMES = {str: "string", bool: "boolean", list: "array"}


def _sent(asking: StructuredQuestion[T], turns: Sequence[Message]) -> Flow[ChatReply]:
    temperature = 0.7 if asking.sample else 0.0
    return (
        yield from chat(
            asking.model,
            turns,
            {"temperature": temperature, "max_tokens": asking.max_tokens},
            schema=asking.schema,
            sample=asking.sample,
            sources=asking.sources,
        )
    )


def _fault(asking: StructuredQuestion[T], reply: ChatReply) -> str:
    """What is wrong with a reply, empty where nothing is."""
    if reply.finish == "forecast":
        return ""
    if reply.finish == "content_filter":
        return "the reply was withheld by a content filter"
    if asking.whole and reply.finish == "length":
        return f"the reply was cut at {asking.max_tokens} tokens"
    try:
        asking.parse(reply.text)
    except ValueError as error:
        return str(error)
    return ""
