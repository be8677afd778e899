"""JSON documents and CSV of results."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ..core import csv_lines, make_plain
from ..experiment import AnswerCounts
from ..measure import Comparisons, GateOutcome, Summary


def make_json(value: Any) -> Any:
    """Return a record as JSON values: its fields by name, lists in place of tuples."""
    return _listed(make_plain(value))


def _listed(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _listed(inner) for key, inner in value.items()}
    return [_listed(inner) for inner in value] if isinstance(value, list | tuple) else value


def fields_of(record: Any, *names: str) -> dict[str, Any]:
    """Return fields and properties of a record as JSON values, in this order."""
    return {name: make_json(getattr(record, name)) for name in names}


def group_by_measure(summaries: Iterable[Summary]) -> dict[str, Any]:
    """Return summaries as plain values under their measures."""
    return {
        summary.measure: {
            **{k: v for k, v in make_json(summary).items() if k != "measure"},
            **({"judge_range": list(ends)} if (ends := summary.judge_range) else {}),
        }
        for summary in summaries
    }


def summary_json(
    summaries: Iterable[Summary],
    *,
    run: str = "",
    notes: Iterable[str] = (),
    slices: Mapping[str, Mapping[str, Iterable[Summary]]] | None = None,
    baselines: Iterable[Summary] = (),
    rows: Sequence[Mapping[str, Any]] | None = None,
    counts: AnswerCounts | None = None,
) -> dict[str, Any]:
    """The document of ``eval --json``: ``{"measures": {name: {"mean", …}}, "run", "notes"}``.

    ``slices`` (field -> value -> summaries) adds ``"slices"`` of the same shape, ``baselines`` the
    key ``"baselines"`` of the shape of ``"measures"``, ``rows`` the key ``"rows"``, and ``counts``,
    first, ``"outcome"``.
    """
    document: dict[str, Any] = {
        **({"outcome": make_json(counts)} if counts and any(counts.lines()) else {}),
        "measures": group_by_measure(summaries),
        "run": run,
        "notes": list(notes),
    }
    if slices:
        document["slices"] = {
            by: {value: group_by_measure(part) for value, part in values.items()}
            for by, values in slices.items()
        }
    if null := group_by_measure(baselines):
        document["baselines"] = null
    if rows is not None:
        document["rows"] = list(rows)
    return document


def comparison_json(comparisons: Comparisons) -> dict[str, Any]:
    """The document of ``compare --json``; every measure with its verdict and sentence.

    Where a run abstained on rows with gold, ``with_abstained`` is the comparison that decides.
    """
    measures = {
        comparison.measure: make_json(comparison) | {"text": comparison.text}
        for comparison in comparisons.measures
    }
    return {"measures": measures, **fields_of(comparisons, "only_a", "only_b", "missing")}


def gate_json(outcome: GateOutcome) -> dict[str, Any]:
    """The document of ``gate --json``: ``{"outcome", "checks": […], "warnings": […]}``."""
    return {"outcome": outcome.state, **fields_of(outcome, "checks", "warnings")}


def summary_csv(summaries: Iterable[Summary]) -> str:
    """Return a line per measure; the states follow the numbers, one column each."""
    summaries = tuple(summaries)
    states = list(dict.fromkeys(state for summary in summaries for state in summary.states))
    numbers = ("mean", "low", "high", "interval", "median", "sd", "n", "coverage", "worst", "best")
    ends, counts, last = (
        ("scale_low", "scale_high"),
        ("no_gold", "unanswerable"),
        ("counted", "seed"),
    )
    abstained = ("missed", "mean_with_abstained", "low_with_abstained", "high_with_abstained")
    rows: list[Sequence[Any]] = [["measure", *ends, *numbers, *counts, *last, *states, *abstained]]
    rows += [
        [
            summary.measure,
            *((None, None) if summary.scale is None else summary.scale.ends),
            *(getattr(summary, name) for name in (*numbers, *counts)),
            " and ".join(summary.counted),
            summary.seed,
            *(summary.states.get(state, 0) for state in states),
            *(getattr(summary, name) for name in abstained),
        ]
        for summary in summaries
    ]
    return "".join(csv_lines(rows))
