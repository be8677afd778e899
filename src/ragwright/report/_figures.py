"""The figures of passages in a report: shown with the passage, each image once, within a limit."""

from __future__ import annotations

import base64
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeAlias

from ..core import Citation
from ..project import shown_figures

if TYPE_CHECKING:
    from ..core import Document
    from ..index import Figure
    from ..project import Project

Passage: TypeAlias = tuple[str, int, int, int | None, str]
"""Document, first and last character, page and text."""

_LARGEST = 600_000
"""Bytes of an image that a report holds; of larger ones it holds the caption."""


class PassageFigures:
    """The figures of the passages of stored runs.

    A passage whose text is no longer that of its document has none: they may belong to other text.

    Args:
        project: The project that the runs belong to.
    """

    def __init__(self, project: Project) -> None:
        self._project = project
        self._document = lru_cache(maxsize=16)(self._stored)

    def _stored(self, name: str) -> Document | None:
        return self._project.store.document(name)

    def of(self, passage: Passage) -> tuple[Figure, ...]:
        """The figures that belong to a passage."""
        name, start, end, page, text = passage
        if not self._project.folder.figures.is_file():
            return ()
        place = Citation(0, "", name, "", "", page, start, end)
        figures = shown_figures(self._project, [place]).get(0, ())
        if not figures:
            return ()
        document = self._document(name)
        same = document is not None and document.text[start:end] == text
        return figures if same else ()

    def address(self, figure: Figure) -> str:
        """The image as an address that holds it; empty if it is too large for a report."""
        file = self._project.figures.file(figure.image)
        if file is None or len(file[1]) > _LARGEST:
            return ""
        return f"data:{file[0]};base64,{base64.b64encode(file[1]).decode('ascii')}"


@dataclass(slots=True)
class FigureTable:
    """The figures of a report, numbered.

    Attributes:
        source: Where they come from; None for a report without figures.
        room: Most characters of all images.
        rows: ``[caption, page, width, height, description, model, image]`` of each figure.
        images: Addresses of the images; the last value of a row is the place of its image here,
            -1 for an image that is left out.
    """

    source: PassageFigures | None
    room: int
    rows: list[list[Any]] = field(default_factory=list)
    images: list[str] = field(default_factory=list)
    _numbers: dict[str, int] = field(default_factory=dict)
    _places: dict[str, int] = field(default_factory=dict)

    def numbers(self, passage: Passage) -> list[int]:
        """Numbers of the figures of a passage."""
        figures: Iterable[Figure] = () if self.source is None else self.source.of(passage)
        return [self._number(figure) for figure in figures]

    def _number(self, figure: Figure) -> int:
        if figure.id not in self._numbers:
            self._numbers[figure.id] = len(self.rows)
            about = (figure.caption, figure.page, figure.width, figure.height)
            described = (figure.description, figure.described_by)
            self.rows.append([*about, *described, self._place(figure)])
        return self._numbers[figure.id]

    def _place(self, figure: Figure) -> int:
        if figure.image not in self._places:
            address = "" if self.source is None else self.source.address(figure)
            fits = 0 < len(address) <= self.room
            self._places[figure.image] = len(self.images) if fits else -1
            if fits:
                self.room -= len(address)
                self.images.append(address)
        return self._places[figure.image]
