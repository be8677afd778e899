"""Answer a question about a code with the whole entry that the code heads.

Manuals list codes with a title and a text ("APP_w304", "Accelerator pedal", what to do). Sentences
of an entry hardly share a word with "I see APP_w304 on my dashboard, what to do?", so that scoring
by words finds none of them; the code itself says which entry is meant.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ..core import Citation, Hit, Persona, late_pattern, neutral
from ..models import WordTokenizer, answer_kind, sentence_spans
from ..retrieve import Entry, read_entries
from ._citations import citation

ENTRY = "quoted offline: the entry of the code, whole; no model wrote this"

_MOST = 3
"""Entries quoted for one code: printers of several makes share codes."""
_ELSEWHERE = frozenset({"person", "time", "place"})
"""Kinds of answers that an entry gives only by chance: its sentences are scored like others."""
_HEADING = re.compile(r"^\s{0,3}#{1,6}\s+|[*_`]{2,3}", re.MULTILINE)
_APART = re.compile(r"[-*+•|]\s|\d{1,3}[.)]\s|\w+:\s")
"""Beginnings of items, rows and fields."""
_MARKS = late_pattern(r"^[\s#*_`\"':.=–—-]+|[\s*_`\"']+$")
_COUNTER = WordTokenizer()


@dataclass(frozen=True, slots=True)
class CodeAnswer:
    """The entries of the codes of a question, as text with citations."""

    text: str
    citations: tuple[Citation, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _QuotedEntry:
    """An entry, the number of its hit, and the part of it that is quoted."""

    entry: Entry
    number: int
    hit: Hit
    body: str
    end: int
    cut: bool


def answer_from_entries(
    question: str, hits: Sequence[Hit], persona: Persona, *, headed: bool = False
) -> CodeAnswer | None:
    """The entries of the codes that a question names; None if no hit holds one whole.

    With ``headed`` entries below a Markdown heading count too: sentences of such sections are
    scored with their headings, so that the entry is needed only where none of them is enough.

    Every code of the question that heads an entry is answered. Where several entries have it, up
    to three with different texts are quoted, in the order of their hits.
    """
    if answer_kind(question) in _ELSEWHERE:
        return None
    by_code: dict[str, list[_QuotedEntry]] = {}
    for number, hit in enumerate(hits, 1):
        for entry in read_entries(hit.text):
            if (headed or entry.form != "heading") and _names_code(entry.code, question):
                _add_entry(by_code.setdefault(entry.code.casefold(), []), entry, number, hit)
    if not by_code:
        return None
    room = max(1, persona.max_words // len(by_code))
    chosen = []
    notes: list[str] = []
    for entries in by_code.values():
        best = entries[:_MOST]
        chosen += [_fitted_entry(quoted, room // len(best)) for quoted in best]
        if len(entries) > 1:
            notes.append(
                f"{entries[0].entry.code} has {len(entries)} entries in the passages found"
            )
    if any(quoted.cut for quoted in chosen):
        notes.append(f"entries are cut at {persona.max_words} words (the persona's max_words)")
    citations = tuple(
        citation(
            quoted.number,
            quoted.hit,
            quoted.hit.start + quoted.entry.start,
            quoted.hit.start + quoted.end,
        )
        for quoted in chosen
    )
    text = "\n\n".join(map(_entry_text, chosen))
    return CodeAnswer(text, citations, (ENTRY, *notes))


def _names_code(code: str, question: str) -> bool:
    """True where a question holds a code as a word of its own."""
    parts = r"\s+".join(map(re.escape, code.split()))
    return bool(re.search(rf"(?<![\w.-]){parts}(?![\w-]|\.\w)", question, re.IGNORECASE))


def _add_entry(entries: list[_QuotedEntry], entry: Entry, number: int, hit: Hit) -> None:
    """Add an entry, or replace the same one in an overlapping hit that holds less of it."""
    body = hit.text[entry.body : entry.end]
    flat = " ".join(body.split())
    start = hit.start + entry.start
    for at, earlier in enumerate(entries):
        is_same = (earlier.hit.document_id, earlier.hit.start + earlier.entry.start) == (
            hit.document_id,
            start,
        )
        if is_same and len(earlier.body) >= len(body):
            return
        if is_same:
            entries[at] = _QuotedEntry(entry, number, hit, body, entry.end, cut=False)
            return
        if " ".join(earlier.body.split()) == flat:
            return
    entries.append(_QuotedEntry(entry, number, hit, body, entry.end, cut=False))


def _fitted_entry(quoted: _QuotedEntry, room: int) -> _QuotedEntry:
    """An entry of at most so many words, and at least its first sentence."""
    if _COUNTER.count(quoted.body) <= room:
        return quoted
    words = 0
    end = None
    for span in sentence_spans(quoted.body):
        words += _COUNTER.count(quoted.body[span.start : span.end])
        if end is not None and words > room:
            break
        end = span.end
    if end is None:
        return quoted
    return _QuotedEntry(
        quoted.entry,
        quoted.number,
        quoted.hit,
        quoted.body[:end],
        quoted.entry.body + end,
        cut=True,
    )


def _entry_text(quoted: _QuotedEntry) -> str:
    """The code and its title on a line, the text below it, with the citation mark."""
    lines = quoted.body.strip().splitlines()
    first = _MARKS.sub("", lines[0]) if lines else ""
    titled = bool(quoted.entry.title) and first == _MARKS.sub("", quoted.entry.title)
    head = f"{quoted.entry.code}: {first}" if titled else quoted.entry.code
    text = "\n".join(_joined_paragraphs(lines[titled:]))
    return f"{neutral(head)}{chr(10) if text else ''}{neutral(text)} [{quoted.number}]"


def _joined_paragraphs(lines: Sequence[str]) -> Iterator[str]:
    """Paragraphs as one line each; items, fields and rows stay on lines of their own."""
    pending: list[str] = []
    for line in (*lines, ""):
        text = " ".join(_HEADING.sub("", line).split())
        if pending and (not text or _APART.match(text)):
            yield " ".join(pending)
            pending = []
        pending += [text] if text else []
