"""Fusion against slow references, weights from words, selection by caps, turns and difference."""

from __future__ import annotations

import random
from collections.abc import Sequence
from fractions import Fraction
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from hand_driver import hit
from hypothesis import given, strategies as st
from naive_index import rank_best

from ragwright.core import FilterError, Hit, Span, Term
from ragwright.models import Analyzer, Tokenizer
from ragwright.retrieve import (
    SelectOptions,
    balance,
    convex,
    dissimilar,
    measure_score_share,
    one_sided,
    rrf,
    select_depth,
    select_hits,
    similarities,
    unknown_share,
    values_of,
    word_similarities,
)

IDS = st.lists(st.sampled_from([f"d{n}" for n in range(40)]), unique=True, max_size=40)
LISTS = st.lists(IDS, min_size=1, max_size=4)


def slow_rrf(lists: list[list[str]], k: int, weights: list[Fraction]) -> dict[str, Fraction]:
    """The formula, word for word, in exact arithmetic."""
    sums: dict[str, Fraction] = {}
    for ids, weight in zip(lists, weights, strict=True):
        for rank, key in enumerate(ids, 1):
            sums[key] = sums.get(key, Fraction(0)) + weight / (k + rank)
    return sums


@given(LISTS, st.integers(0, 100), st.integers(0, 50), st.data())
def test_rrf_equals_its_formula(lists: Any, k: int, limit: int, data: st.DataObject) -> None:
    quarters = st.lists(st.integers(1, 20), min_size=len(lists), max_size=len(lists))
    weights = [Fraction(weight, 4) for weight in data.draw(quarters)]
    exact = slow_rrf(lists, k, weights)
    fused = rrf(lists, k, [float(w) for w in weights])
    assert {key for key, _ in fused} == set(exact)
    assert all(abs(score - exact[key]) <= Fraction(1, 10**6) for key, score in fused)
    assert fused == sorted(fused, key=lambda pair: (-pair[1], pair[0]))
    assert rank_best(fused, len(fused)) == fused
    assert rrf(lists, limit=limit) == rrf(lists)[:limit]
    assert rrf(lists) == rrf(lists[::-1])
    twice = [[*ids, *ids[:2]] for ids in lists]  # a repeated id counts at its first rank
    assert rrf(twice) == rrf([*lists, []]) == rrf([*lists, ["x"]], weights=[1] * len(lists) + [0])
    assert [key for key, _ in rrf([lists[0], lists[0]])] == lists[0]


Scored = list[tuple[str, float]]
SCORED = st.dictionaries(
    st.sampled_from([f"d{n}" for n in range(30)]), st.integers(-1000, 1000).map(lambda n: n / 1000)
).map(lambda d: sorted(d.items(), key=lambda pair: (-pair[1], pair[0])))


def slow_convex(
    lists: Sequence[Scored], shares: list[int], floors: list[int], pool: int
) -> dict[str, Fraction]:
    """The formula, word for word, in exact arithmetic."""
    fused = {key: Fraction(0) for found in lists for key, _ in found}
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
def test_convex_equals_its_formula(lists: Any, one: int, two: int, pool: int) -> None:
    exact = slow_convex(lists, [one, two], [0, -1], pool)
    fused = convex(lists, (one, two), (0.0, -1.0), pool)
    assert {key for key, _ in fused} == set(exact)
    for key, score in fused:
        assert abs(score - exact[key]) <= Fraction(2, 10**6)
        assert 0 <= score <= 1
    assert fused == sorted(fused, key=lambda pair: (-pair[1], pair[0]))
    for limit in (0, 1, 5, 100):
        assert convex(lists, (one, two), (0.0, -1.0), pool, limit=limit) == fused[:limit]


# -- weights of a query ----------------------------------------------------------------------

SHARE = st.floats(0, 1)


@given(SHARE, SHARE, SHARE, SHARE)
def test_the_keyword_share_grows(base: float, unknown: float, held: float, other: float) -> None:
    found = balance(base, unknown, held).keyword
    assert base <= found <= 1.0 + 1e-12
    assert balance(base, 0.0, held).keyword == balance(base, unknown, 0.0).keyword == base
    more, less = (balance(base, pick(unknown, other), held).keyword for pick in (max, min))
    assert more >= less


class Pairs(Tokenizer):
    """Knows words of up to four letters; cuts longer runs to pairs of characters."""

    def spans(self, text: str) -> list[Span]:
        if len(text) <= 4:
            return [Span(0, len(text))] if text else []
        return [Span(at, min(at + 2, len(text))) for at in range(0, len(text), 2)]


def terms(**idf: float) -> tuple[Term, ...]:
    return tuple(Term(token.lstrip("_"), 1, value, value) for token, value in idf.items())


FIX, PUMP = terms(fix=1.0, e12=3.0, _12=3.0), terms(pump=1.0, manifold=3.0)


@pytest.mark.parametrize(
    ("text", "asked", "analyzer", "tokenizer", "share"),
    [
        # A code is unknown whatever the tokenizer makes of it.
        ("fix E12", FIX, Analyzer(), Pairs(), 0.75),
        ("fix E12", FIX, Analyzer(), None, 0.75),
        ("fix E12", FIX, None, None, 3 / 7),
        # pump is one piece; ma ni fo ld: three of four pieces go on within the word
        ("pump manifold", PUMP, Analyzer(), Pairs(), 3.0 * 3 / 4 / 4.0),
        *((nothing, (), Analyzer(), Pairs(), 0.0) for nothing in ("", "of the", "☃")),
    ],
)
def test_words_count_by_pieces_and_rarity(
    text: str, asked: Any, analyzer: Any, tokenizer: Any, share: float
) -> None:
    assert unknown_share(text, asked, analyzer, tokenizer) == pytest.approx(share)


def test_what_the_best_chunk_holds_is_a_share_of_the_greatest_score() -> None:
    shares = [measure_score_share(best, PUMP) for best in (2.0, 9.0)]
    assert (shares, measure_score_share(2.0, ())) == ([0.5, 1.0], 0.0)
    reason = balance(0.2, 0.5, 0.5).reason
    assert "keyword 0.40, dense 0.60" in reason
    assert "50%" in reason


# -- selection -------------------------------------------------------------------------------


def found(number: int, text: str = "", document: str = "", **facts: Any) -> Hit:
    more = {"headings": facts.pop("headings", ()), "title": "", "page": number}
    return hit(number, text or f"word{number}", document=document, start=number,
               metadata=facts, **more)  # fmt: skip


def ranks(hits: Sequence[Hit], of: Sequence[Hit]) -> list[int]:
    before = {one.chunk_id: one.rank for one in of}
    return [before[one.chunk_id] for one in hits]


@given(st.integers(1, 9), st.integers(0, 10_000), st.integers(0, 12), st.integers(0, 99))
def test_each_dissimilar_item_is_far_from_those_before(
    count: int, numbers: int, k: int, seed: int
) -> None:
    similarity = similarities(np.random.default_rng(numbers).standard_normal((count, 3)))
    chosen = dissimilar(similarity, k, seed)
    assert len(chosen) == min(k, count) == len(set(chosen))
    for place in range(1, len(chosen)):
        nearest = {
            at: round(float(max(similarity[at][b] for b in chosen[:place])), 6)
            for at in range(count)
            if at not in chosen[:place]
        }
        assert nearest[chosen[place]] == min(nearest.values())
    assert dissimilar(similarity, k, seed) == chosen


def test_another_seed_gives_another_set_and_it_beats_chance() -> None:
    noise = 0.05 * np.random.default_rng(0).standard_normal((30, 6))
    similarity = similarities(np.repeat(np.eye(6), 5, axis=0) + noise)
    sets = [frozenset(dissimilar(similarity, 6, seed)) for seed in range(20)]
    assert len(set(sets)) > 10

    def likeness(chosen: Sequence[int]) -> float:
        return float(np.mean([similarity[a][b] for a, b in combinations(chosen, 2)]))

    drawn = [random.Random(seed).sample(range(30), 6) for seed in range(20)]
    assert max(likeness(sorted(s)) for s in sets) < min(likeness(d) for d in drawn)
    # one of each group, whatever the start
    assert all({at // 5 for at in chosen} == set(range(6)) for chosen in sets)


def test_rows_are_compared_by_direction_and_texts_by_their_counts() -> None:
    rows = similarities(np.array([[0.0, 0.0], [3.0, 4.0], [np.nan, 1.0]], np.float32))
    assert rows[0].tolist() == [0.0, 0.0, 0.0]
    assert rows[1][1] == pytest.approx(1.0)
    assert np.isfinite(rows).all()
    words = word_similarities(["red car", "red car red car", "blue", ""], Analyzer())
    assert words[0][1] == pytest.approx(1.0)
    assert words[0][2] == 0
    assert words[3].tolist() == [0, 0, 0, 0]


FOUR = [found(n, document=name) for n, name in enumerate("aaab", 1)]
SIDES = [found(n, side=side) for n, side in enumerate(["pro"] * 3 + ["con"] * 2 + ["pro"], 1)]
TOPICS = [found(1, topics=("a", "b")), found(2, topics=("a",)), found(3), found(4, topics=("b",))]
ACTS = [found(1, act="I"), found(2, act="I"), found(3, act="II")]
CAPPED = "2 of 3 hits: max_per (document_id: 1) excludes the others"
WATCHED = (
    "one-sided: all 2 hits have act 'I', while the search also found 'II' "
    "(balance act, or set a filter)"
)


@pytest.mark.parametrize(
    ("hits", "k", "options", "kept", "notes"),
    [
        (FOUR, 2, {}, [1, 2], ()),
        ([], 2, {"balance": "act"}, [], ()),
        (FOUR, 3, {"max_per": {"document_id": 1}}, [1, 4], (CAPPED,)),
        (FOUR, 2, {"max_per": {"document_id": 1}}, [1, 4], ()),
        (SIDES, 4, {"balance": "side"}, [1, 4, 2, 5], ()),
        # One of several values is taken once, and one of none has its turn.
        (TOPICS, 4, {"balance": "topics"}, [1, 4, 3, 2], ()),
        (ACTS, 2, {"watch": ("act",)}, [1, 2], (WATCHED,)),
        (ACTS, 2, {"balance": "act"}, [1, 3], ()),
    ],
)
def test_caps_and_turns(hits: list[Hit], k: int, options: Any, kept: Any, notes: Any) -> None:
    selected, told = select_hits(hits, k, SelectOptions(**options))
    assert (ranks(selected, hits), told) == (kept, notes)
    deeper = options.keys() & {"balance", "watch"}
    assert bool(deeper) == (select_depth(5, SelectOptions(**options)) == 30) or "max_per" in options


@given(
    st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from("xy")), min_size=1, max_size=14),
    st.integers(1, 14),
    st.integers(1, 3),
    st.sampled_from(["", "side", "document_id"]),
)
def test_caps_hold_in_turns(kinds: list[tuple[str, str]], k: int, most: int, balance: str) -> None:
    hits = [found(n, f"{d} {s} {n}", d, side=s) for n, (d, s) in enumerate(kinds, 1)]
    options = SelectOptions(max_per={"document_id": most, "side": 4}, balance=balance)
    selected, _ = select_hits(hits, k, options)
    assert len({h.chunk_id for h in selected}) == len(selected) <= k
    for values, limit in (
        ([h.document_id for h in selected], most),
        ([h.metadata["side"] for h in selected], 4),
    ):
        assert all(values.count(value) <= limit for value in values)  # type: ignore[arg-type]


PLAY = ("Play", "Act I", "Scene I")


@pytest.mark.parametrize(
    ("one", "field", "values"),
    [
        (found(2, headings=PLAY), "document_id", ("doc2",)),
        (found(2), "page", ("2",)),
        (found(2), "title", ()),
        (found(2, headings=PLAY), "section", PLAY),
        (found(2, headings=PLAY), "section:2", ("Play › Act I",)),
        (found(2, topics=("a", "b")), "topics", ("a", "b")),
        (found(2, year=1668), "year", ("1668",)),
        (found(2, empty=""), "empty", ()),
        (found(2), "other", ()),
        (found(1), "section", ()),
        (found(1), "section:1", ()),
        (found(1, headings=("A",), section="own"), "section", ("own",)),
    ],
)
def test_values_of_a_hit(one: Hit, field: str, values: tuple[str, ...]) -> None:
    assert values_of(one, field) == values
    with pytest.raises(FilterError, match="level"):
        values_of(one, "section:x")


@pytest.mark.parametrize(
    ("kept", "told"), [("pp", True), ("pc", False), ("p", False), ("", False), ("p-", False)]
)
def test_one_side_is_told_only_where_another_was_found(kept: str, told: bool) -> None:
    sides: dict[str, dict[str, Any]] = {"p": {"side": "pro"}, "c": {"side": "con"}, "-": {}}
    hits = [found(n, **sides[kind]) for n, kind in enumerate(kept, 1)]
    pool = [*hits, found(8, side="con"), found(9, side="pro")]
    assert bool(one_sided(hits, pool, "side")) == told
    assert one_sided(hits, hits, "side") == ""
    one, two = found(1, headings=PLAY), found(2, headings=(*PLAY[:2], "Scene II"))
    other = found(3, headings=("Play", "Act II", "Scene I"))
    said = one_sided([one, two], [one, two, other], "section")
    # What all hits of the pool share is no side.
    assert "all 2 hits have section 'Act I', while the search also found 'Act II' (bal" in said
    assert one_sided([one, two], [one, two, found(3, headings=PLAY[:2])], "section") == ""
