"""Any HTTP endpoint as the system under test: one JSON POST a question.

A POST may change things on the other side, so it is sent again only where the server says that
it did nothing with it (429, 503).
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ...core import ConfigError, SystemCallError
from ...flow import Message, SystemReply
from ._options import SystemOptions
from ._replies import reply_of, show_value

_LARGEST = 10_000_000
_MARK = "{question}"
_TURNS = "{messages}"
_AGAIN = frozenset({429, 503})


def endpoint(options: SystemOptions) -> Callable[[str, Sequence[Message]], SystemReply]:
    """The system at an address; a blocking function, safe to call from several threads.

    A question with history is sent as OpenAI's messages: in place of the text ``{messages}`` of
    the body, or under ``messages`` if there is no ``body``.

    Raises:
        ConfigError: The address is not a web address, the body has no place for the question, or
            the environment lacks the token.
    """
    if not options.url.startswith(("http://", "https://")):
        raise ConfigError(f"{options.url!r} is not a web address", hint="begin with https://")
    body = options.body or {"question": _MARK}
    if fill_body(body, "a", ()) == fill_body(body, "b", ()):
        raise ConfigError(
            "the body has no place for the question",
            where=options.url,
            hint=f"write {_MARK} where the question goes",
        )
    headers = {"accept": "application/json"}
    if options.token:
        if not os.environ.get(options.token):
            missing = f"the environment variable {options.token} is not set"
            raise ConfigError(missing, hint="export it first")
        headers["authorization"] = f"Bearer {os.environ[options.token]}"
    import httpx2

    client = httpx2.Client(headers=headers, timeout=options.timeout, follow_redirects=False)

    def ask(question: str, history: Sequence[Message]) -> SystemReply:
        with_turns = {**body, "messages": _TURNS} if history and not options.body else body
        content = fill_body(with_turns, question, history)
        try:
            with client.stream("POST", options.url, json=content) as reply:
                data = b""
                for part in reply.iter_bytes():
                    data += part
                    if len(data) > _LARGEST:
                        raise SystemCallError(
                            f"the reply is over {_LARGEST:,} bytes", where=options.url
                        )
                status, wait = reply.status_code, reply.headers.get("retry-after", "")
        except httpx2.HTTPError as error:
            raise SystemCallError(
                f"the endpoint does not answer: {type(error).__name__} {error}",
                where=options.url,
                hint="start it, or check the address",
            ) from error
        if status != 200:
            excerpt = data[:200].decode("utf-8", "replace")
            raise SystemCallError(
                f"the endpoint answers with status {status}: {excerpt}",
                where=options.url,
                status=status,
                retry_after=float(wait) if wait.isdigit() else None,
                retryable=status in _AGAIN,
            )
        return read_reply(options, data)

    return ask


def sends_turns(options: SystemOptions) -> bool:
    """True if the body of a question with history holds the turns before it."""
    body = options.body
    return not body or fill_body(body, "a", ()) != fill_body(body, "a", (Message("user", "b"),))


def read_reply(options: SystemOptions, data: bytes) -> SystemReply:
    """The answer, passages and ids in the body of a reply.

    Raises:
        SystemCallError: It is not JSON, or lacks one of them; shows how it begins.
    """
    try:
        value = json.loads(data)
    except (ValueError, RecursionError) as error:
        excerpt = data[:200].decode("utf-8", "replace")
        raise SystemCallError(
            f"the reply is not JSON: {excerpt!r}",
            where=options.url,
            hint='answer with JSON, such as {"answer": "…", "contexts": ["…"]}',
        ) from error
    if options.answer:
        answer = value_at_path(value, options.answer, options.url)
        if not isinstance(answer, str):
            raise SystemCallError(
                f"{options.answer} is {show_value(answer)}, not a text", where=options.url
            )
        reply = SystemReply(answer)
    else:
        reply = reply_of(value)
    if options.contexts:
        reply = reply_of(
            (reply.response or "", _list_at_path(value, options.contexts, options.url))
        )
    if options.ids:
        ids = _list_at_path(value, options.ids, options.url)
        reply = replace(reply, context_ids=tuple(map(str, ids)))
    return reply


def fill_body(body: Any, question: str, history: Sequence[Message]) -> Any:
    """The body with the question and the messages in their places; keys stay as they are."""
    if body == _TURNS:
        return openai_messages(question, history)
    if isinstance(body, str):
        return body.replace(_MARK, question)
    if isinstance(body, Mapping):
        return {key: fill_body(value, question, history) for key, value in body.items()}
    if isinstance(body, list | tuple):
        return [fill_body(value, question, history) for value in body]
    return body


def openai_messages(question: str, history: Sequence[Message]) -> list[dict[str, str]]:
    """The turns as OpenAI's messages; the last one is the question."""
    turns = (*history, Message("user", question))
    return [{"role": turn.role, "content": turn.content} for turn in turns]


def value_at_path(value: Any, path: str, where: str) -> Any:
    """The value at a dotted path; ``*`` gives a list of the values below every entry.

    Raises:
        SystemCallError: There is nothing.
    """
    step, _, rest = path.partition(".")
    if step == "*" and isinstance(value, list):
        return [value_at_path(entry, rest, where) if rest else entry for entry in value]
    try:
        inner = value[int(step)] if isinstance(value, list) else value[step]
    except (KeyError, IndexError, ValueError, TypeError) as error:
        raise SystemCallError(
            f"the reply holds no {step!r}, it is {show_value(value)}",
            where=where,
            hint="name the place with dots, such as choices.0.text",
        ) from error
    return value_at_path(inner, rest, where) if rest else inner


def _list_at_path(value: Any, path: str, where: str) -> list[Any]:
    entries = value_at_path(value, path, where)
    if not isinstance(entries, list):
        raise SystemCallError(f"{path} is {show_value(entries)}, not a list", where=where)
    return entries
