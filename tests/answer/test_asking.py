"""Asking end to end: which route a question takes, and what its answer says about that."""

from __future__ import annotations

import json
import sqlite3
from dataclasses import replace
from pathlib import Path

import pytest
from answer_fakes import hit
from test_corpus import LETTERS, Shelf

from ragwright.answer import AnswerOptions, AskPlan, CorpusOptions, ask
from ragwright.core import Answer, Persona, RetrieveError
from ragwright.flow import Lookup, LookupReply, Runner, Search, SearchReply, Sql
from ragwright.models import Models, model_handlers
from ragwright.retrieve import (
    DatabaseOptions,
    Databases,
    RetrieveOptions,
    RouteOptions,
    SoftFilterOptions,
    SqlHandler,
    Target,
)
from ragwright.testing import Reply, ScriptedServer, ServerRequest

PERSONAS = [Persona("engineer", audience="engineers"), Persona("marketing")]
TARGET = Target("s1")


class Index(Shelf):
    """A shelf that also finds by keyword: everything, in order."""

    def one(self, request: object) -> SearchReply | LookupReply:
        if isinstance(request, Search) and request.channel == "keyword":
            self.seen.append(request)
            return SearchReply(tuple((key, 1.0) for key in list(self.hits)[: request.k]))
        return super().one(request)


def asked(question: str, plan: AskPlan, databases: Databases | None = None) -> list[Answer]:
    index = Index(LETTERS)
    routes = {**model_handlers(Models()), Search: index, Lookup: index}
    if databases is not None:
        routes[Sql] = SqlHandler(databases)
    with Runner(routes) as runner:
        return runner.run(ask(question, PERSONAS, TARGET, plan))


def plan(method: str, model: str = "snippet", **more: object) -> AskPlan:
    options = RetrieveOptions(route=RouteOptions(method))  # type: ignore[arg-type]
    return AskPlan(AnswerOptions(model=model), retrieve=options, **more)  # type: ignore[arg-type]


def test_by_default_every_question_goes_to_the_index() -> None:
    for question in ("Hello", "How many documents mention the pump?", "Who repaired the pump?"):
        first, _ = asked(question, plan("index"))
        assert first.route == "index"
        assert first.route_reason == "keyword search"


def test_without_a_chat_model_a_router_says_that_nothing_reads_every_chunk() -> None:
    first, second = asked("How many documents mention the pump?", plan("model"))
    assert (first.route, second.persona) == ("index", "marketing")
    assert any("reads every chunk" in note for note in first.notes)


def test_without_a_chat_model_nobody_replies_to_small_talk() -> None:
    first, _ = asked("Bonjour !", plan("auto"))
    assert (first.route, first.abstained, first.hits) == ("none", True, ())
    assert "no chat model" in first.text
    assert "courtesy" in first.route_reason


def test_with_a_chat_model_small_talk_is_answered_without_passages() -> None:
    with ScriptedServer("Hello to you.") as server:
        first, _ = asked("Good morning", plan("auto", f"{server.url}#scripted"))
        assert first.text == "Hello to you."
        assert first.route == "none"
        assert "fuel pump" not in server.requests[0].prompt


def shop(folder: Path) -> Databases:
    connection = sqlite3.connect(folder / "shop.db")
    connection.executescript("CREATE TABLE orders (id, amount); INSERT INTO orders VALUES (1, 42);")
    connection.close()
    return Databases([DatabaseOptions("shop", "sqlite:///shop.db")], folder)


def writes(statement: str) -> object:
    def script(request: ServerRequest) -> str | Reply:
        if "Database shop" in request.prompt or "did not work" in request.prompt:
            return json.dumps({"statement": statement})
        return "The amount is 42 [1]."

    return script


def test_a_question_about_a_table_is_answered_from_its_rows(tmp_path: Path) -> None:
    databases = shop(tmp_path)
    with ScriptedServer(writes("SELECT amount FROM orders")) as server:  # type: ignore[arg-type]
        asking = plan("auto", f"{server.url}#scripted", databases=databases.described())
        first, _ = asked("What is the total amount of all orders?", asking, databases)
        assert first.route == "sql"
        assert "names 'orders'" in first.route_reason
        assert first.citations[0].source == "sql:shop"
        assert "| 42 |" in first.hits[0].text
        assert any("SELECT amount FROM orders" in note for note in first.notes)
        assert "| 42 |" in server.requests[-1].prompt


def test_where_the_database_fails_the_index_answers_and_says_so(tmp_path: Path) -> None:
    databases = shop(tmp_path)
    with ScriptedServer(writes("DROP TABLE orders")) as server:  # type: ignore[arg-type]
        asking = plan("auto", f"{server.url}#scripted", databases=databases.described())
        first, _ = asked("What is the total amount of all orders?", asking, databases)
        assert first.route == "index"
        assert "the index answers" in first.route_reason
        assert any("the database shop did not answer" in note for note in first.notes)


@pytest.mark.parametrize("reply", ["", Reply(status=500, error="down")])
def test_where_the_model_writes_no_statement_at_all_the_index_answers(
    tmp_path: Path, reply: str | Reply
) -> None:
    databases = shop(tmp_path)

    def script(request: ServerRequest) -> str | Reply:
        return reply if "Database shop" in request.prompt else "Nobody knows [1]."

    with ScriptedServer(script) as server:
        asking = plan("auto", f"{server.url}#scripted", databases=databases.described())
        first, _ = asked("What is the total amount of all orders?", asking, databases)
    assert first.route == "index"
    assert any("the database shop did not answer" in note for note in first.notes)


def test_a_dry_run_of_a_database_question_counts_the_way_back_to_the_index(
    tmp_path: Path,
) -> None:
    databases = shop(tmp_path)
    with ScriptedServer("x") as server:
        index = Index(LETTERS)
        routes = {**model_handlers(Models()), Search: index, Lookup: index}
        asking = plan("auto", f"{server.url}#scripted", databases=databases.described())
        question = "What is the total amount of all orders?"
        with Runner(routes) as runner:
            forecast = runner.forecast([lambda: ask(question, PERSONAS, TARGET, asking)])
    assert not forecast.uncertain
    assert forecast.calls.low == forecast.calls.expected == 1 + 2
    assert forecast.calls.high == 2 + 2
    fallen = [step for step in index.seen if isinstance(step, Search)]
    assert [step.channel for step in fallen] == ["keyword"]


def test_a_refused_corpus_costs_nothing_in_a_dry_run() -> None:
    with ScriptedServer("x") as server:
        index = Index(LETTERS)
        routes = {**model_handlers(Models()), Search: index, Lookup: index}
        asking = plan("model", f"{server.url}#scripted")
        options = replace(asking.options, corpus=CorpusOptions(max_chunks=1))
        asking = replace(asking, options=options)
        with Runner(routes) as runner:
            forecast = runner.forecast([lambda: ask("Who is it?", PERSONAS, TARGET, asking)])
    assert not forecast.uncertain
    assert forecast.calls.high == 2 + (2 + 2 + 2)


def test_a_question_with_a_lone_surrogate_is_asked_all_the_same() -> None:
    with ScriptedServer("Carol [2].") as server:
        first, _ = asked("\ud800 Who repaired it?", plan("index", f"{server.url}#scripted"))
    assert first.text == "Carol [2]."
    assert first.question == "\ufffd Who repaired it?"


def test_soft_filters_reach_the_whole_corpus_route() -> None:
    found = json.dumps({"items": [{"item": "pump", "quote": "PUMP"}]})
    route = {"route": "corpus", "database": "", "reason": "r", "rewrite": False, "split": False}

    def script(request: ServerRequest) -> str:
        routing = "You decide where" in str(request.body["messages"][0]["content"])
        return json.dumps(route) if routing else found

    with ScriptedServer(script) as server:
        asking = plan("model", f"{server.url}#scripted")
        soft = (SoftFilterOptions("document", ("c",)),)
        narrowed = replace(asking.retrieve, soft=soft, unfiltered=False)
        first, _ = asked("List all the machines.", replace(asking, retrieve=narrowed))
    assert first.text.startswith("1 found:")
    assert [c.document_id for c in first.citations] == ["c"]


@pytest.mark.parametrize("question", ["x" * 30_000, " ".join(f"E{n}" for n in range(2_000))])
def test_a_question_that_would_keep_others_waiting_is_refused(question: str) -> None:
    with pytest.raises(RetrieveError, match="more than"):
        asked(question, plan("index"))


def test_offline_a_table_is_never_asked(tmp_path: Path) -> None:
    databases = shop(tmp_path)
    asking = plan("auto", databases=databases.described())
    first, _ = asked("What is the total amount of all orders?", asking, databases)
    assert first.route == "index"


def test_a_model_may_ask_for_rewriting_and_splitting() -> None:
    route = {"route": "index", "database": "", "reason": "r", "rewrite": True, "split": False}

    def script(request: ServerRequest) -> str | Reply:
        if "search queries" in str(request.body["messages"][0]["content"]):
            return json.dumps({"query": "pump repair"})
        if "You decide where" in str(request.body["messages"][0]["content"]):
            return json.dumps(route)
        return "Carol [2]."

    with ScriptedServer(script) as server:
        first, _ = asked("Who, pray, repaired it?", plan("model", f"{server.url}#scripted"))
    assert first.route == "index"
    assert first.route_reason.startswith("r (")
    assert any("pump repair" in note for note in first.notes)


def test_a_dry_run_of_a_routed_question_bounds_the_calls() -> None:
    with ScriptedServer("x") as server:
        index = Index([*LETTERS, hit(9, "More.")])
        routes = {**model_handlers(Models()), Search: index, Lookup: index}
        asking = plan("model", f"{server.url}#scripted")
        with Runner(routes) as runner:
            forecast = runner.forecast([lambda: ask("Who is it?", PERSONAS, TARGET, asking)])
    assert not forecast.uncertain
    assert forecast.calls.low == 3  # the router and one answer a persona
    # the router twice, each chunk; and the index with a rewrite and a split, each asked for twice
    assert forecast.calls.high == 2 + 5 + (2 + 2 + 2)
    assert not server.requests
