"""The figures of a file by its kind."""

from __future__ import annotations

from .._archive import Archive
from .._options import SourceOptions
from ._found import FoundFigure, kept_figures
from ._office import docx_figures, pptx_figures
from ._pdf_images import pdf_figures
from ._web_images import epub_figures, html_figures

FIGURE_KINDS = {
    ".pdf": "pdf", ".docx": "docx", ".pptx": "pptx", ".epub": "epub", ".html": "html",
    ".htm": "html", ".xhtml": "html",
}  # fmt: skip
"""Suffix of a file whose figures are kept -> its kind."""


def figures_in(kind: str, data: bytes, where: str, options: SourceOptions) -> list[FoundFigure]:
    """Return the figures of a file, without icons and logos; links of HTML are not read yet.

    Raises:
        MalformedSourceError: The archive is damaged.
    """
    if kind == "pdf":
        return kept_figures(pdf_figures(data))
    if kind == "html":
        return list(html_figures(data.decode("utf-8", "replace")))
    archive = Archive(data, where, options)
    read = {"docx": docx_figures, "pptx": pptx_figures, "epub": epub_figures}[kind]
    return kept_figures(read(archive))
