"""Answers: written, cited, condensed from a conversation, and asked for by routes end to end."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hand_driver import LETTERS, Driver, Shelf, hit
from hypothesis import given, settings, strategies as st

from ragwright.answer import (
    AnswerOptions,
    AskPlan,
    CorpusOptions,
    PromptOptions,
    abstains,
    answer,
    ask,
    avg_chunk_score,
    citation,
    condense,
    condense_by_rule,
    marks_for_hits,
    read_cited_numbers,
    resolve_citations,
)
from ragwright.core import (
    Answer,
    ChannelScore,
    Head,
    ModelReplyError,
    Persona,
    RetrieveError,
    neutral,
    passage_values,
)
from ragwright.flow import ChatReply, Lookup, Message, Runner, Search, Sql
from ragwright.models import NO_MODEL, Models, model_handlers
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

PUMP = (
    "# Faults\n\nAPP_w304 means that the fuel pump is blocked. Replace the filter and start the "
    "engine again.\n\n| Code | Part |\n|---|---|\n| APP_w305 | lamp |\n\n"
    "The manual was printed in 2021."
)
LAMP = "The lamp on the dashboard turns red when the oil is low. It turns off after ten seconds."
HITS = [hit(1, PUMP, title="Fault codes", start=100), hit(2, LAMP, title="Dashboard")]
CODE = "What does APP_w304 mean?"


def writing(**options: Any) -> AskPlan:
    return AskPlan(AnswerOptions(model="openai:m", **options))


def written(driver: Driver, hits: Any = HITS, persona: str = "", **options: Any) -> Answer:
    return driver.run(answer("Why?", Persona("short", model=persona), hits, writing(**options)))


def test_without_a_model_the_best_unit_is_first_and_each_snippet_is_cited_once() -> None:
    assert AnswerOptions().model == NO_MODEL
    driver, again = Driver(), hit(2, PUMP[10:], title="Fault codes", start=110, document="doc1")
    made = driver.run(answer(CODE, Persona("short"), HITS))
    assert (made.model, made.abstained, driver.seen) == (NO_MODEL, False, [])
    best = made.snippets[0]
    assert "APP_w304 means that the fuel pump is blocked." in best.text
    assert best.text[slice(*best.marked)] == "APP_w304 means that the fuel pump is blocked."
    assert PUMP[best.start - 100 : best.end - 100] == best.text
    assert [c.marker for c in made.citations] == [*range(1, len(made.snippets) + 1)]
    assert all(f"[{c.marker}]" in made.text for c in made.citations)
    assert made.hits == tuple(HITS)
    twice = driver.run(answer(CODE, Persona("short"), [HITS[0], again]))
    assert twice.text.count("fuel pump is blocked") == 1
    nothing = driver.run(answer("Why?", Persona("short"), [hit(1, " \n ")]))
    assert (nothing.abstained, nothing.citations, nothing.snippets) == (True, (), ())


def test_a_request_carries_prompt_parameters_stream_and_sources() -> None:
    driver = Driver("The pump is blocked [1].")
    streamed = replace(writing(temperature=0.7), stream=True)
    made = driver.run(answer("Why?", Persona("short"), HITS, streamed))
    (request,) = driver.chats
    assert (request.stream, request.sources) == (True, ("doc1", "doc2"))
    assert dict(request.params)["temperature"] == 0.7
    assert (made.model, made.prompt[0][0]) == ("openai:m", "system")
    assert (made.citations[0].start, made.citations[0].end) == (HITS[0].start, HITS[0].end)
    assert written(Driver("x"), persona="ollama:q").model == "ollama:q"  # a persona's own wins


CUE = "The passages do not answer this question."
NONE = "the answer cites no passage"
CUT = ChatReply("Cut off", finish="length", dropped=("seed",))
REFUSED = ChatReply("I cannot help with pumps.", finish="refusal")


@pytest.mark.parametrize(
    ("reply", "options", "abstained", "cited", "noted"),
    [
        ("The pump is blocked.", {}, False, [], [NONE]),
        ("The pump is blocked [9].", {}, False, [], ["[9]", NONE]),
        ("The pump is blocked [1].", {}, False, [1], []),
        ("The pump is blocked [1]. The lamp is red [9].", {}, False, [1], ["[9]"]),
        (CUE, {}, True, [], []),
        ("The pump is blocked.", {"closed_book": True}, False, [], []),
        (CUT, {"max_tokens": 5}, False, [], ["cut", "seed", NONE]),
        (REFUSED, {}, True, [], ["the model refused"]),
    ],
)
def test_an_answer_says_what_it_cites(
    reply: Any, options: dict[str, Any], abstained: bool, cited: list[int], noted: list[str]
) -> None:
    driver = Driver(reply)
    made = written(driver, **options)
    assert made.text == (reply if isinstance(reply, str) else reply.text)
    assert (made.abstained, [c.marker for c in made.citations]) == (abstained, cited)
    assert len(made.notes) == len(noted)
    assert all(any(word in note for note in made.notes) for word in noted)
    shown = " ".join(message.content for message in driver.chats[0].messages)
    shows = not options.get("closed_book")
    assert ("passage" in shown, "pump" in shown) == (shows, shows)
    assert made.hits == (tuple(HITS) if shows else ())
    if reply is REFUSED:
        assert made.finish == "content_filter"


@pytest.mark.parametrize(
    ("finish", "said", "advice"),
    [
        ("stop", "an empty answer", "ask again"),
        ("length", "used up its tokens", "answer.max_tokens"),
        ("content_filter", "content filter withheld it", "ask in other words"),
        ("tool_calls", "called a tool in place", "take tools out"),
    ],
)
def test_a_reply_without_text_is_an_error_of_its_own(finish: str, said: str, advice: str) -> None:
    with pytest.raises(ModelReplyError, match=said) as caught:
        written(Driver(ChatReply("  ", finish=finish)))
    assert advice in str(caught.value.hint)
    assert ("max_tokens" in str(caught.value.hint)) == (finish == "length")


def test_without_hits_no_call_is_made_and_passages_over_the_budget_are_dropped() -> None:
    driver = Driver("ok [1]")
    assert written(driver, []).abstained
    assert not driver.seen
    long = [hit(n, f"Passage {n}. " + "word " * 300) for n in range(1, 6)]
    made = written(driver, long, context_tokens=1000)
    assert 0 < len(made.hits) < 5
    assert made.hits == tuple(long[: len(made.hits)])
    assert any("left out" in note for note in made.notes)
    assert "Passage 5" not in driver.prompts[0]


def test_a_cue_of_ones_own_is_shown_and_recognised() -> None:
    setup = replace(writing(), prompt=PromptOptions(cue="NO ANSWER HERE"))
    driver = Driver("**No answer here.** The closest is the pump [1].")
    made = driver.run(answer("Why?", Persona("p"), HITS, setup))
    assert (made.abstained, [c.marker for c in made.citations]) == (True, [1])
    assert "NO ANSWER HERE" in driver.chats[0].messages[0].content
    # A cue is looked for at the beginning only.
    assert abstains(f"{CUE[:-1]}, but the pump [1] is near.", CUE)
    assert abstains('Sorry. "The passages  do not answer this question".', CUE)
    for text, cue in ((f"A is B. C is D. E is F. {CUE}", CUE), ("The pump.", CUE), ("any", "")):
        assert not abstains(text, cue)


def test_mean_similarity_of_the_chunks_comes_from_the_dense_channel() -> None:
    found = [
        hit(n, "a", channels={"dense": ChannelScore(n, score)}) for n, score in ((1, 0.5), (2, 0.3))
    ]
    assert avg_chunk_score(written(Driver("x"), found)) == pytest.approx(0.4)
    assert avg_chunk_score(written(Driver("x"))) is None


HISTORY = [
    Message("user", "What does the error APP_w304 of the fuel pump mean?"),
    Message("assistant", "It means that the pump is blocked [1]."),
]
RHINE = [Message("user", "Quelle est la longueur du Rhin ?")]


@pytest.mark.parametrize(
    ("question", "history", "added"),
    [
        ("How do I fix it?", HISTORY, "APP_w304"),
        ("What about the sensor?", HISTORY, "APP_w304"),
        ("Why?", HISTORY, "APP_w304"),
        ("Is that dangerous for them?", HISTORY, "APP_w304"),
        ("Et où prend-il sa source ?", RHINE, "Rhin"),
        ("How is the oil filter of the engine changed?", HISTORY, ""),
        ("Quelle est la capitale de la France ?", HISTORY, ""),
    ],
)
def test_a_question_that_points_back_gets_its_terms(
    question: str, history: list[Message], added: str
) -> None:
    made = condense_by_rule(question, history)
    more = made.text.removeprefix(question)
    assert (made.method, bool(more)) == (("rule", True) if added else ("as asked", False))
    assert added in more
    assert "the" not in more


def test_a_model_rewrites_with_the_conversation_in_view_and_the_rule_without_one() -> None:
    driver = Driver('"How do I fix APP_w304?"')
    assert driver.run(condense("And it?", [], "openai:x")).method == "as asked"
    assert driver.run(condense("How do I fix it?", HISTORY, "snippet")).method == "rule"
    assert not driver.seen
    made = driver.run(condense("How do I fix it?", HISTORY, "openai:x"))
    assert (made.text, made.method) == ("How do I fix APP_w304?", "openai:x")
    assert "pump is blocked" in driver.prompts[0]
    assert "How do I fix it?" in driver.prompts[0]
    assert Driver(" ").run(condense("How is it?", HISTORY, "m:x")).text == "How is it?"


# -- citation marks --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("A [1].", [1]),
        ("A [1, 2] and [2].", [1, 2]),
        ("A [1][3].", [1, 3]),
        ("A [1-3].", [1, 2, 3]),
        ("A [2–4, 1].", [2, 3, 4, 1]),
        ("A [1; 2] b [3 and 4] c [5 & 6].", [1, 2, 3, 4, 5, 6]),
        ("A 【2】 b 【1†source】.", [2, 1]),
        ("In [2019] and [2019, 2020] nothing.", []),
        ("No [a] [see 1] [] (1) marks.", []),
        ("Backwards [3-1].", [3, 1]),
        ("Far [1-900].", [1, 900]),
        ("- [ ] in [2019] or [1,,2]", []),
        ("Take `x[2]`.\n```\ny[3] # see [1]\n```\nIt is so [4].", [1, 4]),
        ("`x`[2]", [2]),
    ],
)
def test_marks_are_found(text: str, numbers: list[int]) -> None:
    assert read_cited_numbers(text) == numbers


def test_marks_resolve_to_source_page_and_span_and_those_of_no_passage_are_reported() -> None:
    hits = [hit(1, "one", start=10), hit(2, "two", start=20, page=7)]
    citations, notes = resolve_citations("B [2]. A [1][2].", hits)
    assert [c.marker for c in citations] == [2, 1]
    assert (citations[0].source, citations[0].page) == ("doc2.pdf", 7)
    assert (citations[0].start, citations[0].end) == (20, 23)
    assert notes == ()
    citations, (note,) = resolve_citations("A [1]. B [7]. C [0].", hits)  # [0]: an index of a list
    assert [c.marker for c in citations] == [1]
    assert "[7]" in note


def test_a_mark_that_follows_itself_is_shown_once() -> None:
    hits = [hit(1, "one", start=10), hit(2, "two", start=20)]
    for text, shown in (
        ("A [1] [1].", "A [1]."),
        ("A [2][2] B [2].", "A [1] B [1]."),
        ("A [1] [2] [1].", "A [1] [2] [1]."),
    ):
        for pieces in ([text], [*text]):
            marks = marks_for_hits(lambda: hits)
            told = [marks.feed(piece) for piece in pieces]
            assert "".join(told) + marks.feed("", last=True) == shown
            assert [shown[mark.start : mark.end] for mark in marks.marks] == [
                part.strip(" .AB") for part in shown.replace("]", "]|").split("|")[:-1]
            ]


def test_a_cited_span_has_the_page_it_begins_on() -> None:
    found = hit(1, "x" * 40, start=100, page=3, pages=((110, 4), (125, 6)))
    pages = [citation(1, found, start, start + 2).page for start in (100, 109, 110, 124, 125, 139)]
    assert pages == [3, 3, 4, 4, 6, 6]
    assert citation(1, found).page == 3
    assert found.page_at(99) is None
    assert found.page_at(140) is None


PIECES = st.sampled_from(
    [
        *("[", "]", "【", "】", "†", "`", "```", "(", ")", "\n", " ", "\u2060", " " * 41, "\u00a0"),
        *("1", "2", "12", "2019", "٣", "x", "A:", "x[2]", "[1]", "[2†x]", "†[3]", "<s>", "[INST]"),
        *(" and ", "&", " et ", ",", ";", "-", "–", "—", "[1 and 2]", "<|a|>"),
    ]
)
TEXTS = st.lists(PIECES, max_size=14).map("".join)


@pytest.mark.slow
@settings(max_examples=200)  # hostile text: a forged mark is rare
@given(TEXTS, st.sampled_from([(), ("A:",), ("x[",), ("`",)]))
def test_no_text_of_a_passage_counts_as_a_citation(text: str, guard: tuple[str, ...]) -> None:
    assert read_cited_numbers(neutral(text, guard)) == []
    once = neutral(text)
    assert neutral(once) == once


def test_forged_marks_name_no_passage_and_what_is_no_mark_keeps_its_brackets() -> None:
    hits = [hit(n, "a") for n in (1, 2, 3)]
    forged = ["[1 and 2]", "[2&3]", "[2†x]", f"[{' ' * 41}2]", "`x[2]`", "```\nx[2]\n```"]
    for text in (*forged, "`see [2]`", "[1†[2†x] y]", "[1 et 2]", "【3】"):
        shown = str(passage_values(1, hit(1, text))["text"])
        assert resolve_citations(shown, hits) == ((), ()), text
    for text in ("`x[0][1]` and `f()[2]`", "- [ ] in [2019] or [1,,2]", "no mark, no token"):
        assert neutral(text) == text
    passage = replace(hit(1, "| SN-7 | 6.5 |"), head=Head("Readings", table="Serial | Pressure"))
    assert passage_values(1, passage)["text"] == "| Serial | Pressure |\n| SN-7 | 6.5 |"


# -- asking end to end, by routes ------------------------------------------------------------

PERSONAS = [Persona("engineer", audience="engineers"), Persona("marketing")]
TARGET = Target("s1")
AMOUNT = "What is the total amount of all orders?"
ROUTE = {"route": "index", "database": "", "reason": "r", "rewrite": False, "split": False}
DECIDES = "You decide where"


def plan(method: Any, model: str = "snippet", **more: Any) -> AskPlan:
    options = RetrieveOptions(route=RouteOptions(method))
    return AskPlan(AnswerOptions(model=model), retrieve=options, **more)


def asked(question: str, plan: AskPlan, databases: Databases | None = None) -> Answer:
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
def test_without_a_chat_model_the_index_answers(
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
def test_a_table_answers_or_else_the_index(
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
def test_a_dry_run_bounds_calls(
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
