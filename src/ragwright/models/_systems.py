"""Systems under test: described by an address or a file, opened once, asked, and read.

What they return is recognised by the names of attributes and keys; no library is imported.
"""

from __future__ import annotations

import importlib.util
import inspect
import json
import os
import re
import sys
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from ..core import (
    ConfigError,
    PluginError,
    SystemCallError,
    build_options,
    canonical_json,
    list_changed_options,
    load_object,
    option,
    read_yaml,
)
from ..flow import Message, SystemReply
from ._names import PROVIDERS

Caller = Callable[[str, Sequence[Message]], Any]
"""Takes a question and the turns before it; may block, raise, or return an awaitable or a
generator of pieces."""

_ANSWERS = (
    "response",
    "answer",
    "result",
    "output",
    "data",
    "output_text",
    "text",
    "content",
    "reply",
    "message",
    "completion",
    "messages",
    "choices",
)
"""Names of an answer; the first that holds one is read."""

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
_IDS = ("retrieved_context_ids", "context_ids", "document_ids", "doc_ids", "source_ids", "ids")
_TEXTS = ("page_content", "content", "text", "passage", "chunk", "body")
_OWN_IDS = ("document_id", "doc_id", "source_id", "ref_doc_id", "id", "node_id", "id_", "chunk_id")
_PLACES = ("document_id", "doc_id", "source_id", "source", "file_path", "file_name", "url")
_MADE_UP = re.compile(r"(?i)[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12,}")
_SHOWN = 200
_FILES = (".yaml", ".yml")
_METHODS = ("invoke", "query", "chat", "retrieve")
_MARK = "{question}"
_TURNS = "{messages}"
_AGAIN = frozenset({429, 503})

_HINT = (
    "return a text, (text, passages), or an object of response, retrieved_contexts and "
    "retrieved_context_ids"
)


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

    @property
    def title(self) -> str:
        """The name in runs and reports."""
        return self.name or self.call or self.url or self.model


@dataclass(frozen=True, slots=True)
class UnderTest:
    """A system that can be asked.

    Attributes:
        options: How it is called and read; ``model`` is set where it is a chat model, which is
            asked as every other model is.
        ask: Takes a question and its history, in a thread of its own.
        takes_turns: False if it has no place for the history.
        round: Apart from what other replies of it are kept; empty where a version says that.
        early: Replies that a first check got, each to be used once.
    """

    options: SystemOptions
    ask: Caller
    takes_turns: bool = True
    round: str = ""
    early: dict[tuple[str, tuple[Message, ...]], SystemReply] = field(
        default_factory=dict, compare=False
    )

    @property
    def name(self) -> str:
        """Name in runs and reports."""
        return self.options.title

    @property
    def _settings(self) -> Mapping[str, Any]:
        """The settings that decide how the system is asked and read."""
        return list_changed_options(replace(self.options, concurrency=8, timeout=120.0, price=None))

    @property
    def identity(self) -> str:
        """Everything that determines replies: the version, how the system is called and read."""
        return canonical_json([self.round, self._settings])

    @property
    def manifest(self) -> dict[str, Any]:
        """The parts of a run's manifest that describe the system."""
        named = ("call", "url", "name", "version")
        settings = {key: value for key, value in self._settings.items() if key not in named}
        return {
            "system": self.name,
            "system_version": self.options.version,
            **({"system_settings": settings} if settings else {}),
        }


class Systems(dict[str, UnderTest]):
    """The systems that a runner may ask, by name."""

    def close(self) -> None:
        """Let no name stand for a system any more."""
        self.clear()


def read_system(address: str, version: str = "") -> SystemOptions:
    """Read the system that ``--system`` names: a YAML file, an address, a model, or a Python
    object.

    Args:
        address: ``system.yaml``; ``module:object`` or ``file.py:object``; ``http(s)://…``, where
            ``…/v1#name`` is a model of an OpenAI-compatible server; ``provider:name``.
        version: Wins over that of a file.

    Raises:
        ConfigError: It is none of these, or the file is wrong (with file and line).
    """
    web = address.startswith(("http://", "https://"))
    model = "#" in address if web else address.partition(":")[0] in PROVIDERS
    if Path(address).suffix.lower() in _FILES:
        placed = read_yaml(Path(address))
        options = build_options(SystemOptions, placed.value, placed, ())
        if len(list(filter(None, (options.call, options.url, options.model)))) != 1:
            raise ConfigError(
                "the file names no system, or several",
                where=address,
                hint="give it one of call, url and model",
            )
    elif ":" in address:
        url = web and not model
        options = SystemOptions(
            model=address * model, url=address * url, call=address * (not web and not model)
        )
    else:
        raise ConfigError(
            f"cannot tell what kind of system {address!r} is",
            where="--system",
            hint="write module:object, file.py:object, an address, http://host/v1#model, or a file "
            "such as system.yaml",
        )
    return replace(options, version=version) if version else options


def open_system(system: Any, options: SystemOptions | None = None) -> UnderTest:
    """A system that can be asked, of an address, options, or an object of Python.

    Args:
        system: What :func:`read_system` takes, options, or a function or an object.
        options: For an object: how it is called and read, its name and version.

    Raises:
        ConfigError: It cannot be found or asked.
    """
    if isinstance(system, UnderTest):
        return system
    if isinstance(system, str | Path):
        system = read_system(str(system))
    if not isinstance(system, SystemOptions):
        described = options or SystemOptions()
        definition = system if hasattr(system, "__qualname__") else type(system)
        call = described.call or f"{definition.__module__}:{definition.__qualname__}"
        options, target = replace(described, call=call, url="", model=""), system
    elif system.model:
        return UnderTest(system, lambda question, history: None)  # asked as every model is
    elif system.url:
        return UnderTest(system, *_endpoint(system))
    else:
        options, target = system, _load_system(system.call)
    return UnderTest(options, *_caller_of(target, options))


def _load_system(address: str) -> Any:
    """The object at ``module:object`` or ``file.py:object``."""
    file, _, path = address.rpartition(":")
    if not file.endswith(".py"):
        return load_object(address, where="--system")
    source = Path(file)
    if not source.is_file():
        raise PluginError(f"no such file: {file}", where="--system", hint="check the path")
    folder = str(source.resolve().parent)
    if folder not in sys.path:
        sys.path.append(folder)  # for modules beside it
    name = f"ragwright_system_{source.stem}"
    spec = importlib.util.spec_from_file_location(name, source)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        raise PluginError(
            f"{file} fails when it is imported: {type(error).__name__}: {error}",
            where="--system",
            hint='put what it runs under `if __name__ == "__main__":`'
            if isinstance(error, SystemExit)
            else None,
        ) from error
    return load_object(f"{name}:{path}", where="--system", shown=file)


def _caller_of(target: Any, options: SystemOptions) -> tuple[Caller, bool]:
    """Return the function that asks an object a question, and whether it takes earlier turns.

    The first of ``invoke`` (LangChain, LangGraph), ``query``, ``chat`` and ``retrieve``
    (LlamaIndex) is called with the question, else the object itself. A parameter ``history`` gets
    the turns before the question, a parameter ``messages`` all turns, as OpenAI's messages.

    Raises:
        ConfigError: It cannot be called.
    """
    function = next(filter(callable, (getattr(target, name, None) for name in _METHODS)), target)
    if not callable(function):
        raise ConfigError(
            f"{show_value(target)} cannot be asked a question",
            where=options.title,
            hint="name a function of the question, or an object with invoke, query, chat or "
            "retrieve",
        )
    names = inspect.signature(function).parameters

    def ask(question: str, history: Sequence[Message]) -> Any:
        turns = openai_messages(question, history)
        if "messages" in names:
            return function(messages=turns)
        value = {options.question: question} if options.question else question
        return function(value, history=turns[:-1]) if "history" in names else function(value)

    return ask, "history" in names or "messages" in names


def _endpoint(options: SystemOptions) -> tuple[Caller, bool]:
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
    if _fill_body(body, "a", ()) == _fill_body(body, "b", ()):
        raise ConfigError(
            "the body has no place for the question",
            where=options.url,
            hint=f"write {_MARK} where the question goes",
        )
    headers = {"accept": "application/json"}
    if options.token:
        if not os.environ.get(options.token):
            raise ConfigError(
                f"the environment variable {options.token} is not set", hint="export it first"
            )
        headers["authorization"] = f"Bearer {os.environ[options.token]}"
    import httpx2

    client = httpx2.Client(headers=headers, timeout=options.timeout, follow_redirects=False)

    def ask(question: str, history: Sequence[Message]) -> SystemReply:
        content = {**body, "messages": _TURNS} if history and not options.body else body
        return _read_reply(
            options, _post(client, _fill_body(content, question, history), options.url)
        )

    weakref.finalize(ask, client.close)
    return ask, not options.body or (
        _fill_body(body, "a", ()) != _fill_body(body, "a", (Message("user", "b"),))
    )


def _post(client: Any, content: Any, url: str) -> bytes:
    """The body of the reply to a JSON POST."""
    import httpx2

    try:
        reply = client.post(url, json=content)
    except httpx2.HTTPError as error:
        raise SystemCallError(
            f"the endpoint does not answer: {type(error).__name__} {error}",
            where=url,
            hint="start it, or check the address",
        ) from error
    status, wait = reply.status_code, reply.headers.get("retry-after", "")
    if status != 200:
        raise SystemCallError(
            f"the endpoint answers with status {status}: {reply.text[:200]}",
            where=url,
            status=status,
            retry_after=float(wait) if wait.isdigit() else None,
            retryable=status in _AGAIN,
        )
    return bytes(reply.content)


def _read_reply(options: SystemOptions, data: bytes) -> SystemReply:
    """The answer, passages and ids in the body of a reply."""
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
        answer = _value_at_path(value, options.answer, options.url)
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


def _fill_body(body: Any, question: str, history: Sequence[Message]) -> Any:
    """The body with the question and the messages in their places; keys stay as they are."""
    if body == _TURNS:
        return openai_messages(question, history)
    if isinstance(body, str):
        return body.replace(_MARK, question)
    if isinstance(body, Mapping):
        return {key: _fill_body(value, question, history) for key, value in body.items()}
    if isinstance(body, list | tuple):
        return [_fill_body(value, question, history) for value in body]
    return body


def openai_messages(question: str, history: Sequence[Message]) -> list[dict[str, str]]:
    """The turns as OpenAI's messages; the last one is the question."""
    turns = (*history, Message("user", question))
    return [{"role": turn.role, "content": turn.content} for turn in turns]


def _value_at_path(value: Any, path: str, where: str) -> Any:
    """The value at a dotted path; ``*`` gives a list of the values below every entry."""
    step, _, rest = path.partition(".")
    if step == "*" and isinstance(value, list):
        return [_value_at_path(entry, rest, where) if rest else entry for entry in value]
    try:
        inner = value[int(step)] if isinstance(value, list) else value[step]
    except (KeyError, IndexError, ValueError, TypeError) as error:
        raise SystemCallError(
            f"the reply holds no {step!r}, it is {show_value(value)}",
            where=where,
            hint="name the place with dots, such as choices.0.text",
        ) from error
    return _value_at_path(inner, rest, where) if rest else inner


def _list_at_path(value: Any, path: str, where: str) -> list[Any]:
    entries = _value_at_path(value, path, where)
    if not isinstance(entries, list):
        raise SystemCallError(f"{path} is {show_value(entries)}, not a list", where=where)
    return entries


def reply_of(returned: Any, ids: str = "") -> SystemReply:
    """Read the answer and the passages from the value that a system returned.

    Read are: a text; (answer, passages); an object or mapping of ``response`` (``answer``,
    ``result``, ``output``, ``content``, …), passages (``retrieved_contexts``, ``contexts``,
    ``source_documents``, ``source_nodes``, ``documents``, ``context``, …) and ids
    (``retrieved_context_ids``, …); a list of passages alone, as retrievers return. A passage is a
    text, or an object of a text with an id or metadata. An object may say ``abstained``.

    Args:
        returned: What came back.
        ids: Metadata field that holds a document's id; empty for the document's own id, where it
            is not one that a library made up, else its ``source``.

    Raises:
        SystemCallError: It is none of these; says what it is.
    """
    if isinstance(returned, SystemReply):
        return returned
    if isinstance(returned, str):
        return SystemReply(returned)
    if isinstance(returned, tuple) and len(returned) == 2 and isinstance(returned[1], list | tuple):
        answer, passages = returned
    elif isinstance(returned, list | tuple):
        answer, passages = None, returned
    else:
        answer, passages = _first_value(returned, _ANSWERS), _first_value(returned, _PASSAGES)
        says_none = any(_value_under(returned, name, "") is None for name in _ANSWERS)
        if answer is None and (passages is None or says_none):
            raise SystemCallError(f"the system returned {show_value(returned)}", hint=_HINT)
    reply = SystemReply(
        None if answer is None else text_of(answer),
        abstained=_value_under(returned, "abstained") is True,
    )
    if passages is not None:
        reply = _with_passages(reply, passages, ids)
    named = _first_value(returned, _IDS)
    return replace(reply, context_ids=tuple(map(str, named))) if named else reply


def text_of(value: Any) -> str:
    """A text, that of a message, whose content may be blocks, or that of the last of several.

    Raises:
        SystemCallError: There is none.
    """
    if isinstance(value, str):
        return value
    if isinstance(value, list) and value:
        return text_of(value[-1])
    blocks = _value_under(value, "content")
    if isinstance(blocks, list):
        texts = (b if isinstance(b, str) else _value_under(b, "text") for b in blocks)
        return "".join(text for text in texts if isinstance(text, str))
    inner = _first_value(value, _ANSWERS)
    if inner is None:
        raise SystemCallError(f"the answer is {show_value(value)}, not a text", hint=_HINT)
    return text_of(inner)


def show_value(value: Any) -> str:
    """A value as an error names it: its type, and how it begins."""
    try:
        text = repr(value)
    except Exception:
        text = "…"
    return f"{type(value).__name__}: {text if len(text) <= _SHOWN else text[:_SHOWN] + ' …'}"


def _first_value(holder: Any, names: Sequence[str]) -> Any:
    """The first value that is present and not None under one of these names; else None."""
    values = (_value_under(holder, name) for name in names)
    return next((value for value in values if value is not None), None)


def _value_under(holder: Any, name: str, absent: Any = None) -> Any:
    """The value that an object holds under a name; methods and properties that fail count as
    absent.
    """
    if isinstance(holder, Mapping):
        return holder.get(name, absent)
    try:
        value = getattr(holder, name, absent)
    except Exception:
        return absent
    return absent if callable(value) else value


def _with_passages(reply: SystemReply, passages: Any, ids: str) -> SystemReply:
    """A reply with its passages; a text alone, as chains put passages together, is one."""
    if isinstance(passages, str):
        return replace(reply, contexts=(passages,) if passages.strip() else ())
    if not isinstance(passages, Sequence):
        raise SystemCallError(f"the passages are {show_value(passages)}, not a list", hint=_HINT)
    texts, names = [], []
    for passage in passages:
        document = passage[0] if isinstance(passage, tuple) and passage else passage
        document = _value_under(document, "node") or document
        text = document if isinstance(document, str) else _first_value(document, _TEXTS)
        if not isinstance(text, str):
            raise SystemCallError(f"a passage is {show_value(passage)}, without a text", hint=_HINT)
        texts.append(text)
        names.append(_document_id(document, ids))
    all_named = None not in names  # with holes it would be another ranking
    return replace(
        reply, contexts=tuple(texts), context_ids=tuple(map(str, names)) if all_named else None
    )


def _document_id(document: Any, ids: str) -> Any:
    """The id of a passage's document, by the metadata field if that is named; else None."""
    metadata = _first_value(document, ("metadata", "meta"))
    if ids:
        named = _value_under(metadata, ids)
        return _value_under(document, ids) if named is None else named
    own_ids = _ids_under(document, _OWN_IDS)
    chosen_ids = [name for name in own_ids if not _MADE_UP.match(str(name))]
    places = (*_ids_under(metadata, _PLACES), *_ids_under(document, _PLACES))
    return next(iter([*chosen_ids, *places, *own_ids]), None)


def _ids_under(holder: Any, names: Sequence[str]) -> list[Any]:
    values = (_value_under(holder, name) for name in names)
    return [v for v in values if isinstance(v, str | int) and not isinstance(v, bool) and v != ""]
