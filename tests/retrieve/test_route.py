"""Where a question goes: by rules, by a model, and what happens when the model errs."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable

import pytest
from route_questions import QUESTIONS, UNSEEN

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
    route,
    route_by_rules,
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
RULES, MODEL = RouteOptions("rules"), RouteOptions("model")


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


def confusion(questions: list[tuple[str, str]]) -> Counter[tuple[str, str]]:
    """(route wanted, route taken) -> questions."""
    return Counter((wanted, route_by_rules(text, SCENE).kind) for text, wanted in questions)


def test_the_rules_on_the_questions_they_were_mended_with() -> None:
    assert len(QUESTIONS) == 90
    wrong = [(q, w, r) for q, w in QUESTIONS if (r := route_by_rules(q, SCENE)).kind != w]
    assert not wrong


def test_the_rules_on_questions_written_afterwards() -> None:
    """29 of 34 right; the confusion is stated, so that a change shows what it moves."""
    assert confusion(UNSEEN) == {
        ("index", "index"): 11,
        ("index", "corpus"): 1,
        ("corpus", "corpus"): 10,
        ("corpus", "index"): 3,
        ("none", "none"): 5,
        ("none", "index"): 1,
        ("sql", "sql"): 3,
    }


def test_every_route_has_a_reason_that_can_be_read() -> None:
    for question, _ in QUESTIONS:
        assert 10 < len(route_by_rules(question, SCENE).reason) < 200
    found = route_by_rules("How many documents mention rust?", SCENE)
    assert found.reason == "it counts documents or passages: 'How many documents'"
    assert route_by_rules("Which orders?", SCENE).database == "shop"


def test_without_a_chat_model_no_statement_could_be_written() -> None:
    question = "What is the average amount?"
    assert route_by_rules(question, SCENE).kind == "sql"
    for model in ("", "snippet"):
        found = route_by_rules(question, RouteScene(model, (SHOP,)))
        assert found.kind == "index"
        assert "no chat model is set" in found.reason
    down = QueryDatabase(SHOP.options, SHOP.tables, problem="it is down")
    assert route_by_rules(question, RouteScene("m:x", (down,))).kind == "index"


def test_rewriting_and_splitting_are_decided_too() -> None:
    wordy = route_by_rules("I was wondering how long the oil lasts.", SCENE)
    assert (wordy.rewrite, wordy.split) == (True, False)
    assert route_by_rules("Which is older? Which is larger?", SCENE).split
    assert route_by_rules("Compare the pump and the valve.", SCENE).split
    plain = route_by_rules("How long does the oil last?", SCENE)
    assert not plain.rewrite
    assert not plain.split


@pytest.mark.parametrize(
    "question", ["", " ", "?", "😀", "the", "a" * 20_000, "who are the " * 3_000, "\ud800", "\n\n"]
)
def test_odd_questions_are_routed_too(question: str) -> None:
    assert route_by_rules(question, SCENE).reason


HOSTILE = [
    "thanks " + "for a b " * 24 + "the detailed answer about the pump",
    "merci " + "pour a b " * 3_000 + "!x",
    "how many " * 2_500,
    "wie viele werden a " * 3_000,
    "which " + "of the " * 5_000,
    "hi, " * 9_000 + "x y z",
    "from all the " * 3_000,
    "?" * 20_000,
]


@pytest.mark.parametrize("question", HOSTILE)
def test_no_wording_holds_the_loop_up(question: str) -> None:
    """They took 5 to 15 s each; the limit is generous, for a busy machine."""
    assert route_by_rules(question, SCENE).reason


def test_a_long_text_after_a_greeting_or_thanks_is_no_small_talk() -> None:
    for start in ("Hello", "Thanks"):
        question = start + "!" * 1_200 + " How is the oil changed?"
        assert route_by_rules(question, SCENE).kind == "index"


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
def test_a_bad_reply_is_asked_for_once_more_and_then_the_rules_decide(reply: str) -> None:
    found, seen = drive(route("List all tools.", MODEL, SCENE), reply)
    assert found.kind == "corpus"
    assert len(seen) == 2
    assert "could not be used" in found.notes[-1]
    assert [m.role for m in seen[1].messages] == ["system", "user", "assistant", "user"]


def test_the_second_reply_counts() -> None:
    replies = iter(["index, I think", said(route="none")])
    found, _ = drive(route("List all tools.", MODEL, SCENE), lambda _: next(replies))
    assert (found.kind, found.notes) == ("none", ())


def test_without_any_chat_model_the_rules_route_and_say_so() -> None:
    found, seen = drive(route("List all tools.", MODEL, RouteScene("snippet")))
    assert found.kind == "corpus"
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
    made = route_by_rules("How do I vent the pump?", RouteScene("m:x", (broken,)))
    assert made.notes == ("the database shop cannot be queried: no such file",)
