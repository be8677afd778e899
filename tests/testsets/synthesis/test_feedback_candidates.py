"""Checks of candidates that need no model, in English and French."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st

from ragwright.core import GoldSpan, Span
from ragwright.models import Analyzer
from ragwright.testsets import (
    Candidate,
    Survey,
    Vocabulary,
    context_fault,
    language_fault,
    locate_quote,
    reject_near_duplicates,
)
from ragwright.testsets.synthesis import is_supported, measure_held_share

WORDS = Analyzer()


def candidate(question: str, kind: str = "model") -> Candidate:
    return Candidate(kind, question, "", GoldSpan("d", 0, 1, "x"))


@pytest.mark.parametrize(
    ("question", "fault"),
    [
        ("What does the document say about pumps?", "refers to the text"),
        ("What is the main idea of the second paragraph about Rome?", "refers to the text"),
        ("Que dit le texte sur les pompes de Lyon ?", "refers to the text"),
        ("Quelle idée l'auteur défend-il sur la Révolution ?", "refers to the text"),
        ("Was steht in diesem Abschnitt über Pumpen?", "refers to the text"),
        ("Which valve is mentioned above the pump?", "refers to the text"),
        ("And how hot does the kiln get?", "continues something"),
        ("Why does this pump stop?", "uses a demonstrative"),
        ("Pourquoi cette pompe de chauffage s'arrête-t-elle ?", "uses a demonstrative"),
        ("When was it repaired?", "has a pronoun"),
        ("It must be changed every ____ years by a mechanic.", "has a pronoun"),
        ("Il appartient au groupe des ____ de la région.", "has a pronoun"),
        (
            "C'est une ____ parlementaire qui a pour monnaie nationale le złoty.",
            "continues something",
        ),
        ("Certains de ses fans auraient voulu imiter la ____ de Jackson.", "has a pronoun"),
        ("Au ____ siècle, il a été intégré au concert de la musique carnatique.", "has a pronoun"),
        ("During the great storm of 1902, it lost the ____ of its tower.", "has a pronoun"),
        ("What is known?", "names nothing"),
    ],
)
def test_questions_without_context_are_told(question: str, fault: str) -> None:
    assert fault in context_fault(question, WORDS)


@pytest.mark.parametrize(
    "question",
    [
        "When does the circulation pump restart after the winding has cooled?",
        "Is it necessary to drain the circulation pump before winter?",
        "Why does the Marlow kiln lose its heat so slowly?",
        "Pourquoi Harpagon cache-t-il sa cassette dans le jardin ?",
        "Combien de temps faut-il pour vidanger le circuit de chauffage ?",
        "Qu'est-ce que la gabelle sous l'Ancien Régime ?",
        "Which documents are kept in the Lund archive?",
        "Après la défaite de Napoléon à Waterloo, il fut exilé sur quelle île ?",
    ],
)
def test_questions_that_stand_alone_pass(question: str) -> None:
    assert context_fault(question, WORDS) == ""


def test_the_language_of_a_question_is_that_of_its_source() -> None:
    french = "Dans quelle ville est-ce que le roi a signé le traité avec les Anglais ?"
    assert language_fault(french, "fr") == ""
    assert "'fr'" in language_fault(french, "en")
    assert language_fault(french, "") == ""
    assert language_fault("Turbine 7?", "fr") == ""  # too little to tell


def test_an_answer_is_held_by_its_content_words_and_all_its_numbers() -> None:
    text = "The Marlow kiln reaches 1280 degrees in nine hours."
    assert is_supported("1280 degrees", text, WORDS)
    assert not is_supported("1290 degrees", text, WORDS)
    assert not is_supported("in a dozen days", text, WORDS)
    assert measure_held_share("", text, WORDS) == 1.0


def test_a_quote_is_located_letter_by_letter_and_once() -> None:
    text = "One two\n  three. One two. Four."
    span, why = locate_quote("two three.", text, 100, "d")
    assert span == GoldSpan("d", 104, 116, "two\n  three.")
    assert why == ""
    assert locate_quote("One two", text, 0, "d") == (None, "the evidence occurs twice")
    assert locate_quote("one two three", text, 0, "d") == (
        None,
        "the evidence is not in the passage",
    )
    assert locate_quote(" ", text, 0, "d") == (None, "the evidence is empty")
    assert locate_quote("t(w", text, 0, "d")[0] is None  # a quote is no pattern


@given(st.text("ab \n", min_size=1, max_size=40), st.integers(0, 500), st.data())
def test_a_located_span_is_its_text(text: str, offset: int, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(text) - 1))
    end = data.draw(st.integers(start + 1, len(text)))
    span, why = locate_quote(text[start:end], text, offset, "d")
    assert (span is None) == bool(why)
    if span is not None:
        assert text[span.start - offset : span.end - offset] == span.text
        assert span.text.split() == text[start:end].split()


def test_near_duplicates_go_by_words_and_by_meaning() -> None:
    given = [
        candidate("When does the pump restart after cooling?"),
        candidate("After cooling, when does the pump restart?"),
        candidate("Which valve closes at night?"),
        candidate("What shuts when it is dark?"),
        candidate("rejected before").rejected("because"),
    ]
    by_words = reject_near_duplicates(given, WORDS)
    assert [bool(one.reason) for one in by_words] == [False, True, False, False, True]
    assert by_words[4].reason == "because"
    vectors = np.array([[1, 0], [1, 0], [0, 2], [0.01, 2], [1, 1]], dtype=np.float32)
    by_meaning = reject_near_duplicates(given, WORDS, vectors)
    assert [bool(one.reason) for one in by_meaning] == [False, True, False, True, True]
    far = reject_near_duplicates(given, WORDS, np.eye(5, dtype=np.float32))
    assert [bool(one.reason) for one in far] == [False, True, False, False, True]


def test_headings_that_share_words_are_not_one() -> None:
    given = [
        candidate("Play: Act II: Scene V", "heading"),
        candidate("Play: Act V: Scene II", "heading"),
    ]
    assert not any(one.reason for one in reject_near_duplicates(given, WORDS))
    assert reject_near_duplicates([given[0], given[0]], WORDS)[1].reason


def test_leak_is_the_share_of_rare_words_that_is_repeated() -> None:
    vocabulary = Vocabulary(WORDS)
    chunk = "pump winding cooling thermostat"
    vocabulary.add(chunk)
    for _ in range(9):
        vocabulary.add("pump house")
    assert set(vocabulary.rare(chunk)) == set(WORDS.tokens("winding cooling thermostat"))
    assert vocabulary.leak("Which pump?", chunk) == 0.0
    assert vocabulary.leak("winding", chunk) == pytest.approx(1 / 3, abs=1e-4)
    assert vocabulary.leak("winding cooling thermostat", chunk) == 1.0
    assert vocabulary.leak("what", "the of and") is None


def test_a_survey_knows_what_stands_twice() -> None:
    survey = Survey(WORDS)
    legal = "All rights are reserved by the owner."
    texts = {
        "a": f"{legal} \n\nThe pump restarts once it is cold.",
        "b": f"{legal} \n\nThe valve closes at night.",
        "c": "Copied text stands here.",
        "d": "Copied text stands here.",
    }
    for name, text in texts.items():
        cut = len(legal) + 1 if legal in text else len(text)
        spans = [s for s in (Span(0, cut), Span(cut, len(text))) if s.length]
        survey.add(name, text, spans)
    assert survey.repeated("all  rights are reserved by the OWNER.")
    assert not survey.repeated("The valve closes at night.")
    assert [len(survey.usable(name, text)) for name, text in texts.items()] == [1, 1, 0, 0]
    chunk = survey.chunk_of("a", len(legal) - 3, len(legal) + 20)
    assert chunk is not None
    assert chunk.start == len(legal) + 1
    assert survey.chunk_of("a", 9000, 9001) is None
    assert survey.chunk_of("unknown", 0, 1) is None
