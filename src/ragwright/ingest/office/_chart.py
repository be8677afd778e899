"""Charts of Office files as tables: what their points stand for, and the points."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .._extract import IMAGES_LEFT_OUT, TextBuilder
from .._numbers import show_number
from ._package import A, Package, R, Relation

_C = "{http://schemas.openxmlformats.org/drawingml/2006/chart}"
_DIAGRAM = "{http://schemas.openxmlformats.org/drawingml/2006/diagram}relIds"
DRAWN = (f"{_C}chart", _DIAGRAM, f"{A}blip", "{urn:schemas-microsoft-com:vml}imagedata")
"""Marks of charts, diagrams and images in the text of a part."""
_Points = dict[int, str]


def add_drawn(
    mark: Any, relations: Mapping[str | None, Relation], package: Package, builder: TextBuilder
) -> None:
    """Append the chart or the texts of the diagram that a mark stands for; count an image."""
    if mark.tag not in DRAWN[:2]:
        builder.miss("image", *IMAGES_LEFT_OUT)
        return
    relation = relations.get(mark.get(f"{R}id") or mark.get(f"{R}dm"))
    root = package.root(relation.target) if relation is not None else None
    if root is None:
        builder.miss("chart", "left out: its part is missing", "insert the chart again")
    elif mark.tag == _DIAGRAM:
        for paragraph in root.iter(f"{A}p"):
            builder.add(" ".join("".join(t.text or "" for t in paragraph.iter(f"{A}t")).split()))
    else:
        add_chart(builder, root)


def add_chart(builder: TextBuilder, root: Any) -> None:
    """Append a chart: its title, the titles of its axes, its series as columns of a table.

    Numbers keep all their digits. Series that share no categories have tables of their own.
    """
    title = _text(root.find(f"{_C}chart/{_C}title"))
    axes = [
        _text(axis.find(f"{_C}title"))
        for axis in root.iterfind(f"{_C}chart/{_C}plotArea/*")
        if axis.tag.endswith("Ax")
    ]
    start = builder.length
    tables: list[tuple[list[_Points], list[tuple[str, _Points]]]] = []
    for series in root.iter(f"{_C}ser"):
        labels = _labels(series.find(f"{_C}cat"), series.find(f"{_C}xVal"))
        name = " ".join(_points(series.find(f"{_C}tx")).values())
        columns = [
            (name if key != "bubbleSize" else f"{name} (size)".strip(), _points(values))
            for key in ("val", "yVal", "bubbleSize")
            if (values := series.find(f"{_C}{key}")) is not None
        ]
        if tables and labels == tables[-1][0]:
            tables[-1][1].extend(columns)
        else:
            tables.append((labels, columns))
    for labels, columns in tables:
        places = sorted({at for points in (*labels, *(p for _, p in columns)) for at in points})
        head = [title, *[""] * (len(labels) - 1)] if labels else [title]
        rows = [[*head, *(name for name, _ in columns)]]
        rows += [
            [points.get(at, "") for points in (*(labels or [{}]), *(p for _, p in columns))]
            for at in places
        ]
        builder.table(rows if places else [])
    if builder.length == start:
        builder.add(title)
    builder.add(f"Axes: {', '.join(filter(None, axes))}" if any(axes) else "")


def _labels(*sources: Any) -> list[_Points]:
    """Return the categories of a series, outer levels first and repeated down."""
    source = next((source for source in sources if source is not None), None)
    levels = [] if source is None else list(source.iter(f"{_C}lvl"))
    if not levels:
        points = _points(source)
        return [points] if points else []
    places = sorted({at for level in levels for at in _points(level)})
    labels = []
    for level in reversed(levels):
        points, last = _points(level), ""
        labels.append({at: (last := points.get(at, last)) for at in places})
    return labels


def _points(source: Any) -> _Points:
    """Return the points of a series by place; numbers as their format shows them."""
    if source is None:
        return {}
    code = source.findtext(f".//{_C}formatCode") or ""
    numbers = source.find(f".//{_C}numCache") is not None or source.find(f"{_C}numLit") is not None
    points: _Points = {}
    for point in source.iter(f"{_C}pt"):
        text, place = point.findtext(f"{_C}v") or "", point.get("idx") or ""
        if numbers:
            try:
                text = show_number(float(text), point.get("formatCode") or code, exact=True)
            except ValueError:
                pass
        points[int(place) if place.isdecimal() else len(points)] = text
    return points or {at: v.text or "" for at, v in enumerate(source.iterfind(f"{_C}v"))}


def _text(title: Any) -> str:
    if title is None:
        return ""
    texts = (t.text or "" for tag in (f"{A}t", f"{_C}v") for t in title.iter(tag))
    return " ".join("".join(texts).split())
