"""Any system under test: a question in, an answer and its passages out.

A :data:`System` is a plain blocking function. Systems of other libraries are wrapped by the
names of their methods; none of those libraries is imported. They are asked from a pool of
threads, ahead of the flows that score what they said, so that nothing of theirs ever runs on
the runner's loop; their calls are theirs to pay for and are not kept in the reply store. An
OpenAI-compatible endpoint that only needs the question is better asked through
:func:`chat_row`: then replies are kept, counted and limited as all others.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from ...core import Row, Score, TestsetError
from ...flow import Flow, Message, chat
from ...measure import Measure, MeasureSetup
from ._asked import unanswered
from ._evaluate import answer_row
from ._results import RowResult


@dataclass(frozen=True, slots=True)
class SystemReply:
    """What a system says to a question.

    Attributes:
        response: The answer.
        contexts: Passages it was written from, best first.
        context_ids: Ids of their documents in the same order, for retrieval measures; empty
            where nothing was found, which scores 0, None where the system does not tell.
    """

    response: str
    contexts: tuple[str, ...] = ()
    context_ids: tuple[str, ...] | None = None


System: TypeAlias = Callable[[str], Any]
"""A system under test: returns what :func:`reply_of` reads; it may block and may raise."""


@dataclass(frozen=True, slots=True)
class Answered:
    """A row with what the system said, or why it said nothing; without an earlier answer."""

    row: Row
    error: str = ""


def answered(rows: Iterable[Row], system: System, *, workers: int = 8) -> Iterator[Answered]:
    """Ask a system every row's question, in input order, at most ``workers`` at once.

    Rows are read only as far ahead as they are asked; a row whose system raises keeps the
    reason and stops no other.

    Raises:
        TestsetError: ``workers`` is below 1.
    """
    if workers < 1:
        raise TestsetError(f"{workers} workers", hint="ask for one or more")
    return _answered(iter(rows), system, workers)


def _answered(rows: Iterator[Row], system: System, workers: int) -> Iterator[Answered]:
    pool = ThreadPoolExecutor(workers, thread_name_prefix="system")
    waiting: deque[Future[Answered]] = deque()
    try:
        for row in itertools.islice(rows, workers):
            waiting.append(pool.submit(_ask, row, system))
        while waiting:
            yield waiting.popleft().result()
            for row in itertools.islice(rows, 1):
                waiting.append(pool.submit(_ask, row, system))
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def _ask(row: Row, system: System) -> Answered:
    bare = unanswered(row)
    try:
        said = reply_of(system(row.user_input))
    except Exception as error:
        return Answered(bare, f"{type(error).__name__}: {error}")
    told = said.context_ids is not None
    return Answered(
        replace(
            bare,
            response=said.response,
            retrieved_contexts=said.contexts,
            retrieved_context_ids=said.context_ids or (),
            metadata={**bare.metadata, **({"retrieved": True} if told else {})},
        )
    )


def answered_flows(
    rows: Iterable[Answered], measures: Sequence[Measure], setup: MeasureSetup | None = None
) -> Iterator[Flow[RowResult]]:
    """One flow per answered row that scores it; a row without an answer is ``errored``."""
    return (answered_row(row, measures, setup) for row in rows)


def answered_row(
    found: Answered, measures: Sequence[Measure], setup: MeasureSetup | None = None
) -> Flow[RowResult]:
    """Score what a system said; where it failed, every measure is ``errored`` with the reason."""
    if found.error:
        scores = tuple(Score(str(m), "errored", reason=found.error) for m in measures)
        return RowResult(found.row.id, (), scores)
    return (yield from answer_row(found.row, measures, setup))


def chat_row(row: Row, model: str, instructions: str = "") -> Flow[Row]:
    """Ask a chat model the row's question as it stands, and put the reply into the row.

    Passages and states of an earlier answer are taken out: the model saw none of them.
    For an OpenAI-compatible endpoint that is itself the system under test, and for the
    closed-book control.
    """
    turns = [Message("system", instructions)] if instructions else []
    reply = yield from chat(model, [*turns, Message("user", row.user_input)])
    return replace(unanswered(row), response=reply.text)


def reply_of(said: Any) -> SystemReply:
    """What an own function returned: a text, a reply, or an object of ``response`` and more.

    Names as in rows: ``response`` (or ``answer``), ``retrieved_contexts`` (or ``contexts``),
    ``retrieved_context_ids``.

    Raises:
        TestsetError: It is none of these.
    """
    if isinstance(said, SystemReply):
        return said
    if isinstance(said, str):
        return SystemReply(said)
    if isinstance(said, Row):
        if said.response is None:
            raise TestsetError(
                "the system returned a row without a response",
                hint="an answer of nothing is an empty text",
            )
        ids = said.retrieved_context_ids
        told = bool(ids) or said.metadata.get("retrieved") is True
        return SystemReply(said.response, said.retrieved_contexts, ids if told else None)
    if isinstance(said, Mapping):
        contexts = one_of(said, ("retrieved_contexts", "contexts"), required=False) or ()
        ids = one_of(said, ("retrieved_context_ids", "context_ids"), required=False)
        return SystemReply(
            text_of(one_of(said, ("response", "answer"))),
            tuple(contexts),
            None if ids is None else tuple(map(str, ids)),
        )
    raise TestsetError(
        f"the system returned {type(said).__name__}",
        hint="return a text, or an object of response, retrieved_contexts, retrieved_context_ids",
    )


def langchain_system(chain: Any, *, key: str = "input", ids: str = "") -> System:
    """A LangChain Runnable: ``chain.invoke({key: question})``.

    Reads ``answer`` (or ``result``, ``output``) and the documents under ``context`` (or
    ``source_documents``), as retrieval chains return them; a text or a message alone has no
    passages.

    Args:
        chain: Anything with ``invoke``.
        key: Name of the question in the input; empty passes the question itself.
        ids: Metadata field that holds the document's id; empty for the document's own ``id``,
            else its ``source``.
    """

    def ask(question: str) -> SystemReply:
        said = chain.invoke({key: question} if key else question)
        if not isinstance(said, Mapping):
            return SystemReply(text_of(said))
        answer = one_of(said, ("answer", "result", "output", "response"))
        found = one_of(said, ("context", "source_documents", "documents"), required=False)
        # A chain may hand its passages on as one text, already put together.
        documents = found if isinstance(found, list | tuple) else [found] if found else None
        return _with_documents(answer, documents, ("page_content",), "metadata", ids)

    return ask


def llamaindex_system(engine: Any, *, ids: str = "") -> System:
    """A LlamaIndex query engine: ``engine.query(question)``, its ``source_nodes`` as passages.

    A node's document is its ``ref_doc_id``, else its ``node_id``; ``ids`` names a metadata field
    instead.
    """

    def ask(question: str) -> SystemReply:
        said = engine.query(question)
        nodes = [getattr(scored, "node", scored) for scored in said.source_nodes]
        names = [
            getattr(node, "metadata", {}).get(ids)
            if ids
            else getattr(node, "ref_doc_id", None) or getattr(node, "node_id", None)
            for node in nodes
        ]
        texts = tuple(str(node.get_content()) for node in nodes)
        return SystemReply(text_of(said.response), texts, _all_ids(names))

    return ask


def haystack_system(
    pipeline: Any, inputs: Mapping[str, str], *, retriever: str = "retriever", ids: str = ""
) -> System:
    """A Haystack pipeline: the question goes to every input named, the first answer comes back.

    Args:
        pipeline: Anything with ``run(data, include_outputs_from=…)``.
        inputs: Component -> name of its input that takes the question.
        retriever: Component whose ``documents`` are the passages, where no answer carries its
            own; empty for none.
        ids: Field of a document's ``meta`` that holds its id; empty for the document's ``id``.
    """

    def ask(question: str) -> SystemReply:
        data = {component: {name: question} for component, name in inputs.items()}
        outputs = pipeline.run(data, include_outputs_from={retriever} if retriever else None)
        found = outputs.get(retriever, {}).get("documents")
        for output in outputs.values():
            if output.get("answers"):  # built answers carry the documents they were made from
                first = output["answers"][0]
                documents = getattr(first, "documents", None) or found
                return _with_documents(first.data, documents, ("content",), "meta", ids)
        for output in outputs.values():
            if output.get("replies"):
                return _with_documents(output["replies"][0], found, ("content",), "meta", ids)
        raise TestsetError(
            "the pipeline returned neither answers nor replies",
            where=", ".join(outputs),
            hint="end it with an answer builder or a generator",
        )

    return ask


def one_of(said: Mapping[str, Any], names: Sequence[str], *, required: bool = True) -> Any:
    """The value under the one of these names that is there.

    Raises:
        TestsetError: Two are there, or none though one is required.
    """
    held = [name for name in names if said.get(name) is not None]
    if len(held) > 1:
        raise TestsetError(
            f"the system returned both {held[0]!r} and {held[1]!r}", hint="return one of them"
        )
    if not held and required:
        raise TestsetError(
            f"the system returned no {names[0]!r}, only {', '.join(map(str, said)) or 'nothing'}",
            hint=f"known names: {', '.join(names)}",
        )
    return said[held[0]] if held else None


def text_of(said: Any) -> str:
    """A text, or that of a message object (``content`` or ``text``).

    Raises:
        TestsetError: There is none.
    """
    for value in (said, getattr(said, "content", None), getattr(said, "text", None)):
        if isinstance(value, str):
            return value
    raise TestsetError(f"the answer is {type(said).__name__}, not a text")


def _with_documents(
    answer: Any, documents: Sequence[Any] | None, texts: Sequence[str], metadata: str, ids: str
) -> SystemReply:
    passages, names = [], []
    for document in documents or ():
        held = document if isinstance(document, str) else None
        found = next((getattr(document, t) for t in texts if hasattr(document, t)), held)
        if not isinstance(found, str):
            raise TestsetError(f"a passage is {type(document).__name__}, without a text")
        about = getattr(document, metadata, None) or {}
        own = getattr(document, "id", None) or about.get("source")
        passages.append(found)
        names.append(about.get(ids) if ids else own)
    told = None if documents is None else _all_ids(names)
    return SystemReply(text_of(answer), tuple(passages), told)


def _all_ids(names: Sequence[Any]) -> tuple[str, ...] | None:
    """The ids where every passage has one: a ranking with holes would be another ranking."""
    if any(name is None for name in names):
        return None
    return tuple(str(name) for name in names)
