"""An ablation as text and JSON: verdict first, then a table per measure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from textwrap import fill
from typing import Any

from ..experiment import Ablation, PartEffect, PartResult
from ._data import fields_of
from ._text import WIDTH, format_signed, interval, number, p_cell, text_table

HEADS = {
    "leave one out": "Parts left out one at a time: the complete prompt against the one without",
    "preset": "Presets: the complete prompt against the preset; above 0 the complete one is better",
}
"""Design -> heading of its table."""


def ablation_table(ablation: Ablation, *, run: str = "", width: int = 0) -> str:
    """Return the verdict, a table for every measure and design, and the confirm split."""
    text, wide = width or WIDTH, width or _WIDE
    blocks = ["\n".join(fill(line, text) for line in ablation.verdict)]
    measures = dict.fromkeys(effect.measure for part in ablation.parts for effect in part.effects)
    for measure in measures:
        for design in dict.fromkeys(part.design for part in ablation.parts):
            parts = [part for part in ablation.parts if part.design == design]
            blocks.append(_table(measure, design, parts, wide))
    if ablation.openings:
        blocks.append(_confirmed(ablation, wide))
    tail = [fill(_LEGEND, text)]
    if ablation.never:
        tail.append(fill(f"not in the prompt of any row: {', '.join(ablation.never)}", text))
    tail += [fill(f"note: {note}", text, subsequent_indent="  ") for note in ablation.notes]
    tail += [f"run: {run}"] if run else []
    return "\n\n".join([*blocks, "\n".join(tail)])


_LEGEND = (
    "effect: what the part adds; positive is better. p is corrected for all parts of a "
    "table (Holm), personas separately from all rows. loss up to: the most that deleting it may "
    "cost; safe if that is below the margin for every measure and persona. "
    "tokens: its length in a prompt, by the project's tokenizer."
)


def ablation_json(ablation: Ablation, *, run: str = "", sweep: str = "") -> dict[str, Any]:
    """The document of ``ablate --json``.

    ``{"verdict", "testset", "rows", "personas", "margin", "parts": [{"part", "design", "tokens",
    "cost", "safe", "holds", "state", "effects": […], "confirmed": […]}], "together", "openings",
    "never", "notes", "run", "sweep"}``; differences are in the direction that is good.
    """
    return {
        **fields_of(ablation, "verdict", "testset", "rows", "personas", "margin"),
        "parts": [_part_json(part) for part in ablation.parts],
        "together": None if ablation.together is None else _part_json(ablation.together),
        **fields_of(ablation, "openings", "confirm_rows", "never", "notes"),
        "run": run,
        "sweep": sweep,
    }


_EFFECT = (
    *("measure", "persona", "n", "clusters", "with_part", "without", "difference", "low", "high"),
    *("p", "p_holm", "verdict", "loss", "margin", "within"),
)
"""Keys of an effect."""


def _part_json(part: PartResult) -> dict[str, Any]:
    return {
        **fields_of(part, "part", "design"),
        "trial": None if part.trial is None else f"T{part.trial:03d}",
        **fields_of(part, "tokens", "cost", "safe", "holds", "state"),
        "effects": [fields_of(effect, *_EFFECT) for effect in part.effects],
        "confirmed": [fields_of(effect, *_EFFECT) for effect in part.confirmed],
    }


def _table(measure: str, design: str, parts: Sequence[PartResult], width: int) -> str:
    rows = [["part", "persona", "with", "without", "effect", "95 % interval", "p", "n"]]
    rows[0] += ["loss up to", "tokens", "per 1,000", ""]
    for part in parts:
        effects = [effect for effect in part.effects if effect.measure == measure]
        rows += [_cells(part, effect, first=at == 0) for at, effect in enumerate(effects)]
    rows = _filled(rows)
    right = [at for at, name in enumerate(rows[0]) if name in _NUMBERS]
    head = fill(f"{measure}. {HEADS[design]}", WIDTH)
    return f"{head}\n{text_table(rows, right=right, width=width)}"


_WIDE = 140
"""Characters of the widest table, since names of presets are long."""

_NUMBERS = {"with", "without", "effect", "p", "n", "loss up to", "tokens", "per 1,000"}


def _filled(rows: Sequence[Sequence[str]]) -> list[list[str]]:
    """The columns that have values."""
    head, *cells = rows
    kept = [at for at in range(len(head)) if any(row[at] not in ("", "-") for row in cells)]
    return [[row[at] for at in kept] for row in rows]


def _cells(part: PartResult, effect: PartEffect, *, first: bool) -> list[str]:
    verdict: str = effect.verdict
    if part.safe and first:
        verdict = part.state
    elif part.design == "preset" and verdict != "no effect proven":
        verdict = "worse than the complete prompt" if verdict == "helps" else "better"
    several = any(other.persona for other in part.effects)
    return [
        part.label if first else "",
        (effect.persona or "all") if several else "",
        number(effect.with_part),
        number(effect.without),
        format_signed(effect.difference),
        interval(effect.low, effect.high),
        p_cell(effect.p_holm),
        str(effect.n),
        number(effect.loss),
        _short(part.tokens) if first else "",
        _short(part.cost or None) if first else "",
        verdict,
    ]


def _confirmed(ablation: Ablation, width: int) -> str:
    """Results of the confirm split for each deletion, and for all at once."""
    rows = [
        ["deleted", "measure", "persona", "effect", "95 % interval", "loss up to", "margin", ""]
    ]
    tested: Iterable[PartResult] = [part for part in ablation.parts if part.confirmed]
    for part in [*tested, *([] if ablation.together is None else [ablation.together])]:
        for effect in part.confirmed:
            rows.append(
                [
                    part.part,
                    effect.measure,
                    effect.persona or "all",
                    format_signed(effect.difference),
                    interval(effect.low, effect.high),
                    number(effect.loss),
                    number(effect.margin),
                    "within" if effect.within else "not shown",
                ]
            )
    head = f"The confirm split, {ablation.confirm_rows} held-out rows"
    return f"{head}\n{text_table(rows, right=(3, 5, 6), width=width)}"


def _short(value: float | None) -> str:
    return "-" if value is None else f"{value:.4g}"
