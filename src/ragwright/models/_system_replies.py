"""Read whatever systems return: texts, messages, documents, and objects that hold them.

Libraries are recognised by the names of attributes and keys; none of them is imported. Capitals
and underscores in keys do not count.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from ..core import ConfigError, Row, SystemCallError, option
from ..flow import Message, SystemReply

Caller = Callable[[str, Sequence[Message]], Any]
"""Takes a question and the turns before it; may block, raise, or return an awaitable or a
generator of pieces."""

_ANSWERS = ("response", "answer", "result", "output", "generated_answer", "data")
_LATER = ("output_text", "text", "content", "reply", "message", "completion", "replies", "answers")
"""Read as the answer where none of the names before is there."""

_PASSAGES = (
    "retrieved_contexts",
    "contexts",
    "source_documents",
    "retrieved_documents",
    "source_nodes",
    "documents",
    "docs",
    "passages",
    "chunks",
    "sources",
    "hits",
    "context",
)
_IDS = (
    "retrieved_context_ids",
    "context_ids",
    "document_ids",
    "doc_ids",
    "source_ids",
    "ids",
)
_TEXTS = ("page_content", "content", "text", "passage", "chunk", "body")
_OWN_IDS = ("document_id", "doc_id", "source_id", "ref_doc_id", "id", "node_id", "id_", "chunk_id")
_PLACES = ("document_id", "doc_id", "source_id", "source", "file_path", "file_name", "url")
_MADE_UP = re.compile(r"(?i)[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12,}")
_SHOWN = 200

HINT = (
    "return a text, (text, passages), or an object of response, retrieved_contexts and "
    "retrieved_context_ids"
)


def reply_of(returned: Any, ids: str = "") -> SystemReply:
    """Read the answer and the passages from the value that a system returned.

    Read are: a text; a message (``content``); (answer, passages); an object or mapping of
    ``response`` (``answer``, ``result``, ``output``, …), passages (``retrieved_contexts``,
    ``contexts``, ``source_documents``, ``source_nodes``, ``documents``, ``context``, …) and ids
    (``retrieved_context_ids``, …); the reply of a chat server; a list of passages alone, as
    retrievers return. A passage is a text, or an object of a text with an id or metadata. An
    object may say ``abstained``.

    Args:
        returned: What came back.
        ids: Metadata field that holds a document's id; empty for the document's own id, where it
            is not one that a library made up, else its ``source``.

    Raises:
        SystemCallError: It is none of these; says what it is.
    """
    reply = _reply_in(returned, ids)
    return replace(reply, abstained=True) if _value_under(returned, "abstained") is True else reply


def _reply_in(returned: Any, ids: str) -> SystemReply:
    """Read the answer and the passages, but not whether the system abstained."""
    if isinstance(returned, SystemReply):
        return returned
    if isinstance(returned, Row):
        return _reply_of_row(returned)
    if _is_passages(returned):
        return _with_passages(None, returned, ids)
    if isinstance(returned, tuple) and len(returned) == 2 and isinstance(returned[1], list | tuple):
        return _with_passages(text_of(returned[0]), returned[1], ids)
    choices = returned.get("choices") if isinstance(returned, Mapping) else None
    if isinstance(choices, list) and choices:
        first = choices[0]
        return SystemReply(
            text_of(first.get("message", first) if isinstance(first, Mapping) else 0)
        )
    answer, passages = _answer_in(returned), _first_value(returned, _PASSAGES)
    if answer is None:
        text = _plain_text(returned)
        if text is not None:
            return SystemReply(text)
        says_none = any(_value_under(returned, name, "") is None for name in _ANSWERS)
        if _is_passages(passages) and not says_none:
            return _with_passages(None, passages, ids)
        raise SystemCallError(f"the system returned {show_value(returned)}", hint=HINT)
    named = _first_value(returned, _IDS)
    reply = SystemReply(text_of(answer))
    if passages is not None:
        reply = _with_passages(reply.response, passages, ids)
    return reply if named is None else replace(reply, context_ids=tuple(map(str, named)))


def text_of(value: Any) -> str:
    """A text, that of a message, or that of the first of several.

    Raises:
        SystemCallError: There is none.
    """
    text = _plain_text(value)
    if text is not None:
        return text
    if isinstance(value, list | tuple) and value:  # replies, answers
        return text_of(value[0])
    for name in ("response", "data", "output", "message"):
        if (inner := _value_under(value, name)) is not None:
            return text_of(inner)
    raise SystemCallError(f"the answer is {show_value(value)}, not a text", hint=HINT)


def show_value(value: Any) -> str:
    """A value as an error names it: its type, and how it begins."""
    try:
        text = repr(value)
    except Exception:
        text = "…"
    kind = type(value).__name__
    return f"{kind}: {text if len(text) <= _SHOWN else text[:_SHOWN] + ' …'}"


def _reply_of_row(row: Row) -> SystemReply:
    if row.response is None:
        raise SystemCallError(
            "the system returned a row without a response", hint="for an empty answer, return ''"
        )
    ids = row.retrieved_context_ids
    has_ids = bool(ids) or row.metadata.get("retrieved") is True
    return SystemReply(row.response, row.retrieved_contexts, ids if has_ids else None)


def _plain_text(value: Any) -> str | None:
    """The text of a value or of a message, whose content may be a list of blocks; else None."""
    if isinstance(value, str):
        return value
    for name in ("content", "text"):
        inner = _value_under(value, name)
        if isinstance(inner, str):
            return inner
        if isinstance(inner, list) and inner and isinstance(inner[0], str | Mapping):
            return "".join(_plain_text(block) or "" for block in inner)
    return None


def _answer_in(returned: Any) -> Any:
    """The answer that an object holds under one of its names.

    Raises:
        SystemCallError: Two names of an answer hold two values.
    """
    answers = [(n, value) for n in _ANSWERS if (value := _value_under(returned, n)) is not None]
    if not isinstance(returned, Mapping):
        return answers[0][1] if answers else None
    if len(answers) > 1:
        raise SystemCallError(
            f"the system returned both {answers[0][0]!r} and {answers[1][0]!r}",
            hint="return one of them, or name its place: answer",
        )
    messages = returned.get("messages")
    last = messages[-1] if isinstance(messages, Sequence) and messages else None
    later = _first_value(returned, _LATER)
    return answers[0][1] if answers else last if later is None else later


def _first_value(holder: Any, names: Sequence[str]) -> Any:
    """The first value that is present and not None under one of these names; else None."""
    values = (_value_under(holder, name) for name in names)
    return next((value for value in values if value is not None), None)


def _value_under(holder: Any, name: str, absent: Any = None) -> Any:
    """The value that an object holds under a name; methods and properties that fail count as
    absent.
    """
    if isinstance(holder, Mapping):
        if name in holder:
            return holder[name]
        squeezed = name.replace("_", "")
        keys = (k for k in holder if re.sub(r"\W|_", "", str(k)).lower() == squeezed)
        return next((holder[key] for key in keys), absent)
    if isinstance(holder, str | bytes | int | float | list | tuple):
        return absent
    try:
        value = getattr(holder, name, absent)
    except Exception:
        return absent
    return absent if callable(value) else value


def _is_passages(value: Any) -> bool:
    """True for a list of passages alone, as retrievers return them."""
    if not isinstance(value, list | tuple):
        return False
    return all(
        isinstance(passage, str) or _text_of_passage(passage) is not None for passage in value
    ) and not (isinstance(value, tuple) and len(value) == 2 and isinstance(value[1], list | tuple))


def _with_passages(answer: str | None, passages: Any, ids: str) -> SystemReply:
    """An answer with its passages; a text alone, as chains put passages together, is one."""
    if isinstance(passages, str):
        return SystemReply(answer, (passages,) if passages.strip() else (), None)
    if isinstance(passages, Mapping):
        passages = list(passages.values())
    if not isinstance(passages, Sequence):
        raise SystemCallError(f"the passages are {show_value(passages)}, not a list", hint=HINT)
    texts, names = [], []
    for passage in passages:
        text = _text_of_passage(passage)
        if text is None:
            raise SystemCallError(f"a passage is {show_value(passage)}, without a text", hint=HINT)
        texts.append(text)
        names.append(_passage_id(passage, ids))
    all_named = all(name is not None for name in names)  # with holes it would be another ranking
    return SystemReply(answer, tuple(texts), tuple(map(str, names)) if all_named else None)


def _document_in(passage: Any) -> Any:
    """The document in a (document, score) pair or in a scored node."""
    if isinstance(passage, tuple) and passage:
        return passage[0]
    node = _value_under(passage, "node")
    return passage if node is None else node


def _text_of_passage(passage: Any) -> str | None:
    if isinstance(passage, str):
        return passage
    inner = _document_in(passage)
    for name in _TEXTS:
        text = _value_under(inner, name)
        if isinstance(text, str):
            return text
    get = getattr(inner, "get_content", None)
    if callable(get):
        text = get()
        return text if isinstance(text, str) else None
    return inner if isinstance(inner, str) and inner is not passage else None


def _passage_id(passage: Any, ids: str) -> Any:
    inner = _document_in(passage)
    metadata = _first_value(inner, ("metadata", "meta"))
    metadata = metadata if isinstance(metadata, Mapping) else {}
    if ids:
        return _value_under(inner, ids) if metadata.get(ids) is None else metadata[ids]
    own_ids = list(_ids_under(inner, _OWN_IDS))
    chosen_ids = [name for name in own_ids if not _MADE_UP.match(str(name))]
    places = (*_ids_under(metadata, _PLACES), *_ids_under(inner, _PLACES))
    return next(iter([*chosen_ids, *places, *own_ids]), None)


def _ids_under(holder: Any, names: Sequence[str]) -> list[Any]:
    values = (_value_under(holder, name) for name in names)
    return [v for v in values if isinstance(v, str | int) and not isinstance(v, bool) and v != ""]


@dataclass(frozen=True, slots=True)
class SystemOptions:
    """The settings for calling a system under test and reading its replies.

    One of ``call``, ``url`` and ``model`` names the system; ``--system`` takes it directly where
    nothing else has to be said.
    """

    call: str = option("", "A function, pipeline or engine: module:object, or file.py:object.")
    url: str = option("", "Address that takes the question as a JSON POST.")
    model: str = option("", "A chat model that gets the question alone, such as http://host/v1#m.")
    instructions: str = option("", "System prompt for `model`.")
    name: str = option("", "Name in runs and reports; what `call`, `url` or `model` says if empty.")
    version: str = option("", "Version; replies are reused only where it is set and the same.")
    question: str = option("", "Name of the question in a pipeline's input; found out if empty.")
    body: Mapping[str, Any] = option(
        dict,
        "JSON that `url` gets; {question} in its texts becomes the question, the text {messages} "
        "all turns.",
    )
    answer: str = option("", "Place of the answer in the reply: keys with dots, a.0.b.")
    contexts: str = option("", "Place of the passages: documents.*.text.")
    ids: str = option(
        "",
        "Of `url`: place of the ids. Of pipelines: the metadata field that holds a document's id.",
    )
    token: str = option("", "Environment variable that holds a bearer token for `url`.")
    timeout: float = option(120.0, "Seconds for one answer.", gt=0)
    concurrency: int = option(8, "Most questions in work at once; -j lowers it.", ge=1)
    price: float | None = option(None, "Price of one question, for --max-cost and --dry-run.", ge=0)
    match: Literal["auto", "text", "ids"] = option(
        "auto", "How passages are compared with gold: by text where gold has some, else by ids."
    )

    def __post_init__(self) -> None:
        """Refuse a description that names no system, or several.

        Raises:
            ConfigError: So it does.
        """
        keys = [key for key in ("call", "url", "model") if getattr(self, key)]
        if len(keys) > 1:
            raise ConfigError(
                f"the system has both {keys[0]} and {keys[1]}", hint="name it by one of them"
            )

    @property
    def title(self) -> str:
        """The name in runs and reports."""
        return self.name or self.call or self.url or self.model


_LARGEST = 10_000_000


_MARK = "{question}"


_TURNS = "{messages}"


_AGAIN = frozenset({429, 503})


def endpoint(options: SystemOptions) -> tuple[Caller, bool]:
    """The system at an address, and whether its body has a place for the turns before the question.

    It is asked by a blocking function, safe to call from several threads.

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
        return read_reply(options, _post(client, content, options.url))

    earlier = (Message("user", "b"),)
    takes_turns = not options.body or fill_body(body, "a", ()) != fill_body(body, "a", earlier)
    return ask, takes_turns


def _post(client: Any, content: Any, url: str) -> bytes:
    """The body of the reply to a JSON POST.

    Raises:
        SystemCallError: No reply, one of another status than 200, or one that is too long.
    """
    import httpx2

    try:
        with client.stream("POST", url, json=content) as reply:
            data = b""
            for part in reply.iter_bytes():
                data += part
                if len(data) > _LARGEST:
                    raise SystemCallError(f"the reply is over {_LARGEST:,} bytes", where=url)
            status, wait = reply.status_code, reply.headers.get("retry-after", "")
    except httpx2.HTTPError as error:
        raise SystemCallError(
            f"the endpoint does not answer: {type(error).__name__} {error}",
            where=url,
            hint="start it, or check the address",
        ) from error
    if status != 200:
        excerpt = data[:200].decode("utf-8", "replace")
        raise SystemCallError(
            f"the endpoint answers with status {status}: {excerpt}",
            where=url,
            status=status,
            retry_after=float(wait) if wait.isdigit() else None,
            retryable=status in _AGAIN,
        )
    return data


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
