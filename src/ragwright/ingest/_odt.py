"""OpenDocument text: headings, lists and tables in reading order."""

from __future__ import annotations

from collections.abc import Iterator
from xml.etree import ElementTree

from ..core import EncryptedSourceError, MalformedSourceError
from ._archive import Archive, safe_tree
from ._extract import IMAGES_LEFT_OUT, Extract, TextBuilder
from ._grid import Grid
from ._numbers import plain_number
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
    styles = safe_tree(archive.read("styles.xml"), where) if "styles.xml" in archive else None
    kinds = ("text", "presentation")
    bodies = ((kind, root.find(f"{_OFFICE}body/{_OFFICE}{kind}")) for kind in kinds)
    kind, body = next(((k, found) for k, found in bodies if found is not None), ("", None))
    if body is None:
        raise MalformedSourceError(
            "the document has no text body", where=where, hint="save it again"
        )
    builder = TextBuilder()
    _count_left_out(root, builder)
    walk = _Walk(builder, _titles(root, styles), _ordered(root, styles))
    walk.blocks(body)
    meta = _meta(archive, where)
    return builder.extract(
        f"application/vnd.oasis.opendocument.{kind}",
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
    walk = _Walk(builder, {}, set())
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
    return archive, safe_tree(archive.read("content.xml"), where)


class _Walk:
    def __init__(self, builder: TextBuilder, titles: dict[str, int], ordered: set[str]) -> None:
        self._builder = builder
        self._titles = titles
        self._ordered = ordered
        self._in_list = False

    def blocks(self, parent: Element) -> None:
        for child in parent:
            if child.tag == f"{_TEXT}h":
                level = int(child.get(f"{_TEXT}outline-level") or 1)
                self._builder.heading(inline(child), level)
            elif child.tag == f"{_TEXT}p":
                self._paragraph(child)
            elif child.tag == f"{_TEXT}list":
                for line in self.items(child, 0, ""):
                    self._builder.add(line, "\n" if self._in_list else "\n\n")
                    self._in_list = True
            elif child.tag == f"{_TABLE}table":
                self._builder.table(self.grid(child))
            elif child.tag not in _SKIPPED:
                if child.tag == f"{_DRAW}page":
                    self._builder.page(child.get(f"{_DRAW}name") or "")
                if child.get(_CLASS) == "title":
                    lines = (inline(p) for p in child.iter(f"{_TEXT}p"))
                    self._builder.heading(" ".join(lines), 1)
                else:
                    self.blocks(child)
                continue
            self._in_list = False

    def _paragraph(self, paragraph: Element) -> None:
        level = self._titles.get(paragraph.get(f"{_TEXT}style-name") or "", 0)
        if level:
            self._builder.heading(inline(paragraph), level)
        else:
            self._builder.add(inline(paragraph).strip())
        for frame in frames(paragraph):
            self.blocks(frame)

    def items(self, parent: Element, depth: int, style: str) -> Iterator[str]:
        """Yield the lines of a list; nested ones are indented, numbered ones have numbers."""
        style = parent.get(f"{_TEXT}style-name") or style
        number = 0
        for item in parent:
            if item.tag not in (f"{_TEXT}list-item", f"{_TEXT}list-header"):
                continue
            marked = False
            for child in item:
                if child.tag == f"{_TEXT}list":
                    yield from self.items(child, depth + 1, style)
                elif child.tag in (f"{_TEXT}p", f"{_TEXT}h"):
                    text = inline(child).strip()
                    if text and not marked:
                        marked = True
                        number += 1
                        mark = f"{number}." if f"{style}/{depth + 1}" in self._ordered else "-"
                        yield f"{'    ' * depth}{mark} {text}"
                    elif text:
                        yield f"{'    ' * (depth + 1)}{text}"

    def grid(self, table: Element) -> list[list[str]]:
        """Return the cells of a table; merged ones are repeated in every place they cover."""
        grid = Grid()
        height = 0
        for row, line in enumerate(_rows(table)):
            height, column = row + 1, 0
            for cell in line:
                repeated = _count(cell, "number-columns-repeated")
                if cell.tag == f"{_TABLE}table-cell":
                    across = max(_count(cell, "number-columns-spanned"), repeated)
                    down = _count(cell, "number-rows-spanned")
                    text = self.cell(cell)
                    if text:
                        grid.put(row, column, text, down=down, across=across)
                elif cell.tag != f"{_TABLE}covered-table-cell":
                    continue
                column += repeated
        return grid.rows(height)

    def cell(self, cell: Element) -> str:
        """Return a cell's text; a number as its value, since its text depends on the language."""
        kind, value = (cell.get(f"{_OFFICE}{name}") or "" for name in ("value-type", "value"))
        if kind == "date":
            return (cell.get(f"{_OFFICE}date-value") or "").removesuffix("T00:00:00")
        parts: list[str] = []
        for child in cell:
            if child.tag == f"{_TEXT}list":
                parts += [line.strip() for line in self.items(child, 0, "")]
            elif child.tag == f"{_TABLE}table":
                parts += [text for row in self.grid(child) for text in row]
            elif child.tag not in _SKIPPED:
                parts.append(inline(child).strip())
        text = " ".join(part for part in parts if part)
        if not value or (kind == "float" and text.startswith("0") and text.isdecimal()):
            return text  # with leading zeros
        number = plain_number(float(value) * (100 if kind == "percentage" else 1))
        unit = {"percentage": "%", "currency": f" {cell.get(f'{_OFFICE}currency') or ''}"}
        return f"{number}{unit.get(kind, '')}".rstrip()


def inline(element: Element) -> str:
    """Return a paragraph's text with notes in brackets, without frames."""
    parts: list[str] = []
    _inline(element, parts)
    return "".join(parts)


def _inline(element: Element, parts: list[str]) -> None:
    parts.append(" ".join((element.text or "").split("\n")))
    for child in element:
        name = child.tag.rpartition("}")[2]
        if child.tag == f"{_TEXT}s":
            parts.append(" " * min(int(child.get(f"{_TEXT}c") or 1), 100))
        elif child.tag == f"{_TEXT}tab":
            parts.append("\t")
        elif child.tag == f"{_TEXT}line-break":
            parts.append("\n")
        elif child.tag == f"{_TEXT}note":
            body = child.find(f"{_TEXT}note-body")
            note = " ".join(inline(p) for p in body) if body is not None else ""
            parts.append(f" ({note.strip()})" if note.strip() else "")
        elif child.tag not in _SKIPPED and name not in ("text-box", "object", "desc", "title"):
            _inline(child, parts)
        parts.append(" ".join((child.tail or "").split("\n")))


def frames(paragraph: Element) -> list[Element]:
    """Find the text boxes anchored in a paragraph."""
    return [e for e in paragraph.iter() if e.tag.rpartition("}")[2] == "text-box"]


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


def _titles(*roots: Element | None) -> dict[str, int]:
    """Return the paragraph styles that make titles and headings, with their level."""
    levels = {"Title": 1, "Subtitle": 2}
    for root in roots:
        for style in root.iter(f"{_STYLE}style") if root is not None else ():
            name = style.get(f"{_STYLE}name") or ""
            parent = style.get(f"{_STYLE}parent-style-name") or ""
            outline = style.get(f"{_STYLE}default-outline-level") or ""
            if outline.isdecimal() and int(outline):
                levels[name] = int(outline)
            elif parent in levels:
                levels[name] = levels[parent]
    return levels


def _ordered(*roots: Element | None) -> set[str]:
    """Return ``style/level`` of the list levels that are numbered."""
    return {
        f"{style.get(f'{_STYLE}name')}/{level.get(f'{_TEXT}level')}"
        for root in roots
        if root is not None
        for style in root.iter(f"{_TEXT}list-style")
        for level in style.iter(f"{_TEXT}list-level-style-number")
        if level.get(f"{_STYLE}num-format")
    }


def _meta(archive: Archive, where: str) -> dict[str, str]:
    if "meta.xml" not in archive:
        return {}
    root = safe_tree(archive.read("meta.xml"), where)
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
