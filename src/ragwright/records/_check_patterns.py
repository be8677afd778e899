"""Steps and tags one by one: how many rows each acts on, how long it takes, where it runs."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from ..core import PatternError, require
from ._check_report import Fault, PatternFacts, PatternUse
from ._clean_texts import clean_texts
from ._cleaning import Cleaning, CleaningStep, MaxRepeat, Replace
from ._kernels import refusal
from ._matching import matches
from ._patterns import Pattern, plan_of, tokens_of
from ._python_patterns import Token
from ._seams import KEY, ArrowTable
from ._silver import TEXT
from ._tags import Tags

W = TypeVar("W")

_SLOW = 5.0
"""Times the usual time of a row from which a pattern is slow."""

_NOTICED = 0.02
"""Seconds below which nothing is said to be slow: the clock is too coarse for that."""


@dataclass(frozen=True, slots=True)
class TriedPatterns(Generic[W]):
    """What came of trying patterns.

    Attributes:
        working: The declarations without those that fail.
        facts: One for each that works.
        acted: Which rows it matches or changes; bool, shape (rows, facts).
    """

    working: W
    facts: tuple[PatternFacts, ...]
    acted: NDArray[np.bool_]


def try_steps(
    cleaning: Cleaning, batch: ArrowTable, text: str, faults: list[Fault]
) -> TriedPatterns[Cleaning]:
    """Every step of a cleaning over the texts that the steps before it left."""
    pa = require("pyarrow", "records", "checking records")
    compute = require("pyarrow.compute", "records", "checking records")
    column = batch.column(text).combine_chunks()
    whole = pa.concat_arrays(column.chunks) if isinstance(column, pa.ChunkedArray) else column
    texts = compute.cast(whole, pa.large_string())
    keys = batch.column(KEY)
    working, facts, acted = [], [], []
    for step in cleaning.steps:
        alone = replace(cleaning, steps=(step,))
        started = time.perf_counter()
        try:
            after = clean_texts(texts, keys, alone)
        except PatternError as error:
            faults.append(Fault.of(error))
            continue
        seconds = time.perf_counter() - started
        changed = compute.fill_null(compute.not_equal(texts, after), False)
        working.append(step)
        acted.append(np.asarray(changed, np.bool_))
        facts.append(_step_facts(step, int(acted[-1].sum()), seconds / len(texts)))
        texts = after
    return TriedPatterns(
        replace(cleaning, steps=tuple(working)), tuple(facts), _side_by_side(acted, len(texts))
    )


def try_tags(tags: Tags, rows: ArrowTable, faults: list[Fault]) -> TriedPatterns[Tags]:
    """Every tag over clean texts."""
    texts, keys = rows.column(TEXT), rows.column(KEY)
    working, facts, acted = [], [], []
    for tag in tags.tags:
        started = time.perf_counter()
        try:
            found = matches(texts, keys, [tag.pattern], tags.pattern_seconds)
        except PatternError as error:
            faults.append(Fault.of(error))
            continue
        seconds = (time.perf_counter() - started) / max(1, len(texts))
        working.append(tag)
        acted.append(np.asarray(found[:, 0], np.bool_))
        why = why_python(tag.pattern.find)
        facts.append(_facts("tag", (tag.name, why), tag.pattern, int(acted[-1].sum()), seconds))
    made = replace(tags, tags=tuple(working))
    return TriedPatterns(made, tuple(facts), _side_by_side(acted, len(texts)))


def marked_slow(facts: Sequence[PatternFacts], rows: int) -> tuple[PatternFacts, ...]:
    """The same, those marked that take five times the median of their kind."""
    found = []
    for one in facts:
        usual = float(np.median([f.microseconds for f in facts if f.use == one.use]))
        noticed = one.microseconds * rows / 1e6 >= _NOTICED
        found.append(replace(one, slow=noticed and one.microseconds > _SLOW * usual))
    return tuple(found)


def _step_facts(step: CleaningStep, rows: int, seconds: float) -> PatternFacts:
    if isinstance(step, Replace):
        tokens = tokens_of(step.replacement.text, step.pattern.find)
        why = why_python(step.pattern.find, tokens)
        return _facts("cleaning", (step.list_name, why), step.pattern, rows, seconds)
    name, shown = (
        ("max_repeat", f"max_repeat: {step.times}")
        if isinstance(step, MaxRepeat)
        else (step.name, step.name)
    )
    return PatternFacts("cleaning", name, shown, "", rows, round(seconds * 1e6, 3))


def _facts(
    use: PatternUse, named: tuple[str, str], pattern: Pattern, rows: int, seconds: float
) -> PatternFacts:
    name, why = named
    micro = round(seconds * 1e6, 3)
    return PatternFacts(use, name, pattern.find, pattern.where, rows, micro, python=why)


def why_python(find: str, tokens: tuple[Token, ...] | None = None) -> str:
    """Why Python runs a pattern rather than Rust; empty where Rust does.

    Args:
        find: The pattern.
        tokens: What its matches are replaced by, None where it is only searched for.
    """
    plan = plan_of(find)
    if plan.rust is None:
        told = refusal(find)
        return told or "Rust's engine would match something else"
    if tokens is None or plan.replaces_in_rust(tokens):
        return ""
    return "it can match an empty text" if plan.empty else "it keeps a group of a loop"


def _side_by_side(columns: list[NDArray[np.bool_]], rows: int) -> NDArray[np.bool_]:
    return np.stack(columns, axis=1) if columns else np.zeros((rows, 0), np.bool_)
