"""Any HTTP endpoint as the system under test: one JSON POST a question.

A POST may change things on the other side, so it is sent again only where the server says that
it did nothing with it (429, 503).
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from ...core import ConfigError, SystemCallError
from ...flow import SystemReply
from ._options import SystemOptions
from ._replies import reply_of, shown

_LARGEST = 10_000_000
_MARK = "{question}"
_AGAIN = frozenset({429, 503})


def endpoint(how: SystemOptions) -> Callable[[str], SystemReply]:
    """The system at an address; a blocking function, safe to call from several threads.

    Raises:
        ConfigError: The address is not a web address, the body has no place for the question, or
            the environment lacks the token.
    """
    if not how.url.startswith(("http://", "https://")):
        raise ConfigError(f"{how.url!r} is not a web address", hint="begin with https://")
    body = how.body or {"question": _MARK}
    if filled(body, "a") == filled(body, "b"):
        raise ConfigError(
            "the body has no place for the question",
            where=how.url,
            hint=f"write {_MARK} where the question goes",
        )
    headers = {"accept": "application/json"}
    if how.token:
        if not os.environ.get(how.token):
            raise ConfigError(
                f"the environment variable {how.token} is not set", hint="export it first"
            )
        headers["authorization"] = f"Bearer {os.environ[how.token]}"
    import httpx2

    client = httpx2.Client(headers=headers, timeout=how.timeout, follow_redirects=False)

    def ask(question: str) -> SystemReply:
        try:
            with client.stream("POST", how.url, json=filled(body, question)) as reply:
                data = b""
                for part in reply.iter_bytes():
                    data += part
                    if len(data) > _LARGEST:
                        raise SystemCallError(
                            f"the reply is over {_LARGEST:,} bytes", where=how.url
                        )
                status, wait = reply.status_code, reply.headers.get("retry-after", "")
        except httpx2.HTTPError as error:
            raise SystemCallError(
                f"the endpoint does not answer: {type(error).__name__} {error}",
                where=how.url,
                hint="start it, or check the address",
            ) from error
        if status != 200:
            said = data[:200].decode("utf-8", "replace")
            raise SystemCallError(
                f"the endpoint answers with status {status}: {said}",
                where=how.url,
                status=status,
                retry_after=float(wait) if wait.isdigit() else None,
                retryable=status in _AGAIN,
            )
        return read_reply(how, data)

    return ask


def read_reply(how: SystemOptions, data: bytes) -> SystemReply:
    """The answer, passages and ids in the body of a reply.

    Raises:
        SystemCallError: It is not JSON, or lacks one of them; shows how it begins.
    """
    try:
        value = json.loads(data)
    except (ValueError, RecursionError) as error:
        said = data[:200].decode("utf-8", "replace")
        raise SystemCallError(
            f"the reply is not JSON: {said!r}",
            where=how.url,
            hint='answer with JSON, such as {"answer": "…", "contexts": ["…"]}',
        ) from error
    if how.answer:
        answer = at(value, how.answer, how.url)
        if not isinstance(answer, str):
            raise SystemCallError(f"{how.answer} is {shown(answer)}, not a text", where=how.url)
        found = SystemReply(answer)
    else:
        found = reply_of(value)
    if how.contexts:
        found = reply_of((found.response or "", _list(value, how.contexts, how.url)))
    if how.ids:
        found = replace(found, context_ids=tuple(map(str, _list(value, how.ids, how.url))))
    return found


def filled(body: Any, question: str) -> Any:
    """The body with the question in its place; keys stay as they are."""
    if isinstance(body, str):
        return body.replace(_MARK, question)
    if isinstance(body, Mapping):
        return {key: filled(value, question) for key, value in body.items()}
    if isinstance(body, list | tuple):
        return [filled(value, question) for value in body]
    return body


def at(value: Any, path: str, where: str) -> Any:
    """What a dotted path leads to; ``*`` gives a list of what is below every entry.

    Raises:
        SystemCallError: There is nothing.
    """
    step, _, rest = path.partition(".")
    if step == "*" and isinstance(value, list):
        return [at(entry, rest, where) if rest else entry for entry in value]
    try:
        found = value[int(step)] if isinstance(value, list) else value[step]
    except (KeyError, IndexError, ValueError, TypeError) as error:
        raise SystemCallError(
            f"the reply holds no {step!r}, it is {shown(value)}",
            where=where,
            hint="name the place with dots, such as choices.0.text",
        ) from error
    return at(found, rest, where) if rest else found


def _list(value: Any, path: str, where: str) -> list[Any]:
    found = at(value, path, where)
    if not isinstance(found, list):
        raise SystemCallError(f"{path} is {shown(found)}, not a list", where=where)
    return found
