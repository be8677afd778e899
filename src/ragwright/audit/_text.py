"""What every detector needs of a document: its address, its statements, its lines."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from ..core import Document, Page
from ..models import is_code, sentence_spans, words
from ..retrieve import Glossary
from ._records import Finding, Place

_FENCE = re.compile(r"^\s*(?:```|~~~)")
_ROW = re.compile(r"^\s*\|.*\|\s*$")
_RULE = re.compile(r"^\s*\|\s*:?-+:?\s*(?:\|\s*:?-+:?\s*)*\|?\s*$")
_LISTED = re.compile(r"^\s*(?:[-*+•]|\d{1,3}[.)])\s+")
_LINK = re.compile(r"!?\[([^\]\n]*)\]\([^)\n]*\)")
LINK = re.compile(r"(?<!!)\[(?P<text>[^\]\n]{1,200})\]\((?P<to>[^)\s]+)(?:\s+\"[^\"]*\")?\)")
"""A link in Markdown; images are none."""


@dataclass(frozen=True, slots=True)
class DocumentLine:
    """A line of a document: its characters, and what it is."""

    text: str
    start: int
    code: bool = False

    @property
    def end(self) -> int:
        """End of the line, exclusive."""
        return self.start + len(self.text)

    @property
    def row(self) -> bool:
        """True for a row of a table in Markdown."""
        return not self.code and _ROW.match(self.text) is not None

    @property
    def rule(self) -> bool:
        """True for the line between the head of a table and its rows."""
        return self.row and _RULE.match(self.text) is not None


@dataclass(frozen=True, slots=True)
class Brief:
    """What is remembered of a document once it has been read."""

    number: int
    id: str
    source: str
    title: str
    date: str
    pages: tuple[Page, ...] = ()

    def page_at(self, position: int) -> int | None:
        """Number of the page of a character; None without pages."""
        at = bisect_right(self.pages, position, key=lambda page: page.span.start) - 1
        return self.pages[at].number if at >= 0 else None


@dataclass(slots=True)
class AuditCorpus:
    """The documents of an audit: what is remembered of each, and how to read one again.

    ``read`` returns the text of a document; it is called for the few places of findings alone.
    """

    read: Callable[[str], Document | None]
    briefs: list[Brief] = field(default_factory=list)
    numbers: dict[str, int] = field(default_factory=dict)
    _last: tuple[int, str] = (-1, "")

    def add(self, document: Document) -> Brief:
        """Remember a document."""
        brief = Brief(
            len(self.briefs),
            document.id,
            document.source,
            document.title,
            document.modified or document.created,
            document.pages,
        )
        self.briefs.append(brief)
        self.numbers[brief.id] = brief.number
        return brief

    def text(self, number: int) -> str:
        """Text of a document, read again."""
        if self._last[0] != number:
            document = self.read(self.briefs[number].id)
            self._last = number, document.text if document else ""
        return self._last[1]

    def place(self, number: int, start: int, end: int, text: str = "") -> Place:
        """A place of a document, with its text."""
        brief = self.briefs[number]
        content = text or self.text(number)[start:end]
        return Place(brief.id, brief.source, start, end, content[:2_000], brief.page_at(start))


def lines_of(text: str) -> Iterator[DocumentLine]:
    """The lines of a text, those of code blocks marked."""
    start, fenced = 0, False
    for line in text.split("\n"):
        fence = _FENCE.match(line) is not None
        yield DocumentLine(line, start, fenced or fence)
        fenced = fenced != fence
        start += len(line) + 1


def cells_of(line: DocumentLine) -> list[str]:
    """Cells of a row."""
    return [cell.strip() for cell in line.text.strip().strip("|").split("|")]


def statements_of(lines: Sequence[DocumentLine], language: str) -> Iterator[tuple[int, int, str]]:
    """Sentences and items of lists outside tables, headings and code: start, end, text."""
    at = 0
    while at < len(lines):
        line = lines[at]
        if line.code or line.row or not line.text.strip() or line.text.lstrip().startswith("#"):
            at += 1
            continue
        last = at + 1
        while last < len(lines) and _continues(lines[last]):
            last += 1
        block = "\n".join(part.text for part in lines[at:last])
        for span in sentence_spans(block, language):
            sentence = block[span.start : span.end]
            if len(sentence) > 12:
                yield line.start + span.start, line.start + span.end, sentence
        at = last


def _continues(line: DocumentLine) -> bool:
    text = line.text
    return bool(text.strip()) and not (
        line.code or line.row or text.lstrip().startswith("#") or _LISTED.match(text)
    )


def strip_markdown(text: str) -> str:
    """A statement without the marks of Markdown, on one line."""
    return " ".join(_LINK.sub(r"\1", text).replace("*", "").replace("`", "").split())


def widen(text: str, start: int, end: int, most: int) -> tuple[int, int]:
    """Return a span with up to ``most`` characters of its line on both sides."""
    first, last = text.rfind("\n", 0, start) + 1, text.find("\n", end)
    return max(first, start - most), min(len(text) if last < 0 else last, end + most)


_FAMILY = 4
"""Defined codes of one shape from which another one of that shape should be defined too."""
_DEFINED_SHARE = 0.5
"""Share of the codes of a shape that are defined; below it the corpus defines none on purpose."""
_STRONG = ("row", "line", "below", "heading")
_NUMBERS = re.compile(r"\d+")
_DIGIT = re.compile(r"\d")
_NAME = re.compile(r"(?<![\w./@#-])[^\W_][\w-]*[^\W_](?![\w/@])")


@dataclass(slots=True)
class _Use:
    document: int
    start: int
    end: int
    uses: int = 0


class Codes:
    """Collects uses of codes, and compares them with the mined definitions."""

    def __init__(self, corpus: AuditCorpus) -> None:
        self._corpus = corpus
        self._codes: dict[str, _Use] = {}
        self._rows: set[str] = set()
        self._headed: set[str] = set()
        self._loose: set[str] = set()

    def read(self, document: Document, brief: Brief, lines: Sequence[DocumentLine]) -> None:
        """Count the codes of a document's prose."""
        for line in lines:
            if line.code or not line.text.strip():
                continue
            if line.row and not line.rule:
                first = cells_of(line)[0].split()
                self._rows.update(word.strip("`*") for word in (*first[:1], *first[-1:]))
            links = [match.span() for match in LINK.finditer(line.text)]
            for match in _NAME.finditer(line.text):
                word = match[0]
                if _DIGIT.search(word) is None or not is_code(word, written=True):
                    continue
                if line.text.lstrip().startswith("#"):
                    self._headed.add(word)
                if not any(start <= match.start() < end for start, end in links):
                    self._loose.add(word)
                # An end of a range: *C2000 through C3999* names all of them, not this code.
                if not (
                    _BEFORE_RANGE.search(line.text[: match.start()])
                    or _AFTER_RANGE.match(line.text[match.end() :])
                ):
                    start, end = (line.start + at for at in match.span())
                    use = self._codes.setdefault(word, _Use(brief.number, start, end))
                    use.uses += 1

    def findings(
        self, glossary: Glossary, dead: Collection[tuple[int, int, int]] = ()
    ) -> Iterator[Finding]:
        """Codes without a definition, of a shape of which others have one.

        Args:
            glossary: Definitions that were mined from the same documents.
            dead: Links that are reported already: number of the document, start, end. A code that
                is used within them alone is not reported a second time.
        """
        strong = {term for term, all_of in glossary.entries.items() if all_of[0].rule in _STRONG}
        families = Counter(_shape(term) for term in strong if _shape(term))
        used = Counter(_shape(code) for code in self._codes)
        defined = {term.casefold() for term in (*glossary.entries, *self._rows)}
        for code, use in self._codes.items():
            shape = _shape(code)
            if not shape or code.casefold() in defined or families[shape] < _FAMILY:
                continue
            if code not in self._loose and any(
                number == use.document and start <= use.start < end for number, start, end in dead
            ):
                continue
            example = min(term for term in strong if _shape(term) == shape)
            around = widen(self._corpus.text(use.document), use.start, use.end, 200)
            yield Finding(
                "codes",
                "undefined code",
                "medium",
                (self._corpus.place(use.document, *around),),
                f"{code} is used {'once' if use.uses == 1 else f'{use.uses} times'} and defined "
                "nowhere, while "
                f"{families[shape]:,} codes like {example} are defined.",
                f"Add a definition of {code}, or correct it if it is a typing error.",
                families[shape] >= _DEFINED_SHARE * max(1, used[shape])
                and code not in self._headed,
                {"term": code, "uses": use.uses},
                subject=code,
            )


def _shape(code: str) -> str:
    """A code with its digits replaced: ``C2065`` -> ``C0000``; empty if it has no letter part."""
    if not re.fullmatch(r"[A-Za-z][A-Za-z_-]*\d{2,}|[A-Z]+[-_]\d+", code):
        return ""
    return _NUMBERS.sub(lambda match: "0" * len(match[0]), code)


_BEFORE_RANGE = re.compile(r"(?:\bthrough|\bto|\bbis|[-–—])\s*[`*(]*$", re.IGNORECASE)
_AFTER_RANGE = re.compile(r"^[`*)]*\s*(?:through\b|to\b|bis\b|[-–—])", re.IGNORECASE)


_RUN = 5
_VALUES, _ROWS = 64, 4
"""Values of a signature, and values of a band: pairs of similarity 0.5 share one with 0.64, those
of 0.8 with more than 0.999."""
_LEAST = 40
"""Words of the shortest text that is compared."""
_LEAST_SIMILARITY = 0.8
"""Share of common runs of words from which two texts are near copies."""

_MOST_IN_BAND = 200
"""Texts with an equal band; of more, each is compared with the next alone."""
_YEAR = re.compile(r"(?<!\d)(?:19|20)\d{2}(?!\d)")

_Shingles = NDArray[np.uint64]


@dataclass(frozen=True, slots=True)
class _HashedText:
    """A document or a section of one, and the hashes of its runs of words."""

    document: int
    start: int
    end: int
    whole: bool
    shingles: _Shingles


def shingles_of(tokens: Sequence[str], numbers: dict[str, int]) -> _Shingles:
    """Sorted hashes of the runs of five words, each once.

    ``numbers`` holds a number for each word met so far, and gets the new ones.
    """
    ids = np.fromiter(
        (numbers.setdefault(token, len(numbers) + 1) for token in tokens), np.uint64, len(tokens)
    )
    if len(ids) < _RUN:
        return np.empty(0, np.uint64)
    runs = np.zeros(len(ids) - _RUN + 1, np.uint64)
    for offset in range(_RUN):  # a polynomial modulo 2^64, mixed below
        runs = runs * np.uint64(0x9E3779B97F4A7C15) + ids[offset : offset + len(runs)]
    runs ^= runs >> np.uint64(29)
    runs *= np.uint64(0xBF58476D1CE4E5B9)
    runs ^= runs >> np.uint64(32)
    return np.unique(runs)


class Copies:
    """Collects the texts of a corpus, and pairs those that are alike."""

    def __init__(self, corpus: AuditCorpus) -> None:
        self._corpus = corpus
        self._texts: list[_HashedText] = []
        self._signatures: list[_Shingles] = []
        self._numbers: dict[str, int] = {}
        random = np.random.default_rng(0)
        self._factors = random.integers(1, 2**63, _VALUES, np.uint64) | np.uint64(1)
        self._terms = random.integers(0, 2**63, _VALUES, np.uint64)

    def read(self, document: Document, brief: Brief, lines: Sequence[DocumentLine]) -> None:
        """Remember the runs of words of a document and of its longer sections."""
        size = len(document.text)
        starts = sorted({section.span.start for section in document.sections})
        parts = [part for part in pairwise([*starts, size]) if part != (0, size)]
        longer = [(start, end) for start, end in parts if end - start > 6 * _LEAST]
        for start, end in ((0, size), *longer):
            tokens = words(document.text[start:end].casefold())
            if len(tokens) < _LEAST:
                continue
            shingles = shingles_of(tokens, self._numbers)
            signature = np.empty(_VALUES, np.uint64)
            for number in range(_VALUES):
                hashed = shingles * self._factors[number] + self._terms[number]
                signature[number] = (hashed >> np.uint64(20)).min()
            self._signatures.append(signature)
            whole = (start, end) == (0, size)
            self._texts.append(_HashedText(brief.number, start, end, whole, shingles))

    def _candidates(self) -> set[tuple[int, int]]:
        pairs: set[tuple[int, int]] = set()
        for band in range(0, _VALUES, _ROWS):
            buckets: dict[bytes, list[int]] = {}
            for number, signature in enumerate(self._signatures):
                buckets.setdefault(signature[band : band + _ROWS].tobytes(), []).append(number)
            for numbers in buckets.values():
                reach = len(numbers) if len(numbers) <= _MOST_IN_BAND else 2
                for at, first in enumerate(numbers):
                    pairs.update((first, second) for second in numbers[at + 1 : at + reach])
        return pairs

    def findings(self) -> Iterator[Finding]:
        """Copies: one finding for each text that repeats an earlier one."""
        best: dict[int, tuple[float, int]] = {}
        for first, second in sorted(self._candidates()):
            a, b = self._texts[first], self._texts[second]
            if a.document == b.document or a.whole != b.whole:
                continue
            common = len(np.intersect1d(a.shingles, b.shingles, assume_unique=True))
            alike = common / max(1, len(a.shingles) + len(b.shingles) - common)
            if alike >= _LEAST_SIMILARITY and (second not in best or alike > best[second][0]):
                best[second] = (alike, first)
        copied = {
            (self._texts[a].document, self._texts[b].document)
            for b, (_, a) in best.items()
            if self._texts[b].whole
        }
        for second, (alike, first) in sorted(best.items()):
            a, b = self._texts[first], self._texts[second]
            if a.whole or (a.document, b.document) not in copied:
                yield self._copy_finding(a, b, alike)

    def _copy_finding(self, first: _HashedText, second: _HashedText, alike: float) -> Finding:
        briefs = self._corpus.briefs
        a, b = briefs[first.document], briefs[second.document]
        exact = alike == 1.0
        what = "document" if first.whole else "section"
        newer = _newer(a, b)
        order = f"; {newer} is newer" if newer else "; nothing says which is newer"
        # Titles that name different codes: pages of one template on two things.
        codes = [
            {word.casefold() for word in words(brief.title) if is_code(word, written=True)}
            for brief in (a, b)
        ]
        degree = "equals" if exact else f"repeats {alike:.0%} of"
        return Finding(
            "copies",
            "exact copy" if exact else "near copy",
            "medium" if first.whole or not exact else "low",
            (
                self._corpus.place(first.document, first.start, first.end),
                self._corpus.place(second.document, second.start, second.end),
            ),
            f"The {what} in {b.source} {degree} the one in {a.source}{order}.",
            "Keep one of them, the newer where both are versions of one text, and leave the other "
            "out of the sources.",
            exact or not (codes[0] and codes[1] and codes[0] != codes[1]),
            {"similarity": round(alike, 3), "newer": newer, "unit": what},
        )


def _newer(a: Brief, b: Brief) -> str:
    """Source of the newer of two documents, by their dates, else by years in their names."""
    if a.date and b.date and a.date[:10] != b.date[:10]:
        return (a if a.date > b.date else b).source
    years = [max(_YEAR.findall(f"{brief.source} {brief.title}"), default="") for brief in (a, b)]
    if all(years) and years[0] != years[1]:
        return (a if years[0] > years[1] else b).source
    return ""
