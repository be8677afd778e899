"""Drafts over real HTTP: calls, lengths, second calls, failing models, marks, stops, dry runs."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from draft_desk import CLIENTS, WORDS, Desk, Writing, a_desk, priced_desk, record, texts_of, writing

from ragwright import core
from ragwright.core import MissingKeyError, Usage
from ragwright.drafting import DraftBatch, DraftRequest
from ragwright.flow import TraceEntry
from ragwright.records import LengthGroup, Rules
from ragwright.testing import Reply, ServerRequest

SHORT = DraftRequest("Jane Doe", "donation", ("health care",), ("urgent",), "short", 3)
LONG = replace(SHORT, tones=(), length="long")
MANY = replace(SHORT, count=200)
GOOD_TEXTS = ["Chip in now.", "We need you today.", "Last call, friend."]
GOOD = "1. Chip in now.\n2. We need you today.\n3. Last call, friend."
WHOLE = "A clinic in every town is what we ask for, and tonight we count who is with us." * 6
LONG_ONE = "x" * 213

desk = a_desk(60)
write = writing


def a_text(seed: object, characters: int = 480) -> str:
    """A text of so many characters unlike those of other seeds."""
    chance = random.Random(str(seed))
    words = " ".join("".join(chance.choices("abcdefghijklmno", k=5)) for _ in range(100))
    return words[: characters - 1].strip() + "."


def listed(*texts: str) -> str:
    return "\n".join(f"{number}. {text}" for number, text in enumerate(texts, 1))


def wanted(request: ServerRequest) -> int:
    found = re.findall(r"Write (\d+) such texts", str(request.body))
    return int(found[-1]) if found else 1


def written(request: ServerRequest, characters: int = 155, step: int = 1) -> Reply:
    """As many texts as asked for, cut at the limit of tokens, at 4 characters a token."""
    told = str(request.body["messages"]) + request.body["model"]
    texts = [a_text(f"{told}{n}", characters) for n in range(wanted(request))]
    text, room = listed(*texts[::step]), request.body["max_tokens"] * 4
    return Reply(text[:room], finish="length" if len(text) > room else "stop")


def by_model(**replies: str | Reply) -> Callable[[ServerRequest], str | Reply]:
    return lambda request: replies[request.body["model"]]


def calls_of(batch: DraftBatch) -> list[tuple[str, int]]:
    """Purpose of each call, and how many texts it asked for."""
    return [(prompt.purpose, prompt.wanted) for prompt in batch.prompts]


def noted(batch: DraftBatch, text: str) -> bool:
    return any(text in note for note in batch.notes)


def test_one_call_gives_all_texts_from_the_best_records(write: Writing) -> None:
    trace: list[TraceEntry] = []
    write.server.play(GOOD)
    batch = write.desk.draft(SHORT, write.plan(), trace)
    assert texts_of(batch) == GOOD_TEXTS
    assert (batch.snapshot, batch.notes) == (write.desk.target.snapshot, ())
    assert all(not text.marks for text in batch.texts)
    body = write.server.requests[0].body
    assert (body["temperature"], "stop" in body) == (0.8, False)
    roles = [turn["role"] for turn in body["messages"]]
    assert roles == ["system", *["user", "assistant"] * 4, "user"]
    asked = body["messages"][-1]["content"]
    assert "(short: under 160 characters)" in asked
    assert "Write 3 such texts" in asked
    assert all("under 160" in turn["content"] for turn in body["messages"][1::2])
    # examples are the messages of records, those of the strictest rung first
    hits, prompt = {hit.chunk_id: hit for hit in batch.hits}, batch.prompts[0]
    shown = [text for role, text in prompt.messages if role == "assistant"]
    for text, key in zip(shown, prompt.examples, strict=True):
        assert hits[key].text.endswith(text)
        assert text.startswith("Friend ")
    weights = [hit.rung.weight for hit in batch.hits if hit.rung is not None]
    assert len(weights) == len(batch.hits) == 8
    assert weights == sorted(weights, reverse=True)
    assert weights[0] == 8 + 5 + 3 + 2 + 1
    assert [type(entry.request).__name__ for entry in trace] == ["Search", "Lookup", "Chat"]
    assert CLIENTS[0] in trace[0].request.text  # type: ignore[union-attr]
    assert batch.usage == prompt.usage
    # the same is not paid for twice, until a record that it was made of is forgotten
    again, other = write(SHORT), write(SHORT, seed=1)
    assert (batch.cached, again.cached, texts_of(again)) == (False, True, GOOD_TEXTS)
    assert (other.prompts[0].examples != prompt.examples, write.server.count) == (True, 2)
    assert write.desk.replies.forget(source=prompt.examples[0].rpartition(":")[0]) > 0
    assert not write(SHORT).cached


def test_a_known_reply_costs_nothing_and_a_failed_call_hides_no_cost(
    tmp_path: Path, write: Writing
) -> None:
    with priced_desk(tmp_path, write.server) as desk:
        paid = Writing(desk, write.server)
        script = by_model(m=GOOD, n=Reply.bad_key())
        first, again = (paid(SHORT, script, "s:m") for _ in range(2))
        assert first.usage.cost == pytest.approx(desk.runner.budget.spent)
        assert paid(SHORT, None, "s:m", "s:n").usage == Usage(cost=0.0)
    assert first.usage.calls == 1
    assert again.usage == again.prompts[0].usage == Usage(cost=0.0)


TOO_LONG = f"1. Chip in.\n2. {WHOLE}\n3. Last call."
CUT = Reply("1. Chip in.\n2. We need you.\n3. Last ca", finish="length")
TWO = ["Chip in.", "We need you."]
ALL = [*TWO, "Last call."]
AGAIN = "of 3 texts were requested again"
SECOND: dict[str, tuple[list[str | Reply], list[str], list[tuple[str, int]], object, str]] = {
    "over-long texts are asked for once more": ([TOO_LONG, "1. We need you."],
        ["Chip in.", "Last call.", "We need you."], [("length", 1)], {},
        f"1 {AGAIN}"),
    "what stays too long is marked": ([TOO_LONG.replace(WHOLE, LONG_ONE), f"1. {LONG_ONE}y"],
        ["Chip in.", "Last call.", LONG_ONE], [("length", 1)], {2: ("too long: 213 of 160",)}, ""),
    "missing texts are asked for": (["1. Chip in.", "1. We need you.\n2. Last call."],
        ALL, [("missing", 2)], {}, f"2 {AGAIN}"),
    "once": (["1. Chip in."], ["Chip in.", "Chip in."], [("missing", 2)],
        {1: ("near copy of text 1 (1.00)",)}, "2 of 3 texts came back"),
    "more than asked for": ([GOOD + "\n4. One more."], GOOD_TEXTS, [], {},
        "4 texts came back, 3 were requested"),
    "a refusal": (["I cannot write political messages."], [], [], {}, "0 of 3 texts came back"),
    "a cut text": ([CUT, "1. Last call."], ALL, [("missing", 1)], {}, "cut at its limit"),
    "a text that stays cut": ([CUT], [*TWO, "Last ca"], [("missing", 1)],
        {2: ("cut: the reply ended at its limit of 1500 tokens",)}, ""),
    "a second call that fails": (["1. Chip in.\n2. We need you.", Reply.bad_key()], TWO,
        [("missing", 1)], {}, "MissingKeyError"),
}  # fmt: skip


@pytest.mark.parametrize("case", SECOND)
def test_what_a_reply_lacks_is_asked_for_once(write: Writing, case: str) -> None:
    replies, texts, second, marks, note = SECOND[case]
    batch = write(SHORT, replies)
    assert texts_of(batch) == texts
    assert calls_of(batch) == [("first", 3), *second]
    assert [prompt.sample for prompt in batch.prompts] == list(range(1 + len(second)))
    assert {at: text.marks for at, text in enumerate(batch.texts) if text.marks} == marks
    assert noted(batch, note) or not note
    assert write.server.count == 1 + len(second)
    told = write.server.requests[-1].prompt
    if second == [("length", 1)]:
        assert f"earlier attempts had {213 if marks else len(WHOLE)} characters" in told
        assert [text.prompt for text in batch.texts][:2] == [0, 0]
    assert "Write 2 such texts" in told or second != [("missing", 2)]


def test_medium_texts_may_be_too_short(tmp_path: Path, write: Writing) -> None:
    groups = Rules((LengthGroup("short", 20), LengthGroup("medium", 60), LengthGroup("long", None)))
    write.server.play("1. This one has enough characters.\n2. Tiny.")
    with Desk(tmp_path, [record(n, length="medium") for n in range(10)]) as small:
        request = DraftRequest("Jane Doe", length="medium", count=2)
        batch = small.draft(request, replace(write.plan(), rules=groups))
    assert [text.marks[:1] for text in batch.texts] == [(), ("too short: 5 of 20",)]
    assert "medium: 20 to under 60 characters" in write.server.requests[0].prompt


@pytest.mark.parametrize(
    "cut",
    [
        "1. Chip in.\n2. We need you.\n3. Last ca",
        "1. Chip in.\n2. We need you.\n3.",
        "Chip in.\n\nWe need you.\n\nLast ca",
        "<text>Chip in.</text><text>We need you.</text><text>Last ca",
        '["Chip in.", "We need you.", "Last ca',
        "<think>Three texts: 1. Chip in. 2. We need you. 3. Last ca",
    ],
)
def test_a_cut_text_is_never_a_whole_one(write: Writing, cut: str) -> None:
    batch = write(SHORT, Reply(cut, finish="length"))
    cut_ones = [text for text in batch.texts if "cut" in str(text.marks)]
    whole = [text.text for text in batch.texts if text.prompt == 0 and text not in cut_ones]
    assert not any("Last ca" in text or text.endswith("3.") for text in whole)
    assert [prompt.wanted for prompt in batch.prompts] == [3, 3 - len(whole)]
    assert noted(batch, "cut at its limit")


@pytest.mark.parametrize(
    ("reply", "said"),
    [
        (Reply(""), "an empty reply"),
        (Reply(" \n "), "an empty reply"),
        (Reply("1. Chip in.\n2. We ne", finish="length"), "cut at its limit"),
        (Reply("I'm sorry, but I can't help with that."), "refused: I'm sorry"),
        (Reply("", finish="content_filter"), "content filter"),
        (Reply(malformed="json"), "ModelReplyError"),
        (Reply.bad_key(), "MissingKeyError"),
        (Reply.unknown_model(), "ModelRefusedError"),
        (Reply.too_long(), "PromptTooLongError"),
        (Reply.quota(), "Model"),
    ],
)
def test_what_goes_wrong_with_one_model_is_named(write: Writing, reply: Reply, said: str) -> None:
    batch = write(SHORT, by_model(good=GOOD, bad=reply), "bad", "good")
    bad, good = batch.models
    assert [text.model for text in batch.texts if text.model != bad] == [good] * 3
    assert any(note.startswith(bad) and said in note for note in batch.notes), batch.notes
    assert sum(prompt.model == bad for prompt in batch.prompts) in (1, 2)


def test_every_model_failing_is_an_error_that_names_each(write: Writing) -> None:
    script = by_model(key=Reply.bad_key(), other=Reply.bad_key(), json=Reply(malformed="json"))
    with pytest.raises(MissingKeyError):
        write(SHORT, script, "key", "other")
    with pytest.raises(core.ModelReplyError):
        write(SHORT, script, "json")
    told = "(?s)each of the 2 models failed.*#key: MissingKeyError.*#json: ModelReplyError"
    with pytest.raises(core.ModelError, match=told) as failed:
        write(SHORT, script, "key", "json")
    assert failed.value.hint


def test_near_copies_are_named(write: Writing) -> None:
    hit = write(SHORT, GOOD).hits[0]
    text = hit.text[int(str(hit.metadata["message_at"])) :]
    copied = f"1. {text.upper()}!\n2. We need you today.\n3. Today we need you, friends!"
    batch = write(SHORT, copied, seed=9)
    assert batch.texts[0].marks == (f"near copy of {hit.document_id} (1.00)",)
    assert batch.texts[1].marks == ()


def test_a_preview_and_a_dry_run_ask_nobody(write: Writing) -> None:
    nobody = replace(write.plan(), models=())
    for plan in (nobody, write.plan()):
        batch = write.desk.draft(SHORT, replace(plan, preview=True))
        [prompt] = batch.prompts
        assert (batch.texts, prompt.messages[-1][0], prompt.reply) == ((), "user", "")
    calls = write.desk.forecast(SHORT, write.plan("a", "b")).calls
    assert (calls.low, calls.expected, calls.high) == (2, 2, 4)
    assert write.server.count == 0


# -- long texts: a call for each ---------------------------------------------------------------


def long_records(*texts: str) -> list[core.Document]:
    texts = texts or tuple(f"Friend {n} {WORDS[n % 12]}" for n in range(30))
    return [record(n, length="long", text=text) for n, text in enumerate(texts)]


@pytest.mark.slow
@pytest.mark.parametrize("vectors", [False, True])
def test_long_texts_have_calls_and_unlike_examples_of_their_own(
    tmp_path: Path, write: Writing, vectors: bool
) -> None:
    write.server.play(lambda request: f"{write.server.count}: {WHOLE}")
    with Desk(tmp_path, long_records(), vectors=vectors) as desk:
        batch = desk.draft(LONG, write.plan())
    sets = [frozenset(prompt.examples) for prompt in batch.prompts]
    assert len(sets) == len(set(sets)) == len(batch.texts) == 3
    assert all(prompt.wanted == 1 for prompt in batch.prompts)
    assert all(text.characters >= 400 for text in batch.texts)
    told = write.server.requests[-1].prompt
    assert "long: 400 characters or more" in told
    assert "without a number" in told


def test_long_texts_that_are_too_short_are_asked_for_each(tmp_path: Path, write: Writing) -> None:
    server = write.server
    server.play(lambda request: "Too short." if server.count <= 3 else a_text(server.count))
    with Desk(tmp_path, long_records()) as desk:
        batch = desk.draft(LONG, write.plan())
        calls = desk.forecast(LONG, write.plan("other")).calls
    assert calls_of(batch) == [("first", 1)] * 3 + [("length", 1)] * 3
    assert len({prompt.examples for prompt in batch.prompts}) == 6
    assert not any("too short" in mark for text in batch.texts for mark in text.marks)
    assert (calls.low, calls.expected, calls.high) == (3, 3, 6)


@pytest.mark.parametrize(("pool", "sets"), [(4, 1), (5, 5)])
def test_every_long_text_is_a_call_of_its_own(
    tmp_path: Path, write: Writing, pool: int, sets: int
) -> None:
    """Equal prompts are samples of their own; a set of examples is used once where it can be."""
    write.server.play(lambda request: a_text(write.server.count))
    request = replace(LONG, count=5)
    with priced_desk(tmp_path, write.server, length="long") as desk:
        batch = desk.draft(request, write.plan(pool=pool))
        assert desk.forecast(request, write.plan("b", pool=pool)).calls.low == 5
        plans = (write.plan(examples=1, pool=1, seed=seed) for seed in (0, 1))
        one, other = (desk.draft(LONG, plan) for plan in plans)
    assert batch.usage.calls == len(set(texts_of(batch))) == 5
    assert [prompt.sample for prompt in batch.prompts] == list(range(5))
    assert len({frozenset(prompt.examples) for prompt in batch.prompts}) == sets
    # another seed gives other texts from equal examples
    assert one.prompts[0].messages == other.prompts[0].messages
    assert len({*texts_of(one), *texts_of(other)}) == 6


# -- stops -------------------------------------------------------------------------------------


def test_what_was_written_before_a_budget_stop_is_not_paid_again(
    tmp_path: Path, write: Writing
) -> None:
    server, calls = write.server, 8
    server.play(written)
    with priced_desk(tmp_path, server) as desk:
        plan, desk.runner.budget.max_cost = write.plan("s:m", per_call=25), 0.6
        with pytest.raises(core.BudgetStopped):
            desk.draft(MANY, plan)
        paid, desk.runner.budget.max_cost = server.count, None
        whole = desk.draft(MANY, plan)
    assert 1 <= paid < calls
    assert (len(whole.texts), whole.usage.calls) == (200, calls - paid)


# -- many texts: as many calls as their replies need -------------------------------------------


def test_the_same_text_of_two_calls_is_kept_once(write: Writing) -> None:
    def repeating(request: ServerRequest) -> str:
        count = write.server.count
        same = ["Chip in today, friend!", "CHIP IN TODAY, friend."][count % 2]
        own = [a_text(f"{count}:{n}", 155) for n in range(wanted(request))]
        return listed(*([same, *own][: wanted(request)] if count <= 4 else own))

    request = replace(SHORT, count=20)
    batch = write(request, repeating, per_call=5)
    assert [prompt.wanted for prompt in batch.prompts] == [5, 5, 5, 5, 3]
    assert len(batch.texts) == 20
    assert not any(text.marks for text in batch.texts)
    assert noted(batch, "3 of 20 texts were requested again")
    few = write(request, "1. Chip in today, friend!\n2. We need you.", per_call=2, seed=5)
    # marked, where nothing better came
    assert [bool(text.marks) for text in few.texts] == [False] * 2 + [True] * 18


def test_a_dry_run_knows_how_long_prompts_and_texts_get(write: Writing) -> None:
    """Where texts are as long as the examples are, or longer; before and after a first reply."""

    def alike(request: ServerRequest) -> str:
        return listed(*(a_text(f"{write.server.count}:{n}", 58) for n in range(wanted(request))))

    for count, length in ((5, "short"), (200, "short"), (4, "long")):
        request = replace(MANY, count=count, length=length)
        told = write.desk.forecast(request, write.plan())
        batch = write(request, alike)
        paid = sum(p.usage.prompt_tokens for p in batch.prompts if p.purpose == "first")
        assert told.prompt_tokens.low <= paid <= told.prompt_tokens.high
        assert 0.9 * paid <= told.prompt_tokens.expected <= 1.1 * paid
        completion, texts = told.completion_tokens, batch.usage.completion_tokens
        if length == "short":
            assert completion.low <= texts <= completion.high
            assert texts / 2 < completion.expected < texts * 2
