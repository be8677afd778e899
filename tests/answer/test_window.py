"""Prompts that fit the generator's window, and what had to go for it."""

from __future__ import annotations

from pathlib import Path

import pytest
from answer_fakes import Driver, hit
from hypothesis import given, settings, strategies as st

from ragwright.answer import (
    AnswerOptions,
    AskPlan,
    ConsolidateOptions,
    PromptFrame,
    PromptOptions,
    Window,
    answer,
    condense,
    consolidate,
    count_tokens,
    fit_hits,
    generator_window,
    order_hits,
    split_hit,
)
from ragwright.core import Hit, Persona, PromptError
from ragwright.flow import Chat, ChatReply, Message, Replies, Runner, chat
from ragwright.models import Models, ModelSettings, WordTokenizer, model_handlers
from ragwright.testing import Reply, ScriptedServer

PERSONA = Persona("p", audience="mechanics", writing_style="plain")
LONG = [
    hit(n, " ".join(f"Sentence {k} of passage {n} is here." for k in range(40)), title=f"Book {n}")
    for n in range(1, 9)
]


def setup(tokens: int | None, **options: object) -> AskPlan:
    window = Window(tokens, WordTokenizer())
    chosen = AnswerOptions(model="m:x", max_tokens=100, **options)  # type: ignore[arg-type]
    return AskPlan(chosen, window_of=lambda _: window)


def size(request: Chat) -> int:
    return Window(tokenizer=WordTokenizer()).size(request.messages)


@pytest.mark.parametrize("tokens", [700, 900, 1500, 4000])
@pytest.mark.parametrize("order", ["best_first", "best_last", "best_at_ends"])
def test_prompt_and_reply_fit_and_every_passage_is_shown_or_named(tokens: int, order: str) -> None:
    driver = Driver("Yes [1].")
    made = driver.run(answer("Why?", PERSONA, LONG, setup(tokens, hit_order=order)))
    (request,) = driver.chats
    assert size(request) + 100 <= tokens
    ranks = sorted(h.rank for h in made.hits)
    assert ranks == list(range(1, len(ranks) + 1))
    assert made.hits == order_hits(sorted(made.hits, key=lambda h: h.rank), order)  # type: ignore[arg-type]
    said = " ".join(made.notes)
    for number in range(1, 9):
        assert (number in ranks) != (f"{number} (Book {number}, page 3)" in said)


def test_without_a_known_window_the_setting_alone_counts() -> None:
    made = Driver("Yes [1].").run(answer("Why?", PERSONA, LONG, setup(None)))
    assert len(made.hits) == 8
    assert not made.notes


def test_a_single_passage_over_the_window_is_shortened_at_a_sentence_and_reported() -> None:
    driver = Driver("Yes [1].")
    made = driver.run(answer("Why?", PERSONA, LONG[:1], setup(500)))
    (shown,) = made.hits
    assert LONG[0].text.startswith(shown.text)
    assert shown.text.endswith("here.")
    assert shown.end == len(shown.text)
    assert made.citations[0].end == shown.end
    assert "1 (Book 1, page 3) has about" in made.notes[0]
    assert size(driver.chats[0]) + 100 <= 500


def test_a_prompt_that_leaves_no_room_is_refused_before_any_call() -> None:
    driver = Driver("Yes [1].")
    with pytest.raises(PromptError, match="that fills the window of 200"):
        driver.run(answer("Why?", PERSONA, LONG, setup(200)))
    assert not driver.chats


def test_a_template_that_shows_passages_twice_still_fits(tmp_path: Path) -> None:
    file = tmp_path / "twice.yaml"
    file.write_text(
        "parts:\n  context: |-\n    {% for p in passages %}[{{ p.number }}] {{ p.text }}\n"
        "    {{ p.text }}\n    {% endfor %}\n"
    )
    chosen = setup(1500)
    parts = PromptOptions(template=str(file))
    twice = AskPlan(chosen.options, parts, window_of=chosen.window_of)
    driver = Driver("Yes [1].")
    made = driver.run(answer("Why?", PERSONA, LONG, twice))
    assert size(driver.chats[0]) + 100 <= 1500
    assert any("the window is full" in note for note in made.notes)
    frame = PromptFrame("Why?", PERSONA, parts, Window(400, WordTokenizer()), 10)
    prompt, (only,), notes = frame.fitted(LONG[:1])
    assert frame.window.size(prompt.messages) + 10 <= 400
    assert len(only.text) < len(LONG[0].text)
    assert "shortened" in notes[-1]


@pytest.mark.parametrize("method", ["summarise_each", "running", "tree"])
def test_summarising_calls_fit_too_and_long_passages_are_read_in_parts(method: str) -> None:
    def reply(request: Chat) -> str:
        assert size(request) + 360 <= 1300
        return "notes [1] " + str(len(driver.chats))

    whole = hit(1, " ".join(f"Sentence {k} is here." for k in range(600)), title="Long")
    window = Window(1300, WordTokenizer())
    driver = Driver(reply)
    how = ConsolidateOptions(method, "m:x", 1000, window=window)  # type: ignore[arg-type]
    made = driver.run(consolidate("Why?", [whole, LONG[0]], how))
    assert any("1 (Long, page 3) is longer than the model's window" in n for n in made.notes)
    seen = "".join(request.messages[-1].content for request in driver.chats)
    assert all(f"Sentence {k} is here." in seen for k in range(600))
    assert [h.title for h in made.hits] == ["Long", "Book 1"]


def test_a_window_too_small_to_summarise_is_refused() -> None:
    how = ConsolidateOptions("running", "m:x", 1000, window=Window(500, WordTokenizer()))
    with pytest.raises(PromptError, match="too much for a window of 500"):
        Driver("x").run(consolidate("Why?", LONG, how))


def test_summaries_without_bearing_are_named() -> None:
    how = ConsolidateOptions("summarise_each", "m:x", 1000)
    made = Driver("NOTHING").run(consolidate("Why?", LONG[:2], how))
    assert "1 (Book 1, page 3), 2 (Book 2, page 3)" in made.notes[0]


def test_earlier_turns_that_do_not_fit_are_left_out_oldest_first() -> None:
    history = [Message("user", f"turn {n} " + "word " * 50) for n in range(10)]
    driver = Driver("What about the pump?")
    window = Window(600, WordTokenizer())
    made = driver.run(condense("And it?", history, "m:x", window))
    assert "turn 9" in driver.chats[0].messages[-1].content
    assert "turn 0" not in driver.chats[0].messages[-1].content
    assert size(driver.chats[0]) + 200 <= 600
    assert "earlier turns left out" in made.notes[0]


def test_the_estimate_is_on_the_safe_side_and_a_learned_ratio_replaces_it() -> None:
    assert count_tokens("word " * 100) == 151
    assert count_tokens("x" * 4000) > 1000
    assert Window(ratio=4.0).count("x" * 400) == 111  # with a margin of a tenth, rounded up
    assert Window(tokenizer=WordTokenizer(), ratio=4.0).count("a b") == 2


def test_the_ratio_is_learned_from_stored_replies(tmp_path: Path) -> None:
    replies = Replies(tmp_path / "replies.sqlite")
    try:
        with ScriptedServer(Reply("ok", usage=(100, 1))) as server:
            name = f"{server.url}#scripted"
            models = Models({name: ModelSettings(context_window=8000)})
            assert generator_window(name, models, replies) == Window(8000)
            with Runner(model_handlers(models), replies=replies) as runner:
                flows = [chat(name, [Message("user", f"{n:03}" + "x" * 427)]) for n in range(25)]
                assert all(isinstance(reply, ChatReply) for reply in runner.map(flows))
            assert generator_window(name, models, replies) == Window(8000, ratio=4.25)
    finally:
        replies.close()


@pytest.mark.slow
@settings(max_examples=80, deadline=None)
@given(st.text(alphabet="ab. \n", min_size=1, max_size=120), st.integers(1, 12))
def test_pieces_hold_all_words_within_the_room(text: str, room: int) -> None:
    whole = Hit(1, 1.0, "d", "d:5", "d", "d", None, 5, 5 + len(text), text)
    count = WordTokenizer().count
    pieces = list(split_hit(whole, room, count))
    assert all(count(piece.text) <= room for piece in pieces)
    assert all(text[p.start - 5 : p.end - 5] == p.text for p in pieces)
    assert "".join("".join(p.text for p in pieces).split()) == "".join(text.split())


def test_dropped_passages_are_named_up_to_a_point() -> None:
    many = [hit(n, "word " * 100) for n in range(1, 40)]
    kept, (note,) = fit_hits(many, 400, WordTokenizer().count)
    assert 0 < len(kept) < 5
    assert note.endswith("more")
    assert f"{len(kept) + 1} (Manual, page 3)" in note
