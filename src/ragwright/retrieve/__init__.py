"""Search, fusion and selection as flows."""

from __future__ import annotations

from ._fusion import rrf
from ._options import ChannelWeights, RetrieveOptions
from ._search import Candidates, Retrieved, Target, candidates, retrieve

__all__ = [
    "Candidates",
    "ChannelWeights",
    "RetrieveOptions",
    "Retrieved",
    "Target",
    "candidates",
    "retrieve",
    "rrf",
]
