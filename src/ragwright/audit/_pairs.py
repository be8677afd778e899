"""Pairs of statements that are alike and not equal: a judge decides which contradict each other."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from ..core import Document, count_noun, text_hash
from ..models import stop_words, words
from ._records import Finding, Place
from ._text import AuditCorpus, Brief, DocumentLine, statements_of, strip_markdown, widen

_STOP = stop_words("en") | stop_words("de") | stop_words("fr") | stop_words("es")
_LEAST = 3
"""Content words of a statement that is compared."""
_ALIKE = 0.6
"""Share of the content words of both that two statements have in common."""
_MOST_PAIRS = 100
"""Most pairs that the judge reads."""

_MOST_WITH_WORD = 200
"""Statements that share a word; a more frequent word proposes no pair."""


@dataclass(frozen=True, slots=True)
class _Statement:
    document: int
    start: int
    end: int
    text: str
    content: frozenset[str]


@dataclass(slots=True)
class Pairs:
    """Collects the statements of a corpus, and pairs those that share most of their words."""

    corpus: AuditCorpus
    _statements: list[_Statement] = field(default_factory=list)

    def read(self, document: Document, brief: Brief, lines: Sequence[DocumentLine]) -> None:
        """Remember the statements of a document."""
        for start, end, sentence in statements_of(lines, document.language):
            text = strip_markdown(sentence)
            content = frozenset(
                word for word in words(text.casefold()) if word not in _STOP and len(word) > 1
            )
            if len(content) >= _LEAST and not text.endswith("?"):
                self._statements.append(_Statement(brief.number, start, end, text, content))

    def findings(self) -> Iterator[Finding]:
        """Candidates, the most alike first, at most ``most``."""
        alike = sorted(self._alike(), key=lambda pair: (-pair[0], pair[1], pair[2]))
        for _, first, second in alike[:_MOST_PAIRS]:
            places = (
                self.corpus.place(s.document, s.start, s.end)
                for s in (self._statements[first], self._statements[second])
            )
            yield Finding(
                "contradictions",
                "statement",
                "high",
                tuple(places),
                "Both passages speak of the same thing, and at most one of them can be right.",
                "Find out which one holds, correct the other or say when each applies.",
                sure=False,
            )

    def _alike(self) -> Iterator[tuple[float, int, int]]:
        """(share of common words, numbers of two statements): of each text only the first."""
        by_word: dict[str, list[int]] = defaultdict(list)
        seen: set[str] = set()
        for number, statement in enumerate(self._statements):
            key = " ".join(words(statement.text.casefold()))
            if key in seen:
                continue
            seen.add(key)
            shared: dict[int, int] = defaultdict(int)
            for word in statement.content:
                if len(by_word[word]) < _MOST_WITH_WORD:
                    for other in by_word[word]:
                        shared[other] += 1
                    by_word[word].append(number)
            for other, count in shared.items():
                known = len(statement.content | self._statements[other].content)
                if count >= _ALIKE * known:
                    yield count / known, other, number


_MOJIBAKE = re.compile(
    r"(?:Ã[\u0080-\u00bf\u0192\u2018-\u201e\u0152-\u0178]|â€[\u0080-\u00bf\u2018-\u2122\u0153œ™]|"
    r"Â[\u00a0-\u00bf]|Ð[\u0080-\u00bf°±²³µ-¿]|ï¿½|\ufffd{1,}|\(cid:\d+\))"
)
_HYPHEN = re.compile(r"(?<![\w-])(?P<left>[^\W\d_]{2,})[-\u00ad](?:[ \t]*\n[ \t]*|[ ])"
                     r"(?P<right>[^\W\d_]{2,})(?![\w-])")  # fmt: skip
_SUSPENDED = "and or und oder bzw et ou y o e to bis nor as"
_HANGING = frozenset(_SUSPENDED.split())
"""Words after a hyphen that is meant: "long- and short-term"."""
_OCR_CONFIDENCE = 0.8
"""Mean confidence of OCR below which a document is reported."""

_BOILERPLATE_PAGES = 10
"""Documents or pages from which a repeated line is boilerplate."""

_SHORT = 5
"""Letters of a page up to which it has no text."""
_LEAST_LINE = 5
"""Words of the shortest line that counts as boilerplate."""


class Damage:
    """Collects damage document by document, and lines that repeat."""

    def __init__(self, corpus: AuditCorpus) -> None:
        self._corpus = corpus
        self._ready: list[Finding] = []
        self._hyphens: list[tuple[int, int, int, str, str]] = []
        self._vocabulary: Counter[str] = Counter()
        self._lines: dict[str, tuple[int, int, int]] = {}
        self._line_pages: Counter[str] = Counter()

    def read(self, document: Document, brief: Brief, lines: Sequence[DocumentLine]) -> None:
        """Look at a document."""
        self._ready += self._empty_pages(document, brief)
        self._ready += self._mojibake(document, brief, lines)
        self._ready += self._ocr(document, brief)
        self._vocabulary.update(word.casefold() for word in words(document.text) if word.isalpha())
        for match in _HYPHEN.finditer(document.text):
            if match["right"].islower() and match["right"] not in _HANGING:
                self._hyphens.append(
                    (brief.number, match.start(), match.end(), match["left"], match["right"])
                )
        self._count_lines(brief, lines)

    def findings(self) -> Iterator[Finding]:
        """Damage of single documents, then hyphens, then boilerplate."""
        yield from self._ready
        yield from self._hyphenation()
        total = sum(max(1, len(brief.pages)) for brief in self._corpus.briefs)
        for key, pages in self._line_pages.items():
            if pages < _BOILERPLATE_PAGES:
                continue
            yield _damaged(
                "boilerplate",
                "low",
                (self._corpus.place(*self._lines[key]),),
                f"The same line, apart from numbers, is on {pages:,} of {total:,} pages: its words "
                "match questions about any of them.",
                "Remove headers, footers and legal notices before the ingest.",
                marks={"pages": pages},
                sure=pages >= 0.2 * total,
                subject=key,
            )

    def _empty_pages(self, document: Document, brief: Brief) -> Iterator[Finding]:
        text = document.text
        if not any(c.isalnum() for c in text):
            yield _damaged(
                "no text",
                "high",
                (self._corpus.place(brief.number, 0, len(text), " "),),
                f"{brief.source} has no text at all: no question can find it.",
                "Read it by OCR (ocr in the project file), or remove it from the sources.",
            )
            return
        empty = [
            page
            for page in document.pages
            if sum(c.isalnum() for c in text[page.span.start : page.span.end]) <= _SHORT
        ]
        if empty and len(empty) < len(document.pages):
            numbers = ", ".join(str(page.number) for page in empty[:12])
            places = tuple(
                Place(brief.id, brief.source, p.span.start, p.span.end, "", p.number)
                for p in empty[:12]
            )
            yield _damaged(
                "page without text",
                "medium",
                places,
                f"{count_noun(len(empty), 'page')} of {len(document.pages)} in {brief.source} "
                f"{'has' if len(empty) == 1 else 'have'} no text: {numbers}.",
                "Look at the pages: if they are scans, read them by OCR; if they are blank, "
                "dismiss this finding.",
                marks={"pages": [page.number for page in empty]},
                subject=f"{brief.id} {numbers}",
            )

    def _mojibake(
        self, document: Document, brief: Brief, lines: Sequence[DocumentLine]
    ) -> Iterator[Finding]:
        coded = [line for line in lines if line.code]
        hits = [
            match
            for match in _MOJIBAKE.finditer(document.text)
            if not any(line.start <= match.start() < line.end for line in coded)
        ]
        if hits:
            first, count = hits[0], len(hits)
            start, end = widen(document.text, first.start(), first.end(), 100)
            yield _damaged(
                "mojibake",
                "medium",
                (self._corpus.place(brief.number, start, end, document.text[start:end]),),
                f"{brief.source} has {count_noun(count, 'character')} that were read in the wrong "
                f"encoding, such as «{first[0]}».",
                "Save the source in UTF-8, or read it again with the right encoding.",
                marks={"count": count, "example": first[0]},
                sure=first[0] != "\ufffd" or count > 1,
            )

    def _ocr(self, document: Document, brief: Brief) -> Iterator[Finding]:
        confidence = document.metadata.get("ocr_confidence")
        if not isinstance(confidence, int | float) or isinstance(confidence, bool):
            return
        if confidence < _OCR_CONFIDENCE:
            end = min(len(document.text), 300)
            yield _damaged(
                "poor OCR",
                "medium",
                (self._corpus.place(brief.number, 0, end, document.text[:end]),),
                f"OCR read {brief.source} with a mean confidence of {confidence:.2f}, below "
                f"{_OCR_CONFIDENCE:g}.",
                "Scan it again at 300 dpi or more, or correct the text by hand.",
                marks={"confidence": round(float(confidence), 3)},
            )

    def _hyphenation(self) -> Iterator[Finding]:
        """Words that a line end has cut: the joined word is in the corpus, the pieces are not."""
        cut: dict[int, list[tuple[int, int, str]]] = defaultdict(list)
        for number, start, end, left, right in self._hyphens:
            joined = (left + right).casefold()
            pieces = [self._vocabulary[piece.casefold()] for piece in (left, right)]
            if self._vocabulary[joined] and self._vocabulary[joined] >= min(pieces) - 1:
                cut[number].append((start, end, left + right))
        for number, hits in cut.items():
            brief = self._corpus.briefs[number]
            start, end, word = hits[0]
            yield _damaged(
                "hyphenation",
                "low",
                tuple(self._corpus.place(number, a, b) for a, b, _ in hits[:5]),
                f"{brief.source} has {count_noun(len(hits), 'word')} with the hyphen of a line "
                "end, "
                f"such as {word!r}: a search for the word does not find them.",
                "Read the source again without line ends, or join the words.",
                marks={"count": len(hits), "words": [word for _, _, word in hits[:12]]},
            )

    def _count_lines(self, brief: Brief, lines: Sequence[DocumentLine]) -> None:
        seen: set[tuple[str, int | None]] = set()
        for line in lines:
            text = line.text.strip()
            if line.code or line.row or len(text) < 25 or text.startswith("#"):
                continue
            if len(text.split()) < _LEAST_LINE or not any(c.isalpha() for c in text):
                continue
            key = text_hash(re.sub(r"\d+", "0", text))[:16]
            at = (key, brief.page_at(line.start))
            if at not in seen:
                seen.add(at)
                self._line_pages[key] += 1
                self._lines.setdefault(key, (brief.number, line.start, line.end))


def _damaged(
    fault: str, severity: str, places: tuple[Place, ...], why: str, what_to_do: str, **more: object
) -> Finding:
    return Finding("damage", fault, severity, places, why, what_to_do, **more)  # type: ignore[arg-type]
