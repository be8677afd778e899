"""Images of Word and PowerPoint files."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from typing import Any
from xml.etree import ElementTree

from .._archive import Archive, safe_tree
from ._found import FoundFigure, caption_of

_A = "{http://schemas.openxmlformats.org/drawingml/2006/main}"
_R = "{http://schemas.openxmlformats.org/officeDocument/2006/relationships}"
_W = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
_WP = "{http://schemas.openxmlformats.org/drawingml/2006/wordprocessingDrawing}"
_P = "{http://schemas.openxmlformats.org/presentationml/2006/main}"
_PACKAGE = "{http://schemas.openxmlformats.org/package/2006/relationships}"
_POINT = 12_700
"""English metric units in a point."""


def docx_figures(archive: Archive) -> Iterator[FoundFigure]:
    """Yield the images of a Word file in text order.

    The caption is the next or the previous paragraph that begins as captions do, else the
    alternative text.
    """
    links = _relations(archive, "word/document.xml")
    body = safe_tree(archive.read("word/document.xml"), archive.where)
    paragraphs = list(body.iter(f"{_W}p"))
    texts = ["".join(t.text or "" for t in p.iter(f"{_W}t")).strip() for p in paragraphs]
    for at, paragraph in enumerate(paragraphs):
        for blip in paragraph.iter(f"{_A}blip"):
            member = links.get(blip.get(f"{_R}embed") or "", "")
            if member not in archive:
                continue
            properties = paragraph.find(f".//{_WP}docPr")
            alternative = (properties.get("descr") or "") if properties is not None else ""
            after = [text for text in texts[at : at + 4] if text][:2]
            near = [text for text in reversed(texts[max(0, at - 3) : at]) if text]
            caption = caption_of([*after, *near[:1]], alternative)
            before = next((text for text in reversed(texts[:at]) if text), "")
            yield FoundFigure(archive.read(member), caption=caption, before=before)


def pptx_figures(archive: Archive) -> Iterator[FoundFigure]:
    """Yield the images of a PowerPoint file by slide, with their box on it in points."""
    for number, slide in enumerate(_slides(archive), 1):
        links = _relations(archive, slide)
        tree = safe_tree(archive.read(slide), archive.where)
        texts = [
            "".join(t.text or "" for t in paragraph.iter(f"{_A}t")).strip()
            for paragraph in tree.iter(f"{_A}p")
        ]
        for picture in tree.iter(f"{_P}pic"):
            blip = picture.find(f".//{_A}blip")
            member = links.get(blip.get(f"{_R}embed") or "", "") if blip is not None else ""
            if member not in archive:
                continue
            properties = picture.find(f".//{_P}cNvPr")
            alternative = (properties.get("descr") or "") if properties is not None else ""
            yield FoundFigure(
                archive.read(member), number, _box(picture), caption_of(texts, alternative)
            )


def _slides(archive: Archive) -> list[str]:
    """Members of the slides in the order in which they are shown."""
    links = _relations(archive, "ppt/presentation.xml")
    tree = safe_tree(archive.read("ppt/presentation.xml"), archive.where)
    named = [links.get(e.get(f"{_R}id") or "", "") for e in tree.iter(f"{_P}sldId")]
    return [name for name in named if name in archive]


def _box(picture: ElementTree.Element) -> tuple[float, float, float, float] | None:
    place, size = picture.find(f".//{_A}off"), picture.find(f".//{_A}ext[@cx]")
    if place is None or size is None:
        return None
    x, y, width, height = (
        int(element.get(key) or 0) / _POINT
        for element, key in ((place, "x"), (place, "y"), (size, "cx"), (size, "cy"))
    )
    return round(x, 1), round(y, 1), round(x + width, 1), round(y + height, 1)


def _relations(archive: Archive, part: str) -> dict[str, str]:
    """Id -> member of the files that a part of an Office file refers to."""
    folder, _, name = part.rpartition("/")
    file = f"{folder}/_rels/{name}.rels"
    if file not in archive:
        return {}
    relations: dict[str, str] = {}
    for relation in safe_tree(archive.read(file), archive.where).iter(f"{_PACKAGE}Relationship"):
        target: Any = relation.get("Target") or ""
        if relation.get("TargetMode") == "External":
            continue
        member = target.lstrip("/") if target.startswith("/") else posixpath.join(folder, target)
        relations[relation.get("Id") or ""] = re.sub(r"^\./", "", posixpath.normpath(member))
    return relations
