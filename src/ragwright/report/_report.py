"""A report of stored runs as HTML, JSON, CSV and pictures, and the leaderboard of a sweep."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any, TypeAlias

from ..core import csv_lines, make_plain, replacing, require
from ..experiment import TrialResult, WeakRow
from ..measure import Summary
from ._charts import LIGHT, apply_theme
from ._headline import Headline, headline_of
from ._page import PackedRows, PageSection, pack_rows, write_page
from ._results import (
    counts_block,
    measures_block,
    verdict_block,
    verdict_json,
    weak_blocks,
    weak_of,
)
from ._subject import FACT_NAMES, ScoredRun, Subject
from ._text import (
    Cells,
    ResultBlock,
    comparison_json,
    fields_of,
    group_by_measure,
    name_with_scale,
    print_result,
    settings_text,
    shorten_list,
    value_text,
)
from ._views import finding_charts, relation_charts, row_charts, setting_charts

_SECTIONS = {
    "weak": "Where it fails",
    "findings": "What was found",
    "settings": "What the settings do",
    "rows": "What the rows show",
    "relations": "What goes together",
}
"""Sections of a report for its blocks, in order."""

_ABOUT_ROWS = "Every row with its question, gold, answer, passages, prompt and judges' reasoning."

_ONLY_SCORES = (
    "Texts are those of the best trial and of the current settings; of the other trials there are "
    "scores: `ragwright report SWEEP:T002` shows the texts of trial T002."
)

_PICTURE_WIDTH = 640


@dataclass(frozen=True)
class Report:
    """A report on stored runs, computed part by part on demand.

    Attributes:
        subject: Its subject.
    """

    subject: Subject

    @cached_property
    def headline(self) -> Headline:
        """The verdict with its evidence."""
        return headline_of(self.subject)

    @cached_property
    def blocks(self) -> tuple[ResultBlock, ...]:
        """Tables and charts for which the runs have data, under names that are valid in links."""
        subject, counts = self.subject, Counter[str]()
        found = []
        for block in (
            *weak_blocks(self.weak),
            *setting_charts(subject),
            *finding_charts(subject),
            *row_charts(subject, self.headline.comparisons),
            *relation_charts(subject),
        ):
            name = "".join(c if c.isalnum() or c in "-_" else "-" for c in block.name).strip("-")
            counts[name] += 1
            number = f"-{counts[name]}" if counts[name] > 1 else ""
            found.append(replace(block, name=f"{name}{number}"))
        return tuple(found)

    @property
    def charts(self) -> tuple[ResultBlock, ...]:
        """The blocks that are drawn."""
        return tuple(block for block in self.blocks if block.spec)

    @cached_property
    def weak(self) -> list[WeakRow]:
        """Rows with low scores."""
        return weak_of(self.subject)

    @cached_property
    def packed(self) -> PackedRows:
        """Packed rows, the best first; only those of the entries in focus have their texts."""
        subject = self.subject
        ranked = (entry for board in subject.boards for entry in subject.ranked(board))
        ordered = {entry.id: entry for entry in (*subject.focus, *ranked, *subject.entries)}
        measured = [entry for entry in ordered.values() if entry.rows]
        return pack_rows(measured, subject.measures, {entry.id for entry in subject.focus})

    def html(self, home: str = "") -> str:
        """Return one HTML file that loads nothing; ``home`` is the address of all reports."""
        subject, entries = self.subject, self.subject.entries
        study = subject.kind == "study"
        results = PageSection("measures", "Measures", blocks=_measure_blocks(subject))
        if study:
            boards = [*_board_blocks(subject), _places_block(subject)]
            results = PageSection("leaderboard", "Leaderboard", blocks=boards)
        named = [
            PageSection(name, title, "", [block for block in self.blocks if block.section == name])
            for name, title in _SECTIONS.items()
        ]
        browse = PageSection(
            "browse", "Rows", _ABOUT_ROWS, sentences=[_ONLY_SCORES] if study else []
        )
        answered = {
            "rows" if len(entries) == 1 else entry.label or entry.id: entry.counts
            for entry in entries
            if any(entry.counts.lines())
        }
        opening = [counts_block({} if study else answered)]
        opening += [verdict_block(subject.verdict)] if subject.verdict else []
        return write_page(
            PageSection("top", subject.title, "", opening, subject.notes),
            self.headline,
            [
                *(results, *(section for section in named if section.blocks)),
                *([browse] if any(entry.rows for entry in entries) else []),
            ],
            facts=subject.facts,
            home=home,
            packed=self.packed.blocks,
            data={  # for the scripts of the file
                "kind": subject.kind,
                "incumbent": subject.incumbent,
                "best": subject.best.id if subject.best else "",
                "measures": list(subject.measures),
                "scales": {
                    measure: [scale.low, scale.high, scale.higher_is_better]
                    for measure in subject.measures
                    if (scale := subject.scale(measure)) is not None
                },
                "labels": {entry.id: entry.label for entry in entries if entry.label},
                "settings": {entry.id: dict(entry.values) for entry in entries if entry.values},
                "index": self.packed.index,
            },
        )

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
                    **({"outcome": make_plain(entry.counts)} if entry.counts.rows else {}),
                }
                for entry in subject.entries
            ],
            "boards": make_plain(subject.boards),
            "comparison": compared and comparison_json(compared),
            "study": study and verdict_json(study),
            "charts": {
                chart.name: {
                    "title": chart.title,
                    "note": chart.note,
                    "spec": apply_theme(chart.spec or {}, LIGHT, _PICTURE_WIDTH),
                    "table": {"head": list(chart.head), "rows": [list(r) for r in chart.rows]},
                }
                for chart in self.charts
            },
            "weak": {"rows": make_plain(self.weak)},
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
        for place, judge, entry in self._place_entries():
            shown = (entry.shown.get(key, "") for key in keys)
            values = [", ".join(map(str, v)) if isinstance(v, list | tuple) else v for v in shown]
            rows += [
                [
                    *(place, entry.id, entry.state, *values, summary.measure),
                    *(getattr(summary, name) for name in numbers),
                    *(entry.facts.get(name) for name in facts),
                    judge,
                ]
                for summary in entry.summaries
            ]
        return "".join(csv_lines(rows))

    def text(self) -> str:
        """Return the verdict and the tables as plain text, for a terminal."""
        return print_result((self.headline.text, *self.headline.sentences), self.blocks)

    def _place_entries(self) -> Iterator[tuple[str, str, ScoredRun]]:
        for board in self.subject.boards:
            for place, entry in enumerate(self.subject.ranked(board), 1):
                yield str(place), board.judge, entry
        ranked = {name for board in self.subject.boards for name in board.entries}
        yield from (("", "", entry) for entry in self.subject.entries if entry.id not in ranked)

    def pictures(self, folder: Path) -> Iterator[Path]:
        """Write each chart as a PNG file, and yield its path.

        Raises:
            MissingExtraError: The drawing library is not installed.
        """
        draw = require("vl_convert", "viz", "pictures of charts")
        folder.mkdir(parents=True, exist_ok=True)
        for chart in self.charts:
            spec = apply_theme(chart.spec or {}, LIGHT, _PICTURE_WIDTH)
            spec["background"] = "white"
            spec["title"] = {"text": chart.title, "anchor": "start", "fontWeight": "normal"}
            path = folder / f"{chart.name}.png"
            with replacing(path) as file:
                file.write(draw.vegalite_to_png(spec, scale=2))
            yield path


_FACTS = {"context_tokens": "tokens", "cost": "cost", "seconds": "s"}

TrialLike: TypeAlias = "TrialResult | ScoredRun"
"""A trial of a sweep, from the sweep or a report."""


def leaderboard_block(
    board: Sequence[TrialLike],
    *,
    rest: Iterable[TrialLike] = (),
    objective: str = "",
    most: int = 20,
    title: str = "",
) -> ResultBlock:
    """Return trials in order: swept values, each measure, n, usage per answer.

    Args:
        board: Trials with results, best first.
        rest: Trials without results; the remarks say why.
        objective: The measure that trials are ordered by: with intervals.
        most: Trials shown; the current settings are always shown.
        title: Heading.
    """
    swept = [trial.values for trial in board if trial.values]
    keys = [
        key
        for key in dict.fromkeys(chain(*swept))
        if len(swept) < 2 or len({value_text(values.get(key)) for values in swept}) > 1
    ]
    facts = [name for name in _FACTS if any(trial.facts.get(name) for trial in board)]
    measures = [
        _measure_columns(board, summary, summary.measure == objective)
        for summary in (board[0].summaries if board else ())
    ]
    rows = tuple(
        (
            str(place),
            trial.id if trial.values else f"{trial.id} current",
            *(value_text(trial.shown[key]) if key in trial.shown else "" for key in keys),
            *chain.from_iterable(cells[place - 1] for _, cells in measures),
            str(trial.rows),
            *(f"{trial.facts[name]:.4g}" if name in trial.facts else "" for name in facts),
        )
        for place, trial in enumerate(board, 1)
        if place <= most or not trial.values
    )
    heads = chain.from_iterable(heads for heads, _ in measures)
    hidden = len(board) - len(rows)
    remarks = [] if board else ["no trial has results"]
    remarks += [f"… {hidden} more; --json lists all"] if hidden else []
    return ResultBlock(
        "board",
        title,
        "",
        ("", "trial", *keys, *heads, "n", *(_FACTS[name] for name in facts)),
        rows,
        section="leaderboard",
        remarks=(*remarks, *_describe_order(board, objective), *_list_without_result(rest)),
    )


def _measure_columns(
    board: Sequence[TrialLike], first: Summary, ordering: bool
) -> tuple[Cells, list[Cells]]:
    """Heads and cells of a measure: its mean; with abstentions also that of the answered rows.

    Rows of an objective that lack a score count as the worst value in the order, so that leads are
    differences of what is shown.
    """
    summaries = [next(s for s in t.summaries if s.measure == first.measure) for t in board]
    lost = [ordering and s.worst is not None and bool(s.n) and s.accounted < 1 for s in summaries]
    name, worst = name_with_scale(first.measure, first.scale, first.counted), None
    if first.scale is not None and (any(lost) or any(s.missed for s in summaries)):
        worst = first.scale.worst
    both = worst is not None and any(s.missed for s in summaries)
    heads = [name]
    if worst is not None:
        heads = [f"{name}, {'unscored' if any(lost) else 'abstained'} = {worst:g}"]
    heads += [f"{first.measure}, answered rows only"] if both else []
    cells: list[Cells] = []
    for s, counted in zip(summaries, lost, strict=True):
        mean, low, high = (s.worst, None, None) if counted else s.deciding
        shown = "-" if mean is None else f"{mean:.3f}"
        if ordering and low is not None and high is not None:
            shown += f" [{low:.2f}, {high:.2f}]"
        covered = f" ({s.coverage:.0%})"
        answered = "-" if s.mean is None else f"{s.mean:.3f}{covered}"
        alone = f"{shown}{'' if s.coverage == 1 or mean is None else covered}"
        cells.append((shown, answered) if both else (alone,))
    return tuple(heads), cells


def _describe_order(board: Sequence[TrialLike], name: str) -> Iterator[str]:
    endless = [
        trial.id
        for trial in board
        for s in trial.summaries
        if s.measure == name and s.coverage < 1 and s.worst is None and s.mean is not None
    ]
    if endless:
        yield f"{name} has no worst value: {shorten_list(endless)} ordered by their scored rows"


def _list_without_result(rest: Iterable[TrialLike]) -> list[str]:
    groups: dict[str, list[str]] = {}
    for trial in rest:
        state = "unscored" if trial.state == "done" else trial.state
        name = f"{trial.id} {settings_text(trial.values) or 'current settings'}"
        groups.setdefault(f"{state}: {trial.reason or 'not run'}", []).append(name)
    return [f"{len(g)} {reason} ({shorten_list(g, 3)})" for reason, g in groups.items()]


def _board_blocks(subject: Subject) -> list[ResultBlock]:
    """A leaderboard per judge; trials without a place are named below the first."""
    ranked = {name for board in subject.boards for name in board.entries}
    rest = [entry for entry in subject.entries if entry.id not in ranked]
    boards = [
        leaderboard_block(
            subject.ranked(board),
            rest=() if at else rest,
            objective=subject.goal,
            most=len(board.entries),
            title=f"Judged by {board.judge}" if board.judge else "",
        )
        for at, board in enumerate(subject.boards)
    ]
    return boards or [leaderboard_block((), rest=rest)]


def _places_block(subject: Subject) -> ResultBlock:
    boards = subject.boards if len(subject.boards) > 1 else ()
    places: dict[str, dict[int, str]] = {}
    for at, board in enumerate(boards):
        for place, entry in enumerate(subject.ranked(board), 1):
            values = {k: v for k, v in entry.values.items() if not k.startswith("judge.")}
            line = places.setdefault(settings_text(values) or "current settings", {})
            line.setdefault(at, f"{place} of {len(board.entries)}")
    return ResultBlock(
        "judges",
        "How the order depends on the judge",
        "Scores of different judges are not comparable. A setting that leads under one judge only "
        "says something about that judge.",
        ("settings", *(board.judge or "judge" for board in boards)),
        tuple(
            (key, *(line.get(at, "-") for at in range(len(boards)))) for key, line in places.items()
        ),
    )


def _measure_blocks(subject: Subject) -> list[ResultBlock]:
    """Measures of one run, or of two below each other, and what an answer took."""
    entries = [(entry.label or entry.id, entry) for entry in subject.entries]
    title = (lambda name: name) if len(entries) > 1 else (lambda _name: "")
    names = [name for name in FACT_NAMES if any(e.facts.get(name) for e in subject.entries)]
    rows = (
        (label, *(f"{e.facts[name]:.4g}" if name in e.facts else "-" for name in names))
        for label, e in entries
        if names and e.facts
    )
    head = ("run", *(FACT_NAMES[name] for name in names))
    return [
        *(
            replace(measures_block({"": e.summaries}), title=title(label), name=f"measures-{e.id}")
            for label, e in entries
        ),
        ResultBlock("usage", "What an answer took, on average", "", head, tuple(rows)),
    ]


def trial_json(trial: TrialLike) -> dict[str, Any]:
    """Return a trial as JSON: id, values, state, rows, measures, facts, reason."""
    return {
        **fields_of(trial, "id", "values", "current", "state", "rows"),
        "measures": group_by_measure(trial.summaries),
        **fields_of(trial, "facts", "reason", "run"),
    }
