"""Queries in other words: what each method searches for, and that no model loses the question."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from query_fakes import Driver, prompts

from ragwright.core import ConfigError, MissingKeyError, ModelRefusedError, ModelTimeoutError
from ragwright.flow import Chat, ChatReply, RetryPolicy, Runner
from ragwright.models import Models, ModelSettings, model_handlers
from ragwright.retrieve import Glossary, Meaning, QueryOptions, Target, Variant, query_variants
from ragwright.testing import Reply, ScriptedServer

TARGET = Target("s", "test:model", 2)
KEYWORD = Target("s")
QUESTION = "Could you tell me, how do I change the filter?"


def options(*methods: str, **more: object) -> QueryOptions:
    return QueryOptions(methods, "m:x", **more)  # type: ignore[arg-type]


def rewritten(query: str) -> str:
    return json.dumps({"query": query})


def test_without_methods_the_question_is_searched_and_nothing_is_asked() -> None:
    driver = Driver("never")
    assert driver.run(query_variants(QUESTION, TARGET, QueryOptions())) == (
        (Variant(QUESTION, QUESTION),),
        (),
    )
    assert not driver.chats


def test_a_rewrite_is_searched_beside_the_question() -> None:
    driver = Driver(rewritten("change the filter"))
    found, notes = driver.run(query_variants(QUESTION, TARGET, options("rewrite", original=0.5)))
    assert found == (
        Variant(QUESTION, QUESTION, 0.5),
        Variant("change the filter", "change the filter"),
    )
    assert notes == ("rewritten as: change the filter",)
    assert QUESTION in prompts(driver.chats)[0]
    assert json.loads(driver.chats[0].schema)["required"] == ["query"]


def test_without_a_weight_the_question_itself_is_left_out() -> None:
    driver = Driver(rewritten("change the filter"))
    found, _ = driver.run(query_variants(QUESTION, TARGET, options("rewrite", original=0.0)))
    assert found == (Variant("change the filter", "change the filter"),)


def test_subqueries_are_wordings_of_their_own() -> None:
    driver = Driver(json.dumps({"queries": ["filter price", "filter change", "filter price"]}))
    found, notes = driver.run(query_variants(QUESTION, TARGET, options("subqueries")))
    assert [v.keyword for v in found] == [QUESTION, "filter price", "filter change"]
    assert notes == ("subqueries: filter price | filter change",)


def test_a_hyde_passage_is_for_the_dense_channel_alone() -> None:
    driver = Driver("Turn the cap.\nTake it out.", "Open the lid.")
    found, _ = driver.run(query_variants(QUESTION, TARGET, options("hyde")))
    assert found == (
        Variant(QUESTION, QUESTION),
        Variant("", "Turn the cap. Take it out.", passage=True),
    )
    found, _ = driver.run(query_variants(QUESTION, TARGET, options("hyde", original=0.0)))
    assert found[0] == Variant(QUESTION, "")  # the keyword channel keeps the question


def test_query2doc_repeats_the_question_five_times_for_keywords() -> None:
    driver = Driver("Turn the cap.")
    found, _ = driver.run(query_variants("filter?", TARGET, options("query2doc", original=0.0)))
    keyword = "filter? filter? filter? filter? filter? Turn the cap."
    assert found == (Variant(keyword, "filter? [SEP] Turn the cap."),)


def test_what_needs_vectors_is_left_out_without_them_and_says_so() -> None:
    glossary = Glossary({"X1": (Meaning("the pump"),)})
    flow = query_variants("X1", KEYWORD, options("hyde", "glossary"), glossary)
    found, notes = Driver("never").run(flow)
    assert found == (Variant("X1", "X1"),)
    assert len(notes) == 2
    assert all("no vectors" in note for note in notes)


def test_a_glossary_speaks_to_the_dense_channel_and_needs_no_model() -> None:
    glossary = Glossary({"APP_w304": (Meaning("pedal sensor"),)})
    chosen = QueryOptions(("glossary",))
    found, notes = Driver("never").run(query_variants("app_W304!", TARGET, chosen, glossary))
    assert found == (Variant("app_W304!", "app_W304! (pedal sensor)"),)
    assert notes == ("glossary: APP_w304 = pedal sensor",)
    found, _ = Driver("never").run(query_variants("a pump", TARGET, chosen, glossary))
    assert found == (Variant("a pump", "a pump"),)


def test_several_meanings_are_wordings_that_count_as_one() -> None:
    glossary = Glossary({"X1": (Meaning("the pump"), Meaning("the fan"))})
    flow = query_variants("X1", TARGET, QueryOptions(("glossary",)), glossary)
    found, _ = Driver("never").run(flow)
    assert found == (Variant("X1", "X1 (the pump)", 0.5), Variant("X1", "X1 (the fan)", 0.5))
    chosen = options("glossary", "rewrite", original=0.0)
    driver = Driver(rewritten("X1 meaning"))
    found, _ = driver.run(query_variants("What is X1?", TARGET, chosen, glossary))
    assert [v.keyword for v in found] == ["", "", "X1 meaning"]
    assert [v.weight for v in found] == [0.5, 0.5, 1.0]


def test_what_was_added_to_a_long_question_is_not_cut_away() -> None:
    long = "filter " * 100
    flow = query_variants(long.strip(), TARGET, options("query2doc"), limit=1_000)
    found, notes = Driver("Turn the cap.").run(flow)
    assert max(len(text) for v in found for text in (v.keyword, v.dense)) <= 1_000
    assert found[1].keyword.endswith(" Turn the cap.")
    assert found[1].dense == f"{long.strip()} [SEP] Turn the cap."
    assert set(found[1].keyword.split()) == {"filter", "Turn", "the", "cap."}
    assert "of 699 characters" in notes[-1]
    glossary = Glossary({"X1": (Meaning("the pump"),)})
    flow = query_variants("X1 " + "a " * 490, TARGET, QueryOptions(("glossary",)), glossary, 990)
    (only,), _ = Driver("never").run(flow)
    assert len(only.dense) <= 990
    assert only.dense.endswith("(the pump)")


def test_methods_add_up_and_follow_the_rewrite() -> None:
    driver = Driver(rewritten("change filter"), '{"queries": ["a b", "c d"]}', "A passage.")
    chosen = options("query2doc", "hyde", "subqueries", "rewrite")
    found, _ = driver.run(query_variants(QUESTION, TARGET, chosen))
    assert [v.dense for v in found] == [
        QUESTION,
        "change filter",
        "a b",
        "c d",
        "A passage.",
        "change filter [SEP] A passage.",
    ]
    assert all("change filter" in text for text in prompts(driver.chats)[1:])


BAD = [
    "not json",
    "",
    '{"query": ""}',
    '{"query": 3}',
    '["filter"]',
    '{"query": "a", "more": "b"}',
    "```json\n{}\n```",
    rewritten("x" * 301),
    "I'm sorry, but I cannot help with that.",
    ChatReply(rewritten("cut"), finish="length"),
    ChatReply(rewritten("withheld"), finish="content_filter"),
]


@pytest.mark.parametrize("bad", BAD)
def test_a_reply_without_the_form_is_shown_to_the_model_once(bad: str | ChatReply) -> None:
    driver = Driver(bad, rewritten("change the filter"))
    found, _ = driver.run(query_variants(QUESTION, TARGET, options("rewrite")))
    assert found[-1].keyword == "change the filter"
    text = bad if isinstance(bad, str) else bad.text
    assert driver.chats[1].messages[-2].content == text
    assert "cannot be used" in driver.chats[1].messages[-1].content


@pytest.mark.parametrize("bad", BAD)
def test_two_such_replies_leave_the_question_as_it_was(bad: str | ChatReply) -> None:
    driver = Driver(bad)
    found, notes = driver.run(query_variants(QUESTION, TARGET, options("rewrite", original=0.0)))
    assert found == (Variant(QUESTION, QUESTION),)
    assert len(driver.chats) == 2
    assert notes[0].startswith("searched as asked")


def test_a_code_of_the_question_must_survive() -> None:
    asked = "What does XX-31201 mean?"
    for method, reply in (
        ("rewrite", rewritten("printer fan error")),
        ("subqueries", '{"queries": ["printer fan", "error"]}'),
    ):
        driver = Driver(reply)
        found, notes = driver.run(query_variants(asked, TARGET, options(method)))
        assert found == (Variant(asked, asked),)
        assert "'XX-31201'" in notes[0]
        assert "'XX-31201'" in driver.chats[1].messages[-1].content
    kept = Driver(rewritten("xx-31201 meaning"))
    found, _ = kept.run(query_variants(asked, TARGET, options("rewrite")))
    assert found[-1].keyword == "xx-31201 meaning"


@pytest.mark.parametrize(
    "bad", ['{"queries": []}', '{"queries": [1]}', '{"queries": ["a","b","c","d","e"]}', "no"]
)
def test_subqueries_without_the_form_leave_the_question_whole(bad: str) -> None:
    found, notes = Driver(bad).run(query_variants(QUESTION, TARGET, options("subqueries")))
    assert found == (Variant(QUESTION, QUESTION),)
    assert notes[0].startswith("not split")


@pytest.mark.parametrize("method", ["hyde", "query2doc", "rewrite", "subqueries"])
def test_a_server_that_fails_ends_in_a_note_but_a_wrong_setting_is_raised(method: str) -> None:
    slow = Driver(ModelTimeoutError("m:x did not reply in time"))
    found, notes = slow.run(query_variants(QUESTION, TARGET, options(method)))
    assert found == (Variant(QUESTION, QUESTION),)
    assert "did not reply in time" in notes[0]
    for error in (MissingKeyError("no key"), ModelRefusedError("unknown model")):
        with pytest.raises(type(error)):
            Driver(error).run(query_variants(QUESTION, TARGET, options(method)))


def test_a_long_passage_is_bounded() -> None:
    driver = Driver("word " * 10_000)
    found, _ = driver.run(query_variants(QUESTION, TARGET, options("hyde")))
    assert len(found[1].dense) <= 1200
    assert dict(driver.chats[0].params)["max_tokens"] == 300


def test_wrong_settings_are_refused() -> None:
    with pytest.raises(ConfigError, match="chat model"):
        QueryOptions(("rewrite",))


# -- over HTTP -------------------------------------------------------------------------------


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    with ScriptedServer() as running:
        yield running


def over_http(
    server: ScriptedServer, *methods: str, timeout: float = 20.0
) -> tuple[tuple[Variant, ...], str]:
    settings = ModelSettings(base=server.url, timeout=timeout)
    handlers = model_handlers(Models({"m": settings}))
    with Runner(handlers, retry=RetryPolicy(attempts=1)) as runner:
        found, notes = runner.run(query_variants(QUESTION, TARGET, options(*methods)))
    return found, " ".join(notes)


def test_over_http_a_good_reply_is_used(server: ScriptedServer) -> None:
    server.play([Reply("nonsense"), Reply(rewritten("change the filter"))])
    found, notes = over_http(server, "rewrite")
    assert "rewritten as: change the filter" in notes
    assert found[-1].keyword == "change the filter"
    assert len(server.requests) == 2


@pytest.mark.slow
@pytest.mark.parametrize(
    ("reply", "why"),
    [
        (Reply(malformed="json"), "ModelReplyError"),
        (Reply(malformed="empty"), "ModelReplyError"),
        (Reply(malformed="html"), "ModelReplyError"),
        (Reply(malformed="null_content"), "no usable rewrite"),
        (Reply(malformed="reset"), "ModelUnavailableError"),
        (Reply(malformed="hang"), "ModelTimeoutError"),
        (Reply(rewritten("late"), delay=3.0), "ModelTimeoutError"),
        (Reply(""), "no usable rewrite"),
        (Reply("I cannot help with that."), "not JSON"),
        (Reply(status=500, error="broken"), "ModelUnavailableError"),
    ],
)
def test_over_http_a_failing_model_never_loses_the_question(
    server: ScriptedServer, reply: Reply, why: str
) -> None:
    server.play(reply)
    timeout = 0.5 if why == "ModelTimeoutError" else 20.0
    found, notes = over_http(server, "rewrite", timeout=timeout)
    assert found == (Variant(QUESTION, QUESTION),)
    assert "searched as asked" in notes
    assert why in notes


@pytest.mark.parametrize(
    ("reply", "error"),
    [(Reply.bad_key(), MissingKeyError), (Reply.unknown_model(), ModelRefusedError)],
)
def test_over_http_a_wrong_key_or_model_is_raised(
    server: ScriptedServer, reply: Reply, error: type[Exception]
) -> None:
    server.play(reply)
    with pytest.raises(error):
        over_http(server, "rewrite")


def test_a_dry_run_counts_a_re_ask_at_most(server: ScriptedServer) -> None:
    handlers = model_handlers(Models({"m": ModelSettings(base=server.url)}))
    with Runner(handlers) as runner:
        forecast = runner.forecast(
            [lambda: query_variants(QUESTION, TARGET, options("rewrite", "subqueries", "hyde"))]
        )
    assert (forecast.calls.low, forecast.calls.expected, forecast.calls.high) == (3, 3, 6)
    assert forecast.uncertain == 0
    assert not server.requests
    assert Chat in handlers
