"""Personas by generators, as text and JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from textwrap import fill
from typing import Any

from ..experiment import GridComparison, PersonaModelGrid
from ..measure import Summary
from ._data import make_json
from ._text import WIDTH, interval, number, p_cell, text_table

_OWN = "(as configured)"


def generators_table(grid: PersonaModelGrid, *, run: str = "", width: int = WIDTH) -> str:
    """Return verdicts, then persona by generator for each measure, pairs, and facts kept."""
    blocks = ["\n".join(fill(line, width) for line in reader_verdicts(grid))]
    blocks += [_table(grid, measure, grid.cells, width) for measure in grid.measures]
    if grid.pairs:
        blocks.append(_pairs("persona", grid.pairs, width))
    for name in dict.fromkeys(key[2] for key in grid.kept):
        blocks.append(_table(grid, name, grid.kept, width))
    if grid.facts:
        blocks.append(_pairs("generator", grid.facts, width))
    tail = [f"run: {run}"] if run else []
    tail += [fill(f"note: {note}", width, subsequent_indent="  ") for note in grid.notes]
    return "\n\n".join([*blocks, *(["\n".join(tail)] if tail else [])])


def reader_verdicts(grid: PersonaModelGrid) -> list[str]:
    """Return the best generator for each persona, and whether facts are lost."""
    verdicts = []
    if grid.silent:
        names = ", ".join(grid.silent)
        verdicts.append(
            f"Not compared: {names} gave no answer (see the notes). No generator is called the "
            "best until all have answered."
        )
    elif len(grid.generators) > 1:
        for persona in grid.personas:
            best = grid.best.get(persona)
            who = persona or _OWN
            verdicts.append(
                f"{who}: {best} is proven best by {grid.measures[0]}."
                if best
                else f"{who}: no generator is proven better than all others by {grid.measures[0]}."
            )
    for pair in grid.facts:
        c = pair.comparison
        if c.verdict == "no change proven" or c.difference is None:
            continue
        fewer = pair.b if c.difference < 0 else pair.a
        other = pair.a if c.difference < 0 else pair.b
        verdicts.append(
            f"Facts drop for {fewer}: {abs(c.difference):.3f} fewer of the gold facts than for "
            f"{other}, on the same questions ({pair.within or _OWN}): proven."
        )
    if grid.facts and not any(line.startswith("Facts") for line in verdicts):
        detectable = [p.comparison.smallest for p in grid.facts if p.comparison.smallest]
        from_ = (
            f"; differences of at least about {max(detectable):.3f} would be detected"
            if detectable
            else ""
        )
        verdicts.append(f"No loss of facts is proven for any persona{from_}.")
    return verdicts


def generators_json(grid: PersonaModelGrid, *, run: str = "") -> dict[str, Any]:
    """The document of ``diagnose --compare-models`` and ``--personas`` with ``--json``."""

    def table(cells: Mapping[tuple[str, str, str], Summary]) -> list[dict[str, Any]]:
        return [
            {"persona": who, "generator": model, **make_json(summary)}
            for (who, model, _), summary in cells.items()
        ]

    def pairs(comparisons: Sequence[GridComparison]) -> list[dict[str, Any]]:
        return [
            {"within": p.within, "a": p.a, "b": p.b, **make_json(p.comparison)} for p in comparisons
        ]

    return {
        "verdict": reader_verdicts(grid),
        "best": dict(grid.best),
        "cells": table(grid.cells),
        "pairs": pairs(grid.pairs),
        "kept": table(grid.kept),
        "facts": pairs(grid.facts),
        "notes": list(grid.notes),
        "run": run,
    }


def _table(
    grid: PersonaModelGrid,
    name: str,
    cells: Mapping[tuple[str, str, str], Summary],
    width: int,
) -> str:
    rows = [[name, *(model or _OWN for model in grid.generators)]]
    for persona in grid.personas:
        cells_of = [cells.get((persona, model, name)) for model in grid.generators]
        rows.append([persona or _OWN, *map(_cell, cells_of)])
    return text_table(rows, width=width)


def _cell(summary: Summary | None) -> str:
    if summary is None or summary.mean is None:
        return "-"
    return f"{number(summary.mean)} ({interval(summary.low, summary.high)}), n {summary.n}"


def _pairs(within: str, pairs: Sequence[GridComparison], width: int) -> str:
    rows = [[within, "a", "b", "b - a", "95 % interval", "p", "n", ""]]
    for pair in pairs:
        c = pair.comparison
        rows.append(
            [
                pair.within or _OWN,
                pair.a,
                pair.b,
                "-" if c.difference is None else f"{c.difference:+.4f}",
                interval(c.low, c.high),
                p_cell(c.p_holm),
                str(c.n),
                "" if c.verdict == "no change proven" else f"b {c.verdict}",
            ]
        )
    return f"{pairs[0].comparison.measure}, paired, p corrected for all pairs (Holm)\n" + (
        text_table(rows, right=(3, 5, 6), width=width)
    )
