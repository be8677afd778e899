"""The table of `compare --table tutorial`, as text and JSON."""

from __future__ import annotations

from typing import Any

from ..measure import Comparison, Summary
from ..training import TutorialTable
from ._data import fields_of, make_json
from ._text import text_table

_HEADS = {"Rubric(AnswersQuestion)": "answer relevance", "Groundedness": "groundedness"}


def tutorial_table(table: TutorialTable, width: int = 100) -> str:
    """Return means with 95 % intervals and n; below each row its difference from base."""
    measures = [summary.measure for summary in table.rows[0].summaries]
    lines = [["", *map(_head, table.rows[0].summaries)]]
    for row in table.rows:
        if row.skipped:
            lines.append([row.name, f"skipped: {row.skipped}", *[""] * (len(measures) - 1)])
            continue
        lines.append([row.name, *(_cell(summary) for summary in row.summaries)])
        if row.comparisons:
            known = {summary.measure: summary for summary in row.comparisons}
            lines.append(["  against base", *(_change(known.get(name)) for name in measures)])
    return text_table(lines, width=max(width, 60))


def _head(summary: Summary) -> str:
    """A measure, and whether it counted spans or documents."""
    named = _HEADS.get(summary.measure, summary.measure)
    return f"{named} ({' and '.join(summary.counted)})" if summary.counted else named


def _cell(summary: Summary) -> str:
    if summary.mean is None:
        return f"no score, n {summary.n}"
    ends = "" if summary.low is None else f" ({summary.low:.3f} to {summary.high:.3f})"
    covered = "" if summary.coverage >= 1 else f", coverage {summary.coverage:.0%}"
    return f"{summary.mean:.3f}{ends}, n {summary.n}{covered}"


def _change(comparison: Comparison | None) -> str:
    if comparison is None or comparison.difference is None:
        return "not compared"
    ends = "" if comparison.low is None else f" ({comparison.low:+.3f} to {comparison.high:+.3f})"
    return f"{comparison.difference:+.3f}{ends} {comparison.worded}"


def tutorial_json(table: TutorialTable) -> dict[str, Any]:
    """Return the table as JSON: ``testset, rows, notes``; each row with its runs and measures."""
    numbers = ("mean", "low", "high", "n", "coverage", "counted")
    rows = [
        {
            **fields_of(row, "name", "settings", "runs"),
            "skipped": row.skipped or None,
            "measures": {result.measure: fields_of(result, *numbers) for result in row.summaries},
            "against_base": {result.measure: make_json(result) for result in row.comparisons},
        }
        for row in table.rows
    ]
    return {"testset": table.testset, "rows": rows, "notes": list(table.notes)}
