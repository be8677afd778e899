"""Sentences of passages, and the lists, tables and blocks that they belong to."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from ..core import Hit, Span, late_pattern
from ..models import WordTokenizer, sentence_spans

SentenceKind: TypeAlias = Literal["prose", "item", "row", "title"]


@dataclass(frozen=True, slots=True)
class Sentence:
    """A sentence of a hit that may be quoted.

    Attributes:
        number: The hit's number from 1.
        span: Its position in the document.
        text: The quoted text: one line, without links and footnote numbers of the source.
        heading: Title and headings above it; for a row of a table also the header row.
        weight: Share of its score that counts: 1 for a whole sentence of prose, less for a
            table row, a list item, a fragment, or a sentence cut by a chunk's border.
        kind: What it is part of; ``title`` is a heading with a list, a table or code right below.
        block: Number of its paragraph, list or table in its hit.
        bullet: The number or mark of a list item, empty for its further sentences.
        opens: The headings directly above it, without other text between.
        header: Header row of a table's row, as span and text.
        code: Span of the fenced code that directly follows.
    """

    number: int
    document_id: str
    span: Span
    text: str
    heading: str
    weight: float = 1.0
    kind: SentenceKind = "prose"
    block: int = 0
    bullet: str = ""
    opens: str = ""
    header: tuple[Span, str] | None = None
    code: Span | None = None


_HEADING = re.compile(r"(#{1,6})\s+(.*)")
_FENCE = re.compile(r"```|~~~")
_FENCE_LINE = re.compile(r"^[ \t]*(?:```+|~~~+)[ \t]*(\w*).*$", re.MULTILINE)
_FRONT = re.compile(r"\ufeff?---\n.*?\n(?:---|\.\.\.)\s*(?:\n|$)", re.DOTALL)
_RULE = re.compile(r"[\s|:=_*~+>-]*$")
_CODE = re.compile(r"(?://|#include|/\*|\*/|<\?|@\w+\()|.*[{};]\s*$|.*\)\s*//", re.DOTALL)
_BULLET = re.compile(r"(?:>\s*)*(?:(?:[-*•◦▪‣]|\d{1,3}[.)])\s+)?")
_LINK = re.compile(r"!?\[([^\[\]]*)\]\([^()\s]*(?:\s+\"[^\"]*\")?\)")
_FOOTNOTE = re.compile(r"\s?\[(?:\d{1,3}|note \d+|citation needed)\]")
_STOP = re.compile(r"[.!?…。！？][\"'”’»)\]*_`]*$")
_QUOTE_MARK = re.compile(r"\\?\n[ \t]*(?:>[ \t]?)*")
_TABLE_RULE = re.compile(r"[ \t]*\|?[ \t]*:?-+:?[ \t]*(?:\|[ \t:-]*)+$")
_BLANK = re.compile(r"\n[ \t>]*\n")
_CAPTION = re.compile(
    r"[:：]$|\b(?:following|below|examples?|samples?|exemples?|suivante?s?|folgende[nrs]?"
    r"|beispiele?|siguientes?|ejemplos?|seguent[ei]|esemp[io]|seguintes?|exemplos?|volgende"
    r"|voorbeeld)\b",
    re.IGNORECASE,
)
_CAPTION_WEIGHT = 0.4
_BARE = re.compile(
    r"(?:this|that|these|those|the|see|ceci|cela|voir|dies(?:e[rs]?)?|siehe|esto"
    r"|véase)[.,:;*_)\]]*",
    re.IGNORECASE,
)
"""A word that says nothing alone: what a table, a link or a page break left of a sentence."""
_REFERENCE = re.compile(
    r"\^ |.*(?:\bdoi:\s*10\.|https?://(?:dx\.)?doi\.org/|\bISBN[\s:]*[\dX-]{10}"
    r"|\bISSN[\s:]*\d{4}-"
    r"|\barXiv:\d{4}\.\d)|.*\(PDF\)\.?$|[A-Z][\w'’-]+, (?:[A-Z]\.?[ -]?)+.{0,80}"
    r"\((?:19|20)\d{2}(?:-\d{2}){0,2}[a-z]?\)\.?$"
)
_ENTRY = re.compile(
    r"\^ |(?:[A-Z][\w'’-]+,? (?:[A-Z]\.[ -]?)+(?:,? (?:and|&|et) |, )?)+(?:et al\.,? )?\(?\d{4}"
    r"|.*\bRetrieved (?:on )?(?:\d|[A-Z][a-z]+ \d)"
)
"""A sentence, and a short line, of a bibliography: years and names there would pass for answers."""
_MAYBE_ENTRY = re.compile(r"^\^ |\d{4}|\(PDF\)")
"""What every entry holds; quick to look for."""
_LONGEST_ENTRY = 400
_REFERENCE_WEIGHT = 0.3
_TITLE_WEIGHT = 0.5
_LINE_WORDS, _LINE_WEIGHT = 10, 0.3
"""A short line without an end: a heading of a file whose headings are not marked."""
_ABOUT_ITSELF = late_pattern(
    r"(?:for (?:more|further|other|details|an example)\b[^.]{0,60}, )?"
    r"(?:see|refer to|siehe|voir|véase) "
    r"|(?:this|the following) (?:page|article|section|chapter|document|topic"
    r"|guide)s? (?:explains?|describes?"
    r"|links?|lists?|contains?|covers?|shows?|discusses)\b"
    r"|dieser? (?:seite|artikel|abschnitt|kapitel) (?:erklärt|beschreibt|enthält|zeigt)\b"
    r"|cett?e? (?:page|article|section|chapitre) (?:explique|décrit|contient|montre|présente)\b"
    r"|est[ea] (?:página|artículo|sección|capítulo) (?:explica|describe|contiene|muestra)\b",
    re.IGNORECASE,
)
"""A sentence that says what its page is about or where to read on, and not what is so."""
_ELSEWHERE = late_pattern(
    r"^(?:see also|related|further reading|references?|external links|contents"
    r"|in this (?:article|section)"
    r"|voir aussi|siehe auch|véase también|vedi anche|zie ook|articles? connexes|weblinks)\b",
    re.IGNORECASE,
)
_FEWEST_WORDS = 3
"""Of a fragment that may be quoted."""


def split_sentences(hits: Sequence[Hit]) -> list[Sentence]:
    """Sentences of the hits in hit order; one in several overlapping hits is taken once.

    Headings, rules, code and front matter are context, not sentences.
    """
    sentences_found: list[Sentence] = []
    earlier: list[tuple[Hit, list[Sentence]]] = []
    for number, hit in enumerate(hits, 1):
        shared = [
            sentence.span
            for before, sentences in earlier
            if before.document_id == hit.document_id and hit.start < before.end
            if before.start < hit.end
            for sentence in sentences
            if sentence.span.end > hit.start
        ]
        new = [
            s
            for s in _Reader(number, hit).read()
            if not any(_overlaps_mostly(s.span, o) for o in shared)
        ]
        earlier.append((hit, new))
        sentences_found += new
    return sentences_found


class _Reader:
    """Reads one hit from top to bottom, with the headings and the table above each sentence."""

    def __init__(self, number: int, hit: Hit) -> None:
        self._number, self._hit = number, hit
        # Levels of the headings above the hit are not stored; those of Markdown start at the title.
        first = 1 if hit.headings[:1] == (hit.title,) else 2
        self._path = list(enumerate(hit.headings, first))
        self._above = self._joined_path()
        self._opened = [hit.title] if hit.start == 0 else []
        self._header: tuple[Span, str] | None = None
        self._block, self._end = 0, 0
        self._fence: int | None = None
        self._title: Span | None = None
        self._sentences: list[Sentence] = []

    def read(self) -> list[Sentence]:
        """The sentences of the hit, in text order."""
        text = self._hit.text
        skip = _code_before(text) if self._hit.start else 0
        spans = [Span(skip + s.start, skip + s.end) for s in sentence_spans(text[skip:])]
        front = _FRONT.match(text)
        begin = front.end() if front and self._hit.start == 0 else 0
        for i, span in enumerate(spans):
            raw = text[span.start : span.end]
            title = _HEADING.match(raw)
            if _FENCE.match(raw):
                self._enter_fence(span)
            elif self._fence is not None or span.end <= begin:
                continue
            elif title:
                self._enter_heading(len(title[1]), title[2])
                self._title = Span(span.start + title.start(2), span.start + title.end(2))
            elif _RULE.match(raw):
                self._enter_rule(raw)
            elif not _CODE.match(raw):
                first = i == 0 and self._hit.start > 0
                self._add_sentence(span, first, last=i == len(spans) - 1 and i > 0)
        return self._sentences

    def _enter_heading(self, level: int, title: str) -> None:
        """Enter a heading; it closes those of its level and below."""
        self._path = [(above, name) for above, name in self._path if above < level]
        self._path.append((level, title))
        self._above = self._joined_path()
        self._opened.append(title)
        self._next_block()

    def _joined_path(self) -> str:
        return " ".join(dict.fromkeys((self._hit.title, *(name for _, name in self._path))))

    def _next_block(self) -> None:
        self._block += 1
        self._header = None

    def _enter_fence(self, span: Span) -> None:
        """Enter or leave a fence: the sentence before the first one is a caption of the code up to
        the second.
        """
        if self._fence is None:
            self._under_title()
        caption = self._sentences[-1] if self._sentences else None
        if caption is not None and caption.block != self._block:
            caption = None
        if self._fence is None:
            self._fence = span.start
            if caption is not None and _CAPTION.search(caption.text):
                weight = min(caption.weight, _CAPTION_WEIGHT)
                self._sentences[-1] = replace(caption, weight=weight)
            return
        if caption is not None:
            start = self._hit.start
            self._sentences[-1] = replace(caption, code=Span(start + self._fence, start + span.end))
        self._fence = None
        self._opened = []
        self._next_block()

    def _under_title(self) -> None:
        """Take the heading right above what follows as its lead-in."""
        span, self._title = self._title, None
        if span is None or not self._opened:
            return
        text = _quoted_line(self._hit.text[span.start : span.end])
        if not text or _ELSEWHERE.match(text):
            return
        start = self._hit.start
        title_span = Span(start + span.start, start + span.end)
        opens = " ".join(dict.fromkeys(self._opened))
        self._sentences.append(
            Sentence(
                self._number,
                self._hit.document_id,
                title_span,
                text,
                self._above,
                _TITLE_WEIGHT,
                "title",
                self._block,
                opens=opens,
            )
        )

    def _enter_rule(self, raw: str) -> None:
        """Enter the rule of a table: the row before it is the header of the rows below."""
        last = self._sentences[-1] if self._sentences else None
        if _TABLE_RULE.match(raw) and last and last.kind == "row" and last.block == self._block:
            self._sentences.pop()
            self._header = last.span, last.text

    def _add_sentence(self, span: Span, first: bool, last: bool) -> None:
        """Add a sentence, unless nothing of it can be shown."""
        hit = self._hit
        raw = hit.text[span.start : span.end]
        bullet = _BULLET.match(raw)
        skipped = len(bullet[0]) if bullet else 0
        text = _quoted_line(raw[skipped:])
        if not text or _BARE.fullmatch(text):
            return
        weight = _REFERENCE_WEIGHT if _is_reference(text, hit.text, span) else None
        mark = bullet[0].strip("> \t\r\n") if bullet else ""
        if mark or text.startswith("|"):
            self._under_title()
        self._title = None
        kind = self._kind_at(span, text, mark)
        torn = (first and text[0].islower()) or (last and not (_STOP.search(text) or "|" in text))
        opens = " ".join(dict.fromkeys(self._opened)) if self._opened else ""
        if kind == "prose" and not opens and not _STOP.search(text) and _too_short(text):
            return  # what a page break left of a sentence
        self._opened, self._end = [], span.end
        sentence = Sentence(
            self._number,
            hit.document_id,
            Span(hit.start + span.start + skipped, hit.start + span.end),
            text,
            f"{self._above} {self._header[1]}" if self._header else self._above,
            weight or _unit_weight(text, torn, kind, opens),
            kind,
            self._block,
            mark,
            opens,
            self._header,
        )
        self._sentences.append(sentence)

    def _kind_at(self, span: Span, text: str, mark: str) -> SentenceKind:
        """Return the kind of a sentence; another kind or an empty line begins a block."""
        before = self._sentences[-1] if self._sentences else None
        if before is not None and before.block != self._block:
            before = None
        gap = self._hit.text[self._end : span.start]
        blank = gap.count("\n") > 1 and bool(_BLANK.search(gap))
        kind: SentenceKind = "row" if text.startswith("|") else "item" if mark else "prose"
        if before is None:
            return kind
        if before.kind == "title":
            self._next_block()
            return kind
        if kind == "prose" and before.kind == "item" and (not blank or gap[-1:] in " \t"):
            kind = "item"
        if kind != before.kind or (blank and kind != "item"):
            self._next_block()
        return kind


def _code_before(text: str) -> int:
    """Start of the prose in a chunk that begins inside fenced code; 0 in any other chunk.

    The first fence is then a closing one: the next one opens with a language, or, without one, most
    lines before it look like code.
    """
    fences = list(_FENCE_LINE.finditer(text))
    first_named = next((n for n, fence in enumerate(fences) if fence[1]), None)
    if not fences or first_named == 0:
        return 0
    if first_named is not None:
        torn = first_named % 2 == 1
    else:
        lines = [line for line in text[: fences[0].start()].splitlines() if line.strip()]
        torn = 2 * sum(bool(_CODE.match(line.strip())) for line in lines) > len(lines)
    return fences[0].end() if torn else 0


def _quoted_line(raw: str) -> str:
    """A sentence as it is quoted: one line, without link targets and footnote numbers.

    A footnote's ``[3]`` in a quote would read as a citation of the third passage.
    """
    flat = _QUOTE_MARK.sub("\n", raw) if "\n" in raw else raw
    return " ".join(_FOOTNOTE.sub("", _LINK.sub(r"\1", flat)).split())


def _unit_weight(text: str, torn: bool, kind: SentenceKind, opens: str) -> float:
    """Weight of a unit's score; set by hand, since the fitted data is prose."""
    if torn:
        return 0.7
    if _ABOUT_ITSELF.match(text):
        return 0.4
    if _STOP.search(text):
        return 1.0
    if kind == "row":
        return 0.9
    if text.endswith((":", "：")):
        return 0.6
    if kind == "prose" and opens:
        return 0.9
    if kind == "prose" and text.count(" ") < _LINE_WORDS:
        return _LINE_WEIGHT
    return 0.8 if kind == "item" else 0.5


def _is_reference(text: str, page_text: str, span: Span) -> bool:
    """True in an entry of a bibliography; its line is read, since its parts end like sentences."""
    if _MAYBE_ENTRY.search(text) and _REFERENCE.match(text):
        return True
    end = page_text.find("\n", span.start)
    line = page_text[page_text.rfind("\n", 0, span.start) + 1 : end if end >= 0 else len(page_text)]
    if not _MAYBE_ENTRY.search(line):
        return False
    line = _quoted_line(line)
    return len(line) <= _LONGEST_ENTRY and bool(_ENTRY.match(line))


def _too_short(text: str) -> bool:
    """True for a word or two; scripts without spaces count as whole sentences."""
    return text.isascii() and text.count(" ") < _FEWEST_WORDS - 1 and not text.endswith(":")


def _overlaps_mostly(first: Span, second: Span) -> bool:
    return first.overlap(second) * 2 > min(first.length, second.length)


_COUNTER = WordTokenizer()
_PARAGRAPH_WORDS = 60
"""Words of a paragraph that follow a lead-in."""

_NUMBER = (
    r"one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|several|deux|trois"
    r"|quatre|cinq"
    r"|six|sept|huit|neuf|dix|plusieurs|zwei|drei|vier|fünf|sechs|sieben|acht|neun|zehn|mehrere"
    r"|dos|tres|cuatro|cinco|seis|siete|ocho|nueve|diez|varios|varias"
)
_COUNTS = (
    r"^\W*(?:there (?:are|is) |these |the |les |die |los |las )?"
    rf"(?:{_NUMBER})\b(?:\W+\w+){{1,11}}\W*$"
)
_ANNOUNCES = late_pattern(
    r"[:：]$|\b(?:following|as follows|below|listed|suivante?s?|ci-dessous|folgende[nrs]?"
    r"|siguientes?"
    r"|seguenti|seguintes|volgende)\b"
    r"|\b(?:table|tableau|tabelle|tabla|tabella|tabela) \d"
    rf"|{_COUNTS}",
    re.IGNORECASE,
)
_COUNTED = late_pattern(_COUNTS, re.IGNORECASE)
_TABLE_CAPTION = late_pattern(
    r"^(?:table|tableau|tabelle|tabla|tabella|tabela|listing|example) \d", re.IGNORECASE
)
_LABEL = re.compile(r"\*\*[^*]{1,80}\*\*[.:]?$|__[^_]{1,80}__[.:]?$")
_NUMBERED = re.compile(r"\d{1,3}[.)]")


def whole(sentences: Sequence[Sentence], at: int) -> tuple[Sentence, ...]:
    """Return the sentences that the one at a place announces, in text order; empty if it stands
    alone.

    A heading, a sentence that ends with a colon and one that names what follows ("Table 2 lists",
    "Four things go wrong.") lead to the list or table below them; a colon and a line in bold also
    to the paragraph below, and a number of things to the rest of their paragraph; an item that
    begins with a line in bold to its further sentences.
    """
    lead = sentences[at]
    following = sentences[at + 1 : at + 3]
    label = bool(_LABEL.match(lead.text))
    if lead.kind in ("item", "row") or (label and _same_block(lead, following[:1])):
        return _rest_of_block(sentences, at) if label else ()
    if not following or following[0].number != lead.number:
        return ()
    if _same_block(lead, following[:1]):
        return (
            _rest_of_block(sentences, at)
            if lead.kind == "prose" and _COUNTED.match(lead.text)
            else ()
        )
    start = at + 1
    captioned = len(following) > 1 and following[1].kind == "row" and following[0].kind == "prose"
    if captioned and _TABLE_CAPTION.match(following[0].text):
        start += 1
    first = sentences[start]
    adjacent = first.block <= lead.block + (1 if start == at + 1 else 2)
    if not adjacent or first.kind == "title":
        return ()
    if first.kind == "prose":
        ends = lead.text.endswith((":", "：")) and lead.kind == "prose" and not lead.code
        return _rest_of_block(sentences, at, start) if (ends or label) and not first.opens else ()
    if lead.kind != "title" and not (label or _ANNOUNCES.search(lead.text)):
        return ()
    return (*sentences[at + 1 : start], *_list_or_table(sentences, start))


def has_steps(sentences: Sequence[Sentence], at: int) -> bool:
    """True where a command, code or numbered steps follow a sentence."""
    if sentences[at].code:
        return True
    return any(_NUMBERED.match(s.bullet) for s in whole(sentences, at)[:1])


def _list_or_table(sentences: Sequence[Sentence], start: int) -> tuple[Sentence, ...]:
    """The rows of one table, or the items of one list; code between numbered items ends none."""
    first = sentences[start]
    run: list[Sentence] = []
    for sentence in sentences[start:]:
        if (sentence.number, sentence.kind) != (first.number, first.kind):
            break
        goes_on = sentence.block == first.block
        if first.kind == "item" and _NUMBERED.match(first.bullet) and sentence.bullet:
            goes_on = bool(_NUMBERED.match(sentence.bullet))
        elif first.kind == "item" and run:
            goes_on = sentence.block == run[-1].block
        if not goes_on or sentence.heading != first.heading:
            break
        run.append(sentence)
    return tuple(run)


def _rest_of_block(sentences: Sequence[Sentence], at: int, start: int = 0) -> tuple[Sentence, ...]:
    """The sentences of an item or a paragraph from a place on, up to a number of words."""
    start = start or at + 1
    first = sentences[start] if start < len(sentences) else None
    rest: list[Sentence] = []
    size = 0
    for sentence in sentences[start:] if first else ():
        same_block = (
            (sentence.number, sentence.block) == (first.number, first.block) if first else False
        )
        size += _COUNTER.count(sentence.text)
        if not same_block or (rest and (size > _PARAGRAPH_WORDS or sentence.bullet)):
            break
        if start == at + 1 and sentence.bullet and sentences[at].kind == "item":
            break
        rest.append(sentence)
    return tuple(rest)


def _same_block(lead: Sentence, others: Sequence[Sentence]) -> bool:
    return any((o.number, o.block, o.kind) == (lead.number, lead.block, lead.kind) for o in others)
