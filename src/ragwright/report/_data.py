"""Numbers for programs: JSON documents and CSV."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from ..core import csv_lines
from ..measure import Calibration, Comparisons, GateOutcome, Summary


def summary_json(
    summaries: Iterable[Summary],
    *,
    run: str = "",
    notes: Iterable[str] = (),
    slices: Mapping[str, Mapping[str, Iterable[Summary]]] | None = None,
    baselines: Iterable[Summary] = (),
    rows: Sequence[Mapping[str, Any]] | None = None,
) -> dict[str, Any]:
    """The document of ``eval --json``: ``{"measures": {name: {"mean", …}}, "run", "notes"}``.

    ``slices`` (field -> value -> summaries) adds ``"slices"`` of the same shape, ``baselines`` the
    key ``"baselines"`` of the shape of ``"measures"``, ``rows`` the key ``"rows"``.
    """
    found: dict[str, Any] = {
        "measures": _by_measure(summaries),
        "run": run,
        "notes": list(notes),
    }
    if slices:
        found["slices"] = {
            by: {value: _by_measure(part) for value, part in values.items()}
            for by, values in slices.items()
        }
    if null := _by_measure(baselines):
        found["baselines"] = null
    if rows is not None:
        found["rows"] = list(rows)
    return found


def comparison_json(found: Comparisons) -> dict[str, Any]:
    """The document of ``compare --json``; every measure with its verdict and sentence.

    Where a run abstained on rows with gold, ``with_abstained`` is the comparison that decides.
    """
    measures = {}
    for comparison in found.measures:
        fields = asdict(comparison)
        measures[fields.pop("measure")] = fields | {"text": comparison.text}
    return {
        "measures": measures,
        "only_a": list(found.only_a),
        "only_b": list(found.only_b),
        "missing": list(found.missing),
    }


def gate_json(outcome: GateOutcome) -> dict[str, Any]:
    """The document of ``gate --json``: ``{"outcome", "checks": […], "warnings": […]}``."""
    return {
        "outcome": outcome.state,
        "checks": [asdict(check) for check in outcome.checks],
        "warnings": list(outcome.warnings),
    }


def calibration_json(found: Calibration) -> dict[str, Any]:
    """The document of ``calibrate --json`` for one measure."""
    return asdict(found)


def summary_csv(summaries: Iterable[Summary]) -> str:
    """One line per measure; the states follow the numbers, one column each."""
    summaries = tuple(summaries)
    states = list(dict.fromkeys(state for summary in summaries for state in summary.states))
    numbers = ("mean", "low", "high", "interval", "median", "sd", "n", "coverage", "worst", "best")
    ends = ("scale_low", "scale_high")
    rows: list[Sequence[Any]] = [
        [
            "measure",
            *ends,
            *numbers,
            "no_gold",
            "unanswerable",
            "counted",
            "seed",
            *states,
            *_WITH_ABSTAINED,
        ]
    ]
    for summary in summaries:
        rows.append(
            [
                summary.measure,
                *((None, None) if summary.scale is None else summary.scale.ends),
                *(getattr(summary, name) for name in numbers),
                summary.no_gold,
                summary.unanswerable,
                " and ".join(summary.counted),
                summary.seed,
                *(summary.states.get(state, 0) for state in states),
                *(getattr(summary, name) for name in _WITH_ABSTAINED),
            ]
        )
    return "".join(csv_lines(rows))


_WITH_ABSTAINED = ("missed", "mean_with_abstained", "low_with_abstained", "high_with_abstained")


def _by_measure(summaries: Iterable[Summary]) -> dict[str, Any]:
    measures = {}
    for summary in summaries:
        fields = asdict(summary)
        measures[fields.pop("measure")] = fields
    return measures
