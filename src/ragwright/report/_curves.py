"""Curves of capability suites as text and JSON."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Iterable
from typing import Any

from ..experiment import Curve
from ._data import make_json
from ._text import WIDTH, format_signed, interval, number, share, text_table


def curves_table(curves: Iterable[Curve], *, notes: Iterable[str] = (), width: int = WIDTH) -> str:
    """Return a block per curve: every dose with mean, interval, n and the closed-book control."""
    blocks = [_block(curve, width) for curve in curves]
    return "\n\n".join([*blocks, *(f"note: {note}" for note in notes)])


def curves_json(
    curves: Iterable[Curve], *, run: str = "", notes: Iterable[str] = ()
) -> dict[str, Any]:
    """The document of ``suite curves --json``: ``{"curves": [{"suite", …, "points"}], "run"}``."""
    return {
        "curves": make_json(list(curves)),
        "run": run,
        "notes": list(notes),
    }


def _block(curve: Curve, width: int) -> str:
    controlled = any(point.above is not None for point in curve.points)
    shares = "share" in curve.dose_name
    head = ["dose", "mean", "95 % interval", "n", "abstained"]
    rows = [head + (["closed book", "above it", "95 % interval"] if controlled else [])]
    lost: Counter[str] = Counter()
    for point in curve.points:
        lost.update(point.without)
        dose = f"{point.dose:.0%}" if shares else f"{point.dose:g}"
        ends = interval(point.low, point.high)
        cells = [dose, number(point.mean), ends, str(point.n), share(point.abstained)]
        above = [format_signed(point.above), interval(point.above_low, point.above_high)]
        rows.append([*cells, *([number(point.closed_book), *above] if controlled else [])])
    known = ", questions known without passages" if curve.among == "known" else ""
    title = f"{curve.suite}: {curve.quantity} ({curve.measure}) over {curve.dose_name}{known}"
    lines = [
        *textwrap.wrap(title, 100, subsequent_indent="  "),
        text_table(rows, right=(0, 1, 3, 4, 5, 6), width=width),
    ]
    if curve.change is not None:
        ends = f"{interval(curve.change_low, curve.change_high)}"
        lines.append(f"from the first dose to the last: {curve.change:+.4f} ({ends})")
    if lost:
        lines.append("without a value: " + ", ".join(f"{k} {v}" for k, v in lost.items()))
    return "\n".join(lines)
