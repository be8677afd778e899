"""Reads chunks one by one for a question about all of them, and merges the findings."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from ..core import (
    Hit,
    Usage,
    canonical_json,
    late_pattern,
    neutral,
    passage_values,
    render,
    shipped_mapping,
)
from ..flow import INCOMPLETE, Flow, Message, chat
from ..models import Analyzer, AnalyzerOptions, words
from ..retrieve import json_object
from ._context import split_hit
from ._window import Window

_SCHEMA = canonical_json(
    {
        "title": "items",
        "type": "object",
        "properties": {
            "items": {
                "type": "array",
                "items": {
                    "type": "object",
                    "properties": {"item": {"type": "string"}, "quote": {"type": "string"}},
                    "required": ["item", "quote"],
                    "additionalProperties": False,
                },
            }
        },
        "required": ["items"],
        "additionalProperties": False,
    }
)
_ARTICLES = late_pattern(
    r"(?:the|an?|le|la|les|l|une?|des|du|der|die|das|den|dem|eine?|el|los|las|una|il|lo|gli)$"
)
_PLAIN = Analyzer(AnalyzerOptions(stem=False, stop_words=False))
"""Folds only case and accents."""

_OVERVIEW = late_pattern(
    r"\b(?:summar\w+|overview|themes?|topics?|gist|main points?|arguments?|compar\w+|differ\w+|why"
    r"|how (?!many|often)|résum\w+|synth\w+|thèmes?|idées?|grandes lignes|pourquoi|comment"
    r"|zusammen\w*|überblick|themen|warum|resum\w+|temas?|por qué)\b",
    re.IGNORECASE,
)
_FREQUENCY = late_pattern(
    r"\b(?:most|how (?:often|many times)|le plus|combien de fois|am (?:häufigsten|meisten)|wie oft"
    r"|más|cuántas veces)\b",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """The reading model, its longest reply, and its window."""

    model: str
    max_tokens: int
    window: Window


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


def readable_parts(question: str, hits: Sequence[Hit], options: ReadOptions) -> list[Hit]:
    """The chunks, those longer than the model's window in parts that fit it."""
    limit = options.window.tokens
    if limit is None:
        return list(hits)
    parts: list[Hit] = []
    for hit in hits:
        fixed = options.window.size(_reading_prompt(question, replace(hit, text="")))
        room = max(1, limit - options.max_tokens - fixed)
        fits = options.window.count(hit.text) <= room
        parts += [hit] if fits else (list(split_hit(hit, room, options.window.count)) or [hit])
    return parts


def read_chunk(question: str, hit: Hit, options: ReadOptions) -> Flow[ChunkItems]:
    """The findings of a chunk, by exactly one call.

    The reply is read strictly, without a retry, so that the price of reading a corpus
    is known beforehand; a chunk whose reply cannot be used is reported as not read.
    """
    params = {"temperature": 0.0, "max_tokens": options.max_tokens}
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
    data = shipped_mapping("answer", "prompts/corpus.yaml")
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


def merged(readings: Sequence[ChunkItems]) -> list[Item]:
    """Merge the items of all chunks: equal ones once, in the order of their first place.

    Items are equal if their words are, ignoring case, accents, punctuation and a leading article; a
    place that overlapping chunks share counts once.
    """
    texts: dict[str, str] = {}
    places: dict[str, dict[tuple[str, int], tuple[Hit, int, int]]] = {}
    for reading in readings:
        for text, start, end in reading.items:
            key = _merge_key(text)
            texts.setdefault(key, text)
            spot = (reading.hit.document_id, start)
            places.setdefault(key, {}).setdefault(spot, (reading.hit, start, end))
    return [Item(text, tuple(places[key].values())) for key, text in texts.items()]


def _merge_key(text: str) -> str:
    normal_words = [_PLAIN.normal(word) for word in words(text)]
    bare = (
        normal_words[1:]
        if len(normal_words) > 1 and _ARTICLES.match(normal_words[0])
        else normal_words
    )
    return " ".join(bare) or text.casefold()


def ranked_items(question: str, items: Sequence[Item]) -> list[Item]:
    """Items in document order; those found most often first if the question asks for that."""
    if not _FREQUENCY.search(question):
        return list(items)
    return sorted(items, key=lambda item: -len(item.places))


def asks_overview(question: str) -> bool:
    """True if an answer has to be written, not listed: themes, summaries, comparisons."""
    return bool(_OVERVIEW.search(question))
