"""An ablation as text and JSON: verdict first, then a table per measure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from textwrap import fill
from typing import Any

from ..experiment import Ablation, PartEffect, PartResult
from ._text import WIDTH, interval, p_cell, text_table

HEADS = {
    "leave one out": "Parts left out one at a time: the complete prompt against the one without",
    "preset": "Presets: the complete prompt against the preset; above 0 the complete one is better",
    "add one": "Parts added one at a time to a prompt of context and question",
    "factorial": "Parts on and off in every combination: mean effect over all settings of the "
    "others",
    "interaction": "Pairs: the effect of the first part with the second one, and without it",
}
"""Design -> heading of its table; runs of earlier versions have the last three."""


def ablation_table(found: Ablation, *, run: str = "", width: int = 0) -> str:
    """Verdict, a table for every measure and design, and the confirm split."""
    text, wide = width or WIDTH, width or _WIDE
    blocks = ["\n".join(fill(line, text) for line in found.verdict)]
    measures = dict.fromkeys(effect.measure for one in found.parts for effect in one.effects)
    for measure in measures:
        for design in dict.fromkeys(one.design for one in found.parts):
            parts = [one for one in found.parts if one.design == design]
            blocks.append(_table(measure, design, parts, wide))
    if found.openings:
        blocks.append(_confirmed(found, wide))
    tail = [fill(_LEGEND, text)]
    if found.never:
        tail.append(fill(f"not in the prompt of any row: {', '.join(found.never)}", text))
    tail += [fill(f"note: {note}", text, subsequent_indent="  ") for note in found.notes]
    tail += [f"run: {run}"] if run else []
    return "\n\n".join([*blocks, "\n".join(tail)])


_LEGEND = (
    "effect: what the part adds; positive is better. p is corrected for all parts of a "
    "table (Holm), personas separately from all rows. loss up to: the most that deleting it may "
    "cost; safe if that is below the margin for every measure and persona. "
    "tokens: its length in a prompt, by the project's tokenizer."
)


def ablation_json(found: Ablation, *, run: str = "", sweep: str = "") -> dict[str, Any]:
    """The document of ``ablate --json``.

    ``{"verdict", "testset", "rows", "personas", "margin", "parts": [{"part", "design", "tokens",
    "cost", "safe", "holds", "state", "effects": […], "confirmed": […]}], "together", "openings",
    "never", "notes", "run", "sweep"}``; differences are in the direction that is good.
    """
    return {
        "verdict": list(found.verdict),
        "testset": found.testset,
        "rows": found.rows,
        "personas": list(found.personas),
        "margin": found.margin,
        "parts": [_part_json(one) for one in found.parts],
        "together": None if found.together is None else _part_json(found.together),
        "openings": found.openings,
        "confirm_rows": found.confirm_rows,
        "never": list(found.never),
        "notes": list(found.notes),
        "run": run,
        "sweep": sweep,
    }


def _part_json(one: PartResult) -> dict[str, Any]:
    return {
        "part": one.part,
        "design": one.design,
        "trial": None if one.trial is None else f"T{one.trial:03d}",
        "tokens": one.tokens,
        "cost": one.cost,
        "safe": one.safe,
        "holds": one.holds,
        "state": one.state,
        "effects": [_effect_json(effect) for effect in one.effects],
        "confirmed": [_effect_json(effect) for effect in one.confirmed],
    }


def _effect_json(effect: PartEffect) -> dict[str, Any]:
    names = (
        "measure",
        "persona",
        "n",
        "clusters",
        "with_part",
        "without",
        "difference",
        "low",
        "high",
        "p",
        "p_holm",
        "verdict",
        "loss",
        "margin",
        "within",
    )
    return {name: getattr(effect, name) for name in names}


def _table(measure: str, design: str, parts: Sequence[PartResult], width: int) -> str:
    rows = [["part", "persona", "with", "without", "effect", "95 % interval", "p", "n"]]
    rows[0] += ["loss up to", "tokens", "per 1,000", ""]
    for one in parts:
        of = [effect for effect in one.effects if effect.measure == measure]
        rows += [_cells(one, effect, first=at == 0) for at, effect in enumerate(of)]
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


def _cells(one: PartResult, effect: PartEffect, *, first: bool) -> list[str]:
    said: str = effect.verdict
    if one.safe and first:
        said = one.state
    elif one.design == "interaction" and said != "no effect proven":
        said = "each needs the other" if said == "helps" else "either can replace the other"
    elif one.design == "preset" and said != "no effect proven":
        said = "worse than the complete prompt" if said == "helps" else "better"
    several = any(other.persona for other in one.effects)
    return [
        one.label if first else "",
        (effect.persona or "all") if several else "",
        _number(effect.with_part),
        _number(effect.without),
        _signed(effect.difference),
        interval(effect.low, effect.high),
        p_cell(effect.p_holm),
        str(effect.n),
        _number(effect.loss),
        _number(one.tokens, ".4g") if first else "",
        _number(one.cost or None, ".4g") if first else "",
        said,
    ]


def _confirmed(found: Ablation, width: int) -> str:
    """Results of the confirm split for each deletion, and for all at once."""
    rows = [
        ["deleted", "measure", "persona", "effect", "95 % interval", "loss up to", "margin", ""]
    ]
    tested: Iterable[PartResult] = [one for one in found.parts if one.confirmed]
    for one in [*tested, *([] if found.together is None else [found.together])]:
        for effect in one.confirmed:
            rows.append(
                [
                    one.part,
                    effect.measure,
                    effect.persona or "all",
                    _signed(effect.difference),
                    interval(effect.low, effect.high),
                    _number(effect.loss),
                    _number(effect.margin),
                    "within" if effect.within else "not shown",
                ]
            )
    head = f"The confirm split, {found.confirm_rows} held-out rows"
    return f"{head}\n{text_table(rows, right=(3, 5, 6), width=width)}"


def _number(value: float | None, form: str = ".4f") -> str:
    return "-" if value is None else f"{value:{form}}"


def _signed(value: float | None) -> str:
    return _number(value, "+.4f")
