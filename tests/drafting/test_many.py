"""Many texts over real HTTP: as many calls as their replies need, and what became of each."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from draft_desk import Desk, name, plan_of, record

from ragwright.core import BudgetStopped, Usage
from ragwright.drafting import DraftRequest, Underway, draft
from ragwright.models import ModelSettings
from ragwright.testing import Reply, ScriptedServer, ServerRequest

MANY = DraftRequest("Jane Doe", "donation", ("health care",), ("urgent",), "short", 200)
CHARACTERS = 4


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    prices = {"localhost": ModelSettings(price_in=1.0, price_out=2.0)}
    folder = tmp_path_factory.mktemp("many")
    with Desk(folder, [record(n) for n in range(60)], prices) as made:
        yield made


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    with ScriptedServer(written) as running:
        yield running


def wanted(request: ServerRequest) -> int:
    found = re.search(r"Write (\d+) such texts", request.prompt)
    return int(found[1]) if found else 1


def a_text(seed: str, characters: int = 155) -> str:
    """A text of so many characters unlike those of other seeds."""
    chance = random.Random(seed)
    words = " ".join("".join(chance.choices("abcdefghijklmno", k=5)) for _ in range(100))
    return words[: characters - 1].strip() + "."


def listed(texts: list[str]) -> str:
    return "\n".join(f"{number}. {text}" for number, text in enumerate(texts, 1))


def limited(request: ServerRequest, text: str) -> Reply:
    """A reply that ends where its limit of tokens is, at 4 characters a token."""
    room = request.body["max_tokens"] * CHARACTERS
    return Reply(text[:room], finish="length" if len(text) > room else "stop")


def written(request: ServerRequest) -> Reply:
    """As many texts as asked for, each almost as long as it may be."""
    told = str(request.body["messages"]) + request.body["model"]
    return limited(request, listed([a_text(f"{told}{n}") for n in range(wanted(request))]))


@pytest.mark.slow
def test_two_hundred_texts_come_whole(desk: Desk, server: ScriptedServer) -> None:
    batch = desk.draft(MANY, plan_of(name(server)))
    assert len(batch.texts) == len({text.text for text in batch.texts}) == 200
    assert not any(text.marks for text in batch.texts)
    assert not batch.notes
    assert server.count == len(batch.prompts) == batch.usage.calls
    assert [prompt.sample for prompt in batch.prompts] == list(range(server.count))
    assert {prompt.purpose for prompt in batch.prompts} == {"first"}
    assert {prompt.finish for prompt in batch.prompts} == {"stop"}
    assert sum(prompt.wanted for prompt in batch.prompts) == 200
    assert len({prompt.examples for prompt in batch.prompts}) == server.count > 1
    places = [text.prompt for text in batch.texts]
    assert places == sorted(places)
    assert sum((text.usage for text in batch.texts), Usage()).calls == server.count
    again = desk.draft(MANY, plan_of(name(server)))
    assert again.cached
    assert [text.text for text in again.texts] == [text.text for text in batch.texts]


def test_one_call_for_all_is_cut_and_asked_for_in_more(desk: Desk, server: ScriptedServer) -> None:
    """What a call that is too large costs: the cut text is no whole one, and is asked for again."""
    batch = desk.draft(MANY, plan_of(name(server), per_call=200, seed=1))
    first = batch.prompts[0]
    assert (first.wanted, first.finish) == (200, "length")
    whole = [text for text in batch.texts if text.prompt == 0 and not text.marks]
    assert 30 < len(whole) < 40
    assert all(len(text.text) == 155 for text in whole)
    assert sum(text.marks[:1] != () and "cut" in text.marks[0] for text in batch.texts) == 2
    assert any("answer.draft.per_call" in note for note in batch.notes)


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
def test_a_cut_text_is_never_a_whole_one(desk: Desk, server: ScriptedServer, cut: str) -> None:
    server.play(Reply(cut, finish="length"))
    asked = DraftRequest("Jane Doe", "donation", count=3)
    batch = desk.draft(asked, plan_of(name(server)))
    cut_ones = [text for text in batch.texts if "cut" in str(text.marks)]
    whole = [text.text for text in batch.texts if text.prompt == 0 and text not in cut_ones]
    assert not any("Last ca" in text or text.endswith("3.") for text in whole)
    assert [prompt.wanted for prompt in batch.prompts] == [3, 3 - len(whole)]
    assert any("cut at its limit" in note for note in batch.notes)


@pytest.mark.slow
def test_what_some_calls_lack_is_asked_for_in_calls_that_fit(
    desk: Desk, server: ScriptedServer
) -> None:
    def half(request: ServerRequest) -> Reply:
        texts = [a_text(f"{server.count}:{n}") for n in range(wanted(request))]
        return limited(request, listed(texts if server.count > 8 else texts[::2]))

    server.play(half)
    batch = desk.draft(MANY, plan_of(name(server), per_call=25, seed=2))
    assert len(batch.texts) == 200
    sizes = [prompt.wanted for prompt in batch.prompts]
    assert sizes == [25] * 8 + [24] * 4
    assert {prompt.purpose for prompt in batch.prompts[8:]} == {"missing"}
    assert [prompt.sample - batch.prompts[0].sample for prompt in batch.prompts] == list(range(12))
    assert any("96 of 200 texts were requested again: 96 missing" in n for n in batch.notes)


def test_lengths_are_told_to_the_calls_that_mend_them(desk: Desk, server: ScriptedServer) -> None:
    def longer(request: ServerRequest) -> str:
        size = 170 if server.count <= 2 else 100
        return listed([a_text(f"{server.count}:{n}", size) for n in range(wanted(request))])

    server.play(longer)
    request = DraftRequest("Jane Doe", "donation", count=6)
    batch = desk.draft(request, plan_of(name(server), per_call=2, seed=3))
    assert [prompt.wanted for prompt in batch.prompts] == [2] * 5
    assert [prompt.purpose for prompt in batch.prompts] == ["first"] * 3 + ["length"] * 2
    assert len(batch.texts) == 6
    assert all(text.characters <= 100 for text in batch.texts)
    assert "earlier attempts had 17" in server.requests[-1].prompt


def test_the_same_text_of_two_calls_is_kept_once(desk: Desk, server: ScriptedServer) -> None:
    def repeating(request: ServerRequest) -> str:
        same = ["Chip in today, friend!", "CHIP IN TODAY, friend."][server.count % 2]
        own = [a_text(f"{server.count}:{n}") for n in range(wanted(request))]
        return listed([same, *own][: wanted(request)] if server.count <= 4 else own)

    server.play(repeating)
    request = DraftRequest("Jane Doe", "donation", count=20)
    batch = desk.draft(request, plan_of(name(server), per_call=5, seed=4))
    assert [prompt.wanted for prompt in batch.prompts] == [5, 5, 5, 5, 3]
    assert len(batch.texts) == 20
    assert not any(text.marks for text in batch.texts)
    told = "3 of 20 texts were requested again: 3 equal to that of another call"
    assert any(told in note for note in batch.notes)
    server.play("1. Chip in today, friend!\n2. We need you.")
    few = desk.draft(request, plan_of(name(server), per_call=2, seed=5))
    assert len(few.texts) == 20  # marked, where nothing better came
    assert [bool(text.marks) for text in few.texts] == [False] * 2 + [True] * 18


def test_a_call_that_fails_costs_its_own_texts(desk: Desk, server: ScriptedServer) -> None:
    server.play(lambda r: Reply.too_long() if server.count == 2 else written(r))
    batch = desk.draft(MANY, plan_of(name(server), per_call=25, seed=6))
    assert server.count == len(batch.prompts) == 8
    assert sum(bool(prompt.error) for prompt in batch.prompts) == 1
    assert len(batch.texts) == 175
    assert any("175 of 200 texts came back" in note for note in batch.notes)
    assert batch.usage.calls == 7


def test_every_model_has_calls_of_its_own(desk: Desk, server: ScriptedServer) -> None:
    one, other = name(server, "a"), name(server, "b")
    batch = desk.draft(MANY, plan_of(one, other, seed=7))
    assert [text.model for text in batch.texts] == [one] * 200 + [other] * 200
    assert all(batch.prompts[text.prompt].model == text.model for text in batch.texts)


def test_a_dry_run_counts_the_calls(desk: Desk, server: ScriptedServer) -> None:
    plan = plan_of(name(server), seed=8)
    forecast = desk.forecast(MANY, plan)
    assert server.count == 0
    batch = desk.draft(MANY, plan)
    assert forecast.calls.low == forecast.calls.expected == len(batch.prompts)
    assert forecast.calls.high == 2 * len(batch.prompts)
    assert desk.forecast(MANY, plan).calls.expected == 0


@pytest.mark.parametrize("form", ["chat", "llama3"])
def test_a_dry_run_knows_how_long_texts_get(desk: Desk, server: ScriptedServer, form: str) -> None:
    def alike(request: ServerRequest) -> str:
        """Texts as long as the examples are."""
        asked = re.findall(r"Write (\d+) such texts", str(request.body))[-1]
        return listed([a_text(f"{server.count}:{n}", 58) for n in range(int(asked))])

    server.play(alike)
    for count in (5, 200):
        request = replace(MANY, count=count)
        plan = plan_of(name(server), seed=9, format=form)
        told = desk.forecast(request, plan).completion_tokens
        paid = desk.draft(request, plan).usage.completion_tokens
        assert told.low <= paid <= told.high
        assert paid / 2 < told.expected < paid * 2


@pytest.mark.parametrize("length", ["short", "long"])
def test_a_dry_run_bounds_the_tokens_of_prompts(
    desk: Desk, server: ScriptedServer, length: str
) -> None:
    """Before a first reply, and by what replies have taught."""
    server.play(lambda _: "This is long. " * 31)
    for seed in (9, 10):
        request = replace(MANY, count=4, length=length)
        plan = plan_of(name(server), seed=seed)
        told = desk.forecast(request, plan)
        batch = desk.draft(request, plan)
        first = [prompt for prompt in batch.prompts if prompt.purpose == "first"]
        paid = sum(prompt.usage.prompt_tokens for prompt in first)
        assert told.prompt_tokens.low <= paid <= told.prompt_tokens.high
        assert 0.9 * paid <= told.prompt_tokens.expected <= 1.1 * paid
        assert told.completion_tokens.low <= batch.usage.completion_tokens


def test_what_was_paid_for_before_a_stop_is_kept(tmp_path: Path, server: ScriptedServer) -> None:
    settings = {"s": ModelSettings(base=server.url, price_in=100.0, price_out=100.0, concurrency=2)}
    plan = plan_of("s:m", per_call=25)
    with Desk(tmp_path, [record(n) for n in range(30)], settings) as desk:
        desk.runner.budget.max_cost = 0.6
        underway = Underway()
        with pytest.raises(BudgetStopped):
            desk.runner.run(draft(MANY, desk.target, plan, underway))
        left = underway.batch(desk.runner.known, "the budget")
        assert left is not None
        assert left.partial
        assert 1 <= len(left.prompts) == server.count < 8
        assert len(left.texts) == 25 * len(left.prompts)
        paid = server.count
        desk.runner.budget.max_cost = None
        whole = desk.draft(MANY, plan)
    assert len(whole.texts) == 200
    assert whole.usage.calls == server.count - paid == 8 - paid
