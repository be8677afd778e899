"""Words are cut by language; ROUGE against rouge-score and the examples of Lin 2004 by hand."""

from __future__ import annotations

import json
from collections import Counter
from itertools import combinations

import pytest
from benchmarks.data_sets import DATA
from hypothesis import given, strategies as st
from rouge_score.rouge_scorer import RougeScorer
from rouge_score.tokenizers import DefaultTokenizer

from ragwright.core import Row
from ragwright.measure import (
    _words,
    answer_words,
    common_subsequence,
    content_words,
    edit_distance,
    parse_measures,
    score_rows,
    split_plain_words,
)
from ragwright.measure._words import f1, rouge, rouge_w_overlap, skips


@pytest.mark.parametrize(
    ("language", "text", "due"),
    [
        ("en", "The U.S. army, a well-known one!", "us army wellknown one"),
        ("en", "An “answer” in 1,668", "answer in 1668"),
        ("fr", "L'avare, l’école et les enfants d'Ubu", "avare école et enfants d ubu"),
        ("fr", "une comédie de Molière", "comédie de molière"),
        ("fr", "e\u0301cole", "\u00e9cole"),  # accents are compared in one Unicode form
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


@pytest.mark.parametrize(
    ("text", "due"),
    [
        ("L’avare de Molière: C’est l’or!", "l avare de molière c est l or"),
        ("Straße_12, naïve café-bar", "straße 12 naïve café bar"),
        ("hello 莫里哀 x", "hello 莫 里 哀 x"),
        ("e\u0301cole", "\u00e9cole"),
        ("", ""),
        ("?!", ""),
    ],
)
def test_plain_words_of_every_script(text: str, due: str) -> None:
    assert split_plain_words(text) == due.split()


ASCII = st.text(st.characters(max_codepoint=127))


@given(ASCII)
def test_plain_words_are_those_of_rouge_score(text: str) -> None:
    theirs: list[str] = DefaultTokenizer(False).tokenize(text)
    assert split_plain_words(text) == theirs
    assert split_plain_words(text + " é") == [*theirs, "é"]


def test_stems_are_of_the_language() -> None:
    horses = "les chevaux mangeaient"
    assert content_words(horses, "fr") != content_words(horses, "en")
    assert content_words("horses were running", "en") == ["hors", "run"]
    assert content_words("ett hus", "sv") == ["ett", "hus"]  # no rules are known: words as written


# -- ROUGE -----------------------------------------------------------------------------------

WORDS = st.lists(
    st.sampled_from(["the", "cat", "dog", "a", "on", "mat", "sat", "Rome"]), max_size=25
)
PAIRS = {"1": "rouge1", "2": "rouge2", "3": "rouge3", "4": "rouge4", "L": "rougeL"}
SCORER = RougeScorer(list(PAIRS.values()), use_stemmer=False)


def agree(response: str, reference: str) -> None:
    theirs = SCORER.score(reference, response)
    for kind, name in PAIRS.items():
        for part in ("", ",recall", ",precision"):
            value = getattr(theirs[name], part.strip(",") or "fmeasure")
            ours = rouge(kind + part, split_plain_words(response), split_plain_words(reference))
            # where we say "undefined", they say 0
            assert (0 if isinstance(ours, str) else ours) == pytest.approx(value, abs=1e-12)


@given(WORDS.map(" ".join) | ASCII, WORDS.map(" ".join) | ASCII)
def test_agrees_with_rouge_score_on_random_texts(response: str, reference: str) -> None:
    agree(response, reference)


GUNMAN = "police killed the gunman"


@pytest.mark.parametrize(
    ("kind", "response", "reference", "due"),
    [
        ("1,recall", "the cat sat on the mat", "the cat", 1.0),
        ("1,precision", "the cat sat on the mat", "the cat", 1 / 3),
        ("1", "the cat sat on the mat", "the cat", 0.5),
        # Lin 2004, section 5: four words have 6 pairs.
        ("S", "police kill the gunman", GUNMAN, 3 / 6),  # police the, police gunman, the gunman
        ("S", "the gunman kill police", GUNMAN, 1 / 6),  # the gunman
        ("S", "the gunman police killed", GUNMAN, 2 / 6),  # the gunman, police killed
        ("S", "gunman the killed police", GUNMAN, 0.0),
        # 4 words and 6 pairs each; reversed order shares the words alone
        ("SU", "gunman the killed police", GUNMAN, 4 / 10),
        ("SU", "police kill the gunman", GUNMAN, (3 + 3) / 10),
        ("SU", "police", GUNMAN, 2 * 1 * 0.1 / 1.1),  # P 1/1, R 1/10
        # with power 1.2: 4 ** 1.2 to the 1/1.2 is 4, and 4 ones give 4 ** (1 / 1.2)
        ("W", "A B C D H I K", "A B C D E F G", 4 / 7),
        ("W", "A H B K C I D", "A B C D E F G", 4 ** (1 / 1.2) / 7),
    ],
)
def test_by_hand(kind: str, response: str, reference: str, due: float) -> None:
    row = Row("1", "q", response, reference)
    [[score]] = score_rows([row], parse_measures(f"ROUGE({kind})"))
    assert score.measure == f"ROUGE({kind})"
    assert score.value == pytest.approx(due)


def test_of_several_references_the_best_counts() -> None:
    row = Row("1", "q", "the cat sat", "a dog", metadata={"references": ("the cat", "cats sat")})
    (scores,) = score_rows([row], parse_measures("ROUGE(1,recall), ExactMatch, TokenF1"))
    assert scores[0].value == 1.0
    assert scores[2].value == pytest.approx(2 / 3)


def test_runs_weigh_more() -> None:
    """Lin 2004, section 4: X = ABCDEFG, weight k ** 2: 16 and 4 ones, of 49."""
    for text, due in (("ABCDHIK", 0.571), ("AHBKCID", 0.286)):
        assert f1(*rouge_w_overlap(text, "ABCDEFG", 2)) == pytest.approx(due, abs=5e-4)


@pytest.mark.parametrize("kind", ["1", "2", "L", "W", "S", "SU"])
def test_ends_of_the_scale(kind: str) -> None:
    words = ["never", "the", "same", "river", "twice"]
    assert rouge(kind, words, words) == pytest.approx(1)
    assert rouge(kind, ["other"] * 5, words) == rouge(kind, [], words) == 0
    assert isinstance(rouge(kind, words, []), str)


"""Whose weighted length is rounded up."""


@given(WORDS, WORDS, st.integers(1, 20) | st.just(1 << 20))
def test_skip_bigrams_by_pieces_are_those_counted_one_by_one(
    response: list[str], reference: list[str], cells: int
) -> None:
    ours, theirs = (Counter(combinations(text, 2)) for text in (response, reference))
    common = (ours & theirs).total()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_words, "_CELLS", cells)
        found = f1(*skips(response, reference))
    total = ours.total() + theirs.total()
    assert found == pytest.approx(2 * common / total if common else 0.0)


@given(st.text("abc", max_size=80), st.text("abcd", max_size=80))
def test_edits_and_common_letters_are_those_of_their_tables(one: str, two: str) -> None:
    edits, common = list(range(len(two) + 1)), [0] * (len(two) + 1)
    for n, left in enumerate(one, 1):
        above, edits, before, common = edits, [n], common, [0]
        for m, right in enumerate(two, 1):
            edits.append(min(above[m] + 1, edits[-1] + 1, above[m - 1] + (left != right)))
            common.append(before[m - 1] + 1 if left == right else max(before[m], common[-1]))
    assert edit_distance(one, two) == edits[-1]
    assert common_subsequence(one, two) == common[-1]


@pytest.mark.needs_data
def test_agrees_with_rouge_score_on_real_answers() -> None:
    path = DATA / "ragchecker_meta" / "human_labeled_data.json"
    for row in json.loads(path.read_text("utf-8"))[::56]:
        response, reference = row["model1"]["response"], row["gt_answer"]
        if (response + reference).isascii():
            agree(response[:2000], reference[:2000])
