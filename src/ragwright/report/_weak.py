"""Where a run is weak: slices far below the other rows, and its lowest rows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from ..experiment import RowResult, WeakRow, WeakSlice, weak_rows, weak_slices
from ..measure import GateOutcome, parse_rule
from ._data import make_json
from ._subject import Subject
from ._text import WIDTH, text_table

_QUESTION = 100
"""Most characters of a question in a table."""

_SLICES, _ROWS = 10, 5
"""Most slices of a report, and most rows of each measure."""

ROW_HEAD = ("measure", "row", "value", "question")
SLICE_HEAD = ("measure", "rows with", "mean", "n", "others", "n", "p, corrected")


@dataclass(frozen=True, slots=True)
class Weak:
    """Weak slices and lowest rows of one entry."""

    slices: tuple[WeakSlice, ...] = ()
    rows: tuple[WeakRow, ...] = ()


def weak_of(subject: Subject) -> Weak:
    """Return weak slices and lowest rows of a run, or of the compared entry of a report."""
    entry = subject.focus[-1] if subject.focus else None
    if entry is None or not entry.rows or subject.baselines:
        return Weak()
    results = list(entry.read(True))
    rows = [row for name in subject.measures for row in weak_rows(results, name, most=_ROWS)]
    return Weak(weak_slices(results, subject.measures)[:_SLICES], tuple(rows))


def row_line(row: WeakRow) -> tuple[str, ...]:
    """Return a low row as a line of a table."""
    value = row.state if row.value is None else f"{row.value:.3f}"
    text = " ".join(row.question.split())
    short = text if len(text) <= _QUESTION else f"{text[: _QUESTION - 1]}…"
    return (row.measure, row.id, value, short)


def slice_line(weak: WeakSlice) -> tuple[str, ...]:
    """Return a weak slice as a line of a table."""
    p = "< 0.001" if weak.p < 0.001 else f"{weak.p:.3f}"
    means = (f"{weak.mean:.3f}", str(weak.n), f"{weak.rest:.3f}", str(weak.others))
    return (weak.measure, f"{weak.by} = {weak.value}", *means, p)


def failing(
    results: Sequence[RowResult], outcome: GateOutcome
) -> tuple[tuple[WeakSlice, ...], tuple[WeakRow, ...]]:
    """Return weak slices and lowest rows of the measures whose rules are not met."""
    rows: list[WeakRow] = []
    missed = [check for check in outcome.checks if check.state != "passed"]
    for check in missed:
        rule = parse_rule(check.rule)
        bound = rule.bound if rule.margin is None else None
        rows += weak_rows(results, check.measure, below=bound)
    slices = weak_slices(results, dict.fromkeys(check.measure for check in missed))
    return slices, tuple(dict.fromkeys(rows))


def failing_text(results: Sequence[RowResult], outcome: GateOutcome, width: int = WIDTH) -> str:
    """Return :func:`failing` as two tables; empty if every rule is met."""
    slices, rows = failing(results, outcome)
    return weak_text(slices, rows, width)


def failing_json(results: Sequence[RowResult], outcome: GateOutcome) -> dict[str, Any]:
    """Return :func:`failing` as ``{"slices": […], "rows": […]}``."""
    return weak_json(*failing(results, outcome))


def weak_text(slices: Iterable[WeakSlice], rows: Iterable[WeakRow], width: int = WIDTH) -> str:
    """Return weak slices and low rows as tables."""
    blocks = []
    if lines := [slice_line(weak) for weak in slices]:
        table = text_table([SLICE_HEAD, *lines], right=(2, 3, 4, 5, 6), width=width)
        blocks.append(f"weak slices:\n{table}")
    if lines := [row_line(weak) for weak in rows]:
        table = text_table([ROW_HEAD, *lines], right=(2,), width=width, whole=(1,))
        blocks.append(f"worst rows:\n{table}")
    return "\n\n".join(blocks)


def weak_json(slices: Iterable[WeakSlice], rows: Iterable[WeakRow]) -> dict[str, Any]:
    """Return weak slices and low rows as JSON."""
    return {"slices": make_json(list(slices)), "rows": make_json(list(rows))}
