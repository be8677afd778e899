"""Word files: headings, numbered lists, tables, notes, comments and charts in reading order."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from .._encoding import sniff
from .._extract import Block, Cell, Extract, TextBuilder, merge_cells, read_span
from .._html import read_html
from .._normalise import Raised, join_raised
from .._options import SourceOptions
from .._plain import read_plain
from ._package import (
    ALTERNATIVE,
    CHOICE,
    DRAWN,
    FALLBACK,
    MATH,
    Package,
    R,
    find_drawn,
    latex,
    read_whole_number,
    write_comment,
)

W = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
BOX = f"{W}txbxContent"
_SKIPPED = frozenset({BOX, FALLBACK, *(f"{W}{name}" for name in ("pPr", "rPr", "del", "moveFrom"))})
_FIXED = {
    f"{W}tab": "\t", f"{W}ptab": "\t", f"{W}br": "\n", f"{W}cr": "\n", f"{W}noBreakHyphen": "-",
}  # fmt: skip
_SYMBOL = {
    **dict(zip(range(0x41, 0x5B), "ΑΒΧΔΕΦΓΗΙϑΚΛΜΝΟΠΘΡΣΤΥςΩΞΨΖ", strict=True)),
    **dict(zip(range(0x61, 0x7B), "αβχδεφγηιϕκλμνοπθρστυϖωξψζ", strict=True)),
    **{place: chr(place) for place in (*range(0x20, 0x22), *range(0x28, 0x40), 0x5B, 0x5D)},
    0x22: "∀", 0x24: "∃", 0x25: "%", 0x2D: "−", 0x40: "≅", 0x5C: "∴", 0x5E: "⊥", 0x7E: "∼",
    0xA2: "′", 0xA3: "≤", 0xA5: "∞", 0xAB: "↔", 0xAC: "←", 0xAD: "↑", 0xAE: "→", 0xAF: "↓",
    0xB0: "°", 0xB1: "±", 0xB2: "″", 0xB3: "≥", 0xB4: "×", 0xB5: "∝", 0xB6: "∂", 0xB7: "•",
    0xB8: "÷", 0xB9: "≠", 0xBA: "≡", 0xBB: "≈", 0xBC: "…", 0xC5: "⊕", 0xC6: "∅", 0xC7: "∩",
    0xC8: "∪", 0xCC: "⊂", 0xCE: "∈", 0xCF: "∉", 0xD0: "∠", 0xD1: "∇", 0xD2: "®", 0xD3: "©",
    0xD4: "™", 0xD5: "∏", 0xD6: "√", 0xD7: "⋅", 0xD8: "¬", 0xD9: "∧", 0xDA: "∨", 0xDB: "⇔",
    0xDC: "⇐", 0xDE: "⇒", 0xE5: "∑", 0xF2: "∫",
}  # fmt: skip
_SYMBOLS = {
    "symbol": _SYMBOL,
    "wingdings": {
        0x28: "☎", 0x2A: "✉", 0x4A: "☺", 0x4C: "☹", 0x6C: "●", 0x6E: "■", 0x6F: "☐", 0x71: "❑",
        0x72: "❒", 0x76: "❖", 0xA7: "▪", 0xA8: "☐", 0xD8: "➢", 0xDF: "←", 0xE0: "→", 0xE1: "↑",
        0xE2: "↓", 0xE8: "➔", 0xF0: "⇨", 0xFB: "✗", 0xFC: "✓", 0xFD: "☒", 0xFE: "☑",
        **{0x80 + n: sign for n, sign in enumerate("⓪①②③④⑤⑥⑦⑧⑨⑩⓿❶❷❸❹❺❻❼❽❾❿")},
    },
    "wingdings 2": {
        0x4F: "✗", 0x50: "✓", 0x51: "☒", 0x52: "☑", 0x53: "☒", 0x54: "☒", 0xA3: "☐",
    },
    "webdings": {0x61: "✓", 0x63: "☐", 0x67: "■", 0x72: "✗"},
}  # fmt: skip


_PRIVATE = re.compile("[\uf000-\uf0ff]")
"""Places of the letters of symbol fonts."""
_MOST_COLUMNS = 63  # as many as Word itself allows
_TRANSPARENT = frozenset(
    {f"{W}{name}" for name in ("sdt", "sdtContent", "customXml", "ins", "moveTo", "smartTag")}
    | {ALTERNATIVE, CHOICE}
)
"""Elements around blocks that change nothing."""
_BLOCKS = (f"{W}p", f"{W}tbl", f"{W}altChunk")
_REFERENCES = (
    f"{W}footnoteReference", f"{W}endnoteReference", f"{W}commentReference", *DRAWN,
)  # fmt: skip
_ROMAN = {
    100: "c cc ccc cd d dc dcc dccc cm",
    10: "x xx xxx xl l lx lxx lxxx xc",
    1: "i ii iii iv v vi vii viii ix",
}
"""Value of a place -> its digits in Roman numbers."""
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
    package = Package(data, where, options, TextBuilder(), "word/document.xml")
    _DocxWalk(package, options).document()
    return package.extract(
        "application/vnd.openxmlformats-officedocument.wordprocessingml.document"
    )


class _DocxWalk:
    """Walks through the body once and feeds the builder."""

    def __init__(self, package: Package, options: SourceOptions) -> None:
        self._package = package
        self._builder = package.builder
        self._options = options
        self._parts = package.relations(package.main_name)
        self._styles = _Styles(self._items("styles", "style"))
        self._numbers = _Numbering(self._items("numbering", "*"))
        self._notes: dict[tuple[str, str | None], str] = {}
        for kind in ("footnote", "endnote", "comment"):
            for note in self._items(f"{kind}s", kind):
                said = filter(None, (self.text(p) for p in note.iter(f"{W}p")))
                text = " ".join(said) if not note.get(f"{W}type") else ""  # else a separator
                if kind == "comment":
                    text = write_comment(text, note.get(f"{W}author"), note.get(f"{W}date"))
                self._notes[kind, note.get(f"{W}id")] = text

    def _items(self, kind: str, name: str) -> list[Any]:
        """Return the elements of a name in the part of a kind."""
        roots = self._package.roots(self._package.main_name, kind)[:1]
        return [item for root in roots for item in root.iter(f"{W}{name}")]

    def document(self) -> None:
        """Read the body, then the running heads and feet."""
        body = self._package.main.find(f"{W}body")
        self.body(body if body is not None else ())
        said: list[str] = []
        for reference in self._package.main.iter(f"{W}headerReference", f"{W}footerReference"):
            kind = "Header" if reference.tag == f"{W}headerReference" else "Footer"
            part = self._package.root(self._parts[reference.get(f"{R}id")].target)
            text = self.cell(part) if part is not None else ""
            said += [f"{kind}: {text}"] * (not _PAGE_NUMBER.fullmatch(text))
        for line in dict.fromkeys(said):
            self._builder.add(line)

    def text(self, paragraph: Any) -> str:
        """Return a paragraph's text with insertions, without deletions and text boxes."""
        return join_raised(self._pieces(paragraph, 0, "")).strip()

    def _pieces(self, element: Any, height: int, font: str) -> Iterator[Raised]:
        for child in element:
            tag = child.tag
            if tag == f"{W}t":
                yield (
                    _PRIVATE.sub(lambda m: self._symbol(font, ord(m[0])), child.text or ""),
                    height,
                )
            elif tag in _FIXED:
                yield _FIXED[tag], height
            elif tag == f"{W}r":
                yield from self._run(child)
            elif tag == MATH:
                yield latex(child), 0
            elif tag == f"{W}sym":
                place = int(child.get(f"{W}char") or "0", 16)
                yield self._symbol(child.get(f"{W}font") or "", place), height
            elif tag == f"{W}rt":
                over = self.text(child)
                yield f"({over})" if over else "", height
            elif tag == f"{W}ffData":
                yield _form_field(child), height
            elif tag == f"{W}ruby":  # the reading stands before its base
                parts = sorted(child, key=lambda part: part.tag == f"{W}rt")
                yield from self._pieces(parts, height, font)
            elif tag not in _SKIPPED:
                yield from self._pieces(child, height, font)

    def _run(self, run: Any) -> Iterator[Raised]:
        properties = run.find(f"{W}rPr")
        if properties is not None and _on(properties.find(f"{W}vanish")):
            hidden = run.find(f"{W}t") is not None
            self._builder.miss("hidden text", "left out", "unhide it in Word if it counts", hidden)
            return
        own = read_raise(properties)
        height = own if own is not None else self._styles.raised(_val(run, "rPr/rStyle"))
        yield from self._pieces(run, height, _val(run, "rPr/rFonts", "ascii"))

    def _symbol(self, font: str, place: int) -> str:
        found = _SYMBOLS.get(font.casefold(), {}).get(place & 0xFF, "")
        if not found:
            self._builder.miss(
                "symbol", "written as \ufffd: its font has no letters", "write it in a usual font"
            )
        return found or "\ufffd"

    def body(self, container: Any) -> None:
        """Write the blocks of a container, each with what it refers to below it."""
        for element in _children(container, *_BLOCKS):
            if element.tag == f"{W}altChunk":
                self._imported(self._parts[element.get(f"{R}id")].target)
            self._builder.write(self.blocks(element))
            self._builder.write(self._references(element))

    def blocks(self, element: Any) -> Iterator[Block]:
        """Yield a table, or a paragraph and what is in the text boxes anchored in it."""
        if element.tag == f"{W}tbl":
            yield Block(rows=merge_cells(map(self.cells, _children(element, f"{W}tr"))))
        elif text := self.text(element):
            number, level = self._styles.numbering(element)
            mark, depth = self._numbers.marker(number, level, _val(element, "pPr/pStyle"))
            yield Block(text, self._styles.heading(element), mark, depth * bool(mark))
        outer = next(element.iterancestors(FALLBACK, BOX), None)
        for box in element.iter(BOX) if element.tag == f"{W}p" else ():
            if next(box.iterancestors(FALLBACK, BOX), None) is outer:  # Word stores each twice
                for child in _children(box, *_BLOCKS):
                    yield from self.blocks(child)

    def _references(self, element: Any) -> Iterator[Block]:
        """Yield what a paragraph or table refers to: notes, comments, charts, drawings."""
        for mark in element.iter(*_REFERENCES):
            if next(mark.iterancestors(FALLBACK), None) is not None:
                continue
            kind = mark.tag.rpartition("}")[2].removesuffix("Reference")
            yield Block(self._notes.get((kind, mark.get(f"{W}id")), ""))
            if mark.tag in DRAWN:
                yield from find_drawn(mark, self._parts, self._package)

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

    def cells(self, row: Any) -> Iterator[Cell]:
        """Yield the cells of a row; a continued one has no text of its own."""
        before = read_whole_number(_val(row, "trPr/gridBefore"), 0)
        yield from [("", 1, 1)] * min(before, _MOST_COLUMNS)
        for cell in _children(row, f"{W}tc"):
            merge = cell.find(f"{W}tcPr/{W}vMerge")
            continued = merge is not None and merge.get(f"{W}val") != "restart"
            yield (
                None if continued else self.cell(cell),
                1,
                read_span(_val(cell, "tcPr/gridSpan"), _MOST_COLUMNS),
            )

    def cell(self, cell: Any) -> str:
        blocks = (b for child in _children(cell, *_BLOCKS) for b in self.blocks(child))
        return " ".join(filter(None, (block.line for block in blocks)))


def _children(container: Any, *tags: str) -> Iterator[Any]:
    """Yield the children with some tags, in order; what is around them may change nothing."""
    for child in container:
        if child.tag in tags:
            yield child
        elif child.tag in _TRANSPARENT:
            yield from _children(child, *tags)


def _val(element: Any, path: str, name: str = "val") -> str:
    """Return an attribute of the first element at a path of names; empty if there is none."""
    steps = "/".join(f"{W}{step}" for step in path.split("/"))
    child = element.find(steps) if element is not None else None
    return "" if child is None else child.get(f"{W}{name}") or ""


class _Styles:
    """Paragraph styles: which are headings, which carry a list."""

    def __init__(self, styles: list[Any]) -> None:
        self._elements = {style.get(f"{W}styleId") or "": style for style in styles}

    def raised(self, name: str) -> int:
        """Return 1 if a character style raises text, -1 if it lowers it, else 0."""
        heights = (read_raise(style.find(f"{W}rPr")) for style in self.bases(name))
        return next((height for height in heights if height is not None), 0)

    def bases(self, name: str) -> list[Any]:
        """Return a style and the styles that it is based on."""
        found: dict[str, Any] = {}
        while name in self._elements and name not in found:
            found[name] = self._elements[name]
            name = _val(found[name], "basedOn")
        return list(found.values())

    def heading(self, paragraph: Any) -> int:
        """Return the level from 1; 0 if the paragraph is not a heading."""
        for element in (paragraph, *self.bases(_val(paragraph, "pPr/pStyle"))):
            if match := re.fullmatch(r"heading +(\d+)|title", _val(element, "name").lower()):
                return int(match[1] or 1)
            level = read_whole_number(_val(element, "pPr/outlineLvl"), 9)
            if level < 9:
                return level + 1
        return 0

    def numbering(self, paragraph: Any) -> tuple[str, int | None]:
        """Return a paragraph's list and level, from itself or its style; ``""`` without a list."""
        number, level = "", None
        for element in (paragraph, *self.bases(_val(paragraph, "pPr/pStyle"))):
            properties = element.find(f"{W}pPr/{W}numPr")
            if properties is None:
                continue
            if level is None and properties.find(f"{W}ilvl") is not None:
                level = read_whole_number(_val(properties, "ilvl"), 0)
            if properties.find(f"{W}numId") is not None:
                number = _val(properties, "numId")
                break
        return ("" if number == "0" else number), level


class _Numbering:
    """Numbers list items as Word prints them."""

    def __init__(self, items: list[Any]) -> None:
        self._levels = {
            abstract.get(f"{W}abstractNumId") or "": {
                read_whole_number(level.get(f"{W}ilvl"), 0): level
                for level in abstract.iter(f"{W}lvl")
            }
            for abstract in items
            if abstract.tag == f"{W}abstractNum"
        }
        self._numbers = {n.get(f"{W}numId"): n for n in items if n.tag == f"{W}num"}
        self._counts: dict[str, dict[int, int]] = {}
        self._met: set[str] = set()

    def marker(self, number: str, level: int | None, style: str) -> tuple[str, int]:
        """Return the next item's mark (``-``, ``1.``, ``2.b``) and depth; ``""`` without a list."""
        if number not in self._numbers:
            return "", 0
        abstract = _val(self._numbers[number], "abstractNumId")
        levels = self._levels.get(abstract, {})
        if level is None:
            named = (i for i, spec in levels.items() if style and _val(spec, "pStyle") == style)
            level = next(named, 0)
        counts = self._counts.setdefault(abstract, {})
        if number not in self._met:
            self._met.add(number)
            for override in self._numbers[number].iter(f"{W}lvlOverride"):
                if override.find(f"{W}startOverride") is not None:
                    first = read_whole_number(_val(override, "startOverride"), 1)
                    counts[read_whole_number(override.get(f"{W}ilvl"), 0)] = first - 1
        spec = levels.get(level)
        counts[level] = counts.get(level, read_whole_number(_val(spec, "start"), 1) - 1) + 1
        for deeper in [index for index in counts if index > level]:
            del counts[deeper]
        form = "bullet" if spec is None else _val(spec, "numFmt")
        text = _val(spec, "lvlText")
        if form in ("bullet", "none") or "%" not in text:
            return ("" if form == "none" and not text else "-"), level
        for index in range(level + 1):
            above = levels.get(index)
            count = counts.get(index, read_whole_number(_val(above, "start"), 1))
            text = text.replace(f"%{index + 1}", _spell(count, _val(above, "numFmt")))
        return text.strip(), level


def _spell(count: int, form: str) -> str:
    shown = f"{count:02d}" if form == "decimalZero" else str(count)
    if form.endswith("Letter"):
        shown = chr(ord("a") + (count - 1) % 26) * ((count - 1) // 26 + 1)
    if form.endswith("Roman"):
        places = (["", *digits.split()][count // place % 10] for place, digits in _ROMAN.items())
        shown = "m" * (count // 1000) + "".join(places)
    return shown.upper() if form.startswith("upper") else shown


def read_raise(properties: Any) -> int | None:
    """Return 1 if a run's properties raise it, -1 if they lower it; None if they do not say."""
    align = properties.find(f"{W}vertAlign") if properties is not None else None
    if align is None:
        return None
    return {"superscript": 1, "subscript": -1}.get(align.get(f"{W}val") or "", 0)


def _on(toggle: Any) -> bool:
    return toggle is not None and toggle.get(f"{W}val") not in ("0", "false", "off")


def _form_field(field: Any) -> str:
    """Return the state of a tick box, or the choice of a list, of a form."""
    for box in field.iterfind(f"{W}checkBox"):
        checked = box.find(f"{W}checked")
        return "☒" if _on(checked if checked is not None else box.find(f"{W}default")) else "☐"
    entries = [entry.get(f"{W}val") or "" for entry in field.iterfind(f"{W}ddList/{W}listEntry")]
    at = read_whole_number(_val(field, "ddList/result"), 0)
    return entries[at] if at < len(entries) else ""
