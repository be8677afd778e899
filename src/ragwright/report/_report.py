"""A report: verdict, charts and rows of stored runs, as HTML, JSON, CSV and pictures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from ..core import csv_lines, replace_text, replacing, require
from ..experiment import StudyVerdict
from ..measure import Comparison, p_text
from ._charts import LIGHT, Chart, apply_theme
from ._data import comparison_json, fields_of, make_json
from ._findings import finding_charts
from ._headline import Headline, headline_of
from ._pack import Packed, pack_rows
from ._page import html_document
from ._subject import ScoredRun, Subject
from ._text import WIDTH, format_signed, interval, number, text_table
from ._trials import trial_json
from ._views import relation_charts, row_charts, setting_charts
from ._weak import Weak, weak_json, weak_of, weak_text


def verdict_table(verdict: StudyVerdict, run: str = "", width: int = WIDTH) -> str:
    """Return the verdict as text; below it the two splits side by side."""
    lines = [verdict.text]
    rows = [["", "rows", "current", "trial", "difference", "95 % interval", "p"]]
    for confirmation in verdict.confirmations:
        name = f"{confirmation.trial} {confirmation.objective}"
        rows.append([f"{name}, tune split", *_cells(confirmation.tune, None)])
        if confirmation.confirmed is not None:
            confirmed = _cells(confirmation.confirmed, confirmation.p)
            rows.append([f"{name}, confirm split", *confirmed])
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
        worst = [f"Weak: {weak.text}." for weak in self.weak.slices[:_NAMED]]
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
        return tuple(_with_names(charts))

    @cached_property
    def weak(self) -> Weak:
        """Slices and rows with low scores."""
        return weak_of(self.subject)

    @cached_property
    def packed(self) -> Packed:
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
        for place, judge, entry in _placed(subject):
            values = [_joined(entry.shown.get(key, "")) for key in keys]
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


def _with_names(charts: Sequence[Chart]) -> Iterator[Chart]:
    """Charts under unique names that are valid in links and file names."""
    counts: Counter[str] = Counter()
    for chart in charts:
        name = "".join(c if c.isalnum() or c in "-_" else "-" for c in chart.name).strip("-")
        counts[name] += 1
        yield replace(chart, name=name if counts[name] == 1 else f"{name}-{counts[name]}")


def _placed(subject: Subject) -> Iterator[tuple[str, str, ScoredRun]]:
    """Place, judge and entry: the leaderboards, then the entries without a place."""
    for board in subject.boards:
        for place, entry in enumerate(subject.ranked(board), 1):
            yield str(place), board.judge, entry
    ranked = {name for board in subject.boards for name in board.entries}
    yield from (("", "", entry) for entry in subject.entries if entry.id not in ranked)


def _joined(value: Any) -> Any:
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else value
