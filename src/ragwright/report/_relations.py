"""Spearman's rank correlation of measures and of swept keys."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ._subject import FACT_NAMES, Subject

_FEWEST = 4
"""Least number of pairs for a correlation."""


@dataclass(frozen=True, slots=True)
class ColumnRelation:
    """The correlation of two columns: Spearman's rho over ``n`` pairs.

    ``rho`` is None if undefined: too few pairs, or one side does not vary.
    """

    first: str
    second: str
    rho: float | None
    n: int


def spearman(first: Sequence[float | None], second: Sequence[float | None]) -> ColumnRelation:
    """Return Spearman's rho of the complete pairs; ties share their mean rank."""
    pairs = [(a, b) for a, b in zip(first, second, strict=True) if a is not None and b is not None]
    if len(pairs) < _FEWEST:
        return ColumnRelation("", "", None, len(pairs))
    ranks = [_ranks(side) for side in np.array(pairs, dtype=np.float64).T]
    a, b = (side - side.mean() for side in ranks)
    spread = float(np.sqrt((a**2).sum() * (b**2).sum()))
    rho = round(float((a * b).sum()) / spread, 6) if spread else None
    return ColumnRelation("", "", rho, len(pairs))


def parameter_relations(subject: Subject) -> tuple[ColumnRelation, ...]:
    """Correlate every measure and fact with every swept key, over the trials of the first judge.

    Numeric keys are used directly; each value of other keys becomes a column that is 1 for trials
    with it. The current settings are left out, since their values were not chosen by the sweep.
    """
    chosen = set(subject.boards[0].entries) if subject.boards else set()
    trials = [entry for entry in subject.entries if entry.values and entry.id in chosen]
    columns = _columns([entry.values for entry in trials])
    facts = (f for f in FACT_NAMES if any(trial.facts.get(f) for trial in trials))
    return tuple(
        replace(spearman([trial.value(name) for trial in trials], numbers), first=name, second=key)
        for name in (*subject.measures, *facts)
        for key, numbers in columns.items()
    )


def measure_relations(
    measures: Sequence[str], columns: Mapping[str, Sequence[float | None]]
) -> tuple[ColumnRelation, ...]:
    """Correlate every pair of measures over the rows of one entry."""
    return tuple(
        replace(spearman(columns[first], columns[second]), first=first, second=second)
        for first, second in combinations(measures, 2)
    )


def is_numeric(values: Sequence[Any]) -> bool:
    """Return True if values are numbers, so that a line through them makes sense."""
    return bool(values) and all(
        isinstance(value, int | float) and not isinstance(value, bool) for value in values
    )


def value_text(value: Any) -> str:
    """Return a swept value as text; no value is ``none``."""
    if value is None or value == "":
        return "none"
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value)) or "none"
    if isinstance(value, bool):
        return "on" if value else "off"
    return f"{value:g}" if isinstance(value, float) else str(value)


def format_interval(low: float | None, high: float | None) -> str:
    """Return both ends of an interval, or a dash."""
    return "-" if low is None or high is None else f"{low:.4f} to {high:.4f}"


def _columns(settings: Sequence[Mapping[str, Any]]) -> dict[str, list[float | None]]:
    keys = dict.fromkeys(key for values in settings for key in values)
    columns: dict[str, list[float | None]] = {}
    for key in keys:
        values = [chosen.get(key) for chosen in settings]
        known = [value for value in values if value is not None]
        if is_numeric(known):
            columns[key] = [None if value is None else float(value) for value in values]
            continue
        texts = [value_text(value) for value in values]
        distinct = sorted(set(texts))
        # With two values, the second column is redundant.
        for text in distinct[1:] if len(distinct) == 2 else distinct:
            columns[f"{key} = {text}"] = [float(other == text) for other in texts]
    return columns


def _ranks(values: NDArray[np.float64]) -> NDArray[np.float64]:
    rounded = np.array([round(float(value), 6) for value in values])
    _, places, counts = np.unique(rounded, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    return np.asarray((last - (counts - 1) / 2)[places], dtype=np.float64)
