"""PowerPoint files: a slide is a page; text, tables, charts, notes and comments."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import Any

from ...core import EmptySourceError, MalformedSourceError, require
from .._archive import safe_xml
from .._extract import IMAGES_LEFT_OUT, Extract, TextBuilder
from .._options import SourceOptions
from .._raised import Raised, join_raised
from ._chart import add_chart, diagram_text
from ._math import latex
from ._package import Package
from ._text import FALLBACK, A, R

_MATH = "{http://schemas.openxmlformats.org/officeDocument/2006/math}oMath"
_CHART = "{http://schemas.openxmlformats.org/drawingml/2006/chart}chart"
_DIAGRAM = "{http://schemas.openxmlformats.org/drawingml/2006/diagram}relIds"
_FURNITURE = frozenset({13, 15, 16})  # slide number, footer, date
_BODIES = frozenset({2, 7})  # body, object
_DAMAGED = ("left out: damaged", "open the file in PowerPoint and save it")


def read_pptx(data: bytes, where: str, options: SourceOptions) -> Extract:
    """Read a presentation; each slide is a page labelled with its title.

    Raises:
        EmptySourceError: No text on any slide.
        EncryptedSourceError: Protected by a password.
        MalformedSourceError: Truncated or damaged.
    """
    builder = TextBuilder()
    package = Package(data, where, options, builder)
    pptx = require("pptx", "docs", "reading PowerPoint files")
    about = package.properties()
    try:
        presentation = pptx.Presentation(io.BytesIO(package.mended()))
        listed = list(presentation.slides._sldIdLst)
    except Exception as error:
        raise MalformedSourceError(
            f"the PowerPoint file is damaged: {error}",
            where=where,
            hint="open it in PowerPoint and save it",
        ) from error
    people = _people(presentation.part)
    for entry in listed:
        try:
            slide = presentation.part.related_slide(entry.rId)
        except Exception:  # the library fails in its own ways
            builder.page()
            builder.miss("slide", *_DAMAGED)
            continue
        _slide(slide, builder, people)
    if builder.empty:
        raise EmptySourceError(
            "no slide contains text",
            where=where,
            hint="pictures of text need text recognition first",
        )
    title = about.get("title", "")
    return builder.extract(
        "application/vnd.openxmlformats-officedocument.presentationml.presentation",
        {
            "author": about.get("creator"),
            **{key: about.get(key) for key in ("subject", "keywords")},
        },
        title="" if title == "PowerPoint Presentation" else title,
        dates=(about.get("created"), about.get("modified")),
    )


def _slide(slide: Any, builder: TextBuilder, people: dict[str, str]) -> None:
    title = slide.shapes.title
    heading = _text(title.text_frame._txBody).strip() if title is not None else ""
    builder.page(" ".join(heading.split()))
    builder.heading(heading, 1)
    for shape in _shapes(slide.shapes):
        if title is not None and shape.shape_id == title.shape_id:
            continue
        try:
            _shape(shape, slide.part, builder)
        except Exception:  # one bad shape must not lose the slide
            builder.miss("shape", *_DAMAGED)
    if slide.has_notes_slide and slide.notes_slide.notes_text_frame is not None:
        notes = slide.notes_slide.notes_text_frame.text.strip()
        builder.add(f"Notes: {notes}" if notes else "")
    for comment in _comments(slide.part, people):
        builder.add(comment)


def _shape(shape: Any, part: Any, builder: TextBuilder) -> None:
    if getattr(shape, "has_table", False):
        builder.table(_grid(shape.table))
    elif shape.has_text_frame:
        if not _is_furniture(shape):
            builder.add(_frame(shape))
        return
    for mark in shape._element.iter(_CHART, _DIAGRAM, f"{A}blip"):
        if mark.tag == f"{A}blip":
            builder.miss("image", *IMAGES_LEFT_OUT)
            continue
        related = part.rels.get(mark.get(f"{R}id") or mark.get(f"{R}dm"))
        if related is None:
            builder.miss("chart", "left out: its part is missing", "insert the chart again")
            continue
        etree = require("lxml.etree", "docs", "reading PowerPoint files")
        root = etree.fromstring(safe_xml(related.target_part.blob, "chart"))
        if mark.tag == _CHART:
            add_chart(builder, root)
        else:
            builder.add("\n".join(diagram_text(root)))


def _shapes(shapes: Any) -> Iterator[Any]:
    for shape in shapes:
        if hasattr(shape, "shapes"):
            yield from _shapes(shape.shapes)
        else:
            yield shape


def _is_furniture(shape: Any) -> bool:
    return shape.is_placeholder and int(shape.placeholder_format.type or 0) in _FURNITURE


def _frame(shape: Any) -> str:
    """Return the paragraphs of a shape; bullets and numbers become Markdown list items."""
    paragraphs = [p for p in shape.text_frame.paragraphs if _text(p._p).strip()]
    body = shape.is_placeholder and int(shape.placeholder_format.type or 0) in _BODIES
    lines: list[str] = []
    counts: dict[int, int] = {}
    for paragraph in paragraphs:
        kind = _bullet(paragraph, body and len(paragraphs) > 1)
        counts = {level: n for level, n in counts.items() if level <= paragraph.level}
        text = " ".join(_text(paragraph._p).split())
        if kind == "number":
            counts[paragraph.level] = counts.get(paragraph.level, 0) + 1
            text = f"{counts[paragraph.level]}. {text}"
        elif kind == "bullet":
            text = f"- {text}"
        lines.append("    " * paragraph.level * bool(kind) + text)
        lines.append("" if not kind else "\n")
    return "\n".join(lines).replace("\n\n\n", "\n")


def _text(element: Any) -> str:
    """Return the text of paragraphs, with raised and lowered runs and equations."""
    pieces: list[Raised] = []
    for child in element.iter(f"{A}p", f"{A}t", f"{A}br", _MATH):
        if child.tag == f"{A}p":
            pieces.append(("\n", 0))
        elif child.tag == f"{A}br":
            pieces.append(("\v", 0))
        elif child.tag == _MATH:
            pieces.append((latex(child), 0))
        elif not any(parent.tag == FALLBACK for parent in child.iterancestors()):
            properties = child.getparent().find(f"{A}rPr")
            base = properties.get("baseline", "0") if properties is not None else "0"
            height = 0 if base.strip("0%") == "" else -1 if base.startswith("-") else 1
            pieces.append((child.text or "", height))
    return join_raised(pieces).strip("\n")


def _bullet(paragraph: Any, by_default: bool) -> str:
    properties = paragraph._p.pPr  # python-pptx offers no public way to the bullet
    if properties is not None:
        if properties.find(f"{A}buNone") is not None:
            return ""
        if properties.find(f"{A}buAutoNum") is not None:
            return "number"
        if properties.find(f"{A}buChar") is not None:
            return "bullet"
    return "bullet" if by_default or paragraph.level else ""


def _grid(table: Any) -> list[list[str]]:
    rows = [[_text(cell._tc) for cell in row.cells] for row in table.rows]
    for r, row in enumerate(table.rows):
        for c, cell in enumerate(row.cells):
            if cell.is_merge_origin:
                for down in range(cell.span_height):
                    for across in range(cell.span_width):
                        rows[r + down][c + across] = rows[r][c]
    return rows


def _people(part: Any) -> dict[str, str]:
    """Return the names of comment authors by id."""
    return {
        element.get("id") or "": f"{element.get('name')}"
        for root in _related(part, ("/commentAuthors", "/authors"))
        for element in root.iter()
        if element.get("name") and element.get("id")
    }


def _related(part: Any, endings: tuple[str, ...]) -> Iterator[Any]:
    for relation in part.rels.values():
        if relation.reltype.endswith(endings) and not relation.is_external:
            etree = require("lxml.etree", "docs", "reading PowerPoint files")
            yield etree.fromstring(safe_xml(relation.target_part.blob, "comments"))


def _comments(part: Any, people: dict[str, str]) -> Iterator[str]:
    """Yield comments and replies in order, each with author and time."""
    for root in _related(part, ("/comments",)):
        for element in root.iter():
            if _local(element) not in ("cm", "reply"):
                continue
            author = people.get(element.get("authorId") or "", "")
            time = element.get("created") or element.get("dt") or ""
            text = _comment_text(element)
            if text:
                yield f"Comment ({', '.join(part for part in (author, time) if part)}): {text}"


def _comment_text(comment: Any) -> str:
    parts = []
    for child in comment:
        if _local(child) in ("text", "txBody"):
            parts += [t.text or "" for t in child.iter() if _local(t) in ("t", "text") and t.text]
    return " ".join(" ".join(parts).split())


def _local(element: Any) -> str:
    return str(element.tag).rpartition("}")[2]
