"""Search, fusion and selection as flows."""

from __future__ import annotations

from ._channels import candidates
from ._fusion import rrf
from ._options import ChannelWeights, RetrieveOptions
from ._search import retrieve
from ._target import Candidates, Explanation, Retrieved, Target, Variant

__all__ = [
    "Candidates",
    "ChannelWeights",
    "Explanation",
    "RetrieveOptions",
    "Retrieved",
    "Target",
    "Variant",
    "candidates",
    "retrieve",
    "rrf",
]
