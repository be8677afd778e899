"""The verdict of a study: as text, table and JSON."""

from __future__ import annotations

from typing import Any

from ..experiment import StudyVerdict
from ..measure import Comparison, p_text
from ._data import as_json, fields_of
from ._text import WIDTH, interval, number, signed, text_table


def verdict_table(verdict: StudyVerdict, run: str = "", width: int = WIDTH) -> str:
    """Return the verdict as text; below it the two splits side by side."""
    lines = [verdict.text]
    rows = [["", "rows", "current", "trial", "difference", "95 % interval", "p"]]
    for confirmation in verdict.confirmations:
        name = f"{confirmation.trial} {confirmation.objective}"
        rows.append([f"{name}, tune split", *_cells(confirmation.tune, None)])
        if confirmation.confirmed is not None:
            confirmed = _cells(confirmation.confirmed, confirmation.p)
            rows.append([f"{name}, confirm split", *confirmed])
    if len(rows) > 1:
        lines += ["", text_table(rows, right=(1, 2, 3, 4, 6), width=width)]
        selection = verdict.selection
        lines += [
            "",
            f"expected optimism from picking the best of {selection.candidates}: "
            f"at least {selection.optimism:.4f}; lead without it: at most "
            f"{selection.expected:+.4f} ({p_text(selection.p)}, corrected for the choice)",
        ]
    lines += [f"note: {note}" for note in verdict.notes]
    lines += [f"run: {run}"] if run else []
    return "\n".join(lines)


def verdict_json(verdict: StudyVerdict, run: str = "") -> dict[str, Any]:
    """The document of ``confirm --json``."""
    selection = as_json(verdict.selection) | {"expected": verdict.selection.expected}
    rest = fields_of(verdict, "confirmations", "openings", "notes")
    return {"text": verdict.text, "selection": selection, **rest, "run": run}


def _cells(comparison: Comparison, p: float | None) -> list[str]:
    side = comparison.deciding
    shown = side.p if p is None else p
    return [
        str(side.n),
        number(side.mean_a),
        number(side.mean_b),
        "" if side.difference is None else signed(side.difference),
        interval(side.low, side.high),
        "" if shown is None else f"{shown:.3g}",
    ]
