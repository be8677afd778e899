"""The outcome of tuning a part of the search, as a sentence, a table and JSON."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ..training import TunedTable, TuneResult
from ._data import fields_of
from ._text import name_with_scale, text_table

_COMPARED = ("measure", "n", "mean_a", "mean_b", "difference", "low", "high", "verdict", "counted")


def write_tuned_headline(tuned: TuneResult) -> str:
    """Return the outcome in one sentence."""
    part = "model" if tuned.part == "embedder" else tuned.part
    article = "an" if part[0] in "aeiou" else "a"
    if tuned.comparison is None:
        trained = tuned.training
        return (
            f"no {part} was written: on the training questions it is not better "
            f"({trained.measure} {trained.before:.3f}, with {article} {part} {trained.after:.3f})"
        )
    held = tuned.comparison
    change = f"{held.measure} {held.mean_a:.3f} -> {held.mean_b:.3f} on {held.n} held-out questions"
    if tuned.path is None:
        return f"no {part} was written: it is not proven better ({change})"
    if not tuned.proven:
        return f"the {part} is kept, although it is not proven better: {change}"
    return f"the {part} is {held.worded}: {change}"


def make_tuned_table(tuned: TuneResult, width: int = 100) -> str:
    """Return the search with and without the tuned part, then further tables."""
    training, held = tuned.training, tuned.comparison
    rows = [
        ["questions", "n", "measure", "without", "with", "difference", "95 % interval"],
        [
            "training",
            str(training.questions),
            training.measure,
            f"{training.before:.3f}",
            f"{training.after:.3f}",
            f"{training.after - training.before:+.3f}",
            training.method,
        ],
    ]
    if held is not None:
        ends = "" if held.low is None else f"{held.low:+.3f} to {held.high:+.3f}"
        figures = (f"{held.mean_a:.3f}", f"{held.mean_b:.3f}", f"{held.difference:+.3f}")
        named = name_with_scale(held.measure, held.scale, held.counted)
        rows.append(["held-out", str(held.n), named, *figures, ends])
    tables = [text_table(rows, right=(1, 3, 4, 5), width=width)]
    tables += [_further(table, width) for table in tuned.tables if table.rows]
    return "\n\n".join(tables)


def _further(table: TunedTable, width: int) -> str:
    cells = [[_cell(value) for value in row] for row in table.rows]
    numbers = [
        at
        for at in range(len(table.columns))
        if not any(isinstance(row[at], str) for row in table.rows)
    ]
    return text_table([list(table.columns), *cells], right=numbers, width=width)


def _cell(value: str | float | int | None) -> str:
    if isinstance(value, float):
        return f"{value:.3f}"
    return "-" if value is None else str(value)


def write_tuned_use(tuned: TuneResult, root: Path) -> str:
    """Return the line of ragwright.yaml that uses it; empty if nothing was written."""
    if tuned.path is None:
        return ""
    inside = tuned.path.is_relative_to(root)
    value = tuned.value or str(tuned.path.relative_to(root) if inside else tuned.path)
    section, _, key = tuned.setting.rpartition(".")
    entries = {key: value, **{name: f"{entry:g}" for name, entry in tuned.beside.items()}}
    line = ", ".join(f"{name}: {entry}" for name, entry in entries.items())
    for name in reversed(section.split(".")):
        line = f"{name}: {{{line}}}"
    remark = "" if tuned.proven else "   # not proven better"
    return f"to use it, write in ragwright.yaml: {line}{remark}"


def make_tuned_json(tuned: TuneResult) -> dict[str, Any]:
    """Return ``proven, written, headline, training, held_out`` and further tables as JSON."""
    training, held = tuned.training, tuned.comparison
    path = None if tuned.path is None else str(tuned.path)
    figures = fields_of(training, "questions", "measure", "before", "after", "method")
    return {
        **fields_of(tuned, "part", "proven"),
        "written": path,
        "setting": tuned.setting,
        "value": tuned.value or path,
        "beside": dict(tuned.beside),
        "base": tuned.base,
        "headline": write_tuned_headline(tuned),
        "training": {**figures, **training.settings},
        "held_out": None if held is None else fields_of(held, *_COMPARED),
        **{
            table.name: [dict(zip(table.columns, row, strict=True)) for row in table.rows]
            for table in tuned.tables
        },
        "notes": list(tuned.notes),
    }
