"""A report: verdict, charts and rows of stored runs, as HTML, JSON, CSV and pictures."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from ..core import csv_lines, replace_text, replacing, require
from ._charts import LIGHT, Chart, themed
from ._data import comparison_json
from ._findings import finding_charts
from ._headline import Headline, headline_of
from ._pack import Packed, pack_rows
from ._page import html_document
from ._subject import Entry, Subject
from ._text import text_table
from ._trials import trial_json
from ._verdicts import verdict_json
from ._views import relation_charts, row_charts, setting_charts
from ._weak import Weak, weak_json, weak_of, weak_text

SIZE = 15.0
"""Default limit of a report in megabytes."""

_NAMED = 3
"""Weak slices that the headline names."""

_PICTURE_WIDTH = 640
_FIXED = 900_000
"""Characters reserved for everything except rows: style, scripts, licences."""


@dataclass(frozen=True)
class Report:
    """A report on stored runs; its parts are made on demand.

    Attributes:
        subject: Its subject.
        size: Limit of its file in megabytes; if needed, rows of the last entries are left out, with
            a note.
    """

    subject: Subject
    size: float = SIZE

    @cached_property
    def headline(self) -> Headline:
        """The headline."""
        found = headline_of(self.subject)
        worst = [f"Weak: {one.text}." for one in self.weak.slices[:_NAMED]]
        return replace(found, said=(*found.said, *worst)) if worst else found

    @cached_property
    def charts(self) -> tuple[Chart, ...]:
        """Every chart for which the runs have data."""
        subject = self.subject
        found = (
            *setting_charts(subject),
            *finding_charts(subject),
            *row_charts(subject, self.headline.comparisons),
            *relation_charts(subject),
        )
        return tuple(_with_names(found))

    @cached_property
    def weak(self) -> Weak:
        """Slices and rows that fail."""
        return weak_of(self.subject)

    @cached_property
    def packed(self) -> Packed:
        """Rows, the most important entries first."""
        subject = self.subject
        chosen = [entry.id for entry in subject.focus]
        chosen += [name for board in subject.boards for name in board.entries]
        chosen += [entry.id for entry in subject.entries]
        by_id = {entry.id: entry for entry in subject.entries}
        ordered = [by_id[name] for name in dict.fromkeys(chosen)]
        room = int(self.size * 1e6) - _FIXED - 2_500 * len(subject.entries)
        measured = [entry for entry in ordered if entry.rows]
        return pack_rows(measured, subject.measures, max(room, 200_000))

    def html(self) -> str:
        """One HTML file that loads nothing."""
        return html_document(self.subject, self.headline, self.charts, self.packed, self.weak)

    def json(self) -> dict[str, Any]:
        """``{"title", "kind", "verdict", "entries", "boards", "comparison", "charts", "weak",
        "notes"}``.

        A chart is ``{"title", "note", "spec", "table"}`` under its name; the spec is Vega-Lite.
        """
        subject, told = self.subject, self.headline
        found = told.comparisons
        return {
            "title": subject.title,
            "kind": subject.kind,
            "facts": dict(subject.facts),
            "verdict": {
                "headline": told.text,
                "state": told.state,
                "said": list(told.said),
            },
            "entries": [_entry_json(entry) for entry in subject.entries],
            "boards": [asdict(board) for board in subject.boards],
            "comparison": None if found is None else comparison_json(found),
            "study": None if subject.verdict is None else verdict_json(subject.verdict),
            "charts": {
                chart.name: {
                    "title": chart.title,
                    "note": chart.note,
                    "spec": themed(chart.spec, LIGHT, _PICTURE_WIDTH),
                    "table": {"head": list(chart.head), "rows": [list(r) for r in chart.rows]},
                }
                for chart in self.charts
            },
            "weak": weak_json(self.weak.slices, self.weak.rows),
            "notes": list(subject.notes),
        }

    def csv(self) -> str:
        """One line per entry and measure, best first: settings, mean, interval, n, facts."""
        subject = self.subject
        keys, facts = subject.keys, ("cost", "seconds", "context_tokens")
        numbers = ("mean", "low", "high", "median", "sd", "n", "coverage")
        rows: list[Sequence[Any]] = [
            ["place", "entry", "state", *keys, "measure", *numbers, *facts, "judge"]
        ]
        for place, judge, entry in _placed(subject):
            values = [_joined(entry.shown.get(key, "")) for key in keys]
            for one in entry.summaries:
                row = [place, entry.id, entry.state, *values, one.measure]
                row += [getattr(one, name) for name in numbers]
                rows.append([*row, *(entry.facts.get(name) for name in facts), judge])
        return "".join(csv_lines(rows))

    def text(self) -> str:
        """Verdict and charts' tables as plain text, for a terminal."""
        blocks = ["\n".join((self.headline.text, *self.headline.said))]
        if weak := weak_text(self.weak.slices, self.weak.rows):
            blocks.append(weak)
        for chart in self.charts:
            blocks.append(f"{chart.title}\n{text_table([chart.head, *chart.rows])}")
        return "\n\n".join(blocks)

    def pictures(self, folder: Path, kind: str = "png") -> Iterator[Path]:
        """Write each chart as a picture; yields the paths as they are written.

        Args:
            folder: Output folder; created if missing.
            kind: ``png`` or ``svg``.

        Raises:
            MissingExtraError: The drawing library is not installed.
        """
        draw = require("vl_convert", "viz", "pictures of charts")
        folder.mkdir(parents=True, exist_ok=True)
        for chart in self.charts:
            spec = themed(chart.spec, LIGHT, _PICTURE_WIDTH)
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
    taken: dict[str, int] = {}
    for chart in charts:
        plain = "".join(c if c.isalnum() or c in "-_" else "-" for c in chart.name).strip("-")
        count = taken[plain] = taken.get(plain, 0) + 1
        name = plain if count == 1 else f"{plain}-{count}"
        yield Chart(
            name, chart.title, chart.note, chart.spec, chart.head, chart.rows, chart.section
        )


def _placed(subject: Subject) -> Iterator[tuple[str, str, Entry]]:
    by_id = {entry.id: entry for entry in subject.entries}
    seen = set()
    for board in subject.boards:
        for place, name in enumerate(board.entries, 1):
            seen.add(name)
            yield str(place), board.judge, by_id[name]
    for entry in subject.entries:
        if entry.id not in seen:
            yield "", "", entry


def _entry_json(entry: Entry) -> Mapping[str, Any]:
    return {**trial_json(entry), "label": entry.label, "run": entry.run}


def _joined(value: Any) -> Any:
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else value
