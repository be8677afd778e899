"""The leaderboard of a sweep, as text and JSON."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from ..experiment import TrialResult
from ..measure import Summary
from ._data import fields_of, group_by_measure
from ._subject import ScoredRun
from ._text import name_with_scale, text_table

_FEW = 3
"""Trials without a result that are listed for each reason."""

_FACTS = {"context_tokens": "tokens", "cost": "cost", "seconds": "s"}

_WIDTH = 120
"""Characters of a leaderboard in a file: it has a column per key and per measure."""


TrialLike: TypeAlias = "TrialResult | ScoredRun"
"""A trial of a sweep, from the sweep or a report."""


@dataclass(frozen=True, slots=True)
class BoardView:
    """Display settings of a leaderboard.

    Attributes:
        objectives: Measures and facts that trials are ordered by: with intervals.
        front: Names of trials on the Pareto front, if there are several objectives.
        most: Trials shown; the current settings are always shown.
        width: Characters of a line.
    """

    objectives: tuple[str, ...] = ()
    front: frozenset[str] = frozenset()
    most: int = 20
    width: int = _WIDTH


def leaderboard_table(
    board: Sequence[TrialLike],
    *,
    rest: Iterable[TrialLike] = (),
    notes: Iterable[str] = (),
    view: BoardView | None = None,
) -> str:
    """Return trials in order: swept values, each measure, n, usage per answer.

    Args:
        board: Trials with results, best first.
        rest: Trials without results; the reasons are listed below.
        notes: Limits and warnings for the reader.
        view: Display settings.
    """
    view = view or BoardView()
    keys = _swept(board)
    measures = board[0].summaries if board else ()
    facts = [name for name in _FACTS if any(trial.facts.get(name) for trial in board)]
    missed = {s.measure for trial in board for s in trial.summaries if s.missed}
    lost = {s.measure for t in board for s in t.summaries if _lost(s, view.objectives)}
    heads = []
    for summary in measures:
        heads += _heads(summary, summary.measure in missed, lost=summary.measure in lost)
    rows = [["", "trial", *_short(keys), *heads, "n", *(_FACTS[name] for name in facts)]]
    shown = [(n, t) for n, t in enumerate(board, 1) if n <= view.most or not t.values]
    hidden = len(board) - len(shown)
    for place, trial in shown:
        values = [_shown(trial.shown[key]) if key in trial.shown else "" for key in keys]
        usage = [f"{trial.facts[name]:.4g}" if name in trial.facts else "" for name in facts]
        cells = []
        for summary in trial.summaries:
            cells += _cells(summary, view.objectives, summary.measure in missed)
        mark = f"{place}*" if trial.id in view.front else str(place)
        name = trial.id if trial.values else f"{trial.id} current"
        rows.append([mark, name, *values, *cells, str(trial.rows), *usage])
    right = (0, *range(len(rows[0]) - len(facts) - 1, len(rows[0])))
    lines = [text_table(rows, right=right, width=view.width)] if board else ["no trial has results"]
    if hidden:
        lines.append(f"… {hidden} more; --json lists all")
    if view.front:
        lines.append("* on the Pareto front: no other trial is better on every objective")
    lines += _order_notes(board, view.objectives)
    lines += _without_result(rest)
    return "\n".join([*lines, *(f"note: {note}" for note in notes)])


def _lost(summary: Summary, objectives: Sequence[str]) -> bool:
    """True if rows of an objective that lack a score count as the worst value in the order."""
    ordering = summary.measure in objectives and summary.worst is not None
    return ordering and bool(summary.n) and summary.accounted < 1


def _heads(summary: Summary, missed: bool, lost: bool = False) -> list[str]:
    """A column for the mean; with abstentions another one for the mean of the answered rows."""
    name = name_with_scale(summary.measure, summary.scale, summary.counted)
    scale = summary.scale
    if not (missed or lost) or scale is None or scale.worst is None:
        return [name]
    name += f", {'unscored' if lost else 'abstained'} = {scale.worst:g}"
    return [name, f"{summary.measure}, answered rows only"] if missed else [name]


def _cells(summary: Summary, objectives: Sequence[str], missed: bool) -> list[str]:
    """Mean, for an objective with its interval, and the coverage if rows are missing."""
    mean, low, high = summary.deciding
    if _lost(summary, objectives):  # the value that orders, so that leads are differences of it
        mean, low, high = summary.worst, None, None
    shown = "-" if mean is None else f"{mean:.3f}"
    if summary.measure in objectives and low is not None and high is not None:
        shown = f"{shown} [{low:.2f}, {high:.2f}]"
    covered = "" if summary.coverage == 1 or mean is None else f" ({summary.coverage:.0%})"
    if len(_heads(summary, missed)) == 1:
        return [f"{shown}{covered}"]
    return [shown, "-" if summary.mean is None else f"{summary.mean:.3f} ({summary.coverage:.0%})"]


def _swept(board: Sequence[TrialLike]) -> list[str]:
    """Keys on which trials of the board differ; all if there is one trial."""
    keys = dict.fromkeys(key for trial in board for key in trial.values)
    swept = [trial.values for trial in board if trial.values]
    return [
        key
        for key in keys
        if len(swept) < 2 or len({_shown(values.get(key)) for values in swept}) > 1
    ]


def _order_notes(board: Sequence[TrialLike], objectives: Sequence[str]) -> list[str]:
    """Notes on the order of trials with unscored rows."""
    lines = []
    for name in objectives:
        partly = [
            (t.id, s) for t in board for s in t.summaries if s.measure == name and s.coverage < 1
        ]
        endless = [trial for trial, s in partly if s.worst is None and s.mean is not None]
        if endless:
            lines.append(
                f"{name} has no worst value: {_first(endless)} ordered by their scored rows"
            )
    return lines


def _first(names: Sequence[str]) -> str:
    return ", ".join(names[:_FEW]) + (", …" if len(names) > _FEW else "")


def _short(keys: Sequence[str]) -> list[str]:
    """Keys shortened to the last parts that distinguish them."""

    def distinct(key: str) -> str:
        parts = key.split(".")
        tails = (".".join(parts[-length:]) for length in range(1, len(parts)))
        return next((t for t in tails if sum(f".{k}".endswith(f".{t}") for k in keys) == 1), key)

    return [distinct(key) for key in keys]


def _without_result(rest: Iterable[TrialLike]) -> list[str]:
    """Trials without a result, grouped by reason."""
    groups: dict[str, list[TrialLike]] = {}
    for trial in rest:
        state = "unscored" if trial.state == "done" else trial.state
        groups.setdefault(f"{state}: {trial.reason or 'not run'}", []).append(trial)
    lines = []
    for reason, trials in groups.items():
        few = "; ".join(f"{trial.id} {_values(trial.values)}" for trial in trials[:_FEW])
        more = f"; {len(trials) - _FEW} more" if len(trials) > _FEW else ""
        lines.append(f"{len(trials)} {reason} ({few}{more})")
    return lines


def trial_json(trial: TrialLike) -> dict[str, Any]:
    """Return a trial as JSON: id, values, state, rows, measures, facts, reason."""
    return {
        **fields_of(trial, "id", "values", "current", "state", "rows"),
        "measures": group_by_measure(trial.summaries),
        **fields_of(trial, "facts", "reason", "run"),
    }


def _values(values: Mapping[str, Any]) -> str:
    return (
        ", ".join(f"{key}={_shown(value)}" for key, value in values.items()) or "current settings"
    )


def _shown(value: Any) -> str:
    if value is None or value == "":
        return "none"
    if isinstance(value, list):
        return ", ".join(map(str, value)) or "none"
    return f"{value:g}" if isinstance(value, float) else str(value)
