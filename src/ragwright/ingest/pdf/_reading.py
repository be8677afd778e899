"""PDF: text by page in reading order, ruled tables in place, headings by their size."""

from __future__ import annotations

import ctypes
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from itertools import groupby, islice
from typing import Any

from ...core import EmptySourceError, EncryptedSourceError, MalformedSourceError, require, tell
from .._extract import Extract, TextBuilder
from .._normalise import iso_date
from .._options import SourceOptions
from .._pdf_layout import (
    Block,
    Line,
    body_size,
    join_formulas,
    paragraphs,
    place,
    resolve_hyphens,
)
from ..ocr import ScannedPage, about_scans, faults_of
from ._settle import PageBlocks, settle
from ._tables import PageTable, PageTables
from ._text import PageText
from ._unruled import split_tables

_MOST = 10_000
"""Entries of an outline that are read; a made-up one may have no end."""


@dataclass(frozen=True, slots=True)
class OutlineEntry:
    """An entry of the outline: title, level from 1, and number of its page from 0."""

    title: str
    level: int
    page: int


def read_outline(pdfium: Any, document: Any) -> list[OutlineEntry]:
    """Return the entries that lead to a page; what cannot be read is left out."""
    entries: list[OutlineEntry] = []
    with suppress(pdfium.PdfiumError, RecursionError, ValueError):
        for item in islice(document.get_toc(), _MOST):
            place = item.get_dest()
            page = None if place is None else place.get_index()
            if page is not None:
                entries.append(OutlineEntry(item.get_title(), item.level + 1, page))
    return entries


def heading_levels(
    pages: Sequence[Sequence[Block]], outline: Sequence[OutlineEntry], body: float
) -> Mapping[int, int]:
    """Return the levels of headings, from 1, by the ``id`` of their blocks.

    An outline decides where at least half of its entries stand on their pages; headings that it
    leaves out take the level of those that look like them. Else the larger and the bold stand
    above.

    Args:
        pages: Blocks of each page.
        outline: Entries of the outline.
        body: Letter height of the running text.
    """
    alike = [block for blocks in pages for block in blocks if block.is_heading(body)]
    listed = _listed(pages, outline)
    if 2 * len(listed) < len(outline) or len(listed) < 2:
        ranks = sorted({block.rank for block in alike}, reverse=True)
        return {id(block): min(ranks.index(block.rank) + 1, 6) for block in alike}
    levels = {id(block): level for block, level in listed}
    votes: dict[tuple[int, bool], Counter[int]] = {}
    for block, level in listed:
        votes.setdefault(block.rank, Counter())[level] += 1
    known = {rank: max(counts, key=lambda n: (counts[n], -n)) for rank, counts in votes.items()}
    for block in alike:
        above = [level for rank, level in known.items() if rank > block.rank]
        level = known.get(block.rank, max(above, default=0) + 1)
        levels.setdefault(id(block), level)
    return {key: min(level, 6) for key, level in levels.items()}


def _listed(
    pages: Sequence[Sequence[Block]], outline: Sequence[OutlineEntry]
) -> list[tuple[Block, int]]:
    """Return the blocks whose text is that of an entry for their page, with its level."""
    wanted: dict[tuple[int, str], int] = {}
    for entry in outline:
        wanted.setdefault((entry.page, _letters(entry.title)), entry.level)
    listed: list[tuple[Block, int]] = []
    for number, blocks in enumerate(pages):
        for block in blocks:
            if block.kind == "text" and block.lines <= 4 and len(block.text) < 300:
                level = wanted.pop((number, _letters(block.text)), None)
                if level is not None:
                    listed.append((block, level))
    return listed


def _letters(text: str) -> str:
    return "".join(re.findall(r"\w", text.casefold()))


_TICKS = {2: "☐☒", 3: "○●"}
"""Kind of a field that is on or off -> how it is written."""
_VALUES = frozenset({4, 5, 6})  # lists and text
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
                by = ", ".join(filter(None, (author, iso_date(date))))
                if said:
                    yield f"Comment ({by}): {said}" if by else f"Comment: {said}"
        finally:
            raw.FPDFPage_CloseAnnot(item)


def _field(raw: Any, form: Any, item: Any, text_page: Any) -> Iterator[str]:
    kind = raw.FPDFAnnot_GetFormFieldType(form, item)
    value = _text(raw.FPDFAnnot_GetFormFieldValue, form, item) if kind in _VALUES else ""
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
    data: bytes,
    where: str,
    options: SourceOptions,
    scans: Mapping[int, ScannedPage] | None = None,
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
        pages = _pages(pdfium, document, data, where, options, builder)
        meta = document.get_metadata_dict(skip_empty=True)
        labels = [document.get_page_label(index) or "" for index in range(len(document))]
        outline = read_outline(pdfium, document)
    labels = [label * (label != str(number)) for number, label in enumerate(labels, 1)]
    unread = [number for number, page in enumerate(pages, 1) if page.drawn]
    scans_read = scans or {}
    for number, scan in scans_read.items():
        pages[number - 1] = PageBlocks(paragraphs(scan.lines), added=pages[number - 1].added)
    running = _build(pages, labels, outline, builder)
    if builder.empty and not (unread and scans is not None):
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
    faults = (*faults_of(scans_read), *extract.faults)
    return replace(extract, faults=faults, unread=tuple(unread))


def _pages(
    pdfium: Any,
    document: Any,
    data: bytes,
    where: str,
    options: SourceOptions,
    builder: TextBuilder,
) -> list[PageBlocks]:
    pages: list[PageBlocks] = []
    with closing(PageTables(pdfium, data)) as tables:
        for index in range(len(document)):
            tell(f"{where}, page {index + 1} of {len(document)}")
            try:
                pages.append(_page(pdfium, document, index, tables if options.tables else None))
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


def _page(pdfium: Any, document: Any, index: int, tables: PageTables | None) -> PageBlocks:
    """Return the blocks of one page in the order in which they are drawn."""
    with closing(document[index]) as page, closing(page.get_textpage()) as text_page:
        content = PageText(pdfium.raw, text_page)
        ruled = tables.find(page, content, index) if tables is not None else []
        upright = not page.get_rotation()
        blocks = _blocks(content, ruled, tables_too=tables is not None and upright)
        _, bottom, _, top = page.get_bbox() if upright else (0, 0, 0, 0)
        added = list(read_annotations(pdfium, document, page, text_page))
        empty = not any(block.text.strip() for block in blocks)
        drawn = empty and next(iter(page.get_objects(max_depth=1)), None) is not None
        return PageBlocks(blocks, bottom, top, content.slanted, added, drawn)


def _running(lines: Sequence[Line], tables_too: bool) -> list[Block]:
    """Return paragraphs and tables without rules, in the order in which they were drawn."""
    blocks: list[Block] = []
    for _, run in groupby(split_tables(lines) if tables_too else lines, type):
        items = [*run]
        blocks += paragraphs([item for item in items if isinstance(item, Line)])
        blocks += [item for item in items if isinstance(item, Block)]
    return blocks


def _blocks(content: PageText, tables: Sequence[PageTable], *, tables_too: bool) -> list[Block]:
    blocks: list[Block] = []
    placed: list[tuple[int, Block]] = []
    start = 0
    for table in sorted(tables, key=lambda t: t.ranges[0][0]):
        for low, high in table.ranges:
            blocks += _running(content.lines(start, low), tables_too)
            start = max(start, high)
            if low == table.ranges[0][0]:
                placed.append((len(blocks), table.block))
    blocks += _running(content.lines(start, len(content.text)), tables_too)
    for at, block in reversed(placed):
        blocks.insert(place(blocks, at, block), block)
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
    every = [join_formulas(page.blocks) for page in pages]
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
