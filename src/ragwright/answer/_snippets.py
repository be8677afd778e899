"""Snippets: what `ask` shows without a chat model, and when it shows nothing.

A passage is cut at its headings into sections, and a section into whole units: the entry of a code,
a definition item with its term, a list or a code block with its lead-in, a row of a table, else a
paragraph. A long section is cut to windows of units: the one that holds most of the question's
words, weighed by their rarity in the index, then the best of what is left before and after it. The
best windows of all sections are shown; words of the headings count.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from ..core import Answer, Hit, Persona, Snippet, Span, Term, neutral
from ..ingest import markdown_headings
from ..models import (
    NO_MODEL,
    Analyzer,
    detect_language,
    fold,
    is_code,
    sentence_spans,
    stop_words,
    words,
)
from ..retrieve import read_entries
from ._marks import citation

NO_MODEL_LINE = "No chat model is set: these passages match best."
UNTAILORED = "the same for every persona: tailoring needs a chat model (answer.model)"

_LONGEST, _MOST = 900, 2500
"""Most characters of a snippet, and of all that are shown."""
_PASSAGES, _SHOWN = 5, 3
"""Passages that are read, and sections that are shown."""
_UNSEEN = 100
"""Chunks that an index is taken to have more than it has: in a small one every word is rare."""

_ASKED_WITH = """
much many long often far old mean get kind sort happen combien temps faut age viel viele lange hoch
gross wann wo oft alt bedeutet heisst lautet nennt finde bekomme woher wohin woran worum wodurch
womit worauf worin wovon wozu wofur weshalb wieso wessen wen mucho mucha muchos muchas cuanto tiempo
quanto quanti tempo hoeveel lang vaak
"""
_ASKING = frozenset(_ASKED_WITH.split())
"""Words that ask for a quantity, a time, a place, a name or a cause: no answer repeats them."""

_FENCE = re.compile(r"[ \t]*(`{3,}|~{3,})")
_BULLET = re.compile(r"[ \t>]*(?:[-*+•◦▪‣]|\(?\d{1,3}[.)])[ \t]+")
_RULE = re.compile(r"[ \t]*\|[ \t:|-]*-[ \t:|-]*$")
_DEFINES = re.compile(r"[ \t]*:[ \t]+")
_STOP = re.compile(r"[.!?…。！？][\"'”’»)\]*_`]*$")
_LABEL = 80
"""Most characters of a line without a stop that leads in what is below it."""
_STEM = 5
"""Letters that two forms of a word begin with, and that a part of a compound has at least."""
_INVERTED = re.compile(r"-(?:t-)?(?:ils?|elles?|on|je|tu|nous|vous|ce)\b")
"""Pronouns that French sets behind the verb of a question."""

_TEXT, _HEADED, _UNIT, _OPENS = 0.2, 0.5, 0.1, 0.03
"""Weights of a window: the share of words in its text, with its headings, and in its best unit; and
what it gains where it opens a section."""
_RANK, _FIRST, _BEGINS, _CODE = 0.3, 0.05, 0.1, 2.0
"""What a section gains by the rank of its passage, as its first section, as the beginning of the
document, and if a code of the question heads it. The weights were set on development
questions."""


@dataclass(frozen=True, slots=True)
class _Block:
    """Lines that belong together, of one kind: ``text``, ``item``, ``row`` or ``code``."""

    span: Span
    kind: str
    depth: float


@dataclass(frozen=True, slots=True)
class _Unit:
    """A whole unit of a passage's text, and the header of the table whose row it is."""

    span: Span
    header: str = ""


@dataclass(frozen=True, slots=True)
class _Window:
    """A part of a passage that may be shown; ``share`` is that of the question's words."""

    hit: Hit
    headings: tuple[str, ...]
    units: tuple[_Unit, ...]
    order: float
    share: float = 1.0

    def overlaps(self, other: _Window) -> bool:
        """True if both show a part of the same document."""
        (start, end), (first, last) = (
            (w.hit.start + w.units[0].span.start, w.hit.start + w.units[-1].span.end)
            for w in (self, other)
        )
        return self.hit.document_id == other.hit.document_id and start < last and first < end


class QuestionWords:
    """The content words of a question, each with its tokens and its weight.

    Args:
        text: The question.
        terms: Its terms in the index, with their rarity; other words count alike.
        analyzer: Cuts texts into tokens, that of the index.
    """

    def __init__(self, text: str, terms: Sequence[Term], analyzer: Analyzer) -> None:
        self.analyzer = analyzer
        self._counts = {term.token: term.chunks for term in terms}
        self._size = max((math.exp(t.idf) * (t.chunks + 0.5) for t in terms), default=1.0)
        language = detect_language([text], least=2)
        text = _INVERTED.sub("", text) if language in ("fr", "auto") else text
        idle = _ASKING | stop_words("none" if language == "auto" else language)
        known = {w: t for w in dict.fromkeys(words(text)) if (t := analyzer.tokens(w))}
        self.words = {w: t for w, t in known.items() if fold(w.casefold()) not in idle} or known
        self._weights = {word: self._weight(tokens) for word, tokens in self.words.items()}
        self._total = sum(self._weights.values()) or 1.0
        names = [word.casefold() for word in words(text)]
        names = [*names, *map(" ".join, pairwise(names))]
        self.codes = {name for name in names if any(map(str.isdigit, name))}
        whole = {word: tokens[0] for word, tokens in self.words.items()}
        self._long = {w: t for w, t in whole.items() if len(t) >= _STEM and t.isalpha()}
        self._end = {token[-_STEM:] for token in self._long.values()}

    def _weight(self, tokens: Sequence[str]) -> float:
        """Rarity of a word: that of the whole where the index has it, else of its rarest piece."""
        whole, *pieces = tokens
        looked_up = pieces if pieces and not self._counts.get(whole) else [whole]
        rarest = min(self._counts.get(token, 0) for token in looked_up)
        return math.log((self._size + _UNSEEN) / (rarest + 0.5)) if self._counts else 1.0

    def absent_words(self) -> tuple[str, ...]:
        """The words that no document has, as the user wrote them."""
        return tuple(
            word
            for word, (whole, *pieces) in self.words.items()
            if self._counts.get(whole) == 0 and not (pieces and all(map(self._counts.get, pieces)))
        )

    def words_in(self, text: str) -> frozenset[str]:
        """The question's words that a text contains, also in another form or in a compound.

        Two forms of a word begin alike, and a compound ends with its last part.
        """
        tokens = set(self.analyzer.tokens(text))
        exact = (
            word
            for word, (whole, *pieces) in self.words.items()
            if whole in tokens or (pieces and tokens.issuperset(pieces))
        )
        begin = {token[:_STEM] for token in tokens}
        end = [token for token in tokens if token[-_STEM:] in self._end]
        forms = (
            word
            for word, whole in self._long.items()
            if whole[:_STEM] in begin
            or any(token.endswith(whole) or whole.endswith(token) for token in end)
        )
        return frozenset((*forms, *exact))

    def names_code(self, headings: Sequence[str]) -> bool:
        """True if a code of the question stands in one of these headings."""
        tokens = self.analyzer.tokens(" ".join(headings)) if self.codes else ()
        return any(
            whole in tokens and word.casefold() in self.codes and is_code(word, written=True)
            for word, (whole, *_) in self.words.items()
        )

    def share(self, held: Collection[str]) -> float:
        """The part of the weight of all words that some of them have."""
        return sum(self._weights[word] for word in held) / self._total

    def coverage(self, text: str) -> float:
        """The weight of the words that a text holds, divided by it and the heaviest missing word.

        Long questions are rarely held word by word; one rare word that is missing counts.
        """
        held = self.words_in(text)
        weight = sum(self._weights[word] for word in held)
        lacks = max((self._weights[word] for word in self.words if word not in held), default=0.0)
        return weight / (weight + lacks or 1.0)


def choose_snippets(question: QuestionWords, hits: Sequence[Hit]) -> tuple[Snippet, ...]:
    """The best sections of the first passages, entries of the question's codes first."""
    windows = [w for at, hit in enumerate(hits[:_PASSAGES]) for w in _windows(question, hit, at)]
    windows.sort(key=lambda window: -round(window.order, 6))
    chosen: list[_Window] = []
    for window in windows:
        fits = sum(_length(w.units) for w in (*chosen, window)) <= _MOST
        if len(chosen) < _SHOWN and fits and not any(map(window.overlaps, chosen)):
            chosen.append(window)
    return tuple(_snippet(question, window) for window in chosen)


def _windows(question: QuestionWords, hit: Hit, at: int) -> Iterator[_Window]:
    """The windows of each section of a passage, and the entries of the question's codes."""
    sections = list(_sections(hit))
    for entry in read_entries(hit.text) if question.codes else ():
        if entry.code.casefold() in question.codes:
            unit = _Unit(Span(entry.start, min(entry.end, entry.start + _LONGEST)))
            order = _CODE + 1 + _RANK / (1 + at)
            inside = (names for names, parts in sections if parts[-1].span.end > entry.start)
            yield _Window(hit, next(inside, hit.headings), (unit,), order)
    for number, (headings, whole) in enumerate(sections):
        gain = _RANK / (1 + at) + (0 if number else _FIRST + (0 if hit.start else _BEGINS))
        parts = [whole]
        while parts:
            units = parts.pop()
            begins = () if number else _first_word(hit)
            named = units is whole and question.names_code((*headings[-1:], *begins))
            window = _best_window(question, hit, headings, units, _CODE if named else _OPENS)
            begin = units.index(window.units[0])
            parts += filter(None, (units[:begin], units[begin + len(window.units) :]))
            yield replace(window, order=window.order + gain)


def _first_word(hit: Hit) -> Sequence[str]:
    """The first word of a passage, if any: its code, if documents are cut by entries."""
    return hit.text.split(maxsplit=1)[:1]


def _best_window(
    question: QuestionWords,
    hit: Hit,
    headings: tuple[str, ...],
    units: tuple[_Unit, ...],
    opens: float,
) -> _Window:
    """The window with most of the question's words; the first window gains ``opens``."""
    above = question.words_in(" ".join(headings))
    held = [question.words_in(hit.text[unit.span.start : unit.span.end]) for unit in units]
    best: _Window | None = None
    end = 0
    for start in range(len(units)):
        end = max(end, start + 1)
        while end < len(units) and _length(units[start : end + 1]) <= _LONGEST:
            end += 1
        inside = frozenset().union(*held[start:end])
        share = question.share(inside | above)
        order = _HEADED * share + _TEXT * question.share(inside) + opens * (start == 0)
        order += _UNIT * max(map(question.share, held[start:end]))
        if best is None or order > best.order + 1e-9:
            best = _Window(hit, headings, units[start:end], order, share)
    assert best is not None  # a section has units
    return best


def _length(units: Sequence[_Unit]) -> int:
    """Characters that are shown of a window."""
    header = units[0].header
    return units[-1].span.end - units[0].span.start + (len(header) + 1 if header else 0)


def _snippet(question: QuestionWords, window: _Window) -> Snippet:
    """A window as it is shown: with the header of its table, and its best sentence marked."""
    hit, start, end = window.hit, window.units[0].span.start, window.units[-1].span.end
    lead = f"{window.units[0].header}\n".lstrip("\n")
    offset = len(lead) - start
    best = max(window.units, key=lambda unit: _word_share(question, hit.text, unit.span))
    inside = hit.text[best.span.start : best.span.end]
    sentences = [
        Span(best.span.start + s.start, best.span.start + s.end) for s in sentence_spans(inside)
    ]
    marked = max(sentences or [best.span], key=lambda s: _word_share(question, hit.text, s))
    return Snippet(
        lead + hit.text[start:end],
        (marked.start + offset, marked.end + offset),
        hit.document_id,
        hit.source,
        hit.page_at(hit.start + marked.start),
        hit.start + start,
        hit.start + end,
        " > ".join(window.headings),
        round(window.share, 6),
        hit.chunk_id,
        (best.span.start + offset, best.span.end + offset),
    )


def _word_share(question: QuestionWords, text: str, span: Span) -> float:
    return round(question.share(question.words_in(text[span.start : span.end])), 6)


def _sections(hit: Hit) -> Iterator[tuple[tuple[str, ...], tuple[_Unit, ...]]]:
    """The parts of a passage between its headings: the headings above each, and its units."""
    text, at = hit.text, 0
    # Levels of the headings above a passage are not stored; those of Markdown start at the title.
    path = list(enumerate(hit.headings, 1 if hit.headings[:1] == (hit.title,) else 2))
    for title, level, start in (*markdown_headings(text), ("", 0, len(text))):
        if blocks := list(_blocks(text, Span(at, max(at, start)))):
            names = filter(None, (hit.title, *(name for _, name in path)))
            yield tuple(dict.fromkeys(names)), tuple(_units(text, blocks, hit))
        path = [*((above, name) for above, name in path if above < level), (level, title)]
        at = _line_end(text, start)
        rule = text[at : _line_end(text, at)].strip()
        if rule and not rule.strip("=-") and not text[start:at].lstrip().startswith("#"):
            at = _line_end(text, at)  # the line below an underlined heading


def _line_end(text: str, at: int) -> int:
    return text.find("\n", at) + 1 or len(text)


def _blocks(text: str, part: Span) -> Iterator[_Block]:
    """Paragraphs, items, rows and fenced code of a section, each with its depth."""
    start, kind, before, fence = -1, "", 0, ""
    above: _Block | None = None
    at = part.start
    for raw in (*text[part.start : part.end].splitlines(keepends=True), "\n"):
        line = raw.rstrip()
        mark = None if fence and at < part.end else _FENCE.match(line)
        bars = line.lstrip().startswith("|") or line.endswith(" |")
        new = "code" if mark else "row" if bars else "text"
        new = "item" if new == "text" and _BULLET.match(line) else new
        indent = len(line) - len(line.lstrip(" \t>"))
        ends = not line or new != "text" or kind in ("row", "code") or indent < before
        if start >= 0 and ends and (not fence or at >= part.end):
            above = _block(text, Span(start, min(at, part.end)), kind, above)
            yield above
            start = -1
        if fence:
            closing = _FENCE.match(line)
            fence = "" if closing and closing[1].startswith(fence) else fence
        elif line and start < 0:
            start, kind, fence = at, new, mark[1] if mark else ""
        before = indent
        at += len(raw)


def _block(text: str, span: Span, kind: str, above: _Block | None) -> _Block:
    """A block, deeper than the one above it where that leads it in."""
    own = text[span.start : span.end].rstrip()
    depth = float(len(own) - len(own.lstrip(" \t>"))) + bool(_DEFINES.match(own))
    if above is not None:
        lead = text[above.span.start : above.span.end].strip()
        label = "\n" not in lead and len(lead) <= _LABEL and not _STOP.search(lead)
        leads = above.kind != "row" and (
            lead.endswith((":", "：")) or (above.kind == "text" and label)
        )
        goes_on = kind == above.kind == "item" and above.depth == depth + 0.5
        if kind == "code":
            depth = max(depth, above.depth + 0.5)
        elif leads or goes_on:
            depth += 0.5
    return _Block(Span(span.start, span.start + len(own)), kind, depth)


def _units(text: str, blocks: Sequence[_Block], hit: Hit) -> Iterator[_Unit]:
    """Blocks with what is set deeper below them, as long as that fits a snippet."""
    at = 0
    while at < len(blocks):
        end = at + 1
        if blocks[at].kind == "row":
            while end < len(blocks) and blocks[end].kind == "row":
                end += 1
            yield from _rows(text, blocks[at:end], hit)
        else:
            below = blocks[at].depth
            while end < len(blocks) and blocks[end].depth > below and blocks[end].kind != "row":
                end += 1
            yield from _split_to_fit(text, blocks[at:end])
        at = end


def _rows(text: str, rows: Sequence[_Block], hit: Hit) -> Iterator[_Unit]:
    """The rows of a table; the header is that of the chunk where the table began before it."""
    spans = [row.span for row in rows]
    if len(rows) > 1 and _RULE.match(text[spans[1].start : spans[1].end]):
        header = text[spans[0].start : spans[1].end]
        yield _Unit(Span(spans[0].start, spans[min(2, len(spans) - 1)].end))
        spans = spans[3:]
    else:
        header = f"| {hit.head.table} |" if hit.head is not None and hit.head.table else ""
    yield from (_Unit(span, header) for span in spans)


def _split_to_fit(text: str, blocks: Sequence[_Block]) -> Iterator[_Unit]:
    """One unit of a block and what is below it; if that is too long, its parts."""
    whole = Span(blocks[0].span.start, blocks[-1].span.end)
    if whole.length <= _LONGEST:
        yield _Unit(whole)
        return
    if len(blocks) == 1:
        for sentence in sentence_spans(text[whole.start : whole.end]):
            for start in range(sentence.start, sentence.end, _LONGEST):
                end = min(start + _LONGEST, sentence.end)
                yield _Unit(Span(whole.start + start, whole.start + end))
        return
    level = min(block.depth for block in blocks[1:])
    starts = [n for n, block in enumerate(blocks) if n and block.depth <= level]
    first = starts[1] if len(starts) > 1 else 0
    if first and blocks[first - 1].span.end - whole.start <= _LONGEST:
        starts = starts[1:]  # the first part stays with what leads it in
    for begin, end in pairwise((0, *starts, len(blocks))):
        yield from _split_to_fit(text, blocks[begin:end])


def snippet_answer(
    question: str,
    persona: Persona,
    hits: Sequence[Hit],
    terms: Sequence[Term] = (),
    analyzer: Analyzer | None = None,
    threshold: float = 0.7,
) -> Answer:
    """The snippets that answer a question, each cited; an abstention where no passage covers it.

    Args:
        question: A question that stands alone.
        persona: Named in the answer; the text is the same for all.
        hits: Passages, best first.
        terms: Terms of the question in the index.
        analyzer: That of the index.
        threshold: Share of the question's words that one passage must hold
            (:meth:`QuestionWords.coverage`).
    """
    asked = QuestionWords(question, terms, analyzer or Analyzer())
    blank = Answer(question, "", persona.name, hits=tuple(hits), model=NO_MODEL)
    notes = (UNTAILORED,) if persona.name else ()
    texts = (" ".join((hit.title, *hit.headings, hit.text)) for hit in hits[:_PASSAGES])
    share = max(map(asked.coverage, texts), default=0.0)
    named = asked.codes and any(
        asked.names_code((hit.title, *hit.headings, *_first_word(hit)))
        or any(entry.code.casefold() in asked.codes for entry in read_entries(hit.text))
        for hit in hits[:_PASSAGES]
    )
    if not share or (share < threshold and not named):
        return replace(blank, text=_refusal(asked, hits), abstained=True, notes=notes)
    snippets = choose_snippets(asked, hits)
    by_chunk = {hit.chunk_id: hit for hit in hits}
    blocks = []
    for number, snippet in enumerate(snippets, 1):
        fence = "\n```" if snippet.text.count("```") % 2 else ""
        blocks.append(f"{neutral(snippet.heading)} [{number}]\n{neutral(snippet.text)}{fence}")
    cited = (
        replace(citation(number, by_chunk[s.chunk_id], s.start, s.end), page=s.page)
        for number, s in enumerate(snippets, 1)
    )
    return replace(
        blank,
        text="\n\n".join((NO_MODEL_LINE, *blocks)),
        snippets=snippets,
        citations=tuple(cited),
        notes=notes,
    )


def _refusal(question: QuestionWords, hits: Sequence[Hit]) -> str:
    """The sentence of an abstention, with the words that are in no document."""
    absent = question.absent_words()
    reason = "No passage covers this question." if hits else "Nothing was found for this question."
    return f"{reason} In no document: {', '.join(absent)}." if absent else reason
