"""From a question to its answers: condense, route, find the context once, answer for each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from .. import answer as room, retrieve as searches  # rare routes load when taken
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

if TYPE_CHECKING:
    from ._guard import AnswerGuard


@dataclass(frozen=True, slots=True)
class AskPlan:
    """The settings for answering a question.

    Attributes:
        retrieve: Settings of routing and retrieval.
        setup: Settings of answering.
        history: Earlier turns, oldest first; the question is then rewritten to stand alone.
        notes: Notes added to every answer.
        databases: Databases of the route ``sql``, with their schemas.
        between: Hooks between the stages of the search, for diagnosis.
        guard: Withholds answers that score too low; None shows all.
    """

    retrieve: RetrieveOptions
    setup: AnswerSetup
    history: tuple[Message, ...] = ()
    notes: tuple[str, ...] = ()
    databases: tuple[Database, ...] = ()
    between: StageHooks | None = None
    guard: AnswerGuard | None = None


def ask(
    question: str, personas: Sequence[Persona], target: Target, plan: AskPlan
) -> Flow[list[Answer]]:
    """One answer per persona, in their order, all by the same route and from the same passages.

    Lone surrogates, which cannot be stored or sent, are replaced beforehand. With a guard, nothing
    is streamed: an answer is shown after it has been scored.

    Raises:
        RagwrightError: The error of the first failed persona, after all have ended.
    """
    question, guard = well_formed(question), plan.guard
    if guard is None or _courtesy_route(question, plan) is not None:
        return (yield from _all_answers(question, personas, target, plan))
    setup = replace(plan.setup, options=guard.answering(plan.setup.options))
    answers = yield from _all_answers(question, personas, target, replace(plan, setup=setup))
    scope = "follow-up questions" if plan.history else ""
    if plan.retrieve != guard.retrieve:
        scope = "questions with filters of their own"
    return (yield from room.guarded(answers, guard, target.snapshot, scope))


def _all_answers(
    question: str, personas: Sequence[Persona], target: Target, plan: AskPlan
) -> Flow[list[Answer]]:
    """The answers before any of them is withheld."""
    notes = plan.notes
    polite = _courtesy_route(question, plan)  # before earlier turns would make a question of it
    if polite is not None:
        chosen, answers = yield from _answer_by_route(question, personas, target, plan, polite)
        return _with_route(answers, question, chosen, notes)
    standalone = question
    model = plan.setup.options.model
    if plan.history:
        turns = [replace(turn, content=well_formed(turn.content)) for turn in plan.history]
        condensed = yield from room.condense(question, turns, model, plan.setup.window(model))
        standalone = condensed.text
        notes += condensed.notes
        if standalone != question:
            notes = (*notes, f"read as: {standalone} ({condensed.how})")
    scene = RouteScene(model, plan.databases)
    chosen = yield from route(standalone, plan.retrieve.route, scene)
    notes += chosen.notes
    for kind in chosen.instead:
        try:
            yield from _answer_by_route(
                standalone, personas, target, plan, replace(chosen, kind=kind)
            )
        except RetrieveError:
            continue  # a route that refuses the question makes no call
    if plan.retrieve.route.method == "auto":
        spread, more = yield from _spread_answer(standalone, personas, target, plan, scene)
        notes += more
        if spread is not None:
            chosen, answers = spread
            return _with_route(answers, question, chosen, notes)
    chosen, answers = yield from _answer_by_route(standalone, personas, target, plan, chosen)
    return _with_route(answers, question, chosen, notes)


def _courtesy_route(question: str, plan: AskPlan) -> Route | None:
    """The route of a courtesy such as "Thanks", which asks for nothing; None for a question."""
    ruled = plan.retrieve.route.method in ("auto", "rules")
    return courtesy(question) if ruled and not plan.setup.options.closed_book else None


def _with_route(
    answers: Sequence[Answer], question: str, chosen: Route, notes: Sequence[str]
) -> list[Answer]:
    return [
        replace(
            answer,
            question=question,
            route=chosen.kind,
            route_reason=chosen.reason,
            notes=(*notes, *answer.notes),
        )
        for answer in answers
    ]


def _spread_answer(
    question: str,
    personas: Sequence[Persona],
    target: Target,
    plan: AskPlan,
    scene: RouteScene,
) -> Flow[tuple[tuple[Route, list[Answer]] | None, tuple[str, ...]]]:
    """Return an answer that is spread over everything, where the default route may give one.

    Without a chat model an exact answer from every chunk takes no call and is given; with one,
    a note says what reading every chunk would cost.
    """
    ruled = route_by_rules(question, scene)
    if ruled.kind != "corpus" or plan.setup.options.closed_book:
        return None, ()
    scope = room.CorpusScope(plan.retrieve.filters, plan.retrieve.relaxation())
    if scene.chats:
        calls = yield from room.calls_of_corpus(target, scope)
        note = (
            f"{ruled.reason}: the answer may be spread over all documents, and only the best "
            f"passages were read; reading every chunk takes {calls}: "
            "--set retrieve.route.method=rules"
        )
        return None, (note,)
    if any(persona.model for persona in personas):
        return None, ()
    by_persona = yield from room.answer_from_structure(
        question, personas, target, plan.setup, scope
    )
    return (None if by_persona is None else (ruled, by_persona)), ()


def _answer_by_route(
    question: str, personas: Sequence[Persona], target: Target, plan: AskPlan, chosen: Route
) -> Flow[tuple[Route, list[Answer]]]:
    """Answer by one route; returns the answers with the route finally taken."""
    if chosen.kind == "none":
        return chosen, (yield from _without_documents(question, personas, plan))
    if chosen.kind == "corpus":
        scope = room.CorpusScope(plan.retrieve.filters, plan.retrieve.relaxation())
        by_persona = yield from room.answer_from_corpus(
            question, personas, target, plan.setup, scope
        )
        return chosen, by_persona
    chosen, retrieved = yield from _route_context(question, target, plan, chosen)
    answers = yield from _answer_each(question, personas, retrieved, target, plan)
    return chosen, [replace(answer, notes=(*retrieved.notes, *answer.notes)) for answer in answers]


def _route_context(
    question: str, target: Target, plan: AskPlan, chosen: Route
) -> Flow[tuple[Route, Retrieved]]:
    """Fetch the passages by the route; if the database cannot answer, those of the index."""
    notes: tuple[str, ...] = ()
    if chosen.kind == "sql":
        database = next(d for d in plan.databases if d.options.name == chosen.database)
        try:
            retrieved = yield from searches.sql_context(
                question, database, plan.setup.options.model
            )
            failed = yield from branch(0, 0, 1)
            if not failed:
                return chosen, retrieved
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
    retrieved = yield from retrieve(question, target, searching(plan, chosen), plan.between)
    method = f"{retrieved.mode} search" if retrieved.mode else "own retriever"
    routed = plan.retrieve.route.method not in ("auto", "index")
    reason = f"{chosen.reason}; {method}" if routed else method
    return replace(chosen, reason=reason), replace(retrieved, notes=(*notes, *retrieved.notes))


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


def _answer_each(
    question: str, personas: Sequence[Persona], retrieved: Retrieved, target: Target, plan: AskPlan
) -> Flow[list[Answer]]:
    models = [persona.model or plan.setup.options.model for persona in personas]
    absent = lacking(question, retrieved, target) if ExtractiveReranker.name in models else ()
    outcomes = yield from gather(
        (
            answer(question, persona, retrieved.hits, plan.setup, absent=absent)
            for persona in personas
        ),
        settle=True,
    )
    return [settled(outcome) for outcome in outcomes]


def _without_documents(
    question: str, personas: Sequence[Persona], plan: AskPlan
) -> Flow[list[Answer]]:
    """The reply if nothing has to be looked up."""
    outcomes = yield from gather(
        (room.reply_without_documents(question, persona, plan.setup) for persona in personas),
        settle=True,
    )
    return [settled(outcome) for outcome in outcomes]
