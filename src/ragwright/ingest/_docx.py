"""Word files: headings, numbered lists, tables and footnotes in reading order."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import Any

from ..core import EmptySourceError, MalformedSourceError, require
from ._archive import Archive, safe_xml
from ._extract import Extract, TextBuilder
from ._options import SourceOptions

_W = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
_MOST_COLUMNS = 63  # as many as Word itself allows
_MATH = "{http://schemas.openxmlformats.org/officeDocument/2006/math}t"
_FALLBACK = "{http://schemas.openxmlformats.org/markup-compatibility/2006}Fallback"
_RELATION = "http://schemas.openxmlformats.org/officeDocument/2006/relationships/"


def read_docx(data: bytes, where: str, options: SourceOptions) -> Extract:
    """Read a Word file; merged table cells are repeated in every place they cover.

    Raises:
        EmptySourceError: No text.
        EncryptedSourceError: Protected by a password.
        MalformedSourceError: Truncated or damaged.
    """
    Archive(data, where, options)
    docx = require("docx", "docs", "reading Word files")
    try:
        document = docx.Document(io.BytesIO(data))
    except Exception as error:
        raise MalformedSourceError(
            f"the Word file is damaged: {error}", where=where, hint="open it in Word and save it"
        ) from error
    builder = TextBuilder()
    _Walk(document, builder).body(document.element.body)
    if builder.empty:
        raise EmptySourceError("the Word file contains no text", where=where, hint="remove it")
    properties = document.core_properties
    return builder.extract(
        "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
        {key: getattr(properties, key) for key in ("author", "subject", "keywords", "category")},
        title=(properties.title or "").strip(),
        dates=(properties.created, properties.modified),
    )


class _Walk:
    """Walks through the body once and feeds the builder."""

    def __init__(self, document: Any, builder: TextBuilder) -> None:
        self._builder = builder
        self._styles = _Styles(document)
        self._numbers = _Numbering(document)
        self._notes = _notes(document)
        self._in_list = False

    def body(self, container: Any) -> None:
        for block in blocks(container):
            if block.tag == f"{_W}tbl":
                self._builder.table(self.grid(block))
                self._in_list = False
            else:
                self.paragraph(block)

    def paragraph(self, paragraph: Any) -> None:
        text = paragraph_text(paragraph).strip()
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
        for mark in paragraph.iter(f"{_W}footnoteReference", f"{_W}endnoteReference"):
            kind = "footnotes" if mark.tag.endswith("footnoteReference") else "endnotes"
            note = self._notes.get((kind, mark.get(f"{_W}id") or ""))
            if note:
                self._builder.add(note)

    def marker(self, paragraph: Any) -> tuple[str, int]:
        number, level = self._styles.numbering(paragraph)
        return self._numbers.marker(number, level, self._styles.of(paragraph))

    def grid(self, table: Any) -> list[list[str]]:
        """Return the cells of a table; merged ones are repeated, rows that start late padded."""
        rows: list[list[str]] = []
        for row in table.iter(f"{_W}tr"):
            if _nearest_table(row) is not table:
                continue
            cells = [""] * min(_value(row, "trPr/gridBefore", 0), _MOST_COLUMNS)
            for cell in _row_cells(row):
                across = max(1, min(_value(cell, "tcPr/gridSpan", 1), _MOST_COLUMNS))
                merge = cell.find(f"{_W}tcPr/{_W}vMerge")
                if merge is not None and merge.get(f"{_W}val") != "restart" and rows:
                    text = rows[-1][len(cells)] if len(cells) < len(rows[-1]) else ""
                else:
                    text = self.cell(cell)
                cells += [text] * across
            rows.append(cells)
        return rows

    def cell(self, cell: Any) -> str:
        parts = []
        for block in blocks(cell):
            if block.tag == f"{_W}tbl":
                parts += [text for row in self.grid(block) for text in row]
                continue
            text = paragraph_text(block).strip()
            marker, _ = self.marker(block) if text else ("", 0)
            parts.append(f"{marker} {text}" if marker else text)
            for box in text_boxes(block):
                parts.append(self.cell(box))
        return " ".join(part for part in parts if part)


def blocks(container: Any) -> Iterator[Any]:
    """Yield the paragraphs and tables of a body, cell or text box in order."""
    for child in container:
        if child.tag in (f"{_W}p", f"{_W}tbl"):
            yield child
        elif child.tag in (f"{_W}sdt", f"{_W}sdtContent", f"{_W}customXml", f"{_W}ins"):
            yield from blocks(child)


def paragraph_text(paragraph: Any) -> str:
    """Return a paragraph's text with insertions, without deletions and text boxes."""
    parts: list[str] = []
    _runs(paragraph, parts)
    return "".join(parts)


def _runs(element: Any, parts: list[str]) -> None:
    for child in element:
        tag = child.tag
        if tag in (f"{_W}t", _MATH):
            parts.append(child.text or "")
        elif tag in (f"{_W}tab", f"{_W}ptab"):
            parts.append("\t")
        elif tag in (f"{_W}br", f"{_W}cr"):
            parts.append("\n")
        elif tag == f"{_W}noBreakHyphen":
            parts.append("-")
        elif tag not in (f"{_W}txbxContent", f"{_W}pPr", f"{_W}del", f"{_W}moveFrom", _FALLBACK):
            _runs(child, parts)


def text_boxes(paragraph: Any) -> list[Any]:
    """Find the text boxes anchored in a paragraph; each once, although Word stores them twice."""
    return [
        box
        for box in paragraph.iter(f"{_W}txbxContent")
        if not any(
            parent.tag in (_FALLBACK, f"{_W}txbxContent") for parent in _parents(box, paragraph)
        )
    ]


def _parents(element: Any, stop: Any) -> Iterator[Any]:
    parent = element.getparent()
    while parent is not None and parent is not stop:
        yield parent
        parent = parent.getparent()


def _nearest_table(row: Any) -> Any:
    return next((p for p in _parents(row, None) if p.tag == f"{_W}tbl"), None)


def _row_cells(row: Any) -> Iterator[Any]:
    for child in row:
        if child.tag == f"{_W}tc":
            yield child
        elif child.tag in (f"{_W}sdt", f"{_W}sdtContent", f"{_W}customXml"):
            yield from _row_cells(child)


def _value(element: Any, path: str, default: int) -> int:
    child = element.find("/".join(f"{_W}{name}" for name in path.split("/")))
    value = child.get(f"{_W}val") if child is not None else None
    return int(value) if value and value.isdecimal() else default


class _Styles:
    """Paragraph styles: which are headings, which carry a list."""

    def __init__(self, document: Any) -> None:
        self._elements: dict[str, Any] = {}
        try:
            styles = document.styles.element.iter(f"{_W}style")
        except (KeyError, AttributeError):  # a file without a style sheet
            styles = iter(())
        for style in styles:
            self._elements[style.get(f"{_W}styleId") or ""] = style

    def of(self, paragraph: Any) -> str:
        style = paragraph.find(f"{_W}pPr/{_W}pStyle")
        return (style.get(f"{_W}val") or "") if style is not None else ""

    def _chain(self, paragraph: Any) -> Iterator[Any]:
        name, seen = self.of(paragraph), set()
        while name in self._elements and name not in seen:
            seen.add(name)
            yield self._elements[name]
            based = self._elements[name].find(f"{_W}basedOn")
            name = (based.get(f"{_W}val") or "") if based is not None else ""

    def heading(self, paragraph: Any) -> int:
        """Return the level from 1; 0 if the paragraph is not a heading."""
        level = _value(paragraph, "pPr/outlineLvl", 9)
        for style in self._chain(paragraph):
            if level < 9:
                break
            name = style.find(f"{_W}name")
            words = (name.get(f"{_W}val") or "").lower().split() if name is not None else []
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
            properties = element.find(f"{_W}pPr/{_W}numPr")
            if properties is None:
                continue
            if level is None and properties.find(f"{_W}ilvl") is not None:
                level = _value(properties, "ilvl", 0)
            number_id = properties.find(f"{_W}numId")
            if number_id is not None:
                number = number_id.get(f"{_W}val") or ""
                break
        return ("" if number == "0" else number), level


class _Numbering:
    """Numbers list items as Word prints them."""

    def __init__(self, document: Any) -> None:
        self._levels: dict[str, dict[int, tuple[str, str, int, str]]] = {}
        self._abstract: dict[str, str] = {}
        self._overrides: dict[str, dict[int, int]] = {}
        self._counts: dict[str, dict[int, int]] = {}
        self._met: set[str] = set()
        try:
            root = document.part.part_related_by(f"{_RELATION}numbering").element
        except (KeyError, AttributeError):
            return
        for abstract in root.iter(f"{_W}abstractNum"):
            levels = {}
            for level in abstract.iter(f"{_W}lvl"):
                form, text, style = (_attribute(level, n) for n in ("numFmt", "lvlText", "pStyle"))
                index = int(level.get(f"{_W}ilvl") or 0)
                levels[index] = (form or "decimal", text, _value(level, "start", 1), style)
            self._levels[abstract.get(f"{_W}abstractNumId") or ""] = levels
        for number in root.iter(f"{_W}num"):
            key = number.get(f"{_W}numId") or ""
            self._abstract[key] = _attribute(number, "abstractNumId")
            self._overrides[key] = {
                int(o.get(f"{_W}ilvl") or 0): _value(o, "startOverride", 1)
                for o in number.iter(f"{_W}lvlOverride")
                if o.find(f"{_W}startOverride") is not None
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
    child = element.find(f"{_W}{name}")
    return (child.get(f"{_W}val") or "") if child is not None else ""


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


def _notes(document: Any) -> dict[tuple[str, str], str]:
    """Return footnotes and endnotes by kind and id."""
    notes: dict[tuple[str, str], str] = {}
    for kind, single in (("footnotes", "footnote"), ("endnotes", "endnote")):
        try:
            part = document.part.part_related_by(f"{_RELATION}{kind}")
        except KeyError:
            continue
        etree = require("lxml.etree", "docs", "reading Word files")
        for note in etree.fromstring(safe_xml(part.blob, kind)).iter(f"{_W}{single}"):
            if note.get(f"{_W}type"):  # separators
                continue
            paragraphs = (paragraph_text(p).strip() for p in note.iter(f"{_W}p"))
            text = " ".join(p for p in paragraphs if p)
            if text:
                notes[kind, note.get(f"{_W}id") or ""] = text
    return notes
