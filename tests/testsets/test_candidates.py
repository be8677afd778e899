"""Checks of candidates that need no model, in English and French; splits that are planned."""

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
    is_supported,
    language_fault,
    locate_quote,
    plan_splits,
    reject_near_duplicates,
)

WORDS = Analyzer()
REFERS, PRONOUN = "refers to the text", "has a pronoun"


@pytest.mark.parametrize(
    ("question", "fault"),
    [
        ("What does the document say about pumps?", REFERS),
        ("What is the main idea of the second paragraph about Rome?", REFERS),
        ("Quelle idée l'auteur défend-il sur la Révolution ?", REFERS),
        ("Was steht in diesem Abschnitt über Pumpen?", REFERS),
        ("And how hot does the kiln get?", "continues something"),
        ("Why does this pump stop?", "uses a demonstrative"),
        ("Pourquoi cette pompe de chauffage s'arrête-t-elle ?", "uses a demonstrative"),
        ("When was it repaired?", PRONOUN),
        ("Certains de ses fans auraient voulu imiter la ____ de Jackson.", PRONOUN),
        ("What is known?", "names nothing"),
        # these stand alone
        ("When does the circulation pump restart after the winding has cooled?", ""),
        ("Is it necessary to drain the circulation pump before winter?", ""),
        ("Pourquoi Harpagon cache-t-il sa cassette dans le jardin ?", ""),
        ("Which documents are kept in the Lund archive?", ""),
        ("Après la défaite de Napoléon à Waterloo, il fut exilé sur quelle île ?", ""),
    ],
)
def test_questions_without_context_are_told(question: str, fault: str) -> None:
    found = context_fault(question, WORDS)
    assert fault in found
    assert bool(found) == bool(fault)


def test_language_and_answer_are_those_of_the_source() -> None:
    french = "Dans quelle ville est-ce que le roi a signé le traité avec les Anglais ?"
    assert "'fr'" in language_fault(french, "en")
    assert language_fault(french, "fr") == language_fault(french, "") == ""
    assert language_fault("Turbine 7?", "fr") == ""  # too little to tell
    # an answer is held by its content words and all its numbers
    text = "The Marlow kiln reaches 1280 degrees in nine hours."
    assert is_supported("1280 degrees", text, WORDS)
    assert not is_supported("1290 degrees", text, WORDS)
    assert not is_supported("in a dozen days", text, WORDS)
    assert is_supported("", text, WORDS)


NOT_THERE = "the evidence is not in the passage"


@pytest.mark.parametrize(
    ("quote", "found"),
    [
        ("two three.", (GoldSpan("d", 104, 116, "two\n  three."), "")),
        ("One two", (None, "the evidence occurs twice")),
        ("one two three", (None, NOT_THERE)),
        (" ", (None, "the evidence is empty")),
        ("t(w", (None, NOT_THERE)),  # a quote is no pattern
    ],
)
def test_a_quote_is_located_by_letters_once(quote: str, found: tuple[GoldSpan | None, str]) -> None:
    assert locate_quote(quote, "One two\n  three. One two. Four.", 100, "d") == found


def candidate(question: str, kind: str = "model", document: str = "d", start: int = 0) -> Candidate:
    return Candidate(kind, question, "", GoldSpan(document, start, start + 1, "x"))


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
    # headings that share words are not one
    acts = [candidate(f"Play: Act {act}", "heading") for act in ("II: Scene V", "V: Scene II")]
    assert not any(one.reason for one in reject_near_duplicates(acts, WORDS))
    assert reject_near_duplicates([acts[0], acts[0]], WORDS)[1].reason


def test_leak_is_the_share_of_rare_words_that_is_repeated() -> None:
    vocabulary, chunk = Vocabulary(WORDS), "pump winding cooling thermostat"
    for text in (chunk, *["pump house"] * 9):
        vocabulary.add(text)
    assert set(vocabulary.rare(chunk)) == set(WORDS.tokens("winding cooling thermostat"))
    assert vocabulary.leak("Which pump?", chunk) == 0.0
    assert vocabulary.leak("winding", chunk) == pytest.approx(1 / 3, abs=1e-4)
    assert vocabulary.leak("winding cooling thermostat", chunk) == 1.0
    assert vocabulary.leak("what", "the of and") is None


def test_a_survey_knows_what_stands_twice() -> None:
    survey, legal = Survey(WORDS), "All rights are reserved by the owner."
    texts = {
        "a": f"{legal} \n\nThe pump restarts once it is cold.",
        "b": f"{legal} \n\nThe valve closes at night.",
        "c": "Copied text stands here.",
        "d": "Copied text stands here.",
    }
    for name, text in texts.items():
        cut = len(legal) + 1 if legal in text else len(text)
        survey.add(name, text, [s for s in (Span(0, cut), Span(cut, len(text))) if s.length])
    assert survey.repeated("all  rights are reserved by the OWNER.")
    assert not survey.repeated("The valve closes at night.")
    assert [len(survey.usable(name, text)) for name, text in texts.items()] == [1, 1, 0, 0]
    chunk = survey.chunk_of("a", len(legal) - 3, len(legal) + 20)
    assert chunk is not None
    assert chunk.start == len(legal) + 1
    assert survey.chunk_of("a", 9000, 9001) is survey.chunk_of("unknown", 0, 1) is None


@given(st.lists(st.integers(0, 12), min_size=1, max_size=40))
def test_planned_splits_share_no_document_where_there_are_five(owners: list[int]) -> None:
    chosen = [
        candidate(f"q{n}", "cloze", f"d{owner:02}", n) for n, owner in enumerate(sorted(owners))
    ]
    splits = plan_splits(chosen)
    assert len(splits) == len(chosen)
    if len(set(owners)) >= 5:
        sides = {(one.span.document_id, split) for one, split in zip(chosen, splits, strict=True)}
        assert len(sides) == len(set(owners))
        most = max(map(owners.count, owners))
        assert set(splits) == {"tune", "confirm"} or most > 0.4 * len(owners)
    # of few documents runs of text are split
    splits = plan_splits([candidate(f"q{n}", "cloze", "d", n) for n in range(10)])
    assert splits.count("confirm") == 4
    assert all(splits[n] == splits[n + 1] for n in range(0, 10, 2))
