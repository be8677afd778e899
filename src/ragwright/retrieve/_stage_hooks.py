"""Hooks between the stages of a search, for diagnosis."""

from __future__ import annotations

from typing import TypeAlias

from ..core import Hit

Hits: TypeAlias = tuple[Hit, ...]


class StageHooks:
    """Hooks that may change the hits between stages; this one leaves them as they are.

    One is made for each search. Where the search goes in rounds (``retrieve.iterate``),
    ``pooled`` and ``ordered`` are called in each of them.

    Attributes:
        depth: Least number of candidates that the search fetches; fetching more than configured
            does not change hits by itself.
    """

    depth: int = 0

    def pooled(self, hits: Hits) -> Hits:
        """Candidates of the search, best first, before any reranking."""
        return hits

    def ordered(self, hits: Hits) -> Hits:
        """The reranked candidates, before selection and cut."""
        return hits

    def kept(self, hits: Hits) -> Hits:
        """The hits after selection and ``top_k``, before they are expanded."""
        return hits
