"""Personas by generators, as text and JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from textwrap import fill
from typing import Any

from ..experiment import GridComparison, PersonaModelGrid
from ..measure import Summary
from ._text import WIDTH, interval, number, p_cell, text_table

_OWN = "(as configured)"


def generators_table(found: PersonaModelGrid, *, run: str = "", width: int = WIDTH) -> str:
    """Verdicts first, then persona by generator for each measure, pairs, and facts kept."""
    blocks = ["\n".join(fill(line, width) for line in reader_verdicts(found))]
    blocks += [_table(found, measure, found.cells, width) for measure in found.measures]
    if found.pairs:
        blocks.append(_pairs("persona", found.pairs, width))
    for name in dict.fromkeys(key[2] for key in found.kept):
        blocks.append(_table(found, name, found.kept, width))
    if found.facts:
        blocks.append(_pairs("generator", found.facts, width))
    tail = [f"run: {run}"] if run else []
    tail += [fill(f"note: {note}", width, subsequent_indent="  ") for note in found.notes]
    return "\n\n".join([*blocks, *(["\n".join(tail)] if tail else [])])


def reader_verdicts(found: PersonaModelGrid) -> list[str]:
    """The verdict: the best generator for each persona, and whether facts are lost."""
    said = []
    if found.silent:
        names = ", ".join(found.silent)
        said.append(
            f"Not compared: {names} gave no answer (see the notes). No generator is called the "
            "best until all have answered."
        )
    elif len(found.generators) > 1:
        for persona in found.personas:
            best = found.best.get(persona)
            who = persona or _OWN
            said.append(
                f"{who}: {best} is proven best by {found.measures[0]}."
                if best
                else f"{who}: no generator is proven better than all others by {found.measures[0]}."
            )
    for pair in found.facts:
        c = pair.comparison
        if c.verdict == "no change proven" or c.difference is None:
            continue
        fewer = pair.b if c.difference < 0 else pair.a
        other = pair.a if c.difference < 0 else pair.b
        said.append(
            f"Facts drop for {fewer}: {abs(c.difference):.3f} fewer of the gold facts than for "
            f"{other}, on the same questions ({pair.within or _OWN}): proven."
        )
    if found.facts and not any(line.startswith("Facts") for line in said):
        least = [p.comparison.smallest for p in found.facts if p.comparison.smallest]
        from_ = (
            f"; differences of at least about {max(least):.3f} would be detected" if least else ""
        )
        said.append(f"No loss of facts is proven for any persona{from_}.")
    return said


def generators_json(found: PersonaModelGrid, *, run: str = "") -> dict[str, Any]:
    """The document of ``diagnose --compare-models`` and ``--personas`` with ``--json``."""

    def table(cells: Mapping[tuple[str, str, str], Summary]) -> list[dict[str, Any]]:
        return [
            {"persona": who, "generator": model, **asdict(summary)}
            for (who, model, _), summary in cells.items()
        ]

    def pairs(of: Sequence[GridComparison]) -> list[dict[str, Any]]:
        return [{"within": p.within, "a": p.a, "b": p.b, **asdict(p.comparison)} for p in of]

    return {
        "verdict": reader_verdicts(found),
        "best": dict(found.best),
        "cells": table(found.cells),
        "pairs": pairs(found.pairs),
        "kept": table(found.kept),
        "facts": pairs(found.facts),
        "notes": list(found.notes),
        "run": run,
    }


def _table(
    found: PersonaModelGrid,
    name: str,
    cells: Mapping[tuple[str, str, str], Summary],
    width: int,
) -> str:
    rows = [[name, *(model or _OWN for model in found.generators)]]
    for persona in found.personas:
        cells_of = [cells.get((persona, model, name)) for model in found.generators]
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
