"""PowerPoint files: a slide is a page; text, tables, charts, notes and comments."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from .._extract import Extract, TextBuilder, merge_cells
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
    add_drawn,
    latex,
    read_whole_number,
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
        _add_slide(slide, part, package, builder)
        for root in package.roots(part, "comments"):
            for comment in root.iter("{*}cm", "{*}reply"):
                by = (
                    people.get(comment.get("authorId")),
                    comment.get("created") or comment.get("dt"),
                )
                bodies = (*comment.iterfind("{*}text"), *comment.iterfind("{*}txBody"))
                texts = (t.text or "" for body in bodies for t in body.iter())
                text = " ".join(" ".join(texts).split())
                builder.add(f"Comment ({', '.join(filter(None, by))}): {text}" if text else "")
    return package.extract(
        "application/vnd.openxmlformats-officedocument.presentationml.presentation"
    )


def _add_slide(slide: Any, part: str, package: Package, builder: TextBuilder) -> None:
    tree = slide.find(f"{_P}cSld/{_P}spTree")
    shapes = list(_shapes(tree)) if tree is not None else []
    places = ((shape, _placeholder(shape)) for shape in shapes)
    titles = (s for s, place in places if place is not None and place.get("idx", "0") == "0")
    title = next(titles, None)
    heading = "" if title is None else " ".join(_text(title).split())
    builder.page(heading)
    builder.heading(heading, 1)
    relations = package.relations(part)
    for shape in shapes:
        if shape is title:
            continue
        for table in shape.iter(f"{A}tbl"):
            builder.table(_cells(table))
        if shape.tag == f"{_P}sp":
            _add_frame(shape, builder)
            continue
        for mark in shape.iter(*DRAWN):
            add_drawn(mark, relations, package, builder)
    for root in package.roots(part, "notesSlide"):
        for shape in root.iter(f"{_P}sp"):
            place = _placeholder(shape)
            if place is not None and place.get("type") == "body" and (notes := _text(shape)):
                builder.add(f"Notes: {notes}")


def _shapes(tree: Any) -> Iterator[Any]:
    for shape in tree:
        if shape.tag in _GROUPS:
            yield from _shapes(shape)
        elif shape.tag in _SHAPES:
            yield shape


def _placeholder(shape: Any) -> Any:
    return shape.find(f"*/{_P}nvPr/{_P}ph")


def _add_frame(shape: Any, builder: TextBuilder) -> None:
    """Append the paragraphs of a shape; bullets and numbers become Markdown list items."""
    place = _placeholder(shape)
    kind = None if place is None else place.get("type", "obj")
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
        if "buNone" in names or not mark:
            builder.add(text)
        else:
            builder.item(text, mark, level)


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
                read_whole_number(cell.get("rowSpan"), 1),
                read_whole_number(cell.get("gridSpan"), 1),
            )
            for cell in row.iterfind(f"{A}tc")
            if not {cell.get("hMerge"), cell.get("vMerge")} & {"1", "true"}
        ]
        for row in table.iterfind(f"{A}tr")
    )
