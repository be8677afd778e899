"""The offline answerer: which sentence answers, and how sure it is."""

from __future__ import annotations

import numpy as np
import pytest

from ragwright.models import ExtractiveReranker, pack_sentence

ENGLISH = [
    "The Rhine rises in the Swiss Alps and flows to the North Sea.",
    "It is about 1,230 kilometres long.",
    "The river was first bridged by Julius Caesar in 55 BC near Koblenz.",
    "What a sight the river is!",
    "Ships carry coal because water transport is cheap.",
]
FRENCH = [
    "Le Rhin prend sa source dans les Alpes suisses.",
    "Sa longueur est de 1 230 kilomètres.",
    "Le fleuve fut franchi par un pont de Jules César en 55 avant notre ère.",
    "Les bateaux transportent du charbon parce que le transport par eau coûte peu.",
]


def packed(sentences: list[str], heading: str, chunk: str = "1") -> list[str]:
    return [pack_sentence(s, heading=heading, chunk=chunk) for s in sentences]


@pytest.mark.parametrize(
    ("question", "sentences", "heading", "right"),
    [
        ("Where does the Rhine rise?", ENGLISH, "Rhine", 0),
        ("How long is the Rhine?", ENGLISH, "Rhine", 1),
        ("When was the river first bridged?", ENGLISH, "Rhine", 2),
        ("Who bridged the Rhine?", ENGLISH, "Rhine", 2),
        ("Why do ships carry coal?", ENGLISH, "Rhine", 4),
        ("Où le Rhin prend-il sa source ?", FRENCH, "Rhin", 0),
        ("Quelle est la longueur du Rhin ?", FRENCH, "Rhin", 1),
        ("Qui a franchi le fleuve par un pont ?", FRENCH, "Rhin", 2),
        ("Pourquoi les bateaux transportent-ils du charbon ?", FRENCH, "Rhin", 3),
    ],
)
def test_the_answering_sentence_scores_best(
    question: str, sentences: list[str], heading: str, right: int
) -> None:
    scores = ExtractiveReranker().score(question, packed(sentences, heading))
    assert int(np.argmax(scores)) == right


def test_a_question_about_something_else_scores_low() -> None:
    model = ExtractiveReranker()
    answerable = max(model.score("Where does the Rhine rise?", packed(ENGLISH, "Rhine")))
    foreign = max(model.score("Who is the mayor of Ulan Bator?", packed(ENGLISH, "Rhine")))
    assert foreign < 0.25 < answerable


@pytest.mark.parametrize(
    "question",
    ["Who bridged the canal?", "When was the canal bridged?", "In what year was the canal dug?"],
)
def test_a_who_or_when_question_needs_a_person_or_a_date(question: str) -> None:
    plain = "The canal was dug and bridged, and it may be deep."
    given = "The canal was dug and bridged by Mary Smith in 1830."
    scores = [ExtractiveReranker().score(question, packed([s], "W"))[0] for s in (plain, given)]
    without, with_it = (score / (1 - score) for score in scores)
    assert without < 0.5 * with_it


@pytest.mark.parametrize(
    ("question", "plain", "denied"),
    [
        (
            "Which fish does not swim in the Rhine?",
            "The pike swims in the Rhine.",
            "The pike does not swim in the Rhine.",
        ),
        (
            "Quel poisson ne nage pas dans le Rhin ?",
            "Le brochet nage dans le Rhin.",
            "Le brochet ne nage pas dans le Rhin.",
        ),
    ],
)
def test_what_is_not_so_is_hardly_answered_by_what_is_so(
    question: str, plain: str, denied: str
) -> None:
    model = ExtractiveReranker()
    low, high = (model.score(question, packed([text], "Rhine"))[0] for text in (plain, denied))
    assert low < 0.5 * high


def test_when_in_the_present_tense_asks_for_a_condition_not_for_a_date() -> None:
    sentences = ["The lamp turns red when the oil is low.", "The lamp was made in March 1990."]
    scores = ExtractiveReranker().score("When does the lamp turn red?", packed(sentences, "Lamp"))
    assert int(np.argmax(scores)) == 0
    assert scores[0] > 0.25


def test_a_code_finds_its_sentence_among_its_neighbours() -> None:
    manual = [f"APP_w{n}: the pump of circuit {n} reports a fault." for n in range(300, 330)]
    scores = ExtractiveReranker().score("What does APP_w304 mean?", packed(manual, "Manual"))
    assert manual[int(np.argmax(scores))].startswith("APP_w304")


def test_headings_count_as_evidence() -> None:
    sentences = ["It is 10 metres long.", "It is 20 metres long."]
    passages = [
        pack_sentence(sentences[0], heading="Model A", chunk="1"),
        pack_sentence(sentences[1], heading="Model B7", chunk="2"),
    ]
    scores = ExtractiveReranker().score("How long is the model B7?", passages)
    assert scores[1] > scores[0]


def test_scores_are_probabilities_and_repeatable() -> None:
    model = ExtractiveReranker()
    passages = packed(ENGLISH, "Rhine")
    scores = model.score("How long is the Rhine?", passages)
    assert all(0 <= s <= 1 for s in scores)
    assert scores == ExtractiveReranker().score("How long is the Rhine?", passages)
    assert len(scores) == len(passages)


@pytest.mark.parametrize("query", ["", "?", "the of and", "東京", "\ud800", "a" * 5000])
@pytest.mark.parametrize("passages", [[], [""], ["...", "x"], ["\x1f\x1f\x1f"], ["東京は首都。"]])
def test_odd_requests_are_scored_all_the_same(query: str, passages: list[str]) -> None:
    scores = ExtractiveReranker().score(query, passages)
    assert len(scores) == len(passages)
    assert all(0 <= s <= 1 for s in scores)


def test_features_have_a_column_each() -> None:
    matrix = ExtractiveReranker().features("How long is the Rhine?", packed(ENGLISH, "Rhine"))
    assert matrix.shape == (len(ENGLISH), len(ExtractiveReranker.columns))
    assert np.isfinite(matrix).all()
