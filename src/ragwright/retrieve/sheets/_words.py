"""Words by which a question about rows of a table says what it wants: English."""

from __future__ import annotations

from typing import Literal, TypeAlias

Aggregate: TypeAlias = Literal[
    "count", "sum", "average", "median", "highest", "lowest", "distinct", "list", "value", "much",
    "kinds",
]  # fmt: skip

_PHRASES: tuple[tuple[Aggregate, str], ...] = (
    ("count", "how many|number of|the number|count|count of|total number of|how many times"),
    ("much", "how much"),
    ("sum", "sum|sum of|total|totals|in total|total of|altogether|combined|overall|summed"
            "|grand total|add up to|sum up to|in all|summed up|total up"),
    ("average", "average|mean|on average|avg|averages|typical"),
    ("median", "median"),
    ("highest", "highest|largest|maximum|max|biggest|greatest|most|top|longest|latest|newest"
                "|most recent|the most|last"),
    ("lowest", "lowest|smallest|minimum|min|least|fewest|shortest|earliest|oldest|the least"
               "|the fewest|first"),
    ("distinct", "different|distinct|unique"),
    ("kinds", "kinds of|types of|sorts of|categories of|kind of|type of|sort of|category of"),
    ("list", "which|list|show|name|who|give me|find|enumerate|what are|show me|display|names of"
             "|name all|list all|identify"),
    ("value", "what is|what was|what|give|tell me|what were|state|report"),
)  # fmt: skip
AGGREGATES = {phrase: kind for kind, phrases in _PHRASES for phrase in phrases.split("|")}

COMPARISONS = {
    phrase: mark
    for mark, phrases in (
        (">", "more than|over|above|greater than|higher than|larger than|exceeding|exceed|exceeds"
              "|exceeded|in excess of|bigger than|longer than|after|later than|beyond"
              "|newer than|upwards of"),
        (">=", "at least|no less than|not less than|no fewer than|not below|since|from|starting"
               "|starting from|starting in|no earlier than"),
        ("<", "less than|under|below|fewer than|lower than|smaller than|shorter than|before"
              "|earlier than|prior to|older than"),
        ("<=", "at most|no more than|not more than|up to|until|not above|not over|through|by"
               "|no later than|not exceeding|to"),
        ("=", "exactly|equal to|equals|equalling|equaling|precisely|dated|on|during|in|of|is|was"),
        ("between", "between|ranging from|in the range"),
    )
    for phrase in phrases.split("|")
}  # fmt: skip

WEAK = frozenset(
    ["on", "during", "in", "of", "is", "was", "from", "by", "to", "first", "last", "starting"]
)
"""Words that compare only before a number or a date."""

OF_DATES = frozenset(
    [
        "after", "since", "from", "starting", "starting in", "starting from", "before", "prior to",
        "until", "through", "by", "on", "during", "in", "of", "is", "was", "between", "dated", "to",
        "later than", "earlier than", "no earlier than", "no later than", "newer than",
        "older than",
    ]
)  # fmt: skip
"""Comparisons after which 2024 is a year; after others, such as "over", it is a number."""

NEGATIONS = frozenset(
    [
        "not", "without", "except", "except for", "excluding", "other than", "outside",
        "outside of", "apart from", "out of", "no", "never",
        "isn t", "aren t", "wasn t", "weren t", "non",
    ]
)  # fmt: skip

GROUPS = frozenset(
    [
        "per",
        "by",
        "for each",
        "in each",
        "for every",
        "each",
        "grouped by",
        "broken down by",
        "every",
    ]
)

ROWS = frozenset(
    [
        "row",
        "record",
        "entry",
        "line",
        "row of data",
        "data row",
        "data point",
        "entries",
        "observation",
    ]
)
"""Names of rows, singular: they name no table of their own."""

_FILLERS = """
a an the of in on at for to from with and or is are was were be been being do does did has have
had having there that which who whom whose what where when this these those it its their his her
all any some me us please can could you would i we our s as so only just also exactly then than
out their they them he she given listed recorded registered shown contained included located
situated based placed found existing exist exists contain contains come comes came belong
belongs belonging get gets got make makes made go goes stand stands amount amounts figure
figures sheet spreadsheet table file workbook data dataset column columns value values overall
according tell know want need calculate compute work out find give us marked labelled labeled
classified categorised categorized tagged altogether across within among entire whole full
complete respective corresponding one ones associated date dates
"""
FILLERS = frozenset(_FILLERS.split())
"""Words that add no condition."""

_DESCRIBING = """
given listed recorded registered shown contained included located situated based placed found
existing marked labelled labeled classified categorised categorized tagged entire whole full
complete respective corresponding associated
"""
DESCRIBING = frozenset(_DESCRIBING.split())
"""Fillers that may be a condition right before the name of the rows: "complete orders"."""

OF_TIME = frozenset(["latest", "newest", "most recent", "last", "earliest", "oldest", "first"])
"""Words for the highest or lowest date, not number."""

_QUANTITIES = """
unit units quantity qty piece pieces stock hours visitors items copies seats tickets points
passengers orders downloads views votes cases sales employees students headcount capacity
population words pages
"""
QUANTITIES = frozenset(_QUANTITIES.split())
"""Names of columns of numbers that "how many" adds up."""
