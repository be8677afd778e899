"""Call a system: functions, and objects of other libraries by their methods."""

from __future__ import annotations

import inspect
import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ..core import ConfigError, SystemCallError
from ..flow import Message, SystemReply
from ._system_replies import SystemOptions, reply_of, show_value, text_of

if TYPE_CHECKING:
    import httpx2

Caller = Callable[[str, Sequence[Message]], Any]
"""Takes a question and the turns before it; may block, raise, or return an awaitable or a
generator of pieces."""

_HISTORIES = frozenset({"chat_history", "history"})
"""Inputs that get the turns before the question, as OpenAI's messages; empty without any."""

_QUESTIONS = ("input", "question", "query", "user_input", "text", "prompt")


def _make_target(target: Any, options: SystemOptions) -> Any:
    """Return the object to ask: a class is made, and a function without parameters called, for it.

    Raises:
        ConfigError: Making it fails.
    """
    if not isinstance(target, type) and not (
        inspect.isfunction(target) and not _question_parameters(target)
    ):
        return target
    try:
        return target()
    except (Exception, SystemExit) as error:
        raise ConfigError(
            f"the system cannot be created: {type(error).__name__}: {error}", where=options.title
        ) from error


def caller_of(target: Any, options: SystemOptions) -> tuple[Caller, bool]:
    """Return the function that asks an object a question, and whether it takes earlier turns.

    A class is made first, and a function without parameters called. ``invoke`` (LangChain,
    LangGraph), ``query``, ``chat`` or ``retrieve`` (LlamaIndex), ``run`` with ``inputs``
    (Haystack); else it is called with the question.

    The turns before the question go to a function's parameter ``history`` or ``chat_history``, a
    parameter ``messages`` gets them with the question; a Runnable has such inputs, or does not say
    what it takes. Others get the question alone, as it was asked.

    Raises:
        ConfigError: It cannot be made, or not be called with a question.
    """
    target = _make_target(target, options)
    if callable(getattr(target, "invoke", None)):
        keys = _input_keys(target)
        return _RunnableCaller(target, keys, options).ask, keys is None or _takes_turns(keys)
    for method in ("query", "chat", "retrieve"):
        ask = getattr(target, method, None)
        if callable(ask):
            return _whole_response(ask), False
    if callable(getattr(target, "run", None)) and callable(getattr(target, "inputs", None)):
        return _haystack_caller(target, options), False
    if not callable(target):
        raise ConfigError(
            f"{show_value(target)} cannot be asked a question",
            where=options.title,
            hint="name a function of the question, or an object with invoke, query, retrieve or "
            "run",
        )
    parameters = _question_parameters(target)
    turns = _takes_turns([parameter.name for parameter in parameters])
    return _function_caller(target, parameters, options), turns


def _takes_turns(names: Sequence[str]) -> bool:
    return any(name in _HISTORIES or name == "messages" for name in names)


def _question_parameters(function: Callable[..., Any]) -> list[inspect.Parameter]:
    """Parameters that a question could go to; none where it takes none."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return [inspect.Parameter("question", inspect.Parameter.POSITIONAL_ONLY)]
    return [p for p in parameters if p.kind is not inspect.Parameter.VAR_KEYWORD]


def _function_caller(
    function: Callable[..., Any], parameters: Sequence[inspect.Parameter], options: SystemOptions
) -> Caller:
    """A function of the question; one of a mapping (``inputs``) gets ``{"question": …}``."""
    required = [p for p in parameters if p.default is p.empty and p.kind is not p.VAR_POSITIONAL]
    by_name = {p.name: p for p in required}
    due = [p for p in required if p.name not in _HISTORIES]
    if len(due) > 1 and options.question not in by_name:
        raise ConfigError(
            f"the system needs {len(due)} arguments: {', '.join(p.name for p in due)}",
            where=options.title,
            hint="name a function of the question alone; lambda or functools.partial bind the rest",
        )
    turns = [p.name for p in parameters if p.name in _HISTORIES]
    first = next((p for p in parameters if p.name not in _HISTORIES), None)

    def ask(question: str, history: Sequence[Message]) -> Any:
        earlier = openai_messages(question, history)[:-1]
        extra = {name: earlier for name in turns if history or name in by_name}
        if first is None:
            return function(question, **extra)
        value: Any = question
        if first.name == "messages":
            value = openai_messages(question, history)
        elif first.name == "inputs" or "dict" in str(first.annotation).lower():
            value = {options.question or "question": question}
        if first.kind is first.KEYWORD_ONLY or extra:
            return function(**{first.name: value}, **extra)
        return function(value)

    return ask


def _invoke_once(runnable: Any, value: Any, options: SystemOptions) -> Any:
    """One call, with the passages that the retrievers within found where it returns none."""
    callback = _retrieval_callback(runnable)
    if callback is None:
        return runnable.invoke(value)
    reply = reply_of(runnable.invoke(value, config={"callbacks": [callback]}), options.ids)
    if reply.contexts or reply.context_ids is not None or not callback.searches:
        return reply
    passages = reply_of(list(callback.documents), options.ids)
    return replace(reply, contexts=passages.contexts, context_ids=passages.context_ids)


class _RunnableCaller:
    """Asks a LangChain Runnable or a LangGraph graph.

    Its input schema says what it takes; where it does not, the first question is tried as a text,
    then as ``{"question": …}``, then under the key that was missing, and what works is kept.

    Raises:
        ConfigError: It takes several inputs, and none of them is known to be the question.
    """

    def __init__(self, runnable: Any, keys: tuple[str, ...] | None, options: SystemOptions) -> None:
        self._runnable, self._options = runnable, options
        self._history = [key for key in keys or () if key in _HISTORIES]
        own_keys = [key for key in keys or () if key not in _HISTORIES]
        usual = next((name for name in (*_QUESTIONS, "messages") if name in own_keys), "")
        self._key = options.question or usual or (own_keys[0] if len(own_keys) == 1 else "")
        if len(own_keys) > 1 and not self._key:
            raise ConfigError(
                f"the chain takes {len(own_keys)} inputs: {', '.join(own_keys)}",
                where=options.title,
                hint=f"name that of the question: `question: {own_keys[0]}` in the system's file, "
                "or SystemOptions(question=…) in Python",
            )
        self._known = bool(self._key) or keys == ()

    def ask(self, question: str, history: Sequence[Message]) -> Any:
        """Ask in the known form, or try the forms until one works."""
        first: Exception | None = None
        for _ in range(3):
            try:
                reply = _invoke_once(
                    self._runnable, self._input_for(self._key, question, history), self._options
                )
            except (AttributeError, KeyError, TypeError, ValueError) as error:
                if self._known:
                    raise
                first = first or error
                missing = error.args[0] if isinstance(error, KeyError) and error.args else ""
                following = missing if str(missing).isidentifier() else "question"
                if following == self._key:
                    break
                self._key = following
            else:
                self._known = True
                return reply
        self._key = ""
        raise SystemCallError(
            f"the chain took the question neither as a text nor as a key: {type(first).__name__}: "
            f"{first}",
            where=self._options.title,
            hint="name its input: `question: NAME` in the system's file, or "
            "SystemOptions(question=NAME) in Python",
        ) from first

    def _input_for(self, key: str, question: str, history: Sequence[Message]) -> Any:
        if not key:
            return question
        messages = openai_messages(question, history)
        if key == "messages":
            return {"messages": messages}
        return {**dict.fromkeys(self._history, messages[:-1]), key: question}


def _retrieval_callback(runnable: Any) -> Any:
    """A callback that collects the hits of the retrievers within a chain; None outside of
    LangChain.

    A chain that ends in a text hands its passages to nobody else.
    """
    runnables = sys.modules.get("langchain_core.runnables")
    callbacks = sys.modules.get("langchain_core.callbacks")
    if runnables is None or callbacks is None or not isinstance(runnable, runnables.Runnable):
        return None

    def ended(self: Any, documents: Any, **_: Any) -> None:
        self.searches += 1
        self.documents.extend(documents)

    members = {"searches": 0, "documents": [], "on_retriever_end": ended}
    return type("Retrievals", (callbacks.BaseCallbackHandler,), members)()


def _input_keys(runnable: Any) -> tuple[str, ...] | None:
    """Keys of the input that a Runnable takes: none for a text, None where it does not say."""
    keys = getattr(runnable, "input_keys", None)
    if isinstance(keys, list) and keys:
        return tuple(map(str, keys))
    try:
        schema = runnable.get_input_jsonschema()
    except Exception:  # not every Runnable can say what it takes
        return None
    if not isinstance(schema, Mapping):
        return None
    properties = schema.get("properties")
    if isinstance(properties, Mapping) and set(properties) - {"root"}:
        return tuple(map(str, properties))
    # Parts without types, such as lambdas, leave nothing, or a `root` that is not a key.
    return () if schema.get("type") == "string" or "anyOf" in schema else None


def _whole_response(ask: Callable[[str], Any]) -> Caller:
    """A LlamaIndex engine; a reply that is streamed is read to its end."""

    def respond(question: str, history: Sequence[Message]) -> Any:
        response = ask(question)
        get_response = getattr(response, "get_response", None)
        return get_response() if callable(get_response) else response

    return respond


def _haystack_caller(pipeline: Any, options: SystemOptions) -> Caller:
    """A Haystack pipeline: the question goes to every text input that must be given."""
    places = _text_inputs(pipeline, options.question)
    if not places:
        raise ConfigError(
            "the pipeline has no open input for a question",
            where=options.title,
            hint="name it: `question: COMPONENT.INPUT` in the system's file",
        )
    names = {name for name, _ in getattr(getattr(pipeline, "graph", None), "nodes", {}).items()}

    def ask(question: str, history: Sequence[Message]) -> SystemReply:
        data: dict[str, dict[str, str]] = {}
        for component, name in places:
            data.setdefault(component, {})[name] = question
        outputs = pipeline.run(data, include_outputs_from=names or None)
        return _of_components(outputs, options.ids)

    return ask


def _text_inputs(pipeline: Any, wanted_input: str) -> list[tuple[str, str]]:
    """(component, input) that take the question: those named, else the mandatory texts."""
    places = []
    for component, sockets in pipeline.inputs().items():
        for name, socket in sockets.items():
            if wanted_input:
                takes_question = wanted_input in (name, f"{component}.{name}")
            else:
                due = socket.get("is_mandatory", True)
                kind = str(socket.get("type", "str"))
                takes_question = (due and kind.endswith("Any")) or (
                    "str" in kind and (due or name in _QUESTIONS)
                )
            if takes_question:
                places.append((component, name))
    return places


def _of_components(outputs: Mapping[str, Any], ids: str) -> SystemReply:
    """The last answer or reply of a pipeline, and the last documents that were found."""
    parts = [output for output in outputs.values() if isinstance(output, Mapping)]

    def last(name: str) -> Any:
        return next((part[name] for part in reversed(parts) if part.get(name)), None)

    documents, answers, replies = last("documents"), last("answers"), last("replies")
    if answers:  # built answers carry the documents they were made from
        own = getattr(answers[0], "documents", None)
        return reply_of((text_of(answers[0]), own or documents or []), ids)
    if replies:
        text = text_of(replies[0])
        return reply_of((text, documents), ids) if documents else SystemReply(text)
    if documents:
        return reply_of(list(documents), ids)
    raise SystemCallError(
        f"the pipeline returned neither answers nor replies nor documents, but "
        f"{show_value(outputs)}",
        hint="end it with an answer builder, a generator or a retriever",
    )


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


def _post(client: httpx2.Client, content: Any, url: str) -> bytes:
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
