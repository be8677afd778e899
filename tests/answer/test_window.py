"""Prompts that fit the generator's window, contexts made shorter, and what had to go for it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hand_driver import Driver, hit
from hypothesis import given, strategies as st

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
from ragwright.core import Answer, Hit, Persona, PromptError
from ragwright.flow import Chat, ChatReply, Message, Replies, Runner, chat
from ragwright.models import Models, ModelSettings, WordTokenizer, model_handlers
from ragwright.testing import Reply, ScriptedServer

PERSONA = Persona("p", audience="mechanics", writing_style="plain")


def sentences(count: int, of: str = "") -> str:
    return " ".join(f"Sentence {k}{of} is here." for k in range(count))


LONG = [hit(n, sentences(40, f" of passage {n}"), title=f"Book {n}") for n in range(1, 9)]


def setup(tokens: int | None, prompt: PromptOptions | None = None, **options: Any) -> AskPlan:
    chosen = AnswerOptions(model="m:x", max_tokens=100, **options)
    window = Window(tokens, WordTokenizer())
    return AskPlan(chosen, prompt or PromptOptions(), window_of=lambda _: window)


def size(request: Chat) -> int:
    return Window(tokenizer=WordTokenizer()).size(request.messages)


def asked(plan: AskPlan, hits: list[Hit] = LONG) -> tuple[Answer, list[Chat]]:
    driver = Driver("Yes [1].")
    return driver.run(answer("Why?", PERSONA, hits, plan)), driver.chats


@pytest.mark.parametrize("tokens", [700, 900, 1500, 4000])
@pytest.mark.parametrize("order", ["best_first", "best_last", "best_at_ends"])
def test_prompt_and_reply_fit_and_every_passage_is_shown_or_named(tokens: int, order: Any) -> None:
    made, (request,) = asked(setup(tokens, hit_order=order))
    assert size(request) + 100 <= tokens
    ranks = sorted(h.rank for h in made.hits)
    assert ranks == list(range(1, len(ranks) + 1))
    assert made.hits == order_hits(sorted(made.hits, key=lambda h: h.rank), order)
    said = " ".join(made.notes)
    for number in range(1, 9):
        assert (number in ranks) != (f"{number} (Book {number}, page 3)" in said)


def test_the_order_of_hits_can_spare_the_middle() -> None:
    hits = [hit(n, "x") for n in range(1, 6)]
    assert [h.rank for h in order_hits(hits, "best_at_ends")] == [1, 3, 5, 4, 2]
    assert [h.rank for h in order_hits(hits, "best_last")] == [5, 4, 3, 2, 1]


def test_without_a_known_window_the_setting_alone_counts() -> None:
    made, _ = asked(setup(None))
    assert (len(made.hits), made.notes) == (8, ())


def test_a_single_passage_over_the_window_is_shortened_at_a_sentence_and_reported() -> None:
    made, (request,) = asked(setup(500), LONG[:1])
    (shown,) = made.hits
    assert LONG[0].text.startswith(shown.text)
    assert shown.text.endswith("here.")
    assert shown.end == len(shown.text) == made.citations[0].end
    assert "1 (Book 1, page 3) has about" in made.notes[0]
    assert size(request) + 100 <= 500


def test_a_template_that_shows_passages_twice_still_fits(tmp_path: Path) -> None:
    file = tmp_path / "twice.yaml"
    file.write_text(
        "parts:\n  context: |-\n    {% for p in passages %}[{{ p.number }}] {{ p.text }}\n"
        "    {{ p.text }}\n    {% endfor %}\n"
    )
    parts = PromptOptions(template=str(file))
    made, (request,) = asked(setup(1500, parts))
    assert size(request) + 100 <= 1500
    assert any("the window is full" in note for note in made.notes)
    frame = PromptFrame("Why?", PERSONA, parts, Window(400, WordTokenizer()), 10)
    prompt, (only,), notes = frame.fit(LONG[:1])
    assert frame.window.size(prompt.messages) + 10 <= 400
    assert len(only.text) < len(LONG[0].text)
    assert "shortened" in notes[-1]


def test_a_window_that_leaves_no_room_is_refused_before_any_call() -> None:
    driver = Driver("Yes [1].")
    with pytest.raises(PromptError, match="that fills the window of 200"):
        driver.run(answer("Why?", PERSONA, LONG, setup(200)))
    how = ConsolidateOptions("running", "m:x", 1000, window=Window(500, WordTokenizer()))
    with pytest.raises(PromptError, match="too much for a window of 500"):
        driver.run(consolidate("Why?", LONG, how))
    assert not driver.chats


def test_earlier_turns_that_do_not_fit_are_left_out_oldest_first() -> None:
    history = [Message("user", f"turn {n} " + "word " * 50) for n in range(10)]
    driver = Driver("What about the pump?")
    made = driver.run(condense("And it?", history, "m:x", Window(600, WordTokenizer())))
    assert "turn 9" in driver.prompts[0]
    assert "turn 0" not in driver.prompts[0]
    assert size(driver.chats[0]) + 200 <= 600
    assert "earlier turns left out" in made.notes[0]


def test_dropped_passages_are_named_up_to_a_point_and_the_first_stays() -> None:
    many = [hit(n, "word " * 100) for n in range(1, 40)]
    kept, (note,) = fit_hits(many, 400, WordTokenizer().count)
    assert 0 < len(kept) < 5
    assert note.endswith("more")
    assert f"{len(kept) + 1} (Manual, page 3)" in note
    kept, notes = fit_hits([hit(1, "word " * 500)], 100)
    assert (len(kept), len(notes)) == (1, 1)


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
@given(st.text(alphabet="ab. \n", min_size=1, max_size=120), st.integers(1, 12))
def test_pieces_hold_all_words_within_the_room(text: str, room: int) -> None:
    whole = hit(1, text, start=5)
    pieces = list(split_hit(whole, room, WordTokenizer().count))
    assert all(WordTokenizer().count(piece.text) <= room for piece in pieces)
    assert all(text[p.start - 5 : p.end - 5] == p.text for p in pieces)
    assert "".join("".join(p.text for p in pieces).split()) == "".join(text.split())


# -- consolidating ---------------------------------------------------------------------------

HITS = [hit(n, f"Long passage {n} about the pump.") for n in range(1, 6)]


def summariser(request: Chat) -> str:
    """Summaries that name their passage; the third says nothing on the question."""
    text = request.messages[-1].content
    if "Merge the notes" in text:
        return "merged: " + " ".join(f"[{n}]" for n in range(1, 6) if f"[{n}]" in text)
    if "Notes so far" in text:
        return text.split("Notes so far:")[1].split("\n\n")[0].strip() + " +"
    if "Summarise the passage" in text:
        return "NOTHING." if "passage 3" in text else "short " + text[-20:]
    return "The pump [1]."


def test_each_way_of_consolidating_asks_what_it_says() -> None:
    def by(method: Any) -> tuple[Any, list[Chat]]:
        driver = Driver(summariser)
        how = ConsolidateOptions(method, "m:x", 5000)
        made = driver.run(consolidate("Why?", HITS, how))
        assert all(chat.sources for chat in driver.chats)
        return made, driver.chats

    made, chats = by("concatenate")
    assert (made.hits, chats) == (tuple(HITS), [])
    made, chats = by("summarise_each")
    assert [h.chunk_id for h in made.hits] == [h.chunk_id for n, h in enumerate(HITS) if n != 2]
    assert all(h.text.startswith("short") for h in made.hits)
    assert "left out" in made.notes[0]
    assert "3 (Manual, page 3)" in made.notes[0]
    made, chats = by("running")
    assert (len(chats), made.summary.count("+")) == (5, 5)


@pytest.mark.parametrize("budget", [1, 12, 5000])
def test_a_tree_ends_in_one_text_whatever_the_budget(budget: int) -> None:
    how = ConsolidateOptions("tree", "m:x", budget)
    made = Driver(summariser).run(consolidate("Why?", HITS, how))
    assert made.summary.startswith("merged")
    assert "[4]" in made.summary
    assert len(made.hits) == 4


@pytest.mark.parametrize(
    ("method", "reply", "abstained"),
    [("tree", summariser, False), ("summarise_each", "NOTHING", True)],
)
def test_a_summary_cites_the_passages(method: Any, reply: Any, abstained: bool) -> None:
    driver = Driver(reply)
    plan = AskPlan(AnswerOptions(model="m:x", consolidate=method))
    made = driver.run(answer("Why?", PERSONA, HITS, plan))
    assert made.abstained is abstained
    assert [c.source for c in made.citations] == ([] if abstained else [HITS[0].source])
    assert abstained or "merged" in driver.prompts[-1]
    assert abstained or "Long passage" not in driver.prompts[-1]


@pytest.mark.parametrize("method", ["summarise_each", "running", "tree"])
def test_summarising_calls_fit_too_and_long_passages_are_read_in_parts(method: Any) -> None:
    def reply(request: Chat) -> str:
        assert size(request) + 360 <= 1300
        return "notes [1] " + str(len(driver.chats))

    driver, whole = Driver(reply), hit(1, sentences(600), title="Long")
    how = ConsolidateOptions(method, "m:x", 1000, window=Window(1300, WordTokenizer()))
    made = driver.run(consolidate("Why?", [whole, LONG[0]], how))
    assert any("1 (Long, page 3) is longer than the model's window" in n for n in made.notes)
    seen = "".join(driver.prompts)
    assert all(f"Sentence {k} is here." in seen for k in range(600))
    assert [h.title for h in made.hits] == ["Long", "Book 1"]
