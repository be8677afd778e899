"""Questions about documents as such ("how many pages mention X?"), answered by counting words.

A total is over everything that was asked for: where pages are asked for, documents without page
numbers count beside the pages of the others.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

from ..core import Hit, case_folded, late_pattern
from ..models import TokenSource, fold, sentence_spans, stop_words
from ..retrieve import Unit, read_units

_QUOTED = late_pattern(r"[\"“„«]\s*([^\"“”«»]+?)\s*[\"”“»]")
_ELIDED = late_pattern(r"^(?:[cdjlmnst]|qu)['’](?=\w)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class UnitQuestion:
    """The unit to count, the words it must contain, and whether to count or to list.

    Attributes:
        topic: As written, without quotes; empty if all units are counted.
        terms: The tokens that a unit must contain.
        phrases: Texts in quotes, which must occur literally (except for case and spaces).
        language: ISO code of the question's language.
    """

    unit: Unit
    counts: bool
    topic: str
    terms: tuple[str, ...]
    phrases: tuple[str, ...] = ()
    language: str = "en"


@dataclass(frozen=True, slots=True)
class Found:
    """A matching unit: its hit, and the span that shows the match.

    ``page`` is None for a document, a passage, and a document without page numbers.
    """

    hit: Hit
    start: int
    end: int
    page: int | None = None


@dataclass(frozen=True, slots=True)
class UnitTally:
    """Units of one kind: those that match, in document order, and the number of all.

    Attributes:
        kind: What they are called: a unit, or ``unpaged`` for documents without page numbers.
    """

    kind: str
    matches: tuple[Found, ...]
    total: int


def read_unit_question(question: str, analyzer: TokenSource) -> UnitQuestion | None:
    """The question's parts, None if looking up words cannot answer it exactly."""
    parts = read_units(question)
    if parts is None:
        return None
    topic = parts.topic
    phrases = tuple(case_folded(phrase) for phrase in _QUOTED.findall(topic))
    terms = tuple(dict.fromkeys(analyzer.query_tokens(_content_words(topic, parts.language))))
    if topic and not terms:
        return None
    topic = topic.strip('"“”„«» ')
    return UnitQuestion(parts.unit, parts.counts, topic, terms, phrases, parts.language)


def _content_words(topic: str, language: str) -> str:
    """A topic without the function words of its language, which the index may not know."""
    if language == "en":
        return topic
    stops = stop_words(language)
    content = [_ELIDED.sub("", word) for word in topic.split()]
    return " ".join(word for word in content if fold(word.casefold()) not in stops)


class UnitCount:
    """Finds the matching units in chunks given in document order.

    A page is assembled from all chunks with a part of it; a document matches if one of its chunks
    does. Where pages are asked for, a document without page numbers is a unit of its own.
    """

    def __init__(self, asked: UnitQuestion, analyzer: TokenSource) -> None:
        self._asked = asked
        self._analyzer = analyzer
        self._held: dict[tuple[str, int | str], set[str]] = {}
        self._texts: dict[tuple[str, int | str], list[str]] = {}
        self._first: dict[tuple[str, int | str], Found] = {}
        self._matched: dict[tuple[str, int | str], Found] = {}

    def add(self, hits: Sequence[Hit]) -> None:
        """Read further chunks."""
        for hit in hits:
            for start, end, page in _page_segments(hit, self._asked.unit):
                self._read_segment(hit, start, end, page)

    def _read_segment(self, hit: Hit, start: int, end: int, page: int | None) -> None:
        question = self._asked
        key = _unit_key(question.unit, hit, page)
        self._first.setdefault(key, Found(hit, start, end, page))
        if not question.topic or key in self._matched:
            return
        text = hit.text[start - hit.start : end - hit.start]
        tokens = set(self._analyzer.tokens(text))
        if question.unit == "page" and page is not None:
            tokens = self._held.setdefault(key, set()) | tokens
            self._held[key] = tokens.intersection(question.terms)
            if question.phrases:
                self._texts.setdefault(key, []).append(text)
                text = "\n".join(self._texts[key])
        if _matches_question(question, tokens, text):
            span = _shown_by(question, hit, (start, end), self._analyzer)
            self._matched[key] = Found(hit, *span, page)

    def tallies(self) -> tuple[UnitTally, ...]:
        """The units by kind: one kind, or pages and the documents that have none.

        Where pages are asked for and no document has any, the documents are units.
        """
        unit = self._asked.unit
        if unit != "page":
            return (self._tally_of(unit, list(self._first)),)
        paged = [key for key, unit in self._first.items() if unit.page is not None]
        others = [key for key, unit in self._first.items() if unit.page is None]
        if not paged:
            return (self._tally_of("document", others),)
        pages = self._tally_of("page", paged)
        return (pages, self._tally_of("unpaged", others)) if others else (pages,)

    def _tally_of(self, kind: str, keys: Sequence[tuple[str, int | str]]) -> UnitTally:
        matched = self._matched if self._asked.topic else self._first
        return UnitTally(kind, tuple(matched[key] for key in keys if key in matched), len(keys))

    def result(self) -> tuple[list[Found], int]:
        """All matching units, the pages first, and the number of all units."""
        tallies = self.tallies()
        units = chain.from_iterable(tally.matches for tally in tallies)
        return list(units), sum(tally.total for tally in tallies)


def _unit_key(unit: Unit, hit: Hit, page: int | None) -> tuple[str, int | str]:
    if unit == "document":
        return hit.document_id, 0
    return (hit.document_id, page or 0) if unit == "page" else (hit.document_id, hit.chunk_id)


def _page_segments(hit: Hit, unit: Unit) -> Iterator[tuple[int, int, int | None]]:
    """Spans of a hit in its document, one per page if pages are counted."""
    if unit != "page":
        yield hit.start, hit.end, hit.page
        return
    borders = [(hit.start, hit.page), *((at, page) for at, page in hit.pages if at > hit.start)]
    for number, (start, page) in enumerate(borders):
        end = borders[number + 1][0] if number + 1 < len(borders) else hit.end
        yield start, end, page


def _matches_question(question: UnitQuestion, tokens: set[str], text: str) -> bool:
    if not tokens.issuperset(question.terms):
        return False
    if not question.phrases:
        return True
    flat = case_folded(text)
    return all(phrase in flat for phrase in question.phrases)


def _shown_by(
    question: UnitQuestion, hit: Hit, span: tuple[int, int], analyzer: TokenSource
) -> tuple[int, int]:
    """The first sentence with every term, else the one with the most, else the span."""
    start, end = span
    text = hit.text[start - hit.start : end - hit.start]
    best, most = span, 0
    for sentence in sentence_spans(text):
        tokens = set(analyzer.tokens(text[sentence.start : sentence.end]))
        count = len(tokens.intersection(question.terms))
        if count > most:
            best, most = (start + sentence.start, start + sentence.end), count
    return best
