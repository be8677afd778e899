"""A report of stored runs as HTML, JSON, CSV and pictures, and the leaderboard of a sweep."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, TypeAlias

from ..core import csv_lines, replace_text, replacing, require
from ..experiment import StudyVerdict, TrialResult
from ..measure import Comparison, Summary, p_text
from ._answer_changes import WeakSpots, weak_json, weak_of, weak_text
from ._charts import LIGHT, Chart, apply_theme
from ._headline import Headline, headline_of
from ._pack import PackedRows, pack_rows
from ._page import html_document
from ._subject import ScoredRun, Subject
from ._text import (
    WIDTH,
    comparison_json,
    fields_of,
    format_signed,
    group_by_measure,
    interval,
    make_json,
    name_with_scale,
    number,
    text_table,
)
from ._views import finding_charts, relation_charts, row_charts, setting_charts


def verdict_table(verdict: StudyVerdict, run: str = "", width: int = WIDTH) -> str:
    """Return the verdict as text; below it the two splits side by side."""
    lines = [verdict.text]
    rows = [["", "rows", "current", "trial", "difference", "95 % interval", "p"]]
    for confirmation in verdict.confirmations:
        name = f"{confirmation.trial} {confirmation.objective}"
        rows.append([f"{name}, tune split", *_cells(confirmation.tune, None)])
        if confirmation.confirmed is not None:
            rows.append([f"{name}, confirm split", *_cells(confirmation.confirmed, confirmation.p)])
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
    selection = make_json(verdict.selection) | {"expected": verdict.selection.expected}
    rest = fields_of(verdict, "confirmations", "openings", "notes")
    return {"text": verdict.text, "selection": selection, **rest, "run": run}


def _cells(comparison: Comparison, p: float | None) -> list[str]:
    side = comparison.deciding
    shown = side.p if p is None else p
    return [
        str(side.n),
        number(side.mean_a),
        number(side.mean_b),
        "" if side.difference is None else format_signed(side.difference),
        interval(side.low, side.high),
        "" if shown is None else f"{shown:.3g}",
    ]


SIZE = 15.0
"""Default limit of a report in megabytes."""

_NAMED = 3
"""Weak slices that the headline names."""

_PICTURE_WIDTH = 640
_FIXED = 900_000
"""Characters reserved for everything except rows: style, scripts, licences."""


@dataclass(frozen=True)
class Report:
    """A report on stored runs, computed part by part on demand.

    Attributes:
        subject: Its subject.
        size: Limit of its file in megabytes. Rows that do not fit lose their texts, those of the
            last entries first; a note says so.
    """

    subject: Subject
    size: float = SIZE

    @cached_property
    def headline(self) -> Headline:
        """The verdict with its evidence."""
        headline = headline_of(self.subject)
        worst = [f"WeakSpots: {weak.text}." for weak in self.weak.slices[:_NAMED]]
        return replace(headline, sentences=(*headline.sentences, *worst))

    @cached_property
    def charts(self) -> tuple[Chart, ...]:
        """Charts for which the runs have data."""
        subject = self.subject
        charts = (
            *setting_charts(subject),
            *finding_charts(subject),
            *row_charts(subject, self.headline.comparisons),
            *relation_charts(subject),
        )
        return tuple(_name_charts(charts))

    @cached_property
    def weak(self) -> WeakSpots:
        """Slices and rows with low scores."""
        return weak_of(self.subject)

    @cached_property
    def packed(self) -> PackedRows:
        """Packed rows, those of the most important entries first."""
        subject = self.subject
        ranked = (entry for board in subject.boards for entry in subject.ranked(board))
        ordered = {entry.id: entry for entry in (*subject.focus, *ranked, *subject.entries)}
        room = int(self.size * 1e6) - _FIXED - 2_500 * len(subject.entries)
        measured = [entry for entry in ordered.values() if entry.rows]
        return pack_rows(measured, subject.measures, max(room, 200_000))

    def html(self) -> str:
        """Return one HTML file that loads nothing."""
        return html_document(self.subject, self.headline, self.charts, self.packed, self.weak)

    def json(self) -> dict[str, Any]:
        """Return the report as one document.

        ``{"title", "kind", "verdict", "entries", "boards", "comparison", "charts", "weak",
        "notes"}``; a chart is ``{"title", "note", "spec", "table"}`` under its name, its
        spec in Vega-Lite.
        """
        subject, headline = self.subject, self.headline
        compared, study = headline.comparisons, subject.verdict
        return {
            "title": subject.title,
            "kind": subject.kind,
            "facts": dict(subject.facts),
            "verdict": {
                "headline": headline.text,
                "state": headline.state,
                "said": list(headline.sentences),
            },
            "entries": [
                {
                    **trial_json(entry),
                    **fields_of(entry, "label", "run"),
                    **({"outcome": make_json(entry.counts)} if entry.counts.rows else {}),
                }
                for entry in subject.entries
            ],
            "boards": make_json(subject.boards),
            "comparison": compared and comparison_json(compared),
            "study": study and verdict_json(study),
            "charts": {
                chart.name: {
                    "title": chart.title,
                    "note": chart.note,
                    "spec": apply_theme(chart.spec, LIGHT, _PICTURE_WIDTH),
                    "table": {"head": list(chart.head), "rows": [list(r) for r in chart.rows]},
                }
                for chart in self.charts
            },
            "weak": weak_json(self.weak.slices, self.weak.rows),
            "notes": list(subject.notes),
        }

    def csv(self) -> str:
        """Return a line per entry and measure, best first: settings, mean, interval, n, facts."""
        subject = self.subject
        keys, facts = subject.keys, ("cost", "seconds", "context_tokens")
        numbers = ("mean", "low", "high", "median", "sd", "n", "coverage")
        rows: list[Sequence[Any]] = [
            ["place", "entry", "state", *keys, "measure", *numbers, *facts, "judge"]
        ]
        for place, judge, entry in _place_entries(subject):
            values = [
                ", ".join(map(str, value)) if isinstance(value, list | tuple) else value
                for value in (entry.shown.get(key, "") for key in keys)
            ]
            usage = [entry.facts.get(name) for name in facts]
            for summary in entry.summaries:
                means = [getattr(summary, name) for name in numbers]
                start = (place, entry.id, entry.state, *values, summary.measure)
                rows.append([*start, *means, *usage, judge])
        return "".join(csv_lines(rows))

    def text(self) -> str:
        """Return the verdict and the charts' tables as plain text, for a terminal."""
        blocks = ["\n".join((self.headline.text, *self.headline.sentences))]
        if weak := weak_text(self.weak.slices, self.weak.rows):
            blocks.append(weak)
        for chart in self.charts:
            blocks.append(f"{chart.title}\n{text_table([chart.head, *chart.rows])}")
        return "\n\n".join(blocks)

    def pictures(self, folder: Path, kind: str = "png") -> Iterator[Path]:
        """Write each chart as a picture, and yield its path.

        Args:
            folder: Output folder; created if missing.
            kind: ``png`` or ``svg``.

        Raises:
            MissingExtraError: The drawing library is not installed.
        """
        draw = require("vl_convert", "viz", "pictures of charts")
        folder.mkdir(parents=True, exist_ok=True)
        for chart in self.charts:
            spec = apply_theme(chart.spec, LIGHT, _PICTURE_WIDTH)
            spec["background"] = "white"
            spec["title"] = {"text": chart.title, "anchor": "start", "fontWeight": "normal"}
            path = folder / f"{chart.name}.{kind}"
            if kind == "svg":
                replace_text(path, draw.vegalite_to_svg(spec))
            else:
                with replacing(path) as file:
                    file.write(draw.vegalite_to_png(spec, scale=2))
            yield path


def _name_charts(charts: Sequence[Chart]) -> Iterator[Chart]:
    """Charts under unique names that are valid in links and file names."""
    counts: Counter[str] = Counter()
    for chart in charts:
        name = "".join(c if c.isalnum() or c in "-_" else "-" for c in chart.name).strip("-")
        counts[name] += 1
        yield replace(chart, name=name if counts[name] == 1 else f"{name}-{counts[name]}")


def _place_entries(subject: Subject) -> Iterator[tuple[str, str, ScoredRun]]:
    """Place, judge and entry: the leaderboards, then the entries without a place."""
    for board in subject.boards:
        for place, entry in enumerate(subject.ranked(board), 1):
            yield str(place), board.judge, entry
    ranked = {name for board in subject.boards for name in board.entries}
    yield from (("", "", entry) for entry in subject.entries if entry.id not in ranked)


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
    lost = {s.measure for t in board for s in t.summaries if _counts_lost_rows(s, view.objectives)}
    heads = []
    for summary in measures:
        heads += _heads(summary, summary.measure in missed, lost=summary.measure in lost)
    rows = [["", "trial", *_short(keys), *heads, "n", *(_FACTS[name] for name in facts)]]
    shown = [(n, t) for n, t in enumerate(board, 1) if n <= view.most or not t.values]
    hidden = len(board) - len(shown)
    for place, trial in shown:
        values = [_shown_text(trial.shown[key]) if key in trial.shown else "" for key in keys]
        usage = [f"{trial.facts[name]:.4g}" if name in trial.facts else "" for name in facts]
        cells = []
        for summary in trial.summaries:
            cells += _summary_cells(summary, view.objectives, summary.measure in missed)
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
    lines += _list_without_result(rest)
    return "\n".join([*lines, *(f"note: {note}" for note in notes)])


def _counts_lost_rows(summary: Summary, objectives: Sequence[str]) -> bool:
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


def _summary_cells(summary: Summary, objectives: Sequence[str], missed: bool) -> list[str]:
    """Mean, for an objective with its interval, and the coverage if rows are missing."""
    mean, low, high = summary.deciding
    if _counts_lost_rows(
        summary, objectives
    ):  # the value that orders, so that leads are differences of it
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
        if len(swept) < 2 or len({_shown_text(values.get(key)) for values in swept}) > 1
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


def _list_without_result(rest: Iterable[TrialLike]) -> list[str]:
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
        ", ".join(f"{key}={_shown_text(value)}" for key, value in values.items())
        or "current settings"
    )


def _shown_text(value: Any) -> str:
    if value is None or value == "":
        return "none"
    if isinstance(value, list):
        return ", ".join(map(str, value)) or "none"
    return f"{value:g}" if isinstance(value, float) else str(value)
