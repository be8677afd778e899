"""Search, fusion and selection as flows."""

from ._adaptive import Balance, balance, held_share, unknown_share
from ._asking import json_object
from ._channels import candidates, check_question
from ._conditions import parse_filter, parse_soft_filter
from ._databases import Databases, SqlHandler, open_databases
from ._entries import Entry, EntryPattern, find_pattern, read_entries
from ._explain import explain, nearest_sentences
from ._fusion import convex, rrf
from ._glossary import Expansion, Glossary, Meaning, load_glossary
from ._iterate import iterate
from ._meanings import visible_glossary
from ._mining import best_long_form, mine_glossary
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
    select_depth,
)
from ._postgres import PostgresReader
from ._query import query_variants
from ._rerank import read_order, rerank_hits, rerank_method, rerank_windows
from ._route import Route, RouteScene, courtesy, route, route_by_rules
from ._search import expand_hits, idle_exclusions, merge_hits, retrieve
from ._select import (
    Spread,
    dissimilar,
    diversify,
    mmr,
    one_sided,
    select_hits,
    similarities,
    spread,
    values_of,
    word_similarities,
)
from ._sheets import SheetReader, narrowed_sheets, sheet_hits, sheet_options
from ._sql import DATABASE, markdown_table, read_statement, sql_context
from ._sqlite import SqliteReader
from ._stages import StageHooks, open_stages
from ._tables import Column, Database, DatabaseReader, Sheet, Table
from ._target import Candidates, Explanation, Retrieved, Stage, Target, Variant

__all__ = [
    "DATABASE",
    "EMBED_PREFIX",
    "LEAST_POOL",
    "Balance",
    "Candidates",
    "ChannelWeights",
    "Column",
    "Database",
    "DatabaseOptions",
    "DatabaseReader",
    "Databases",
    "Entry",
    "EntryPattern",
    "ExpandOptions",
    "Expansion",
    "Explanation",
    "Glossary",
    "IterateOptions",
    "Meaning",
    "PostgresReader",
    "QueryOptions",
    "RerankOptions",
    "RetrieveOptions",
    "Retrieved",
    "Route",
    "RouteOptions",
    "RouteScene",
    "SelectOptions",
    "Sheet",
    "SheetReader",
    "SoftFilterOptions",
    "Spread",
    "SqlHandler",
    "SqliteReader",
    "Stage",
    "StageHooks",
    "Table",
    "Target",
    "Variant",
    "balance",
    "best_long_form",
    "candidates",
    "check_question",
    "convex",
    "courtesy",
    "dissimilar",
    "diversify",
    "expand_hits",
    "explain",
    "find_pattern",
    "held_share",
    "idle_exclusions",
    "iterate",
    "json_object",
    "load_glossary",
    "markdown_table",
    "merge_hits",
    "mine_glossary",
    "mmr",
    "narrowed_sheets",
    "nearest_sentences",
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
    "sheet_hits",
    "sheet_options",
    "similarities",
    "spread",
    "sql_context",
    "unknown_share",
    "values_of",
    "visible_glossary",
    "word_similarities",
]
