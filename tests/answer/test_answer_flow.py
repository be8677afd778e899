"""The answering flow, offline and with a chat model, driven by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest
from answer_fakes import Driver, dense, hit

from ragwright.answer import (
    AnswerOptions,
    AskPlan,
    PromptOptions,
    abstains,
    answer,
    avg_chunk_score,
    fit_hits,
    order_hits,
)
from ragwright.core import ModelReplyError, Persona
from ragwright.flow import ChatReply
from ragwright.models import NO_MODEL

PUMP = (
    "# Faults\n\nAPP_w304 means that the fuel pump is blocked. Replace the filter and start the "
    "engine again.\n\n| Code | Part |\n|---|---|\n| APP_w305 | lamp |\n\n"
    "The manual was printed in 2021."
)
LAMP = "The lamp on the dashboard turns red when the oil is low. It turns off after ten seconds."
HITS = [hit(1, PUMP, title="Fault codes", start=100), hit(2, LAMP, title="Dashboard")]
PERSONA = Persona("short")


def chat_setup(**options: object) -> AskPlan:
    return AskPlan(AnswerOptions(model="openai:m", **options))  # type: ignore[arg-type]


class TestWithoutAModel:
    """Snippets of the passages; test_snippets.py asks whole projects."""

    def test_the_best_unit_is_first_and_each_snippet_is_cited(self) -> None:
        driver = Driver()
        made = driver.run(answer("What does APP_w304 mean?", PERSONA, HITS))
        assert (made.model, made.abstained, driver.seen) == (NO_MODEL, False, [])
        best = made.snippets[0]
        assert "APP_w304 means that the fuel pump is blocked." in best.text
        assert best.text[slice(*best.marked)] == "APP_w304 means that the fuel pump is blocked."
        assert PUMP[best.start - 100 : best.end - 100] == best.text
        assert [c.marker for c in made.citations] == [*range(1, len(made.snippets) + 1)]
        assert all(f"[{c.marker}]" in made.text for c in made.citations)
        assert made.hits == tuple(HITS)

    @pytest.mark.parametrize("question", ["Who is the mayor of Ulan Bator?", "Why?"])
    def test_nothing_is_shown_where_nothing_covers_the_question(self, question: str) -> None:
        made = Driver().run(answer(question, PERSONA, [hit(1, " \n ")]))
        assert made.abstained
        assert made.citations == ()
        assert made.snippets == ()

    def test_overlapping_chunks_are_shown_once(self) -> None:
        again = hit(2, PUMP[10:], title="Fault codes", start=110, document="doc1")
        made = Driver().run(answer("What does APP_w304 mean?", PERSONA, [HITS[0], again]))
        assert made.text.count("fuel pump is blocked") == 1


class TestWritten:
    """Answers by a chat model."""

    def test_a_reply_is_cited_and_kept_with_its_prompt(self) -> None:
        driver = Driver("The pump is blocked [1]. The lamp is red [9].")
        made = driver.run(answer("Why?", PERSONA, HITS, chat_setup()))
        assert made.text.startswith("The pump is blocked")
        assert [c.marker for c in made.citations] == [1]
        assert (made.citations[0].start, made.citations[0].end) == (HITS[0].start, HITS[0].end)
        assert any("[9]" in note for note in made.notes)
        assert made.model == "openai:m"
        assert made.prompt[0][0] == "system"
        assert not made.abstained

    def test_the_request_carries_parameters_stream_and_sources(self) -> None:
        driver = Driver("x")
        driver.run(answer("Why?", PERSONA, HITS, replace(chat_setup(temperature=0.7), stream=True)))
        (request,) = driver.chats
        assert dict(request.params)["temperature"] == 0.7
        assert request.stream
        assert request.sources == ("doc1", "doc2")

    def test_a_personas_own_model_wins(self) -> None:
        driver = Driver("x")
        made = driver.run(answer("Why?", Persona("p", model="ollama:q"), HITS, chat_setup()))
        assert driver.chats[0].model == made.model == "ollama:q"

    def test_an_abstention_is_recognised_by_the_configured_cue(self) -> None:
        setup = AskPlan(AnswerOptions(model="openai:m"), PromptOptions(cue="NO ANSWER HERE"))
        driver = Driver("**No answer here.** The closest is the pump [1].")
        made = driver.run(answer("Why?", PERSONA, HITS, setup))
        assert made.abstained
        assert [c.marker for c in made.citations] == [1]
        assert "NO ANSWER HERE" in driver.chats[0].messages[0].content

    def test_without_hits_no_call_is_made(self) -> None:
        driver = Driver("x")
        made = driver.run(answer("Why?", PERSONA, [], chat_setup()))
        assert made.abstained
        assert not driver.seen

    def test_a_closed_book_question_shows_no_passages(self) -> None:
        driver = Driver("From memory.")
        made = driver.run(answer("Why?", PERSONA, HITS, chat_setup(closed_book=True)))
        text = " ".join(m.content for m in driver.chats[0].messages)
        assert "pump" not in text
        assert "passage" not in text
        assert made.hits == ()

    @pytest.mark.parametrize(
        ("finish", "said", "advice"),
        [
            ("stop", "an empty answer", "ask again"),
            ("length", "used up its tokens", "answer.max_tokens"),
            ("content_filter", "content filter withheld it", "ask in other words"),
            ("tool_calls", "called a tool in place", "take tools out"),
        ],
    )
    def test_a_reply_without_text_is_an_error_of_its_own(
        self, finish: str, said: str, advice: str
    ) -> None:
        reply = ChatReply("  ", finish=finish)
        with pytest.raises(ModelReplyError, match=said) as caught:
            Driver(reply).run(answer("Why?", PERSONA, HITS, chat_setup()))
        assert advice in str(caught.value.hint)
        assert ("max_tokens" in str(caught.value.hint)) == (finish == "length")

    def test_a_refusal_is_an_abstention_in_the_models_own_words(self) -> None:
        reply = ChatReply("I cannot help with pumps.", finish="refusal")
        refused = Driver(reply).run(answer("Why?", PERSONA, HITS, chat_setup()))
        assert (refused.text, refused.abstained) == ("I cannot help with pumps.", True)
        assert "the model refused" in refused.notes
        assert refused.finish == "content_filter"

    @pytest.mark.parametrize(
        ("reply", "closed_book", "noted"),
        [
            ("The pump is blocked.", False, True),
            ("The pump is blocked [9].", False, True),
            ("The pump is blocked [1].", False, False),
            ("The passages do not answer this question.", False, False),
            ("The pump is blocked.", True, False),
        ],
    )
    def test_an_answer_without_a_citation_says_so(
        self, reply: str, closed_book: bool, noted: bool
    ) -> None:
        flow = answer("Why?", PERSONA, HITS, chat_setup(closed_book=closed_book))
        made = Driver(reply).run(flow)
        assert ("the answer cites no passage" in made.notes) is noted

    def test_what_went_wrong_on_the_way_is_noted(self) -> None:
        reply = ChatReply("Cut off", finish="length", dropped=("seed",))
        made = Driver(reply).run(answer("Why?", PERSONA, HITS, chat_setup(max_tokens=5)))
        assert any("cut" in note for note in made.notes)
        assert any("seed" in note for note in made.notes)

    def test_passages_over_the_budget_are_dropped_from_the_end_and_noted(self) -> None:
        long = [hit(n, f"Passage {n}. " + "word " * 300) for n in range(1, 6)]
        driver = Driver("ok [1]")
        made = driver.run(answer("Why?", PERSONA, long, chat_setup(context_tokens=1000)))
        assert 0 < len(made.hits) < 5
        assert made.hits == tuple(long[: len(made.hits)])
        assert any("left out" in note for note in made.notes)
        assert "Passage 5" not in driver.chats[0].messages[-1].content


def test_a_first_passage_over_the_budget_stays_and_is_noted() -> None:
    kept, notes = fit_hits([hit(1, "word " * 500)], 100)
    assert len(kept) == 1
    assert notes


def test_the_order_of_hits_can_spare_the_middle() -> None:
    hits = [hit(n, "x") for n in range(1, 6)]
    assert [h.rank for h in order_hits(hits, "best_at_ends")] == [1, 3, 5, 4, 2]
    assert [h.rank for h in order_hits(hits, "best_last")] == [5, 4, 3, 2, 1]


def test_the_cue_is_looked_for_at_the_beginning_only() -> None:
    cue = "The passages do not answer this question."
    assert abstains("The passages do not answer this question, but the pump [1] is near.", cue)
    assert abstains('Sorry. "The passages  do not answer this question".', cue)
    late = "A is B. C is D. E is F. The passages do not answer this question."
    assert not abstains(late, cue)
    assert not abstains("The pump answers.", cue)
    assert not abstains("anything", "")


def test_mean_similarity_of_the_chunks_comes_from_the_dense_channel() -> None:
    made = Driver("x").run(
        answer("Why?", PERSONA, [dense(1, "a", 0.5), dense(2, "b", 0.3)], chat_setup())
    )
    assert avg_chunk_score(made) == pytest.approx(0.4)
    assert avg_chunk_score(Driver("x").run(answer("Why?", PERSONA, HITS, chat_setup()))) is None


def test_no_chat_model_is_set_by_default() -> None:
    assert AnswerOptions().model == NO_MODEL
