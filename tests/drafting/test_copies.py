"""Near copies: what counts, what does not, against a slow reference and on real messages."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, strategies as st

from ragwright.drafting import NearCopy, compare_templates, copies_among, shares_before

TEXT = "Friend, the clinic on Elm Street closes tonight. Will you chip in $5?"


def containment(one: str, other: str) -> float:
    """Share of the n-grams of the shorter text that are in the other one."""
    return float(next(shares_before([one, other], 1))[0])


def slow(one: str, other: str) -> float:
    """Containment as it reads, letter by letter."""

    def grams(text: str) -> set[str]:
        folded = unicodedata.normalize("NFKC", text).casefold()
        plain = " ".join(re.sub(r"[\W_]+", " ", folded).split())
        return {plain[i : i + 4] for i in range(len(plain)) if len(plain[i : i + 4]) == 4}

    a, b = grams(one), grams(other)
    small = a if len(a) <= len(b) else b
    if len(small) < 20:
        return -1.0
    return sum(gram in a and gram in b for gram in small) / len(small)


@given(st.text("abc d.É!", max_size=80), st.text("abc d.É!", max_size=80))
def test_as_the_definition_reads(one: str, other: str) -> None:
    expected = slow(one, other)
    found = containment(one, other)
    assert found == containment(other, one)
    assert found == (expected if expected >= 0 else found)
    assert found in (0.0, 1.0) or expected >= 0


def test_case_punctuation_and_spaces_do_not_count() -> None:
    assert containment(TEXT, TEXT.upper().replace(",", " -- ").replace(" ", "\n")) == 1.0
    assert containment(TEXT, f"Hello! {TEXT} Reply STOP.") == 1.0
    assert containment(TEXT, "Schools need teachers, and teachers need a raise this year.") < 0.2


def test_short_texts_are_copies_only_where_they_are_equal() -> None:
    assert containment("Chip in now", "Please chip in now, friend, before midnight!") == 0.0
    assert containment("Chip in now", "CHIP IN, NOW!") == 1.0
    assert containment("", "") == 0.0
    assert containment("!!", "??") == 0.0


def test_the_nearest_is_named_once() -> None:
    others = [("record:1", "Other words altogether, about schools."), ("record:2", TEXT)]
    [found] = copies_among([TEXT + " Now!"], others, 0.7)
    assert [str(copy) for copy in found] == ["near copy of record:2 (1.00)"]
    assert copies_among([TEXT], others[:1], 0.7) == [()]
    assert copies_among([], others, 0.7) == []


def nearest_copy(text: str, others: Sequence[tuple[str, str]], threshold: float) -> list[NearCopy]:
    """Pair by pair; ties go to the first."""
    best: list[NearCopy] = []
    for name, other in others:
        share = containment(text, other)
        if share >= threshold and (not best or share > best[0].share):
            best = [NearCopy(name, share)]
    return best


WORDS = st.sampled_from(
    ["vote", "clinic", "tonight!", "Elm", "5", "we need you", "É", "…", "schools"]
)
TEXTS = st.lists(WORDS, max_size=12).map(" ".join)


@pytest.mark.slow
@given(
    st.lists(TEXTS, max_size=9), st.lists(TEXTS, max_size=4), st.sampled_from([0.0, 0.3, 0.7, 1])
)
def test_all_at_once_as_pair_by_pair(
    texts: list[str], examples: list[str], threshold: float
) -> None:
    named = [(f"record:{n}", text) for n, text in enumerate(examples)]
    expected = []
    for at, text in enumerate(texts):
        before = [(f"text {n}", other) for n, other in enumerate(texts[:at], 1)]
        both = nearest_copy(text, named, threshold) + nearest_copy(text, before, threshold)
        expected.append(tuple(both))
    assert copies_among(texts, named, threshold) == expected
    shares = [row.tolist() for row in shares_before(texts)]
    assert shares == [[containment(a, b) for b in texts[:at]] for at, a in enumerate(texts)]


def test_texts_of_a_batch_are_held_against_those_before() -> None:
    marks = copies_among([TEXT, "Schools need teachers this very year.", TEXT.upper()], [], 0.7)
    assert [[str(copy) for copy in copies] for copies in marks] == [
        [],
        [],
        ["near copy of text 1 (1.00)"],
    ]


SAME = (
    "Hi Anna, Jane Doe needs $25 by Friday to reach 3,000 donors. Will you chip in now?",
    "Hi Bob, John Roe needs $100 by Tuesday to reach 12,500 donors. Will you chip in now?",
    "Hi Carla, Mary Poe needs €7.50 by March 3 to reach 80 donors. Will you chip in now?",
)
OTHER = (
    "The polls close in Ohio soon and every single vote counts: find your polling place here.",
    "Thank you for standing with teachers all year. Nothing to ask today, just gratitude.",
    "STOP SCROLLING. READ THIS.",
)


def test_messages_that_differ_in_amounts_dates_and_names_are_one() -> None:
    same = compare_templates([*SAME, *OTHER])
    assert same[:3, :3].all()
    assert not same[:3, 3:].any()
    assert (same[3:, 3:] == np.eye(3, dtype=bool)).all()


def test_capitals_alone_are_no_names() -> None:
    shouted = compare_templates(
        ["GIVE NOW FOR SCHOOLS", "VOTE TODAY FOR HEALTH", "GIVE NOW FOR SCHOOLS"]
    )
    assert shouted.tolist() == [[True, False, True], [False, True, False], [True, False, True]]
