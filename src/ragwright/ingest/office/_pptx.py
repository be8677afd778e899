"""PowerPoint files: a slide is a page; text, tables, charts, notes and comments."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from .._extract import Block, Extract, TextBuilder, merge_cells, read_span
from .._normalise import Raised, join_raised
from .._options import SourceOptions
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
    write_comment,
)

_P = "{http://schemas.openxmlformats.org/presentationml/2006/main}"
_GROUPS = frozenset({f"{_P}grpSp", ALTERNATIVE, CHOICE})
_SHAPES = frozenset({f"{_P}sp", f"{_P}pic", f"{_P}graphicFrame"})
_FURNITURE = frozenset({"sldNum", "ftr", "dt"})


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
    shapes = list(_shapes(tree)) if tree is not None else []
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


def _shapes(tree: Any) -> Iterator[Any]:
    for shape in tree:
        if shape.tag in _GROUPS:
            yield from _shapes(shape)
        elif shape.tag in _SHAPES:
            yield shape


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
    for paragraph, text in paragraphs if kind not in _FURNITURE else ():
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
        if child.tag == f"{A}p":
            pieces.append(("\n", 0))
        elif child.tag == f"{A}br":
            pieces.append(("\v", 0))
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
            (
                _text(cell),
                read_span(cell.get("rowSpan")),
                read_span(cell.get("gridSpan")),
            )
            for cell in row.iterfind(f"{A}tc")
            if not {cell.get("hMerge"), cell.get("vMerge")} & {"1", "true"}
        ]
        for row in table.iterfind(f"{A}tr")
    )
