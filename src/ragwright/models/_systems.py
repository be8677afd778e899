"""Systems under test by name: described by an address or a file, opened once."""

from __future__ import annotations

import importlib.util
import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ..core import (
    ConfigError,
    PluginError,
    SystemCallError,
    build_options,
    canonical_json,
    list_changed_options,
    load_object,
    read_yaml,
)
from ..flow import Message, SystemReply
from ._names import PROVIDERS
from ._system_replies import (
    Caller,
    SystemOptions,
    endpoint,
    openai_messages,
    reply_of,
    show_value,
    text_of,
)

_FILES = (".yaml", ".yml")


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
    if Path(address).suffix.lower() in _FILES:
        placed = read_yaml(Path(address))
        options = build_options(SystemOptions, placed.value, placed, ())
        if not options.title or not (options.call or options.url or options.model):
            raise ConfigError(
                "the file names no system", where=address, hint="give it call, url or model"
            )
    elif address.startswith(("http://", "https://")):
        named = "#" in address
        options = SystemOptions(model=address if named else "", url="" if named else address)
    elif address.partition(":")[0] in PROVIDERS:
        options = SystemOptions(model=address)
    elif ":" in address:
        options = SystemOptions(call=address)
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
        system: What :func:`read_system` takes, options, or a function, pipeline or engine.
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
        return UnderTest(system, *endpoint(system))
    else:
        options, target = system, _load_system(system.call)
    return UnderTest(options, *caller_of(target, options))


def _load_system(address: str) -> Any:
    """The object at ``module:object`` or ``file.py:object``.

    Raises:
        PluginError: There is no such file, module or object, or it fails on import.
    """
    file, _, path = address.rpartition(":")
    if not file.endswith(".py"):
        return load_object(address, where="--system")
    source = Path(file)
    if not source.is_file():
        raise PluginError(f"file not found: {file!r}", where="--system")
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
