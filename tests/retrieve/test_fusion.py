"""Fusion against slow references, and what must hold for any lists."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given, strategies as st

from ragwright.core import RetrieveError, rank_best
from ragwright.retrieve import convex, rrf

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
    assert rank_best(fused, len(fused)) == fused


@given(LISTS, st.integers(0, 50))
def test_a_limit_cuts_the_whole_ranking(lists: list[list[str]], limit: int) -> None:
    assert rrf(lists, limit=limit) == rrf(lists)[:limit]


@given(LISTS)
def test_the_order_of_the_lists_does_not_matter(lists: list[list[str]]) -> None:
    assert rrf(lists) == rrf(lists[::-1])


@pytest.mark.slow
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


SCORED = st.dictionaries(
    st.sampled_from([f"d{n}" for n in range(30)]), st.integers(-1000, 1000).map(lambda n: n / 1000)
).map(lambda d: sorted(d.items(), key=lambda pair: (-pair[1], pair[0])))


def slow_convex(
    lists: list[list[tuple[str, float]]], shares: list[int], floors: list[int], pool: int
) -> dict[str, Fraction]:
    """The formula, word for word, in exact arithmetic."""
    fused = {key: Fraction(0) for found in lists for key, _ in found}
    if not sum(s for s, found in zip(shares, lists, strict=True) if found):
        fused = {key: Fraction(0) for key in fused}
    for found, share, floor in zip(lists, shares, floors, strict=True):
        scores = {key: max(Fraction(score), Fraction(floor)) for key, score in found}
        best = max((Fraction(score) for _, score in found), default=Fraction(0))
        if best <= floor:
            continue
        absent = min(scores.values()) if len(found) >= pool else Fraction(floor)
        for key in fused:
            scaled = (scores.get(key, absent) - floor) / (best - floor)
            fused[key] += Fraction(share, sum(shares)) * scaled
    return fused


@given(st.tuples(SCORED, SCORED), st.integers(1, 9), st.integers(1, 9), st.integers(1, 40))
def test_convex_equals_the_slow_reference(
    lists: tuple[list[tuple[str, float]], list[tuple[str, float]]], one: int, two: int, pool: int
) -> None:
    exact = slow_convex(list(lists), [one, two], [0, -1], pool)
    fused = convex(lists, (one, two), (0.0, -1.0), pool)
    assert {key for key, _ in fused} == set(exact)
    for key, score in fused:
        assert abs(score - exact[key]) <= Fraction(2, 10**6)
        assert 0 <= score <= 1
    assert fused == sorted(fused, key=lambda pair: (-pair[1], pair[0]))
    for limit in (0, 1, 5, 100):
        assert convex(lists, (one, two), (0.0, -1.0), pool, limit=limit) == fused[:limit]


def test_who_is_missing_has_the_most_it_can_have() -> None:
    keyword, dense = [("a", 4.0), ("b", 2.0)], [("b", 0.5), ("c", 0.5)]
    cut = dict(convex([keyword, dense], (1, 1), (0, -1), 2))
    assert cut == {"a": 1.0, "b": 0.75, "c": 0.75}
    whole = dict(convex([keyword, dense], (1, 1), (0, -1), 3))
    assert whole == {"a": 0.5, "b": 0.75, "c": 0.5}


def test_flat_lists_leave_the_order_to_the_others() -> None:
    flat = [("a", 0.9), ("b", 0.899), ("c", 0.898)]
    sharp = [("c", 9.0), ("b", 3.0)]
    assert [key for key, _ in convex([sharp, flat], (0.2, 0.8), (0, -1), 100)] == ["c", "b", "a"]


@pytest.mark.parametrize(
    ("shares", "floors"), [([1], [0, 0]), ([1, -1], [0, 0]), ([0, 0], [0, 0]), ([1, 1], [0])]
)
def test_shares_that_make_no_sense_are_refused(shares: list[float], floors: list[float]) -> None:
    with pytest.raises(RetrieveError):
        convex([[("a", 1.0)], [("b", 1.0)]], shares, floors, 10)
