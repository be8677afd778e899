"""Reciprocal rank fusion against a slow reference, and what must hold for any lists."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragwright.core import RetrieveError, ranked
from ragwright.retrieve import rrf

IDS = st.lists(st.sampled_from([f"d{n}" for n in range(40)]), unique=True, max_size=40)
LISTS = st.lists(IDS, min_size=1, max_size=4)


def slow_rrf(lists: list[list[str]], k: int, weights: list[Fraction]) -> dict[str, Fraction]:
    """The formula, word for word, in exact arithmetic."""
    documents = {d for ids in lists for d in ids}
    return {
        d: sum(
            (w / (k + ids.index(d) + 1) for ids, w in zip(lists, weights, strict=True) if d in ids),
            Fraction(0),
        )
        for d in documents
    }


def test_ranks_count_from_one() -> None:
    assert rrf([["a", "b"]]) == [("a", round(1 / 61, 6)), ("b", round(1 / 62, 6))]


def test_found_twice_beats_found_first_once() -> None:
    assert [key for key, _ in rrf([["a", "b"], ["c", "b"]])] == ["b", "a", "c"]


@given(LISTS, st.integers(0, 100), st.data())
def test_equals_the_slow_reference(lists: list[list[str]], k: int, data: st.DataObject) -> None:
    weights = data.draw(
        st.lists(st.integers(1, 20), min_size=len(lists), max_size=len(lists)).map(
            lambda ws: [Fraction(w, 4) for w in ws]
        )
    )
    exact = slow_rrf(lists, k, weights)
    fused = rrf(lists, k, [float(w) for w in weights])
    assert {key for key, _ in fused} == set(exact)
    for key, score in fused:
        assert abs(score - exact[key]) <= Fraction(1, 10**6)
    assert fused == sorted(fused, key=lambda pair: (-pair[1], pair[0]))


@given(LISTS)
def test_scores_are_as_the_ranking_rule_leaves_them(lists: list[list[str]]) -> None:
    fused = rrf(lists)
    assert ranked(fused, len(fused)) == fused


@given(LISTS, st.integers(0, 50))
def test_a_limit_cuts_the_whole_ranking(lists: list[list[str]], limit: int) -> None:
    assert rrf(lists, limit=limit) == rrf(lists)[:limit]


@given(LISTS)
def test_the_order_of_the_lists_does_not_matter(lists: list[list[str]]) -> None:
    assert rrf(lists) == rrf(lists[::-1])


@given(IDS)
def test_one_list_keeps_its_order(ids: list[str]) -> None:
    assert [key for key, _ in rrf([ids])] == ids
    assert [key for key, _ in rrf([ids, ids])] == ids


@given(IDS, st.integers(0, 38))
def test_a_better_rank_never_lowers_a_score(ids: list[str], at: int) -> None:
    if at + 1 >= len(ids):
        return
    swapped = [*ids[:at], ids[at + 1], ids[at], *ids[at + 2 :]]
    assert dict(rrf([swapped]))[ids[at + 1]] >= dict(rrf([ids]))[ids[at + 1]]


def test_a_repeated_id_counts_at_its_first_rank() -> None:
    assert rrf([["a", "b", "a", "c"]]) == rrf([["a", "b", "c"]])


def test_equal_scores_go_by_id() -> None:
    assert [key for key, _ in rrf([["z", "a"], ["a", "z"]])] == ["a", "z"]


def test_a_list_without_weight_is_left_out() -> None:
    assert rrf([["a"], ["b"]], weights=[1, 0]) == rrf([["a"]])


def test_nothing_in_nothing_out() -> None:
    assert rrf([]) == []
    assert rrf([[], []]) == []


@pytest.mark.parametrize(
    ("k", "weights"),
    [
        (60, [1.0]),
        (60, [1.0, -1.0]),
        (60, [float("nan"), 1.0]),
        (60, [1.0, float("inf")]),
        (-1, None),
    ],
)
def test_weights_that_make_no_sense_are_refused(k: int, weights: list[float] | None) -> None:
    with pytest.raises(RetrieveError):
        rrf([["a"], ["b"]], k, weights)
