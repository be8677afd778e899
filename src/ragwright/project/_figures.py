"""Keeping the figures of a project's documents, and finding those of a passage."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..core import Hit, SourceError
from ..ingest import FIGURE_KINDS, Failure
from ._source_entries import source_options
from .building import FigureFiles

if TYPE_CHECKING:
    from ..core import Citation
    from ..index import Figure
    from ._project import Project


def keep_figures(project: Project, tried: frozenset[str] = frozenset()) -> list[Failure]:
    """Bring the kept figures up to the documents of the index.

    Only files that changed are opened again, and those whose figures could not be read.

    Args:
        project: The project.
        tried: Documents whose figures could not be read just now.

    Returns:
        A warning for each file whose figures cannot be read.
    """
    hashes = project.store.content_hashes(project.pair)
    kinds = FIGURE_KINDS if project.settings.ingest.figures else {}
    wanted = {n: h for n, h in hashes.items() if Path(n).suffix.lower() in kinds}
    kept = project.figures.hashes()
    project.figures.remove([name for name in kept if name not in wanted])
    changed = [n for n, h in wanted.items() if kept.get(n) != h and n not in tried]
    if not changed:
        return []
    files = figure_files(project)
    sources = project.store.sources(project.pair)
    warnings = []
    for name in changed:
        document = project.store.document(name)
        content = document.content_hash() if document else ""
        if document is None or content == kept.get(name):
            continue
        try:
            project.figures.put(name, content, files.images(document, sources[name]))
        except SourceError as error:
            project.figures.remove([name])
            warnings.append(Failure(name, error, warning=True))
    return warnings


def figure_files(project: Project) -> FigureFiles:
    """The files that the documents of a project were read from."""
    return FigureFiles(project.folder.root, partial(source_options, project))


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
        **(
            {"description": figure.description, "described_by": figure.described_by}
            if figure.description
            else {}
        ),
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
    further = passage.pages if isinstance(passage, Hit) else ()
    pages = {passage.page, *(number for _, number in further)}
    for figure in figures:
        if figure.document_id != passage.document_id:
            continue
        inside = figure.start is not None and passage.start <= figure.start < passage.end
        same_page = figure.start is None and figure.page is not None and figure.page in pages
        if inside or same_page:
            yield figure
