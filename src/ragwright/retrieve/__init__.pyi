from ._adaptive import (
    Balance as Balance,
    balance as balance,
    held_share as held_share,
    unknown_share as unknown_share,
)
from ._asking import json_object as json_object
from ._channels import candidates as candidates, check_question as check_question
from ._conditions import parse_filter as parse_filter, parse_soft_filter as parse_soft_filter
from ._databases import (
    Databases as Databases,
    SqlHandler as SqlHandler,
    open_databases as open_databases,
)
from ._entries import (
    Entry as Entry,
    EntryPattern as EntryPattern,
    find_pattern as find_pattern,
    read_entries as read_entries,
)
from ._expand import expand_hits as expand_hits, merge_hits as merge_hits
from ._explain import explain as explain, nearest_sentences as nearest_sentences
from ._fusion import convex as convex, rrf as rrf
from ._glossary import (
    Expansion as Expansion,
    Glossary as Glossary,
    Meaning as Meaning,
    load_glossary as load_glossary,
)
from ._idle import idle_exclusions as idle_exclusions
from ._iterate import iterate as iterate
from ._meanings import visible_glossary as visible_glossary
from ._mining import best_long_form as best_long_form, mine_glossary as mine_glossary
from ._options import (
    EMBED_PREFIX as EMBED_PREFIX,
    LEAST_POOL as LEAST_POOL,
    ChannelWeights as ChannelWeights,
    DatabaseOptions as DatabaseOptions,
    ExpandOptions as ExpandOptions,
    IterateOptions as IterateOptions,
    QueryOptions as QueryOptions,
    RerankOptions as RerankOptions,
    RetrieveOptions as RetrieveOptions,
    RouteOptions as RouteOptions,
    SelectOptions as SelectOptions,
    SoftFilterOptions as SoftFilterOptions,
    rerank_depth as rerank_depth,
    select_depth as select_depth,
)
from ._postgres import PostgresReader as PostgresReader
from ._query import query_variants as query_variants
from ._rerank import (
    read_order as read_order,
    rerank_hits as rerank_hits,
    rerank_method as rerank_method,
    rerank_windows as rerank_windows,
)
from ._route import (
    Route as Route,
    RouteScene as RouteScene,
    courtesy as courtesy,
    route as route,
    route_by_rules as route_by_rules,
)
from ._route_model import asked_route as asked_route
from ._route_rules import (
    Unit as Unit,
    UnitPhrase as UnitPhrase,
    read_units as read_units,
)
from ._search import retrieve as retrieve
from ._select import (
    dissimilar as dissimilar,
    diversify as diversify,
    mmr as mmr,
    select_hits as select_hits,
    similarities as similarities,
    word_similarities as word_similarities,
)
from ._sheets import (
    SheetReader as SheetReader,
    narrowed_sheets as narrowed_sheets,
    sheet_hits as sheet_hits,
    sheet_options as sheet_options,
)
from ._spread import (
    Spread as Spread,
    one_sided as one_sided,
    spread as spread,
    values_of as values_of,
)
from ._sql import (
    DATABASE as DATABASE,
    markdown_table as markdown_table,
    read_statement as read_statement,
    sql_context as sql_context,
)
from ._sqlite import SqliteReader as SqliteReader
from ._stages import StageHooks as StageHooks, open_stages as open_stages
from ._tables import (
    Column as Column,
    Database as Database,
    DatabaseReader as DatabaseReader,
    Sheet as Sheet,
    Table as Table,
)
from ._target import (
    Candidates as Candidates,
    Explanation as Explanation,
    Retrieved as Retrieved,
    Stage as Stage,
    Target as Target,
    Variant as Variant,
)
