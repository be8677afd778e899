"""OpenDocument text: headings, lists and tables in reading order."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from xml.etree import ElementTree

from ..core import EncryptedSourceError
from ._archive import Archive, parse_xml
from ._extract import IMAGES_LEFT_OUT, Cell, Extract, TextBuilder, merge_cells
from ._numbers import write_number
from ._options import SourceOptions

Element = ElementTree.Element

_OFFICE = "{urn:oasis:names:tc:opendocument:xmlns:office:1.0}"
_TEXT = "{urn:oasis:names:tc:opendocument:xmlns:text:1.0}"
_TABLE = "{urn:oasis:names:tc:opendocument:xmlns:table:1.0}"
_STYLE = "{urn:oasis:names:tc:opendocument:xmlns:style:1.0}"
_DC = "{http://purl.org/dc/elements/1.1/}"
_META = "{urn:oasis:names:tc:opendocument:xmlns:meta:1.0}"
_SKIPPED = frozenset(
    {f"{_TEXT}tracked-changes", f"{_OFFICE}annotation", f"{_OFFICE}annotation-end",
     f"{_OFFICE}forms", f"{_TEXT}sequence-decls", f"{_TEXT}variable-decls"}
)  # fmt: skip
_PARAGRAPHS = (f"{_TEXT}h", f"{_TEXT}p")
_DRAW = "{urn:oasis:names:tc:opendocument:xmlns:drawing:1.0}"
_NOTE = f"{_OFFICE}annotation"
_CLASS = "{urn:oasis:names:tc:opendocument:xmlns:presentation:1.0}class"
_REPEAT_LIMIT = 1000


def read_odt(data: bytes, where: str, options: SourceOptions) -> Extract:
    """Read an OpenDocument text or presentation, each slide a page; tracked deletions and comments
    are left out.

    Raises:
        EncryptedSourceError: Protected by a password.
        MalformedSourceError: Truncated or damaged.
    """
    archive, root = _content(data, where, options)
    roots = [root]
    if "styles.xml" in archive:
        roots.append(parse_xml(archive.read("styles.xml"), where))
    body = root.find(f"{_OFFICE}body")
    builder = TextBuilder()
    _count_left_out(root, builder)
    _OdtWalk(builder, roots).blocks(body if body is not None else ())
    meta = _meta(archive, where)
    return builder.extract(
        f"application/vnd.oasis.opendocument.{'presentation' if builder.pages() else 'text'}",
        title=meta.pop("title", ""),
        language=meta.pop("language", "")[:2].lower(),
        dates=(meta.pop("created", ""), meta.pop("modified", "")),
        metadata=meta,
    )


def ods_sheets(
    data: bytes, where: str, options: SourceOptions, builder: TextBuilder
) -> Iterator[tuple[str, list[list[str]]]]:
    """Yield name and cells of the sheets of an OpenDocument spreadsheet; raises as a text does.

    The builder counts what is left out.
    """
    _, root = _content(data, where, options)
    _count_left_out(root, builder)
    walk = _OdtWalk(builder, [])
    for table in root.iterfind(f"{_OFFICE}body/{_OFFICE}spreadsheet/{_TABLE}table"):
        yield table.get(f"{_TABLE}name") or "", walk.grid(table)


def _count_left_out(root: Element, builder: TextBuilder) -> None:
    notes, images = (sum(1 for _ in root.iter(tag)) for tag in (_NOTE, f"{_DRAW}image"))
    builder.miss("comment", "left out", "write it into the text if it counts", notes)
    builder.miss("image", *IMAGES_LEFT_OUT, images)


def _content(data: bytes, where: str, options: SourceOptions) -> tuple[Archive, Element]:
    archive = Archive(data, where, options)
    if "META-INF/manifest.xml" in archive and b"encryption-data" in archive.read(
        "META-INF/manifest.xml"
    ):
        raise EncryptedSourceError(
            "the document is protected by a password",
            where=where,
            hint="save a copy without the password",
        )
    return archive, parse_xml(archive.read("content.xml"), where)


class _OdtWalk:
    def __init__(self, builder: TextBuilder, roots: list[Element]) -> None:
        self._builder = builder
        self._titles = _titles(roots)
        self._ordered = {
            f"{style.get(f'{_STYLE}name')}/{level.get(f'{_TEXT}level')}"
            for root in roots
            for style in root.iter(f"{_TEXT}list-style")
            for level in style.iter(f"{_TEXT}list-level-style-number")
            if level.get(f"{_STYLE}num-format")
        }
        """``style/level`` of the list levels that are numbered."""

    def blocks(self, parent: Iterable[Element]) -> None:
        for child in parent:
            if child.tag in _PARAGRAPHS:
                level = self._titles.get(child.get(f"{_TEXT}style-name") or "", 0)
                if child.tag == _PARAGRAPHS[0]:
                    level = int(child.get(f"{_TEXT}outline-level") or 1)
                text = inline(child).strip()
                self._builder.heading(text, level) if level else self._builder.add(text)
                for frame in child.iter(f"{_DRAW}text-box"):
                    self.blocks(frame)
            elif child.tag == f"{_TEXT}list":
                for text, mark, depth in self.items(child, 0, ""):
                    self._builder.item(text, mark, depth)
            elif child.tag == f"{_TABLE}table":
                self._builder.table(self.grid(child))
            elif child.get(_CLASS) == "title":
                lines = (inline(p) for p in child.iter(f"{_TEXT}p"))
                self._builder.heading(" ".join(lines), 1)
            elif child.tag not in _SKIPPED:
                if child.tag == f"{_DRAW}page":
                    self._builder.page(child.get(f"{_DRAW}name") or "")
                self.blocks(child)

    def items(self, parent: Element, depth: int, style: str) -> Iterator[tuple[str, str, int]]:
        """Yield text, mark and depth of the items of a list; further paragraphs have no mark."""
        style = parent.get(f"{_TEXT}style-name") or style
        number = 0
        for item in parent:
            mark = ""
            for child in item:
                if child.tag == f"{_TEXT}list":
                    yield from self.items(child, depth + 1, style)
                elif child.tag in _PARAGRAPHS and (text := inline(child).strip()):
                    if mark:
                        yield text, "", depth + 1
                        continue
                    number += 1
                    mark = f"{number}." if f"{style}/{depth + 1}" in self._ordered else "-"
                    yield text, mark, depth

    def grid(self, table: Element) -> list[list[str]]:
        """Return the cells of a table; merged ones are repeated in every place they cover."""
        return merge_cells(map(self.cells, _rows(table)))

    def cells(self, row: Element) -> list[Cell]:
        """Return the cells of a row without the empty ones at its end; covered ones say nothing."""
        names = ("number-columns-spanned", "number-columns-repeated")
        cells: list[Cell] = [
            (self.cell(c), _count(c, "number-rows-spanned"), max(_count(c, n) for n in names))
            for c in row.iterfind(f"{_TABLE}table-cell")
        ]
        while cells and not cells[-1][0]:
            cells.pop()
        return cells

    def cell(self, cell: Element) -> str:
        """Return a cell's text; a number as its value, since its text depends on the language."""
        kind, value = (cell.get(f"{_OFFICE}{name}") or "" for name in ("value-type", "value"))
        if kind == "date":
            return (cell.get(f"{_OFFICE}date-value") or "").removesuffix("T00:00:00")
        parts: list[str] = []
        for child in cell:
            if child.tag == f"{_TEXT}list":
                parts += [f"{mark} {text}".strip() for text, mark, _ in self.items(child, 0, "")]
            elif child.tag == f"{_TABLE}table":
                parts += [text for row in self.grid(child) for text in row]
            elif child.tag not in _SKIPPED:
                parts.append(inline(child).strip())
        text = " ".join(part for part in parts if part)
        if not value or (kind == "float" and text.startswith("0") and text.isdecimal()):
            return text  # with leading zeros
        number = write_number(float(value) * (100 if kind == "percentage" else 1))
        unit = {"percentage": "%", "currency": f" {cell.get(f'{_OFFICE}currency') or ''}"}
        return f"{number}{unit.get(kind, '')}".rstrip()


def inline(element: Element) -> str:
    """Return a paragraph's text with notes in brackets, without frames."""
    parts = [(element.text or "").replace("\n", " ")]
    for child in element:
        name = child.tag.rpartition("}")[2]
        if name == "s":
            parts.append(" " * min(int(child.get(f"{_TEXT}c") or 1), 100))
        elif name == "note":
            body = child.find(f"{_TEXT}note-body")
            note = " ".join(inline(p) for p in body).strip() if body is not None else ""
            parts.append(f" ({note})" if note else "")
        elif child.tag not in _SKIPPED and name not in ("text-box", "object", "desc", "title"):
            parts.append({"tab": "\t", "line-break": "\n"}.get(name) or inline(child))
        parts.append((child.tail or "").replace("\n", " "))
    return "".join(parts)


def _rows(table: Element) -> Iterator[Element]:
    for child in table:
        if child.tag == f"{_TABLE}table-row":
            filled = next(child.iter(f"{_TEXT}p"), None) is not None
            yield from [child] * (_count(child, "number-rows-repeated") if filled else 1)
        elif child.tag in (
            f"{_TABLE}table-header-rows", f"{_TABLE}table-rows", f"{_TABLE}table-row-group"
        ):  # fmt: skip
            yield from _rows(child)


def _count(cell: Element, name: str) -> int:
    value = cell.get(f"{_TABLE}{name}") or "1"
    return max(1, min(int(value), _REPEAT_LIMIT)) if value.isdecimal() else 1


def _titles(roots: list[Element]) -> dict[str, int]:
    """Return the paragraph styles that make titles and headings, with their level."""
    levels = {"Title": 1, "Subtitle": 2}
    for style in (style for root in roots for style in root.iter(f"{_STYLE}style")):
        outline = style.get(f"{_STYLE}default-outline-level") or ""
        level = int(outline) if outline.isdecimal() else 0
        level = level or levels.get(style.get(f"{_STYLE}parent-style-name") or "", 0)
        if level:
            levels[style.get(f"{_STYLE}name") or ""] = level
    return levels


def _meta(archive: Archive, where: str) -> dict[str, str]:
    if "meta.xml" not in archive:
        return {}
    root = parse_xml(archive.read("meta.xml"), where)
    names = {
        f"{_DC}title": "title", f"{_DC}creator": "author", f"{_DC}date": "modified",
        f"{_DC}language": "language", f"{_DC}subject": "subject",
        f"{_DC}description": "description", f"{_META}keyword": "keywords",
        f"{_META}creation-date": "created",
    }  # fmt: skip
    return {
        names[e.tag]: e.text.split(".")[0] if "date" in e.tag else e.text
        for e in root.iter()
        if e.tag in names and e.text
    }
