"""Blocks of a result (a table, and for pages a chart), their text, JSON documents and CSV."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, zip_longest
from typing import Any, TypeAlias

from ..core import Answer, Snippet, make_plain
from ..drafting import DraftBatch
from ..experiment import AnswerCounts
from ..measure import LEAST_P, Comparisons, GateOutcome, MeasureScale, Summary, name_in_ragas

WIDTH = 100
"""Most characters of a line if possible: a terminal, a log, a mail."""

Cells: TypeAlias = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ResultBlock:
    """A part of a result: a table that terminals, pages and files show; on pages also a chart.

    Attributes:
        name: Short name, part of file names and links: ``personas``.
        title: Heading; empty for none.
        note: How to read the chart, a sentence.
        head: Heads of the table.
        rows: Its lines.
        spec: Vega-Lite spec of the chart; width and colours are the theme's. None: a table alone.
        section: Section of the page.
        remarks: What the table does not say, a sentence each.
    """

    name: str
    title: str
    note: str
    head: Cells
    rows: tuple[Cells, ...]
    spec: dict[str, Any] | None = None
    section: str = "findings"
    remarks: Cells = ()

    @property
    def numbers(self) -> list[int]:
        """Columns of numbers, which are right-aligned."""
        return [
            at
            for at in range(len(self.head))
            if self.rows and all(_is_number(row[at]) for row in self.rows)
        ]

    def text(self, width: int = WIDTH) -> str:
        """Return title, table and remarks as text."""
        title = [wrap_line(line, width) for line in self.title.splitlines()]
        table = [text_table([self.head, *self.rows], self.numbers, width)] if self.rows else []
        return "\n".join([*title, *table, *(wrap_line(text, width) for text in self.remarks)])


def _is_number(cell: str) -> bool:
    plain = cell.lstrip("+-< ").replace(".", "", 1).replace(",", "").rstrip("% *")
    return not plain or plain.isdigit()


def print_result(
    sentences: Iterable[str],
    blocks: Iterable[ResultBlock],
    *,
    run: str = "",
    notes: Iterable[str] = (),
    width: int = WIDTH,
) -> str:
    """Return a result as text: sentences, blocks, then its run and notes."""
    parts = ["\n".join(wrap_line(line, width) for line in sentences)]
    parts += [block.text(width) for block in blocks]
    tail = [f"run: {run}"] if run else []
    tail += [wrap_line(f"note: {note}", width) for note in notes]
    return "\n\n".join(filter(None, [*parts, "\n".join(tail)]))


def wrap_line(text: str, width: int = WIDTH) -> str:
    """Return a sentence in lines that break no interval; the further ones are indented."""
    kept = _TOGETHER.sub(lambda found: found[0].replace(" ", "\0"), text)
    lines = textwrap.wrap(
        kept, width, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False
    )
    return "\n".join(lines).replace("\0", " ")


_TOGETHER = re.compile(r"[-+]?[\d.]+ to [-+]?[\d.]+|\bp [=<] [\d.]+|\b95 %")


def shorten_names(*names: str, most: int = 24) -> tuple[str, ...]:
    """Return names of at most ``most`` characters; long ones keep the end, where runs differ."""
    ends = (re.sub(r"^[^-_ .]{1,9}(?=[-_ .])", "", name[1 - most :]) for name in names)
    return tuple(
        name if len(name) <= most else f"…{end}" for name, end in zip(names, ends, strict=True)
    )


def drop_empty_columns(head: Cells, rows: Sequence[Cells]) -> tuple[Cells, tuple[Cells, ...]]:
    """Return the heads and cells of the columns that have a value."""
    kept = [at for at in range(len(head)) if any(row[at] not in ("", "-") for row in rows)]
    return tuple(head[at] for at in kept), tuple(tuple(row[at] for at in kept) for row in rows)


def text_table(
    rows: Sequence[Sequence[str]],
    right: Sequence[int] = (),
    width: int = WIDTH,
    whole: Sequence[int] = (),
) -> str:
    """Lay out rows in columns, the first row underlined; columns in ``right`` are right-aligned.

    If lines would exceed ``width``, cells are wrapped between words: heads first, then texts;
    numbers, intervals and the columns in ``whole`` are not. Columns that still do not fit follow
    in a second table, which repeats the first column. Words are cut only if two columns do not fit.
    """
    parts = [_cell_parts(column, at in whole) for at, column in enumerate(zip(*rows, strict=True))]
    floors = [max((len(part.rstrip()) for part in chain(*column)), default=0) for column in parts]
    keys = 1 if rows[0][0] else 2  # a place is not enough to know a row again
    fit = len(floors)
    while fit > keys + 1 and sum(floors[:fit]) + 2 * (fit - 1) > width:
        fit -= 1
    if fit < len(floors):
        sides = [*range(fit)], [*range(keys), *range(fit, len(floors))]
        return "\n\n".join(
            text_table(
                [[row[at] for at in side] for row in rows],
                [new for new, at in enumerate(side) if at in right],
                width,
                [new for new, at in enumerate(side) if at in whole],
            )
            for side in sides
        )
    widths = _column_widths(rows, [at in right for at in range(fit)], floors, width)
    lines = []
    for number, row in enumerate(rows):
        broken = [_fill(parts[at][number], widths[at]) for at in range(len(row))]
        for cells in zip_longest(*broken, fillvalue=""):
            padded = [
                cell.rjust(size) if at in right else cell.ljust(size)
                for at, (cell, size) in enumerate(zip(cells, widths, strict=True))
            ]
            lines.append("  ".join(padded).rstrip())
        if not number:
            lines.append("  ".join("-" * size for size in widths))
    return "\n".join(lines)


_NUMBERS = re.compile(r"[-+<\d.,:%/()\[\] ]+(?: (?:to|of) [-+\d.,%()\[\]]+)*")
"""A cell that is never wrapped: ``0.0253 to 0.1394``, ``0.937 [0.89, 0.97]``."""


def _cell_parts(column: Sequence[str], whole: bool) -> list[list[str]]:
    """Return the parts of each cell between which it may be wrapped: words, and parts of a key."""
    head, *cells = column
    return [
        re.findall(r"\S+?[./](?=[a-z])|\S+\s*", head),
        *([c] if whole or _NUMBERS.fullmatch(c) else re.findall(r"\S+\s*", c) for c in cells),
    ]


def _fill(parts: Sequence[str], width: int) -> list[str]:
    """Return parts in lines; a part that is longer than a line is cut."""
    lines = [""]
    for part in parts:
        if lines[-1] and len(lines[-1] + part.rstrip()) > width:
            lines.append("")
        lines[-1] += part
        while len(lines[-1].rstrip()) > width:
            lines[-1:] = [lines[-1][:width], lines[-1][width:]]
    return [line.rstrip() for line in lines]


def _column_widths(
    rows: Sequence[Sequence[str]], right: Sequence[bool], words: Sequence[int], width: int
) -> list[int]:
    columns = [*zip(*rows, strict=True)]
    widths = [max(map(len, column)) for column in columns]
    numbers = [
        max((*map(len, column[1:]), 6)) if aligned else 20
        for aligned, column in zip(right, columns, strict=True)
    ]
    # Texts keep 20 characters if possible; words are cut only where nothing else makes lines fit.
    for floors in (list(map(max, numbers, words)), words, [min(size, 10) for size in words]):
        fixed = [size <= floors[at] for at, size in enumerate(widths)]
        while sum(widths) + 2 * (len(widths) - 1) > width and not all(fixed):
            _, at = max((size, at) for at, size in enumerate(widths) if not fixed[at])
            widths[at] -= 1
            fixed[at] = widths[at] <= floors[at]
    return widths


def interval(low: float | None, high: float | None) -> str:
    """Return both ends, or a dash."""
    return "-" if low is None or high is None else f"{low:.4f} to {high:.4f}"


def is_numeric(values: Sequence[Any]) -> bool:
    """Return True if values are numbers, so that a line through them makes sense."""
    return bool(values) and all(
        isinstance(value, int | float) and not isinstance(value, bool) for value in values
    )


def value_text(value: Any) -> str:
    """Return a swept value as text; no value is ``none``."""
    if isinstance(value, list | tuple):
        value = ", ".join(map(str, value))
    if value is None or value == "":
        return "none"
    if isinstance(value, bool):
        return "on" if value else "off"
    return f"{value:g}" if isinstance(value, float) else str(value)


def settings_text(values: Mapping[str, Any]) -> str:
    """Return settings as text."""
    return ", ".join(f"{key} = {value_text(value)}" for key, value in values.items())


def shorten_list(names: Sequence[str], most: int = 5) -> str:
    """Return the first names, and how many more there are."""
    shown = ", ".join(names[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"


def name_with_scale(measure: str, scale: MeasureScale | None, counted: Iterable[str] = ()) -> str:
    """Return a measure with its scale, since other tools use its name for other scales.

    It also says what a measure of retrieval counted (spans, documents), where lower is better, and
    what ragas calls a measure of the same definition.
    """
    theirs, gold = name_in_ragas(measure), " and ".join(counted)
    facts = (
        str(scale),
        *((gold,) if gold else ()),
        *(() if scale is None or scale.higher_is_better else ("lower is better",)),
    )
    known = f"{', '.join(facts)}{f'; {theirs} in ragas' if theirs else ''}"
    return measure if scale is None else f"{measure} ({known})"


def number(value: float | None) -> str:
    """Return four digits, or a dash if undefined."""
    return "-" if value is None else f"{value:.4f}"


def format_signed(value: float | None) -> str:
    """Return four digits with a sign, or a dash if undefined."""
    return "-" if value is None else f"{value:+.4f}"


def share(value: float | None) -> str:
    """Return a whole percentage, or a dash if undefined."""
    return "-" if value is None else f"{value:.0%}"


def p_cell(value: float | None) -> str:
    """Return a p-value as a cell: four digits, ``< 0.001``, or a dash."""
    return "< 0.001" if value is not None and value < LEAST_P else number(value)


def fields_of(record: Any, *names: str) -> dict[str, Any]:
    """Return fields and properties of a record as JSON values, in this order."""
    return {name: make_plain(getattr(record, name)) for name in names}


def group_by_measure(summaries: Iterable[Summary]) -> dict[str, Any]:
    """Return summaries as plain values under their measures."""
    return {
        summary.measure: {
            **{k: v for k, v in make_plain(summary).items() if k != "measure"},
            **({"judge_range": list(ends)} if (ends := summary.judge_range) else {}),
        }
        for summary in summaries
    }


def summary_json(
    summaries: Iterable[Summary],
    *,
    run: str = "",
    notes: Iterable[str] = (),
    slices: Mapping[str, Mapping[str, Iterable[Summary]]] | None = None,
    baselines: Iterable[Summary] = (),
    rows: Sequence[Mapping[str, Any]] | None = None,
    counts: AnswerCounts | None = None,
) -> dict[str, Any]:
    """The document of ``eval --json``: ``{"measures": {name: {"mean", …}}, "run", "notes"}``.

    ``slices`` (field -> value -> summaries) adds ``"slices"`` of the same shape, ``baselines`` the
    key ``"baselines"`` of the shape of ``"measures"``, ``rows`` the key ``"rows"``, and ``counts``,
    first, ``"outcome"``.
    """
    document: dict[str, Any] = {
        **({"outcome": make_plain(counts)} if counts and any(counts.lines()) else {}),
        "measures": group_by_measure(summaries),
        "run": run,
        "notes": list(notes),
    }
    if slices:
        document["slices"] = {
            by: {value: group_by_measure(part) for value, part in values.items()}
            for by, values in slices.items()
        }
    if null := group_by_measure(baselines):
        document["baselines"] = null
    if rows is not None:
        document["rows"] = list(rows)
    return document


def comparison_json(comparisons: Comparisons) -> dict[str, Any]:
    """The document of ``compare --json``; every measure with its verdict and sentence.

    Where a run abstained on rows with gold, ``with_abstained`` is the comparison that decides.
    """
    measures = {
        comparison.measure: make_plain(comparison) | {"text": comparison.text}
        for comparison in comparisons.measures
    }
    return {"measures": measures, **fields_of(comparisons, "only_a", "only_b", "missing")}


def gate_json(outcome: GateOutcome) -> dict[str, Any]:
    """The document of ``gate --json``: ``{"outcome", "checks": […], "warnings": […]}``."""
    checks = [make_plain(check) for check in outcome.checks]
    return {"outcome": outcome.state, "checks": checks, "warnings": list(outcome.warnings)}


def answer_json(answer: Answer) -> dict[str, Any]:
    """Return an answer as ``ask --json`` prints it."""
    return {
        **fields_of(answer, "persona", "text", "abstained", "citations"),
        "snippets": [snippet_json(snippet) for snippet in answer.snippets],
        **fields_of(answer, "route", "route_reason", "model", "cached", "usage", "notes"),
        **({} if answer.promise is None else fields_of(answer, "promise")),
        "hits": [make_plain(hit) for hit in answer.hits],
    }


def snippet_json(snippet: Snippet) -> dict[str, Any]:
    """Return a snippet: its text, where its best sentence is in it, and its place."""
    return fields_of(
        snippet,
        *("text", "marked", "document_id", "source", "page", "start", "end", "heading", "score"),
    )


def batch_json(batch: DraftBatch) -> dict[str, Any]:
    """Return a batch as ``draft --json`` prints it."""
    return {
        "batch": batch.number,
        **fields_of(batch, "request", "models", "query", "mode"),
        "hits": [make_plain(hit) for hit in batch.hits],
        "prompts": [
            make_plain(prompt)
            | {
                "messages": [
                    {"role": role, "content": content} for role, content in prompt.messages
                ]
            }
            for prompt in batch.prompts
        ],
        "texts": [
            fields_of(text, "text", "model", "prompt", "marks", "characters")
            for text in batch.texts
        ],
        **fields_of(batch, "notes", "usage"),
        "cost": batch.usage.cost,
        **fields_of(batch, "cached", "snapshot"),
    }
