"""PDF: the characters of each page in reading order, tables in place, headings by their size."""

from __future__ import annotations

import ctypes
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import replace
from itertools import chain, groupby, islice
from pathlib import PurePosixPath
from statistics import median
from typing import Any, TypeAlias

from ..core import (
    EmptySourceError,
    EncryptedSourceError,
    MalformedSourceError,
    require,
    well_formed,
)
from ._encoding import Raised, iso_date, join_raised
from ._extract import Extract, TextBuilder, write_comment
from ._ocr import IMAGES, ScannedPage, about_scans, faults_of
from ._options import SourceOptions
from ._pdf_layout import (
    WIDE,
    Box,
    Cell,
    Line,
    PageBlock,
    PageBlocks,
    body_size,
    paragraphs,
    place,
    resolve_hyphens,
    settle,
)
from ._pdf_tables import PageTables, split_tables

LISTENERS: list[Callable[[str], object]] = []
"""Called with each page that is begun."""

OutlineEntry: TypeAlias = tuple[str, int, int]
"""An entry of the outline: title, level from 1, and number of its page from 0."""


def read_outline(pdfium: Any, document: Any) -> list[OutlineEntry]:
    """Return the entries that lead to a page; what cannot be read is left out."""
    entries: list[OutlineEntry] = []
    with suppress(pdfium.PdfiumError, RecursionError, ValueError):
        for item in islice(document.get_toc(), 10_000):  # a made-up one may have no end
            place = item.get_dest()
            page = None if place is None else place.get_index()
            if page is not None:
                entries.append((item.get_title(), item.level + 1, page))
    return entries


def heading_levels(
    pages: Sequence[Sequence[PageBlock]], outline: Sequence[OutlineEntry], body: float
) -> Mapping[int, int]:
    """Return the levels of headings, from 1, by the ``id`` of their blocks.

    An outline decides if at least half of its entries stand on their pages; headings that it
    leaves out take the level of those that look like them. Else the larger and the bold stand
    above.

    Args:
        pages: Blocks of each page.
        outline: Entries of the outline.
        body: Letter height of the running text.
    """
    blocks = [*chain.from_iterable(pages)]
    wanted = {(page, _letters(title)): level for title, level, page in reversed(outline)}
    levels = {
        id(block): min(wanted.pop(key), 6)
        for number, page in enumerate(pages)
        for block in page
        if not block.rows and block.lines <= 4 and len(block.text) < 300
        if (key := (number, _letters(block.text))) in wanted
    }
    levels = levels if 2 * len(levels) >= max(len(outline), 4) else {}
    known = {b.rank: levels[id(b)] for b in reversed(blocks) if id(b) in levels}
    alike = (block for block in blocks if block.is_heading(body))
    for block in sorted(alike, key=lambda block: block.rank, reverse=True):
        above = [level for rank, level in known.items() if rank > block.rank]
        level = known.setdefault(block.rank, min(max(above, default=0) + 1, 6))
        levels.setdefault(id(block), level)
    return levels


def _letters(text: str) -> str:
    return "".join(re.findall(r"\w", text.casefold()))


_TICKS = {2: "☐☒", 3: "○●"}
"""Kind of a field that is on or off -> how it is written."""
_LEFT = 300.0
"""Points to the left of a field in which its label may stand."""


def read_annotations(pdfium: Any, document: Any, page: Any, text_page: Any) -> Iterator[str]:
    """Yield a line for each field of a form that has a value, and for each note.

    Args:
        pdfium: The library.
        document: Its form was set up before its pages were opened.
        page: A page of it.
        text_page: The page's text, in which the labels of fields are looked for.
    """
    raw, form = pdfium.raw, document.formenv
    for at in range(raw.FPDFPage_GetAnnotCount(page)):
        item = raw.FPDFPage_GetAnnot(page, at)
        try:
            kind = raw.FPDFAnnot_GetSubtype(item)
            if kind == raw.FPDF_ANNOT_WIDGET and form is not None:
                yield from _field(raw, form, item, text_page)
            elif kind not in (raw.FPDF_ANNOT_LINK, raw.FPDF_ANNOT_POPUP, raw.FPDF_ANNOT_WIDGET):
                keys = (b"Contents", b"T", b"M")
                said, author, date = (_text(raw.FPDFAnnot_GetStringValue, item, k) for k in keys)
                yield from filter(None, [write_comment(said, author, iso_date(date))])
        finally:
            raw.FPDFPage_CloseAnnot(item)


def _field(raw: Any, form: Any, item: Any, text_page: Any) -> Iterator[str]:
    kind = raw.FPDFAnnot_GetFormFieldType(form, item)
    value = _text(raw.FPDFAnnot_GetFormFieldValue, form, item) if 4 <= kind <= 6 else ""
    if kind in _TICKS:
        value = _TICKS[kind][raw.FPDFAnnot_IsChecked(form, item)]
    box = raw.FS_RECTF()
    if not value or not raw.FPDFAnnot_GetRect(item, box):
        return
    low, high = min(box.top, box.bottom), max(box.top, box.bottom)
    before = text_page.get_text_bounded(max(0.0, box.left - _LEFT), low, box.left, high)
    after = text_page.get_text_bounded(box.right, low, box.right + _LEFT, high)
    sides = (after, before) if kind in _TICKS else (before,)
    labels = (" ".join(side.split()).rstrip(":") for side in sides)
    name = _text(raw.FPDFAnnot_GetFormFieldAlternateName, form, item)
    label = next(filter(None, labels), "") or name
    yield f"{label or _text(raw.FPDFAnnot_GetFormFieldName, form, item)}: {value}"


def _text(call: Callable[..., int], *arguments: Any) -> str:
    """Return a text that PDFium writes into a buffer, of the size that it states first."""
    size = call(*arguments, None, 0)
    buffer = ctypes.create_string_buffer(max(size, 2))
    call(*arguments, ctypes.cast(buffer, ctypes.POINTER(ctypes.c_ushort)), size)
    return " ".join(buffer.raw[: size - 2].decode("utf-16-le", "replace").split())


_NO_TITLE = re.compile(
    r"(?i)^(untitled|microsoft word|powerpoint|slide 1$|.*\.(docx?|pdf|tex|indd|dvi)$)"
)


def read_pdf(
    data: bytes, where: str, options: SourceOptions, scans: Mapping[int, ScannedPage] | None = None
) -> Extract:
    """Read a PDF file with its pages; sections are those of its outline, else lines that are set
    larger than the running text.

    Lines that repeat at the edges of pages are no part of the text; metadata keeps each once.

    PDFium must not be entered by two threads at once: a worker process reads one file at a time.

    ``scans`` are pages read by OCR; empty before that: no text is not an error yet; None never.

    Raises:
        EmptySourceError: No text layer: a scan.
        EncryptedSourceError: A password is needed to open it.
        MalformedSourceError: Truncated or damaged.
    """
    pdfium = require("pypdfium2", "docs", "reading PDF files")
    builder = TextBuilder()
    with closing(_open(pdfium, data, where)) as document:
        document.init_forms()  # before a page is opened
        pages = _pages(pdfium, document, data, where, builder)
        meta = document.get_metadata_dict(skip_empty=True)
        labels = [document.get_page_label(index) or "" for index in range(len(document))]
        outline = read_outline(pdfium, document)
    labels = [label * (label != str(number)) for number, label in enumerate(labels, 1)]
    unread = [number for number, page in enumerate(pages, 1) if page.drawn]
    scans_read = scans or {}
    for number, scan in scans_read.items():
        pages[number - 1] = PageBlocks(paragraphs(scan.lines), added=pages[number - 1].added)
    running = _build(pages, labels, outline, builder)
    if not builder.length and not (unread and scans is not None):
        raise EmptySourceError(
            f"none of the {len(pages)} pages has a text layer"
            + ": the file is a scan" * bool(unread),
            where=where,
            hint="read it by text recognition (OCR): pip install 'ragwright[ocr]'"
            if options.ocr != "never"
            else "remove `ocr: never`, so that it is read by text recognition (OCR)",
        )
    lines = {number for number, scan in scans_read.items() if scan.lines}
    title = meta.get("Title", "").strip()
    extract = builder.extract(
        "application/pdf",
        {
            **{key.lower(): meta.get(key) for key in ("Author", "Subject", "Keywords")},
            "running_lines": running,
            "pages_without_text": [str(number) for number in unread if number not in lines],
            **about_scans(scans_read),
        },
        title="" if _NO_TITLE.match(title) else title,
        dates=(meta.get("CreationDate"), meta.get("ModDate")),
    )
    return replace(extract, faults=(*faults_of(scans_read), *extract.faults), unread=tuple(unread))


def read_image(name: str, scans: Mapping[int, ScannedPage]) -> Extract:
    """Return the text of an image file, with a page for each frame; it may be empty.

    Raises:
        RagwrightError: No frame could be read.
    """
    faults = faults_of(scans)
    if len(faults) == len(scans):
        raise faults[0]
    builder = TextBuilder()
    pages = [PageBlocks(paragraphs(scan.lines)) for _, scan in sorted(scans.items())]
    _build(pages, [""] * len(pages), [], builder)
    suffix = PurePosixPath(name.rpartition("#")[2] or name).suffix.lower()
    extract = builder.extract(IMAGES.get(suffix, "image/png"), about_scans(scans))
    return replace(extract, faults=faults, pages=extract.pages[: len(pages) * (len(pages) > 1)])


def _pages(
    pdfium: Any, document: Any, data: bytes, where: str, builder: TextBuilder
) -> list[PageBlocks]:
    pages: list[PageBlocks] = []
    tables = PageTables(pdfium, data)
    for index in range(len(document)):
        for tell in LISTENERS:
            tell(f"{where}, page {index + 1} of {len(document)}")
        try:
            pages.append(_page(pdfium, document, index, tables))
        except pdfium.PdfiumError:
            pages.append(PageBlocks([]))
            builder.miss("damaged page", "left out", "repair the file, for example with qpdf")
    hint = "compare their tables with the file; repair it, for example with qpdf"
    builder.miss("page", "tables with rules are read as lines", hint, tables.unread)
    return pages


def _open(pdfium: Any, data: bytes, where: str) -> Any:
    try:
        document = pdfium.PdfDocument(data)
    except pdfium.PdfiumError as error:
        if "password" in str(error).lower() or "security" in str(error).lower():
            raise EncryptedSourceError(
                "the PDF needs a password to open",
                where=where,
                hint="save a copy without the password, for example with qpdf --decrypt",
            ) from error
        raise MalformedSourceError(
            f"the PDF is truncated or damaged: {str(error).rstrip('.')}",
            where=where,
            hint="copy or download it again, or repair it, for example with qpdf",
        ) from error
    if not len(document):
        raise MalformedSourceError("the PDF has no pages", where=where, hint="download it again")
    return document


def _page(pdfium: Any, document: Any, index: int, tables: PageTables) -> PageBlocks:
    """Return the blocks of one page in the order in which they are drawn."""
    with closing(document[index]) as page, closing(page.get_textpage()) as text_page:
        content = PageText(pdfium.raw, text_page)
        ruled, owners = tables.find(page, content.text, content.box, index)
        upright = not page.get_rotation()
        blocks = _blocks(content, ruled, owners, upright=upright)
        _, bottom, _, top = page.get_bbox() if upright else (0, 0, 0, 0)
        added = list(read_annotations(pdfium, document, page, text_page))
        empty = not any(block.text.strip() for block in blocks)
        drawn = empty and next(iter(page.get_objects(max_depth=1)), None) is not None
        return PageBlocks(blocks, bottom, top, content.slanted, added, drawn)


def _blocks(
    content: PageText, tables: Sequence[PageBlock], owners: Sequence[int], *, upright: bool
) -> list[PageBlock]:
    """Return the blocks of a page; ``owners`` is the number of each character's table, or -1."""
    blocks: list[PageBlock] = []
    placed: dict[int, int] = {}
    for number, run in groupby(range(len(owners)), owners.__getitem__):
        if number >= 0:
            placed.setdefault(number, len(blocks))
            continue
        places = [*run]
        lines = content.lines(places[0], places[-1] + 1)
        blocks += split_tables(lines) if upright else paragraphs(lines)
    for number, at in reversed(placed.items()):
        blocks.insert(place(blocks, at, tables[number]), tables[number])
    return blocks


def _build(
    pages: Sequence[PageBlocks],
    labels: list[str],
    outline: Sequence[OutlineEntry],
    builder: TextBuilder,
) -> list[str]:
    """Feed the builder; return the running lines that were left out."""
    size = body_size([page.blocks for page in pages])
    running = settle(pages, labels, size)
    every = [page.blocks for page in pages]
    resolve_hyphens(every)
    levels = heading_levels(every, outline, size)
    for page, blocks, label in zip(pages, every, labels, strict=True):
        builder.page(label)
        for block in blocks:
            if id(block) in levels:
                builder.heading(block.text, levels[id(block)], mark=False)
            else:
                builder.add(block.text)
        builder.add("\n".join(page.added))
    return running


_SMALL = re.compile("(?<=\\S)[0-9+\u2212\u2013-]+")
"""Characters that may be raised or lowered, after another one."""
_LAM_ALEF = re.compile("([اأإآ])(ل)")
_LATIN_ARABIC = re.compile("(?<=[A-Za-z])(?=[\u0621-\u064a])")
_STRAY_MARK = re.compile(" ([\u064b-\u0652])([\u0621-\u064a])")
# A glyph without a letter that starts a line, then a space: a drawn bullet.
_BULLET = re.compile("(?m)^[\x01-\x08\x0e-\x1f\x80-\x9f\uf000-\uf0ff](?=[ \t]+\\S)")
_UNMAPPED = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x80-\x9f]")
_BELOW, _ABOVE = 0.22, 0.94
"""Share of the font size that a line takes below and above its baseline."""
_SMALLER, _RAISED, _LOWERED = 0.86, 0.15, 0.05
"""Shares of the font size: of raised letters, and how far they stand from the line."""
_BOLD = re.compile(r"bold|black|heavy|demi|bx\d|bd$", re.I)


class PageText:
    """A page's text, where each position is PDFium's character index, with boxes.

    Attributes:
        text: One Python character per PDFium character.
        slanted: Lines that were set at a slant, with their size, as watermarks are.
    """

    def __init__(self, raw: Any, page: Any) -> None:
        self._raw = raw
        self._page = page
        self.slanted: list[tuple[str, float]] = []
        count = page.count_chars()
        text = page.get_text_range() if count else ""
        if len(text) != count:  # control characters left out, or halves of a pair joined
            text = "".join(chr(raw.FPDFText_GetUnicode(page, at)) for at in range(count))
        text = _BULLET.sub("•", text)
        self.text = _LAM_ALEF.sub(self._mend_lam_alef, text)

    def box(self, at: int, *, loose: bool = False) -> Box:
        """Return a character's left, bottom, right, top in points; ``loose`` goes by the font."""
        left, bottom, right, top = self._page.get_charbox(at, loose=loose)
        return left, bottom, right, top

    def lines(self, start: int, end: int) -> list[Line]:
        """Return the lines of ``text[start:end]`` that are not empty."""
        lines = []
        at = start
        for piece in re.split("(?<=\n)|(?<=\r)(?!\n)", self.text[start:end]):
            bare = piece.rstrip()
            first = at + len(piece) - len(piece.lstrip())
            last = at + len(bare) - 1
            at += len(piece)
            if last >= first:
                text = self._spell(first, last + 1)
                turns = (self._raw.FPDFText_GetCharAngle(self._page, p) for p in (first, last))
                if text and all(0.1 < turn % (math.pi / 2) < math.pi / 2 - 0.1 for turn in turns):
                    self.slanted.append((text, self._raw.FPDFText_GetFontSize(self._page, first)))
                elif text:
                    lines.append(self._line(text, first, last))
        return lines

    def _line(self, text: str, first: int, last: int) -> Line:
        chosen = (first, (first + last) // 2, last)
        boxes = [self.box(at, loose=True) for at in chosen]
        boxes = [box for box in boxes if box[3] > box[1]] or boxes
        bottom, top = (median(box[side] for box in boxes) for side in (1, 3))
        places = [place for at in chosen if (place := self._set(at)) is not None]
        if len(places) == len(chosen):  # heights of boxes differ between letters in many fonts
            em, base = map(median, zip(*places, strict=True))
            bottom, top = base - _BELOW * em, base + _ABOVE * em
        return Line(
            text,
            left=min(box[0] for box in boxes),
            right=max(box[2] for box in boxes),
            bottom=bottom,
            top=top,
            bold=all(map(self._is_bold, (first, last))),
            cells=self._cells(first, last, top - bottom),
        )

    def _cells(self, first: int, last: int, size: float) -> tuple[Cell, ...]:
        """Return the words of a line, from left to right, joined if no wide gap parts them."""
        cells: list[Cell] = []
        for match in re.compile(r"\S+").finditer(self.text, first, last + 1):
            ends = (self.box(match.start(), loose=True), self.box(match.end() - 1, loose=True))
            left, right = min(box[0] for box in ends), max(box[2] for box in ends)
            text = self._spell(match.start(), match.end())
            if cells and left < cells[-1][1]:
                return ()  # written from right to left
            if cells and left <= cells[-1][2] + WIDE * size:
                before = cells.pop()
                text, left = f"{before[0]} {text}", before[1]
            cells.append((text, left, right))
        return tuple(cells)

    def _set(self, at: int) -> tuple[float, float] | None:
        """Return a character's font size and the height of its baseline; None if it is turned."""
        matrix, x, y = self._raw.FS_MATRIX(), ctypes.c_double(), ctypes.c_double()
        if not self._raw.FPDFText_GetMatrix(self._page, at, matrix):
            return None
        em = self._raw.FPDFText_GetFontSize(self._page, at) * math.hypot(matrix.c, matrix.d)
        if em < 1 or abs(matrix.b) > abs(matrix.a):
            return None
        self._raw.FPDFText_GetCharOrigin(self._page, at, x, y)
        return em, y.value

    def _is_bold(self, at: int) -> bool:
        name = ctypes.create_string_buffer(64)
        self._raw.FPDFText_GetFontInfo(self._page, at, name, 64, ctypes.c_int())
        return bool(_BOLD.search(name.value.decode("latin-1")))

    def _spell(self, start: int, end: int) -> str:
        """Return a line as a reader sees it; empty if its glyphs have no letters."""
        text = self.text[start:end]
        if len(_UNMAPPED.findall(text)) > 0.3 * len(text):
            return ""
        text = well_formed(join_raised(self._heights(start, end)))
        # Where runs of two directions meet, their space is often lost.
        return _LATIN_ARABIC.sub(" ", _STRAY_MARK.sub(r"\2\1", text))

    def _heights(self, start: int, end: int) -> Iterator[Raised]:
        """Yield the pieces of a line, and how each is set: digits and signs may be raised."""
        at = start
        for match in _SMALL.finditer(self.text, start + 1, end):
            usual = self._set(match.start() - 1)
            ends = (match.start(), match.end() - 1)
            if usual is None or not any(self._height(place, usual) for place in ends):
                continue
            yield self.text[at : match.start()], 0
            for at in range(*match.span()):
                yield self.text[at], self._height(at, usual)
            at = match.end()
        yield self.text[at:end], 0

    def _height(self, at: int, usual: tuple[float, float]) -> int:
        """Return 1 if a character is smaller and higher than usual, -1 if lower, else 0."""
        placed = self._set(at)
        if placed is None or placed[0] > _SMALLER * usual[0]:
            return 0
        step = (placed[1] - usual[1]) / usual[0]
        return 1 if step > _RAISED else -1 if step < -_LOWERED else 0

    def _mend_lam_alef(self, match: re.Match[str]) -> str:
        """Put back the order of lam and alef where one glyph stands for both.

        PDFium turns right-to-left runs round letter by letter, also inside a ligature; its
        two letters then share one box.
        """
        at = match.start()
        return match[2] + match[1] if self.box(at) == self.box(at + 1) else match[0]
