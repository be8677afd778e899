"""Search, fusion and selection as flows."""

from ._asking import json_object, object_schema
from ._channels import candidates, check_question
from ._databases import Databases, SqlHandler, open_databases
from ._entries import ListEntry, find_pattern, read_entries
from ._explain import explain, nearest_sentences
from ._fusion import balance, convex, measure_score_share, rrf, unknown_share
from ._glossary import Expansion, Glossary, Meaning, load_glossary
from ._iterate import iterate
from ._mining import find_long_form, mine_glossary
from ._options import (
    EMBED_PREFIX,
    LEAST_POOL,
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
    parse_filter,
    parse_soft_filter,
    select_depth,
)
from ._query import query_variants, visible_glossary
from ._rerank import read_order, rerank_hits, rerank_method, rerank_windows
from ._route import Route, RouteScene, courtesy, route, route_by_rules
from ._search import expand_hits, idle_exclusions, merge_hits, retrieve
from ._select import (
    dissimilar,
    diversify,
    mmr,
    one_sided,
    select_hits,
    similarities,
    values_of,
    word_similarities,
)
from ._sql import DATABASE, markdown_table, read_statement, sql_context
from ._stages import StageHooks, open_stages
from ._tables import Column, QueryDatabase, Sheet, Table
from ._target import Candidates, Explanation, Retrieved, Stage, Target, Variant

__all__ = [
    "DATABASE",
    "EMBED_PREFIX",
    "LEAST_POOL",
    "Candidates",
    "ChannelWeights",
    "Column",
    "DatabaseOptions",
    "Databases",
    "ExpandOptions",
    "Expansion",
    "Explanation",
    "Glossary",
    "IterateOptions",
    "ListEntry",
    "Meaning",
    "QueryDatabase",
    "QueryOptions",
    "RerankOptions",
    "RetrieveOptions",
    "Retrieved",
    "Route",
    "RouteOptions",
    "RouteScene",
    "SelectOptions",
    "Sheet",
    "SoftFilterOptions",
    "SqlHandler",
    "Stage",
    "StageHooks",
    "Table",
    "Target",
    "Variant",
    "balance",
    "candidates",
    "check_question",
    "convex",
    "courtesy",
    "dissimilar",
    "diversify",
    "expand_hits",
    "explain",
    "find_long_form",
    "find_pattern",
    "idle_exclusions",
    "iterate",
    "json_object",
    "load_glossary",
    "markdown_table",
    "measure_score_share",
    "merge_hits",
    "mine_glossary",
    "mmr",
    "nearest_sentences",
    "object_schema",
    "one_sided",
    "open_databases",
    "open_stages",
    "parse_filter",
    "parse_soft_filter",
    "query_variants",
    "read_entries",
    "read_order",
    "read_statement",
    "rerank_hits",
    "rerank_method",
    "rerank_windows",
    "retrieve",
    "route",
    "route_by_rules",
    "rrf",
    "select_depth",
    "select_hits",
    "similarities",
    "sql_context",
    "unknown_share",
    "values_of",
    "visible_glossary",
    "word_similarities",
]
