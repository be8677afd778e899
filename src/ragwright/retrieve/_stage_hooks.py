"""Between the stages of a search: where a diagnosis looks on, and puts in what a stage lost."""

from __future__ import annotations

from typing import TypeAlias

from ..core import Hit

Hits: TypeAlias = tuple[Hit, ...]


class StageHooks:
    """What is done to the hits between two stages; this one leaves them as they are.

    One is made for each search. Where the search goes in rounds (``retrieve.iterate``),
    ``pooled`` and ``ordered`` are called in each of them.

    Attributes:
        depth: Least number of candidates the search fetches; what more it fetches than the
            settings ask for changes no hit by itself.
    """

    depth: int = 0

    def pooled(self, hits: Hits) -> Hits:
        """Candidates of the search, best first, before any reranking."""
        return hits

    def ordered(self, hits: Hits) -> Hits:
        """The candidates as the reranker left them, before selection and cut."""
        return hits

    def kept(self, hits: Hits) -> Hits:
        """The hits that selection and ``top_k`` leave, before they are expanded."""
        return hits
