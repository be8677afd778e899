"""The leaderboard of a sweep, as text and as numbers for programs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any, Protocol

from ..measure import Summary
from ._text import interval, number, text_table, with_scale

_FACTS = {"context_tokens": "context tokens", "cost": "cost", "seconds": "seconds"}


class TrialLike(Protocol):
    """A trial of a sweep, whoever holds it."""

    @property
    def id(self) -> str:
        """Its name."""

    @property
    def values(self) -> Mapping[str, Any]:
        """Swept key -> value; empty for the project as it stands."""

    @property
    def state(self) -> str:
        """How it ended."""

    @property
    def rows(self) -> int:
        """Rows it was measured on."""

    @property
    def summaries(self) -> Sequence[Summary]:
        """One a measure."""

    @property
    def facts(self) -> Mapping[str, float]:
        """What an answer took, on average."""

    @property
    def reason(self) -> str:
        """Why there is no result."""


def leaderboard_table(
    board: Sequence[TrialLike], *, rest: Iterable[TrialLike] = (), notes: Iterable[str] = ()
) -> str:
    """Trials in their order: swept values, each measure with its interval, n, what an answer took.

    Args:
        board: Trials with results, best first.
        rest: Trials without; why is said below.
        notes: What the reader should know.
    """
    keys = list(dict.fromkeys(key for trial in board for key in trial.values))
    measures = board[0].summaries if board else ()
    facts = [name for name in _FACTS if any(name in trial.facts for trial in board)]
    heads = [with_scale(summary.measure, summary.scale) for summary in measures]
    rows = [["", "trial", *keys, *heads, "n", *(_FACTS[name] for name in facts)]]
    for place, trial in enumerate(board, 1):
        cells = [
            f"{number(s.mean)} {interval(s.low, s.high)}".strip() + _covered(s)
            for s in trial.summaries
        ]
        values = [_shown(trial.values[key]) if key in trial.values else "" for key in keys]
        values = values if trial.values else ["as it stands", *values[1:]]
        took = [f"{trial.facts[name]:.4g}" if name in trial.facts else "" for name in facts]
        rows.append([str(place), trial.id, *values, *cells, str(trial.rows), *took])
    lines = [text_table(rows, right=(0,), width=140)] if board else ["no trial has a result"]
    lines += [
        f"{trial.id} {trial.state}: {trial.reason or 'not run'} ({_values(trial.values)})"
        for trial in rest
    ]
    return "\n".join([*lines, *(f"note: {note}" for note in notes)])


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
    }


def _covered(summary: Summary) -> str:
    return "" if summary.coverage == 1 else f" ({summary.coverage:.0%})"


def _values(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{key}={_shown(value)}" for key, value in values.items()) or "as it stands"


def _shown(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(map(str, value)) or "none"
    return f"{value:g}" if isinstance(value, float) else str(value)
