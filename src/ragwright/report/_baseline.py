"""A baseline as text and JSON: distances of its sets, and the verdict."""

from __future__ import annotations

import statistics
import textwrap
from collections.abc import Sequence
from typing import Any

from ..core import count_noun
from ..experiment import BaselineResult, DistanceSet, DistanceShift
from ._data import fields_of, make_json
from ._text import WIDTH, number, text_table

SET_NAMES = {
    "baseline": "S_b: the pairs",
    "experiment": "S_e: the experiment",
    "with_chunk": "answered from its chunk",
    "without_chunk": "answered without it",
}
"""Names of the sets of a baseline in tables and charts."""

_HEAD = (
    *("answers", "n", "own", "median", "shuffled", "echoed"),
    *("random chunk", "mean rank", "first"),
)
_READ = {
    "smaller": "the answers are nearer to their questions than those of the pairs. Good, unless "
    "they repeat the questions' words: compare with `echoed`",
    "about equal": "the answers are as near to their questions as those of the pairs. Good",
    "larger": "the answers are farther from their questions than those of the pairs. Not good",
    "undecided": "these pairs cannot tell whether the distances differ",
}


def baseline_table(result: BaselineResult, width: int = WIDTH) -> str:
    """Return a line per set, the verdict below, then the notes."""
    changed = ", ".join(result.changed) or "nothing: the project as it is"
    about = (
        f"Distance of question and answer, 0 to 2, by {result.embedder}. Pairs: {result.testset}. "
        f"The experiment changes {changed}."
    )
    rows = [list(_HEAD), *map(_line, result.sets)]
    verdict = [f"S_e against S_b: {shift_text(result.shift)}"]
    if result.context is not None:
        effect = shift_text(result.context, pairs=False)
        verdict.append(f"With the chunk against without it: {effect}")
    notes = (textwrap.fill(f"note: {n}", width, subsequent_indent="  ") for n in result.notes)
    return "\n".join(
        [
            textwrap.fill(about, width),
            "",
            text_table(rows, right=range(1, len(_HEAD)), width=width),
            "",
            *(textwrap.fill(line, width) for line in verdict),
            *notes,
            f"run: {result.run}",
        ]
    )


def baseline_json(result: BaselineResult) -> dict[str, Any]:
    """The document of ``baseline --json``: outcome, numbers of every set, runs."""
    return {
        **fields_of(result, "run", "testset", "embedder", "changed"),
        **make_json(result.shift),
        "sets": {side.name: _numbers(side) for side in result.sets},
        **fields_of(result, "context", "notes"),
    }


def baselines_table(results: Sequence[BaselineResult], width: int = WIDTH) -> str:
    """Return a line per experiment: S_b, S_e, null baselines and the verdict."""
    rows = [list(line) for line in (BOARD_HEAD, *map(board_line, results))]
    return text_table(rows, right=range(2, len(BOARD_HEAD) - 1), width=width, whole=(0,))


BOARD_HEAD = (
    *("run", "experiment", "n", "S_b", "S_e", "shuffled", "echoed", "of the way"),
    "S_e against S_b",
)
"""Columns of :func:`board_line`; `of the way` is that from S_b to shuffled answers."""


def board_line(result: BaselineResult) -> tuple[str, ...]:
    """Return an experiment as a line of a table."""
    baseline, answered = map(_numbers, result.sets[:2])
    means = [baseline.get("mean"), *map(answered.get, ("mean", "shuffled", "echoed"))]
    way = "-" if result.way is None else f"{result.way:+.0%}"
    count = str(len(result.sets[1].pairs))
    return (result.run, result.label, count, *map(number, means), way, result.shift.outcome)


def shift_text(shift: DistanceShift, *, pairs: bool = True) -> str:
    """Return the outcome in words, with its evidence."""
    text = f"{shift.outcome}."
    if pairs:
        text += f" {_READ[shift.outcome][0].upper()}{_READ[shift.outcome][1:]}."
    if shift.difference is None:
        return f"{text} No question has an answer in both."
    text += (
        f" On {count_noun(shift.n, 'pair')} the mean distance changes by {shift.difference:+.3f}"
    )
    if shift.low is not None and shift.high is not None:
        text += f" (95 % interval {shift.low:+.3f} to {shift.high:+.3f})"
    text += f"; up to {shift.margin:.3f} counts as equal."
    if shift.reason:
        text += f" {shift.reason[0].upper()}{shift.reason[1:]}."
    if shift.rare:
        text += " So few pairs may lack a rare kind that would reverse this."
    if shift.more is not None:
        text += f" About {shift.more} more pairs would show that they are equal."
    return text


def _numbers(side: DistanceSet) -> dict[str, Any]:
    """The numbers of a set; without distances only its counts."""
    distances, summary = side.distances, side.summary
    counts = {"asked": side.asked, "n": len(side.pairs), **fields_of(side, "abstained", "run")}
    if distances is None:
        return counts
    return {
        **counts,
        "mean": _mean(distances.own),
        **fields_of(summary, "low", "high"),
        "median": round(statistics.median(distances.own), 6),
        "shuffled": _mean(distances.shuffled),
        "echoed": _mean(distances.echoed),
        "random_chunk": _mean(distances.chunk),
        "mean_rank": _mean(distances.ranks),
        "first": sum(rank == 1 for rank in distances.ranks),
    }


def _line(side: DistanceSet) -> list[str]:
    numbers = _numbers(side)
    names = ("mean", "median", "shuffled", "echoed", "random_chunk")
    values = ["-" if numbers.get(key) is None else f"{numbers[key]:.3f}" for key in names]
    ranks = ["-", "-"]
    if side.distances is not None:
        ranks = [f"{numbers['mean_rank']:.1f} of {numbers['n']}", str(numbers["first"])]
    return [SET_NAMES[side.name], str(numbers["n"]), *values, *ranks]


def _mean(values: Sequence[float]) -> float | None:
    return round(statistics.fmean(values), 6) if values else None
