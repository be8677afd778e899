"""Word and PowerPoint files: headings, lists, tables, notes, comments, charts in reading order."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import chain
from typing import Any

from ._encoding import Raised, join_raised, sniff
from ._extract import Block, Cell, Extract, TextBuilder, merge_cells, read_span, write_comment
from ._html import read_html
from ._options import SourceOptions
from ._package import (
    ALTERNATIVE,
    CHOICE,
    DRAWN,
    FALLBACK,
    MATH,
    A,
    Package,
    R,
    find_drawn,
    latex,
    read_whole_number,
)
from ._plain import read_plain

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
        self._styles = {s.get(f"{W}styleId") or "": s for s in self._items("styles", "style")}
        self._numbers = _Numbering(self._items("numbering", "*"))
        self._notes: dict[tuple[str, str], str] = {}
        for kind in ("footnote", "endnote", "comment"):
            for note in self._items(f"{kind}s", kind):
                said = filter(None, map(self.text, note.iter(f"{W}p")))
                text = " ".join(said) if not note.get(f"{W}type") else ""  # else a separator
                if kind == "comment":
                    text = write_comment(text, note.get(f"{W}author"), note.get(f"{W}date"))
                self._notes[kind, note.get(f"{W}id")] = text

    def _items(self, kind: str, name: str) -> list[Any]:
        """Return the elements of a name in the part of a kind."""
        roots = self._package.roots(self._package.main_name, kind)[:1]
        return [item for root in roots for item in root.iter(f"{W}{name}")]

    def document(self) -> None:
        """Read the body, each block with what it refers to; then the running heads and feet."""
        for element in _children(chain(*self._package.main.iterfind(f"{W}body")), *_BLOCKS):
            if element.tag == f"{W}altChunk":
                self._imported(self._parts[element.get(f"{R}id")].target)
            self._builder.write(self._blocks(element))
            self._builder.write(self._references(element))
        for kind in ("Header", "Footer"):
            marks = self._package.main.iter(f"{W}{kind.lower()}Reference")
            parts = [self._package.root(self._parts[mark.get(f"{R}id")].target) for mark in marks]
            for line in dict.fromkeys([self._cell(part) for part in parts if part is not None]):
                self._builder.add("" if _PAGE_NUMBER.fullmatch(line) else f"{kind}: {line}")

    def text(self, paragraph: Any) -> str:
        """Return a paragraph's text with insertions, without deletions and text boxes."""
        return join_raised(self._pieces(paragraph, 0, "")).strip()

    def _pieces(self, element: Any, height: int, font: str) -> Iterator[Raised]:
        for child in element:
            tag = child.tag
            if tag == f"{W}t":
                text = child.text or ""  # U+F000 to U+F0FF are the letters of symbol fonts
                text = re.sub("[\uf000-\uf0ff]", lambda m: self._symbol(font, ord(m[0])), text)
                yield text, height
            elif tag in _FIXED:
                yield _FIXED[tag], height
            elif tag == f"{W}r":
                yield from self._run(child)
            elif tag == MATH:
                yield latex(child), 0
            elif tag == f"{W}sym":
                place = int(child.get(f"{W}char") or "0", 16)
                yield self._symbol(child.get(f"{W}font") or "", place), height
            elif tag == f"{W}ffData":
                yield _form_field(child), height
            elif tag == f"{W}ruby":  # the reading, which stands before its base
                over = " ".join(map(self.text, child.iterfind(f"{W}rt")))
                yield from self._pieces(child.iterfind(f"{W}rubyBase"), height, font)
                yield f"({over})" if over else "", height
            elif tag not in _SKIPPED:
                yield from self._pieces(child, height, font)

    def _run(self, run: Any) -> Iterator[Raised]:
        if any(map(_is_on, run.iterfind(f"{W}rPr/{W}vanish"))):
            hidden = run.find(f"{W}t") is not None
            self._builder.miss("hidden text", "left out", "unhide it in Word if it counts", hidden)
            return
        styles = (run, *self._bases(_val(run, "rPr/rStyle")))
        align = next(filter(None, (_val(style, "rPr/vertAlign") for style in styles)), "")
        height = {"superscript": 1, "subscript": -1}.get(align, 0)
        yield from self._pieces(run, height, _val(run, "rPr/rFonts", "ascii"))

    def _symbol(self, font: str, place: int) -> str:
        found = _SYMBOLS.get(font.casefold(), {}).get(place & 0xFF, "")
        if not found:
            self._builder.miss(
                "symbol", "written as \ufffd: its font has no letters", "write it in a usual font"
            )
        return found or "\ufffd"

    def _blocks(self, element: Any) -> Iterator[Block]:
        """Yield a table, or a paragraph and what is in the text boxes anchored in it."""
        if element.tag == f"{W}tbl":
            yield Block(rows=merge_cells(map(self._cells, _children(element, f"{W}tr"))))
            return
        if text := self.text(element):
            mark, depth = self._numbers.marker(*self._numbering(element))
            yield Block(text, self._level(element), mark, depth * bool(mark))
        outer = next(element.iterancestors(FALLBACK, BOX), None)
        for box in element.iter(BOX):
            if next(box.iterancestors(FALLBACK, BOX), None) is outer:  # Word stores each twice
                for child in _children(box, *_BLOCKS):
                    yield from self._blocks(child)

    def _bases(self, name: str) -> list[Any]:
        """Return a style and the styles that it is based on."""
        found: dict[str, Any] = {}
        while name in self._styles and name not in found:
            found[name] = self._styles[name]
            name = _val(found[name], "basedOn")
        return list(found.values())

    def _level(self, paragraph: Any) -> int:
        """Return the level from 1; 0 if the paragraph is not a heading."""
        for element in (paragraph, *self._bases(_val(paragraph, "pPr/pStyle"))):
            if match := re.fullmatch(r"heading +(\d+)|title", _val(element, "name").lower()):
                return int(match[1] or 1)
            level = read_whole_number(_val(element, "pPr/outlineLvl"), 9)
            if level < 9:
                return level + 1
        return 0

    def _numbering(self, paragraph: Any) -> tuple[str, str, str]:
        """Return the list and level of a paragraph, from itself or its style, and its style."""
        style, number, level = _val(paragraph, "pPr/pStyle"), "", ""
        for element in (paragraph, *self._bases(style)):
            level = level or _val(element, "pPr/numPr/ilvl") * (not number)
            number = number or _val(element, "pPr/numPr/numId")
        return number, level, style

    def _references(self, element: Any) -> Iterator[Block]:
        """Yield what a paragraph or table refers to: notes, comments, charts, drawings."""
        for mark in element.iter(*_REFERENCES):
            kind = mark.tag.rpartition("}")[2].removesuffix("Reference")
            if next(mark.iterancestors(FALLBACK), None) is None:
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

    def _cells(self, row: Any) -> Iterator[Cell]:
        """Yield the cells of a row; a continued one has no text of its own."""
        before = read_whole_number(_val(row, "trPr/gridBefore"), 0)
        yield from [("", 1, 1)] * min(before, _MOST_COLUMNS)
        for cell in _children(row, f"{W}tc"):
            merge = cell.find(f"{W}tcPr/{W}vMerge")
            continued = merge is not None and merge.get(f"{W}val") != "restart"
            text = None if continued else self._cell(cell)
            yield text, 1, read_span(_val(cell, "tcPr/gridSpan"), _MOST_COLUMNS)

    def _cell(self, cell: Any) -> str:
        blocks = (b for child in _children(cell, *_BLOCKS) for b in self._blocks(child))
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

    def marker(self, number: str, stated: str, style: str) -> tuple[str, int]:
        """Return the next item's mark (``-``, ``1.``, ``2.b``) and depth; ``""`` without a list.

        Args:
            number: The list.
            stated: Level of the item; if empty, that of the list for the style.
            style: The item's style.
        """
        if number == "0" or number not in self._numbers:
            return "", 0
        abstract = _val(self._numbers[number], "abstractNumId")
        levels = self._levels.get(abstract, {})
        named = (i for i, spec in levels.items() if style and _val(spec, "pStyle") == style)
        level = read_whole_number(stated, 0) if stated else next(named, 0)
        counts = self._counts.setdefault(abstract, {})
        overrides = self._numbers[number].iter(f"{W}lvlOverride")
        for override in overrides if number not in self._met else ():
            if override.find(f"{W}startOverride") is not None:
                first = read_whole_number(_val(override, "startOverride"), 1)
                counts[read_whole_number(override.get(f"{W}ilvl"), 0)] = first - 1
        self._met.add(number)
        starts = {i: read_whole_number(_val(spec, "start"), 1) for i, spec in levels.items()}
        counts[level] = counts.get(level, starts.get(level, 1) - 1) + 1
        counts = self._counts[abstract] = {i: n for i, n in counts.items() if i <= level}
        form, text = _val(levels.get(level), "numFmt"), _val(levels.get(level), "lvlText")
        if form in ("bullet", "none") or "%" not in text:
            return ("" if form == "none" and not text else "-"), level
        for index in range(level + 1):
            count = counts.get(index, starts.get(index, 1))
            text = text.replace(f"%{index + 1}", _spell(count, _val(levels.get(index), "numFmt")))
        return text.strip(), level


def _spell(count: int, form: str) -> str:
    shown = f"{count:02d}" if form == "decimalZero" else str(count)
    if form.endswith("Letter"):
        shown = chr(ord("a") + (count - 1) % 26) * ((count - 1) // 26 + 1)
    if form.endswith("Roman"):
        places = (["", *digits.split()][count // place % 10] for place, digits in _ROMAN.items())
        shown = "m" * (count // 1000) + "".join(places)
    return shown.upper() if form.startswith("upper") else shown


def _is_on(toggle: Any) -> bool:
    return toggle.get(f"{W}val") not in ("0", "false", "off")


def _form_field(field: Any) -> str:
    """Return the state of a tick box, or the choice of a list, of a form."""
    for box in field.iterfind(f"{W}checkBox"):
        states = [*box.iterfind(f"{W}checked"), *box.iterfind(f"{W}default")][:1]
        return "☒" if any(map(_is_on, states)) else "☐"
    entries = [entry.get(f"{W}val") or "" for entry in field.iterfind(f"{W}ddList/{W}listEntry")]
    at = read_whole_number(_val(field, "ddList/result"), 0)
    return "".join(entries[at : at + 1])


_P = "{http://schemas.openxmlformats.org/presentationml/2006/main}"
_BREAKS = {f"{A}p": "\n", f"{A}br": "\v"}
_SHAPES = frozenset({f"{_P}sp", f"{_P}pic", f"{_P}graphicFrame"})


def read_pptx(data: bytes, where: str, options: SourceOptions) -> Extract:
    """Read a presentation; each slide is a page labelled with its title.

    Raises:
        EncryptedSourceError: Protected by a password.
        MalformedSourceError: Truncated or damaged.
    """
    builder = TextBuilder()
    package = Package(data, where, options, builder, "ppt/presentation.xml")
    people = {
        element.get("id"): element.get("name")
        for root in package.roots(package.main_name, "commentAuthors", "authors")
        for element in root.iter()
        if element.get("name") and element.get("id")
    }
    relations = package.relations(package.main_name)
    for entry in package.main.iter(f"{_P}sldId"):
        part = relations[entry.get(f"{R}id")].target
        slide = package.root(part)
        if slide is None:
            builder.page()
            builder.miss("slide", "left out: damaged", "open the file in PowerPoint and save it")
            continue
        builder.write(_read_slide(slide, part, package))
        for root in package.roots(part, "comments"):
            for comment in root.iter("{*}cm", "{*}reply"):
                bodies = (*comment.iterfind("{*}text"), *comment.iterfind("{*}txBody"))
                texts = (t.text or "" for body in bodies for t in body.iter())
                text = " ".join(" ".join(texts).split())
                date = comment.get("created") or comment.get("dt")
                builder.add(write_comment(text, people.get(comment.get("authorId")), date))
    return package.extract(
        "application/vnd.openxmlformats-officedocument.presentationml.presentation"
    )


def _read_slide(slide: Any, part: str, package: Package) -> Iterator[Block]:
    tree = slide.find(f"{_P}cSld/{_P}spTree")
    found = tree.iter(*_SHAPES) if tree is not None else ()
    shapes = [s for s in found if next(s.iterancestors(FALLBACK, *_SHAPES), None) is None]
    title = next((shape for shape in shapes if _place(shape).get("idx") == "0"), None)
    heading = "" if title is None else " ".join(_text(title).split())
    package.builder.page(heading)
    yield Block(heading, 1)
    for shape in shapes:
        if shape is title:
            continue
        yield from (Block(rows=_cells(table)) for table in shape.iter(f"{A}tbl"))
        if shape.tag == f"{_P}sp":
            yield from _paragraphs(shape)
            continue
        for mark in shape.iter(*DRAWN):
            yield from find_drawn(mark, package.relations(part), package)
    for root in package.roots(part, "notesSlide"):
        for shape in root.iter(f"{_P}sp"):
            if _place(shape).get("type") == "body" and (notes := _text(shape)):
                yield Block(f"Notes: {notes}")


def _place(shape: Any) -> dict[str, str]:
    """Return type and number of the place that a shape fills on its slide."""
    place = shape.find(f"*/{_P}nvPr/{_P}ph")
    return {} if place is None else {"type": "obj", "idx": "0", **place.attrib}


def _paragraphs(shape: Any) -> Iterator[Block]:
    """Yield the paragraphs of a shape; bullets and numbers become Markdown list items."""
    kind = _place(shape).get("type")
    paragraphs = [(p, text) for p in shape.iter(f"{A}p") if (text := " ".join(_text(p).split()))]
    listed = kind in ("body", "obj") and len(paragraphs) > 1
    counts: dict[int, int] = {}
    for paragraph, text in paragraphs if kind not in ("sldNum", "ftr", "dt") else ():
        properties = next(paragraph.iter(f"{A}pPr"), paragraph)
        level = read_whole_number(properties.get("lvl"), 0)
        names = [child.tag.rpartition("}")[2] for child in properties]
        counts = {place: n for place, n in counts.items() if place <= level}
        mark = "-" if listed or level or "buChar" in names else ""
        if "buAutoNum" in names:
            counts[level] = counts.get(level, 0) + 1
            mark = f"{counts[level]}."
        mark = "" if "buNone" in names else mark
        yield Block(text, mark=mark, depth=level * bool(mark))


def _text(element: Any) -> str:
    """Return the text of paragraphs, with raised and lowered runs and equations."""
    pieces: list[Raised] = []
    for child in element.iter(f"{A}p", f"{A}t", f"{A}br", MATH):
        if child.tag in _BREAKS:
            pieces.append((_BREAKS[child.tag], 0))
        elif child.tag == MATH:
            pieces.append((latex(child), 0))
        elif not any(parent.tag == FALLBACK for parent in child.iterancestors()):
            properties = child.getparent().find(f"{A}rPr")
            base = properties.get("baseline", "0") if properties is not None else "0"
            height = 0 if base.strip("0%") == "" else -1 if base.startswith("-") else 1
            pieces.append((child.text or "", height))
    return join_raised(pieces).strip()


def _cells(table: Any) -> list[list[str]]:
    return merge_cells(
        [
            (_text(cell), read_span(cell.get("rowSpan")), read_span(cell.get("gridSpan")))
            for cell in row.iterfind(f"{A}tc")
            if not {cell.get("hMerge"), cell.get("vMerge")} & {"1", "true"}
        ]
        for row in table.iterfind(f"{A}tr")
    )
