"""From a question to its answers: condense, route, find the context once, then write or quote."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import replace

from ..core import (
    Answer,
    DatabaseError,
    Filter,
    FilterError,
    Hit,
    ModelReplyError,
    ModelTimeoutError,
    ModelUnavailableError,
    Persona,
    RetrieveError,
    Term,
    narrows,
    well_formed,
)
from ..flow import Flow, Search, SearchReply, branch, gather, send, unpack_settled
from ..models import NO_MODEL
from ..retrieve import (
    QueryDatabase,
    Retrieved,
    Route,
    RouteScene,
    Target,
    check_question,
    is_courtesy,
    open_databases,
    retrieve,
    route,
    sql_context,
)
from ._corpus import CorpusScope, answer_from_corpus, corpus_ids
from ._prompt import REFUSED
from ._snippets import snippet_answer
from ._write import AnswerGuard, AskPlan, condense, write


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
    routed = plan.retrieve.route.method == "auto" and not plan.options.closed_book
    if routed and is_courtesy(question):  # before earlier turns would make a question of it
        answers = yield from _answer_without_documents(question, personas, plan)
        return _with_route(answers, question, Route("none", "it is a courtesy"), plan.notes)
    if guard is None:
        return (yield from _answer_question(question, personas, target, plan))
    if not guard.changed(target.snapshot):
        plan = replace(plan, options=guard.answer_options(plan.options), stream=False)
    answers = yield from _answer_question(question, personas, target, plan)
    scope = "follow-up questions" if plan.history else ""
    if plan.retrieve != guard.retrieve:
        scope = "questions with filters of their own"
    return (yield from apply_promise(answers, guard, target.snapshot, scope))


def _answer_question(
    question: str, personas: Sequence[Persona], target: Target, plan: AskPlan
) -> Flow[list[Answer]]:
    """Answer a question, one answer per persona; the promise is not applied yet."""
    notes, standalone, model = plan.notes, question, plan.options.model
    if plan.history:
        turns = [replace(turn, content=well_formed(turn.content)) for turn in plan.history]
        condensed = yield from condense(question, turns, model, plan.window(model))
        standalone, plan = condensed.text, replace(plan, keywords=condensed.keywords)
        notes += condensed.notes
        if standalone != question:
            notes = (*notes, f"read as: {standalone} ({condensed.method})")
    if plan.databases:
        plan = replace(plan, databases=(yield from _readable_databases(plan, target)))
    chosen = yield from route(standalone, plan.retrieve.route, RouteScene(model, plan.databases))
    notes += chosen.notes
    for kind in chosen.instead:  # only in a dry run: counts the calls of the other routes
        by_kind = replace(chosen, kind=kind)
        with suppress(RetrieveError):  # a route that refuses the question makes no call
            yield from _answer_by_route(standalone, personas, target, plan, by_kind)
    chosen, answers = yield from _answer_by_route(standalone, personas, target, plan, chosen)
    return _with_route(answers, question, chosen, notes)


def _readable_databases(plan: AskPlan, target: Target) -> Flow[tuple[QueryDatabase, ...]]:
    """The databases of a plan that its filters leave, with their tables.

    Tables of a document are left out if a filter hides any of its chunks; rights to read do not
    count.
    """
    filters = plan.retrieve.filters
    documents: Collection[str] = {d for base in plan.databases for d in base.documents}
    if documents and narrows(filters):
        among = Filter("document_id", tuple(sorted(documents)))
        try:
            seen, _ = yield from corpus_ids(target, (*filters, among))
            every, _ = yield from corpus_ids(target, (among,))
            hidden = {chunk_id.rpartition(":")[0] for chunk_id in set(every).difference(seen)}
            documents = {chunk_id.rpartition(":")[0] for chunk_id in seen} - hidden
        except FilterError:  # no chunk is left
            documents = ()
    return open_databases(plan.databases, filters, documents)


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


WHOLE_CORPUS = "reading every chunk needs a chat model (answer.model)"


def _answer_by_route(
    question: str, personas: Sequence[Persona], target: Target, plan: AskPlan, chosen: Route
) -> Flow[tuple[Route, list[Answer]]]:
    """Answer by one route; returns the answers with the route finally taken."""
    if chosen.kind == "none":
        return chosen, (yield from _answer_without_documents(question, personas, plan))
    notes: tuple[str, ...] = ()
    if chosen.kind == "corpus":
        model, search = plan.options.model, plan.retrieve
        if all((persona.model or model) != NO_MODEL for persona in personas):
            scope = CorpusScope(search.filters, search.relaxation())
            return chosen, (yield from answer_from_corpus(question, personas, target, plan, scope))
        chosen, notes = replace(chosen, kind="index"), (WHOLE_CORPUS,)
    chosen, retrieved = yield from _route_context(question, target, plan, chosen)

    terms: Sequence[Term] = ()
    if NO_MODEL in {persona.model or plan.options.model for persona in personas}:
        terms = yield from _question_terms(question, retrieved, target, plan)

    def show_snippets(persona: Persona) -> Answer:
        threshold = plan.options.threshold
        return snippet_answer(question, persona, retrieved.hits, terms, target.analyzer, threshold)

    answers = yield from _answer_each(question, personas, retrieved.hits, plan, show_snippets)
    notes += retrieved.notes
    return chosen, [replace(answer, notes=(*notes, *answer.notes)) for answer in answers]


def _route_context(
    question: str, target: Target, plan: AskPlan, chosen: Route
) -> Flow[tuple[Route, Retrieved]]:
    """Fetch the passages by the route; if the database cannot answer, those of the index.

    A route may add rewriting and subqueries to the settings of the search, if there is a model.
    """
    notes: tuple[str, ...] = ()
    if chosen.kind == "sql":
        database = next(d for d in plan.databases if d.options.name == chosen.database)
        try:
            retrieved = yield from sql_context(question, database, plan.options.model)
            failed = yield from branch(0, 0, 1)
            if not failed:
                return chosen, retrieved
        except (DatabaseError, ModelReplyError, ModelTimeoutError, ModelUnavailableError) as error:
            notes = (f"the database {chosen.database} did not answer: {error.what}",)
        reason = f"{chosen.reason}; it failed, so the index answers"
        chosen = replace(chosen, kind="index", reason=reason)
    options, query = plan.retrieve, plan.retrieve.query
    model = query.model or plan.options.model
    if (chosen.rewrite or chosen.split) and model != NO_MODEL:
        methods = query.methods
        if chosen.rewrite and "rewrite" not in methods:
            methods = (*methods, "rewrite")
        if chosen.split and "subqueries" not in methods:
            methods = (*methods, "subqueries")
        options = replace(options, query=replace(query, methods=methods, model=model))
    retrieved = yield from retrieve(question, target, options, plan.hooks, plan.keywords)
    method = f"{retrieved.mode} search"
    reason = "; ".join(filter(None, (chosen.reason, method)))
    return replace(chosen, reason=reason), replace(retrieved, notes=(*notes, *retrieved.notes))


def _question_terms(
    question: str, retrieved: Retrieved, target: Target, plan: AskPlan
) -> Flow[Sequence[Term]]:
    """The question's terms in the index; looked up where it was searched in other words."""
    if target.analyzer is not None:
        tokens = set(target.analyzer.tokens(question))
        terms = [term for term in retrieved.explanation.terms if term.token in tokens]
        if len(terms) == len(tokens):
            return terms
    request = Search(
        target.snapshot, "keyword", 1, text=question, filters=tuple(plan.retrieve.filters)
    )
    return (yield from send(request, SearchReply)).terms


def _answer_each(
    question: str,
    personas: Sequence[Persona],
    hits: Sequence[Hit],
    plan: AskPlan,
    without_model: Callable[[Persona], Answer],
) -> Flow[list[Answer]]:
    """One answer for each persona, written by its chat model, or by a rule where it has none."""
    modelled = [(persona.model or plan.options.model) != NO_MODEL for persona in personas]
    writing = [
        write(question, persona, hits, plan)
        for persona, writes in zip(personas, modelled, strict=True)
        if writes
    ]
    outcomes = iter((yield from gather(writing, settle=True)) if writing else ())
    return [
        unpack_settled(next(outcomes)) if writes else without_model(persona)
        for persona, writes in zip(personas, modelled, strict=True)
    ]


def _answer_without_documents(
    question: str, personas: Sequence[Persona], plan: AskPlan
) -> Flow[list[Answer]]:
    """The reply of the chat model if nothing has to be looked up; without one, an abstention."""

    def decline(persona: Persona) -> Answer:
        return Answer(question, NOTHING_ASKED, persona.name, abstained=True, model=NO_MODEL)

    closed = replace(plan, options=replace(plan.options, closed_book=True))
    return (yield from _answer_each(question, personas, (), closed, decline))


NOTHING_ASKED = "Nothing was looked up, and no chat model is set to reply."


def apply_promise(
    answers: Sequence[Answer], guard: AnswerGuard, snapshot: str, scope: str = ""
) -> Flow[list[Answer]]:
    """Answers with their promise; those that score below the threshold become abstentions.

    A suspended promise withholds nothing: answers only carry its sentence.

    Args:
        answers: Answers to one question.
        guard: Threshold and certificate.
        snapshot: State of the index that was searched.
        scope: What the question is that no certified question was; empty if it is one of them.
    """
    if guard.changed(snapshot):
        return [replace(answer, promise=guard.promise(answer, snapshot)) for answer in answers]
    checked = []
    for answer in answers:
        score = None if answer.abstained else (yield from guard.score_of(answer))
        promise = guard.promise(answer, snapshot, scope)
        answer = replace(answer, promise=replace(promise, score=score))
        if not answer.abstained and (score is None or score < guard.threshold):
            reached = f"has no {guard.score}" if score is None else f"has {guard.score} {score:.4g}"
            note = (
                f"withheld: the answer {reached}, and {guard.threshold:.4g} is needed to keep the "
                f"promise of {guard.promised}"
            )
            answer = replace(
                answer,
                text=REFUSED,
                abstained=True,
                citations=(),
                snippets=(),
                notes=(note, *answer.notes),
            )
        checked.append(answer)
    return checked
