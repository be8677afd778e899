"""A retriever for Haystack."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from haystack import Document, component, default_from_dict, default_to_dict

from ..core import Hit
from ..workbench import Workbench
from ._search import hits_for, metadata


@component
class HaystackRetriever:
    """Searches a project as a component of a Haystack pipeline.

    Args:
        project: Folder of the project, opened at the first search.
        k: Most passages; None: ``retrieve.top_k`` of the project.
        filters: Hard filters, as ``field=value``.
    """

    def __init__(self, project: str, k: int | None = None, filters: Sequence[str] = ()) -> None:
        self.project, self.k, self.filters = project, k, list(filters)
        self._bench: Workbench | None = None

    def warm_up(self) -> None:
        """Open the project."""
        self._bench = self._bench or Workbench.open(self.project)

    @component.output_types(documents=list[Document])
    def run(
        self, query: str, k: int | None = None, filters: list[str] | None = None
    ) -> dict[str, list[Document]]:
        """Search; ``k`` and ``filters`` replace those of the component."""
        self.warm_up()
        assert self._bench is not None
        own = self.filters if filters is None else filters
        hits = hits_for(self._bench, query, k or self.k, own)
        return {"documents": [_document(hit) for hit in hits]}

    def to_dict(self) -> dict[str, Any]:
        """The component, as a pipeline stores it."""
        return dict(default_to_dict(self, project=self.project, k=self.k, filters=self.filters))

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> HaystackRetriever:
        """A component from a stored pipeline."""
        restored: HaystackRetriever = default_from_dict(cls, data)
        return restored


def _document(hit: Hit) -> Document:
    return Document(id=hit.chunk_id, content=hit.text, meta=metadata(hit), score=hit.score)
