"""The whole-corpus route: every chunk is read and the findings are merged; nothing is sampled.

Each chunk is read by one call of a chat model that extracts items for the answer; ragwright merges
and counts them, not the model.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from ..core import (
    Answer,
    Citation,
    Filter,
    Hit,
    MissingKeyError,
    ModelRefusedError,
    ModelReplyError,
    Persona,
    RagwrightError,
    Relaxation,
    RetrieveError,
    Usage,
    count_noun,
    list_names,
    load_shipped_mapping,
    neutral,
    passage_values,
    render,
)
from ..flow import (
    INCOMPLETE,
    Flow,
    Message,
    Search,
    SearchReply,
    chat,
    gather,
    lookup,
    send,
    unpack_settled,
)
from ..models import Analyzer, AnalyzerOptions, words
from ..retrieve import Target, json_object, note_idle_exclusions, object_schema
from ._marks import citation
from ._prompt import REFUSED, AnswerOptions
from ._window import split_hit
from ._write import AskPlan, answer

_ITEM = {
    "type": "object",
    "properties": {"item": {"type": "string"}, "quote": {"type": "string"}},
    "required": ["item", "quote"],
    "additionalProperties": False,
}
_SCHEMA = object_schema({"items": {"type": "array", "items": _ITEM}}, "items")
_ARTICLES = re.compile(
    r"(?:the|an?|le|la|les|l|une?|des|du|der|die|das|den|dem|eine?|el|los|las|una|il|lo|gli)$"
)
_PLAIN = Analyzer(AnalyzerOptions(language="none"))
"""Folds only case and accents."""

_OVERVIEW = re.compile(
    r"\b(?:summar\w+|overview|themes?|topics?|gist|main points?|arguments?|compar\w+|differ\w+|why"
    r"|how (?!many|often)|résum\w+|synth\w+|thèmes?|idées?|grandes lignes|pourquoi|comment"
    r"|zusammen\w*|überblick|themen|warum|resum\w+|temas?|por qué)\b",
    re.IGNORECASE,
)
_FREQUENCY = re.compile(
    r"\b(?:most|how (?:often|many times)|le plus|combien de fois|am (?:häufigsten|meisten)|wie oft"
    r"|más|cuántas veces)\b",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class ChunkItems:
    """The findings of one chunk.

    Attributes:
        items: (item, start, end): the model's wording, and the position of its quote.
        invented: Items whose quote is not in the chunk.
        fault: Why the chunk could not be read, empty if it was.
        planned: True in a dry run.
    """

    hit: Hit
    items: tuple[tuple[str, int, int], ...] = ()
    invented: int = 0
    fault: str = ""
    usage: Usage = Usage()
    cached: bool = True
    planned: bool = False

    def excerpt(self) -> Hit:
        """The chunk with only its quotes as text."""
        spans = sorted({(start, end) for _, start, end in self.items})
        first = self.hit.start
        return replace(
            self.hit, text="\n".join(self.hit.text[s - first : e - first] for s, e in spans)
        )


@dataclass(frozen=True, slots=True)
class Item:
    """One item, as first written, and every place (hit, start, end) where it was found."""

    text: str
    places: tuple[tuple[Hit, int, int], ...]


_CHUNKS_AT_ONCE = 16
_REPLY_TOKENS = 800
"""Most tokens of a reply on one chunk."""

_MOST_ITEMS = 50
"""Most items shown in an answer; all are counted."""

PAGE = 500
"""Chunks listed by one request."""

_FETCHED = 16
"""Chunks fetched, and then read, at once."""

_STAND_IN = 5


@dataclass(frozen=True, slots=True)
class CorpusScope:
    """The chunks to read: those that meet all filters.

    Attributes:
        filters: Hard conditions.
        relax: Soft ones; they limit what is read only if chunks that meet none are excluded.
    """

    filters: Sequence[Filter] = ()
    relax: Relaxation | None = None


def answer_from_corpus(
    question: str,
    personas: Sequence[Persona],
    target: Target,
    plan: AskPlan,
    scope: CorpusScope | None = None,
) -> Flow[list[Answer]]:
    """One answer per persona from every chunk of the scope; it is read once per model.

    Lists and counts are the same for every persona of a model; other answers are written for
    each.

    Raises:
        RetrieveError: There is no chunk, or more than a chat model may read.
        RagwrightError: No chunk could be read.
    """
    ids, notes = yield from _scope_ids(target, scope or CorpusScope())
    if not ids:
        raise RetrieveError(
            "no chunks to read",
            where=f"snapshot {target.snapshot}",
            hint="ingest something, or loosen retrieve.filters",
        )
    most = plan.options.corpus.max_chunks
    if len(ids) > most:
        raise RetrieveError(
            f"answering this takes one call for each of {len(ids)} chunks, more than the {most} of "
            "answer.corpus.max_chunks",
            hint="raise it (--dry-run shows the price), narrow the corpus with retrieve.filters, "
            "or answer from the index: retrieve.route.method: index",
        )
    hits, more = yield from _every_hit(target, ids)
    models = [persona.model or plan.options.model for persona in personas]
    groups = {model: [at for at, m in enumerate(models) if m == model] for model in models}
    flows = [
        _by_model(
            question,
            [personas[at] for at in places],
            hits,
            replace(plan, options=replace(plan.options, model=model)),
        )
        for model, places in groups.items()
    ]
    answers: dict[int, Answer] = {}
    outcomes = yield from gather(flows, settle=True)
    for places, group_answers in zip(groups.values(), map(unpack_settled, outcomes), strict=True):
        for at, own in zip(places, group_answers, strict=True):
            answers[at] = replace(own, notes=(*own.notes[:1], *notes, *more, *own.notes[1:]))
    return [answers[at] for at in range(len(personas))]


def _by_model(
    question: str, personas: Sequence[Persona], hits: Sequence[Hit], plan: AskPlan
) -> Flow[list[Answer]]:
    """Findings of a chat model in every chunk, as a list or written for each persona."""
    readings = yield from _chunk_findings(question, hits, plan)
    if _OVERVIEW.search(question):  # an answer has to be written, not listed
        return (yield from _written_answers(question, personas, readings, plan))
    listed_answer = replace(_listed_answer(question, readings, plan), route="corpus")
    return [replace(listed_answer, persona=persona.name) for persona in personas]


def _scope_ids(target: Target, scope: CorpusScope) -> Flow[tuple[list[str], tuple[str, ...]]]:
    """Ids of the chunks of a scope, in document order, and notes on them."""
    ids, notes = yield from corpus_ids(target, scope.filters)
    soft = scope.relax.soft if scope.relax else ()
    notes += yield from note_idle_exclusions(target, scope.filters, soft)
    if not soft or scope.relax is None:
        return ids, notes
    if scope.relax.unfiltered:
        note = "soft filters only rank hits: they have no effect here, since every chunk was read"
        return ids, (*notes, note)
    met: set[str] = set()
    for soft_filter in soft:
        matching, more = yield from corpus_ids(target, (*scope.filters, soft_filter.condition))
        met.update(matching)
        notes += tuple(note for note in more if note not in notes)
    in_scope = [key for key in ids if key in met]
    note = f"{len(in_scope)} of {len(ids)} chunks meet a soft filter; no others were read"
    return in_scope, (*notes, note)


def corpus_ids(
    target: Target, filters: Sequence[Filter] = ()
) -> Flow[tuple[list[str], tuple[str, ...]]]:
    """Ids of all chunks that meet the filters, in document order, and notes of the index."""
    ids: list[str] = []
    notes: dict[str, None] = {}
    while True:
        request = Search(
            target.snapshot, "all", PAGE, filters=tuple(filters), after=ids[-1] if ids else ""
        )
        reply = yield from send(request, SearchReply)
        notes |= dict.fromkeys(reply.notes)
        ids += [key for key, _ in reply.candidates]
        if len(reply.candidates) < PAGE:
            return ids, tuple(notes)


def _every_hit(target: Target, ids: Sequence[str]) -> Flow[tuple[list[Hit], tuple[str, ...]]]:
    """The chunks, numbered in document order, and notes of the index."""
    notes: dict[str, None] = {}
    hits: list[Hit] = []
    for start in range(0, len(ids), _FETCHED):
        page = ids[start : start + _FETCHED]
        reply = yield from lookup(target.snapshot, page)
        notes |= dict.fromkeys(reply.notes)
        if len(reply.hits) != len(page):
            raise RetrieveError(
                f"{count_noun(len(page), 'chunk was', 'chunks were')} listed, {len(reply.hits)} "
                "could be fetched",
                where=f"snapshot {target.snapshot}",
                hint="the index answers from two different states: refresh it",
            )
        hits += [replace(hit, rank=start + at) for at, hit in enumerate(reply.hits, 1)]
    return hits, tuple(notes)


def _chunk_findings(question: str, hits: Sequence[Hit], plan: AskPlan) -> Flow[list[ChunkItems]]:
    """The findings of each chunk: one call per chunk, side by side."""
    parts = _readable_parts(question, hits, plan)
    outcomes = yield from gather(
        (_read_chunk(question, part, plan.options) for part in parts),
        limit=_CHUNKS_AT_ONCE,
        settle=True,
    )
    readings = []
    for part, outcome in zip(parts, outcomes, strict=True):
        if isinstance(outcome, MissingKeyError | ModelRefusedError):
            raise outcome
        if isinstance(outcome, RagwrightError):
            outcome = ChunkItems(part, fault=f"{type(outcome).__name__}: {outcome.what}")
        readings.append(unpack_settled(outcome))
    unread = [reading for reading in readings if reading.fault]
    if len(unread) == len(readings):
        raise ModelReplyError(
            f"none of {len(readings)} chunks could be read: {unread[0].fault}",
            hint="check that the model can reply with JSON, or use another one",
        )
    return readings


def _read_notes(readings: Sequence[ChunkItems]) -> tuple[str, ...]:
    """Notes on how much was read, what failed, and which items were rejected."""
    chunks = len({reading.hit.chunk_id for reading in readings})
    unread = [reading for reading in readings if reading.fault]
    missing = len({reading.hit.chunk_id for reading in unread})
    notes = [f"read {chunks - missing} of {chunks} chunks, one call each"]
    if len(readings) > chunks:
        notes.append(f"chunks longer than the model's window were read in parts: {len(readings)}")
    if unread:
        names = list_names([reading.hit.chunk_id for reading in unread], 5)
        notes.append(f"not read: {names} ({unread[0].fault})")
    invented = sum(reading.invented for reading in readings)
    if invented:
        notes.append(f"{invented} items left out: their quote is not in the passage")
    return tuple(notes)


def _listed_answer(question: str, readings: Sequence[ChunkItems], plan: AskPlan) -> Answer:
    """The merged list and its length, each item with its places."""
    items = merge_items(readings)
    if _FREQUENCY.search(question):  # those found most often first, others in document order
        items.sort(key=lambda item: -len(item.places))
    visible = items[:_MOST_ITEMS]
    complete = not any(reading.fault for reading in readings)
    notes = _read_notes(readings)
    if len(items) > len(visible):
        notes += (f"{len(visible)} of {len(items)} items are shown",)
    usage, cached = _usage_of(readings)
    blank = Answer(question, "", model=plan.options.model, usage=usage, cached=cached, notes=notes)
    if not items:
        return replace(blank, text=REFUSED, abstained=True)
    hits: list[Hit] = []
    citations: list[Citation] = []
    marks = [_item_marks(item, hits, citations) for item in visible]
    head = f"{len(items)} found" if complete else f"At least {len(items)} found"
    lines = [f"{head}:"]
    for item, numbers in zip(visible, marks, strict=True):
        often = f" ({len(item.places)} places)" if len(item.places) > 1 else ""
        lines.append(f"- {item.text}{often} {''.join(f'[{n}]' for n in numbers)}")
    if len(items) > len(visible):
        lines.append(f"… and {len(items) - len(visible)} more")
    return replace(blank, text="\n".join(lines), hits=tuple(hits), citations=tuple(citations))


def _item_marks(item: Item, hits: list[Hit], citations: list[Citation]) -> list[int]:
    """Numbers of an item's passages; new ones are added to hits and citations."""
    numbers = []
    for hit, start, end in item.places[:_MOST_MARKS]:
        number = next((n for n, h in enumerate(hits, 1) if h.chunk_id == hit.chunk_id), 0)
        if not number:
            hits.append(replace(hit, rank=len(hits) + 1))
            number = len(hits)
        if number not in numbers:
            numbers.append(number)
            citations.append(citation(number, hit, start, end))
    return numbers


_MOST_MARKS = 3


def _written_answers(
    question: str, personas: Sequence[Persona], readings: Sequence[ChunkItems], plan: AskPlan
) -> Flow[list[Answer]]:
    """An answer that the model writes for each persona from the findings of all chunks."""
    planned = [reading.hit for reading in readings if reading.planned]
    excerpts = [reading.excerpt() for reading in readings if reading.items]
    hits = excerpts or planned[:_STAND_IN]
    usage, cached = _usage_of(readings)
    outcomes = yield from gather(
        (answer(question, persona, hits, plan) for persona in personas), settle=True
    )
    read_notes = _read_notes(readings)
    return [
        replace(
            answer,
            route="corpus",
            usage=usage + answer.usage if at == 0 else answer.usage,
            cached=cached and answer.cached,
            notes=(*read_notes, *answer.notes),
        )
        for at, answer in enumerate(map(unpack_settled, outcomes))
    ]


def _usage_of(readings: Sequence[ChunkItems]) -> tuple[Usage, bool]:
    usage = sum((reading.usage for reading in readings), Usage())
    return usage, all(reading.cached for reading in readings)


def _readable_parts(question: str, hits: Sequence[Hit], plan: AskPlan) -> list[Hit]:
    """The chunks, those longer than the model's window in parts that fit it."""
    window = plan.window(plan.options.model)
    if window.tokens is None:
        return list(hits)
    parts: list[Hit] = []
    for hit in hits:
        fixed = window.size(_reading_prompt(question, replace(hit, text="")))
        room = max(1, window.tokens - _REPLY_TOKENS - fixed)
        fits = window.count(hit.text) <= room
        parts += [hit] if fits else (list(split_hit(hit, room, window.count)) or [hit])
    return parts


def _read_chunk(question: str, hit: Hit, options: AnswerOptions) -> Flow[ChunkItems]:
    """The findings of a chunk, by exactly one call.

    The reply is read strictly, without a retry, so that the price of reading a corpus
    is known beforehand; a chunk whose reply cannot be used is reported as not read.
    """
    params = {"temperature": 0.0, "max_tokens": _REPLY_TOKENS}
    reply = yield from chat(
        options.model,
        _reading_prompt(question, hit),
        params,
        schema=_SCHEMA,
        sources=[hit.document_id],
    )
    blank = ChunkItems(hit, usage=reply.usage, cached=reply.cached)
    if reply.finish == "forecast":
        return replace(blank, planned=True)
    if reply.finish in INCOMPLETE:
        return replace(blank, fault=INCOMPLETE[reply.finish])
    try:
        findings = read_items(reply.text)
    except ValueError as error:
        return replace(blank, fault=str(error))
    placed = [(item, find_quote(quote, hit)) for item, quote in findings]
    located = tuple((item, *span) for item, span in placed if span is not None)
    return replace(blank, items=located, invented=len(placed) - len(located))


def _reading_prompt(question: str, hit: Hit) -> list[Message]:
    data = load_shipped_mapping("answer", "prompts/corpus.yaml")
    values = {"question": question, "passages": [passage_values(1, hit)]}
    return [Message(role, render(data.text(role), values)) for role in ("system", "user")]


def read_items(text: str) -> list[tuple[str, str]]:
    """Items and quotes of a reply: one JSON object of the required form, perhaps fenced.

    Raises:
        ValueError: It is not; the message says why.
    """
    items = []
    for entry in json_object(text, {"items": list})["items"]:
        if not isinstance(entry, dict) or set(entry) != {"item", "quote"}:
            raise ValueError("an item must have the keys 'item' and 'quote' and no others")
        item, quote = entry["item"], entry["quote"]
        if not isinstance(item, str) or not isinstance(quote, str) or not item.strip():
            raise ValueError("item and quote must be text")
        items.append((" ".join(item.split()), quote))
    return items


def find_quote(quote: str, hit: Hit) -> tuple[int, int] | None:
    """Position of a quote in its document, ignoring spacing and case; None if it is not there.

    Prompts show a neutralised text: a quote of a changed part points to the whole hit.
    """
    pieces = quote.split()
    if not pieces:
        return None
    pattern = re.compile(r"\s+".join(map(re.escape, pieces)), re.IGNORECASE)
    match = pattern.search(hit.text)
    if match:
        return hit.start + match.start(), hit.start + match.end()
    return (hit.start, hit.end) if pattern.search(neutral(hit.text)) else None


def merge_items(readings: Sequence[ChunkItems]) -> list[Item]:
    """Merge the items of all chunks: equal ones once, in the order of their first place.

    Items are equal if their words are, ignoring case, accents, punctuation and a leading article; a
    place that overlapping chunks share counts once.
    """
    texts: dict[str, str] = {}
    places: dict[str, dict[tuple[str, int], tuple[Hit, int, int]]] = {}
    for reading in readings:
        for text, start, end in reading.items:
            bare = [_PLAIN.normal(word) for word in words(text)]
            if len(bare) > 1 and _ARTICLES.match(bare[0]):
                del bare[0]
            key = " ".join(bare) or text.casefold()
            texts.setdefault(key, text)
            spot = (reading.hit.document_id, start)
            places.setdefault(key, {}).setdefault(spot, (reading.hit, start, end))
    return [Item(text, tuple(places[key].values())) for key, text in texts.items()]
