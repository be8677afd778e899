"""The answering flow, offline and with a chat model, driven by hand."""

from __future__ import annotations

import re

import pytest
from answer_fakes import Driver, dense, hit

from ragwright.answer import (
    AnswerOptions,
    AnswerSetup,
    PromptOptions,
    abstains,
    answer,
    avg_chunk_score,
    fit_hits,
    order_hits,
    split_sentences,
)
from ragwright.core import ModelReplyError, Persona
from ragwright.flow import ChatReply, Rerank
from ragwright.models import ExtractiveReranker, WordTokenizer

PUMP = (
    "# Faults\n\nAPP_w304 means that the fuel pump is blocked. Replace the filter and start the "
    "engine again.\n\n| Code | Part |\n|---|---|\n| APP_w305 | lamp |\n\n"
    "The manual was printed in 2021."
)
LAMP = "The lamp on the dashboard turns red when the oil is low. It turns off after ten seconds."
HITS = [hit(1, PUMP, title="Fault codes", start=100), hit(2, LAMP, title="Dashboard")]
PERSONA = Persona("short", max_words=40)


def chat_setup(**options: object) -> AnswerSetup:
    return AnswerSetup(AnswerOptions(model="openai:m", **options))  # type: ignore[arg-type]


class TestExtractive:
    """Quoting sentences offline."""

    def test_an_answer_quotes_the_sentence_and_cites_its_exact_span(self) -> None:
        driver = Driver()
        made = driver.run(answer("What does APP_w304 mean?", PERSONA, HITS))
        assert made.model == "extractive"
        assert not made.abstained
        assert made.text.startswith("APP_w304 means that the fuel pump is blocked. [1]")
        first = made.citations[0]
        assert (first.source, first.page) == ("doc1.pdf", 3)
        assert PUMP[first.start - 100 : first.end - 100] in made.text
        assert any("no model wrote" in note for note in made.notes)
        assert made.hits == tuple(HITS)

    def test_one_request_is_made_and_names_its_documents(self) -> None:
        driver = Driver()
        driver.run(answer("What does APP_w304 mean?", PERSONA, HITS))
        (request,) = driver.seen
        assert isinstance(request, Rerank)
        assert set(request.sources) == {"doc1", "doc2"}

    def test_every_citation_is_marked_in_the_text(self) -> None:
        made = Driver().run(answer("When does the lamp turn red?", PERSONA, HITS))
        assert all(f"[{c.marker}]" in made.text for c in made.citations)
        assert made.citations[0].marker == 2

    def test_nothing_is_said_where_nothing_answers(self) -> None:
        made = Driver().run(answer("Who is the mayor of Ulan Bator?", PERSONA, HITS))
        assert made.abstained
        assert not made.citations
        assert any("closest" in note for note in made.notes)

    def test_a_score_just_under_the_threshold_is_told_apart_from_it(self) -> None:
        question = "What does APP_w304 mean?"
        sure = answer(question, PERSONA, HITS, AnswerSetup(AnswerOptions(threshold=1.0)))
        made = Driver().run(sure)
        (note,) = made.notes
        reached, needed = re.findall(r"\d\.\d+", note)
        assert float(reached) < float(needed) == 1.0
        for above in (1e-2, 1e-3, 1e-4):
            threshold = made.closest[0].score + above
            flow = answer(question, PERSONA, HITS, AnswerSetup(AnswerOptions(threshold=threshold)))
            (note,) = Driver().run(flow).notes
            low, high = re.findall(r"\d\.\d+", note)
            assert float(low) < float(high)

    def test_the_refusal_speaks_the_language_of_the_question(self) -> None:
        made = Driver().run(answer("Qui est le maire de la ville ?", PERSONA, HITS))
        assert made.abstained
        assert "documents trouvés" in made.text

    @pytest.mark.parametrize("hits", [[], [hit(1, " \n ")], [hit(1, "# Title\n\n---\n")]])
    def test_without_sentences_it_abstains_without_a_request(self, hits: list[object]) -> None:
        driver = Driver()
        made = driver.run(answer("Why?", PERSONA, hits))  # type: ignore[arg-type]
        assert made.abstained
        assert not driver.seen

    def test_the_word_limit_of_the_persona_holds(self) -> None:
        text = " ".join(f"The pump number {n} is blue and stands in hall {n}." for n in range(20))
        question = "Where does the pump stand?"
        counter = WordTokenizer()
        for limit in (12, 30, 60):
            made = Driver().run(answer(question, Persona("p", max_words=limit), [hit(1, text)]))
            if not made.abstained:
                assert counter.count(made.text) - len(made.citations) <= limit

    def test_a_sentence_longer_than_the_limit_is_kept_whole_and_noted(self) -> None:
        made = Driver().run(answer("What does APP_w304 mean?", Persona("p", max_words=3), HITS))
        assert "APP_w304 means that the fuel pump is blocked." in made.text
        assert any("over the 3" in note for note in made.notes)

    def test_overlapping_chunks_are_quoted_once(self) -> None:
        again = hit(2, PUMP[10:], title="Fault codes", start=110, document="doc1")
        made = Driver().run(answer("What does APP_w304 mean?", PERSONA, [HITS[0], again]))
        assert made.text.count("fuel pump is blocked") == 1

    def test_headings_and_rules_are_not_quoted(self) -> None:
        texts = [s.text for s in split_sentences(HITS)]
        assert "# Faults" not in texts
        assert "|---|---|" not in texts
        assert "| APP_w305 | lamp |" in texts

    def test_a_torn_sentence_is_known_as_such(self) -> None:
        torn = hit(1, "of the pump is blue. The lamp is red. The filter of the", start=50)
        weights = [s.weight for s in split_sentences([torn])]
        assert weights[1] == 1.0
        assert max(weights[0], weights[2]) < 1.0

    def test_code_and_front_matter_are_context_not_answers(self) -> None:
        page = (
            "---\ntitle: Error C2065\nms.date: 1\n---\n# Error C2065\n\nA name is not declared.\n\n"
            "```cpp\nint x = 1; // C2065 is expected here.\n```\n\n// C2065 means this.\n"
        )
        texts = [s.text for s in split_sentences([hit(1, page)])]
        assert texts == ["A name is not declared."]

    @pytest.mark.parametrize(
        "after", ["```cpp\nint y; // C2065 again.\n```\n", "The end is near.\n"]
    )
    def test_a_chunk_that_starts_inside_code_quotes_only_prose(self, after: str) -> None:
        chunk = (
            "    call G<T>(10); // C2065\n    int x = 1;\n}\n```\n\nA name is not declared.\n\n"
        ) + after
        torn = hit(1, chunk, start=400)
        sentences = split_sentences([torn])
        assert sentences[0].text == "A name is not declared."
        assert not any("C2065" in s.text for s in sentences)
        span = sentences[0].span
        assert chunk[span.start - 400 : span.end - 400] == "A name is not declared."

    def test_a_chunk_that_starts_in_prose_keeps_it(self) -> None:
        chunk = "The pump is blocked.\n\n```\nx = 1\n```\n\nReplace the filter.\n"
        texts = [s.text for s in split_sentences([hit(1, chunk, start=400)])]
        assert texts == ["The pump is blocked.", "Replace the filter."]

    def test_footnotes_and_links_of_the_source_are_not_quoted(self) -> None:
        page = "The [pump](http://a.example/x) is blocked.[3] It is old. [12]"
        texts = [s.text for s in split_sentences([hit(1, page)])]
        assert texts[0] == "The pump is blocked."
        assert "[" not in "".join(texts)

    def test_spans_point_at_the_text_of_the_hit(self) -> None:
        for sentence in split_sentences(HITS):
            at = HITS[sentence.number - 1]
            raw = at.text[sentence.span.start - at.start : sentence.span.end - at.start]
            assert " ".join(raw.split()) == sentence.text


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
        driver.run(answer("Why?", PERSONA, HITS, chat_setup(temperature=0.7, seed=3, stream=True)))
        (request,) = driver.chats
        assert dict(request.params)["temperature"] == 0.7
        assert dict(request.params)["seed"] == 3
        assert request.stream
        assert request.sources == ("doc1", "doc2")

    def test_a_personas_own_model_wins(self) -> None:
        driver = Driver("x")
        made = driver.run(answer("Why?", Persona("p", model="ollama:q"), HITS, chat_setup()))
        assert driver.chats[0].model == made.model == "ollama:q"

    def test_an_abstention_is_recognised_by_the_configured_cue(self) -> None:
        setup = AnswerSetup(AnswerOptions(model="openai:m"), PromptOptions(cue="NO ANSWER HERE"))
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

    def test_an_empty_reply_is_an_error(self) -> None:
        with pytest.raises(ModelReplyError, match="empty") as caught:
            Driver("  ").run(answer("Why?", PERSONA, HITS, chat_setup()))
        assert caught.value.hint is not None
        assert "answer.max_tokens" in caught.value.hint
        # `ask` has no such option; only runs of testsets do.
        assert "--retry-errors" not in caught.value.hint

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


def test_the_model_that_answers_by_default_quotes_offline() -> None:
    assert AnswerOptions().model == ExtractiveReranker.name
