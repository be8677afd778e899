"""From a question to its answers: condense, route, find the context once, answer for each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from .. import answer as answers, retrieve as searches  # rare routes load when taken
from ..core import (
    Answer,
    DatabaseError,
    ModelReplyError,
    ModelTimeoutError,
    ModelUnavailableError,
    Persona,
    RetrieveError,
    well_formed,
)
from ..flow import Flow, Message, branch, gather, settled
from ..models import ExtractiveReranker
from ..retrieve import (
    Database,
    Retrieved,
    RetrieveOptions,
    Route,
    RouteScene,
    StageHooks,
    Target,
    courtesy,
    retrieve,
    route,
    route_by_rules,
)
from ._flow import AnswerSetup, answer
from ._lacking import lacking


@dataclass(frozen=True, slots=True)
class AskPlan:
    """How a question is answered.

    Attributes:
        retrieve: Settings of routing and retrieval.
        setup: Settings of answering.
        history: Earlier turns, oldest first; the question is then rewritten to stand alone.
        notes: Notes added to every answer.
        databases: Databases of the route ``sql``, with their schemas.
        between: Hooks between the stages of the search, for diagnosis.
    """

    retrieve: RetrieveOptions
    setup: AnswerSetup
    history: tuple[Message, ...] = ()
    notes: tuple[str, ...] = ()
    databases: tuple[Database, ...] = ()
    between: StageHooks | None = None


def ask(
    question: str, personas: Sequence[Persona], target: Target, plan: AskPlan
) -> Flow[list[Answer]]:
    """One answer per persona, in their order, all by the same route and from the same passages.

    Lone surrogates, which cannot be stored or sent, are replaced beforehand.

    Raises:
        RagwrightError: The error of the first failed persona, after all have ended.
    """
    question = well_formed(question)
    notes = plan.notes
    if plan.retrieve.route.method in ("auto", "rules") and not plan.setup.options.closed_book:
        polite = courtesy(question)  # before earlier turns would make a question of it
        if polite is not None:
            chosen, made = yield from _routed(question, personas, target, plan, polite)
            return _told(made, question, chosen, notes)
    standalone = question
    model = plan.setup.options.model
    if plan.history:
        turns = [replace(turn, content=well_formed(turn.content)) for turn in plan.history]
        condensed = yield from answers.condense(question, turns, model, plan.setup.window(model))
        standalone = condensed.text
        notes += condensed.notes
        if standalone != question:
            notes = (*notes, f"read as: {standalone} ({condensed.how})")
    scene = RouteScene(model, plan.databases)
    chosen = yield from route(standalone, plan.retrieve.route, scene)
    notes += chosen.notes
    for kind in chosen.instead:
        try:
            yield from _routed(standalone, personas, target, plan, replace(chosen, kind=kind))
        except RetrieveError:
            continue  # a route that refuses the question makes no call
    if plan.retrieve.route.method == "auto":
        unasked, more = yield from _spread(standalone, personas, target, plan, scene)
        notes += more
        if unasked is not None:
            chosen, made = unasked
            return _told(made, question, chosen, notes)
    chosen, made = yield from _routed(standalone, personas, target, plan, chosen)
    return _told(made, question, chosen, notes)


def _told(
    made: Sequence[Answer], question: str, chosen: Route, notes: Sequence[str]
) -> list[Answer]:
    return [
        replace(
            one,
            question=question,
            route=chosen.kind,
            route_reason=chosen.reason,
            notes=(*notes, *one.notes),
        )
        for one in made
    ]


def _spread(
    question: str,
    personas: Sequence[Persona],
    target: Target,
    plan: AskPlan,
    scene: RouteScene,
) -> Flow[tuple[tuple[Route, list[Answer]] | None, tuple[str, ...]]]:
    """What the default route does with a question whose answer is spread over everything.

    Without a chat model an exact answer from every chunk takes no call and is given; with one,
    a note says what reading every chunk would cost.
    """
    ruled = route_by_rules(question, scene)
    if ruled.kind != "corpus" or plan.setup.options.closed_book:
        return None, ()
    scope = answers.CorpusScope(plan.retrieve.filters, plan.retrieve.relaxation())
    if scene.chats:
        calls = yield from answers.calls_of_corpus(target, scope)
        note = (
            f"{ruled.reason}: the answer may be spread over all documents, and only the best "
            f"passages were read; reading every chunk takes {calls}: "
            "--set retrieve.route.method=rules"
        )
        return None, (note,)
    if any(persona.model for persona in personas):
        return None, ()
    made = yield from answers.answer_from_structure(question, personas, target, plan.setup, scope)
    return (None if made is None else (ruled, made)), ()


def _routed(
    question: str, personas: Sequence[Persona], target: Target, plan: AskPlan, chosen: Route
) -> Flow[tuple[Route, list[Answer]]]:
    """The answers by one route, and the route finally taken."""
    if chosen.kind == "none":
        return chosen, (yield from _without_documents(question, personas, plan))
    if chosen.kind == "corpus":
        scope = answers.CorpusScope(plan.retrieve.filters, plan.retrieve.relaxation())
        made = yield from answers.answer_from_corpus(question, personas, target, plan.setup, scope)
        return chosen, made
    chosen, found = yield from _context(question, target, plan, chosen)
    made = yield from _for_each(question, personas, found, target, plan)
    return chosen, [replace(one, notes=(*found.notes, *one.notes)) for one in made]


def _context(
    question: str, target: Target, plan: AskPlan, chosen: Route
) -> Flow[tuple[Route, Retrieved]]:
    """Passages by the route; if the database cannot answer, those of the index."""
    notes: tuple[str, ...] = ()
    if chosen.kind == "sql":
        database = next(d for d in plan.databases if d.options.name == chosen.database)
        try:
            found = yield from searches.sql_context(question, database, plan.setup.options.model)
            failed = yield from branch(0, 0, 1)
            if not failed:
                return chosen, found
        except (
            DatabaseError,
            ModelReplyError,
            ModelTimeoutError,
            ModelUnavailableError,
        ) as error:
            notes = (f"the database {chosen.database} did not answer: {error.what}",)
        chosen = replace(
            chosen, kind="index", reason=f"{chosen.reason}; it failed, so the index answers"
        )
    found = yield from retrieve(question, target, searching(plan, chosen), plan.between)
    how = f"{found.mode} search" if found.mode else "own retriever"
    routed = plan.retrieve.route.method not in ("auto", "index")
    reason = f"{chosen.reason}; {how}" if routed else how
    return replace(chosen, reason=reason), replace(found, notes=(*notes, *found.notes))


def searching(plan: AskPlan, chosen: Route) -> RetrieveOptions:
    """Search settings of a route: it may add rewriting and subqueries.

    Both need a chat model; without one the settings stay as they are.
    """
    query = plan.retrieve.query
    model = query.model or plan.setup.options.model
    methods = query.methods
    if chosen.rewrite and "rewrite" not in methods:
        methods = (*methods, "rewrite")
    if chosen.split and "subqueries" not in methods:
        methods = (*methods, "subqueries")
    if methods == query.methods or model == ExtractiveReranker.name:
        return plan.retrieve
    return replace(plan.retrieve, query=replace(query, methods=methods, model=model))


def _for_each(
    question: str, personas: Sequence[Persona], found: Retrieved, target: Target, plan: AskPlan
) -> Flow[list[Answer]]:
    models = [persona.model or plan.setup.options.model for persona in personas]
    absent = lacking(question, found, target) if ExtractiveReranker.name in models else ()
    outcomes = yield from gather(
        (answer(question, persona, found.hits, plan.setup, absent=absent) for persona in personas),
        settle=True,
    )
    return [settled(outcome) for outcome in outcomes]


def _without_documents(
    question: str, personas: Sequence[Persona], plan: AskPlan
) -> Flow[list[Answer]]:
    """The reply if nothing has to be looked up."""
    outcomes = yield from gather(
        (answers.reply_without_documents(question, persona, plan.setup) for persona in personas),
        settle=True,
    )
    return [settled(outcome) for outcome in outcomes]
