"""Routing: the place where the answer is looked for: index, database, whole corpus, or nowhere."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Literal, TypeAlias

from ..flow import Flow, branch
from ..models import NO_MODEL, Analyzer, AnalyzerOptions, detect_language, words
from . import _route_rules as rules
from ._asking import (
    StructuredQuestion,
    StructuredReply,
    asked,
    json_object,
    object_schema,
    one_line,
)
from ._options import RouteOptions
from ._tables import Database

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


@dataclass(frozen=True, slots=True)
class RouteScene:
    """The options of routing: the databases, and the chat model that answers.

    Without a chat model (empty, or ``snippet``) nothing can write a statement, so the rules
    never choose ``sql``.
    """

    model: str = ""
    databases: tuple[Database, ...] = ()

    @property
    def chats(self) -> bool:
        """True if there is a chat model."""
        return self.model not in {"", NO_MODEL}


def route(question: str, options: RouteOptions, scene: RouteScene | None = None) -> Flow[Route]:
    """The route of a question that stands alone.

    With ``model``, the reply is read strictly; if it cannot be used even after one retry, the rules
    decide, with a note. A dry run counts at least the plain index, as expected the route of the
    rules, and at most every route that the model may choose (their sum, since the most expensive is
    not known here), with rewriting and splitting.
    """
    scene_used = scene or RouteScene()
    if options.method in ("auto", "index"):
        counted = _counted_in_sheets(question, scene_used) if options.method == "auto" else None
        return counted or Route("index", "routing is off: the index answers")
    ruled = route_by_rules(question, scene_used)
    if options.method == "rules":
        return ruled
    model = options.model or scene_used.model
    if model in {"", NO_MODEL}:
        note = "no chat model is set for routing: the rules decided"
        return replace(ruled, notes=(*ruled.notes, note))
    reply = yield from asked_route(model, question, scene_used, ruled)
    planned = yield from branch(0, 1, 2)
    if planned is not None:
        return (Route("index", ruled.reason), ruled, _upper_bound(ruled, scene_used))[planned]
    if reply.value is None:
        note = f"the router's reply could not be used ({reply.why}): the rules decided"
        return replace(ruled, notes=(*ruled.notes, note))
    return replace(reply.value, reason=f"{reply.value.reason} ({model})")


def _counted_in_sheets(question: str, scene: RouteScene) -> Route | None:
    """The route of a question that counts or compares what a spreadsheet holds."""
    sheets = [database for database in scene.databases if database.sheets]
    text = question[: rules.LONGEST]
    if not (sheets and scene.chats and rules.AGGREGATE.search(text)):
        return None
    named = next(_named_databases(text, sheets), None)
    return Route("sql", named[1], database=named[0]) if named else None


def _upper_bound(ruled: Route, scene: RouteScene) -> Route:
    """The upper bound of a routed question: the index, every chunk, and a failing database."""
    usable = [d for d in scene.databases if not d.problem and scene.chats]
    if not usable:
        return Route("index", ruled.reason, rewrite=True, split=True, instead=("corpus",))
    largest = max(usable, key=lambda d: sum(len(t.columns) for t in d.tables)).options.name
    return Route("sql", ruled.reason, True, True, largest, instead=("corpus",))


_COURTESIES = frozenset({"it is a thank-you", "it is a farewell", "it is small talk"})


def courtesy(message: str) -> Route | None:
    """The route of a message that is a greeting, thanks, a farewell or small talk and no more.

    Of what :func:`route_by_rules` answers without documents, these need no earlier turn to be
    understood; a remark such as "yes" does.
    """
    text = " ".join(message.replace("’", "'").split())
    if len(text) > rules.LONGEST:
        return None
    greeted = rules.GREETING.match(text)
    rest = text[greeted.end() :] if greeted else text
    if greeted and not words(rest):
        return Route("none", f"it is a greeting: {text[:60]!r}")
    match = rules.matched(rules.CHAT, rest)
    return Route("none", _reason_text(match)) if match and match[0] in _COURTESIES else None


def route_by_rules(question: str, scene: RouteScene) -> Route:
    """The route by the question's own words: deterministic, offline, no request.

    In this order: nothing to look up; a question about documents as such; one that names a
    table, a keyword or, with a word of counting, a column of a database; one whose answer is
    spread over everything; else the index. Of a long question the first 1,000 characters count.
    """
    full = " ".join(question.replace("’", "'").split())
    text = full[: rules.LONGEST]
    greeted = rules.GREETING.match(text)
    rest = text[greeted.end() :] if greeted else text
    if greeted and text == full and len(words(rest)) < 2:
        return Route("none", f"it is a greeting: {text[:60]!r}")
    match = rules.matched(rules.CHAT, rest) if text == full else None
    if match:
        return Route("none", _reason_text(match))
    route_found = _look_up_route(rest, scene)
    broken = tuple(
        f"the database {d.options.name} cannot be queried: {d.problem}"
        for d in scene.databases
        if d.problem
    )
    route_found = replace(route_found, notes=(*route_found.notes, *broken))
    wordy = bool(rules.WORDY.search(rest)) or len(words(rest)) > rules.MANY_WORDS
    return replace(route_found, rewrite=wordy, split=bool(rules.SPLIT.search(rest)))


def _look_up_route(text: str, scene: RouteScene) -> Route:
    match = rules.matched(rules.UNITS, text)
    if match:
        return Route("corpus", _reason_text(match))
    database_named = next(_named_databases(text, scene.databases), None)
    if database_named is not None and scene.chats:
        database, reason = database_named
        return Route("sql", reason, database=database)
    match = rules.matched(rules.CORPUS, text)
    route_found = (
        Route("corpus", _reason_text(match))
        if match
        else Route("index", "no rule for another route applies")
    )
    if database_named is None:
        return route_found
    instead = f"{database_named[1]}, but no chat model is set to write a statement"
    return replace(route_found, reason=f"{route_found.reason}; {instead}", notes=(instead,))


def _reason_text(match: tuple[str, str]) -> str:
    return f"{match[0]}: {match[1]!r}"


def _named_databases(text: str, databases: Sequence[Database]) -> Iterator[tuple[str, str]]:
    """Databases of which a question names something, with the reason."""
    usable = [database for database in databases if not database.problem]
    if not usable:
        return
    analyzer = _cached_analyzer(detect_language([text], least=2))
    tokens = set(analyzer.tokens(text))
    counts = rules.AGGREGATE.search(text)
    for database in usable:
        name = database.options.name
        for keyword in database.options.keywords:
            if _names_all_words(analyzer, tokens, keyword):
                yield name, f"it holds the keyword {keyword!r} of the database {name}"
        for table in database.tables:
            table_name = table.name.rpartition(".")[2]
            if _names_all_words(analyzer, tokens, table_name):
                yield name, f"it names the table {table.name!r} of the database {name}"
        for table in database.tables if counts else ():
            for column in table.columns:
                if column.name[0] != "_" and _names_all_words(analyzer, tokens, column.name):
                    counting = f"it contains {counts[0]!r}" if counts else ""
                    yield (
                        name,
                        f"{counting} and names the column {table.name}.{column.name} of {name}",
                    )


@cache
def _cached_analyzer(language: str) -> Analyzer:
    """Kept, since it analyses each word once: names of tables and columns recur."""
    return Analyzer(AnalyzerOptions(language=language))


def _names_all_words(analyzer: Analyzer, tokens: set[str], name: str) -> bool:
    """True where a question holds every word of a name (``customer_id``, ``placedOn``)."""
    bare = re.sub(r"\(.*?\)", " ", name)  # a unit
    spaced = re.sub(r"([a-z])([A-Z])", r"\1 \2", bare.replace("_", " ").replace("-", " "))
    name_tokens = set(analyzer.tokens(spaced))
    return bool(name_tokens) and max(map(len, name_tokens)) > 1 and name_tokens <= tokens


def asked_route(
    model: str, question: str, scene: RouteScene, ruled: Route
) -> Flow[StructuredReply[Route]]:
    """The route that a chat model chooses; ``ruled``, that of the rules, for a dry run."""
    return (yield from asked(_question_for(model, question, scene, ruled)))


def _question_for(
    model: str, question: str, scene: RouteScene, ruled: Route
) -> StructuredQuestion[Route]:
    """The router's prompt, and the form of its reply."""
    usable = [d for d in scene.databases if not d.problem and scene.chats]
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
    return StructuredQuestion(model, "route", values, parse, ruled, schema=schema, sources=sources)


_KEYS: dict[str, type] = {
    "route": str,
    "database": str,
    "reason": str,
    "rewrite": bool,
    "split": bool,
}
