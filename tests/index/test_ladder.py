"""What a rung weighs and means, and how often rungs are empty."""

from __future__ import annotations

import math
import sys
from fractions import Fraction

import numpy as np
import pytest

from ragwright.core import Filter, FilterError, Relaxation, RelaxationLevel, SoftFilter
from ragwright.index import Ladder, rungs_of

A, B, C = (Filter(name, ("x",)) for name in "abc")
T1, T2 = Filter("topic", ("1",)), Filter("topic", ("2",))


def soft(*pairs: tuple[Filter, float]) -> tuple[SoftFilter, ...]:
    return tuple(SoftFilter(condition, weight) for condition, weight in pairs)


def test_rungs_say_what_is_met_and_missed() -> None:
    relax = Relaxation(soft((A, 3), (B, 0.1), (C, 0.2)))
    assert rungs_of(relax, (0b111, 0b110, 0, 0b110)) == (
        RelaxationLevel(3.3, (A, B, C), ()),
        RelaxationLevel(0.3, (B, C), (A,)),
        RelaxationLevel(0.0, (), (A, B, C)),
        RelaxationLevel(0.3, (B, C), (A,)),
    )
    assert rungs_of(relax, ()) == ()
    assert rungs_of(Relaxation(()), (0,)) == (RelaxationLevel(0.0),)


def test_equal_conditions_are_one_with_the_largest_weight() -> None:
    number, text = Filter("year", (2020, "2021")), Filter("year", ("2021", 2020.0, "2020"))
    low, same = Filter("year", low=2020), Filter("year", low="2020")
    relax = Relaxation(soft((number, 1), (low, 2), (text, 4), (same, 1), (A, 0)))
    (rung,) = rungs_of(relax, (0b01111,))
    assert rung == RelaxationLevel(6.0, (number, low), (A,))
    assert rungs_of(relax, (0b00101, 0b11010)) == (
        RelaxationLevel(4.0, (number,), (low, A)),
        RelaxationLevel(2.0, (low, A), (number,)),
    )


def test_weights_add_up_as_they_are_written() -> None:
    relax = Relaxation(soft((A, 1e6), (B, 1e-6), (C, 2e6)))
    assert [r.weight for r in rungs_of(relax, (0b101, 0b111))] == [3000000, 3000000.000001]
    ladder = Ladder.of(Relaxation(soft((A, 0.1), (B, 0.2), (C, 0.3))))
    assert ladder.totals(np.array([0b011, 0b100, 0b111, 0])).tolist() == [3, 3, 6, 0]
    for small, large in ((1.0, 2.0**61 - 2), (1.0, 2.0**62), (1e-300, 1e300), (5e-324, 1.5e308)):
        ladder = Ladder.of(Relaxation(soft((A, large), (B, small), (C, 0.0))))
        totals = ladder.totals(np.array([0b000, 0b101, 0b010, 0b011])).tolist()
        whole = [Fraction(str(small)), Fraction(str(large))]
        assert [n * ladder.unit for n in totals] == [0, whole[1], whole[0], sum(whole)]


def test_ladders_that_cannot_be_climbed_are_refused() -> None:
    with pytest.raises(FilterError, match="62"):
        rungs_of(Relaxation(soft(*[(A, 1.0)] * 63)), ())
    with pytest.raises(FilterError, match="infinity"):
        rungs_of(Relaxation(soft((A, 1e308), (B, 1e308))), ())
    with pytest.raises(FilterError, match="infinity"):  # though in floats it sums to a number
        rungs_of(Relaxation(soft((A, sys.float_info.max), (B, 9e291), (C, 9e291))), ())
    with pytest.raises(FilterError, match="number"):
        rungs_of(Relaxation((), math.nan), ())
