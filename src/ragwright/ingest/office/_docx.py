"""Word files: headings, numbered lists, tables, notes, comments and charts in reading order."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from .._extract import Extract, TextBuilder
from .._html import read_html
from .._options import SourceOptions
from .._plain import read_plain
from .._sniff import sniff
from ._chart import DRAWN, add_drawn
from ._package import Package, R
from ._text import ALTERNATIVE, BOX, CHOICE, FALLBACK, OfficeText, W, raised_by, whole

_MOST_COLUMNS = 63  # as many as Word itself allows
_TRANSPARENT = frozenset(
    {f"{W}{name}" for name in ("sdt", "sdtContent", "customXml", "ins", "moveTo", "smartTag")}
    | {ALTERNATIVE, CHOICE}
)
"""Elements around blocks that change nothing."""
_REFERENCES = (
    f"{W}footnoteReference", f"{W}endnoteReference", f"{W}commentReference", *DRAWN,
)  # fmt: skip
_PAGE_NUMBER = re.compile(
    r"(?i)[\W\d]*(?:(?:page|seite|pagina|página|strona|of|von|de|sur)[\W\d]*)*"
)


def read_docx(data: bytes, where: str, options: SourceOptions) -> Extract:
    """Read a Word file; merged table cells are repeated in every place they cover.

    Running heads and feet stand at the end, each once; comments after their paragraph.

    Raises:
        EncryptedSourceError: Protected by a password.
        MalformedSourceError: Truncated or damaged.
    """
    builder = TextBuilder()
    package = Package(data, where, options, builder, "word/document.xml")
    _Walk(package, builder, options).document()
    return package.extract(
        "application/vnd.openxmlformats-officedocument.wordprocessingml.document"
    )


class _Walk:
    """Walks through the body once and feeds the builder."""

    def __init__(self, package: Package, builder: TextBuilder, options: SourceOptions) -> None:
        self._package = package
        self._builder = builder
        self._options = options
        self._parts = package.relations(package.main_name)
        self._styles = _Styles(self._root("styles"))
        self._numbers = _Numbering(self._root("numbering"))
        self._words = OfficeText(builder, self._styles.raised)
        self._notes = {
            (kind, note.get(f"{W}id") or ""): text
            for kind in ("footnote", "endnote", "comment")
            if (root := self._root(f"{kind}s")) is not None
            for note in root.iter(f"{W}{kind}")
            if not note.get(f"{W}type")  # separators
            and (text := " ".join(filter(None, (self._text(p) for p in note.iter(f"{W}p")))))
        }
        self._people = {
            comment.get(f"{W}id") or "": ", ".join(
                filter(None, (comment.get(f"{W}author"), comment.get(f"{W}date")))
            )
            for root in (self._root("comments"),)
            for comment in (root.iter(f"{W}comment") if root is not None else ())
        }
        self._in_list = False

    def _root(self, kind: str) -> Any:
        return next(iter(self._package.roots(self._package.main_name, kind)), None)

    def document(self) -> None:
        """Read the body, then the running heads and feet."""
        body = self._package.main.find(f"{W}body")
        self.body(body if body is not None else ())
        said: dict[str, None] = {}
        for reference in self._package.main.iter(f"{W}headerReference", f"{W}footerReference"):
            kind = "Header" if reference.tag == f"{W}headerReference" else "Footer"
            part = self._package.root(self._target(reference.get(f"{R}id")))
            text = self.cell(part) if part is not None else ""
            if not _PAGE_NUMBER.fullmatch(text):
                said[f"{kind}: {text}"] = None
        for line in said:
            self._builder.add(line)

    def _target(self, relation: str | None) -> str:
        found = self._parts.get(relation or "")
        return found.target if found is not None else ""

    def _text(self, paragraph: Any) -> str:
        return self._words.of(paragraph).strip()

    def body(self, container: Any) -> None:
        for block in blocks(container):
            if block.tag == f"{W}tbl":
                self._builder.table(self.grid(block))
                self._in_list = False
                self._beside(block)
            elif block.tag == f"{W}altChunk":
                self._imported(self._target(block.get(f"{R}id")))
            else:
                self.paragraph(block)

    def paragraph(self, paragraph: Any) -> None:
        text = self._text(paragraph)
        level = self._styles.heading(paragraph)
        marker, depth = self.marker(paragraph) if text else ("", 0)
        if text and level:
            self._builder.heading(f"{marker} {text}" if marker not in ("", "-") else text, level)
        elif text and marker:
            separator = "\n" if self._in_list else "\n\n"
            self._builder.add(f"{'    ' * depth}{marker} {text}", separator)
        else:
            self._builder.add(text)
        if text:
            self._in_list = bool(marker) and not level
        for box in text_boxes(paragraph):
            self.body(box)
        self._beside(paragraph)

    def _beside(self, block: Any) -> None:
        """Append what a paragraph or table refers to: notes, comments, charts, drawings."""
        for mark in block.iter(*_REFERENCES):
            above = {parent.tag for parent in _parents(mark, block)}
            if FALLBACK in above or (BOX in above and block.tag == f"{W}p"):
                continue
            kind = mark.tag.rpartition("}")[2].removesuffix("Reference")
            if mark.tag in DRAWN:
                add_drawn(mark, self._parts, self._package, self._builder)
            elif note := self._notes.get((kind, mark.get(f"{W}id") or "")):
                by = self._people.get(mark.get(f"{W}id") or "", "")
                self._builder.add(f"Comment ({by}): {note}" if kind == "comment" else note)

    def _imported(self, name: str) -> None:
        """Append a part in another format (altChunk) that Word puts in when it opens the file."""
        data = self._package.read(name) if name else b""
        kind = sniff(data) if data else ""
        if kind == "html":
            self._builder.markdown(read_html(data, name, self._options).text)
        elif kind == "text":
            self._builder.add(read_plain(data, name, self._options).text)
        else:
            self._builder.miss(
                "imported part (altChunk)", "left out", "open the file in Word and save it"
            )

    def marker(self, paragraph: Any) -> tuple[str, int]:
        number, level = self._styles.numbering(paragraph)
        return self._numbers.marker(number, level, self._styles.of(paragraph))

    def grid(self, table: Any) -> list[list[str]]:
        """Return the cells of a table; merged ones are repeated, rows that start late padded."""
        rows: list[list[str]] = []
        for row in table.iter(f"{W}tr"):
            if _nearest_table(row) is not table:
                continue
            cells = [""] * min(_value(row, "trPr/gridBefore", 0), _MOST_COLUMNS)
            for cell in _row_cells(row):
                across = max(1, min(_value(cell, "tcPr/gridSpan", 1), _MOST_COLUMNS))
                merge = cell.find(f"{W}tcPr/{W}vMerge")
                if merge is not None and merge.get(f"{W}val") != "restart" and rows:
                    text = rows[-1][len(cells)] if len(cells) < len(rows[-1]) else ""
                else:
                    text = self.cell(cell)
                cells += [text] * across
            rows.append(cells)
        return rows

    def cell(self, cell: Any) -> str:
        parts = []
        for block in blocks(cell):
            if block.tag == f"{W}tbl":
                parts += [text for row in self.grid(block) for text in row]
                continue
            text = self._text(block)
            marker, _ = self.marker(block) if text else ("", 0)
            parts.append(f"{marker} {text}" if marker else text)
            for box in text_boxes(block):
                parts.append(self.cell(box))
        return " ".join(part for part in parts if part)


def blocks(container: Any) -> Iterator[Any]:
    """Yield the paragraphs and tables of a body, cell or text box in order."""
    for child in container:
        if child.tag in (f"{W}p", f"{W}tbl", f"{W}altChunk"):
            yield child
        elif child.tag in _TRANSPARENT:
            yield from blocks(child)


def text_boxes(paragraph: Any) -> list[Any]:
    """Find the text boxes anchored in a paragraph; each once, although Word stores them twice."""
    return [
        box
        for box in paragraph.iter(BOX)
        if not any(parent.tag in (FALLBACK, BOX) for parent in _parents(box, paragraph))
    ]


def _parents(element: Any, stop: Any) -> Iterator[Any]:
    parent = element.getparent()
    while parent is not None and parent is not stop:
        yield parent
        parent = parent.getparent()


def _nearest_table(row: Any) -> Any:
    return next((p for p in _parents(row, None) if p.tag == f"{W}tbl"), None)


def _row_cells(row: Any) -> Iterator[Any]:
    for child in row:
        if child.tag == f"{W}tc":
            yield child
        elif child.tag in _TRANSPARENT:
            yield from _row_cells(child)


def _value(element: Any, path: str, default: int) -> int:
    child = element.find("/".join(f"{W}{name}" for name in path.split("/")))
    value = child.get(f"{W}val") if child is not None else None
    return whole(value, default)


class _Styles:
    """Paragraph styles: which are headings, which carry a list."""

    def __init__(self, root: Any) -> None:
        styles = root.iter(f"{W}style") if root is not None else ()
        self._elements = {style.get(f"{W}styleId") or "": style for style in styles}

    def of(self, paragraph: Any) -> str:
        style = paragraph.find(f"{W}pPr/{W}pStyle")
        return (style.get(f"{W}val") or "") if style is not None else ""

    def raised(self, name: str) -> int:
        """Return 1 if a character style raises text, -1 if it lowers it, else 0."""
        heights = (raised_by(style.find(f"{W}rPr")) for style in self._based(name))
        return next((height for height in heights if height is not None), 0)

    def _chain(self, paragraph: Any) -> Iterator[Any]:
        return self._based(self.of(paragraph))

    def _based(self, name: str) -> Iterator[Any]:
        seen: set[str] = set()
        while name in self._elements and name not in seen:
            seen.add(name)
            yield self._elements[name]
            based = self._elements[name].find(f"{W}basedOn")
            name = (based.get(f"{W}val") or "") if based is not None else ""

    def heading(self, paragraph: Any) -> int:
        """Return the level from 1; 0 if the paragraph is not a heading."""
        level = _value(paragraph, "pPr/outlineLvl", 9)
        for style in self._chain(paragraph):
            if level < 9:
                break
            name = style.find(f"{W}name")
            words = (name.get(f"{W}val") or "").lower().split() if name is not None else []
            if words[:1] == ["heading"] and len(words) == 2 and words[1].isdecimal():
                return int(words[1])
            if words == ["title"]:
                return 1
            level = _value(style, "pPr/outlineLvl", 9)
        return level + 1 if level < 9 else 0

    def numbering(self, paragraph: Any) -> tuple[str, int | None]:
        """Return a paragraph's list and level, from itself or its style; ``""`` without a list."""
        number, level = "", None
        for element in (paragraph, *self._chain(paragraph)):
            properties = element.find(f"{W}pPr/{W}numPr")
            if properties is None:
                continue
            if level is None and properties.find(f"{W}ilvl") is not None:
                level = _value(properties, "ilvl", 0)
            number_id = properties.find(f"{W}numId")
            if number_id is not None:
                number = number_id.get(f"{W}val") or ""
                break
        return ("" if number == "0" else number), level


class _Numbering:
    """Numbers list items as Word prints them."""

    def __init__(self, root: Any) -> None:
        self._levels: dict[str, dict[int, tuple[str, str, int, str]]] = {}
        self._abstract: dict[str, str] = {}
        self._overrides: dict[str, dict[int, int]] = {}
        self._counts: dict[str, dict[int, int]] = {}
        self._met: set[str] = set()
        if root is None:
            return
        for abstract in root.iter(f"{W}abstractNum"):
            levels = {}
            for level in abstract.iter(f"{W}lvl"):
                form, text, style = (_attribute(level, n) for n in ("numFmt", "lvlText", "pStyle"))
                index = int(level.get(f"{W}ilvl") or 0)
                levels[index] = (form or "decimal", text, _value(level, "start", 1), style)
            self._levels[abstract.get(f"{W}abstractNumId") or ""] = levels
        for number in root.iter(f"{W}num"):
            key = number.get(f"{W}numId") or ""
            self._abstract[key] = _attribute(number, "abstractNumId")
            self._overrides[key] = {
                int(o.get(f"{W}ilvl") or 0): _value(o, "startOverride", 1)
                for o in number.iter(f"{W}lvlOverride")
                if o.find(f"{W}startOverride") is not None
            }

    def marker(self, number: str, level: int | None, style: str) -> tuple[str, int]:
        """Return the next item's mark (``-``, ``1.``, ``2.b``) and depth; ``""`` without a list."""
        if number not in self._abstract:
            return "", 0
        abstract = self._abstract[number]
        levels = self._levels.get(abstract, {})
        if level is None:
            level = next((i for i, spec in levels.items() if spec[3] and spec[3] == style), 0)
        form, text, start, _ = levels.get(level, ("bullet", "", 1, ""))
        counts = self._counts.setdefault(abstract, {})
        if number not in self._met:
            self._met.add(number)
            for index, first in self._overrides[number].items():
                counts[index] = first - 1
        counts[level] = counts.get(level, start - 1) + 1
        for deeper in [index for index in counts if index > level]:
            del counts[deeper]
        if form in ("bullet", "none") or "%" not in text:
            return ("" if form == "none" and not text else "-"), level
        for index in range(level + 1):
            shape, _, first, _ = levels.get(index, ("decimal", "", 1, ""))
            text = text.replace(f"%{index + 1}", _spell(counts.get(index, first), shape))
        return text.strip(), level


def _attribute(element: Any, name: str) -> str:
    child = element.find(f"{W}{name}")
    return (child.get(f"{W}val") or "") if child is not None else ""


def _spell(count: int, form: str) -> str:
    if form in ("lowerLetter", "upperLetter"):
        letter = chr(ord("a") + (count - 1) % 26) * ((count - 1) // 26 + 1)
        return letter if form == "lowerLetter" else letter.upper()
    if form in ("lowerRoman", "upperRoman"):
        roman, left = "", count
        for value, digits in zip(
            (1000, 900, 500, 400, 100, 90, 50, 40, 10, 9, 5, 4, 1),
            ["m", "cm", "d", "cd", "c", "xc", "l", "xl", "x", "ix", "v", "iv", "i"],
            strict=True,
        ):
            while left >= value:
                roman, left = roman + digits, left - value
        return roman if form == "lowerRoman" else roman.upper()
    return f"{count:02d}" if form == "decimalZero" else str(count)
