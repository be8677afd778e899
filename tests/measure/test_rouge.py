"""ROUGE against rouge-score, and against the examples of Lin 2004 worked by hand."""

from __future__ import annotations

import json
import tracemalloc
from collections import Counter
from itertools import combinations

import pytest
from benchmarks.data_sets import DATA
from hypothesis import example, given, settings, strategies as st
from rouge_score.rouge_scorer import RougeScorer

from ragwright.core import MeasureError, Row
from ragwright.measure import (
    _words,
    common_subsequence,
    edit_distance,
    parse_measures,
    score_rows,
    split_plain_words,
)
from ragwright.measure._words import f1, rouge, rouge_w_overlap, skips

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
            if isinstance(ours, str):
                assert value == 0  # where we say "undefined", they say 0
            else:
                assert ours == pytest.approx(value, abs=1e-12)


@given(WORDS, WORDS)
def test_agrees_with_rouge_score_on_random_words(response: list[str], reference: list[str]) -> None:
    agree(" ".join(response), " ".join(reference))


@settings(deadline=None)
@given(st.text(st.characters(max_codepoint=127)), st.text(st.characters(max_codepoint=127)))
def test_agrees_with_rouge_score_on_random_ascii(response: str, reference: str) -> None:
    agree(response, reference)


@pytest.mark.needs_data
def test_agrees_with_rouge_score_on_real_answers() -> None:
    path = DATA / "ragchecker_meta" / "human_labeled_data.json"
    rows = json.loads(path.read_text("utf-8"))[::56]
    for row in rows:
        response, reference = row["model1"]["response"], row["gt_answer"]
        if (response + reference).isascii():
            agree(response[:2000], reference[:2000])


def test_recall_and_precision_are_measures_of_their_own() -> None:
    row = Row("1", "q", "the cat sat on the mat", "the cat")
    wanted = {"ROUGE(1,recall)": 1.0, "ROUGE(1,precision)": 1 / 3, "ROUGE(1)": 0.5}
    for name, value in wanted.items():
        (scores,) = score_rows([row], parse_measures(name))
        assert scores[0].measure == name
        assert scores[0].value == pytest.approx(value)
    with pytest.raises(MeasureError, match="unknown parameter"):
        parse_measures("ROUGE(1,best)")


def test_of_several_references_the_best_counts() -> None:
    row = Row("1", "q", "the cat sat", "a dog", metadata={"references": ("the cat", "cats sat")})
    (scores,) = score_rows([row], parse_measures("ROUGE(1,recall), ExactMatch, TokenF1"))
    assert scores[0].value == 1.0
    assert scores[2].value == pytest.approx(2 / 3)


GUNMAN = ["police", "killed", "the", "gunman"]


@pytest.mark.parametrize(
    ("text", "pairs"),
    [
        ("police kill the gunman", 3),  # police the, police gunman, the gunman
        ("the gunman kill police", 1),  # the gunman
        ("the gunman police killed", 2),  # the gunman, police killed
        ("gunman the killed police", 0),
    ],
)
def test_skip_bigrams_of_the_paper(text: str, pairs: int) -> None:
    """Lin 2004, section 5: four words have 6 pairs."""
    assert f1(*skips(text.split(), GUNMAN)) == pytest.approx(pairs / 6)


def test_single_words_join_the_skip_bigrams() -> None:
    # 4 words and 6 pairs each; reversed order shares the words alone
    assert rouge("SU", ["gunman", "the", "killed", "police"], GUNMAN) == pytest.approx(4 / 10)
    assert rouge("SU", ["police", "kill", "the", "gunman"], GUNMAN) == pytest.approx((3 + 3) / 10)
    assert rouge("SU", ["police"], GUNMAN) == pytest.approx(2 * 1 * 0.1 / 1.1)  # P 1/1, R 1/10


def slow_weighted(response: list[str], reference: list[str], power: float) -> float:
    """ROUGE-W cell by cell, as Lin 2004 writes it down."""
    best = [[0.0] * (len(reference) + 1) for _ in range(len(response) + 1)]
    runs = [[0] * (len(reference) + 1) for _ in range(len(response) + 1)]
    for i, word in enumerate(response, 1):
        for j, other in enumerate(reference, 1):
            if word == other:
                run = runs[i - 1][j - 1]
                best[i][j] = best[i - 1][j - 1] + (run + 1) ** power - run**power
                runs[i][j] = run + 1
            else:
                best[i][j] = max(best[i - 1][j], best[i][j - 1])
    common = best[-1][-1] ** (1 / power)
    return 2 * common / (len(response) + len(reference)) if common else 0.0


EQUAL = ["the", "cat", "the", "the", "the", "cat", "the"]
"""Whose weighted length is rounded up."""


@settings(deadline=None)
@given(WORDS.filter(bool), WORDS.filter(bool), st.sampled_from([1.0, 1.2, 2.0]), st.booleans())
@example(EQUAL, EQUAL, 1.2, False)
def test_weighted_rows_are_the_cells_of_the_paper(
    response: list[str], reference: list[str], power: float, dense: bool
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_words, "_FEW_STARTS", -1 if dense else 40)
        found = f1(*rouge_w_overlap(response, reference, power))
    assert found == pytest.approx(slow_weighted(response, reference, power), abs=1e-12)
    assert found <= 1


@settings(deadline=None)
@given(WORDS, WORDS, st.integers(1, 20))
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


@pytest.mark.slow
def test_long_texts_take_little_memory() -> None:
    """4,000 shared words have 16 million pairs: 128 MB a text, were they held at once."""
    words = [f"w{n}" for n in range(4000)]
    tracemalloc.start()
    assert f1(*skips(words, words)) == pytest.approx(1)
    assert f1(*rouge_w_overlap(words[:300], words)) > 0
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 64e6


def test_runs_weigh_more() -> None:
    """Lin 2004, section 4: X = ABCDEFG, weight k ** 2: 16 and 4 ones, of 49."""
    reference = list("ABCDEFG")
    assert f1(*rouge_w_overlap(list("ABCDHIK"), reference, 2)) == pytest.approx(0.571, abs=5e-4)
    assert f1(*rouge_w_overlap(list("AHBKCID"), reference, 2)) == pytest.approx(0.286, abs=5e-4)
    # with power 1.2: 4 ** 1.2 to the 1/1.2 is 4, and 4 ones give 4 ** (1 / 1.2)
    assert rouge("W", list("ABCDHIK"), reference) == pytest.approx(4 / 7)
    assert rouge("W", list("AHBKCID"), reference) == pytest.approx(4 ** (1 / 1.2) / 7)


@given(WORDS, WORDS)
def test_skip_bigrams_as_counted_one_by_one(one: list[str], two: list[str]) -> None:
    left = list(combinations(one, 2))
    common = 0
    for pair in combinations(two, 2):
        if pair in left:
            left.remove(pair)
            common += 1
    sizes = [len(words) * (len(words) - 1) / 2 for words in (one, two)]
    due = 2 * common / sum(sizes) if common else 0.0
    assert f1(*skips(one, two)) == pytest.approx(due)


@pytest.mark.parametrize("kind", ["1", "2", "L", "W", "S", "SU"])
def test_ends_of_the_scale(kind: str) -> None:
    words = ["never", "the", "same", "river", "twice"]
    assert rouge(kind, words, words) == pytest.approx(1)
    assert rouge(kind, ["other"] * 5, words) == 0
    assert rouge(kind, [], words) == 0
    assert isinstance(rouge(kind, words, []), str)


def slow_edits(one: str, two: str) -> int:
    row = list(range(len(two) + 1))
    for n, left in enumerate(one, 1):
        above, row = row, [n]
        for m, right in enumerate(two, 1):
            row.append(min(above[m] + 1, row[-1] + 1, above[m - 1] + (left != right)))
    return row[-1]


@given(st.text("abc", max_size=80), st.text("abcd", max_size=80))
def test_edit_distance_as_the_table_gives_it(one: str, two: str) -> None:
    assert edit_distance(one, two) == slow_edits(one, two)


@given(st.text("abc", max_size=80), st.text("abcd", max_size=80))
def test_common_subsequence_is_what_edits_without_substitution_leave(one: str, two: str) -> None:
    row = [0] * (len(two) + 1)
    for left in one:
        above, row = row, [0]
        for m, right in enumerate(two, 1):
            row.append(above[m - 1] + 1 if left == right else max(above[m], row[-1]))
    assert common_subsequence(one, two) == row[-1]
