"""Diversity: mutual dissimilarity, caps, turns."""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

from ragwright.core import ConfigError, Hit
from ragwright.models import Analyzer
from ragwright.retrieve import (
    SelectOptions,
    dissimilar,
    select_depth,
    select_hits,
    similarities,
    word_similarities,
)


def hit(rank: int, text: str = "", document: str = "", **metadata: Any) -> Hit:
    name = document or f"d{rank}"
    return Hit(
        rank,
        1.0 / rank,
        name,
        f"{name}:{rank}-{rank + 1}",
        name,
        "",
        None,
        rank,
        rank + 1,
        text or f"word{rank}",
        metadata=metadata,
    )


def ranks(hits: Sequence[Hit], of: Sequence[Hit]) -> list[int]:
    """Ranks before the selection."""
    before = {found.chunk_id: found.rank for found in of}
    return [before[found.chunk_id] for found in hits]


@st.composite
def matrices(draw: st.DrawFn) -> Any:
    count = draw(st.integers(1, 9))
    seed = draw(st.integers(0, 10_000))
    rng = np.random.default_rng(seed)
    return similarities(rng.standard_normal((count, 3)))


@given(matrices(), st.integers(0, 12), st.integers(0, 99))
def test_each_dissimilar_item_is_the_one_farthest_from_those_before(
    similarity: Any, k: int, seed: int
) -> None:
    found = dissimilar(similarity, k, seed)
    assert len(found) == min(k, len(similarity)) == len(set(found))
    for place in range(1, len(found)):
        before = found[:place]
        nearest = {
            at: round(float(max(similarity[at][b] for b in before)), 6)
            for at in range(len(similarity))
            if at not in before
        }
        assert nearest[found[place]] == min(nearest.values())
    assert dissimilar(similarity, k, seed) == found


def test_another_seed_gives_another_set_and_it_beats_chance() -> None:
    rng = np.random.default_rng(0)
    groups = np.repeat(np.eye(6), 5, axis=0) + 0.05 * rng.standard_normal((30, 6))
    similarity = similarities(groups)
    sets = [frozenset(dissimilar(similarity, 6, seed)) for seed in range(20)]
    assert len(set(sets)) > 10

    def likeness(chosen: Sequence[int]) -> float:
        return float(np.mean([similarity[a][b] for a, b in combinations(chosen, 2)]))

    drawn = [random.Random(seed).sample(range(30), 6) for seed in range(20)]
    assert max(likeness(sorted(s)) for s in sets) < min(likeness(d) for d in drawn)
    # one of each group, whatever the start
    assert all({at // 5 for at in chosen} == set(range(6)) for chosen in sets)


def test_rows_without_length_are_like_nothing() -> None:
    found = similarities(np.array([[0.0, 0.0], [3.0, 4.0], [np.nan, 1.0]], np.float32))
    assert found[0].tolist() == [0.0, 0.0, 0.0]
    assert found[1][1] == pytest.approx(1.0)
    assert np.isfinite(found).all()


def test_words_are_compared_by_their_counts() -> None:
    found = word_similarities(["red car", "red car red car", "blue", ""], Analyzer())
    assert found[0][1] == pytest.approx(1.0)
    assert found[0][2] == 0
    assert found[3].tolist() == [0, 0, 0, 0]


HITS = [
    hit(1, "red car sold"),
    hit(2, "red car sold again"),
    hit(3, "blue bus rented"),
    hit(4, "red car sold"),
]


def test_without_settings_the_best_are_kept_as_they_are() -> None:
    assert select_hits(HITS, 2, SelectOptions()) == (tuple(HITS[:2]), ())
    assert select_hits([], 2, SelectOptions(balance="act")) == ((), ())
    assert select_depth(5, SelectOptions()) == 5
    assert select_depth(5, SelectOptions(balance="act")) == 30
    assert select_depth(5, SelectOptions(watch=("act",))) == 30


def test_caps_hold_and_say_what_they_keep_out() -> None:
    hits = [hit(1, document="a"), hit(2, document="a"), hit(3, document="a"), hit(4, document="b")]
    found, notes = select_hits(hits, 3, SelectOptions(max_per={"document_id": 1}))
    assert ranks(found, hits) == [1, 4]
    assert notes == ("2 of 3 hits: max_per (document_id: 1) excludes the others",)
    assert select_hits(hits, 2, SelectOptions(max_per={"document_id": 1}))[1] == ()


@given(
    st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from("xy")), min_size=1, max_size=14),
    st.integers(1, 14),
    st.integers(1, 3),
    st.sampled_from(["", "side", "document_id"]),
)
def test_caps_hold_whatever_takes_turns(
    kinds: list[tuple[str, str]], k: int, most: int, balance: str
) -> None:
    hits = [hit(n, f"{d} {s} {n}", d, side=s) for n, (d, s) in enumerate(kinds, 1)]
    options = SelectOptions(max_per={"document_id": most, "side": 4}, balance=balance)
    found, _ = select_hits(hits, k, options)
    assert len(found) <= k
    assert len({h.chunk_id for h in found}) == len(found)
    for field, limit in (("document_id", most), ("side", 4)):
        values = [h.document_id if field == "document_id" else h.metadata["side"] for h in found]
        assert all(values.count(value) <= limit for value in values)


def test_sides_take_turns() -> None:
    sides = ["pro", "pro", "pro", "con", "con", "pro"]
    hits = [hit(n, side=side) for n, side in enumerate(sides, 1)]
    found, notes = select_hits(hits, 4, SelectOptions(balance="side"))
    assert ranks(found, hits) == [1, 4, 2, 5]
    assert notes == ()


def test_a_hit_of_several_values_is_taken_once_and_one_of_none_has_its_turn() -> None:
    hits = [hit(1, topics=("a", "b")), hit(2, topics=("a",)), hit(3), hit(4, topics=("b",))]
    found, _ = select_hits(hits, 4, SelectOptions(balance="topics"))
    assert ranks(found, hits) == [1, 4, 3, 2]


def test_watched_fields_are_told_when_one_sided() -> None:
    hits = [hit(1, act="I"), hit(2, act="I"), hit(3, act="II")]
    found, notes = select_hits(hits, 2, SelectOptions(watch=("act",)))
    assert found == tuple(hits[:2])
    assert notes == (
        "one-sided: all 2 hits have act 'I', while the search also found 'II' "
        "(balance act, or set a filter)",
    )
    assert select_hits(hits, 2, SelectOptions(balance="act"))[1] == ()


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"max_per": {"act": 0}}, "act"),
    ],
)
def test_wrong_settings_are_refused(options: dict[str, Any], named: str) -> None:
    with pytest.raises(ConfigError, match=named):
        SelectOptions(**options)
