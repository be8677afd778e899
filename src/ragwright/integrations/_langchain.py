"""A retriever for LangChain."""

from __future__ import annotations

from typing import Any

from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever
from pydantic import Field

from ..core import Hit
from ._search import ahits_for, hits_for, metadata


class LangChainRetriever(BaseRetriever):
    """Searches a project for a LangChain chain.

    Attributes:
        bench: An opened :class:`ragwright.Workbench`; the caller closes it.
        k: Most passages; None: ``retrieve.top_k`` of the project.
        filters: Hard filters, as ``field=value``.
    """

    bench: Any
    k: int | None = None
    filters: list[str] = Field(default_factory=list)

    def _get_relevant_documents(self, query: str, *, run_manager: Any) -> list[Document]:
        return [_document(hit) for hit in hits_for(self.bench, query, self.k, self.filters)]

    async def _aget_relevant_documents(self, query: str, *, run_manager: Any) -> list[Document]:
        hits = await ahits_for(self.bench, query, self.k, self.filters)
        return [_document(hit) for hit in hits]


def _document(hit: Hit) -> Document:
    return Document(id=hit.chunk_id, page_content=hit.text, metadata=metadata(hit))
