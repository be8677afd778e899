"""The table of `compare --table tutorial`, as text and JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..core import plain
from ._data import fields_of
from ._text import text_table

if TYPE_CHECKING:
    from ..measure import Comparison, Summary
    from ..training import TutorialTable

_HEADS = {"Rubric(AnswersQuestion)": "answer relevance", "Groundedness": "groundedness"}


def tutorial_table(found: TutorialTable, width: int = 100) -> str:
    """Means with 95 % intervals and n; below each row its difference from base."""
    measures = [summary.measure for summary in found.rows[0].summaries]
    lines = [["", *map(_head, found.rows[0].summaries)]]
    for row in found.rows:
        if row.skipped:
            lines.append([row.name, f"skipped: {row.skipped}", *[""] * (len(measures) - 1)])
            continue
        lines.append([row.name, *(_cell(one) for one in row.summaries)])
        if row.comparisons:
            known = {one.measure: one for one in row.comparisons}
            lines.append(["  against base", *(_change(known.get(name)) for name in measures)])
    return text_table(lines, width=max(width, 60))


def _head(one: Summary) -> str:
    """A measure, and whether it counted spans or documents."""
    named = _HEADS.get(one.measure, one.measure)
    return f"{named} ({' and '.join(one.counted)})" if one.counted else named


def _cell(one: Summary) -> str:
    if one.mean is None:
        return f"no score, n {one.n}"
    ends = "" if one.low is None else f" ({one.low:.3f} to {one.high:.3f})"
    covered = "" if one.coverage >= 1 else f", coverage {one.coverage:.0%}"
    return f"{one.mean:.3f}{ends}, n {one.n}{covered}"


def _change(one: Comparison | None) -> str:
    if one is None or one.difference is None:
        return "not compared"
    ends = "" if one.low is None else f" ({one.low:+.3f} to {one.high:+.3f})"
    return f"{one.difference:+.3f}{ends} {one.verdict}"


def tutorial_json(table: TutorialTable) -> dict[str, Any]:
    """The table as JSON: ``testset, rows, notes``; each row with its runs and measures."""
    numbers = ("mean", "low", "high", "n", "coverage", "counted")
    rows = [
        {
            **fields_of(row, "name", "settings", "runs"),
            "skipped": row.skipped or None,
            "measures": {one.measure: fields_of(one, *numbers) for one in row.summaries},
            "against_base": {one.measure: plain(one) for one in row.comparisons},
        }
        for row in table.rows
    ]
    return {"testset": table.testset, "rows": rows, "notes": list(table.notes)}
