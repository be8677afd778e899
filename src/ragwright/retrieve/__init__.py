"""Search, fusion and selection as flows."""

from __future__ import annotations

from ._channels import candidates
from ._databases import (
    Databases,
    SqlHandler,
)
from ._expand import ExpandOptions, expand_hits, merge_hits
from ._fusion import rrf
from ._options import ChannelWeights, RetrieveOptions
from ._rerank import RerankOptions, rerank_depth, rerank_hits, rerank_method
from ._search import retrieve
from ._select import (
    SelectOptions,
    dissimilar,
    diversify,
    mmr,
    select_depth,
    select_hits,
    similarities,
    word_similarities,
)
from ._spread import Spread, one_sided, spread
from ._tables import (
    Column,
    Database,
    DatabaseOptions,
    DatabaseReader,
    Table,
)
from ._target import Candidates, Explanation, Retrieved, Target, Variant

__all__ = [
    "Candidates",
    "ChannelWeights",
    "Column",
    "Database",
    "DatabaseOptions",
    "DatabaseReader",
    "Databases",
    "ExpandOptions",
    "Explanation",
    "RerankOptions",
    "RetrieveOptions",
    "Retrieved",
    "SelectOptions",
    "Spread",
    "SqlHandler",
    "Table",
    "Target",
    "Variant",
    "candidates",
    "dissimilar",
    "diversify",
    "expand_hits",
    "merge_hits",
    "mmr",
    "one_sided",
    "rerank_depth",
    "rerank_hits",
    "rerank_method",
    "retrieve",
    "rrf",
    "select_depth",
    "select_hits",
    "similarities",
    "spread",
    "word_similarities",
]
