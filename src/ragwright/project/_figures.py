"""Keeping the figures of a project's documents, and finding those of a passage."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..core import RagwrightError
from ..index import Figure, FigureImage
from ..ingest import (
    FIGURE_KINDS,
    FoundFigure,
    SourceOptions,
    figures_of,
    image_size,
    kept_figures,
    media_type,
)

if TYPE_CHECKING:
    from ..core import Citation, Document, Hit
    from ._project import Project

_MOST_FILE = 200_000_000
"""Bytes of a file in which figures are looked for."""


def keep_figures(project: Project) -> None:
    """Bring the kept figures up to the documents of the index.

    Only files that changed are opened again. Files that cannot be read have no figures.
    """
    hashes = project.store.content_hashes(project.pair)
    kinds = FIGURE_KINDS if project.settings.ingest.figures else {}
    wanted = {n: h for n, h in hashes.items() if Path(n).suffix.lower() in kinds}
    kept = project.figures.hashes()
    project.figures.remove([name for name in kept if name not in wanted])
    for name, content in wanted.items():
        if kept.get(name) != content:
            document = project.store.document(name)
            images = _document_images(project.folder.root, document) if document else []
            project.figures.put(name, content, images)


def _document_images(root: Path, document: Document) -> list[FigureImage]:
    file = root / document.source
    try:
        if not file.is_file() or file.stat().st_size > _MOST_FILE:
            return []
        kind = FIGURE_KINDS[file.suffix.lower()]
        found = figures_of(document.id, kind, file.read_bytes(), SourceOptions())
    except (RagwrightError, OSError):
        return []  # the reader of the file has said what is wrong with it
    linked = [_with_file(figure, file, root) for figure in found]
    images = []
    position = 0
    for figure in kept_figures(linked):
        start = _place(document, figure, position)
        position = start if start is not None else position
        width, height = image_size(figure.data)
        described = Figure(
            "", document.id, figure.page, figure.box, figure.caption, start, width, height
        )
        digest = hashlib.sha256(figure.data).hexdigest()
        images.append(FigureImage(figure.data, digest, media_type(figure.data), described))
    return images


def _with_file(figure: FoundFigure, file: Path, root: Path) -> FoundFigure:
    """Read the image that an HTML file links to, if it is in the project or beside the file."""
    if figure.data or not figure.link:
        return figure
    try:
        target = (file.parent / figure.link).resolve()
        allowed = (file.parent.resolve(), root.resolve())
        if not any(target.is_relative_to(folder) for folder in allowed) or not target.is_file():
            return figure
        data = target.read_bytes() if target.stat().st_size < _MOST_FILE else b""
    except (OSError, ValueError):  # too long a name, a null byte, no right to read it
        return figure
    return FoundFigure(data, figure.page, figure.box, figure.caption, figure.before)


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


def shown_figures(
    project: Project, passages: Sequence[Hit | Citation]
) -> Mapping[int, tuple[Figure, ...]]:
    """The figures of passages: position -> figures whose place is in the passage.

    A figure whose place in the text is unknown belongs to the passages of its page.
    """
    documents = list(dict.fromkeys(passage.document_id for passage in passages))
    figures = project.figures.of(documents)
    return {
        at: chosen
        for at, passage in enumerate(passages)
        if (chosen := tuple(_of_passage(figures, passage)))
    }


def figure_json(figure: Figure) -> dict[str, Any]:
    """A figure for programs, without its image."""
    return {
        "id": figure.id,
        "caption": figure.caption,
        "page": figure.page,
        "box": list(figure.box) if figure.box else None,
        "width": figure.width,
        "height": figure.height,
    }


def figures_by_chunk(
    project: Project, hits: Sequence[Hit | Citation], *, placed: bool = False
) -> Mapping[str, list[dict[str, Any]]]:
    """The figures of passages as JSON, by the id of their chunk; empty where none are kept.

    With ``placed``, only figures whose place in the text is known: those that are known to belong
    to a passage by their page alone may belong to one that the reader must not see.
    """
    if not hits or not project.folder.figures.is_file():
        return {}
    return {
        hits[at].chunk_id: [
            figure_json(figure) for figure in figures if not placed or figure.start is not None
        ]
        for at, figures in shown_figures(project, hits).items()
    }


def _of_passage(figures: Iterable[Figure], passage: Hit | Citation) -> Iterable[Figure]:
    for figure in figures:
        if figure.document_id != passage.document_id:
            continue
        inside = figure.start is not None and passage.start <= figure.start < passage.end
        same_page = (
            figure.start is None and figure.page is not None and (figure.page == passage.page)
        )
        if inside or same_page:
            yield figure
