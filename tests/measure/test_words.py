"""Words are cut by language, never by English rules alone."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st
from rouge_score.tokenizers import DefaultTokenizer

from ragwright.measure import answer_words, content_words, split_plain_words


@pytest.mark.parametrize(
    ("language", "text", "due"),
    [
        ("en", "The U.S. army, a well-known one!", "us army wellknown one"),
        ("en", "An “answer” in 1,668", "answer in 1668"),
        ("fr", "L'avare, l’école et les enfants d'Ubu", "avare école et enfants d ubu"),
        ("fr", "une comédie de Molière", "comédie de molière"),
        ("de", "Die Straße des Friedens", "straße friedens"),
        ("es", "¿Los molinos de la Mancha?", "molinos de mancha"),
        ("it", "L'albero e gli amici", "albero e amici"),
        ("nl", "Het huis van een vriend", "huis van vriend"),
        ("pt", "O livro, uns amigos", "livro amigos"),
        ("zh", "莫里哀写了《吝啬鬼》1668年", "莫 里 哀 写 了 吝 啬 鬼 1668 年"),
        ("sv", "the en bok", "the en bok"),
    ],
)
def test_normalising_knows_articles_and_elisions(language: str, text: str, due: str) -> None:
    assert answer_words(text, language) == due.split()


def test_accents_are_compared_in_one_unicode_form() -> None:
    assert answer_words("e\u0301cole", "fr") == answer_words("\u00e9cole", "fr")
    assert split_plain_words("e\u0301cole") == ["\u00e9cole"]


@pytest.mark.parametrize(
    ("text", "due"),
    [
        ("L’avare de Molière: C’est l’or!", "l avare de molière c est l or"),
        ("Straße_12, naïve café-bar", "straße 12 naïve café bar"),
        ("hello 莫里哀 x", "hello 莫 里 哀 x"),
        ("", ""),
        ("?!", ""),
    ],
)
def test_plain_words_of_every_script(text: str, due: str) -> None:
    assert split_plain_words(text) == due.split()


@given(st.text(st.characters(max_codepoint=127)))
def test_plain_words_are_those_of_rouge_score(text: str) -> None:
    theirs: list[str] = DefaultTokenizer(False).tokenize(text)
    assert split_plain_words(text) == theirs


@given(st.text(st.characters(max_codepoint=127), min_size=1))
def test_a_word_of_another_script_changes_nothing_about_the_others(text: str) -> None:
    assert split_plain_words(text + " é") == [*split_plain_words(text), "é"]


def test_stems_are_of_the_language() -> None:
    assert content_words("les chevaux mangeaient", "fr") != content_words(
        "les chevaux mangeaient", "en"
    )
    assert content_words("horses were running", "en") == ["hors", "run"]
    assert content_words("ett hus", "sv") == ["ett", "hus"]  # no rules are known: words as written
