"""OpenDocument text: headings, lists and tables in reading order."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from xml.etree import ElementTree

from ..core import EncryptedSourceError
from ._archive import Archive, parse_xml, texts_by_name
from ._extract import IMAGES_LEFT_OUT, Cell, Extract, TextBuilder, merge_cells
from ._numbers import write_number
from ._options import SourceOptions

Element = ElementTree.Element

_OFFICE, _TEXT, _TABLE, _STYLE, _DRAW, _SHOW = (
    f"{{urn:oasis:names:tc:opendocument:xmlns:{name}:1.0}}"
    for name in ("office", "text", "table", "style", "drawing", "presentation")
)
_NOTE = f"{_OFFICE}annotation"
_SKIPPED = frozenset(
    {f"{_TEXT}tracked-changes", _NOTE, f"{_OFFICE}annotation-end",
     f"{_OFFICE}forms", f"{_TEXT}sequence-decls", f"{_TEXT}variable-decls"}
)  # fmt: skip
_PARAGRAPHS = (f"{_TEXT}h", f"{_TEXT}p")
_ROW_GROUPS = (f"{_TABLE}table-header-rows", f"{_TABLE}table-rows", f"{_TABLE}table-row-group")
_REPEAT_LIMIT = 1000
_PARTS = ("styles.xml", "meta.xml")


def read_odt(data: bytes, where: str, options: SourceOptions) -> Extract:
    """Read an OpenDocument text or presentation, each slide a page; tracked deletions and comments
    are left out.

    Raises:
        EncryptedSourceError: Protected by a password.
        MalformedSourceError: Truncated or damaged.
    """
    builder = TextBuilder()
    archive, root = _content(data, where, options, builder)
    roots = {name: parse_xml(archive.read(name), where) for name in _PARTS if name in archive.names}
    body = root.find(f"{_OFFICE}body")
    _OdtWalk(builder, [root, roots.get("styles.xml", root)]).blocks(
        body if body is not None else ()
    )
    about, _ = texts_by_name(roots["meta.xml"].iter() if "meta.xml" in roots else ())
    return builder.extract(
        f"application/vnd.oasis.opendocument.{'presentation' if builder.pages() else 'text'}",
        {
            "author": about["creator"],
            "keywords": about["keyword"],
            **{name: about[name] for name in ("subject", "description")},
        },
        title=about["title"],
        language=about["language"][:2].lower(),
        dates=(about["creation-date"].split(".")[0], about["date"].split(".")[0]),
    )


def ods_sheets(
    data: bytes, where: str, options: SourceOptions, builder: TextBuilder
) -> Iterator[tuple[str, list[list[str]]]]:
    """Yield name and cells of the sheets of an OpenDocument spreadsheet; raises as a text does.

    The builder counts what is left out.
    """
    _, root = _content(data, where, options, builder)
    walk = _OdtWalk(builder, [])
    for table in root.iterfind(f"{_OFFICE}body/{_OFFICE}spreadsheet/{_TABLE}table"):
        yield table.get(f"{_TABLE}name") or "", walk.grid(table)


def _content(
    data: bytes, where: str, options: SourceOptions, builder: TextBuilder
) -> tuple[Archive, Element]:
    archive = Archive(data, where, options)
    manifest = "META-INF/manifest.xml"
    if manifest in archive.names and b"encryption-data" in archive.read(manifest):
        raise EncryptedSourceError(
            "the document is protected by a password",
            where=where,
            hint="save a copy without the password",
        )
    root = parse_xml(archive.read("content.xml"), where)
    notes, images = (sum(1 for _ in root.iter(tag)) for tag in (_NOTE, f"{_DRAW}image"))
    builder.miss("comment", "left out", "write it into the text if it counts", notes)
    builder.miss("image", *IMAGES_LEFT_OUT, images)
    return archive, root


class _OdtWalk:
    def __init__(self, builder: TextBuilder, roots: list[Element]) -> None:
        self._builder = builder
        self._titles = {"Title": 1, "Subtitle": 2}
        """Style of a paragraph that makes a title or heading -> its level."""
        for style in (style for root in roots for style in root.iter(f"{_STYLE}style")):
            outline = style.get(f"{_STYLE}default-outline-level") or ""
            parent = self._titles.get(style.get(f"{_STYLE}parent-style-name") or "", 0)
            if level := (int(outline) if outline.isdecimal() else 0) or parent:
                self._titles[style.get(f"{_STYLE}name") or ""] = level
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
            elif child.get(f"{_SHOW}class") == "title":
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
        elif child.tag in _ROW_GROUPS:
            yield from _rows(child)


def _count(cell: Element, name: str) -> int:
    value = cell.get(f"{_TABLE}{name}") or "1"
    return max(1, min(int(value), _REPEAT_LIMIT)) if value.isdecimal() else 1
