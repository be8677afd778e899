"""What systems return, read by one reader: texts, messages, documents, and objects that hold them.

Libraries are recognised by the names of attributes and keys; none of them is imported. Capitals
and underscores in keys do not count.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ...core import Row, SystemCallError
from ...flow import SystemReply

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
_MISSING: Any = object()

HINT = (
    "return a text, (text, passages), or an object of response, retrieved_contexts and "
    "retrieved_context_ids"
)


def reply_of(said: Any, ids: str = "") -> SystemReply:
    """What a system returned, as its answer and passages.

    Read are: a text; a message (``content``); (answer, passages); an object or mapping of
    ``response`` (``answer``, ``result``, ``output``, …), passages (``retrieved_contexts``,
    ``contexts``, ``source_documents``, ``source_nodes``, ``documents``, ``context``, …) and ids
    (``retrieved_context_ids``, …); the reply of a chat server; a list of passages alone, as
    retrievers return. A passage is a text, or an object of a text with an id or metadata. An
    object may say ``abstained``.

    Args:
        said: What came back.
        ids: Metadata field that holds a document's id; empty for the document's own id, where it
            is not one that a library made up, else its ``source``.

    Raises:
        SystemCallError: It is none of these; says what it is.
    """
    found = _reply_in(said, ids)
    return replace(found, abstained=True) if _value(said, "abstained") is True else found


def _reply_in(said: Any, ids: str) -> SystemReply:
    """The answer and the passages, without what is said of abstaining."""
    if isinstance(said, SystemReply):
        return said
    if isinstance(said, Row):
        return _of_row(said)
    if _is_passages(said):
        return _with_passages(None, said, ids)
    if isinstance(said, tuple) and len(said) == 2 and isinstance(said[1], list | tuple):
        return _with_passages(text_of(said[0]), said[1], ids)
    if isinstance(said, Mapping) and isinstance(said.get("choices"), list) and said["choices"]:
        first = said["choices"][0]
        return SystemReply(
            text_of(first.get("message", first) if isinstance(first, Mapping) else 0)
        )
    messages = said.get("messages") if isinstance(said, Mapping) else None
    found = _answer_in(said)
    passages, named = _first(said, _PASSAGES), _first(said, _IDS)
    if found is _MISSING and isinstance(messages, Sequence) and messages:
        found = messages[-1]
    if found is _MISSING:
        text = _plain(said)
        if text is not None:
            return SystemReply(text)
        silent = any(_value(said, name) is None for name in _ANSWERS)
        if _is_passages(passages) and not silent:
            return _with_passages(None, passages, ids)
        raise SystemCallError(f"the system returned {shown(said)}", hint=HINT)
    answer = text_of(found)
    if passages is _MISSING or passages is None:
        given = None if named in _EMPTY else tuple(map(str, named))
        return SystemReply(answer, (), given)
    made = _with_passages(answer, passages, ids)
    if named in _EMPTY:
        return made
    return SystemReply(answer, made.contexts, tuple(map(str, named)))


def text_of(said: Any) -> str:
    """A text, that of a message, or that of the first of several.

    Raises:
        SystemCallError: There is none.
    """
    text = _plain(said)
    if text is not None:
        return text
    if isinstance(said, list | tuple) and said:  # replies, answers
        return text_of(said[0])
    for name in ("response", "data", "output", "message"):
        inner = _value(said, name)
        if inner is not _MISSING and inner is not None:
            return text_of(inner)
    raise SystemCallError(f"the answer is {shown(said)}, not a text", hint=HINT)


def shown(said: Any) -> str:
    """A value as an error names it: its type, and how it begins."""
    try:
        text = repr(said)
    except Exception:
        text = "…"
    kind = type(said).__name__
    return f"{kind}: {text if len(text) <= _SHOWN else text[:_SHOWN] + ' …'}"


def _of_row(said: Row) -> SystemReply:
    if said.response is None:
        raise SystemCallError(
            "the system returned a row without a response", hint="for an empty answer, return ''"
        )
    ids = said.retrieved_context_ids
    told = bool(ids) or said.metadata.get("retrieved") is True
    return SystemReply(said.response, said.retrieved_contexts, ids if told else None)


def _plain(said: Any) -> str | None:
    """A text or that of a message, whose content may be a list of blocks; None where it is none."""
    if isinstance(said, str):
        return said
    for name in ("content", "text"):
        inner = _value(said, name)
        if isinstance(inner, str):
            return inner
        if isinstance(inner, list) and inner and isinstance(inner[0], str | Mapping):
            return "".join(_plain(block) or "" for block in inner)
    return None


def _answer_in(said: Any) -> Any:
    """The answer that an object holds under one of its names.

    Raises:
        SystemCallError: Two names of an answer hold two values.
    """
    held = [(name, value) for name in _ANSWERS if (value := _value(said, name)) not in _EMPTY]
    if len(held) > 1 and isinstance(said, Mapping):
        raise SystemCallError(
            f"the system returned both {held[0][0]!r} and {held[1][0]!r}",
            hint="return one of them, or name its place: answer",
        )
    if held:
        return held[0][1]
    if isinstance(said, Mapping):
        return _first(said, _LATER)
    return _MISSING


def _first(said: Any, names: Sequence[str]) -> Any:
    """The value under the first of these names that is there and not None."""
    found = (_value(said, name) for name in names)
    return next((value for value in found if value is not _MISSING and value is not None), _MISSING)


def _value(said: Any, name: str) -> Any:
    """What an object holds under a name; methods and properties that fail are not there."""
    if isinstance(said, Mapping):
        if name in said:
            return said[name]
        plain = name.replace("_", "")
        return next(
            (v for k, v in said.items() if re.sub(r"\W|_", "", str(k)).lower() == plain), _MISSING
        )
    if isinstance(said, str | bytes | int | float | list | tuple) or said is None:
        return _MISSING
    try:
        value = getattr(said, name)
    except Exception:
        return _MISSING
    return _MISSING if callable(value) and not isinstance(value, str) else value


class _Nothing:
    """What counts as no value at all: absent or None, compared by identity."""

    def __contains__(self, value: object) -> bool:
        return value is None or value is _MISSING


_EMPTY = _Nothing()


def _is_passages(said: Any) -> bool:
    """True for a list of passages alone, as retrievers return them."""
    if not isinstance(said, list | tuple):
        return False
    return all(isinstance(one, str) or _passage_text(one) is not None for one in said) and not (
        isinstance(said, tuple) and len(said) == 2 and isinstance(said[1], list | tuple)
    )


def _with_passages(answer: str | None, passages: Any, ids: str) -> SystemReply:
    """An answer with its passages; a text alone, as chains put passages together, is one."""
    if isinstance(passages, str):
        return SystemReply(answer, (passages,) if passages.strip() else (), None)
    if isinstance(passages, Mapping):
        passages = list(passages.values())
    if not isinstance(passages, Sequence):
        raise SystemCallError(f"the passages are {shown(passages)}, not a list", hint=HINT)
    texts, names = [], []
    for passage in passages:
        text = _passage_text(passage)
        if text is None:
            raise SystemCallError(f"a passage is {shown(passage)}, without a text", hint=HINT)
        texts.append(text)
        names.append(_passage_id(passage, ids))
    whole = all(name is not None for name in names)  # with holes it would be another ranking
    return SystemReply(answer, tuple(texts), tuple(map(str, names)) if whole else None)


def _inner(passage: Any) -> Any:
    """The document in a (document, score) pair or in a scored node."""
    if isinstance(passage, tuple) and passage:
        return passage[0]
    node = _value(passage, "node")
    return passage if node in _EMPTY else node


def _passage_text(passage: Any) -> str | None:
    if isinstance(passage, str):
        return passage
    inner = _inner(passage)
    for name in _TEXTS:
        text = _value(inner, name)
        if isinstance(text, str):
            return text
    get = getattr(inner, "get_content", None)
    if callable(get):
        text = get()
        return text if isinstance(text, str) else None
    return inner if isinstance(inner, str) and inner is not passage else None


def _passage_id(passage: Any, ids: str) -> Any:
    inner = _inner(passage)
    about = _first(inner, ("metadata", "meta"))
    about = about if isinstance(about, Mapping) else {}
    if ids:
        found = about.get(ids)
        return _value(inner, ids) if found is None and _value(inner, ids) not in _EMPTY else found
    own = list(_candidates(inner, _OWN_IDS))
    kept = [name for name in own if not _MADE_UP.match(str(name))]
    return next(
        iter([*kept, *_candidates(about, _PLACES), *_candidates(inner, _PLACES), *own]), None
    )


def _candidates(held: Any, names: Sequence[str]) -> Iterator[Any]:
    for name in names:
        value = _value(held, name)
        if isinstance(value, str | int) and not isinstance(value, bool) and value != "":
            yield value
