"""Sets of characters, and patterns written out for Rust."""

from __future__ import annotations

import re
import sys

import pytest
from hypothesis import given, strategies as st

from ragwright.records.patterns._kernels import refusal, tells_apart
from ragwright.records.patterns._plan import plan_of
from ragwright.records.patterns._rust import (
    Ranges,
    difference,
    every_character,
    ranges_of,
    shared,
    translate,
    word_characters,
)

SETS = st.sets(st.integers(32, 60)).map(sorted)


def ranges(codes: list[int]) -> Ranges:
    return ranges_of("".join(map(chr, codes)))


def codes(spans: Ranges) -> set[int]:
    return {code for low, high in spans for code in range(low, high + 1)}


@given(SETS, SETS)
def test_sets_of_characters(one: list[int], other: list[int]) -> None:
    assert codes(ranges(one)) == set(one)
    assert codes(shared(ranges(one), ranges(other))) == set(one) & set(other)
    assert codes(difference(ranges(one), ranges(other))) == set(one) ^ set(other)


def test_every_character_is_there_once() -> None:
    every = every_character()
    assert len(every) == sys.maxunicode + 1 - 2048
    assert every[0xD7FF:0xD801] == "\ud7ff\ue000"


def test_word_characters_are_pythons() -> None:
    found = codes(word_characters())
    sample = range(0x3000)
    assert {code for code in sample if code in found} == {
        code for code in sample if re.match(r"\w", chr(code))
    }


@pytest.mark.parametrize(
    "pattern", ["(?i)straße", r"[^\W\d_]+", r"(?x) a # b", r"\x41|\u00e9|\N{BULLET}"]
)
def test_what_is_written_out_rust_accepts(pattern: str) -> None:
    told = translate(re.compile(pattern))
    assert told.exact is not None
    assert refusal(told.exact) is None


def test_a_pattern_too_large_for_rust_is_pythons() -> None:
    plan = plan_of(r"(?:\w{60}x){60}")
    assert plan.rust is None


@pytest.mark.parametrize(
    ("pattern", "apart"),
    [
        (r"(?i)\bdonate\b", False),
        (r"\b[^a-k]\S\w.\W[^\W\d_]", False),
        ("\\b❤\ufe0f", True),
        (r"\b[\u0300-\u036f]", True),
        ("\\b\ufffc", True),
        (r"\b½", True),
    ],
)
def test_patterns_that_name_a_disputed_character(pattern: str, apart: bool) -> None:
    assert tells_apart(plan_of(pattern).classes) is apart
