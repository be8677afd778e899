"""Steps and tags one by one: how many rows each acts on."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from ...core import PatternError, RecordsError, count_noun, require
from .._patterns import Replace
from .._seams import KEY, ArrowTable
from ..declared import Cleaning, CleaningStep, MaxRepeat, Tags
from ..stages import clean_texts, find_tags, limit_repeats
from ._report import Fault, PatternFacts

W = TypeVar("W")

_NUMBER = 20
"""Digits of a number that are shown before those that change."""


@dataclass(frozen=True, slots=True)
class TriedPatterns(Generic[W]):
    """Result of testing patterns.

    Attributes:
        working: The declarations without those that fail.
        facts: One for each that works.
        acted: Mask of the rows that each matches or changes; bool, shape (rows, facts).
        notes: Notes for the user.
    """

    working: W
    facts: tuple[PatternFacts, ...]
    acted: NDArray[np.bool_]
    notes: tuple[Fault, ...] = ()


def try_steps(
    cleaning: Cleaning, batch: ArrowTable, text: str, faults: list[Fault]
) -> TriedPatterns[Cleaning]:
    """Test every step of a cleaning on the result of the steps before it."""
    pa = require("pyarrow", "records", "checking records")
    compute = require("pyarrow.compute", "records", "checking records")
    column = batch.column(text).combine_chunks()
    whole = pa.concat_arrays(column.chunks) if isinstance(column, pa.ChunkedArray) else column
    texts = compute.cast(whole, pa.large_string())
    keys = batch.column(KEY)
    working, facts, acted, notes = [], [], [], []
    for step in cleaning.steps:
        try:
            after = clean_texts(texts, keys, replace(cleaning, steps=(step,)))
        except PatternError as error:
            faults.append(Fault.of(error))
            continue
        changed = compute.fill_null(compute.not_equal(texts, after), False)
        working.append(step)
        acted.append(np.asarray(changed, np.bool_))
        facts.append(_step_facts(step, int(acted[-1].sum())))
        notes.append(_lost_digits(step, keys, texts))
        texts = after
    return TriedPatterns(
        replace(cleaning, steps=tuple(working)),
        tuple(facts),
        _side_by_side(acted, len(texts)),
        tuple(note for note in notes if note is not None),
    )


def try_tags(tags: Tags, rows: ArrowTable, faults: list[Fault]) -> TriedPatterns[Tags]:
    """Test every tag on clean texts."""
    working, facts, acted = [], [], []
    for tag in tags.tags:
        if tag.column and tag.column not in rows.column_names:
            continue  # a fault already
        try:
            carried = np.asarray(find_tags([tag], rows, tags.pattern_seconds)[:, 0], np.bool_)
        except (PatternError, RecordsError) as error:
            faults.append(Fault.of(error))
            continue
        working.append(tag)
        acted.append(carried)
        pattern, count = tag.pattern, int(carried.sum())
        facts.append(PatternFacts("tag", tag.name, pattern.find, pattern.where, count))
    working_tags = replace(tags, tags=tuple(working))
    return TriedPatterns(working_tags, tuple(facts), _side_by_side(acted, rows.num_rows))


def _step_facts(step: CleaningStep, rows: int) -> PatternFacts:
    if isinstance(step, Replace):
        pattern = step.pattern
        return PatternFacts("cleaning", step.list_name, pattern.find, pattern.where, rows)
    name, shown, where = (
        ("max_repeat", f"max_repeat: {step.times}", step.where)
        if isinstance(step, MaxRepeat)
        else (step.name, step.name, "")
    )
    if isinstance(step, MaxRepeat) and not step.digits:
        shown += " except digits"
    return PatternFacts("cleaning", name, shown, where, rows)


def _lost_digits(step: CleaningStep, keys: ArrowTable, texts: ArrowTable) -> Fault | None:
    """Numbers that ``max_repeat`` made others of, with the first row of them."""
    if not isinstance(step, MaxRepeat) or not step.digits:
        return None
    longer = re.compile(rf"(\d)\1{{{step.times},}}")
    candidates = enumerate(text or "" for text in texts.to_pylist())
    hits = [(at, text, hit) for at, text in candidates if (hit := longer.search(text))]
    if not hits:
        return None
    at, text, hit = hits[0]
    number = _number_around(text, *hit.span())
    count = count_noun(len(hits), "row")
    return Fault(
        f"max_repeat changes digits in {count}: {number!r} becomes "
        f"{limit_repeats(number, step.times)!r} on the row {keys[at].as_py()!r}",
        step.where,
        f"write max_repeat: {{times: {step.times}, except: digits}}",
    )


def _number_around(text: str, start: int, end: int) -> str:
    """The digits around a place, and the sign before them; of a long one the beginning."""
    first = max(0, start - _NUMBER)
    while start > first and text[start - 1].isdigit():
        start -= 1
    if start and not text[start - 1].isspace():
        start -= 1
    last = min(len(text), start + 2 * _NUMBER)
    end = min(end, last)
    while end < last and text[end].isdigit():
        end += 1
    return text[start:end]


def _side_by_side(columns: list[NDArray[np.bool_]], rows: int) -> NDArray[np.bool_]:
    return np.stack(columns, axis=1) if columns else np.zeros((rows, 0), np.bool_)
