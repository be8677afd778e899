"""One HTML file with everything: style, scripts, charts, rows; it needs no network."""

from __future__ import annotations

import base64
import gzip
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from typing import Any

from ..core import count_noun
from ._charts import DARK, LIGHT, theme_data
from ._headline import Headline, values_of
from ._pack import STATES, PackedRows
from ._results import counts_block, measures_block, verdict_block
from ._subject import FACT_NAMES, Board, Subject
from ._text import Block, interval, name_with_scale, number, settings_text, value_text

_LIBRARIES = ("vega.min.js", "vega-lite.min.js", "vega-embed.min.js")

_SHOWN = 25
"""Lines of a leaderboard that are not folded."""

_MOST = 40
"""Lines of a table that are not folded."""

_CHART_SECTIONS = {
    "findings": "What was found",
    "settings": "What the settings do",
    "rows": "What the rows show",
    "relations": "What goes together",
}
"""Sections of a report with charts, in order."""


@dataclass(frozen=True, slots=True)
class PageSection:
    """A section of a page.

    Attributes:
        name: Its id, part of links.
        title: Its heading.
        note: A sentence below the heading.
        blocks: Its tables and charts.
        sentences: Its text.
        boards: Leaderboards, in a section of this name.
        left_out: What the list of rows lacks, in the section ``browse``.
    """

    name: str
    title: str
    note: str = ""
    blocks: Sequence[Block] = ()
    sentences: Sequence[str] = ()
    boards: Sequence[Mapping[str, Any]] = ()
    left_out: str = ""


def stylesheet() -> str:
    """Return the style of reports and of the server's pages."""
    return report_asset("report.css")


def formatting() -> str:
    """Return the script that shows Markdown in texts of documents, on the server's pages too."""
    return report_asset("formatted.js")


def report_page(
    subject: Subject, verdict: Headline, blocks: Sequence[Block], packed: PackedRows
) -> str:
    """Return the page of a report."""
    entries, study = subject.entries, subject.kind == "study"
    results = PageSection("measures", "Measures", blocks=_measure_blocks(subject))
    if study:
        boards = [_board(subject, board) for board in subject.boards]
        tables = [_unranked_block(subject), _places_block(subject)]
        results = PageSection("leaderboard", "Leaderboard", "", tables, boards=boards)
    named = [
        PageSection(name, title, "", [block for block in blocks if block.section == name])
        for name, title in {"weak": "Where it fails", **_CHART_SECTIONS}.items()
    ]
    browse = PageSection(
        "browse",
        "Rows",
        "Every row with its question, gold, answer, passages, prompt and judges' reasoning.",
        left_out=_left_out_text(subject, packed.left_out),
    )
    answered = {e.label or e.id: e.counts for e in entries if any(e.counts.lines()) and not study}
    opening = [counts_block(answered)]
    opening += [verdict_block(subject.verdict)] if subject.verdict else []
    return write_page(
        PageSection("top", subject.title, "", opening, subject.notes),
        verdict,
        [
            *(results, *(section for section in named if section.blocks)),
            *([browse] if any(entry.rows for entry in entries) else []),
        ],
        facts=subject.facts,
        packed=packed.blocks,
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
            "index": packed.index,
        },
    )


def write_page(
    top: PageSection,
    verdict: Headline,
    sections: Sequence[PageSection],
    *,
    facts: Mapping[str, str],
    packed: Sequence[str] = (),
    data: Mapping[str, Any] | None = None,
) -> str:
    """Return a page: the verdict with its evidence, the blocks and notes of ``top``, sections."""
    script, library = formatting() + report_asset("report.js"), _join_libraries()
    drawn = [block for section in sections for block in section.blocks if block.spec]
    text: str = load_template("page.html").render(
        top=top,
        verdict=verdict,
        sections=sections,
        facts=facts,
        packed=packed,
        data={
            **dict.fromkeys(("kind", "incumbent", "best"), ""),
            "measures": [],
            **{name: {} for name in ("scales", "labels", "settings")},
            "index": {"rows": 0, "entries": []},
            **(data or {}),
            "states": list(STATES),
            "charts": {block.name: block.spec for block in drawn},
            "themes": {"light": theme_data(LIGHT), "dark": theme_data(DARK)},
        },
        policy="default-src 'none'; "
        f"script-src {_hash_source(script)} {_hash_source(library)}; "
        "style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'",
        style=stylesheet(),
        script=script,
        library=_pack_library(),
        licences=report_asset("VEGA-LICENSES.txt"),
    )
    # Characters that cannot be encoded become "?".
    return text.encode("utf-8", "replace").decode("utf-8") + "\n"


@cache
def load_template(name: str) -> Any:
    """Return a template of this room."""
    from jinja2 import DictLoader, Environment, StrictUndefined

    environment = Environment(
        loader=DictLoader({name: report_asset(name)}),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    form = {"ensure_ascii": False, "allow_nan": False, "separators": (",", ":")}
    environment.policies["json.dumps_kwargs"] = form
    environment.globals.update(
        between=interval,
        counted=count_noun,
        number=number,
        value_text=value_text,
        shown=_SHOWN,
        most=_MOST,
    )
    return environment.get_template(name)


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


def _unranked_block(subject: Subject) -> Block:
    ranked = {name for board in subject.boards for name in board.entries}
    rows = (
        (entry.id, entry.state, values_of(entry), entry.reason or "not run")
        for entry in subject.entries
        if entry.id not in ranked
    )
    head = ("trial", "state", "settings", "because")
    return Block("unranked", "Trials without a rank", "", head, tuple(rows))


def _places_block(subject: Subject) -> Block:
    """The place of each setting under each judge, if there are several."""
    boards = subject.boards if len(subject.boards) > 1 else ()
    places: dict[str, dict[int, str]] = {}
    for at, board in enumerate(boards):
        for place, entry in enumerate(subject.ranked(board), 1):
            values = {k: v for k, v in entry.values.items() if not k.startswith("judge.")}
            line = places.setdefault(settings_text(values) or "current settings", {})
            line.setdefault(at, f"{place} of {len(board.entries)}")
    return Block(
        "judges",
        "How the order depends on the judge",
        "Scores of different judges are not comparable. A setting that leads under one judge only "
        "says something about that judge.",
        ("settings", *(board.judge or "judge" for board in boards)),
        tuple(
            (key, *(line.get(at, "-") for at in range(len(boards)))) for key, line in places.items()
        ),
    )


def _measure_blocks(subject: Subject) -> list[Block]:
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
        Block("usage", "What an answer took, on average", "", head, tuple(rows)),
    ]


def _left_out_text(subject: Subject, left_out: Mapping[str, int]) -> str:
    """A sentence on rows left out of the file, and the command that includes them."""
    names = list(left_out)
    some = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
    more = f"--trial {''.join(names[:1])}" if subject.kind == "study" else "--size 60"
    text = (
        f"To keep this file small, {count_noun(sum(left_out.values()), 'row')} of {some} are "
        "included "
        "with scores only, without answers, passages and prompts. "
        f"Get them with `ragwright report {subject.facts.get('run', 'RUN')} {more}`."
    )
    return text if left_out else ""


@cache
def _join_libraries() -> str:
    """The drawing libraries as one script, run only when a chart comes into view."""
    return "\n;\n".join(map(report_asset, _LIBRARIES))


@cache
def _pack_library() -> str:
    packed = gzip.compress(_join_libraries().encode(), 9, mtime=0)
    return base64.b64encode(packed).decode("ascii")


@cache
def report_asset(name: str) -> str:
    """Return a file of the reports' data as text."""
    return (files("ragwright.report") / "data" / name).read_text("utf-8")


def _hash_source(script: str) -> str:
    """The only script that the policy allows: exactly this text."""
    digest = hashlib.sha256(script.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode('ascii')}'"
