"""The result of reading a file, the builder that keeps its spans exact, numbers as sheets show."""

from __future__ import annotations

import datetime
import functools
import itertools
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import ROUND_HALF_UP, Decimal, InvalidOperation
from typing import Any, NamedTuple, TypeAlias

from ..core import (
    Document,
    Metadata,
    Page,
    RagwrightError,
    Section,
    Span,
    UnsupportedSourceError,
    count_noun,
)
from ._encoding import clean_metadata, guess_language, iso_date, normalise

IMAGES_LEFT_OUT = (
    "left out: text in pictures is read from image files and scans only",
    "save what it shows as text beside it",
)
"""Why images within documents are not read, and what to do; for :meth:`TextBuilder.miss`."""


@dataclass(frozen=True, slots=True)
class Attachment:
    """A file inside another: its name and bytes."""

    name: str
    data: bytes


@dataclass(frozen=True, slots=True)
class Extract:
    """The result of reading one file: normalised text, with spans that point into it.

    ``faults`` name parts that were damaged although the rest could be read; ``unread`` are the
    numbers of pages that hold pictures or drawings but no text.
    """

    text: str
    title: str = ""
    language: str = ""
    created: str = ""
    modified: str = ""
    media_type: str = "text/plain"
    pages: tuple[Page, ...] = ()
    sections: tuple[Section, ...] = ()
    metadata: Metadata = field(default_factory=dict)
    faults: tuple[RagwrightError, ...] = ()
    attachments: tuple[Attachment, ...] = ()
    unread: tuple[int, ...] = ()

    def document(self, identity: str, source: str, title: str) -> Document:
        """Return the extract as a document."""
        return Document(
            id=identity,
            source=source,
            text=self.text,
            title=title,
            language=self.language,
            created=self.created,
            modified=self.modified,
            media_type=self.media_type,
            pages=self.pages,
            sections=self.sections,
            metadata=self.metadata,
        )


class Block(NamedTuple):
    """A part of a document: a paragraph, heading, item of a list, or table.

    ``level`` is that of a heading, from 1; ``mark`` and ``depth`` those of an item, a further
    paragraph of which has no mark; the first of the ``rows`` of a table is its header.
    """

    text: str = ""
    level: int = 0
    mark: str = ""
    depth: int = 0
    rows: Sequence[Sequence[str]] = ()

    @property
    def line(self) -> str:
        """The block on one line, as it stands in a cell of a table."""
        return " ".join(filter(None, (self.mark, self.text, *itertools.chain(*self.rows))))


class TextBuilder:
    """Collects blocks in reading order; pages and sections keep their exact spans.

    Blocks are normalised only here, and separated by one empty line.
    """

    def __init__(self) -> None:
        self._parts: list[str] = []
        self.length = 0
        """Number of characters so far."""
        self._list_end = 0
        self._pages: list[tuple[str, int]] = []
        self._waiting: list[str] = []
        self._missed: Counter[tuple[str, str, str]] = Counter()
        self._headings: list[tuple[str, int, int]] = []

    def add(self, text: str, separator: str = "\n\n") -> Span | None:
        """Append a block; returns None if it is only white space."""
        block = normalise(text).strip("\n").rstrip()
        if not block.strip():
            return None
        lead = separator if self.length else ""
        self.length += len(lead)
        self._pages += [(label, self.length) for label in self._waiting]
        self._waiting.clear()
        self._parts += [lead, block]
        self.length += len(block)
        return Span(self.length - len(block), self.length)

    def heading(self, title: str, level: int, *, mark: bool = True) -> None:
        """Append a heading of a level from 1; ``mark`` writes it as Markdown does."""
        title = " ".join(normalise(title).split())
        level = max(1, level)
        span = self.add(f"{'#' * min(level, 6)} {title}" if mark and title else title)
        if span is not None:
            self._headings.append((title, level, span.start))

    def write(self, blocks: Iterable[Block]) -> None:
        """Append blocks; an item of a list stands directly below the item before it."""
        for block in blocks:
            if block.rows:
                self.add(markdown_table(block.rows))
            elif block.level and block.text:
                self.heading(block.text if block.mark == "-" else block.line, block.level)
            elif block.mark or block.depth:
                tight = self.length and self.length == self._list_end
                span = self.add(f"{'    ' * block.depth}{block.line}", "\n" if tight else "\n\n")
                self._list_end = self.length if span is not None else self._list_end
            else:
                self.add(block.text)

    def markdown(self, text: str, shift: int = 0) -> None:
        """Append Markdown; its headings become sections, ``shift`` levels deeper."""
        span = self.add(text)
        if span is not None:
            for title, level, start in markdown_headings(self._parts[-1]):
                self._headings.append((title, level + shift, span.start + start))

    def page(self, label: str = "") -> None:
        """Start the next page, slide or sheet."""
        self._waiting.append(normalise(label))

    def miss(self, noun: str, why: str, hint: str, count: int = 1) -> None:
        """Count something that is guessed, dropped or unreadable; one warning for each cause.

        Args:
            noun: What it is, for one: ``image``.
            why: What became of it: ``left out``.
            hint: What a person can do about it.
            count: How many more there are.
        """
        self._missed[noun, why, hint] += count

    def extract(
        self,
        media_type: str,
        metadata: Mapping[str, Any],
        *,
        title: str = "",
        language: str = "",
        dates: tuple[Any, Any] = ("", ""),
    ) -> Extract:
        """Return the blocks so far as an extract.

        Args:
            media_type: Type of the file.
            metadata: Cleaned here.
            title: Title that the file states; without one, the first heading.
            language: Language that the file states; without one, a guess.
            dates: When the file was created and modified, as it states them.
        """
        text, sections = self.text(), self.sections()
        created, modified = map(iso_date, dates)
        return Extract(
            text=text,
            title=title or (sections[0].title if sections else ""),
            language=language or guess_language(text),
            created=created,
            modified=modified,
            media_type=media_type,
            pages=self.pages(),
            sections=sections,
            metadata=clean_metadata(metadata),
            faults=tuple(
                UnsupportedSourceError(f"{count_noun(count, noun)}: {why}", hint=hint)
                for (noun, why, hint), count in self._missed.items()
                if count
            ),
        )

    def text(self) -> str:
        """Return all blocks so far."""
        return "".join(self._parts)

    def pages(self) -> tuple[Page, ...]:
        """Return the pages in order; together they cover the text exactly."""
        starts = [*self._pages, *((label, self.length) for label in self._waiting)]
        ends = [*(start for _, start in starts[1:]), self.length][: len(starts)]
        return tuple(
            Page(number, Span(start if number > 1 else 0, end), label)
            for number, ((label, start), end) in enumerate(zip(starts, ends, strict=True), 1)
        )

    def sections(self) -> tuple[Section, ...]:
        """Return the headings' sections, each up to the next of its level or above."""
        return sections_of(self._headings, self.length)


def write_comment(text: str, *by: str | None) -> str:
    """Return a comment with its author and date; empty without a text."""
    said = ", ".join(filter(None, by))
    return f"Comment{f' ({said})' if said else ''}: {text}" if text else ""


def sections_of(headings: Iterable[tuple[str, int, int]], length: int) -> tuple[Section, ...]:
    """Make sections of (title, level, start), for a text of ``length`` characters."""
    sections: list[Section] = []
    following: dict[int, int] = {}
    for title, level, start in reversed(list(headings)):
        end = min((at for other, at in following.items() if other <= level), default=length)
        following[level] = start
        sections.append(Section(title, level, Span(start, end)))
    return tuple(reversed(sections))


_FENCE = re.compile(r"^ {0,3}(`{3,}|~{3,})[\s\S]*?(?:\n[ \t]*\1[`~]*[ \t]*$|\Z)", re.MULTILINE)
_HEADING = re.compile(
    r"^ {0,3}(?:(?P<marks>\#{1,6})[ \t](?P<title>[^\n]{1,2000})"
    r"|(?P<line>[^\s\#>|*+=`~<-][^\n]{0,199})\n {0,3}(?P<rule>={2,}|-{2,})[ \t]*)$",
    re.MULTILINE,
)


_INLINE = (
    (r"!?\[([^\]]*)\]\([^)]*\)", r"\1"),
    (r"(\*\*|__|`)(.+?)\1", r"\2"),
    (r"(?<!\w)([*_])(\S.*?)\1(?!\w)", r"\2"),
    (r"\\([\\`*_{}\[\]()#+.!-])", r"\1"),
)
"""Links, strong text and code, emphasis and escapes of Markdown, and what is kept of them."""


def markdown_headings(text: str) -> list[tuple[str, int, int]]:
    """Find (title, level, position) of the ``#`` and underlined headings outside code fences."""
    headings: list[tuple[str, int, int]] = []
    bare = _FENCE.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), text)
    for match in _HEADING.finditer(bare):
        title = re.sub(r"(?:^|[ \t]+)#+$", "", (match["title"] or match["line"]).strip())
        level = len(match["marks"] or "#" * (1 + match["rule"].startswith("-")))
        if title:
            for mark, kept in _INLINE:
                title = re.sub(mark, kept, title)
            headings.append((" ".join(title.split()), level, match.start()))
    return headings


def markdown_table(rows: Sequence[Sequence[str]]) -> str:
    """Write rows as a Markdown table, padded to the widest row; empty if no cell contains text.

    The first row is the header. Line breaks inside a cell become spaces, bars are escaped.
    """
    cells = [[table_cell(cell) for cell in row] for row in rows]
    width = max((len(row) for row in cells), default=0)
    if not any(cell for row in cells for cell in row):
        return ""
    if len(cells) * width > 5_000_000:  # one absurdly long row must not stretch the others
        width = 0
    lines = ["| " + " | ".join([*row, *[""] * (width - len(row))]) + " |" for row in cells]
    lines.insert(1, "| " + " | ".join(["-"] * max(width, len(cells[0]))) + " |")
    return "\n".join(lines)


def table_cell(text: str) -> str:
    """Return a cell's text on a single line, with bars escaped."""
    return " ".join(text.split()).replace("|", "\\|")


Cell: TypeAlias = tuple[str | None, int, int]
"""Text of a cell, and how many rows and columns it covers; None for the text above it."""


def read_span(value: str | None, most: int = 1000) -> int:
    """Return how many rows or columns a cell covers, as an attribute says; at most ``most``."""
    return max(1, min(int(value), most)) if value and value.strip().isdecimal() else 1


def merge_cells(rows: Iterable[Iterable[Cell]]) -> list[list[str]]:
    """Return the cells of a table; a merged one is repeated in every place that it covers.

    A few bytes can declare cells that cover millions of places. Places made by spans are counted
    per table; past 200,000 a cell is written once, where it begins.
    """
    table: list[list[str]] = []
    covered: dict[int, dict[int, str]] = {}
    spread = 0
    for number, cells in enumerate(rows):
        row: list[str] = []
        above = covered.pop(number, {})
        for text, down, across in cells:
            while len(row) in above:
                row.append(above[len(row)])
            if text is None:
                text = table[-1][len(row)] if table and len(row) < len(table[-1]) else ""
            spread += down * across - 1
            if spread > 200_000:
                spread, down, across = spread - down * across + 1, 1, 1
            places = range(len(row), len(row) + across)
            for below in range(number + 1, number + down):
                covered.setdefault(below, {}).update(dict.fromkeys(places, text))
            row += [above.get(place, text) for place in places]
        row += [above.get(place, "") for place in range(len(row), max(above, default=-1) + 1)]
        table.append(row)
    return table


_TOKEN = re.compile(
    r'"(?P<l_quoted>[^"]*)"|\\(?P<l_escaped>.)|[_*].|(?P<x>;)|\[\$(?P<l_unit>[^\]]*?)(?:-[^\]-]*)?\]|'
    r"\[(?P<e>(?i:h+|m+|n+|s+))\]|\[[^\]]*\]|(?P<n>[0#?][0#?,]*)|(?P<E>E[+-])|(?P<point>\.)|"
    r"(?P<f>/)|(?P<c>%)|(?P<d>(?i:y+|m+|d+))|(?P<t>(?i:h+|n+|s+))|[@,()]|(?P<l_other>.)",
    re.DOTALL,
)
"""Tokens of a format. The first letter of a group is their kind: ``n`` digits, ``p`` the point,
``c`` per cent, ``E`` an exponent, ``f`` a fraction, ``d`` part of a date, ``t`` of a time, ``e`` an
elapsed time, ``l`` a literal, ``x`` the end of a section."""
_BETWEEN = r"""(?:"[^"]*"|\\.|[^a-z";])*"""
_CLEANED = (
    (re.compile(r"(?i)\bgeneral\b"), "0.##############"),
    (re.compile(r"(?i)am/pm|a/p"), ""),
    (re.compile("#\\\\?[ \xa0\u202f'\u2019]##0"), "#,##0"),
    (re.compile(rf"(?i)(h+{_BETWEEN})m+"), r"\1n"),  # minutes, which a format writes as months
    (re.compile(rf"(?i)m+(?={_BETWEEN}s)"), "n"),
)
_BUILT_IN = {
    1: "0", 2: "0.00", 3: "#,##0", 4: "#,##0.00", 9: "0%", 10: "0.00%", 11: "0.00E+00",
    12: "# ?/?", 13: "# ??/??", 14: "yyyy-mm-dd", 15: "d-mmm-yy", 16: "d-mmm", 17: "mmm-yy",
    18: "h:mm AM/PM", 19: "h:mm:ss AM/PM", 20: "h:mm", 21: "h:mm:ss", 22: "yyyy-mm-dd h:mm",
    37: "#,##0", 38: "#,##0", 39: "#,##0.00", 40: "#,##0.00", 41: "#,##0", 42: "$#,##0",
    43: "#,##0.00", 44: "$#,##0.00", 45: "mm:ss", 46: "[h]:mm:ss", 47: "mm:ss", 48: "0.0E+0",
}  # fmt: skip
_FIRST_DAYS = tuple(map(datetime.datetime.fromisoformat, ("1899-12-30", "1904-01-01")))


def find_built_in_format(number: int) -> str:
    """Return the format that a number below 164 stands for; empty for the general one."""
    day = 27 <= number <= 36 or 50 <= number <= 58  # dates of East Asian versions
    return "yyyy-mm-dd" if day else _BUILT_IN.get(number, "")


def write_number(value: float) -> str:
    """Return a number with all of its 15 digits and without an exponent, unless it is huge."""
    text = f"{value:.15g}"
    if "e" in text and 1e-15 < abs(value) < 1e21:
        text = f"{Decimal(text):f}"
    return "0" if text == "-0" else text


def show_number(value: float, code: str, *, exact: bool = False, from_1904: bool = False) -> str:
    """Return a number as its format shows it.

    Args:
        value: What the cell holds.
        code: Its number format.
        exact: True to keep all digits that the format would round away.
        from_1904: True if days are counted from 1904, as old Macs do.
    """
    if not abs(value) < 1e300:
        return str(value)
    sections = _sections("" if code.casefold() == "general" else code)
    number = 1 if value < 0 else 2 if value == 0 else 0
    section = sections[number if number < len(sections) else 0]
    kinds = {kind for kind, _ in section}
    if kinds & {"d", "t"}:
        return _moment(value, section, from_1904) or write_number(value)
    if kinds & {"E", "f"} or "n" not in kinds:
        literal = "".join(text for kind, text in section if kind == "l").strip()
        return (literal if kinds == {"l"} else "") or write_number(value)
    return _digits(value, section, exact)


@functools.lru_cache(1000)
def _sections(code: str) -> list[list[tuple[str, str]]]:
    """Return the sections of a format as tokens: a kind and a text."""
    sections: list[list[tuple[str, str]]] = [[]]
    for pattern, other in _CLEANED:
        code = pattern.sub(other, code)
    for match in _TOKEN.finditer(code):
        kind = (match.lastgroup or " ")[0]
        text = match[match.lastgroup or 0]
        if kind == "x":
            sections.append([])
        elif kind in "dte":
            sections[-1] += [(k, text[0].lower()) for k in kind.replace("e", "et")]
        elif kind != " ":
            sections[-1].append((kind, text))
    return sections


def _moment(value: float, section: list[tuple[str, str]], from_1904: bool) -> str:
    """Return a date, a time of the day or a duration; empty if it is none."""
    parts = {text for kind, text in section if kind in "dt"}
    elapsed = next((text for kind, text in section if kind == "e"), "")
    seconds = round(abs(value) * 86400)
    if elapsed:
        minutes, second = divmod(seconds, 60)
        clock = f"{minutes // 60}:{minutes % 60:02d}" if elapsed == "h" else f"{minutes}"
        shown = f"{seconds}" if elapsed == "s" else clock + f":{second:02d}" * ("s" in parts)
        return f"-{shown}" if value < 0 else shown
    if not 0 <= value < 2_958_466:  # the year 10,000
        return ""
    # 1900 is taken for a leap year.
    first = _FIRST_DAYS[from_1904] + datetime.timedelta(not from_1904 and value < 60)
    day = "%Y-%m-%d" if "d" in parts or "y" not in parts else "%Y-%m" if "m" in parts else "%Y"
    clock = "%H:%M" + ":%S" * ("s" in parts) if "h" in parts else "%M:%S"
    form = [day] * bool(parts & {"y", "m", "d"}) + [clock] * bool(parts & {"h", "n", "s"})
    return (first + datetime.timedelta(seconds=seconds)).strftime(" ".join(form))


def _digits(value: float, section: list[tuple[str, str]], exact: bool) -> str:
    """Return a number with the digits, zeros and units of a format."""
    number = abs(Decimal(write_number(value)))
    number *= 100 ** sum(kind == "c" for kind, _ in section)
    point = next((at for at, (kind, _) in enumerate(section) if kind == "p"), len(section))
    places = [at for at, (kind, _) in enumerate(section) if kind == "n"]
    whole = [at for at in places if at < point]
    last = section[places[-1]][1]
    number /= 1000 ** (len(last) - len(last.rstrip(",")))
    wanted = "".join(section[at][1] for at in places if at > point).replace(",", "")
    try:
        number = (
            number if exact else number.quantize(Decimal(1).scaleb(-len(wanted)), ROUND_HALF_UP)
        )
    except InvalidOperation:  # more digits than a decimal holds
        return write_number(value)
    integer, _, fraction = f"{number:f}".partition(".")
    fraction = fraction.rstrip("0").ljust(wanted.count("0"), "0")
    least = sum(section[at][1].count("0") for at in whole)
    dash = any(kind == "l" and text.strip() == "-" for kind, text in section)
    integer = integer.lstrip("0").rjust(least, "0") or ("" if dash and not value else "0")
    parts = [text if kind in "lc" else "" for kind, text in section]
    for at in reversed(whole):  # a mask such as 000-000 takes its digits from the right
        size = len(section[at][1].replace(",", "")) if at != whole[0] else len(integer)
        integer, parts[at] = integer[: len(integer) - size], integer[len(integer) - size :]
    at = whole[-1] if whole else point - 1
    parts.insert(at + 1, ("" if whole else "0") + (f".{fraction}" if fraction else ""))
    text = " ".join("".join(parts).replace("\xa0", " ").split())
    signed = value < 0 and any(digit in "123456789" for digit in text)
    return f"-{text.replace('-', '', 1) if text.startswith('-') else text}" if signed else text
