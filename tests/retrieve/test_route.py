"""Where a question goes: by what it names, by a model, and what happens when the model errs."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from ragwright.flow import Branch, Chat, ChatReply, Flow, Runner
from ragwright.models import Models, model_handlers
from ragwright.retrieve import (
    Column,
    DatabaseOptions,
    QueryDatabase,
    Route,
    RouteOptions,
    RouteScene,
    Table,
    is_courtesy,
    route,
)
from ragwright.testing import ScriptedServer

SHOP = QueryDatabase(
    DatabaseOptions("shop", "sqlite:///shop.db", "Sales since 2020.", keywords=("turnover",)),
    (
        Table("orders", (Column("id"), Column("amount"), Column("placed_on"))),
        Table("sales.customer_accounts", (Column("customer"), Column("balance"))),
    ),
    "SQLite",
)
SCENE = RouteScene("m:x", (SHOP,))
MODEL = RouteOptions("model")


def drive(flow: Flow[Route], reply: str | Callable[[Chat], str] = "") -> tuple[Route, list[Chat]]:
    """The route, and the chat requests it took."""
    seen: list[Chat] = []
    try:
        step = next(flow)
        while True:
            if isinstance(step, Branch):
                step = flow.send(None)
                continue
            assert isinstance(step, Chat)
            seen.append(step)
            step = flow.send(ChatReply(reply if isinstance(reply, str) else reply(step)))
    except StopIteration as end:
        result: Route = end.value
        return result, seen


@pytest.mark.parametrize("question", ["Which orders?", "The turnover in May?", "a placed on date"])
def test_a_question_that_names_something_of_a_database_goes_there(question: str) -> None:
    found, seen = drive(route(question, RouteOptions(), SCENE))
    assert (found.kind, found.database) == ("sql", "shop")
    assert "of the database shop" in found.reason
    assert not seen


def test_without_a_chat_model_no_statement_could_be_written() -> None:
    down = QueryDatabase(SHOP.options, SHOP.tables, problem="it is down")
    for scene in (
        RouteScene("", (SHOP,)),
        RouteScene("snippet", (SHOP,)),
        RouteScene("m:x", (down,)),
    ):
        assert drive(route("Which orders?", RouteOptions(), scene))[0].kind == "index"


@pytest.mark.parametrize(
    "question", ["", " ", "?", "😀", "the", "a" * 20_000, "who are the " * 3_000, "\ud800", "\n\n"]
)
def test_odd_questions_are_routed_too(question: str) -> None:
    assert drive(route(question, RouteOptions(), SCENE))[0].kind == "index"


@pytest.mark.parametrize(
    ("message", "wanted"),
    [
        ("Hello!", True),
        ("Thank you very much for your help.", True),
        ("Merci beaucoup", True),
        ("Vielen Dank!", True),
        ("Good evening", True),
        ("Hello, what does E42 mean?", False),
        ("Thanks" + "!" * 1_200 + " How is the oil changed?", False),
        ("help", False),
        ("Yes", False),
        ("", False),
    ],
)
def test_a_courtesy_says_no_more(message: str, *, wanted: bool) -> None:
    assert is_courtesy(message) is wanted


def test_by_default_nothing_is_routed() -> None:
    found, seen = drive(route("Hello", RouteOptions(), SCENE))
    assert found.kind == "index"
    assert not seen


def said(**changes: object) -> str:
    """A router's reply."""
    fields = {"route": "index", "database": "", "reason": "so", "rewrite": False, "split": False}
    return json.dumps({**fields, **changes})


def test_a_model_routes_and_its_reason_is_kept() -> None:
    reply = said(route="sql", database="shop", reason="Sales are in a table.", split=True)
    found, seen = drive(route("What sold best?", MODEL, SCENE), reply)
    assert found == Route("sql", "Sales are in a table. (m:x)", split=True, database="shop")
    (chat,) = seen
    assert "sales.customer_accounts" in chat.messages[-1].content
    assert json.loads(chat.schema)["properties"]["route"]["enum"] == [
        "corpus",
        "index",
        "none",
        "sql",
    ]


def test_a_fence_around_the_reply_is_let_pass() -> None:
    reply = f"```json\n{said(route='none')}\n```"
    assert drive(route("x y z", MODEL, SCENE), reply)[0].kind == "none"


BAD = [
    "",
    "index",
    said(route="everywhere"),
    said(route="sql", database="other"),
    said(rewrite="yes"),
    said(reason=" "),
    said(extra=1),
    said() + said(),
    "[1]",
]


@pytest.mark.parametrize("reply", BAD)
def test_a_bad_reply_is_asked_for_once_more_and_then_the_index_answers(reply: str) -> None:
    found, seen = drive(route("List all tools.", MODEL, SCENE), reply)
    assert found.kind == "index"
    assert len(seen) == 2
    assert "could not be used" in found.notes[-1]
    assert [m.role for m in seen[1].messages] == ["system", "user", "assistant", "user"]


def test_the_second_reply_counts() -> None:
    replies = iter(["index, I think", said(route="none")])
    found, _ = drive(route("List all tools.", MODEL, SCENE), lambda _: next(replies))
    assert (found.kind, found.notes) == ("none", ())


def test_without_any_chat_model_the_index_answers_and_says_so() -> None:
    found, seen = drive(route("List all tools.", MODEL, RouteScene("snippet")))
    assert found.kind == "index"
    assert not seen
    assert "no chat model" in found.notes[0]


def test_over_http_a_failing_router_costs_the_route_not_the_question() -> None:
    with ScriptedServer(said(route="corpus")) as server:
        name = f"{server.url}#scripted"
        options = RouteOptions("model", name)
        with Runner(model_handlers(Models())) as runner:
            assert runner.run(route("What is it?", options)).kind == "corpus"
            forecast = runner.forecast([lambda: route("What is it?", options)])
            assert (forecast.calls.expected, forecast.calls.high) == (1, 2)
            server.play("no idea")
            found = runner.run(route("What was it?", options))
            assert found.kind == "index"
            assert found.notes


def test_a_database_that_cannot_be_asked_is_told() -> None:
    broken = QueryDatabase(DatabaseOptions("shop", "sqlite:///nowhere.db"), problem="no such file")
    scene = RouteScene("m:x", (broken,))
    made, _ = drive(route("How do I vent the pump?", RouteOptions(), scene))
    assert made.notes == ("the database shop cannot be queried: no such file",)
