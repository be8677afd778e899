"""Drafts over real HTTP: calls, lengths, second calls, failing models, marks, dry runs."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from threading import Event, Thread

import pytest
from draft_desk import CLIENTS, WORDS, Desk, name, plan_of, record

from ragwright.core import (
    BudgetStopped,
    ConfigError,
    Interrupted,
    MissingKeyError,
    ModelError,
    ModelReplyError,
    Usage,
)
from ragwright.drafting import DraftRequest, Underway, draft
from ragwright.flow import TraceEntry
from ragwright.models import ModelSettings
from ragwright.records import LengthGroup, Rules
from ragwright.testing import Reply, ScriptedServer, ServerRequest

SHORT = DraftRequest("Jane Doe", "donation", ("health care",), ("urgent",), "short", 3)
LONG = DraftRequest("Jane Doe", "donation", ("health care",), (), "long", 3)
GOOD = "1. Chip in now.\n2. We need you today.\n3. Last call, friend."
SENTENCE = "A clinic in every town is what we ask for, and tonight we count who is with us. "
WHOLE = SENTENCE * 6


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    prices = {"localhost": ModelSettings(price_in=1.0, price_out=2.0)}
    folder = tmp_path_factory.mktemp("desk")
    with Desk(folder, [record(n) for n in range(60)], prices) as made:
        yield made


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    with ScriptedServer(GOOD) as running:
        yield running


def own_text(number: int) -> str:
    """A long text unlike those of other numbers."""
    chance = random.Random(number)
    return " ".join("".join(chance.choices("abcdefghij", k=5)) for _ in range(80))


def priced(server: ScriptedServer) -> dict[str, ModelSettings]:
    """The server as provider ``s``, two calls at once, 0.1 for 1,000 tokens."""
    return {"s": ModelSettings(base=server.url, price_in=100.0, price_out=100.0, concurrency=2)}


def by_model(replies: dict[str, str | Reply]) -> Callable[[ServerRequest], str | Reply]:
    return lambda request: replies[request.body["model"]]


def test_one_call_gives_all_texts(desk: Desk, server: ScriptedServer) -> None:
    batch = desk.draft(SHORT, plan_of(name(server)))
    assert [text.text for text in batch.texts] == [
        "Chip in now.",
        "We need you today.",
        "Last call, friend.",
    ]
    assert server.count == 1
    assert batch.snapshot == desk.target.snapshot
    assert not batch.partial
    assert not batch.notes
    assert all(not text.marks for text in batch.texts)
    body = server.requests[0].body
    assert body["temperature"] == 0.8
    assert "stop" not in body
    roles = [turn["role"] for turn in body["messages"]]
    assert roles == ["system", *["user", "assistant"] * 4, "user"]
    asked = body["messages"][-1]["content"]
    assert "(short: under 160 characters)" in asked
    assert "Write 3 such texts" in asked
    assert all("under 160" in turn["content"] for turn in body["messages"][1::2])


def test_examples_are_the_messages_alone(desk: Desk, server: ScriptedServer) -> None:
    batch = desk.draft(SHORT, plan_of(name(server)))
    hits = {hit.chunk_id: hit for hit in batch.hits}
    shown = [text for role, text in batch.prompts[0].messages if role == "assistant"]
    for text, key in zip(shown, batch.prompts[0].examples, strict=True):
        assert hits[key].text.endswith(text)
        assert text.startswith("Friend ")


def test_hits_say_their_rung_strictest_first(desk: Desk, server: ScriptedServer) -> None:
    batch = desk.draft(SHORT, plan_of(name(server)))
    weights = [hit.rung.weight for hit in batch.hits if hit.rung is not None]
    assert len(weights) == len(batch.hits) == 8
    assert weights == sorted(weights, reverse=True)
    assert weights[0] == 8 + 5 + 3 + 2 + 1


def test_shares_of_a_call_add_up(desk: Desk, server: ScriptedServer) -> None:
    batch = desk.draft(SHORT, plan_of(name(server)))
    parts = sum((text.usage for text in batch.texts), Usage())
    assert (parts.calls, parts.prompt_tokens) == (1, batch.usage.prompt_tokens)
    assert parts.completion_tokens == batch.usage.completion_tokens
    assert batch.usage == batch.prompts[0].usage


def test_the_same_request_is_not_paid_for_twice(desk: Desk, server: ScriptedServer) -> None:
    first = desk.draft(SHORT, plan_of(name(server)))
    again = desk.draft(SHORT, plan_of(name(server)))
    assert (first.cached, again.cached) == (False, True)
    assert [text.text for text in again.texts] == [text.text for text in first.texts]
    other = desk.draft(SHORT, plan_of(name(server), seed=1))
    assert other.prompts[0].examples != first.prompts[0].examples
    assert server.count == 2


@pytest.mark.slow
def test_long_texts_have_calls_and_unlike_examples_of_their_own(
    tmp_path: Path, server: ScriptedServer
) -> None:
    server.play(lambda request: f"{len(server.requests)}: {WHOLE}")
    long = [record(n, length="long", text=f"Friend {n} {WORDS[n % 12]}") for n in range(30)]
    for vectors in (False, True):
        folder = tmp_path / str(vectors)
        folder.mkdir()
        with Desk(folder, long, vectors=vectors) as desk:
            batch = desk.draft(LONG, plan_of(name(server, str(vectors))))
        sets = [frozenset(prompt.examples) for prompt in batch.prompts]
        assert len(sets) == len(set(sets)) == 3
        assert all(prompt.wanted == 1 for prompt in batch.prompts)
        assert len(batch.texts) == 3
        assert all(text.characters >= 400 for text in batch.texts)
        told = server.requests[-1].prompt
        assert "long: 400 characters or more" in told
        assert "without a number" in told


def test_messages_of_one_template_are_one_example_of_a_long_draft(
    tmp_path: Path, server: ScriptedServer
) -> None:
    one = "Hi {}, Jane Doe must raise ${} by {} 5 to keep teachers in our schools. Will you help?"
    days = ("March", "April", "May", "June")
    alike = [
        record(n, length="long", text=one.format(WORDS[n % 12].title(), n * 25, days[n % 4]))
        for n in range(20)
    ]
    unlike = [
        record(
            n, length="long", text=f"Our {word} in {word} needs a {word}, and friends of {word}."
        )
        for n, word in enumerate(WORDS[:4], 20)
    ]
    with Desk(tmp_path, [*alike, *unlike]) as desk:
        server.play(lambda request: f"{len(server.requests)}: {WHOLE}")
        batch = desk.draft(LONG, plan_of(name(server), examples=5, pool=24))
    for prompt in batch.prompts:
        numbers = sorted(int(re.findall(r"\d+", name)[0]) for name in prompt.examples)
        assert numbers[1:] == [20, 21, 22, 23]  # and one of the twenty


def test_long_texts_that_are_too_short_are_asked_for_each(
    tmp_path: Path, server: ScriptedServer
) -> None:
    server.play(lambda request: "Too short." if server.count <= 3 else own_text(server.count))
    long = [record(n, length="long", text=f"Friend {n} {WORDS[n % 12]}") for n in range(30)]
    with Desk(tmp_path, long) as desk:
        batch = desk.draft(LONG, plan_of(name(server)))
        calls = desk.forecast(LONG, plan_of(name(server, "other"))).calls
    assert len(batch.prompts) == 6
    assert len({prompt.examples for prompt in batch.prompts}) == 6
    assert [prompt.purpose for prompt in batch.prompts[3:]] == ["length"] * 3
    assert not any("too short" in mark for text in batch.texts for mark in text.marks)
    assert (calls.low, calls.expected, calls.high) == (3, 3, 6)


@pytest.mark.parametrize("pool", [4, 5])
def test_every_long_text_is_a_call_of_its_own(
    tmp_path: Path, server: ScriptedServer, pool: int
) -> None:
    """Equal prompts are samples of their own; a set of examples is used once where it can be."""
    server.play(lambda request: own_text(server.count))
    request = replace(LONG, count=5)
    with Desk(tmp_path, [record(n, length="long") for n in range(30)]) as desk:
        batch = desk.draft(request, plan_of(name(server), examples=4, pool=pool))
        forecast = desk.forecast(request, plan_of(name(server, "b"), examples=4, pool=pool))
    assert server.count == batch.usage.calls == forecast.calls.low == 5
    assert [prompt.sample for prompt in batch.prompts] == list(range(5))
    assert len({text.text for text in batch.texts}) == 5
    assert len({frozenset(prompt.examples) for prompt in batch.prompts}) == (5 if pool == 5 else 1)


def test_a_known_reply_costs_nothing(tmp_path: Path, server: ScriptedServer) -> None:
    with Desk(tmp_path, [record(n) for n in range(20)], priced(server)) as desk:
        first = desk.draft(SHORT, plan_of("s:m"))
        again = desk.draft(SHORT, plan_of("s:m"))
        assert first.usage.cost == pytest.approx(desk.runner.budget.spent)
    assert first.usage.calls == 1
    assert first.usage == first.prompts[0].reply_usage == again.prompts[0].reply_usage
    assert again.usage == again.prompts[0].usage == Usage(cost=0.0)
    assert sum((text.usage for text in again.texts), Usage()) == Usage(cost=0.0)


def test_a_failed_call_hides_no_cost(tmp_path: Path, server: ScriptedServer) -> None:
    server.play(by_model({"m": GOOD, "n": Reply.bad_key()}))
    with Desk(tmp_path, [record(n) for n in range(20)], priced(server)) as desk:
        desk.draft(SHORT, plan_of("s:m"))
        batch = desk.draft(SHORT, plan_of("s:m", "s:n"))
    assert batch.usage == Usage(cost=0.0)


def test_what_was_written_before_a_budget_stop_is_left(
    tmp_path: Path, server: ScriptedServer
) -> None:
    server.play(lambda request: own_text(server.count))
    with Desk(tmp_path, [record(n, length="long") for n in range(30)], priced(server)) as desk:
        plan = plan_of("s:m", "s:n", max_tokens=400)
        desk.runner.budget.max_cost = 0.2
        underway = Underway()
        with pytest.raises(BudgetStopped):
            desk.runner.run(draft(LONG, desk.target, plan, underway))
        left = underway.batch(desk.runner.known, "the budget")
        assert left is not None
        assert left.partial
        assert 1 <= server.count == len(left.prompts) == left.usage.calls < 6
        assert left.usage.cost == pytest.approx(desk.runner.budget.spent)
        assert [left.prompts[text.prompt].reply for text in left.texts] == [
            text.text for text in left.texts
        ]
        assert left.notes[0] == "stopped before its end: the budget"
        assert "of 3 texts came back before the stop" in left.notes[-1]
        paid = server.count
        desk.runner.budget.max_cost = None
        whole = desk.draft(LONG, plan)
    assert not whole.partial
    assert whole.usage.calls == server.count - paid == 6 - paid


@pytest.mark.slow
def test_replies_in_flight_at_a_stop_are_left_too(tmp_path: Path, server: ScriptedServer) -> None:
    """They are paid for, and reach the store of replies after the draft is closed."""
    begun = Event()

    def slow(request: ServerRequest) -> Reply:
        if server.count >= 3:
            begun.set()
        return Reply(own_text(server.count), delay=0.5 if server.count >= 3 else 0.0)

    server.play(slow)
    with Desk(tmp_path, [record(n, length="long") for n in range(30)], priced(server)) as desk:

        def stop() -> None:
            begun.wait(5)
            desk.runner.interrupt()

        stopper = Thread(target=stop)
        stopper.start()
        underway = Underway()
        with pytest.raises(Interrupted):
            desk.runner.run(draft(LONG, desk.target, plan_of("s:m"), underway))
        stopper.join()
        left = underway.batch(desk.runner.known, "the user")
    assert left is not None
    assert len(left.texts) == server.count == left.usage.calls == 3
    assert not any(prompt.cached for prompt in left.prompts)


def test_nothing_is_left_where_nothing_was_answered(desk: Desk, server: ScriptedServer) -> None:
    underway = Underway()
    assert underway.batch(desk.runner.known, "") is None
    server.play(Reply.bad_key())
    with pytest.raises(MissingKeyError):
        desk.runner.run(draft(SHORT, desk.target, plan_of(name(server)), underway))
    assert underway.batch(desk.runner.known, "") is None


def test_another_seed_gives_other_texts_from_equal_examples(
    tmp_path: Path, server: ScriptedServer
) -> None:
    server.play(lambda request: own_text(server.count))
    with Desk(tmp_path, [record(n, length="long") for n in range(30)]) as desk:
        one, other = (
            desk.draft(LONG, plan_of(name(server), examples=1, pool=1, seed=seed))
            for seed in (0, 1)
        )
    assert one.prompts[0].messages == other.prompts[0].messages
    assert len({text.text for text in (*one.texts, *other.texts)}) == 6


def test_over_long_texts_are_asked_for_once_more(desk: Desk, server: ScriptedServer) -> None:
    server.play([f"1. Chip in.\n2. {WHOLE}\n3. Last call.", "1. We need you."])
    batch = desk.draft(SHORT, plan_of(name(server)))
    assert [text.text for text in batch.texts] == ["Chip in.", "Last call.", "We need you."]
    assert [prompt.purpose for prompt in batch.prompts] == ["first", "length"]
    assert [prompt.sample for prompt in batch.prompts] == [0, 1]
    assert batch.prompts[1].wanted == 1
    assert f"earlier attempts had {len(WHOLE.strip())} characters" in server.requests[1].prompt
    assert any("1 of 3 texts were requested again: 1 of a wrong length" in n for n in batch.notes)
    assert [text.prompt for text in batch.texts] == [0, 0, 1]


def test_what_stays_too_long_is_marked(desk: Desk, server: ScriptedServer) -> None:
    long = "x" * 213
    server.play([f"1. Chip in.\n2. {long}\n3. Last call.", f"1. {long}y"])
    batch = desk.draft(SHORT, plan_of(name(server)))
    assert server.count == 2
    assert batch.texts[2].marks == ("too long: 213 of 160",)
    assert batch.texts[2].characters == 213


def test_medium_texts_may_be_too_short(tmp_path: Path, server: ScriptedServer) -> None:
    groups = Rules((LengthGroup("short", 20), LengthGroup("medium", 60), LengthGroup("long", None)))
    server.play("1. This one has enough characters.\n2. Tiny.")
    plan = replace(plan_of(name(server)), rules=groups)
    records = [record(n, length="medium") for n in range(10)]
    with Desk(tmp_path, records) as small:
        batch = small.draft(DraftRequest("Jane Doe", length="medium", count=2), plan)
    assert [text.marks[:1] for text in batch.texts] == [(), ("too short: 5 of 20",)]
    assert "medium: 20 to under 60 characters" in server.requests[0].prompt


def test_missing_texts_are_asked_for_once(desk: Desk, server: ScriptedServer) -> None:
    server.play(["1. Chip in.", "1. We need you.\n2. Last call."])
    batch = desk.draft(SHORT, plan_of(name(server)))
    assert len(batch.texts) == 3
    assert batch.prompts[1].purpose == "missing"
    assert "Write 2 such texts" in server.requests[1].prompt
    server.play("1. Chip in.")
    few = desk.draft(SHORT, plan_of(name(server), seed=5))
    assert len(few.texts) == 2  # the one, and the one that came of asking again
    assert any("2 of 3 texts came back" in note for note in few.notes)
    assert few.texts[1].marks == ("near copy of text 1 (1.00)",)


def test_more_texts_than_asked_for(desk: Desk, server: ScriptedServer) -> None:
    server.play(GOOD + "\n4. One more.")
    batch = desk.draft(SHORT, plan_of(name(server)))
    assert len(batch.texts) == 3
    assert any("4 texts came back, 3 were requested" in note for note in batch.notes)
    assert server.count == 1


@pytest.mark.parametrize(
    ("reply", "said"),
    [
        (Reply(""), "an empty reply"),
        (Reply(" \n "), "an empty reply"),
        (Reply("1. Chip in.\n2. We ne", finish="length"), "cut at its limit"),
        (Reply("I'm sorry, but I can't help with that."), "refused: I'm sorry"),
        (Reply("", finish="content_filter"), "content filter"),
        (Reply(malformed="json"), "ModelReplyError"),
        (Reply(malformed="no_choices"), "ModelReplyError"),
        (Reply(malformed="html"), "ModelReplyError"),
        (Reply(malformed="error_in_200"), "Model"),
        (Reply.bad_key(), "MissingKeyError"),
        (Reply.unknown_model(), "ModelRefusedError"),
        (Reply.too_long(), "PromptTooLongError"),
        (Reply.quota(), "Model"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_goes_wrong_with_one_model_is_named(
    desk: Desk, server: ScriptedServer, reply: Reply, said: str
) -> None:
    server.play(by_model({"good": GOOD, "bad": reply}))
    bad = name(server, "bad")
    batch = desk.draft(SHORT, plan_of(bad, name(server, "good")))
    assert [text.model for text in batch.texts if text.model != bad] == [name(server, "good")] * 3
    assert batch.models == (bad, name(server, "good"))
    assert any(note.startswith(bad) and said in note for note in batch.notes), batch.notes
    assert sum(prompt.model == bad for prompt in batch.prompts) in (1, 2)


def test_a_refusal_is_not_asked_again(desk: Desk, server: ScriptedServer) -> None:
    server.play("I cannot write political messages.")
    batch = desk.draft(SHORT, plan_of(name(server)))
    assert server.count == 1
    assert not batch.texts
    assert any("0 of 3 texts came back" in note for note in batch.notes)


def test_a_cut_text_is_marked_and_replaced(desk: Desk, server: ScriptedServer) -> None:
    cut = Reply("1. Chip in.\n2. We need you.\n3. Last ca", finish="length")
    server.play([cut, "1. Last call."])
    batch = desk.draft(SHORT, plan_of(name(server)))
    assert [text.text for text in batch.texts] == ["Chip in.", "We need you.", "Last call."]
    server.play(cut)
    batch = desk.draft(SHORT, plan_of(name(server), seed=7))
    assert batch.texts[2].marks[0] == "cut: the reply ended at its limit of 1500 tokens"


def test_the_second_call_may_fail(desk: Desk, server: ScriptedServer) -> None:
    server.play(["1. Chip in.\n2. We need you.", Reply.bad_key()])
    batch = desk.draft(SHORT, plan_of(name(server)))
    assert len(batch.texts) == 2
    assert batch.prompts[1].error
    assert any("MissingKeyError" in note for note in batch.notes)


def test_a_slow_server_is_a_failing_one(desk: Desk, server: ScriptedServer) -> None:
    server.play(by_model({"good": GOOD, "slow": Reply(GOOD, delay=0.3)}))
    slow = name(server, "slow")
    batch = desk.draft(SHORT, plan_of(slow, name(server, "good")))
    assert len(batch.texts) == 6


def test_every_model_failing_is_an_error(desk: Desk, server: ScriptedServer) -> None:
    server.play(Reply.bad_key())
    with pytest.raises(MissingKeyError):
        desk.draft(SHORT, plan_of(name(server, "one"), name(server, "two")))
    server.play(Reply(malformed="json"))
    with pytest.raises(ModelReplyError):
        desk.draft(SHORT, plan_of(name(server, "three")))


def test_what_each_model_failed_with_is_told(desk: Desk, server: ScriptedServer) -> None:
    server.play(by_model({"one": Reply.bad_key(), "two": Reply(malformed="json")}))
    models = (name(server, "one"), name(server, "two"))
    with pytest.raises(ModelError) as failed:
        desk.draft(SHORT, plan_of(*models))
    assert "each of the 2 models failed" in failed.value.what
    assert f"{models[0]}: MissingKeyError" in failed.value.what
    assert f"{models[1]}: ModelReplyError" in failed.value.what
    assert failed.value.hint


def test_an_unknown_provider_among_several_is_a_note(desk: Desk, server: ScriptedServer) -> None:
    batch = desk.draft(SHORT, plan_of("opnai:x", name(server)))
    assert len(batch.texts) == 3
    assert any("unknown provider 'opnai'" in note for note in batch.notes)


def test_near_copies_are_named(desk: Desk, server: ScriptedServer) -> None:
    shown = desk.draft(SHORT, plan_of(name(server)))
    hit = shown.hits[0]
    text = hit.text[int(str(hit.metadata["message_at"])) :]
    server.play(f"1. {text.upper()}!\n2. We need you today.\n3. Today we need you, friends!")
    batch = desk.draft(SHORT, plan_of(name(server), seed=9))
    assert batch.texts[0].marks == (f"near copy of {hit.document_id} (1.00)",)
    assert batch.texts[1].marks == ()


def test_no_model_is_said(desk: Desk) -> None:
    with pytest.raises(ConfigError, match="no chat model is configured") as raised:
        desk.draft(SHORT, plan_of())
    assert "--show-prompt" in (raised.value.hint or "")


def test_a_preview_asks_nobody(desk: Desk, server: ScriptedServer) -> None:
    for models in ((), (name(server),)):
        batch = desk.draft(SHORT, replace(plan_of(*models), preview=True))
        assert not batch.texts
        assert len(batch.prompts) == 1
        assert batch.prompts[0].messages[-1][0] == "user"
        assert not batch.prompts[0].reply
    assert server.count == 0


def test_dry_runs_count_calls(desk: Desk, server: ScriptedServer) -> None:
    plan = plan_of(name(server, "a"), name(server, "b"), seed=11)
    calls = desk.forecast(SHORT, plan).calls
    assert (calls.low, calls.expected, calls.high) == (2, 2, 4)
    assert server.count == 0


def test_forgetting_a_record_forgets_what_was_made_of_it(
    desk: Desk, server: ScriptedServer
) -> None:
    batch = desk.draft(SHORT, plan_of(name(server), seed=13))
    used = batch.prompts[0].examples[0].rpartition(":")[0]
    assert desk.replies.forget(source=used) > 0
    assert not desk.draft(SHORT, plan_of(name(server), seed=13)).cached


def test_trace_holds_one_search(desk: Desk, server: ScriptedServer) -> None:
    trace: list[TraceEntry] = []
    desk.draft(SHORT, plan_of(name(server)), trace)
    kinds = [type(entry.request).__name__ for entry in trace]
    assert kinds == ["Search", "Lookup", "Chat"]
    assert CLIENTS[0] in trace[0].request.text  # type: ignore[union-attr]
