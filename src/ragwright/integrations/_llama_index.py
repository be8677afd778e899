"""A retriever for LlamaIndex."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode

from ..core import Hit
from ..workbench import Workbench
from ._search import ahits_for, hits_for, metadata


class LlamaIndexRetriever(BaseRetriever):
    """Searches a project for a LlamaIndex query engine.

    Args:
        bench: An opened :class:`ragwright.Workbench`; the caller closes it.
        k: Most passages; None: ``retrieve.top_k`` of the project.
        filters: Hard filters, as ``field=value``.
        more: Arguments of LlamaIndex's own base class.
    """

    def __init__(
        self, bench: Workbench, k: int | None = None, filters: Sequence[str] = (), **more: Any
    ) -> None:
        self._bench, self._k, self._filters = bench, k, tuple(filters)
        super().__init__(**more)

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        hits = hits_for(self._bench, query_bundle.query_str, self._k, self._filters)
        return [_node(hit) for hit in hits]

    async def _aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        hits = await ahits_for(self._bench, query_bundle.query_str, self._k, self._filters)
        return [_node(hit) for hit in hits]


def _node(hit: Hit) -> NodeWithScore:
    node = TextNode(id_=hit.chunk_id, text=hit.text, metadata=metadata(hit))
    return NodeWithScore(node=node, score=hit.score)
