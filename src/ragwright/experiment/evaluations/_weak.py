"""Weaknesses of an evaluation: slices of rows far below the others, and the lowest rows."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from ...core import count_noun
from ...measure import MeasureScale, find_scale
from ._results import RowResult, row_values

_FEWEST = 3
"""Fewest scored rows of a slice, and of the others."""

_MOST_VALUES = 30
"""Most values of a field that divides rows into slices; a field with more names rows."""

_LEVEL = 0.05
_SHOWN = 5
_MARKS = frozenset({"abstained", "snippet_score", "chunk_score", "retrieved"})
"""Metadata that the program writes into a row."""


@dataclass(frozen=True, slots=True)
class WeakSlice:
    """Rows with a common value that score far worse than the others.

    Attributes:
        by: Field: ``persona_name`` or a metadata field; ``value`` is the shared value.
        mean: Mean over the slice, of ``n`` rows; ``rest`` over the ``others``.
        p: Probability of so low a mean for a slice drawn at random from these rows, two-sided,
            multiplied by the number of slices that were looked at.
    """

    measure: str
    by: str
    value: str
    mean: float
    n: int
    rest: float
    others: int
    p: float

    @property
    def text(self) -> str:
        """One sentence, without a full stop."""
        return (
            f"{self.measure} is {self.mean:.3f} on the {count_noun(self.n, 'row')} with "
            f"{self.by} = {self.value}, and {self.rest:.3f} on the {self.others} others"
        )


@dataclass(frozen=True, slots=True)
class WeakRow:
    """A row with a low value, or without one: its id, question, value and state."""

    measure: str
    id: str
    question: str
    value: float | None
    state: str


def weak_slices(results: Sequence[RowResult], measures: Iterable[str]) -> tuple[WeakSlice, ...]:
    """Return slices proven weaker than the other rows, the most points lost first.

    Fields are the persona and the metadata of the rows. The test is that of a sample mean drawn
    without replacement (normal approximation), corrected for all slices and measures (Bonferroni).
    """
    tested = [
        tested_slice for measure in measures for tested_slice in _slices_by_field(results, measure)
    ]
    weak = []
    for part, better in tested:
        lost = (part.rest - part.mean) * (1 if better else -1)
        p = min(1.0, part.p * len(tested))
        if lost > 0 and p < _LEVEL:
            weak.append((lost * part.n, replace(part, p=round(p, 6))))
    return tuple(part for _, part in sorted(weak, key=lambda pair: (-pair[0], pair[1].value)))


def weak_rows(
    results: Iterable[RowResult], measure: str, *, below: float | None = None, most: int = _SHOWN
) -> tuple[WeakRow, ...]:
    """Return the rows that score worst, worst first; rows that failed are first.

    Args:
        results: Stored results.
        measure: Their measure.
        below: Only rows worse than this bound; None for all that do not have the best value.
        most: Most rows.
    """
    scale = find_scale(measure)
    upward = scale is None or scale.higher_is_better
    bound = below if below is not None else _best_value(scale)
    ordered: list[tuple[float, WeakRow]] = []
    for result in results:
        for score in result.scores:
            if score.measure != measure or (
                score.value is None
                and (
                    score.state not in ("abstained", "errored", "judge_invalid")
                    or score.unanswerable
                )
            ):
                continue
            worse = score.value is None or bound is None
            if not worse and score.value is not None and bound is not None:
                worse = score.value < bound if upward else score.value > bound
            if worse:
                order = -math.inf if score.value is None else score.value * (1 if upward else -1)
                question = result.row.user_input if result.row is not None else ""
                row = WeakRow(measure, result.row_id, question, score.value, score.state)
                ordered.append((order, row))
    return tuple(row for _, row in sorted(ordered, key=lambda pair: pair[0])[:most])


def _best_value(scale: MeasureScale | None) -> float | None:
    if scale is None:
        return None
    return scale.high if scale.higher_is_better else scale.low


def _slices_by_field(
    results: Sequence[RowResult], measure: str
) -> Iterator[tuple[WeakSlice, bool]]:
    """Return every slice with its uncorrected p, and True if higher is better."""
    scale = find_scale(measure)
    better = scale is None or scale.higher_is_better
    values: list[float] = []
    members: dict[str, dict[str, list[float]]] = {}
    for result in results:
        value = next((s.value for s in result.scores if s.measure == measure), None)
        if value is None or result.row is None:
            continue
        values.append(value)
        fields = [name for name in result.row.metadata if name not in _MARKS]
        for by in ("persona_name", *fields):
            for field_value in row_values(result.row, by):
                members.setdefault(by, {}).setdefault(field_value, []).append(value)
    total, count = sum(values), len(values)
    if count < 2 * _FEWEST:
        return
    spread = math.sqrt(sum((v - total / count) ** 2 for v in values) / (count - 1))
    for by, groups in members.items():
        if not 2 <= len(groups) <= _MOST_VALUES:
            continue
        yield from _slices_of_field(measure, by, groups, (total, count, spread), better=better)


def _slices_of_field(
    measure: str,
    by: str,
    groups: Mapping[str, Sequence[float]],
    total_count_spread: tuple[float, int, float],
    *,
    better: bool,
) -> Iterator[tuple[WeakSlice, bool]]:
    total, count, spread = total_count_spread
    for value, slice_values in groups.items():
        n = len(slice_values)
        if not value or n < _FEWEST or count - n < _FEWEST or not spread:
            continue
        mean, rest = sum(slice_values) / n, (total - sum(slice_values)) / (count - n)
        z = (mean - total / count) / (spread * math.sqrt((1 - n / count) / n))
        p = math.erfc(abs(z) / math.sqrt(2))
        yield WeakSlice(measure, by, value, mean, n, rest, count - n, p), better
