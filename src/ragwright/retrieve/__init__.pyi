from ._adaptive import Balance, balance, held_share, unknown_share
from ._asking import json_object
from ._between import Between
from ._channels import candidates
from ._conditions import parse_filter, parse_soft_filter
from ._databases import (
    Databases,
    SqlHandler,
)
from ._expand import expand_hits, merge_hits
from ._explain import explain
from ._fusion import convex, rrf
from ._glossary import Expansion, Glossary, Meaning, load_glossary
from ._idle import idle_exclusions
from ._iterate import iterate
from ._mining import mine_glossary
from ._options import (
    ChannelWeights,
    DatabaseOptions,
    ExpandOptions,
    IterateOptions,
    QueryOptions,
    RerankOptions,
    RetrieveOptions,
    RouteOptions,
    SelectOptions,
    SoftFilterOptions,
)
from ._query import query_variants
from ._rerank import rerank_depth, rerank_hits, rerank_method
from ._route import Route, RouteScene, route, route_by_rules
from ._search import retrieve
from ._select import (
    dissimilar,
    diversify,
    mmr,
    select_depth,
    select_hits,
    similarities,
    word_similarities,
)
from ._spread import Spread, one_sided, spread
from ._sql import (
    sql_context,
)
from ._tables import Column, Database, DatabaseReader, Table
from ._target import Candidates, Explanation, Retrieved, Target, Variant

__all__ = [
    "Balance",
    "Between",
    "Candidates",
    "ChannelWeights",
    "Column",
    "Database",
    "DatabaseOptions",
    "DatabaseReader",
    "Databases",
    "ExpandOptions",
    "Expansion",
    "Explanation",
    "Glossary",
    "IterateOptions",
    "Meaning",
    "QueryOptions",
    "RerankOptions",
    "RetrieveOptions",
    "Retrieved",
    "Route",
    "RouteOptions",
    "RouteScene",
    "SelectOptions",
    "SoftFilterOptions",
    "Spread",
    "SqlHandler",
    "Table",
    "Target",
    "Variant",
    "balance",
    "candidates",
    "convex",
    "dissimilar",
    "diversify",
    "expand_hits",
    "explain",
    "held_share",
    "idle_exclusions",
    "iterate",
    "json_object",
    "load_glossary",
    "merge_hits",
    "mine_glossary",
    "mmr",
    "one_sided",
    "parse_filter",
    "parse_soft_filter",
    "query_variants",
    "rerank_depth",
    "rerank_hits",
    "rerank_method",
    "retrieve",
    "route",
    "route_by_rules",
    "rrf",
    "select_depth",
    "select_hits",
    "similarities",
    "spread",
    "sql_context",
    "unknown_share",
    "word_similarities",
]
