"""Curves of capability suites: a table for people, JSON for programs."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any, Protocol

from ._text import interval, number, text_table


class Point(Protocol):
    """One dose of a curve."""

    @property
    def dose(self) -> float:
        """The dose."""

    @property
    def n(self) -> int:
        """Rows with a value."""

    @property
    def without(self) -> Mapping[str, int]:
        """Rows without one, by state."""

    @property
    def mean(self) -> float | None:
        """Mean of the values."""

    @property
    def low(self) -> float | None:
        """Lower end of its 95 % interval."""

    @property
    def high(self) -> float | None:
        """Upper end of it."""

    @property
    def abstained(self) -> float | None:
        """Share of rows without an answer."""

    @property
    def closed_book(self) -> float | None:
        """Mean without passages."""

    @property
    def above(self) -> float | None:
        """What the passages add to that."""

    @property
    def above_low(self) -> float | None:
        """Lower end of its 95 % interval."""

    @property
    def above_high(self) -> float | None:
        """Upper end of it."""


class DoseCurve(Protocol):
    """One quantity of a suite over its doses."""

    @property
    def suite(self) -> str:
        """Name of the suite."""

    @property
    def quantity(self) -> str:
        """What is measured."""

    @property
    def measure(self) -> str:
        """By which measure."""

    @property
    def dose_name(self) -> str:
        """What the doses count."""

    @property
    def among(self) -> str:
        """Which questions."""

    @property
    def points(self) -> Sequence[Point]:
        """By rising dose."""

    @property
    def change(self) -> float | None:
        """Difference between the ends."""

    @property
    def change_low(self) -> float | None:
        """Lower end of its 95 % interval."""

    @property
    def change_high(self) -> float | None:
        """Upper end of it."""


def curves_table(curves: Iterable[DoseCurve], *, notes: Iterable[str] = ()) -> str:
    """A block a curve: every dose with mean, interval, n and the closed-book control."""
    blocks = [_block(curve) for curve in curves]
    return "\n\n".join([*blocks, *(f"note: {note}" for note in notes)])


def curves_json(
    curves: Iterable[DoseCurve], *, run: str = "", notes: Iterable[str] = ()
) -> dict[str, Any]:
    """The document of ``suite curves --json``: ``{"curves": [{"suite", …, "points"}], "run"}``."""
    return {
        "curves": [asdict(curve) for curve in curves],  # type: ignore[call-overload]
        "run": run,
        "notes": list(notes),
    }


def _block(curve: DoseCurve) -> str:
    controlled = any(point.above is not None for point in curve.points)
    share = "share" in curve.dose_name
    head = ["dose", "mean", "95 % interval", "n", "abstained"]
    rows = [head + (["closed book", "above it", "95 % interval"] if controlled else [])]
    lost: dict[str, int] = {}
    for point in curve.points:
        for state, count in point.without.items():
            lost[state] = lost.get(state, 0) + count
        cells = [
            f"{point.dose:.0%}" if share else f"{point.dose:g}",
            number(point.mean),
            interval(point.low, point.high),
            str(point.n),
            "-" if point.abstained is None else f"{point.abstained:.0%}",
        ]
        if controlled:
            cells += [
                number(point.closed_book),
                "-" if point.above is None else f"{point.above:+.4f}",
                interval(point.above_low, point.above_high),
            ]
        rows.append(cells)
    known = ", questions known without passages" if curve.among == "known" else ""
    title = f"{curve.suite}: {curve.quantity} ({curve.measure}) over {curve.dose_name}{known}"
    lines = [
        *textwrap.wrap(title, 100, subsequent_indent="  "),
        text_table(rows, right=(0, 1, 3, 4, 5, 6)),
    ]
    if curve.change is not None:
        ends = f"{interval(curve.change_low, curve.change_high)}"
        lines.append(f"from the first dose to the last: {curve.change:+.4f} ({ends})")
    if lost:
        lines.append("without a value: " + ", ".join(f"{k} {v}" for k, v in lost.items()))
    return "\n".join(lines)
