"""Relaxed filters against the definition, worked out chunk by chunk from the documents."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings, strategies as st
from naive_relaxed import naive_relaxed

from ragwright.core import Chunk, Document, Filter, FilterError, Relaxation, SoftFilter
from ragwright.index import IndexedDocument, SqliteStore, View
from ragwright.testing import PAIR, make_document, make_indexed, make_vector

Meets = Callable[[Document, Chunk], bool]

DEMANDED: tuple[tuple[Filter, Meets], ...] = (
    (Filter("client", ("client 1",)), lambda d, c: d.metadata["client"] == "client 1"),
    (
        Filter("client", ("client 2", "nobody")),
        lambda d, c: d.metadata["client"] == "client 2",
    ),
    (Filter("topics", ("t1",)), lambda d, c: "t1" in d.metadata["topics"]),  # type: ignore[operator]
    (Filter("topics", ("t4",)), lambda d, c: "t4" in d.metadata["topics"]),  # type: ignore[operator]
    (Filter("language", ("en", "de")), lambda d, c: d.language in ("en", "de")),
    (Filter("year", low=2005, high=2020), lambda d, c: 2005 <= int(str(d.metadata["year"])) < 2021),
    (Filter("year", low=3000), lambda d, c: False),
    (Filter("public", (True,)), lambda d, c: d.metadata["public"] is True),
    (Filter("half", ("first",)), lambda d, c: c.ordinal == 0),
    (Filter("page", (1,)), lambda d, c: c.page == 1),
    (Filter("section", ("Part 2",)), lambda d, c: "Part 2" in c.headings),
)


def opposite(meets: Meets) -> Meets:
    return lambda document, chunk: not meets(document, chunk)


CONDITIONS = (
    *DEMANDED,
    *((replace(one, exclude=True), opposite(meets)) for one, meets in DEMANDED),
    (Filter("client", ("nobody",), exclude=True), lambda d, c: True),
)

WEIGHTS = ("0", "0.1", "0.2", "0.3", "1", "2", "3", "5", "8", "1000000", "0.000001", "1e30")

QUERIES: dict[str, Any] = {"dense": make_vector("q"), "keyword": "engine pump Manual"}


class Corpus:
    """A view and what it holds."""

    def __init__(self, view: View, items: list[IndexedDocument]) -> None:
        self.view = view
        self.items = items

    def __repr__(self) -> str:
        """Short: hypothesis writes out every argument, and the example is to be seen."""
        return "Corpus()"


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Corpus]:
    store = SqliteStore(tmp_path_factory.mktemp("relaxed") / "store.sqlite")
    items = [make_indexed(make_document(n)) for n in range(34)]
    for start, end in ((0, 12), (12, 20), (20, 34)):
        store.upsert(PAIR, items[start:end])
        store.view(PAIR).close()
    store.remove([items[5].document.id, items[30].document.id])
    left = [item for at, item in enumerate(items) if at not in (5, 30)]
    view = store.view(PAIR)
    assert len(view._live_state().segments) > 1  # type: ignore[attr-defined]
    yield Corpus(view, left)
    store.close()


def slow(
    view: View,
    items: Sequence[IndexedDocument],
    query: Any,
    chosen: Sequence[tuple[int, str]],
    hard: Sequence[int],
    relax: Relaxation,
) -> list[tuple[str, float, int]]:
    """(chunk id, score, rung) of all, in order, by the definition and exact sums of weights."""
    if isinstance(query, str):
        scores = dict(view.keyword(query, 10_000))
    else:
        scores = dict(view.dense(query[None, :], 10_000)[0])
    rows = []
    for item in items:
        for chunk in item.chunks:
            if chunk.id not in scores:
                continue
            if not all(CONDITIONS[at][1](item.document, chunk) for at in hard):
                continue
            score, rung = scores[chunk.id], 0
            heaviest: dict[int, Fraction] = {}
            for place, (at, weight) in enumerate(chosen):
                if CONDITIONS[at][1](item.document, chunk):
                    rung |= 1 << place
                    heaviest[at] = max(heaviest.get(at, Fraction(0)), Fraction(weight))
            weights = {at: Fraction(0) for at, _ in chosen}
            for at, weight in chosen:
                weights[at] = max(weights[at], Fraction(weight))
            total = sum(weights[at] for at in heaviest)
            if chosen and not rung and not relax.unfiltered:
                continue
            if relax.threshold is not None and score < relax.threshold:
                continue
            rows.append((-total, -score, chunk.id, rung))
    return [(key, -score, rung) for _, score, key, rung in sorted(rows)]


def sum_of(chosen: Sequence[tuple[int, str]], rung: int) -> Fraction:
    """Exact weight of a rung: of equal conditions the heaviest counts."""
    heaviest: dict[int, Fraction] = {}
    for place, (at, weight) in enumerate(chosen):
        if rung >> place & 1:
            heaviest[at] = max(heaviest.get(at, Fraction(0)), Fraction(weight))
    return sum(heaviest.values(), Fraction(0))


def hidden(items: Sequence[IndexedDocument], hard: Sequence[int], soft: Sequence[int]) -> bool:
    """True where a condition names values that no chunk holds which those before it leave."""
    left = [(item.document, chunk) for item in items for chunk in item.chunks]
    for place, at in enumerate((*hard, *soft)):
        condition, meets = CONDITIONS[at]
        met = [row for row in left if meets(*row)]
        if condition.values and not condition.exclude and left and not met:
            return True
        if place < len(hard):
            left = met
    return False


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(
    kind=st.sampled_from(sorted(QUERIES)),
    chosen=st.lists(
        st.tuples(st.integers(0, len(CONDITIONS) - 1), st.sampled_from(WEIGHTS)), max_size=7
    ),
    hard=st.lists(st.integers(0, len(CONDITIONS) - 1), max_size=2),
    threshold=st.sampled_from([None, -1.0, 0.0, 0.1, 0.25, 1.5, 1e300, -1e300]),
    unfiltered=st.booleans(),
    k=st.sampled_from([0, 1, 3, 10, 40, 1000]),
)
@example(
    kind="dense",
    chosen=[(0, "1000000"), (2, "1000000"), (8, "1000000"), (9, "0.000001")],
    hard=[],
    threshold=None,
    unfiltered=True,
    k=1000,
)
@example(
    kind="keyword",
    chosen=[(0, "1e30"), (2, "0.1"), (8, "0.2"), (9, "0.3"), (4, "1e-30"), (10, "1e30")],
    hard=[],
    threshold=None,
    unfiltered=True,
    k=1000,
)
def test_one_pass_is_the_definition(
    corpus: Corpus,
    kind: str,
    chosen: list[tuple[int, str]],
    hard: list[int],
    threshold: float | None,
    unfiltered: bool,
    k: int,
) -> None:
    view, items = corpus.view, corpus.items
    soft = tuple(SoftFilter(CONDITIONS[at][0], float(weight)) for at, weight in chosen)
    relax = Relaxation(soft, threshold, unfiltered)
    filters = [CONDITIONS[at][0] for at in hard]
    if hidden(items, hard, [at for at, _ in chosen]):
        with pytest.raises(FilterError):
            view.relaxed(QUERIES[kind], k, relax, filters)
        return
    expected = slow(view, items, QUERIES[kind], chosen, hard, relax)
    found = view.relaxed(QUERIES[kind], k, relax, filters)
    assert found.candidates == tuple((key, score) for key, score, _ in expected[:k])
    assert found.rungs == tuple(rung for _, _, rung in expected[:k])
    counts: dict[int, int] = {}
    for _, _, rung in expected:
        counts[rung] = counts.get(rung, 0) + 1
    whole = view.relaxed(QUERIES[kind], 0, relax, filters)
    assert (whole.candidates, dict(whole.ladder)) == ((), counts)
    weights = [sum_of(chosen, rung) for rung, _ in whole.ladder]
    assert weights == sorted(weights, reverse=True)
    # Otherwise the rungs down to the last one that was needed.
    if 0 < k <= len(expected):
        least = sum_of(chosen, expected[k - 1][2])
        assert found.ladder == tuple(
            row for row, weight in zip(whole.ladder, weights, strict=True) if weight >= least
        )
    else:
        assert found.ladder == whole.ladder


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(
    kind=st.sampled_from(sorted(QUERIES)),
    chosen=st.lists(st.integers(0, len(CONDITIONS) - 1), max_size=6, unique=True),
    hard=st.lists(st.integers(0, len(CONDITIONS) - 1), max_size=1),
    threshold=st.sampled_from([None, 0.1, 1.5]),
    unfiltered=st.booleans(),
    k=st.sampled_from([1, 3, 10, 40, 1000]),
    data=st.data(),
)
def test_one_pass_is_the_naive_algorithm_where_weights_are_distinct(
    corpus: Corpus,
    kind: str,
    chosen: list[int],
    hard: list[int],
    threshold: float | None,
    unfiltered: bool,
    k: int,
    data: st.DataObject,
) -> None:
    view, items = corpus.view, corpus.items
    weights = data.draw(st.permutations([2.0**n for n in range(-2, len(chosen) - 2)]))
    soft = tuple(SoftFilter(CONDITIONS[at][0], w) for at, w in zip(chosen, weights, strict=True))
    relax = Relaxation(soft, threshold, unfiltered)
    filters = [CONDITIONS[at][0] for at in hard]
    if hidden(items, hard, chosen):
        for search in (view.relaxed, partial(naive_relaxed, view)):
            with pytest.raises(FilterError):
                search(QUERIES[kind], k, relax, filters)
        return
    found = view.relaxed(QUERIES[kind], k, relax, filters)
    naive = naive_relaxed(view, QUERIES[kind], k, relax, filters)
    assert (found.candidates, found.rungs) == (naive.candidates, naive.rungs)
    assert found.ladder == naive.ladder


@pytest.mark.parametrize("count", [16, 17, 62])
def test_many_filters(tmp_path: Path, count: int) -> None:
    store = SqliteStore(tmp_path / "store.sqlite")
    items = [
        make_indexed(make_document(n, metadata={"tags": tuple(f"g{t}" for t in range(n, n + 5))}))
        for n in range(count)
    ]
    store.upsert(PAIR, items)
    soft = tuple(SoftFilter(Filter("tags", (f"g{t}",)), t % 5) for t in range(count))
    relax = Relaxation(soft)
    for k in (7, 1000):
        found = store.view(PAIR).relaxed(make_vector("q"), k, relax)
        hits = store.view(PAIR).lookup([key for key, _ in found.candidates])
        keys = []
        for hit, rung, (_, score) in zip(hits, found.rungs, found.candidates, strict=True):
            tags = hit.metadata["tags"]
            assert isinstance(tags, tuple)
            assert rung == sum(1 << int(tag[1:]) for tag in tags if int(tag[1:]) < count)
            weight = sum(int(tag[1:]) % 5 for tag in tags if int(tag[1:]) < count)
            keys.append((-weight, -score, hit.chunk_id))
        assert keys == sorted(keys)
    whole = store.view(PAIR).relaxed(make_vector("q"), 0, relax)
    assert sum(total for _, total in whole.ladder) == sum(len(i.chunks) for i in items)
    store.close()


def test_similarities_near_the_threshold_are_worked_out_exactly(tmp_path: Path) -> None:
    """Rounded to six digits, not as a float32 product has them."""
    store = SqliteStore(tmp_path / "store.sqlite")
    query = make_vector("q")
    items = []
    for n in range(400):
        item = make_indexed(make_document(n), size=10_000)
        vector = (query * np.float32(0.5) + np.float32(1e-6) * make_vector(f"{n}"))[None, :]
        items.append(IndexedDocument(item.document, item.chunks, vector))
    store.upsert(PAIR, items)
    view = store.view(PAIR)
    every = view.dense(query[None, :], 1000)[0]
    assert len({score for _, score in every}) > 1
    for threshold in sorted({score for _, score in every}):
        found = view.relaxed(query, 1000, Relaxation((), threshold))
        assert found.candidates == tuple(pair for pair in every if pair[1] >= threshold)
    store.close()
