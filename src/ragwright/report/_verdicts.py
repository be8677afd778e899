"""The verdict of a study: as text, table and JSON."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from ..experiment import StudyVerdict
from ..measure import Comparison, p_text
from ._text import WIDTH, interval, number, text_table


def verdict_table(verdict: StudyVerdict, run: str = "", width: int = WIDTH) -> str:
    """The verdict as text; below it the two splits side by side."""
    lines = [verdict.text]
    rows = [["", "rows", "current", "trial", "difference", "95 % interval", "p"]]
    for one in verdict.confirmations:
        rows.append([f"{one.trial} {one.objective}, tune split", *_cells(one.tune, None)])
        if one.confirmed is not None:
            rows.append(
                [f"{one.trial} {one.objective}, confirm split", *_cells(one.confirmed, one.p)]
            )
    if len(rows) > 1:
        lines += ["", text_table(rows, right=(1, 2, 3, 4, 6), width=width)]
        chosen = verdict.selection
        lines += [
            "",
            f"expected optimism from picking the best of {chosen.candidates}: "
            f"{chosen.optimism:.4f}; lead without it: {chosen.expected:+.4f} "
            f"({p_text(chosen.p)}, corrected for the choice)",
        ]
    lines += [f"note: {note}" for note in verdict.notes]
    lines += [f"run: {run}"] if run else []
    return "\n".join(lines)


def verdict_json(verdict: StudyVerdict, run: str = "") -> dict[str, Any]:
    """The document of ``confirm --json``."""
    return {
        "text": verdict.text,
        "selection": asdict(verdict.selection) | {"expected": verdict.selection.expected},
        "confirmations": [
            {
                "trial": one.trial,
                "values": dict(one.values),
                "objective": one.objective,
                "tune": asdict(one.tune),
                "confirmed": None if one.confirmed is None else asdict(one.confirmed),
                "p": one.p,
                "outcome": one.outcome,
            }
            for one in verdict.confirmations
        ],
        "openings": verdict.openings,
        "notes": list(verdict.notes),
        "run": run,
    }


def _cells(found: Comparison, p: float | None) -> list[str]:
    found = found.deciding
    shown = found.p if p is None else p
    return [
        str(found.n),
        number(found.mean_a),
        number(found.mean_b),
        "" if found.difference is None else f"{found.difference:+.4f}",
        interval(found.low, found.high),
        "" if shown is None else f"{shown:.3g}",
    ]
