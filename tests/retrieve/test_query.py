"""Queries in other words: what each method searches for, and that no model loses the question."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hand_driver import Driver

from ragwright.core import MissingKeyError, ModelRefusedError, ModelTimeoutError
from ragwright.flow import ChatReply, Runner
from ragwright.models import Models, ModelSettings, model_handlers
from ragwright.retrieve import (
    Glossary,
    Meaning,
    QueryOptions,
    Target,
    Variant,
    json_object,
    query_variants,
)

TARGET = Target("s", "test:model", 2)
QUESTION = "Could you tell me, how do I change the filter?"
ASKED, CHANGE = Variant(QUESTION, QUESTION), "change the filter"
X1 = (Meaning("the pump"), Meaning("the fan"))
GLOSSARY = Glossary({"APP_w304": (Meaning("pedal sensor"),), "X1": X1})
PUMP, FAN = Variant("X1", "X1 (the pump)", 0.5), Variant("X1", "X1 (the fan)", 0.5)


def options(*methods: str, **more: Any) -> QueryOptions:
    return QueryOptions(methods, "m:x", **more)  # type: ignore[arg-type]


def rewritten(query: str) -> str:
    return json.dumps({"query": query})


def split(*queries: object) -> str:
    return json.dumps({"queries": queries})


def both(text: str, weight: float = 1.0) -> Variant:
    return Variant(text, text, weight)


FIVE = "filter? filter? filter? filter? filter? Turn the cap."
CAP = "Turn the cap.\nTake it out."
PASSAGE = Variant("", "Turn the cap. Take it out.", passage=True)
REWRITTEN = f"rewritten as: {CHANGE}"
THREE = split("filter price", "filter change", "filter price")
LOOKED_UP = QueryOptions(("glossary",))
MEANINGS = ["glossary: X1 = the pump", "glossary: X1 = the fan"]


@pytest.mark.parametrize(
    ("question", "chosen", "replies", "found", "notes"),
    [
        (QUESTION, QueryOptions(), [], [ASKED], []),
        (QUESTION, options("rewrite", original=0.5), [rewritten(CHANGE)],
         [both(QUESTION, 0.5), both(CHANGE)], [REWRITTEN]),
        (QUESTION, options("rewrite", original=0.0), [rewritten(CHANGE)], [both(CHANGE)],
         [REWRITTEN]),
        (QUESTION, options("subqueries"), [THREE], [ASKED, both("filter price"),
         both("filter change")], ["subqueries: filter price | filter change"]),
        # A passage is for the dense channel alone; the keyword channel keeps the question.
        (QUESTION, options("hyde"), [CAP], [ASKED, PASSAGE], None),
        (QUESTION, options("hyde", original=0.0), [CAP], [Variant(QUESTION, ""), PASSAGE], None),
        ("filter?", options("query2doc", original=0.0), ["Turn the cap."],
         [Variant(FIVE, "filter? [SEP] Turn the cap.")], None),
        # A glossary speaks to the dense channel and needs no model; meanings count as one.
        ("app_W304!", LOOKED_UP, [], [Variant("app_W304!", "app_W304! (pedal sensor)")],
         ["glossary: APP_w304 = pedal sensor"]),
        ("a pump", LOOKED_UP, [], [both("a pump")], []),
        ("X1", LOOKED_UP, [], [PUMP, FAN], MEANINGS),
        ("X1", options("glossary", "rewrite", original=0.0), [rewritten("X1 is")],
         [Variant("", PUMP.dense, 0.5), Variant("", FAN.dense, 0.5), both("X1 is")],
         ["rewritten as: X1 is", *MEANINGS]),
    ],
)  # fmt: skip
def test_what_is_searched_for(
    question: str, chosen: QueryOptions, replies: Any, found: list[Variant], notes: Any
) -> None:
    driver = Driver(*replies)
    variants, told = driver.run(query_variants(question, TARGET, chosen, GLOSSARY))
    assert list(variants) == found
    assert len(driver.chats) == len(replies)
    assert notes is None or list(told) == notes
    if "rewrite" in chosen.methods:
        assert question in driver.prompts[0]
        assert json.loads(driver.chats[0].schema)["required"] == ["query"]


def test_what_needs_vectors_is_left_out_without_them_and_says_so() -> None:
    flow = query_variants("X1", Target("s"), options("hyde", "glossary"), GLOSSARY)
    found, notes = Driver().run(flow)
    assert found == (both("X1"),)
    assert ["no vectors" in note for note in notes] == [True, True]


def test_methods_add_up_and_follow_the_rewrite() -> None:
    driver = Driver(rewritten("change filter"), split("a b", "c d"), "A passage.")
    chosen = options("query2doc", "hyde", "subqueries", "rewrite")
    found, _ = driver.run(query_variants(QUESTION, TARGET, chosen))
    last = ["A passage.", "change filter [SEP] A passage."]
    assert [v.dense for v in found] == [QUESTION, "change filter", "a b", "c d", *last]
    assert all("change filter" in text for text in driver.prompts[1:])


def test_what_was_added_to_a_long_question_is_not_cut_away_and_a_passage_is_bounded() -> None:
    long = "filter " * 100
    flow = query_variants(long.strip(), TARGET, options("query2doc"), limit=1_000)
    found, notes = Driver("Turn the cap.").run(flow)
    assert max(len(text) for v in found for text in (v.keyword, v.dense)) <= 1_000
    assert found[1].keyword.endswith(" Turn the cap.")
    assert found[1].dense == f"{long.strip()} [SEP] Turn the cap."
    assert set(found[1].keyword.split()) == {"filter", "Turn", "the", "cap."}
    assert "of 699 characters" in notes[-1]
    glossary, chosen = Glossary({"X1": (Meaning("the pump"),)}), QueryOptions(("glossary",))
    flow = query_variants("X1 " + "a " * 490, TARGET, chosen, glossary, 990)
    (only,), _ = Driver().run(flow)
    assert len(only.dense) <= 990
    assert only.dense.endswith("(the pump)")
    driver = Driver("word " * 10_000)
    found, _ = driver.run(query_variants(QUESTION, TARGET, options("hyde")))
    assert len(found[1].dense) <= 1200
    assert dict(driver.chats[0].params)["max_tokens"] == 300


BAD: list[str | ChatReply] = [
    *("not json", "", '{"query": ""}', '{"query": 3}', '["filter"]', '{"query": "a", "more": "b"}'),
    *("```json\n{}\n```", rewritten("x" * 301), "I'm sorry, but I cannot help with that."),
    ChatReply(rewritten("cut"), finish="length"),
    ChatReply(rewritten("withheld"), finish="content_filter"),
]


@pytest.mark.parametrize("bad", BAD)
def test_a_reply_without_the_form_is_shown_to_the_model_once(bad: str | ChatReply) -> None:
    driver = Driver(bad, rewritten(CHANGE))
    found, _ = driver.run(query_variants(QUESTION, TARGET, options("rewrite")))
    assert found[-1].keyword == CHANGE
    shown, asked = driver.chats[1].messages[-2:]
    assert shown.content == (bad if isinstance(bad, str) else bad.text)
    assert "cannot be used" in asked.content
    driver = Driver(bad)
    found, notes = driver.run(query_variants(QUESTION, TARGET, options("rewrite", original=0.0)))
    assert (found, len(driver.chats)) == ((ASKED,), 2)
    assert notes[0].startswith("searched as asked")


def test_subqueries_without_the_form_leave_the_question_whole() -> None:
    for bad in (split(), split(1), split(*"abcde"), "no"):
        found, notes = Driver(bad).run(query_variants(QUESTION, TARGET, options("subqueries")))
        assert (found, notes[0][:9]) == ((ASKED,), "not split")


@pytest.mark.parametrize(
    ("method", "reply", "kept"),
    [
        ("rewrite", rewritten("printer fan error"), False),
        ("subqueries", split("printer fan", "error"), False),
        ("rewrite", rewritten("xx-31201 meaning"), True),
    ],
)
def test_a_code_of_the_question_must_survive(method: str, reply: str, kept: bool) -> None:
    asked, driver = "What does XX-31201 mean?", Driver(reply)
    found, notes = driver.run(query_variants(asked, TARGET, options(method)))
    assert (both(asked) in found, len(found)) == (True, 2 if kept else 1)
    assert ("'XX-31201'" in notes[0]) is not kept
    assert kept or "'XX-31201'" in driver.prompts[1]


@pytest.mark.parametrize("method", ["hyde", "query2doc", "rewrite", "subqueries"])
def test_a_server_that_fails_ends_in_a_note_but_a_wrong_setting_is_raised(method: str) -> None:
    slow = Driver(ModelTimeoutError("m:x did not reply in time"))
    found, notes = slow.run(query_variants(QUESTION, TARGET, options(method)))
    assert found == (ASKED,)
    assert "did not reply in time" in notes[0]
    for error in (MissingKeyError("no key"), ModelRefusedError("unknown model")):
        with pytest.raises(type(error)):
            Driver(error).run(query_variants(QUESTION, TARGET, options(method)))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"a": "x"}', ""),
        ('```\n{"a": "x"}\n```', ""),
        ('```JSON\n{"a": "x"}\n```\n', ""),
        ("```python\n{}\n```", "reply is"),
        ('{"a": "x"}<think></think>', "reply is"),
        ("[" * 99_999, "reply is"),
    ],
    ids=lambda given: given[:9],
)
def test_one_fence_is_unwrapped_for_every_reader(text: str, said: str) -> None:
    if not said:
        assert json_object(text, {"a": str}) == {"a": "x"}
        return
    with pytest.raises(ValueError, match=said):
        json_object(text, {"a": str})


def test_a_dry_run_counts_a_re_ask_at_most() -> None:
    chosen = options("rewrite", "subqueries", "hyde")
    with Runner(model_handlers(Models({"m": ModelSettings(base="http://127.0.0.1:9")}))) as runner:
        forecast = runner.forecast([lambda: query_variants(QUESTION, TARGET, chosen)])
    assert (forecast.calls.low, forecast.calls.expected, forecast.calls.high) == (3, 3, 6)
    assert forecast.uncertain == 0
