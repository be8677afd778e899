"""Any HTTP endpoint as the system under test: one JSON POST a question.

It is not asked through the runner's ``Fetch``, which only ever reads: a POST may change things
on the other side, so it is sent once, never repeated by us and never answered from a store.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ...core import TestsetError
from ._systems import System, SystemReply

_LARGEST = 10_000_000
_MARK = "{question}"


@dataclass(frozen=True, slots=True)
class HttpSystem:
    """How an endpoint is asked and where its reply holds what.

    Attributes:
        url: ``http`` or ``https`` address.
        body: JSON to send; ``{question}`` inside its texts becomes the question.
        answer: Where the answer stands: keys and list positions parted by dots.
        contexts: Where the passages stand, ``*`` meaning every entry of a list
            (``documents.*.text``); empty for none.
        ids: Likewise for the ids of their documents.
        token: Name of the environment variable that holds a bearer token, empty for none.
        timeout: Seconds for one reply.
    """

    url: str
    body: Mapping[str, Any] = field(default_factory=lambda: {"question": _MARK})
    answer: str = "answer"
    contexts: str = ""
    ids: str = ""
    token: str = ""
    timeout: float = 60.0


def http_system(how: HttpSystem) -> System:
    """The system behind an endpoint; a blocking function, safe to call from several threads.

    Raises:
        TestsetError: The address is not a web address, the body has no place for the question, or
            the environment lacks the token; later, for a row, that the endpoint fails or its
            reply lacks what is due.
    """
    if not how.url.startswith(("http://", "https://")):
        raise TestsetError(f"{how.url!r} is not a web address", hint="begin with https://")
    if filled(how.body, "a") == filled(how.body, "b"):
        raise TestsetError(
            "the body has no place for the question", hint=f"write {_MARK} where it belongs"
        )
    headers = {"accept": "application/json"}
    if how.token:
        if not os.environ.get(how.token):
            raise TestsetError(
                f"the environment variable {how.token} is not set", hint="export it first"
            )
        headers["authorization"] = f"Bearer {os.environ[how.token]}"
    import httpx2

    client = httpx2.Client(headers=headers, timeout=how.timeout, follow_redirects=False)

    def ask(question: str) -> SystemReply:
        try:
            with client.stream("POST", how.url, json=filled(how.body, question)) as reply:
                data = b""
                for part in reply.iter_bytes():
                    data += part
                    if len(data) > _LARGEST:
                        raise TestsetError(f"the reply is over {_LARGEST:,} bytes", where=how.url)
                status = reply.status_code
        except httpx2.HTTPError as error:
            raise TestsetError(
                f"the endpoint does not answer: {type(error).__name__} {error}", where=how.url
            ) from error
        if status != 200:
            said = data[:200].decode("utf-8", "replace")
            raise TestsetError(f"the endpoint answers with status {status}: {said}", where=how.url)
        return read_reply(how, data)

    return ask


def read_reply(how: HttpSystem, data: bytes) -> SystemReply:
    """The answer, passages and ids in the body of a reply.

    Raises:
        TestsetError: It is not JSON, or lacks one of them.
    """
    try:
        value = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise TestsetError(f"the reply is not JSON: {error}", where=how.url) from error
    answer = at(value, how.answer, how.url)
    if not isinstance(answer, str):
        raise TestsetError(f"{how.answer} is {type(answer).__name__}, not a text", where=how.url)
    contexts = _list(value, how.contexts, how.url)
    ids = _list(value, how.ids, how.url)
    if not all(isinstance(text, str) for text in contexts):
        raise TestsetError(f"{how.contexts} are not all texts", where=how.url)
    return SystemReply(answer, tuple(contexts), tuple(map(str, ids)) if how.ids else None)


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
    """What stands at a dotted path; ``*`` gives a list of what stands below every entry.

    Raises:
        TestsetError: Nothing stands there.
    """
    step, _, rest = path.partition(".")
    if step == "*" and isinstance(value, list):
        return [at(entry, rest, where) if rest else entry for entry in value]
    try:
        found = value[int(step)] if isinstance(value, list) else value[step]
    except (KeyError, IndexError, ValueError, TypeError) as error:
        held = ", ".join(map(str, value)) if isinstance(value, dict) else type(value).__name__
        raise TestsetError(
            f"the reply holds no {step!r}",
            where=where,
            hint=f"it holds {held}; name the place with dots, such as choices.0.text",
        ) from error
    return at(found, rest, where) if rest else found


def _list(value: Any, path: str, where: str) -> list[Any]:
    if not path:
        return []
    found = at(value, path, where)
    if not isinstance(found, list):
        raise TestsetError(f"{path} is {type(found).__name__}, not a list", where=where)
    return found
