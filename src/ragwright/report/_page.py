"""One HTML file with everything: style, scripts, charts, rows; it needs no network."""

from __future__ import annotations

import base64
import gzip
import hashlib
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from ..core import count_noun
from ._answer_changes import ROW_HEAD, SLICE_HEAD, WeakSpots, row_line, slice_line
from ._charts import DARK, LIGHT, Chart, theme_data
from ._headline import Headline, values_of
from ._pack import STATES, PackedRows
from ._subject import FACT_NAMES, Board, ScoredRun, Subject, format_interval, value_text
from ._text import format_signed, mean_cells, mean_heads, name_with_scale, number

if TYPE_CHECKING:
    from jinja2 import Template

_LIBRARIES = ("vega.min.js", "vega-lite.min.js", "vega-embed.min.js")

_SHOWN = 25
"""Lines of a leaderboard that are not folded."""

_CHART_SECTIONS = {
    "findings": "What was found",
    "settings": "What the settings do",
    "rows": "What the rows show",
    "relations": "What goes together",
}
"""Sections of a report with charts, in order."""


def stylesheet() -> str:
    """Return the style of reports and of the server's pages."""
    return report_asset("report.css")


def formatting() -> str:
    """Return the script that shows Markdown in texts of documents, on the server's pages too."""
    return report_asset("formatted.js")


def html_document(
    subject: Subject,
    verdict: Headline,
    charts: Sequence[Chart],
    packed: PackedRows,
    weak: WeakSpots,
) -> str:
    """Return the whole file."""
    ranked = {name for board in subject.boards for name in board.entries}
    text = page_template("report.html").render(
        subject=subject,
        verdict=verdict,
        sections=_sections(subject, charts, weak),
        confirmed=_confirm_rows(subject),
        boards=[_board(subject, board) for board in subject.boards],
        unranked=[
            (entry.id, entry.state, values_of(entry), entry.reason or "not run")
            for entry in subject.entries
            if entry.id not in ranked
        ],
        places=_places(subject),
        measures=_measures(subject),
        counts=_counts(subject),
        usage=_usage(subject.entries),
        weak=weak,
        charts=[figure_of(chart) for chart in charts],
        left_out=_left_out_text(subject, packed.left_out),
        data={  # for the scripts of the file
            "kind": subject.kind,
            "incumbent": subject.incumbent,
            "best": subject.best.id if subject.best else "",
            "states": list(STATES),
            "measures": list(subject.measures),
            "scales": {
                measure: [scale.low, scale.high, scale.higher_is_better]
                for measure in subject.measures
                if (scale := subject.scale(measure)) is not None
            },
            "labels": {entry.id: entry.label for entry in subject.entries if entry.label},
            "settings": {entry.id: dict(entry.values) for entry in subject.entries if entry.values},
            "index": packed.index,
            **chart_data(charts),
        },
        **page_parts(),
        blocks=packed.blocks,
    )
    # Characters that cannot be encoded become "?".
    return text.encode("utf-8", "replace").decode("utf-8") + "\n"


def page_parts() -> dict[str, str]:
    """Return what every page holds: style, scripts, licences, and the policy that allows them."""
    script, library = formatting() + report_asset("report.js"), _library()
    return {
        "policy": "default-src 'none'; "
        f"script-src {_source(script)} {_source(library)}; "
        "style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'",
        "style": stylesheet(),
        "script": script,
        "library": _pack_library(),
        "licences": report_asset("VEGA-LICENSES.txt"),
    }


def chart_data(charts: Sequence[Chart]) -> dict[str, Any]:
    """Return the specs of charts and their themes, for the scripts of a page."""
    return {
        "charts": {chart.name: chart.spec for chart in charts},
        "themes": {"light": theme_data(LIGHT), "dark": theme_data(DARK)},
    }


@cache
def page_template(name: str) -> Template:
    """Return a template of this room, ``report.html`` or ``passport.html``."""
    from jinja2 import DictLoader, Environment, StrictUndefined

    environment = Environment(
        loader=DictLoader({file: report_asset(file) for file in ("macros.html", name)}),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    form = {"ensure_ascii": False, "allow_nan": False, "separators": (",", ":")}
    environment.policies["json.dumps_kwargs"] = form
    environment.filters.update(row_line=row_line, slice_line=slice_line)
    environment.globals.update(
        between=format_interval,
        counted=count_noun,
        number=number,
        value_text=value_text,
        shown=_SHOWN,
        chart_sections=_CHART_SECTIONS,
        row_head=ROW_HEAD,
        slice_head=SLICE_HEAD,
    )
    return environment.get_template(name)


def _sections(subject: Subject, charts: Sequence[Chart], weak: WeakSpots) -> list[tuple[str, str]]:
    """Id and title of each section that the report has."""
    drawn = {chart.section for chart in charts}
    study = subject.kind == "study"
    return [
        ("leaderboard", "Leaderboard") if study else ("measures", "Measures"),
        *([("weak", "Where it fails")] if weak.slices or weak.rows else []),
        *((name, title) for name, title in _CHART_SECTIONS.items() if name in drawn),
        *([("browse", "Rows")] if any(entry.rows for entry in subject.entries) else []),
    ]


def _confirm_rows(subject: Subject) -> list[tuple[str, ...]]:
    """Effects on the tune split and on the confirm split, one below the other."""
    rows: list[tuple[str, ...]] = []
    for confirmation in subject.verdict.confirmations if subject.verdict else ():
        for split, comparison in (("tune", confirmation.tune), ("confirm", confirmation.confirmed)):
            if comparison is None:
                continue
            last, side = split == "confirm", comparison.deciding
            rows.append(
                (
                    f"{confirmation.trial} on {split} split",
                    number(side.mean_a),
                    number(side.mean_b),
                    format_signed(side.difference),
                    format_interval(side.low, side.high),
                    number(confirmation.p if last else None),
                    str(side.n),
                    confirmation.outcome if last else "",
                )
            )
    return rows


def _board(subject: Subject, board: Board) -> dict[str, Any]:
    """A leaderboard: entries, columns, and the ends of the axis of the first measure."""
    entries = subject.ranked(board)
    several = len(subject.boards) > 1
    keys = [key for key in subject.keys if not (several and key.startswith("judge."))]
    goals = [goal.name for goal in subject.goals if goal.name in subject.measures]
    measures = [
        ("measure", name, name_with_scale(name, subject.scale(name), subject.counted(name)))
        for name in dict.fromkeys([*goals, *subject.measures])
    ]
    columns = [
        # The ordering columns come first: on a phone the others are off screen.
        *measures[:1],
        *(("key", key, key) for key in keys),
        *measures[1:],
        ("rows", "rows", "rows"),
        *(
            ("fact", name, head)
            for name, head in FACT_NAMES.items()
            if any(entry.facts.get(name) for entry in entries)
        ),
    ]
    lead = [entry.summary(measures[0][1]) for entry in entries] if measures else []
    ends = [end for summary in lead if summary for end in summary.deciding if end is not None]
    return {
        "judge": board.judge,
        "entries": entries,
        "front": board.front if len(subject.goals) > 1 else (),
        "columns": [dict(zip(("kind", "name", "head"), column, strict=True)) for column in columns],
        "span": (min(ends), max(ends)) if ends and max(ends) > min(ends) else None,
    }


def _places(subject: Subject) -> list[tuple[str, ...]]:
    """The place of each setting under each judge, below the names of the judges."""
    places: dict[str, list[str]] = {}
    for at, board in enumerate(subject.boards):
        for place, name in enumerate(board.entries, 1):
            entry = subject.entry(name)
            if entry is None:
                continue
            values = {k: v for k, v in entry.values.items() if not k.startswith("judge.")}
            key = ", ".join(f"{k} = {value_text(v)}" for k, v in values.items())
            line = places.setdefault(key or "current settings", ["-"] * len(subject.boards))
            if line[at] == "-":
                line[at] = f"{place} of {len(board.entries)}"
    head = ("settings", *(board.judge or "judge" for board in subject.boards))
    return [head, *((key, *line) for key, line in places.items())]


def _counts(subject: Subject) -> list[tuple[str, ...]]:
    """What became of the questions of one run, or of two side by side; empty without answers."""
    runs = [e for e in subject.entries if any(e.counts.lines())] if subject.kind != "study" else []
    sides = [{what: f"{n} of {of}" for what, n, of in entry.counts.lines()} for entry in runs]
    names = dict.fromkeys(what for side in sides for what in side)
    rows = [(what, *(side.get(what, "-") for side in sides)) for what in names]
    return [("outcome", *(entry.label or entry.id for entry in runs)), *rows] if rows else []


def _measures(subject: Subject) -> list[tuple[str, ...]]:
    """Means, intervals, n, coverage and states of one run, or of two below each other."""
    several = len(subject.entries) > 1
    missed = any(
        (s := e.summary(m)) and s.missed for m in subject.measures for e in subject.entries
    )
    rows = [("measure", *(("run",) if several else ()), *mean_heads(missed), "median", "sd")]
    rows[0] = (*rows[0], "n", "coverage", "without a score")
    for measure in subject.measures:
        for entry in subject.entries:
            summary = entry.summary(measure)
            if summary is None:
                continue
            states = [f"{s} {n}" for s, n in summary.states.items() if n and s != "scored"]
            if ends := summary.judge_range:
                states.append(f"with those of the judge {ends[0]:.4f} to {ends[1]:.4f}")
            rows.append(
                (
                    name_with_scale(measure, summary.scale, summary.counted),
                    *((entry.label or entry.id,) if several else ()),
                    *mean_cells(summary, missed),
                    number(summary.median),
                    number(summary.sd),
                    str(summary.n),
                    f"{summary.coverage:.1%}",
                    ", ".join(states) or "none",
                )
            )
    return rows


def _usage(entries: Sequence[ScoredRun]) -> list[tuple[str, ...]]:
    """Mean usage per answer of each entry, below the heads; empty if nothing is known."""
    names = [name for name in FACT_NAMES if any(entry.facts.get(name) for entry in entries)]
    rows = [
        (
            entry.label or entry.id,
            *(f"{entry.facts[name]:.4g}" if name in entry.facts else "-" for name in names),
        )
        for entry in entries
        if entry.facts
    ]
    return [("run", *(FACT_NAMES[name] for name in names)), *rows] if names else []


def figure_of(chart: Chart) -> dict[str, Any]:
    """A chart, with the columns of its table that hold numbers."""
    numbers = [
        at
        for at in range(1, len(chart.head))
        if chart.rows and all(_numeric(row[at]) for row in chart.rows)
    ]
    names = ("name", "title", "note", "head", "rows", "section")
    return {"numbers": numbers, **{name: getattr(chart, name) for name in names}}


def _numeric(cell: str) -> bool:
    return cell in ("", "-") or cell.lstrip("+-").replace(".", "", 1).replace("%", "").isdigit()


def _left_out_text(subject: Subject, left_out: Mapping[str, int]) -> str:
    """A sentence on rows left out of the file, and the command that includes them."""
    if not left_out:
        return ""
    names = list(left_out)
    some = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
    more = f"--trial {names[0]}" if subject.kind == "study" else "--size 60"
    return (
        f"To keep this file small, {count_noun(sum(left_out.values()), 'row')} of {some} are "
        "included "
        "with scores only, without answers, passages and prompts. "
        f"Get them with `ragwright report {subject.facts.get('run', 'RUN')} {more}`."
    )


@cache
def _library() -> str:
    """The drawing libraries as one script, run only when a chart comes into view."""
    return "\n;\n".join(map(report_asset, _LIBRARIES))


@cache
def _pack_library() -> str:
    return base64.b64encode(gzip.compress(_library().encode(), 9, mtime=0)).decode("ascii")


@cache
def report_asset(name: str) -> str:
    """Return a file of the reports' data as text."""
    return (files("ragwright.report") / "data" / name).read_text("utf-8")


def _source(script: str) -> str:
    """The only script that the policy allows: exactly this text."""
    digest = hashlib.sha256(script.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode('ascii')}'"
