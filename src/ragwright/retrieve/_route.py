"""Routing: the place where the answer is looked for: index, database, whole corpus, or nowhere."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from ..flow import Flow, branch
from ..models import NO_MODEL, Analyzer, AnalyzerOptions, detect_language, words
from ._options import RouteOptions
from ._query import (
    StructuredQuestion,
    ask_structured,
    json_object,
    object_schema,
    one_line,
)
from ._tables import QueryDatabase

RouteKind: TypeAlias = Literal["index", "sql", "corpus", "none"]


@dataclass(frozen=True, slots=True)
class Route:
    """The route of a question and the reason for it.

    Attributes:
        kind: ``index``, ``sql``, ``corpus`` or ``none``.
        reason: Why, for the reader.
        rewrite: The question should be rewritten before the search.
        split: It asks for several things that should be searched separately.
        database: The database of the route ``sql``.
        notes: Notes on faults.
        instead: Other routes that a dry run counts as the upper bound.
    """

    kind: RouteKind
    reason: str
    rewrite: bool = False
    split: bool = False
    database: str = ""
    notes: tuple[str, ...] = ()
    instead: tuple[RouteKind, ...] = ()


_PLAIN = Route("index", "")


@dataclass(frozen=True, slots=True)
class RouteScene:
    """The options of routing: the databases, and the chat model that answers."""

    model: str = ""
    databases: tuple[QueryDatabase, ...] = ()

    @property
    def usable(self) -> list[QueryDatabase]:
        """Databases that can be queried: a chat model writes the statements."""
        if self.model in {"", NO_MODEL}:
            return []
        return [database for database in self.databases if not database.problem]


_GREETINGS = """
hi hello hey greetings thanks thank thx cheers bye goodbye morning evening bonjour bonsoir salut
coucou merci hallo servus moin danke dank tschüss wiedersehen hola gracias adiós
"""
_AROUND_GREETINGS = """
good day night dear there all everyone again you so very much many a lot for the your that this it
help helps helped works answer see later à tous tout le monde beaucoup bien pour votre aide au
revoir guten tag morgen abend zusammen vielen schön sehr für die hilfe ihre auf buenos buenas días
tardes noches muchas mil por la ayuda
"""
_COURTESIES = frozenset(_GREETINGS.split())
_COURTESY_WORDS = _COURTESIES.union(_AROUND_GREETINGS.split())
"""All words of a greeting, thanks or a farewell, in four languages."""


def is_courtesy(message: str) -> bool:
    """True if a message greets, thanks or says goodbye and no more: nothing is looked up for it."""
    held = {word.casefold() for word in words(message)}
    return bool(held & _COURTESIES) and held <= _COURTESY_WORDS


def route(question: str, options: RouteOptions, scene: RouteScene | None = None) -> Flow[Route]:
    """The route of a question that stands alone.

    ``auto`` takes the database of which the question names something, else the index. With
    ``model``, the reply is read strictly; if it cannot be used even after one retry, the index
    answers, with a note. A dry run counts at least the plain index, and at most every route that
    the model may choose (their sum, since the most expensive is not known here), with rewriting and
    splitting.
    """
    seen = scene or RouteScene()
    broken = tuple(
        f"the database {d.options.name} cannot be queried: {d.problem}"
        for d in seen.databases
        if d.problem
    )
    plain = replace(_PLAIN, notes=broken)
    if options.method == "index":
        return _PLAIN
    if options.method == "auto":
        return _named_database(question, seen) or plain
    model = options.model or seen.model
    if model in {"", NO_MODEL}:
        note = "no chat model is set that routes, or reads every chunk: the index answers"
        return replace(plain, notes=(*broken, note))
    reply = yield from ask_structured(_question_for(model, question, seen))
    planned = yield from branch(0, 0, 1)
    if planned is not None:
        return _upper_bound(seen) if planned else _PLAIN
    if reply.value is None:
        note = f"the router's reply could not be used ({reply.why}): the index answers"
        return replace(plain, notes=(*broken, note))
    return replace(reply.value, reason=f"{reply.value.reason} ({model})")


def _upper_bound(scene: RouteScene) -> Route:
    """The upper bound of a routed question: the index, every chunk, and a failing database."""
    bound = replace(_PLAIN, rewrite=True, split=True, instead=("corpus",))
    if not scene.usable:
        return bound
    largest = max(scene.usable, key=lambda d: sum(len(t.columns) for t in d.tables))
    return replace(bound, kind="sql", database=largest.options.name)


def _named_database(question: str, scene: RouteScene) -> Route | None:
    """The route to a database of which a question names a keyword, a table or a column."""
    analyzer = Analyzer(AnalyzerOptions(language=detect_language([question], least=2)))
    tokens = set(analyzer.tokens(question))
    for database in scene.usable:
        columns = (column.name for table in database.tables for column in table.columns)
        tables = (table.name.rpartition(".")[2] for table in database.tables)
        for name in (*database.options.keywords, *tables, *columns):
            if name[0] != "_" and _names_all_words(analyzer, tokens, name):
                chosen = database.options.name
                reason = f"it names {name!r} of the database {chosen}"
                return Route("sql", reason, database=chosen)
    return None


_KEYS: dict[str, type] = {
    "route": str,
    "database": str,
    "reason": str,
    "rewrite": bool,
    "split": bool,
}


def _names_all_words(analyzer: Analyzer, tokens: set[str], name: str) -> bool:
    """True where a question holds every word of a name (``customer_id``, ``placedOn``)."""
    bare = re.sub(r"\(.*?\)", " ", name)  # a unit
    spaced = re.sub(r"([a-z])([A-Z])", r"\1 \2", bare.replace("_", " ").replace("-", " "))
    name_tokens = set(analyzer.tokens(spaced))
    return bool(name_tokens) and max(map(len, name_tokens)) > 1 and name_tokens <= tokens


def _question_for(model: str, question: str, scene: RouteScene) -> StructuredQuestion[Route]:
    """The router's prompt, and the form of its reply."""
    usable = scene.usable
    names = [database.options.name for database in usable]
    kinds = ["index", "corpus", "none", *(["sql"] if usable else [])]

    def parse(text: str) -> Route:
        reply = json_object(text, _KEYS)
        if reply["route"] not in kinds:
            raise ValueError(f"the route {reply['route']!r} is not one of {', '.join(kinds)}")
        chosen = reply["database"] if reply["route"] == "sql" else ""
        if reply["route"] == "sql" and chosen not in names:
            raise ValueError(f"the database {chosen!r} is not one of {', '.join(names)}")
        reason = one_line(reply["reason"], 500)
        return Route(reply["route"], reason, reply["rewrite"], reply["split"], chosen)

    described = [
        {
            "name": d.options.name,
            "description": d.options.description,
            "tables": [table.name for table in d.tables],
        }
        for d in usable
    ]
    schema = object_schema(
        {
            "route": {"type": "string", "enum": sorted(kinds)},
            "database": {"type": "string", "enum": sorted(["", *names])},
            "reason": {"type": "string"},
            "rewrite": {"type": "boolean"},
            "split": {"type": "boolean"},
        }
    )
    values = {"question": question, "databases": described}
    # names of tables of sheets are texts of their documents
    sources = tuple(name for database in usable for name in database.documents)
    return StructuredQuestion(model, "route", values, parse, _PLAIN, schema=schema, sources=sources)
