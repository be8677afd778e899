"""Reading the figures of a document from its file, each with its place in the text."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from ...core import RagwrightError, SourceError
from ...index import Figure, FigureImage
from ...ingest import (
    FIGURE_KINDS,
    FoundFigure,
    figures_of,
    image_size,
    kept_figures,
    media_type,
)

if TYPE_CHECKING:
    from ...core import Document
    from ...ingest import SourceOptions


_BEFORE_KNOWN = ("docx", "html")
"""Kinds in which a figure without text before it stands at the beginning."""


@dataclass(frozen=True, slots=True)
class FigureFiles:
    """The files that documents were read from, as far as they lie in the file system.

    Attributes:
        root: Folder that relative sources start from.
        options: The settings of a source, by the name under which it was ingested.
        place: The path of a file by the source of its document, relative to ``root``.
    """

    root: Path
    options: Callable[[str], SourceOptions]
    place: Callable[[str], str] = str

    def images(self, document: Document, source: str) -> list[FigureImage]:
        """The figures of a document; none where it is not a file of its own.

        Args:
            document: The document.
            source: The source that it was ingested from.

        Raises:
            SourceError: The file is damaged, or reading it takes more than the source allows.
        """
        file = self.root / self.place(document.source)
        options = self.options(source)
        kind = FIGURE_KINDS.get(file.suffix.lower(), "")
        try:
            if not kind or not file.is_file() or file.stat().st_size > options.max_bytes:
                return []
            read = figures_of(document.id, kind, file.read_bytes(), options)
        except (RagwrightError, OSError) as error:
            raise _unread(document, error) from error
        linked = [_with_file(figure, file, self.root, options.max_bytes) for figure in read]
        images = []
        position = 0
        for figure in kept_figures(linked):
            start = _place(document, figure, position)
            if start is None and kind in _BEFORE_KNOWN and not figure.before:
                start = 0
            position = start if start is not None else position
            width, height = image_size(figure.data)
            digest = hashlib.sha256(figure.data).hexdigest()
            place = (figure.page, figure.box, figure.caption, start)
            shown = Figure("", document.id, *place, width, height, digest)
            images.append(FigureImage(figure.data, media_type(figure.data), shown))
        return images


def _unread(document: Document, error: RagwrightError | OSError) -> SourceError:
    reason = error.what if isinstance(error, RagwrightError) else str(error)
    further = error.hint if isinstance(error, RagwrightError) else None
    return SourceError(
        f"its figures could not be read: {reason}",
        where=document.source,
        hint="; ".join(filter(None, (further, "the next ingest tries again"))),
    )


def _with_file(figure: FoundFigure, file: Path, root: Path, most: int) -> FoundFigure:
    """Read the image that an HTML file links to, if it is in the project or beside the file."""
    if figure.data or not figure.link:
        return figure
    try:
        target = (file.parent / figure.link).resolve()
        allowed = (file.parent.resolve(), root.resolve())
        if not any(target.is_relative_to(folder) for folder in allowed) or not target.is_file():
            return figure
        data = target.read_bytes() if target.stat().st_size < most else b""
    except (OSError, ValueError):  # too long a name, a null byte, no right to read it
        return figure
    return replace(figure, data=data)


def _place(document: Document, figure: FoundFigure, position: int) -> int | None:
    """Where the caption begins in the text of its page, else the text before the figure."""
    span = next((page.span for page in document.pages if page.number == figure.page), None)
    low, high = (span.start, span.end) if span else (0, len(document.text))
    for words in (figure.caption.split()[:12], figure.before.split()[-12:]):
        if not words:
            continue
        pattern = re.compile(r"\W*\s+".join(re.escape(word) for word in words))
        match = pattern.search(document.text, max(low, position), high)
        match = match or pattern.search(document.text, low, high)
        if match:
            return match.start()
    return None
