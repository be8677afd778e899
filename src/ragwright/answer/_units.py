"""Questions about documents as such ("how many pages mention X?"), answered by counting words."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from ..core import Hit, late_pattern
from ..models import TokenSource, sentence_spans

Unit: TypeAlias = Literal["document", "page", "passage"]

_QUESTION = late_pattern(
    r"\b(?:(?P<count>how many|number of|count)|list|name|show|give|find|which|what)\s"
    r"(?:(?:me|all|every|the|of)\s)*(?:\w+\s)?"
    r"(?:(?P<page>pages?)|(?P<passage>passages?|chunks?|sections?|chapters?|paragraphs?)"
    r"|documents?|files?|articles?|papers?|reports?|texts?|sources?)\s"
    r"(?:(?:that |which |do )?(?:(?:mention|discuss|contain|cite|citing|name|describ|cover)\w*"
    r"|on|(?:talk|talking) about|refer to|(?:are )?about)\s(?P<topic>.+?)"
    r"|(?:are there|are indexed|do you (?:have|know))\b.*?)\s*[?.!]*\s*$"
    r"|^\W*(?:please )?(?:list|enumerate|name|show|give)(?: me)?"
    r"(?: (?:a list of|all|every|the|of|your))* "
    r"(?:(?P<pages>pages)|documents?|docs|files?|sources?)\W*$",
    re.IGNORECASE,
)
"""English questions only: in other languages a model or the quoted sentences answer."""
_LONGEST = 1_000
_QUOTED = late_pattern(r"[\"“„«]\s*([^\"“”«»]+?)\s*[\"”“»]")


@dataclass(frozen=True, slots=True)
class UnitQuestion:
    """The unit to count, the words it must contain, and whether to count or to list.

    Attributes:
        topic: As written, without quotes; empty if all units are counted.
        terms: The tokens that a unit must contain.
        phrases: Texts in quotes, which must occur literally (except for case and spaces).
    """

    unit: Unit
    counts: bool
    topic: str
    terms: tuple[str, ...]
    phrases: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Found:
    """A matching unit: its hit, and the span that shows the match."""

    hit: Hit
    start: int
    end: int
    page: int | None = None


def read_unit_question(question: str, analyzer: TokenSource) -> UnitQuestion | None:
    """The question's parts, None if looking up words cannot answer it exactly.

    Always None for more than 1,000 characters.
    """
    plain = " ".join(question.split())
    # the pattern's time grows with the square of the text
    found = _QUESTION.search(plain) if len(plain) <= _LONGEST else None
    if found is None:
        return None
    unit: Unit = (
        "page" if found["page"] or found["pages"] else "passage" if found["passage"] else "document"
    )
    topic = (found["topic"] or "").strip()
    phrases = tuple(" ".join(p.casefold().split()) for p in _QUOTED.findall(topic))
    terms = tuple(dict.fromkeys(analyzer.query_tokens(topic)))
    if topic and not terms:
        return None
    return UnitQuestion(unit, bool(found["count"]), topic.strip('"“”„«» '), terms, phrases)


class UnitCount:
    """Finds the matching units in chunks given in document order.

    A page is assembled from all chunks with a part of it; a document matches if one of its chunks
    does. Documents without pages have no page units.
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
            for start, end, page in _segments(hit, self._asked.unit):
                if self._asked.unit != "page" or page is not None:
                    self._read(hit, start, end, page)

    def _read(self, hit: Hit, start: int, end: int, page: int | None) -> None:
        asked = self._asked
        key = _key(asked.unit, hit, page)
        self._first.setdefault(key, Found(hit, start, end, page))
        if not asked.topic or key in self._matched:
            return
        text = hit.text[start - hit.start : end - hit.start]
        tokens = set(self._analyzer.tokens(text))
        if asked.unit == "page":
            tokens = self._held.setdefault(key, set()) | tokens
            self._held[key] = tokens.intersection(asked.terms)
            if asked.phrases:
                self._texts.setdefault(key, []).append(text)
                text = "\n".join(self._texts[key])
        if _meets(asked, tokens, text):
            span = _shown_by(asked, hit, (start, end), self._analyzer)
            self._matched[key] = Found(hit, *span, page)

    def result(self) -> tuple[list[Found], int]:
        """The matching units, in document order, and the total number of units."""
        if not self._asked.topic:
            return list(self._first.values()), len(self._first)
        return [self._matched[key] for key in self._first if key in self._matched], len(self._first)


def _key(unit: Unit, hit: Hit, page: int | None) -> tuple[str, int | str]:
    if unit == "document":
        return hit.document_id, 0
    return (hit.document_id, page or 0) if unit == "page" else (hit.document_id, hit.chunk_id)


def _segments(hit: Hit, unit: Unit) -> Iterator[tuple[int, int, int | None]]:
    """Spans of a hit in its document, one per page if pages are counted."""
    if unit != "page":
        yield hit.start, hit.end, hit.page
        return
    borders = [(hit.start, hit.page), *((at, page) for at, page in hit.pages if at > hit.start)]
    for number, (start, page) in enumerate(borders):
        end = borders[number + 1][0] if number + 1 < len(borders) else hit.end
        yield start, end, page


def _meets(asked: UnitQuestion, tokens: set[str], text: str) -> bool:
    if not tokens.issuperset(asked.terms):
        return False
    if not asked.phrases:
        return True
    plain = " ".join(text.casefold().split())
    return all(phrase in plain for phrase in asked.phrases)


def _shown_by(
    asked: UnitQuestion, hit: Hit, span: tuple[int, int], analyzer: TokenSource
) -> tuple[int, int]:
    """The first sentence with every term, else the one with the most, else the span."""
    start, end = span
    text = hit.text[start - hit.start : end - hit.start]
    best, most = span, 0
    for sentence in sentence_spans(text):
        tokens = set(analyzer.tokens(text[sentence.start : sentence.end]))
        count = len(tokens.intersection(asked.terms))
        if count > most:
            best, most = (start + sentence.start, start + sentence.end), count
    return best
