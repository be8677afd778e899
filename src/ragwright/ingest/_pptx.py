"""PowerPoint files: a slide is a page; text, tables, charts, notes and comments."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import Any

from ..core import EmptySourceError, MalformedSourceError, require
from ._archive import Archive, safe_xml
from ._extract import Extract, TextBuilder
from ._options import SourceOptions

_A = "{http://schemas.openxmlformats.org/drawingml/2006/main}"
_FURNITURE = frozenset({13, 15, 16})  # slide number, footer, date
_BODIES = frozenset({2, 7})  # body, object


def read_pptx(data: bytes, where: str, options: SourceOptions) -> Extract:
    """Read a presentation; each slide is a page labelled with its title.

    Raises:
        EmptySourceError: No text on any slide.
        EncryptedSourceError: Protected by a password.
        MalformedSourceError: Truncated or damaged.
    """
    Archive(data, where, options)
    pptx = require("pptx", "docs", "reading PowerPoint files")
    try:
        presentation = pptx.Presentation(io.BytesIO(data))
        slides = list(presentation.slides)
    except Exception as error:
        raise MalformedSourceError(
            f"the PowerPoint file is damaged: {error}",
            where=where,
            hint="open it in PowerPoint and save it",
        ) from error
    builder = TextBuilder()
    people = _people(presentation.part)
    for slide in slides:
        _slide(slide, builder, people)
    if builder.empty:
        raise EmptySourceError(
            "no slide contains text",
            where=where,
            hint="pictures of text need text recognition first",
        )
    properties = presentation.core_properties
    title = (properties.title or "").strip()
    return builder.extract(
        "application/vnd.openxmlformats-officedocument.presentationml.presentation",
        {key: getattr(properties, key) for key in ("author", "subject", "keywords")},
        title="" if title == "PowerPoint Presentation" else title,
        dates=(properties.created, properties.modified),
    )


def _slide(slide: Any, builder: TextBuilder, people: dict[str, str]) -> None:
    title = slide.shapes.title
    heading = title.text_frame.text.strip() if title is not None else ""
    builder.page(" ".join(heading.split()))
    builder.heading(heading, 1)
    for shape in _shapes(slide.shapes):
        if title is not None and shape.shape_id == title.shape_id:
            continue
        if getattr(shape, "has_table", False):
            builder.table(_grid(shape.table))
        elif getattr(shape, "has_chart", False):
            builder.table(_chart(shape.chart))
        elif shape.has_text_frame and not _is_furniture(shape):
            builder.add(_frame(shape))
    if slide.has_notes_slide and slide.notes_slide.notes_text_frame is not None:
        notes = slide.notes_slide.notes_text_frame.text.strip()
        builder.add(f"Notes: {notes}" if notes else "")
    for comment in _comments(slide.part, people):
        builder.add(comment)


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
    paragraphs = [p for p in shape.text_frame.paragraphs if p.text.strip()]
    body = shape.is_placeholder and int(shape.placeholder_format.type or 0) in _BODIES
    lines: list[str] = []
    counts: dict[int, int] = {}
    for paragraph in paragraphs:
        kind = _bullet(paragraph, body and len(paragraphs) > 1)
        counts = {level: n for level, n in counts.items() if level <= paragraph.level}
        text = " ".join(paragraph.text.split())
        if kind == "number":
            counts[paragraph.level] = counts.get(paragraph.level, 0) + 1
            text = f"{counts[paragraph.level]}. {text}"
        elif kind == "bullet":
            text = f"- {text}"
        lines.append("    " * paragraph.level * bool(kind) + text)
        lines.append("" if not kind else "\n")
    return "\n".join(lines).replace("\n\n\n", "\n")


def _bullet(paragraph: Any, by_default: bool) -> str:
    properties = paragraph._p.pPr  # python-pptx offers no public way to the bullet
    if properties is not None:
        if properties.find(f"{_A}buNone") is not None:
            return ""
        if properties.find(f"{_A}buAutoNum") is not None:
            return "number"
        if properties.find(f"{_A}buChar") is not None:
            return "bullet"
    return "bullet" if by_default or paragraph.level else ""


def _grid(table: Any) -> list[list[str]]:
    rows = [[cell.text_frame.text for cell in row.cells] for row in table.rows]
    for r, row in enumerate(table.rows):
        for c, cell in enumerate(row.cells):
            if cell.is_merge_origin:
                for down in range(cell.span_height):
                    for across in range(cell.span_width):
                        rows[r + down][c + across] = cell.text_frame.text
    return rows


def _chart(chart: Any) -> list[list[str]]:
    """Return the numbers behind a chart: categories down, series across."""
    title = chart.chart_title.text_frame.text if chart.has_title else ""
    series = [s for plot in chart.plots for s in plot.series]
    categories = [str(c) for c in chart.plots[0].categories] if len(chart.plots) else []
    rows = [[title, *(s.name for s in series)]]
    for index, category in enumerate(categories):
        values = [s.values[index] if index < len(s.values) else None for s in series]
        rows.append([category, *("" if v is None else f"{v:g}" for v in values)])
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
