"""Images of HTML pages and of the chapters of books."""

from __future__ import annotations

import base64
import binascii
import posixpath
from collections.abc import Iterator
from typing import Any
from urllib.parse import unquote

from ...core import require
from .._archive import Archive
from ._found import FoundFigure, caption_of

_DATA = "data:image/"


def html_figures(html: str) -> Iterator[FoundFigure]:
    """Yield the images of a page: those inside it, and links to files beside it.

    The caption is the ``figcaption``, else the alternative text, else the title. Images on other
    servers are not fetched.
    """
    selectolax = require("selectolax.lexbor", "docs", "reading HTML")
    tree = selectolax.LexborHTMLParser(html)
    for image in tree.css("img[src]"):
        source = image.attributes.get("src") or ""
        caption, before = _around(image)
        if source.startswith(_DATA):
            yield FoundFigure(_inline(source), caption=caption, before=before)
        elif source and ":" not in source and not source.startswith("//"):
            link = unquote(source.partition("?")[0].partition("#")[0])
            yield FoundFigure(b"", caption=caption, before=before, link=link)


def epub_figures(archive: Archive) -> Iterator[FoundFigure]:
    """Yield the images of a book, chapter by chapter."""
    for name in archive.names:
        if not name.lower().endswith((".xhtml", ".html", ".htm")):
            continue
        html = archive.read(name).decode("utf-8", "replace")
        for figure in html_figures(html):
            member = posixpath.normpath(posixpath.join(posixpath.dirname(name), figure.link))
            data = figure.data or (archive.read(member) if member in archive else b"")
            yield FoundFigure(data, caption=figure.caption, before=figure.before)


def _around(image: Any) -> tuple[str, str]:
    """Caption of an image, and the text just before it."""
    alternative = image.attributes.get("alt") or image.attributes.get("title") or ""
    node = image.parent
    while node is not None and node.tag not in ("figure", "body", "html"):
        node = node.parent
    if node is not None and node.tag == "figure":
        named = node.css_first("figcaption")
        text = " ".join(named.text().split()) if named is not None else ""
        return (text or " ".join(alternative.split()))[:400], _text_before(node)
    block = image.parent if image.parent is not None else image
    following = block.next
    lines = [following.text()] if following is not None and following.tag != "-comment" else []
    return caption_of([*lines, block.text()], alternative), _text_before(block)


def _text_before(node: Any) -> str:
    """The last text of the blocks before a node, or before what holds it."""
    while node is not None and node.tag not in ("body", "html"):
        before = node.prev
        while before is not None:
            text = " ".join((before.text() or "").split())
            if text:
                return str(text)
            before = before.prev
        node = node.parent
    return ""


def _inline(source: str) -> bytes:
    head, _, body = source.partition(",")
    if not head.endswith(";base64"):
        return b""
    try:
        return base64.b64decode(body, validate=False)
    except (binascii.Error, ValueError):
        return b""
