"""The frozen records that all rooms share."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from html import escape
from typing import TypeAlias

from ._errors import FilterError
from ._text import html_table, shorten_text, value_hash

MetaValue: TypeAlias = str | int | float | bool | tuple[str, ...]
"""A value of metadata: a scalar, or several strings (a document with three topics)."""

Metadata: TypeAlias = Mapping[str, MetaValue]


@dataclass(frozen=True, slots=True)
class Span:
    """A half-open range of characters ``[start, end)`` in a document's normalised text."""

    start: int
    end: int

    @property
    def length(self) -> int:
        """Number of characters."""
        return self.end - self.start

    def overlap(self, other: Span) -> int:
        """Number of characters in both spans, 0 if they do not overlap."""
        return max(0, min(self.end, other.end) - max(self.start, other.start))


@dataclass(frozen=True, slots=True)
class Page:
    """One page, slide or sheet: its number from 1, its label, and its span in the text."""

    number: int
    span: Span
    label: str = ""


@dataclass(frozen=True, slots=True)
class Section:
    """One heading and the text it governs, up to the next heading of its level or above.

    ``level`` counts from 1; ``span`` starts at the heading itself.
    """

    title: str
    level: int
    span: Span


@dataclass(frozen=True, slots=True)
class Document:
    r"""A source as text: what readers return and what spans point into.

    Attributes:
        id: Stable name within a project: the path or address, or the id of a collection.
        source: Address a reader can open: a path, a URL, a collection and an id.
        title: Title, empty where the source has none.
        text: Normalised text (NFC, ``\n`` line ends, no control characters).
        language: ISO 639-1 code, empty where unknown.
        created: ISO 8601 date or time, empty where unknown; likewise ``modified``.
        pages: Pages in order, empty where the format has none.
        sections: Headings in order, empty where the format has none.
        metadata: Further fields that filters may use (author, topics, party, …).
    """

    id: str
    source: str
    text: str
    title: str = ""
    language: str = ""
    created: str = ""
    modified: str = ""
    media_type: str = "text/plain"
    pages: tuple[Page, ...] = ()
    sections: tuple[Section, ...] = ()
    metadata: Metadata = field(default_factory=dict)

    def content_hash(self) -> str:
        """Hash of all that an index depends on: text, title, structure and metadata."""
        return value_hash(
            [
                self.text,
                self.title,
                self.language,
                self.created,
                self.modified,
                [[p.number, p.span.start, p.span.end, p.label] for p in self.pages],
                [[s.title, s.level, s.span.start, s.span.end] for s in self.sections],
                {k: list(v) if isinstance(v, tuple) else v for k, v in self.metadata.items()},
            ]
        )

    def page_at(self, position: int) -> int | None:
        """Number of the page that holds a character, None where there are no pages."""
        for page in self.pages:
            if page.span.start <= position < page.span.end:
                return page.number
        return None

    def headings_at(self, position: int) -> tuple[str, ...]:
        """Titles of the sections that hold a character, outermost first."""
        return tuple(s.title for s in self.sections if s.span.start <= position < s.span.end)


@dataclass(frozen=True, slots=True)
class Head:
    """What a chunk is searched with besides its text; never part of spans, quotes or citations.

    Attributes:
        title: Title of the document.
        headings: Headings above the chunk, outermost first.
        table: Header row of the table in whose middle the chunk begins.
        context: A sentence that a model wrote about the chunk's place in its document.
    """

    title: str = ""
    headings: tuple[str, ...] = ()
    table: str = ""
    context: str = ""

    @property
    def text(self) -> str:
        """All of it, one piece a line; headings in one line, one equal to the title left out."""
        return self.above("")

    def above(self, text: str) -> str:
        """The head without title and headings with which a text begins anyway."""
        opens = bool(self.title) and text.lstrip().startswith(self.title)
        headings = ""
        if self.headings:
            start = text.lstrip()[:_OPENING].split("\n")
            known = {self.title, *(line.lstrip("#").strip() for line in start)}
            headings = " > ".join(n for n in dict.fromkeys(self.headings) if n not in known)
        lines = ("" if opens else self.title, headings, self.table, self.context)
        return "\n".join(line for line in lines if line)

    def packed(self) -> list[str | list[str]]:
        """The head as a list for JSON."""
        return [self.title, list(self.headings), self.table, self.context]

    @classmethod
    def unpacked(cls, values: list[str | list[str]]) -> Head:
        """The head that :meth:`packed` wrote."""
        title, headings, *others = values
        return cls(str(title), tuple(headings), *map(str, others))


_OPENING = 400
"""Characters of a chunk in which its own headings are looked for."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """A piece of a document: exactly ``document.text[span.start:span.end]``.

    Attributes:
        id: ``document_id:start-end``; unique within one chunking.
        ordinal: Position among the document's chunks, from 0.
        page: Page of its first character, None without pages.
        headings: Section titles above its first character, outermost first.
        tokens: Length in the chunker's tokens, 0 if it does not count them.
        metadata: Fields of this chunk alone; those of its document are added by the index.
        pages: Where further pages begin within it: (position in the document, page number).
        head: What it is searched with besides its text; None for the title in vectors, and title
            and headings in keywords.
    """

    id: str
    document_id: str
    ordinal: int
    span: Span
    text: str
    page: int | None = None
    headings: tuple[str, ...] = ()
    tokens: int = 0
    metadata: Metadata = field(default_factory=dict)
    pages: tuple[tuple[int, int], ...] = ()
    head: Head | None = None


_LAST = "\U0010ffff"
"""Sorts behind every other character, so that bounds can mean a prefix."""


@dataclass(frozen=True, slots=True)
class Filter:
    """A condition on one metadata field that a hit must meet.

    A field that holds several strings meets ``values`` when it holds at least one of them.
    ``low``/``high`` are inclusive bounds, used where ``values`` is empty. With ``exclude`` it is
    inverted: chunks meet it that hold none of ``values``, or nothing within the bounds, including
    those without the field.

    With ``missing`` it is a right to read, and no error however little it leaves: ``values`` and
    the field need not exist. True: chunks without the field meet it too; False: they do not. Fields
    that only chunks have which miss it count as unknown in the filters behind it.
    """

    field: str
    values: tuple[str | int | float | bool, ...] = ()
    low: str | int | float | None = None
    high: str | int | float | None = None
    exclude: bool = False
    missing: bool | None = None

    def __post_init__(self) -> None:
        """Refuse a filter without a condition: it would let everything through.

        Raises:
            FilterError: Neither values nor bounds; or a field name that ends in ``!``, which would
                read as the opposite condition.
        """
        if self.field.rstrip().endswith("!"):
            raise FilterError(
                f"the field name {self.field!r} of a filter ends in '!'",
                hint="leave out by field!=value or `exclude`; give such a field another name",
            )
        if not self.values and self.low is None and self.high is None:
            raise FilterError(
                f"the filter on {self.field!r} states no condition",
                hint="give `values`, or `low` and `high`",
            )
        if not self.values and _reversed(self.low, self.high):
            raise FilterError(
                f"the range {self.low}..{self.high} of {self.field!r} is reversed",
                hint=f"write {self.field}={self.high}..{self.low}",
            )

    def __str__(self) -> str:
        """The filter as it is typed: ``field=value|value``, ``field=low..high``; or ``!=``."""
        sign = "!=" if self.exclude else "="
        if self.values:
            none = " or none" if self.missing else ""
            return f"{self.field}{sign}{'|'.join(map(str, self.values))}{none}"
        if isinstance(self.low, str) and self.high == self.low + _LAST:
            return f"{self.field}{sign}{self.low}*"
        low, high = ("" if end is None else end for end in (self.low, self.high))
        return f"{self.field}{sign}{low}..{high}"


def _reversed(low: str | float | None, high: str | float | None) -> bool:
    """Return True if no value can be within two bounds; what begins with the upper one is."""
    if low is None or high is None:
        return False
    try:
        return float(low) > float(high)
    except ValueError:
        return str(low)[: len(str(high))] > str(high)


def prefix_filter(field: str, start: str, *, exclude: bool = False) -> Filter:
    """A filter that values meet which begin with ``start``, such as the path of a folder."""
    return Filter(field, (), start, start + _LAST, exclude)


@dataclass(frozen=True, slots=True)
class SoftFilter:
    """A condition that a hit should meet, and its weight (0 or more)."""

    condition: Filter
    weight: float = 1.0

    def __post_init__(self) -> None:
        """Refuse a weight that could not be summed and compared.

        Raises:
            FilterError: The weight is negative or not finite.
        """
        if not 0 <= self.weight < math.inf:
            raise FilterError(
                f"the soft filter on {self.condition.field!r} has the weight {self.weight}",
                hint="give a finite weight of 0 or more",
            )


@dataclass(frozen=True, slots=True)
class Relaxation:
    """Soft filters and how far they may be relaxed.

    A chunk's relaxation level (``rung``) is the set of soft filters it meets. Chunks are ranked by
    the sum of the weights of their level, then by their score, then by id. Filters of equal field
    and values count once each.

    Attributes:
        soft: The soft filters, in the order asked for; at most 62.
        threshold: Least score a candidate may have, None for no bound.
        unfiltered: Chunks that meet no soft filter form the last level.
    """

    soft: tuple[SoftFilter, ...]
    threshold: float | None = None
    unfiltered: bool = True


@dataclass(frozen=True, slots=True)
class RelaxationLevel:
    """A level of relaxed filters: its weight, and the conditions met and missed."""

    weight: float
    met: tuple[Filter, ...] = ()
    missed: tuple[Filter, ...] = ()


@dataclass(frozen=True, slots=True)
class Term:
    """A token the keyword channel looked for, the number of chunks that hold it, and its idf.

    ``chunks`` counts those that the hard filters leave, and is 0 for a token that none of them
    holds; ``idf`` is that of the whole corpus; ``most`` is the most that the token can add to a
    chunk's score.
    """

    token: str
    chunks: int
    idf: float
    most: float = 0.0


@dataclass(frozen=True, slots=True)
class ChannelScore:
    """A hit in one search channel: its rank from 1 and its score there."""

    rank: int
    score: float


@dataclass(frozen=True, slots=True)
class Hit:
    """A retrieved chunk with its address, rank from 1 and final score (higher is better).

    ``page`` is that of its first character, ``pages`` where further pages begin within it, as
    in :class:`Chunk`; ``rung`` (relaxation level) is set if the search had soft filters. ``head``
    is what the chunk was searched with besides its text; it is for explanations only.
    """

    rank: int
    score: float
    document_id: str
    chunk_id: str
    source: str
    title: str
    page: int | None
    start: int
    end: int
    text: str
    headings: tuple[str, ...] = ()
    channels: Mapping[str, ChannelScore] = field(default_factory=dict)
    metadata: Metadata = field(default_factory=dict)
    pages: tuple[tuple[int, int], ...] = ()
    rung: RelaxationLevel | None = None
    head: Head | None = None

    def __repr__(self) -> str:
        """Rank, place, score, and how its text begins."""
        place = f"{self.source} {self.start}-{self.end}"
        return f"<Hit {self.rank} {place} score={self.score:.4g} {shorten_text(self.text)!r}>"

    def page_at(self, position: int) -> int | None:
        """Page of a character of its document; None without pages or outside of the hit."""
        if not self.start <= position < self.end:
            return None
        numbers = [number for first, number in self.pages if first <= position]
        return numbers[-1] if numbers else self.page

    def ocr_at(self, page: int | None) -> float | None:
        """Mean confidence of the OCR that read a page of the document; None if none did."""
        pages, confidence = self.metadata.get("ocr_pages"), self.metadata.get("ocr_confidence")
        if not isinstance(confidence, float | int) or not isinstance(pages, tuple):
            return None
        return float(confidence) if page is None or str(page) in pages else None


@dataclass(frozen=True, slots=True)
class Persona:
    """A reader to write for; the text fields from ``audience`` on are inserted into the prompt.

    Attributes:
        model: Overrides the project's generator for this persona.
    """

    name: str
    audience: str = ""
    technical_density: str = ""
    language_complexity: str = ""
    answer_length: str = ""
    writing_style: str = ""
    extra_instructions: str = ""
    model: str = ""


@dataclass(frozen=True, slots=True)
class Citation:
    """A source mark ``[marker]`` of an answer, resolved to source, page and span.

    ``ocr`` is the mean confidence (0 to 1) of its document's recognised text where the cited page
    was read by OCR, None where the file itself holds the text.
    """

    marker: int
    source: str
    document_id: str
    chunk_id: str
    title: str
    page: int | None
    start: int
    end: int
    ocr: float | None = None


@dataclass(frozen=True, slots=True)
class Snippet:
    """A part of a passage that is shown where no chat model writes an answer.

    Attributes:
        text: Whole units of the passage, with the header of a table whose row comes first.
        marked: First and last character (exclusive) of the best sentence, in ``text``.
        page: Page of the best sentence.
        start: First character in the document; likewise ``end``, exclusive.
        heading: Title and headings above it.
        score: Share of the question's words that it holds with its headings, by rarity, 0 to 1.
        chunk_id: The passage.
        unit: First and last character (exclusive) of the best unit, in ``text``.
    """

    text: str
    marked: tuple[int, int]
    document_id: str
    source: str
    page: int | None
    start: int
    end: int
    heading: str
    score: float
    chunk_id: str = ""
    unit: tuple[int, int] = (0, 0)


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens, money and time of one or more model calls.

    ``cost`` is None where no price is known. ``seconds`` is the time the calls took when they were
    made, added up; a reply that is known already keeps the time it once took.
    """

    calls: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost: float | None = None
    seconds: float = 0.0

    def __add__(self, other: Usage) -> Usage:
        """Sum; a cost unknown on either side with calls makes the sum unknown."""
        cost: float | None
        if self.calls == 0:
            cost = other.cost
        elif other.calls == 0:
            cost = self.cost
        elif self.cost is None or other.cost is None:
            cost = None
        else:
            cost = self.cost + other.cost
        return Usage(
            self.calls + other.calls,
            self.prompt_tokens + other.prompt_tokens,
            self.completion_tokens + other.completion_tokens,
            cost,
            round(self.seconds + other.seconds, 3),
        )


@dataclass(frozen=True, slots=True)
class AnswerPromise:
    """What a certified risk of wrong answers says about one answer.

    Attributes:
        line: One sentence for the reader.
        certificate: Name of the certificate in the folder ``promises``.
        threshold: Least score of an answer that is shown.
        score: Score of this answer; None for an abstention, and where it cannot be computed.
        holds: True if the certificate covers this answer.
    """

    line: str
    certificate: str
    threshold: float
    score: float | None = None
    holds: bool = False


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer with everything needed to check it.

    Attributes:
        text: Answer with ``[n]`` marks; a sentence that says so if it abstains.
        abstained: True if nothing in the context answers the question.
        snippets: Without a chat model, the parts of passages that match best, best first.
        citations: Resolved marks, in order of first use.
        hits: The context, in prompt order.
        route: How the context was found (``index`` for now) and ``route_reason`` why.
        model: Model identity; ``snippet`` means that no chat model is set.
        cached: True where every paid reply came from the reply store.
        prompt: Messages sent, role and content; empty without a chat model.
        usage: Sum over the answer's calls.
        finish: How the model's reply ended: ``stop``, ``length`` where it was cut, ….
        notes: Notes for the reader on what was dropped, unresolved or substituted.
        promise: The certified risk of wrong answers; None without a certificate.
    """

    question: str
    text: str
    persona: str = ""
    abstained: bool = False
    citations: tuple[Citation, ...] = ()
    hits: tuple[Hit, ...] = ()
    route: str = "index"
    route_reason: str = ""
    model: str = ""
    cached: bool = False
    prompt: tuple[tuple[str, str], ...] = ()
    usage: Usage = Usage()
    notes: tuple[str, ...] = ()
    finish: str = "stop"
    snippets: tuple[Snippet, ...] = ()
    promise: AnswerPromise | None = None

    def __repr__(self) -> str:
        """The beginning of the text, the persona, and the number of citations."""
        return (
            f"<Answer {shorten_text(self.text)!r}"
            f"{f' persona={self.persona!r}' if self.persona else ''}"
            f" citations={len(self.citations)}{' abstained' if self.abstained else ''}>"
        )

    def _repr_html_(self) -> str:
        """The text with its sources, for a notebook."""
        head = ("", "source", "page", "characters")
        lines = ((f"[{c.marker}]", c.source, c.page, f"{c.start}-{c.end}") for c in self.citations)
        return f"<p>{escape(self.text)}</p>" + (html_table(head, lines) if self.citations else "")
