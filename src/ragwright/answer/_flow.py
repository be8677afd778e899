"""From a question to its answers: condense, route, find the context once, then write or quote."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from ..core import (
    Answer,
    DatabaseError,
    Filter,
    FilterError,
    ModelReplyError,
    ModelTimeoutError,
    ModelUnavailableError,
    Persona,
    RetrieveError,
    Term,
    narrows,
    well_formed,
)
from ..flow import (
    Flow,
    Message,
    Search,
    SearchReply,
    branch,
    gather,
    send,
    settled,
)
from ..models import NO_MODEL
from ..retrieve import (
    Database,
    Retrieved,
    RetrieveOptions,
    Route,
    RouteScene,
    StageHooks,
    Target,
    check_question,
    courtesy,
    open_databases,
    retrieve,
    route,
    route_by_rules,
    sql_context,
)
from ._condense import condense
from ._corpus import CorpusScope, answer_from_corpus, calls_of_corpus, corpus_ids
from ._guard import AnswerGuard, guarded
from ._snippets import snippet_answer
from ._write import AnswerSetup, write


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
        keywords: Text for the keyword channel in place of the question; see :class:`Condensed`.
    """

    retrieve: RetrieveOptions
    setup: AnswerSetup
    history: tuple[Message, ...] = ()
    notes: tuple[str, ...] = ()
    databases: tuple[Database, ...] = ()
    between: StageHooks | None = None
    guard: AnswerGuard | None = None
    keywords: str = ""


def ask(
    question: str, personas: Sequence[Persona], target: Target, plan: AskPlan
) -> Flow[list[Answer]]:
    """One answer per persona, in their order, all by the same route and from the same passages.

    Lone surrogates, which cannot be stored or sent, are replaced beforehand. With a guard that is
    not suspended, nothing is streamed: an answer is shown after it has been scored.

    Raises:
        RetrieveError: The question is too long.
        RagwrightError: The error of the first failed persona, after all have ended.
    """
    check_question(question)
    question, guard = well_formed(question), plan.guard
    if guard is None or _courtesy_route(question, plan) is not None:
        return (yield from _all_answers(question, personas, target, plan))
    if not guard.changed(target.snapshot):
        setup = replace(plan.setup, options=guard.answering(plan.setup.options))
        plan = replace(plan, setup=setup)
    answers = yield from _all_answers(question, personas, target, plan)
    scope = "follow-up questions" if plan.history else ""
    if plan.retrieve != guard.retrieve:
        scope = "questions with filters of their own"
    return (yield from guarded(answers, guard, target.snapshot, scope))


def _open_databases(plan: AskPlan, target: Target) -> Flow[tuple[Database, ...]]:
    """The databases of a plan that its filters leave, with their tables."""
    if not plan.databases:
        return ()
    filters = plan.retrieve.filters
    documents = {name for database in plan.databases for name in database.documents}
    seen = (yield from _whole_documents(documents, filters, target)) if documents else None
    return open_databases(plan.databases, filters, seen)


def _whole_documents(
    documents: Collection[str], filters: Sequence[Filter], target: Target
) -> Flow[Collection[str]]:
    """Those of some documents of which filters other than rights to read hide no chunk."""
    if not narrows(filters):
        return documents
    among = Filter("document_id", tuple(sorted(documents)))
    try:
        seen, _ = yield from corpus_ids(target, (*filters, among))
        every, _ = yield from corpus_ids(target, (among,))
    except FilterError:  # no chunk is left
        return ()
    hidden = {chunk_id.rpartition(":")[0] for chunk_id in set(every).difference(seen)}
    return {chunk_id.rpartition(":")[0] for chunk_id in seen} - hidden


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
        condensed = yield from condense(question, turns, model, plan.setup.window(model))
        standalone, plan = condensed.text, replace(plan, keywords=condensed.keywords)
        notes += condensed.notes
        if standalone != question:
            notes = (*notes, f"read as: {standalone} ({condensed.method})")
    plan = replace(plan, databases=(yield from _open_databases(plan, target)))
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
    if plan.retrieve.route.method == "auto" and chosen.kind != "sql":
        spread = yield from _spread_note(standalone, target, plan, scene)
        notes += spread
        plan = plan if scene.chats or not spread else _covering_any(plan)
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


def _spread_note(
    question: str, target: Target, plan: AskPlan, scene: RouteScene
) -> Flow[tuple[str, ...]]:
    """What reading every chunk would take, for a question whose answer may be spread over all."""
    ruled = route_by_rules(question, scene)
    if ruled.kind != "corpus" or plan.setup.options.closed_book:
        return ()
    spread = f"{ruled.reason}: the answer may be spread over all documents, and only the best "
    if not scene.chats:
        return (f"{spread}passages are shown; {WHOLE_CORPUS}",)
    scope = CorpusScope(plan.retrieve.filters, plan.retrieve.relaxation())
    calls = yield from calls_of_corpus(target, scope)
    return (
        f"{spread}passages were read; reading every chunk takes {calls}: "
        "--set retrieve.route.method=rules",
    )


def _answer_by_route(
    question: str, personas: Sequence[Persona], target: Target, plan: AskPlan, chosen: Route
) -> Flow[tuple[Route, list[Answer]]]:
    """Answer by one route; returns the answers with the route finally taken."""
    if chosen.kind == "none":
        return chosen, (yield from _without_documents(question, personas, plan))
    notes: tuple[str, ...] = ()
    if chosen.kind == "corpus":
        model = plan.setup.options.model
        if all((persona.model or model) != NO_MODEL for persona in personas):
            scope = CorpusScope(plan.retrieve.filters, plan.retrieve.relaxation())
            by_persona = yield from answer_from_corpus(
                question, personas, target, plan.setup, scope
            )
            return chosen, by_persona
        plan = _covering_any(plan)
        chosen, notes = replace(chosen, kind="index"), (WHOLE_CORPUS,)
    chosen, retrieved = yield from _route_context(question, target, plan, chosen)
    answers = yield from _answer_each(question, personas, retrieved, target, plan)
    notes += retrieved.notes
    return chosen, [replace(answer, notes=(*notes, *answer.notes)) for answer in answers]


def _covering_any(plan: AskPlan) -> AskPlan:
    """The plan for a question about everything: no passage needs to cover all of its words."""
    options = replace(plan.setup.options, threshold=0.0)
    return replace(plan, setup=replace(plan.setup, options=options))


WHOLE_CORPUS = "reading every chunk needs a chat model (answer.model)"


def _route_context(
    question: str, target: Target, plan: AskPlan, chosen: Route
) -> Flow[tuple[Route, Retrieved]]:
    """Fetch the passages by the route; if the database cannot answer, those of the index."""
    notes: tuple[str, ...] = ()
    if chosen.kind == "sql":
        database = next(d for d in plan.databases if d.options.name == chosen.database)
        try:
            retrieved = yield from sql_context(question, database, plan.setup.options.model)
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
    options = searching(plan, chosen)
    retrieved = yield from retrieve(question, target, options, plan.between, plan.keywords)
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
    if methods == query.methods or model == NO_MODEL:
        return plan.retrieve
    return replace(plan.retrieve, query=replace(query, methods=methods, model=model))


def _answer_each(
    question: str, personas: Sequence[Persona], retrieved: Retrieved, target: Target, plan: AskPlan
) -> Flow[list[Answer]]:
    setup, hits = plan.setup, retrieved.hits
    models = [persona.model or setup.options.model for persona in personas]
    terms: tuple[Term, ...] = ()
    if NO_MODEL in models:
        terms = yield from _terms(question, target, plan)
    writing = (
        write(question, persona, hits, setup)
        for persona, model in zip(personas, models, strict=True)
        if model != NO_MODEL
    )
    outcomes = iter((yield from gather(writing, settle=True)))
    threshold = setup.options.threshold
    return [
        snippet_answer(question, persona, hits, terms, target.analyzer, threshold)
        if model == NO_MODEL
        else settled(next(outcomes))
        for persona, model in zip(personas, models, strict=True)
    ]


def _terms(question: str, target: Target, plan: AskPlan) -> Flow[tuple[Term, ...]]:
    """The question's terms in the index; also where it was searched in other words or channels."""
    request = Search(
        target.snapshot, "keyword", 1, text=question, filters=tuple(plan.retrieve.filters)
    )
    return (yield from send(request, SearchReply)).terms


def _without_documents(
    question: str, personas: Sequence[Persona], plan: AskPlan
) -> Flow[list[Answer]]:
    """The reply of the chat model if nothing has to be looked up; without one, an abstention."""
    closed = replace(plan.setup, options=replace(plan.setup.options, closed_book=True))
    model = closed.options.model
    outcomes = yield from gather(
        (
            write(question, persona, (), closed)
            for persona in personas
            if (persona.model or model) != NO_MODEL
        ),
        settle=True,
    )
    replies = iter(outcomes)
    declined = Answer(question, NOTHING_ASKED, abstained=True, model=NO_MODEL)
    return [
        replace(declined, persona=persona.name)
        if (persona.model or model) == NO_MODEL
        else settled(next(replies))
        for persona in personas
    ]


NOTHING_ASKED = "Nothing was looked up, and no chat model is set to reply."
