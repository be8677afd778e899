"""Word a query differently: by a chat model, or by the meanings of the codes in it.

The methods, in the order in which they are always applied:

``rewrite``     a standalone search query in place of the question.
``subqueries``  the searches that the question needs, each a separate wording.
``hyde``        a passage that might answer it, embedded as a passage for the dense channel; the
                keyword channel keeps the question (Gao, Ma, Lin and Callan, 2022: there one
                vector, the mean of passages and question; here rankings, fused).
``query2doc``   a passage, appended: the keyword channel gets the question five times and the
                passage, the dense channel question, separator, passage (Wang, Yang and Wei, 2023).
``glossary``    the meaning of each code in the question, for the dense channel; the keyword
                channel keeps the question, since the code itself is the best evidence. Both are
                one wording for each meaning. No model.

A rewrite, and subqueries together, must contain every code of the question, or they are refused.
The question as asked is always searched too, with its own weight. A reply of a model must have a
form: it is checked and requested once more. If the model fails (a malformed, empty or cut reply, a
timeout, a server error), the question is used as asked, with a note; errors of the user (no key, an
unknown model) are raised.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, TypeAlias, TypeVar

from ..core import (
    Filter,
    FilterError,
    MissingKeyError,
    ModelError,
    ModelRefusedError,
    canonical_json,
    load_shipped_mapping,
    render,
)
from ..flow import (
    INCOMPLETE,
    ChatReply,
    Flow,
    Message,
    Search,
    SearchReply,
    branch,
    chat,
    gather,
    send,
)
from ..models import is_code, words
from ._glossary import Glossary, Meaning
from ._options import QueryOptions
from ._target import Target, Variant

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class StructuredQuestion(Generic[T]):
    """The prompt, and the form of its reply.

    Attributes:
        model: Chat model.
        prompt: Name of the prompt file, without its suffix.
        values: Values for the prompt's templates.
        parse: Returns the value of a reply's text; raises ValueError with the fault.
        stand_in: Value in a dry run.
        max_tokens: Longest reply.
        schema: JSON schema of the reply, empty for free text.
        sample: Number of an independent sample; from 1 on the temperature is 0.7.
        sources: Documents whose text is in the prompt.
        whole: Refuse a reply that the token limit cut.
    """

    model: str
    prompt: str
    values: Mapping[str, Any]
    parse: Callable[[str], T]
    stand_in: T
    max_tokens: int = 300
    schema: str = ""
    sample: int = 0
    sources: tuple[str, ...] = ()
    whole: bool = True


@dataclass(frozen=True, slots=True)
class StructuredReply(Generic[T]):
    """The result: a value, or None with the reason."""

    value: T | None
    why: str = ""


def ask_structured(asking: StructuredQuestion[T]) -> Flow[StructuredReply[T]]:
    """The value of a model's reply; one retry shows the model its own reply and the fault.

    Raises:
        MissingKeyError: The environment holds no key for the model.
        ModelRefusedError: The server refuses the request itself.
    """
    data = load_shipped_mapping("retrieve", f"prompts/{asking.prompt}.yaml")
    turns = [Message(role, render(data.text(role), asking.values)) for role in ("system", "user")]
    params = {"temperature": 0.7 if asking.sample else 0.0, "max_tokens": asking.max_tokens}

    def send() -> Flow[ChatReply]:
        return (
            yield from chat(
                asking.model,
                turns,
                params,
                schema=asking.schema,
                sample=asking.sample,
                sources=asking.sources,
            )
        )

    try:
        reply = yield from send()
        # Declared before the reply is read: a dry run counts at most one retry.
        planned = yield from branch(0, 0, 1)
        fault = _reply_fault(asking, reply)
        if planned or (fault and planned is None):
            again = render(data.text("again"), {**asking.values, "fault": fault})
            turns += [Message("assistant", reply.text), Message("user", again)]
            reply = yield from send()
            fault = _reply_fault(asking, reply)
    except (MissingKeyError, ModelRefusedError):
        raise
    except ModelError as error:
        return StructuredReply(None, f"{type(error).__name__}: {error.what}")
    if reply.finish == "forecast":
        return StructuredReply(asking.stand_in)
    return StructuredReply(None, fault) if fault else StructuredReply(asking.parse(reply.text))


_FENCE = re.compile(r"```(?P<kind>\w*)[ \t]*\n(?P<inner>.*?)\n?[ \t]*```", re.DOTALL)
_FENCE_LINE = re.compile(r"^[ \t]*```", re.MULTILINE)


def unwrap_fence(text: str) -> tuple[str, str]:
    """The language of the code fence around a reply, and its content.

    The language is in lower case; it is empty without a language or a fence, or with several
    fences.
    """
    bare = text.strip()
    fence = _FENCE.fullmatch(bare)
    if fence is None or _FENCE_LINE.search(fence["inner"]):
        return "", bare
    return fence["kind"].lower(), fence["inner"].strip()


def json_object(text: str, keys: Mapping[str, type]) -> dict[str, Any]:
    """The JSON object of a reply, with exactly these keys and kinds of value.

    A code fence around it is allowed.

    Raises:
        ValueError: It is not such an object; the message says why.
    """
    language, inner = unwrap_fence(text)
    if language not in {"", "json"}:
        raise ValueError(f"the reply is a block of {language}, not JSON")
    try:
        value = json.loads(inner)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"the reply is not JSON ({error})") from error
    if not isinstance(value, dict):
        raise ValueError("the reply is not a JSON object")
    if set(value) != set(keys):
        raise ValueError(f"the object must have the keys {', '.join(keys)} and no others")
    for key, kind in keys.items():
        if not isinstance(value[key], kind):
            raise ValueError(f"{key!r} must be of type {_JSON_NAMES[kind]}")
    return value


def object_schema(properties: Mapping[str, Mapping[str, Any]], title: str = "reply") -> str:
    """JSON schema text of an object with exactly these properties."""
    return canonical_json(
        {
            "title": title,
            "type": "object",
            "properties": dict(properties),
            "required": list(properties),
            "additionalProperties": False,
        }
    )


def one_line(text: str, most: int) -> str:
    """A text on one line.

    Raises:
        ValueError: It is empty, or longer than ``most`` characters.
    """
    line = " ".join(text.split())
    if not line:
        raise ValueError("the text is empty")
    if len(line) > most:
        raise ValueError(f"the text has {len(line)} characters, more than {most}")
    return line


_JSON_NAMES = {str: "string", bool: "boolean", list: "array"}


def _reply_fault(asking: StructuredQuestion[T], reply: ChatReply) -> str:
    """The fault of a reply, empty if there is none."""
    if reply.finish == "forecast":
        return ""
    if asking.whole and reply.finish == "length":
        return f"the reply was cut at {asking.max_tokens} tokens"
    if reply.finish in INCOMPLETE and reply.finish != "length":
        return INCOMPLETE[reply.finish]
    try:
        asking.parse(reply.text)
    except ValueError as error:
        return str(error)
    return ""


Variants: TypeAlias = tuple[tuple[Variant, ...], tuple[str, ...]]
"""The wordings of a query, and notes on them."""

_LONGEST_QUERY = 300
"""Characters of a rewritten query or subquery."""

_SUBQUERIES = 4
"""Most subqueries."""

_MEANINGS = 3
"""Most meanings of a code that are searched."""

_PASSAGE_WORDS = 100
"""Words of a written passage."""

_REPEATS = 5
"""Copies of the question that query2doc puts into the keyword query (section 3 of the paper)."""


def query_variants(
    query: str,
    target: Target,
    options: QueryOptions,
    glossary: Glossary | None = None,
    limit: int = 10_000,
) -> Flow[Variants]:
    """The wordings of a query for the search, and notes that list them.

    Without methods, or if every method fails, this is the query with weight 1. Each
    method counts as much as the question: n meanings of a code have a weight of 1/n each; every
    subquery has 1, since each asks for something different. With meanings the keyword channel
    searches the question as it is and the dense channel with meanings, as one wording. If a wording
    would exceed ``limit`` characters, the end of the question is cut, not the addition.

    Raises:
        MissingKeyError: The environment holds no key for the model.
        ModelRefusedError: The server refuses the request itself.
    """
    dense, chosen = bool(target.model), set(options.methods)
    notes: list[str] = []
    main = query
    if "rewrite" in chosen:
        main = yield from _rewritten_query(query, options, notes)
    variants: list[Variant] = [] if main == query else [Variant(main, main)]
    if "subqueries" in chosen:
        parts = yield from _subqueries(main, options, notes)
        variants += [Variant(part, part) for part in parts if part not in {query, main}]
    if "hyde" in chosen:
        if dense:
            variants += yield from _hyde_variants(main, options, notes, limit)
        else:
            notes.append("hyde left out: this index has no vectors")
    if "query2doc" in chosen:
        variants += yield from _query2doc_variants(main, options, notes, limit)
    with_meanings: list[str] = []
    if "glossary" in chosen and not dense:
        notes.append("glossary left out: this index has no vectors")
    elif "glossary" in chosen:
        with_meanings = _glossary_texts(query, glossary, notes, limit)
    return tuple(_with_original(query, main, variants, with_meanings, options)), tuple(notes)


def _with_original(
    query: str, main: str, variants: list[Variant], with_meanings: list[str], options: QueryOptions
) -> list[Variant]:
    """All wordings, the question as asked first; alone it has weight 1."""
    weight = options.original if variants else 1.0
    first: list[Variant] = []
    if weight > 0 and with_meanings:
        # One wording per meaning, so that its two channels are weighted against each other: with
        # ranks alone a meaning could beat the code that a chunk holds.
        first = [Variant(query, text, weight / len(with_meanings)) for text in with_meanings]
    elif weight > 0:
        first = [Variant(query, query, weight)]
    else:
        if not any(variant.keyword for variant in variants):
            first.append(Variant(main, ""))
        first += [Variant("", text, 1 / len(with_meanings)) for text in with_meanings]
    return [*first, *variants]


def _rewritten_query(query: str, options: QueryOptions, notes: list[str]) -> Flow[str]:
    reply = yield from ask_structured(
        StructuredQuestion(
            options.model,
            "rewrite",
            {"question": query, "most": _LONGEST_QUERY},
            partial(_one_query, asked_for=query, most=_LONGEST_QUERY),
            f"{query} (rewritten)",
            schema=_ONE,
        )
    )
    if reply.value is None:
        notes.append(f"searched as asked, no usable rewrite: {reply.why}")
        return query
    if reply.value != query:
        notes.append(f"rewritten as: {reply.value}")
    return reply.value


def _subqueries(query: str, options: QueryOptions, notes: list[str]) -> Flow[tuple[str, ...]]:
    reply = yield from ask_structured(
        StructuredQuestion(
            options.model,
            "subqueries",
            {"question": query, "most": _SUBQUERIES, "length": _LONGEST_QUERY},
            partial(_several_queries, asked_for=query),
            tuple(f"{query} (part {n})" for n in (1, 2)),
            schema=_SEVERAL,
        )
    )
    if reply.value is None:
        notes.append(f"not split, no usable subqueries: {reply.why}")
        return ()
    notes.append("subqueries: " + " | ".join(reply.value))
    return reply.value


def _passage_reply(query: str, options: QueryOptions) -> Flow[StructuredReply[str]]:
    return (
        yield from ask_structured(
            StructuredQuestion(
                options.model,
                "passage",
                {"question": query, "words": _PASSAGE_WORDS},
                partial(_bounded_passage, most=_PASSAGE_WORDS * 12),
                f"{query} (passage 0)",
                max_tokens=_PASSAGE_WORDS * 3,
                whole=False,
            )
        )
    )


def _hyde_variants(
    query: str, options: QueryOptions, notes: list[str], limit: int
) -> Flow[list[Variant]]:
    """A passage that might answer the query, for the dense channel."""
    reply = yield from _passage_reply(query, options)
    if reply.value is None:
        notes.append(f"no hyde passage: {reply.why}")
        return []
    text = reply.value[:limit]
    notes.append(f"hyde passage: {text}")
    return [Variant("", text, passage=True)]


def _query2doc_variants(
    query: str, options: QueryOptions, notes: list[str], limit: int
) -> Flow[list[Variant]]:
    """The query and a passage in one text."""
    reply = yield from _passage_reply(query, options)
    if reply.value is None:
        notes.append(f"no query2doc passage: {reply.why}")
        return []
    passage = reply.value[: limit // 2]
    notes.append(f"query2doc passage: {passage}")
    short = _cut_at_word(query, (limit - len(passage)) // _REPEATS - 1)
    if short != query:
        notes.append(
            f"query2doc: the first {len(short)} of {len(query)} characters of the question are "
            f"put {_REPEATS} times before the passage"
        )
    keyword = " ".join([short] * _REPEATS + [passage])
    added = f" [SEP] {passage}"
    return [Variant(keyword, _cut_at_word(query, limit - len(added)) + added)]


def _cut_at_word(text: str, most: int) -> str:
    """The beginning of a text, at most so many characters; words are not cut."""
    if len(text) <= most:
        return text
    short = text[: max(0, most)]
    return short[: short.rfind(" ")] if " " in short and not text[most].isspace() else short


def _glossary_texts(
    query: str, glossary: Glossary | None, notes: list[str], limit: int
) -> list[str]:
    """The query with the meanings of its codes, for the dense channel."""
    if glossary is None or not glossary.entries:
        notes.append("glossary left out: it has no term of this question")
        return []
    expansion = glossary.expand(query, _MEANINGS)
    notes += [f"glossary: {term} = {meaning.text}" for term, meaning in expansion.used]
    notes += expansion.notes
    added = [text.removeprefix(query) for text in expansion.texts]
    return [f"{_cut_at_word(query, limit - len(more))}{more}"[:limit] for more in added]


_ONE = object_schema({"query": {"type": "string"}})
_SEVERAL = object_schema({"queries": {"type": "array", "items": {"type": "string"}}})


def _check_codes(question: str, text: str) -> None:
    """Refuse a rewording that lacks a code or identifier of the question."""
    for word in words(question):
        if is_code(word, written=True) and word.casefold() not in text.casefold():
            raise ValueError(f"{word!r} of the question is missing")


def _one_query(text: str, asked_for: str, most: int) -> str:
    query = one_line(json_object(text, {"query": str})["query"], most)
    _check_codes(asked_for, query)
    return query


def _several_queries(text: str, asked_for: str) -> tuple[str, ...]:
    listed_queries = json_object(text, {"queries": list})["queries"]
    if not 0 < len(listed_queries) <= _SUBQUERIES:
        number = len(listed_queries)
        raise ValueError(
            f"'queries' holds {number}, more than {_SUBQUERIES}" if number else "'queries' is empty"
        )
    if any(not isinstance(item, str) for item in listed_queries):
        raise ValueError("'queries' must hold strings")
    queries = tuple(dict.fromkeys(one_line(item, _LONGEST_QUERY) for item in listed_queries))
    _check_codes(asked_for, " ".join(queries))
    return queries


def _bounded_passage(text: str, most: int) -> str:
    """A passage on one line, cut if it is too long, since only its gist matters for the search."""
    line = " ".join(text.split())
    if not line:
        raise ValueError("the passage is empty")
    return line[:most]


def visible_glossary(
    query: str, target: Target, filters: Sequence[Filter]
) -> Flow[Glossary | None]:
    """The part of the target's glossary that a query needs and the filters allow.

    A mined meaning stays if a chunk of one of its documents meets all filters. A given one has no
    document, and always stays. An invalid filter hides them all; the search that follows reports
    it. These searches are not traced, since their filters name other users' documents.
    """
    glossary = target.glossary
    if glossary is None or not filters:
        return glossary
    visible: dict[str, tuple[Meaning, ...]] = {}
    hidden: set[str] = set()
    while True:
        # a term that is hidden may have covered a shorter one
        new = [term for term in glossary.find(query, hidden) if term not in visible]
        if not new:
            return Glossary(visible)
        for term in new:
            every = glossary.entries[term]
            meanings = yield from gather([_if_visible(entry, target, filters) for entry in every])
            allowed = [meaning for meaning in meanings if meaning is not None]
            if allowed:
                visible[term] = tuple(allowed)
            else:
                hidden.add(term)


def _if_visible(
    meaning: Meaning, target: Target, filters: Sequence[Filter]
) -> Flow[Meaning | None]:
    """The meaning, None if all of its documents are hidden."""
    if not meaning.document_id:
        return meaning
    of_documents = Filter("document_id", (meaning.document_id, *meaning.also))
    request = Search(target.snapshot, "all", 1, filters=(*filters, of_documents), untraced=True)
    try:
        candidates = (yield from send(request, SearchReply)).candidates
    except FilterError:  # like any filter on values that no chunk under the other filters has
        return None
    return meaning if candidates else None
