"""A code in the question that heads an entry: the answer is that entry, whole.

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
class _Found:
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
    found: dict[str, list[_Found]] = {}
    for number, hit in enumerate(hits, 1):
        for entry in read_entries(hit.text):
            if (headed or entry.form != "heading") and _is_named(entry.code, question):
                _add(found.setdefault(entry.code.casefold(), []), entry, number, hit)
    if not found:
        return None
    room = max(1, persona.max_words // len(found))
    chosen = []
    notes: list[str] = []
    for entries in found.values():
        shown = entries[:_MOST]
        chosen += [_fitted(one, room // len(shown)) for one in shown]
        if len(entries) > 1:
            notes.append(
                f"{entries[0].entry.code} has {len(entries)} entries in the passages found"
            )
    if any(one.cut for one in chosen):
        notes.append(f"entries are cut at {persona.max_words} words (the persona's max_words)")
    citations = tuple(
        citation(one.number, one.hit, one.hit.start + one.entry.start, one.hit.start + one.end)
        for one in chosen
    )
    text = "\n\n".join(map(_shown, chosen))
    return CodeAnswer(text, citations, (ENTRY, *notes))


def _is_named(code: str, question: str) -> bool:
    """True where a question holds a code as a word of its own."""
    parts = r"\s+".join(map(re.escape, code.split()))
    return bool(re.search(rf"(?<![\w.-]){parts}(?![\w-]|\.\w)", question, re.IGNORECASE))


def _add(found: list[_Found], entry: Entry, number: int, hit: Hit) -> None:
    """Add an entry, or replace the same one in an overlapping hit that holds less of it."""
    body = hit.text[entry.body : entry.end]
    plain = " ".join(body.split())
    start = hit.start + entry.start
    for at, other in enumerate(found):
        same = (other.hit.document_id, other.hit.start + other.entry.start) == (
            hit.document_id,
            start,
        )
        if same and len(other.body) >= len(body):
            return
        if same:
            found[at] = _Found(entry, number, hit, body, entry.end, cut=False)
            return
        if " ".join(other.body.split()) == plain:
            return
    found.append(_Found(entry, number, hit, body, entry.end, cut=False))


def _fitted(one: _Found, room: int) -> _Found:
    """An entry of at most so many words, and at least its first sentence."""
    if _COUNTER.count(one.body) <= room:
        return one
    taken = 0
    end = None
    for span in sentence_spans(one.body):
        taken += _COUNTER.count(one.body[span.start : span.end])
        if end is not None and taken > room:
            break
        end = span.end
    if end is None:
        return one
    return _Found(one.entry, one.number, one.hit, one.body[:end], one.entry.body + end, cut=True)


def _shown(one: _Found) -> str:
    """The code and its title on a line, the text below it, with the citation mark."""
    lines = one.body.strip().splitlines()
    first = _MARKS.sub("", lines[0]) if lines else ""
    titled = bool(one.entry.title) and first == _MARKS.sub("", one.entry.title)
    head = f"{one.entry.code}: {first}" if titled else one.entry.code
    text = "\n".join(_paragraphs(lines[titled:]))
    return f"{neutral(head)}{chr(10) if text else ''}{neutral(text)} [{one.number}]"


def _paragraphs(lines: Sequence[str]) -> Iterator[str]:
    """Paragraphs as one line each; items, fields and rows stay on lines of their own."""
    held: list[str] = []
    for line in (*lines, ""):
        text = " ".join(_HEADING.sub("", line).split())
        if held and (not text or _APART.match(text)):
            yield " ".join(held)
            held = []
        held += [text] if text else []
