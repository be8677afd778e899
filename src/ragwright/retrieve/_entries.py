"""Entries of printed lists: a code, its title and its text, up to the next code.

Manuals set them in a few forms: the code on a line of its own with title and text as blocks below
it (also where the code has a label, ``Error code: E42``), the code in a heading, or the code at the
beginning of the line of its title. Codes of one list have one shape (``APP_w304``, ``BLS_w307``),
which parts them from codes that a text only mentions.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Literal, TypeAlias

from ..models import is_code, words

EntryForm: TypeAlias = Literal["alone", "heading", "line", "run"]

LEAST_ENTRIES = 5
"""Distinct codes of one shape from which a corpus has entries."""

_LEAST_ALIKE: Mapping[EntryForm, int] = {"alone": 1, "heading": 1, "line": 1, "run": 3}
"""Codes of one shape in a text from which a line in this form begins an entry."""

_LEAST_WEAK = 3
"""The same for numbers and for letters with a number (``F 10``), which are mostly no codes."""

_TITLE_WORDS = 12
_LEAST_WORDS = 3
_LABELS = (
    r"(?:error|fault|warning|alarm|status|message|event|trouble|code|no|nr|fehler|störung|warnung"
    r"|meldung|fehlercode|erreur|défaut|panne|alarme|alerte|avertissement|numéro|aviso|fallo"
    r"|avería|código|número)"
)
_LINE = re.compile(
    r"^(?P<lead>[ \t>]*(?:(?P<heading>\#{1,6})[ \t]+|[-*+•][ \t]+)?[*_`\"']{0,3}"
    rf"(?:{_LABELS}[ \t]*[:.#]?[ \t]*){{0,2}}[*_`\"']{{0,3}}[ \t]*)"
    r"(?P<code>[A-Z]{1,2}[ ]\d{1,4}(?![\w/.-])|[^\W_](?:[\w.-]{0,38}\w)?(?![\w/.-]*\w))"
    r"(?P<rest>[*_`\"']{0,3}.*)$",
    re.IGNORECASE | re.MULTILINE,
)
_SEPARATOR = re.compile(r"[*_`\"']{0,3}[ \t]*(?::|=|[ \t][-–—](?=\s))[ \t]*[*_`\"']{0,3}[ \t]*")
_NOTHING = re.compile(r"[*_`\"':.]{0,4}[ \t]*(?:#.*)?$")
_STOPPED = re.compile(r"[.!?:;,…。！？][\"'”’)]?\s*$")
HEADING_LINE = re.compile(r"^\s{0,3}#{1,6}\s+", re.MULTILINE)
_BLANK = re.compile(r"\n[ \t]*\n")
_FIELD = re.compile(
    r"^[ \t>]*(?:[-*+•][ \t]+)?[\"']?(?P<key>[^\W\d_]+)[\"']?[ \t]*:[ \t]+(?P<value>.+)$"
)
_TITLED = re.compile(
    r"(?:title|name|message|text|description|meaning|titel|bezeichnung|meldung|beschreibung|titre|nom"
    r"|signification|título|nombre|mensaje|descripción)$",
    re.IGNORECASE,
)
_YEAR = re.compile(r"(?:1[5-9]|20)\d\d$")
_VERSION = re.compile(r"[vV]?\d+(?:\.\d+)+\w*$")


@dataclass(frozen=True, slots=True)
class ListEntry:
    """An entry of a list in a text.

    Attributes:
        code: As written.
        form: How it is set.
        shape: The kinds of characters of its code, ``A_a0`` for ``APP_w304``.
        title: What names it in words; empty where there is only a text.
        start: First character of its line; likewise ``end``, exclusive, of its text.
        body: First character after its code.
        weak: True for a number, or letters with one, which are mostly no codes.
    """

    code: str
    form: EntryForm
    shape: str
    title: str
    start: int
    body: int
    end: int
    weak: bool = False

    @property
    def key(self) -> tuple[str, str]:
        """The list that it belongs to."""
        return self.form, self.shape


def read_entries(text: str, *, least: int = 1) -> list[ListEntry]:
    """Entries of a text, in its order.

    Args:
        text: A document, or a part of one.
        least: Distinct codes of one shape from which they are a list.
    """
    starts = list(_entry_starts(text))
    codes = _codes_by_list(starts)
    starts = [
        start
        for start in starts
        if len(codes[start.key])
        >= max(least, _LEAST_ALIKE[start.form], _LEAST_WEAK if start.weak else 1)
    ]
    entries: list[ListEntry] = []
    empty: ListEntry | None = None
    last = {start.key: at for at, start in enumerate(starts)}
    for at, start in enumerate(starts):
        end = starts[at + 1].start if at + 1 < len(starts) else len(text)
        if start.form == "heading" and last[start.key] == at:
            heading = HEADING_LINE.search(text, start.end, end)
            end = heading.start() if heading else end
        end = start.end + len(_without_title_below(text[start.end : end]).rstrip())
        body = text[start.end : end].strip()
        says = len(words(f"{start.title} {body}")) >= _LEAST_WORDS
        in_column = empty is not None and empty.key == start.key
        empty = None if says and not in_column else start
        if empty is None:
            entries.append(replace(start, title=start.title or _title_below(body), end=end))
    codes = _codes_by_list(entries)
    return [entry for entry in entries if len(codes[entry.key]) >= least]


def _codes_by_list(entries: Iterable[ListEntry]) -> Mapping[tuple[str, str], set[str]]:
    codes: dict[tuple[str, str], set[str]] = defaultdict(set)
    for entry in entries:
        codes[entry.key].add(entry.code)
    return codes


def _character_kind(char: str) -> str:
    if char.isdigit():
        return "0"
    if char.isalpha():
        return "A" if char.isupper() else "a"
    return char


def _entry_starts(text: str) -> Iterator[ListEntry]:
    """Lines that begin with a code and may begin an entry."""
    for match in _LINE.finditer(text):
        code, rest = match["code"], match["rest"]
        weak = not is_code(code, written=True)
        digits = any(char.isdigit() for char in code)
        if not digits or _VERSION.fullmatch(code) or (weak and not _may_be_weak(code)):
            continue
        form: EntryForm
        separator = _SEPARATOR.match(rest)
        if match["heading"]:
            form, rest = "heading", rest[separator.end() :] if separator else rest
        elif _NOTHING.match(rest):
            form, rest = "alone", ""
        elif separator and rest[separator.end() :].strip():
            form, rest = "line", rest[separator.end() :]
        elif (
            not weak
            and rest[:1] in " \t"
            and rest.strip()[:1].isupper()
            and len(rest.split()) <= _TITLE_WORDS
            and not _STOPPED.search(rest.strip())
        ):
            form = "run"
        else:
            continue
        if form == "alone" and _ends_sentence_above(text, match.start()):
            continue
        title = rest.strip(" \t*_`\"'")
        body = match.end("code") if title else match.end()
        # runs of letters and digits of one kind are one character of the shape
        kinds = groupby(code, _character_kind)
        shape = "".join(kind if kind in "Aa0" else "".join(run) for kind, run in kinds)
        yield ListEntry(code, form, shape, title, match.start(), body, match.end(), weak)


def _may_be_weak(code: str) -> bool:
    """True for a number of four to six digits that is not a year, and for ``F 10``."""
    if code.isdigit():
        return 4 <= len(code) <= 6 and not _YEAR.match(code)
    letters, _, number = code.partition(" ")
    return letters.isupper() and number.isdigit()


def _ends_sentence_above(text: str, start: int) -> bool:
    """True where a line is the end of a sentence that began above it."""
    if start < 2 or text[start - 2] == "\n":
        return False
    line = text[text.rfind("\n", 0, start - 1) + 1 : start - 1]
    if not line.strip() or _STOPPED.search(line) or HEADING_LINE.match(line):
        return False
    return bool(re.search(r"\w", line)) and line.strip()[-1:].islower()


def _title_below(below: str) -> str:
    """The title in the first line, or in a field, of the text below a code."""
    lines = [line.strip() for line in below.splitlines() if line.strip()]
    fields = [match for line in lines[:6] if (match := _FIELD.match(line))]
    titled = next((match["value"] for match in fields if _TITLED.match(match["key"])), "")
    if titled:
        return titled.strip("\"' ")
    first = lines[0].lstrip("# ").strip("*_` ") if lines else ""
    is_title = len(lines) > 1 and len(first.split()) <= _TITLE_WORDS and not _STOPPED.search(first)
    return first if is_title else ""


def _without_title_below(text: str) -> str:
    """A text without its last block where that is the title of the next chapter."""
    blocks = list(_BLANK.finditer(text.rstrip()))
    if len(blocks) < 2:
        return text
    last = text[blocks[-1].end() :].strip()
    before = text[: blocks[-1].start()].strip()
    is_title = len(last.split()) <= _TITLE_WORDS and "\n" not in last and not _STOPPED.search(last)
    return text[: blocks[-1].start()] if is_title and _STOPPED.search(before) else text
