"""Distances beside those of a baseline: a table with its verdict for people, JSON for programs."""

from __future__ import annotations

import statistics
import textwrap
from collections.abc import Sequence
from typing import Any

from ..core import counted, plain
from ..experiment import BaselineResult, DistanceSet, DistanceShift
from ._data import fields_of
from ._text import WIDTH, number, text_table

SET_NAMES = {
    "baseline": "S_b: the pairs",
    "experiment": "S_e: the experiment",
    "with_chunk": "answered from its chunk",
    "without_chunk": "answered without it",
}
"""What tables and charts call the sets of a baseline."""

_HEAD = (
    "answers",
    "n",
    "own",
    "median",
    "shuffled",
    "echoed",
    "random chunk",
    "mean rank",
    "first",
)
_READ = {
    "smaller": "the answers are nearer to their questions than those of the pairs. Good, unless "
    "they repeat the questions' words: compare with `echoed`",
    "about equal": "the answers are as near to their questions as those of the pairs. Good",
    "larger": "the answers are farther from their questions than those of the pairs. Not good",
    "undecided": "these pairs cannot tell whether the distances differ",
}


def baseline_table(found: BaselineResult, width: int = WIDTH) -> str:
    """One line a set, the verdict below, then what to know of the numbers."""
    lines = [list(_HEAD), *(_line(one) for one in found.sets)]
    changed = ", ".join(found.changed) or "nothing: the project as it is"
    about = (
        f"Distance of question and answer, 0 to 2, by {found.embedder}. Pairs: {found.testset}. "
        f"The experiment changes {changed}."
    )
    said = [about, "", text_table(lines, right=range(1, len(_HEAD)), width=width), ""]
    said.append(f"S_e against S_b: {shift_text(found.shift)}")
    if found.context is not None:
        said.append(f"With the chunk against without it: {shift_text(found.context, pairs=False)}")
    said = [
        line if "\n" in line else "\n".join(textwrap.wrap(line, width) or [""]) for line in said
    ]
    said += [textwrap.fill(f"note: {note}", width, subsequent_indent="  ") for note in found.notes]
    said.append(f"run: {found.run}")
    return "\n".join(said)


def baseline_json(result: BaselineResult) -> dict[str, Any]:
    """The document of ``baseline --json``: outcome, numbers of every set, runs."""
    return {
        **fields_of(result, "run", "testset", "embedder", "changed"),
        **plain(result.shift),
        "sets": {one.name: _numbers(one) for one in result.sets},
        **fields_of(result, "context", "notes"),
    }


def baselines_table(found: Sequence[BaselineResult], width: int = WIDTH) -> str:
    """Experiments side by side, a line each: S_b, S_e, null baselines and the verdict."""
    rows = [list(line) for line in (BOARD_HEAD, *map(board_line, found))]
    return text_table(rows, right=range(2, len(BOARD_HEAD) - 1), width=width, whole=(0,))


BOARD_HEAD = (
    "run",
    "experiment",
    "n",
    "S_b",
    "S_e",
    "shuffled",
    "echoed",
    "of the way",
    "S_e against S_b",
)
"""Columns of :func:`board_line`; `of the way` is that from S_b to shuffled answers."""


def board_line(one: BaselineResult) -> tuple[str, ...]:
    """An experiment as a line of a table."""
    answered = one.sets[1]
    numbers = [_numbers(found) for found in one.sets[:2]]
    cells = [number(numbers[0].get("mean")), number(numbers[1].get("mean"))]
    cells += [number(numbers[1].get(key)) for key in ("shuffled", "echoed")]
    way = "-" if one.way is None else f"{one.way:+.0%}"
    return (one.run, one.label, str(len(answered.pairs)), *cells, way, one.shift.outcome)


def shift_text(shift: DistanceShift, *, pairs: bool = True) -> str:
    """The outcome in words, with its evidence."""
    said = f"{shift.outcome}."
    if pairs:
        said += f" {_READ[shift.outcome][0].upper()}{_READ[shift.outcome][1:]}."
    if shift.difference is None:
        return f"{said} No question has an answer in both."
    said += f" On {counted(shift.n, 'pair')} the mean distance changes by {shift.difference:+.3f}"
    if shift.low is not None and shift.high is not None:
        said += f" (95 % interval {shift.low:+.3f} to {shift.high:+.3f})"
    said += f"; up to {shift.margin:.3f} counts as equal."
    if shift.reason:
        said += f" {shift.reason[0].upper()}{shift.reason[1:]}."
    if shift.rare:
        said += " So few pairs may lack a rare kind that would reverse this."
    if shift.more is not None:
        said += f" About {shift.more} more pairs would show that they are equal."
    return said


def _numbers(one: DistanceSet) -> dict[str, Any]:
    found = one.distances
    told: dict[str, Any] = {
        "asked": one.asked,
        "n": len(one.pairs),
        "abstained": one.abstained,
        "run": one.run,
    }
    if found is None:
        return told
    summary = one.summary
    return told | {
        "mean": _mean(found.own),
        "low": summary.low,
        "high": summary.high,
        "median": round(statistics.median(found.own), 6),
        "shuffled": _mean(found.shuffled),
        "echoed": _mean(found.echoed),
        "random_chunk": _mean(found.chunk),
        "mean_rank": _mean(found.ranks),
        "first": sum(rank == 1 for rank in found.ranks),
    }


def _line(one: DistanceSet) -> list[str]:
    told = _numbers(one)
    values = [
        "-" if told.get(key) is None else f"{told[key]:.3f}"
        for key in ("mean", "median", "shuffled", "echoed", "random_chunk")
    ]
    ranks = ["-", "-"]
    if one.distances is not None:
        ranks = [f"{told['mean_rank']:.1f} of {told['n']}", str(told["first"])]
    return [SET_NAMES[one.name], str(told["n"]), *values, *ranks]


def _mean(values: Sequence[float]) -> float | None:
    return round(statistics.fmean(values), 6) if values else None
