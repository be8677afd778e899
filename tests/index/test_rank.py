"""What a rung weighs and means, and how often rungs are empty."""

from __future__ import annotations

import math
import sys
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from ragwright.core import Filter, FilterError, Relaxation, RelaxationLevel, SoftFilter
from ragwright.index import IndexedDocument, Ladder, SqliteStore, rungs_of
from ragwright.testing import PAIR, make_document, make_indexed, make_vector

A, B, C = (Filter(name, ("x",)) for name in "abc")
NUMBER, TEXT = Filter("year", (2020, "2021")), Filter("year", ("2021", 2020.0, "2020"))
LOW, SAME = Filter("year", low=2020), Filter("year", low="2020")


def soft(*pairs: tuple[Filter, float]) -> Relaxation:
    return Relaxation(tuple(SoftFilter(condition, weight) for condition, weight in pairs))


THREE, BIG = soft((A, 3), (B, 0.1), (C, 0.2)), soft((A, 1e6), (B, 1e-6), (C, 2e6))
EQUAL = soft((NUMBER, 1), (LOW, 2), (TEXT, 4), (SAME, 1), (A, 0))


@pytest.mark.parametrize(
    ("relax", "bits", "weight", "met", "missed"),
    [
        (THREE, 0b111, 3.3, (A, B, C), ()),
        (THREE, 0b110, 0.3, (B, C), (A,)),
        (THREE, 0, 0.0, (), (A, B, C)),
        (Relaxation(()), 0, 0.0, (), ()),
        (EQUAL, 0b01111, 6.0, (NUMBER, LOW), (A,)),
        (EQUAL, 0b00101, 4.0, (NUMBER,), (LOW, A)),
        (EQUAL, 0b11010, 2.0, (LOW, A), (NUMBER,)),
        (BIG, 0b101, 3000000, (A, C), (B,)),
        (BIG, 0b111, 3000000.000001, (A, B, C), ()),
    ],
)
def test_rungs_say_what_is_met_and_equal_conditions_are_one(
    relax: Relaxation, bits: int, weight: float, met: tuple[Filter, ...], missed: tuple[Filter, ...]
) -> None:
    assert rungs_of(relax, (bits, bits)) == (RelaxationLevel(weight, met, missed),) * 2
    assert rungs_of(relax, ()) == ()


def test_weights_add_up_as_they_are_written() -> None:
    ladder = Ladder.of(soft((A, 0.1), (B, 0.2), (C, 0.3)))
    assert ladder.totals(np.array([0b011, 0b100, 0b111, 0])).tolist() == [3, 3, 6, 0]
    for small, large in ((1.0, 2.0**61 - 2), (1.0, 2.0**62), (1e-300, 1e300), (5e-324, 1.5e308)):
        ladder = Ladder.of(soft((A, large), (B, small), (C, 0.0)))
        totals = ladder.totals(np.array([0b000, 0b101, 0b010, 0b011])).tolist()
        whole = [Fraction(str(small)), Fraction(str(large))]
        assert [n * ladder.unit for n in totals] == [0, whole[1], whole[0], sum(whole)]


def test_ladders_that_cannot_be_climbed_are_refused() -> None:
    # In floats the third sums to a number.
    endless = soft((A, sys.float_info.max), (B, 9e291), (C, 9e291))
    many, sum_of_two = soft(*[(A, 1.0)] * 63), soft((A, 1e308), (B, 1e308))
    refused = {"62": many, "infinity": sum_of_two, "infinit": endless}
    for said, relax in {**refused, "number": Relaxation((), math.nan)}.items():
        with pytest.raises(FilterError, match=said):
            rungs_of(relax, ())


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
