"""Names in passages: found by their form, in several languages, without the question's own."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st
from query_fakes import hit

from ragwright.models import Analyzer
from ragwright.retrieve import leads, named, uncovered

ANALYZER = Analyzer()


def names(text: str) -> list[str]:
    return [name for name, _ in named(text, ANALYZER)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The song was written by Hank Snow in 1952.", ["Hank Snow"]),
        ("He studied at the University of Houston, Texas.", ["University of Houston", "Texas"]),
        ("Ludwig van Beethoven lived in Bonn.", ["Ludwig van Beethoven", "Bonn"]),
        ("She wrote “the long way home” there.", ["the long way home"]),
        ("Elle est née à Aix-en-Provence et vit à Lyon.", ["Aix-en-Provence", "Lyon"]),
        ("error C2065 follows app_w304 at once", ["C2065", "app_w304"]),
        ("The Of In And", []),
        ("Measure it. Water drips: Replace the seal.\nSafety valve", []),
        ("Madison is a suburb. She moved to Madison.", ["Madison", "Madison"]),
        ("NASA launched it. YouTube shows it.", ["NASA", "YouTube"]),
        ("## VLV_e215 Safety valve leaks\n", ["VLV_e215"]),
        ("VLV_e215: Check VLV_e212 first.", ["VLV_e215", "VLV_e212"]),
        ("Measure APP_w304 at once.", ["APP_w304"]),
        ("a clown, Ronald McDonald, of the 1990s and 10mm tall", ["Ronald McDonald"]),
        ("nothing here at all", []),
        ("", []),
        ("東京タワーは「高い」です。", []),
    ],
)
def test_names_quoted_texts_and_codes_are_found(text: str, expected: list[str]) -> None:
    found = names(text)
    assert [name for name in expected if name not in found] == []
    assert set(found) <= set(expected)


def test_names_of_the_question_and_of_the_own_title_are_not_followed() -> None:
    passage = hit(
        1, "Hello Love", "Hello Love is a song by Hank Snow. Hank Snow lived in Nashville."
    )
    found = leads("Where did the singer of Hello Love live?", [passage], ANALYZER, 10)
    assert [lead.name for lead in found] == ["Hank Snow", "Nashville"]
    assert found[0].weight >= found[1].weight > 0


def test_a_word_that_begins_a_sentence_is_a_name_where_another_passage_says_so() -> None:
    first = hit(1, "One", "Madison has a harbour. Measure twice.")
    assert [lead.name for lead in leads("Where?", [first], ANALYZER, 5)] == []
    second = hit(2, "Two", "He went to Madison.")
    assert [lead.name for lead in leads("Where?", [first, second], ANALYZER, 5)] == ["Madison"]


def test_better_passages_and_sentences_near_the_question_count_more() -> None:
    hits = [
        hit(1, "One", "Acme makes pumps. The owner of the pump company is Jane Roe."),
        hit(2, "Two", "The owner is John Doe."),
    ]
    found = [lead.name for lead in leads("Who is the owner of the pump?", hits, ANALYZER, 3)]
    assert found[0] == "Jane Roe"
    assert leads("Who?", [], ANALYZER, 3) == ()


def test_what_a_passage_does_not_cover_is_left_of_the_question() -> None:
    rest = uncovered(
        "When was the university that owned The Collegian founded?",
        ["The Collegian is owned by Houston Baptist University."],
        ANALYZER,
    )
    assert rest == "founded"


@given(st.text(max_size=120), st.text(max_size=40))
def test_any_text_is_read_and_nothing_of_the_question_comes_back(text: str, query: str) -> None:
    asked = set(ANALYZER.tokens(query))
    for lead in leads(query, [hit(1, "T", text)], ANALYZER, 5):
        assert lead.weight > 0
        assert not asked.issuperset(ANALYZER.tokens(lead.name))
