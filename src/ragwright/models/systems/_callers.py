"""How a system is asked: functions, and objects of other libraries by their methods."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from ...core import ConfigError, SystemCallError
from ...flow import SystemReply
from ._options import SystemOptions
from ._replies import reply_of, shown, text_of

Caller = Callable[[str], Any]
"""Takes a question; may block, raise, or return an awaitable or a generator of pieces."""

_HISTORIES = frozenset({"chat_history", "history"})
"""Inputs of earlier turns: a question of a test set has none."""

_QUESTIONS = ("input", "question", "query", "user_input", "text", "prompt")


def caller_of(found: Any, how: SystemOptions) -> Caller:
    """How an object is asked.

    A class is made, and a function without parameters called, for the object that they give.
    Then: ``invoke`` (LangChain, LangGraph), ``query``, ``chat`` or ``retrieve`` (LlamaIndex),
    ``run`` with ``inputs`` (Haystack); else it is called with the question.

    Raises:
        ConfigError: It cannot be called with a question, or making it fails.
    """
    if isinstance(found, type) or (inspect.isfunction(found) and not _parameters(found)):
        try:
            found = found()
        except (Exception, SystemExit) as error:
            raise ConfigError(
                f"the system cannot be made: {type(error).__name__}: {error}", where=how.title
            ) from error
    if callable(getattr(found, "invoke", None)):
        return _invoked(found, how)
    for method in ("query", "chat", "retrieve"):
        ask = getattr(found, method, None)
        if callable(ask):
            return _whole_response(ask)
    if callable(getattr(found, "run", None)) and callable(getattr(found, "inputs", None)):
        return _haystack(found, how)
    if callable(found):
        return _function(found, how)
    raise ConfigError(
        f"{shown(found)} cannot be asked a question",
        where=how.title,
        hint="name a function of the question, or an object with invoke, query, retrieve or run",
    )


def _parameters(function: Callable[..., Any]) -> list[inspect.Parameter]:
    """Parameters that a question could go to; none where it takes none."""
    try:
        given = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return [inspect.Parameter("question", inspect.Parameter.POSITIONAL_ONLY)]
    return [p for p in given if p.kind is not inspect.Parameter.VAR_KEYWORD]


def _function(function: Callable[..., Any], how: SystemOptions) -> Caller:
    """A function of the question; one of a mapping (``inputs``) gets ``{"question": …}``."""
    parameters = _parameters(function)
    needed = [p for p in parameters if p.default is p.empty and p.kind is not p.VAR_POSITIONAL]
    named = {p.name: p for p in needed}
    if len(needed) > 1 and how.question not in named:
        raise ConfigError(
            f"the system needs {len(needed)} arguments: {', '.join(named)}",
            where=how.title,
            hint="name a function of the question alone; lambda or functools.partial bind the rest",
        )
    first = parameters[0] if parameters else None
    if first is not None and first.kind is first.KEYWORD_ONLY:
        return lambda question: function(**{first.name: question})
    if first is not None and (first.name == "inputs" or "dict" in str(first.annotation).lower()):
        return lambda question: function({how.question or "question": question})
    return function


def _invoked(runnable: Any, how: SystemOptions) -> Caller:
    """A LangChain Runnable or a LangGraph graph.

    Its input schema says what it takes; where it does not, the first question is tried as a text,
    then as ``{"question": …}``, then under the key that was missing, and what works is kept.
    """
    forms = _Forms(runnable, how)

    def ask(question: str) -> Any:
        return forms.asked(question, lambda given: _invoke(runnable, given, how))

    return ask


def _invoke(runnable: Any, given: Any, how: SystemOptions) -> Any:
    """One call, with the passages that the retrievers within found where it returns none."""
    seen = _retrievals(runnable)
    if seen is None:
        return runnable.invoke(given)
    made = reply_of(runnable.invoke(given, config={"callbacks": [seen]}), how.ids)
    if made.contexts or made.context_ids is not None or not seen.searches:
        return made
    found = reply_of(list(seen.documents), how.ids)
    return replace(made, contexts=found.contexts, context_ids=found.context_ids)


class _Forms:
    """The form in which a Runnable takes the question.

    Args:
        runnable: What is asked.
        how: ``question`` names its key.

    Raises:
        ConfigError: It takes several inputs, and none of them is known to be the question.
    """

    def __init__(self, runnable: Any, how: SystemOptions) -> None:
        self._name = how.title
        keys = _input_keys(runnable)
        self._history: dict[str, Any] = {key: [] for key in keys or () if key in _HISTORIES}
        own = [key for key in keys or () if key not in _HISTORIES]
        known = next((name for name in (*_QUESTIONS, "messages") if name in own), "")
        self._key = how.question or known or (own[0] if len(own) == 1 else "")
        if len(own) > 1 and not self._key:
            raise ConfigError(
                f"the chain takes {len(own)} inputs: {', '.join(own)}",
                where=how.title,
                hint=f"name that of the question: `question: {own[0]}` in the system's file, or "
                "SystemOptions(question=…) in Python",
            )
        self._known = bool(self._key) or keys == ()

    def asked(self, question: str, invoke: Callable[[Any], Any]) -> Any:
        """The reply to a question in the form that is known, or that is found by it."""
        if self._known:
            return invoke(self._of(self._key, question))
        first: Exception | None = None
        for _ in range(3):
            try:
                found = invoke(self._of(self._key, question))
            except (AttributeError, KeyError, TypeError, ValueError) as error:
                first = first or error
                missing = error.args[0] if isinstance(error, KeyError) and error.args else ""
                following = missing if str(missing).isidentifier() else "question"
                if following == self._key:
                    break
                self._key = following
            else:
                self._known = True
                return found
        self._key = ""
        raise SystemCallError(
            f"the chain took the question neither as a text nor as a key: {type(first).__name__}: "
            f"{first}",
            where=self._name,
            hint="name its input: `question: NAME` in the system's file, or "
            "SystemOptions(question=NAME) in Python",
        ) from first

    def _of(self, key: str, question: str) -> Any:
        if not key:
            return question
        if key == "messages":
            return {"messages": [{"role": "user", "content": question}]}
        return {**self._history, key: question}


def _retrievals(runnable: Any) -> Any:
    """A callback that sees what the retrievers within a chain find; None outside of LangChain.

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
    # Parts without types, such as lambdas, leave nothing, or a `root` that is no key.
    return () if schema.get("type") == "string" or "anyOf" in schema else None


def _whole_response(ask: Caller) -> Caller:
    """A LlamaIndex engine; a reply that is streamed is read to its end."""

    def whole(question: str) -> Any:
        said = ask(question)
        read = getattr(said, "get_response", None)
        return read() if callable(read) else said

    return whole


def _haystack(pipeline: Any, how: SystemOptions) -> Caller:
    """A Haystack pipeline: the question goes to every text input that must be given."""
    places = _text_inputs(pipeline, how.question)
    if not places:
        raise ConfigError(
            "the pipeline has no open input for a question",
            where=how.title,
            hint="name it: `question: COMPONENT.INPUT` in the system's file",
        )
    names = {name for name, _ in getattr(getattr(pipeline, "graph", None), "nodes", {}).items()}

    def ask(question: str) -> SystemReply:
        data: dict[str, dict[str, str]] = {}
        for component, name in places:
            data.setdefault(component, {})[name] = question
        outputs = pipeline.run(data, include_outputs_from=names or None)
        return _of_components(outputs, how.ids)

    return ask


def _text_inputs(pipeline: Any, named: str) -> list[tuple[str, str]]:
    """(component, input) that take the question: those named, else the mandatory texts."""
    found = []
    for component, sockets in pipeline.inputs().items():
        for name, socket in sockets.items():
            if named:
                wanted = named in (name, f"{component}.{name}")
            else:
                due = socket.get("is_mandatory", True)
                kind = str(socket.get("type", "str"))
                wanted = (due and kind.endswith("Any")) or (
                    "str" in kind and (due or name in _QUESTIONS)
                )
            if wanted:
                found.append((component, name))
    return found


def _of_components(outputs: Mapping[str, Any], ids: str) -> SystemReply:
    """The last answer or reply of a pipeline, and the last documents that were found."""
    documents = answer = None
    for output in outputs.values():
        if not isinstance(output, Mapping):
            continue
        if output.get("documents"):
            documents = output["documents"]
    for output in outputs.values():
        held = output.get("answers") if isinstance(output, Mapping) else None
        if held:  # built answers carry the documents they were made from
            return reply_of(
                (text_of(held[0]), getattr(held[0], "documents", None) or documents or []), ids
            )
    for output in outputs.values():
        if isinstance(output, Mapping) and output.get("replies"):
            answer = output["replies"][0]
    if answer is not None:
        return (
            reply_of((text_of(answer), documents), ids) if documents else reply_of(text_of(answer))
        )
    if documents is not None:
        return reply_of(list(documents), ids)
    raise SystemCallError(
        f"the pipeline returned neither answers nor replies nor documents, but {shown(outputs)}",
        hint="end it with an answer builder, a generator or a retriever",
    )
