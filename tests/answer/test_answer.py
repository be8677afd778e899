"""Asking end to end: which route a question takes, and what its answer says about that."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hand_driver import LETTERS, Shelf, hit

from ragwright.answer import AnswerOptions, AskPlan, CorpusOptions, ask
from ragwright.core import Answer, Persona, RetrieveError
from ragwright.flow import Lookup, Runner, Search, Sql
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
AMOUNT = "What is the total amount of all orders?"
ROUTE = {"route": "index", "database": "", "reason": "r", "rewrite": False, "split": False}
DECIDES = "You decide where"


def plan(method: Any, model: str = "snippet", **more: Any) -> AskPlan:
    options = RetrieveOptions(route=RouteOptions(method))
    return AskPlan(AnswerOptions(model=model), retrieve=options, **more)


def asked(question: str, plan: AskPlan, databases: Databases | None = None) -> Answer:
    """The first persona's answer."""
    shelf = Shelf(LETTERS)
    routes: dict[type, Any] = {**model_handlers(Models()), Search: shelf, Lookup: shelf}
    if databases is not None:
        routes[Sql] = SqlHandler(databases)
    with Runner(routes) as runner:
        return runner.run(ask(question, PERSONAS, TARGET, plan))[0]


@pytest.fixture
def shop(tmp_path: Path) -> Databases:
    with closing(sqlite3.connect(tmp_path / "shop.db")) as db:
        db.executescript("CREATE TABLE orders (id, amount); INSERT INTO orders VALUES (1, 42);")
    return Databases([DatabaseOptions("shop", "sqlite:///shop.db")], tmp_path)


@pytest.mark.parametrize(
    ("question", "method", "route", "reason", "note"),
    [
        ("Hello", "index", "index", "keyword search", ""),
        ("How many documents mention the pump?", "index", "index", "keyword search", ""),
        ("How many documents mention the pump?", "model", "index", "", "reads every chunk"),
        ("Bonjour !", "auto", "none", "courtesy", ""),
        (AMOUNT, "auto", "index", "", ""),
    ],
)
def test_without_a_chat_model_the_index_answers_and_says_what_is_missing(
    shop: Databases, question: str, method: str, route: str, reason: str, note: str
) -> None:
    made = asked(question, plan(method, databases=shop.described()), shop)
    assert made.route == route
    assert reason in made.route_reason
    assert note in " ".join(made.notes)
    if route == "none":
        assert (made.abstained, made.hits) == (True, ())
        assert "no chat model" in made.text


def scripted(**said: str | Reply) -> Callable[[ServerRequest], str | Reply]:
    """A model that routes, writes statements and queries, and answers."""

    def script(request: ServerRequest) -> str | Reply:
        if DECIDES in str(request.body["messages"][0]["content"]):
            return said["route"]
        if "search queries" in str(request.body["messages"][0]["content"]):
            return said["rewrite"]
        if "Database shop" in request.prompt or "did not work" in request.prompt:
            return said["sql"]
        return said["answer"]

    return script


FAILED = "the database shop did not answer"
SELECT = json.dumps({"statement": "SELECT amount FROM orders"})


@pytest.mark.parametrize(
    ("said", "route", "reason", "note"),
    [
        (SELECT, "sql", "names 'orders'", "SELECT amount FROM orders"),
        (json.dumps({"statement": "DROP TABLE orders"}), "index", "the index answers", FAILED),
        ("", "index", "the index answers", FAILED),
        (Reply(status=500, error="down"), "index", "the index answers", FAILED),
    ],
)
def test_a_question_about_a_table_is_answered_from_its_rows_or_else_from_the_index(
    shop: Databases, said: str | Reply, route: str, reason: str, note: str
) -> None:
    with ScriptedServer(scripted(sql=said, answer="The amount is 42 [1].")) as server:
        auto = plan("auto", f"{server.url}#scripted", databases=shop.described())
        made = asked(AMOUNT, auto, shop)
        assert ("| 42 |" in server.requests[-1].prompt) == (route == "sql")
    assert made.route == route
    assert reason in made.route_reason
    assert any(note in one for one in made.notes)
    assert ("| 42 |" in made.hits[0].text) == (route == "sql")
    assert (made.citations[0].source == "sql:shop") == (route == "sql")


def test_with_a_chat_model_small_talk_and_broken_letters_are_answered() -> None:
    with ScriptedServer("Hello to you.") as server:
        made = asked("Good morning", plan("auto", f"{server.url}#scripted"))
        assert (made.text, made.route) == ("Hello to you.", "none")
        assert "fuel pump" not in server.requests[0].prompt
        made = asked("\ud800 Who repaired it?", plan("index", f"{server.url}#scripted"))
        assert (made.text, made.question) == ("Hello to you.", "\ufffd Who repaired it?")


def test_a_model_may_ask_for_rewriting_and_splitting() -> None:
    wish, query = json.dumps({**ROUTE, "rewrite": True}), json.dumps({"query": "pump repair"})
    with ScriptedServer(scripted(route=wish, rewrite=query, answer="Carol [2].")) as server:
        made = asked("Who, pray, repaired it?", plan("model", f"{server.url}#scripted"))
    assert made.route == "index"
    assert made.route_reason.startswith("r (")
    assert any("pump repair" in note for note in made.notes)


def test_soft_filters_reach_the_whole_corpus_route() -> None:
    found = json.dumps({"items": [{"item": "pump", "quote": "PUMP"}]})
    route = json.dumps({**ROUTE, "route": "corpus"})
    with ScriptedServer(scripted(route=route, answer=found)) as server:
        asking = plan("model", f"{server.url}#scripted")
        soft = (SoftFilterOptions("document", ("c",)),)
        narrowed = replace(asking.retrieve, soft=soft, unfiltered=False)
        made = asked("List all the machines.", replace(asking, retrieve=narrowed))
    assert made.text.startswith("1 found:")
    assert [c.document_id for c in made.citations] == ["c"]


@pytest.mark.parametrize("question", ["x" * 30_000, " ".join(f"E{n}" for n in range(2_000))])
def test_a_question_that_would_keep_others_waiting_is_refused(question: str) -> None:
    with pytest.raises(RetrieveError, match="more than"):
        asked(question, plan("index"))


@pytest.mark.parametrize(
    ("question", "method", "chunks", "max_chunks", "calls"),
    [
        # The statement, written twice at most, and two answers.
        (AMOUNT, "auto", 4, 9, (3, 4)),
        # The router twice; rewrite and split asked for twice, and two answers: no chunk is read.
        ("Who is it?", "model", 4, 1, (3, 2 + (2 + 2 + 2))),
        # The router and one answer a persona; or each chunk as well.
        ("Who is it?", "model", 5, 9, (3, 2 + 5 + (2 + 2 + 2))),
    ],
    ids=["database", "corpus-refused", "corpus"],
)
def test_a_dry_run_bounds_the_calls(
    shop: Databases,
    question: str,
    method: str,
    chunks: int,
    max_chunks: int,
    calls: tuple[int, int],
) -> None:
    shelf = Shelf([*LETTERS, hit(9, "More.")][:chunks])
    with ScriptedServer("x") as server:
        databases = shop.described() if method == "auto" else ()
        asking = plan(method, f"{server.url}#scripted", databases=databases)
        corpus = CorpusOptions(max_chunks=max_chunks)
        asking = replace(asking, options=replace(asking.options, corpus=corpus))
        with Runner({**model_handlers(Models()), Search: shelf, Lookup: shelf}) as runner:
            forecast = runner.forecast([lambda: ask(question, PERSONAS, TARGET, asking)])
        assert not server.requests
    assert (forecast.uncertain, forecast.calls.low, forecast.calls.high) == (0, *calls)
    if method == "auto":  # the way back to the index is counted
        assert forecast.calls.expected == calls[0]
        assert [s.channel for s in shelf.seen if isinstance(s, Search)] == ["keyword"]
