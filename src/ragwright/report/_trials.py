"""The leaderboard of a sweep, as text and JSON."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, TypeAlias

from ..experiment import TrialResult
from ..measure import Summary
from ._subject import Entry
from ._text import text_table, with_scale

_FEW = 3
"""Trials without a result that are listed for each reason."""

_FACTS = {"context_tokens": "tokens", "cost": "cost", "seconds": "s"}

_WIDTH = 120
"""Characters of a leaderboard in a file: it has a column per key and per measure."""


TrialLike: TypeAlias = "TrialResult | Entry"
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
    """Trials in order: swept values, each measure, n, usage per answer.

    Args:
        board: Trials with results, best first.
        rest: Trials without results; the reasons are listed below.
        notes: What the reader should know.
        view: Display settings.
    """
    how = view or BoardView()
    keys = _telling(board)
    measures = board[0].summaries if board else ()
    facts = [name for name in _FACTS if any(trial.facts.get(name) for trial in board)]
    heads = [with_scale(summary.measure, summary.scale) for summary in measures]
    rows = [["", "trial", *_short(keys), *heads, "n", *(_FACTS[name] for name in facts)]]
    hidden = 0
    for place, trial in enumerate(board, 1):
        if place > how.most and trial.values:
            hidden += 1
            continue
        values = [_shown(trial.values[key]) if key in trial.values else "" for key in keys]
        if not trial.values and keys:
            values = ["current", *values[1:]]
        took = [f"{trial.facts[name]:.4g}" if name in trial.facts else "" for name in facts]
        cells = [_cell(summary, how.objectives) for summary in trial.summaries]
        mark = f"{place}*" if trial.id in how.front else str(place)
        rows.append([mark, trial.id, *values, *cells, str(trial.rows), *took])
    right = (0, *range(len(rows[0]) - len(facts) - 1, len(rows[0])))
    lines = [text_table(rows, right=right, width=how.width)] if board else ["no trial has results"]
    if hidden:
        lines.append(f"… {hidden} more; --json lists all")
    if how.front:
        lines.append("* on the Pareto front: no other trial is better on every objective")
    lines += _order_of_the_lost(board, how.objectives)
    lines += _without_result(rest)
    return "\n".join([*lines, *(f"note: {note}" for note in notes)])


def _cell(summary: Summary, objectives: Sequence[str]) -> str:
    """Mean, for an objective with its interval, and the coverage if rows are missing."""
    if summary.mean is None:
        return "-"
    shown = f"{summary.mean:.3f}"
    if summary.measure in objectives and summary.low is not None and summary.high is not None:
        shown = f"{shown} [{summary.low:.2f}, {summary.high:.2f}]"
    return shown if summary.coverage == 1 else f"{shown} ({summary.coverage:.0%})"


def _telling(board: Sequence[TrialLike]) -> list[str]:
    """Keys on which trials of the board differ; all if there is one trial."""
    keys = dict.fromkeys(key for trial in board for key in trial.values)
    swept = [trial.values for trial in board if trial.values]
    return [
        key
        for key in keys
        if len(swept) < 2 or len({_shown(values.get(key)) for values in swept}) > 1
    ]


def _order_of_the_lost(board: Sequence[TrialLike], objectives: Sequence[str]) -> list[str]:
    """A note on the order of trials with unscored rows."""
    lines = []
    for name in objectives:
        mine = [(t, s) for t in board for s in t.summaries if s.measure == name and s.coverage < 1]
        counted = [f"{t.id} {s.worst:.3f}" for t, s in mine if s.worst is not None]
        if counted:
            few = ", ".join(counted[:_FEW]) + (", …" if len(counted) > _FEW else "")
            lines.append(f"ordered by {name}, unscored rows counted as the worst value: {few}")
        endless = [t.id for t, s in mine if s.worst is None and s.mean is not None]
        if endless:
            few = ", ".join(endless[:_FEW]) + (", …" if len(endless) > _FEW else "")
            lines.append(f"{name} has no worst value: {few} ordered by their scored rows")
    return lines


def _short(keys: Sequence[str]) -> list[str]:
    """Keys shortened to the last parts that distinguish them."""
    found = []
    for key in keys:
        parts = key.split(".")
        for length in range(1, len(parts) + 1):
            tail = ".".join(parts[-length:])
            alike = [k for k in keys if k == tail or k.endswith(f".{tail}")]
            if len(alike) == 1:
                break
        found.append(tail)
    return found


def _without_result(rest: Iterable[TrialLike]) -> list[str]:
    """Trials without a result, grouped by reason."""
    groups: dict[str, list[TrialLike]] = {}
    for trial in rest:
        groups.setdefault(f"{trial.state}: {trial.reason or 'not run'}", []).append(trial)
    lines = []
    for said, trials in groups.items():
        few = "; ".join(f"{trial.id} {_values(trial.values)}" for trial in trials[:_FEW])
        more = f"; {len(trials) - _FEW} more" if len(trials) > _FEW else ""
        lines.append(f"{len(trials)} {said} ({few}{more})")
    return lines


def trial_json(trial: TrialLike) -> dict[str, Any]:
    """A trial as a JSON object: id, values, state, rows, measures, facts, reason."""
    measures = {}
    for summary in trial.summaries:
        fields = asdict(summary)
        measures[fields.pop("measure")] = fields
    return {
        "id": trial.id,
        "values": dict(trial.values),
        "state": trial.state,
        "rows": trial.rows,
        "measures": measures,
        "facts": dict(trial.facts),
        "reason": trial.reason,
        "run": trial.run,
    }


def _values(values: Mapping[str, Any]) -> str:
    return (
        ", ".join(f"{key}={_shown(value)}" for key, value in values.items()) or "current settings"
    )


def _shown(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(map(str, value)) or "none"
    return f"{value:g}" if isinstance(value, float) else str(value)
