"""Diagnoses, capability curves and persona tables as text and JSON."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from textwrap import fill
from typing import Any

from ..core import ConfigError, Score
from ..experiment import (
    LOST_RULE,
    RIGHT_RULE,
    Curve,
    DiagnosedRow,
    Diagnosis,
    GoldPlace,
    GridComparison,
    PersonaModelGrid,
    RunDiagnosis,
    StagePoints,
)
from ..measure import Comparisons, Summary
from ._text import (
    WIDTH,
    comparison_json,
    fields_of,
    format_signed,
    interval,
    make_json,
    number,
    p_cell,
    share,
    text_table,
)

_SHOWN = 5
_CHARACTERS = 300
_TEXTS = (
    "user_input",
    "reference",
    "response",
    "persona_name",
    "retrieved_contexts",
    "retrieved_context_ids",
)


LOST = {
    "index": "no chunk holds the gold",
    "route": "not answered from the index",
    "filter": "excluded by filters",
    "retrieve": "not among the candidates",
    "rerank": "pushed down by the reranker",
    "truncate": "cut: top_k, selection, context",
    "generate": "in the context, wrong answer",
    "judge": "right answer, judged low",
    "": "nothing lost",
}
"""Description of the place where a row is first lost."""

_RUN_PLACES = {
    "retrieve": "in retrieval: no gold among the passages",
    "generate": "in answering: gold among the passages, wrong answer",
    "errored": "the system failed",
    "unknown": "cannot be placed",
    "": "nothing: the answer is right",
}


def diagnosis_table(diagnosis: Diagnosis, *, run: str = "", width: int = WIDTH) -> str:
    """Return the verdict, points of every stage, first losses, and the effect of the passages."""
    blocks = ["\n".join(fill(line, width) for line in diagnosis.verdict)]
    if diagnosis.points:
        blocks.append(_points_table(diagnosis.points, width))
    blocks.append(_losses_table(diagnosis, width))
    if diagnosis.context is not None:
        blocks.append(_context_text(diagnosis.context, diagnosis.known, width))
    for value, part in diagnosis.parts.items():
        blocks.append("\n".join([value, *part.verdict, _losses_table(part, width)]))
    tail = [fill(f"rule: {LOST_RULE}", width, subsequent_indent="  ")]
    tail += [f"run: {run}"] if run else []
    tail += [fill(f"note: {note}", width, subsequent_indent="  ") for note in diagnosis.notes]
    return "\n\n".join([*blocks, *(["\n".join(tail)] if tail else [])])


def write_lost_rows(diagnosis: Diagnosis, lost: str) -> str:
    """Return the rows first lost at one place: question, gold, answer, and ranks of the gold."""
    lost = _place_named(lost, LOST)
    rows = [row for row in diagnosis.rows if row.lost == lost]
    head = f"{len(rows)} of {len(diagnosis.rows)} rows: {LOST.get(lost, lost)}"
    return "\n\n".join([head, *map(_row_text, rows)])


def write_lost_run_rows(diagnosis: RunDiagnosis, lost: str) -> str:
    """Return the rows of a run lost at one place: question, gold and answer."""
    lost = _place_named(lost, _RUN_PLACES)
    rows = [row for row in diagnosis.rows if row.lost == lost]
    blocks = [f"{len(rows)} of {len(diagnosis.rows)} rows: {_RUN_PLACES[lost]}"]
    for row in rows:
        lines = [f"{row.row_id}: {row.user_input}", f"  gold: {_cut(row.reference or '(none)')}"]
        lines.append(f"  answer: {_cut(row.response or '(none)')}")
        blocks.append("\n".join([*lines, *([f"  {row.reason}"] if row.reason else [])]))
    return "\n\n".join(blocks)


def _place_named(name: str, places: Mapping[str, str]) -> str:
    """Return the place that a word of ``--rows`` names; ``none`` means that nothing is lost.

    Raises:
        ConfigError: It is not a place.
    """
    if name in places or name == "none":
        return "" if name == "none" else name
    known = ", ".join(place or "none" for place in places)
    raise ConfigError(f"no row can be lost at {name!r}", where="--rows", hint=f"one of: {known}")


def diagnosis_json(diagnosis: Diagnosis, *, run: str = "") -> dict[str, Any]:
    """The document of ``diagnose --json``; every row with its oracles.

    ``{"verdict", "stage", "points": […], "losses", "rows": […], "context", "known", "parts",
    "notes", "run"}``; differences are improvements, whatever the measure's direction.
    """
    return {
        **_outcome_json(diagnosis),
        "rule": LOST_RULE,
        "rows": [
            {
                "id": row.plain.row_id,
                "lost": row.lost or "none",
                **({} if row.plain.row is None else fields_of(row.plain.row, *_TEXTS)),
                **fields_of(row, "right", "gold"),
                "scores": _scores_json(row.plain.scores),
                "oracles": {stage: _scores_json(scores) for stage, scores in row.oracles.items()},
                "closed_book": _scores_json(row.closed_book),
                "known": row.known,
            }
            for row in diagnosis.rows
        ],
        "context": None if diagnosis.context is None else comparison_json(diagnosis.context),
        "known": make_json(diagnosis.known),
        "parts": {value: _outcome_json(part) for value, part in diagnosis.parts.items()},
        "notes": list(diagnosis.notes),
        "run": run,
    }


def _outcome_json(diagnosis: Diagnosis) -> dict[str, Any]:
    points = ("stage", "measure", "plain", "recovered", "first", "rows")
    beyond = ("beyond", "beyond_rows", "proven")
    return {
        **fields_of(diagnosis, "verdict", "stage"),
        "points": [fields_of(stage, *points, *beyond) for stage in diagnosis.points],
        "losses": {lost or "none": count for lost, count in diagnosis.losses.items()},
    }


def run_diagnosis_table(diagnosis: RunDiagnosis, *, width: int = WIDTH) -> str:
    """Return the verdict of a run's diagnosis, and the rows of each place by their ids."""
    blocks = [
        "\n".join(fill(line, width) for line in diagnosis.verdict),
        _run_places(diagnosis, width),
    ]
    for value, part in diagnosis.parts.items():
        blocks.append("\n".join([value, *part.verdict, _run_places(part, width)]))
    tail = [fill(f"rule: {RIGHT_RULE}", width, subsequent_indent="  "), f"run: {diagnosis.run}"]
    tail += [fill(f"note: {note}", width) for note in diagnosis.notes]
    return "\n\n".join([*blocks, "\n".join(tail)])


def _run_places(diagnosis: RunDiagnosis, width: int) -> str:
    rows = [["lost", "rows", "which"]]
    for place, words in _RUN_PLACES.items():
        ids = [row.row_id for row in diagnosis.rows if row.lost == place]
        if ids:
            more = f" and {len(ids) - _SHOWN} more" if len(ids) > _SHOWN else ""
            rows.append([words, str(len(ids)), ", ".join(ids[:_SHOWN]) + more])
    return text_table(rows, right=(1,), width=width)


def run_diagnosis_json(diagnosis: RunDiagnosis) -> dict[str, Any]:
    """The document of ``diagnose --run --json``."""
    return {
        **_run_outcome_json(diagnosis),
        "rule": RIGHT_RULE,
        "rows": make_json(diagnosis.rows),
        "parts": {value: _run_outcome_json(part) for value, part in diagnosis.parts.items()},
        **fields_of(diagnosis, "notes", "run"),
    }


def _run_outcome_json(diagnosis: RunDiagnosis) -> dict[str, Any]:
    losses = {place or "none": count for place, count in diagnosis.losses.items()}
    return {"verdict": list(diagnosis.verdict), "stage": diagnosis.stage or None, "losses": losses}


def _points_table(points: Sequence[StagePoints], width: int) -> str:
    """A line for every stage and measure that its oracle changes."""
    rows = [["stage", "measure", "without", "oracle", "95 % interval", "p", "own rows", "p", ""]]
    moving = [stage for stage in points if stage.recovered.wins or stage.recovered.losses]
    for stage in moving:
        whole, first = stage.recovered, stage.first
        rows.append(
            [
                stage.stage,
                stage.measure,
                number(stage.plain),
                format_signed(whole.difference),
                interval(whole.low, whole.high),
                p_cell(whole.p_holm),
                format_signed(first.difference),
                p_cell(first.p_holm),
                "proven" if stage.proven else "",
            ]
        )
    lines = []
    if moving:
        lines = [
            text_table(rows, right=(2, 3, 5, 6, 7), width=width),
            "oracle: points recovered with a perfect stage; own rows: the part of it on rows that",
            "this stage is the first to lose. p is corrected for all stages and measures (Holm).",
        ]
    changed = {stage.stage for stage in moving}
    still = [s for s in dict.fromkeys(stage.stage for stage in points) if s not in changed]
    if still:
        lines.append(f"a perfect stage changes nothing: {', '.join(still)}")
    return "\n".join(lines)


def _losses_table(diagnosis: Diagnosis, width: int) -> str:
    rows = [["lost first", "rows", "place of the gold", "such as"]]
    for lost, count in diagnosis.losses.items():
        ids = [row.plain.row_id for row in diagnosis.rows if row.lost == lost]
        more = f" and {len(ids) - _SHOWN} more" if len(ids) > _SHOWN else ""
        rows.append([lost or "-", str(count), LOST[lost], ", ".join(ids[:_SHOWN]) + more])
    return text_table(rows, right=(1,), width=width)


def _context_text(context: Comparisons, known: Summary | None, width: int) -> str:
    rows = [["measure", "closed book", "with passages", "effect", "95 % interval", "p"]]
    rows += [
        [
            c.measure,
            number(c.mean_a),
            number(c.mean_b),
            format_signed(c.difference),
            interval(c.low, c.high),
            p_cell(c.p_holm),
        ]
        for c in context.measures
    ]
    lines = [text_table(rows, right=(1, 2, 3, 5), width=width)]
    if known is not None and known.mean is not None:
        span = "" if known.low is None else f" ({interval(known.low, known.high)})"
        lines.append(f"right without passages: {known.mean:.1%} of {known.n} rows{span}")
    return "\n".join(lines)


def _row_text(row: DiagnosedRow) -> str:
    kept = row.plain.row
    lines = [f"{row.plain.row_id}: {'' if kept is None else kept.user_input}"]
    if kept is not None:
        lines.append(f"  gold: {_cut(kept.reference or '(none)')}")
        lines.append(f"  answer: {_cut(kept.response or '')}")
    for place in row.gold:
        where = "" if place.start is None else f" {place.start}-{place.end}"
        lines.append(f"  {place.document_id}{where}: {_came(place)}")
    lines += [f"  {_scores_text(score)}" for score in row.plain.scores]
    return "\n".join(lines)


def _came(place: GoldPlace) -> str:
    if not place.indexed:
        return "in no chunk of the index"
    ranks = {
        "found at": place.found,
        "after reranking at": place.ordered,
        "in the context at": place.shown,
    }
    texts = [f"{name} {'-' if rank is None else rank}" for name, rank in ranks.items()]
    return ", ".join([*([] if place.reachable else ["barred by a filter"]), *texts])


def _scores_text(score: Score) -> str:
    if score.value is None:
        return f"{score.measure}: {score.state}, {score.reason}"
    detail = f" ({_cut(score.detail)})" if score.detail else ""
    return f"{score.measure}: {score.value:.4g}{detail}"


def _scores_json(scores: Iterable[Score]) -> dict[str, Any]:
    return {
        score.measure: fields_of(score, "state", "value", "reason", "detail") for score in scores
    }


def _cut(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _CHARACTERS else f"{line[:_CHARACTERS]} …"


def curves_table(curves: Iterable[Curve], *, notes: Iterable[str] = (), width: int = WIDTH) -> str:
    """Return a block per curve: every dose with mean, interval, n and the closed-book control."""
    blocks = [_block(curve, width) for curve in curves]
    return "\n\n".join([*blocks, *(f"note: {note}" for note in notes)])


def curves_json(
    curves: Iterable[Curve], *, run: str = "", notes: Iterable[str] = ()
) -> dict[str, Any]:
    """The document of ``suite curves --json``: ``{"curves": [{"suite", …, "points"}], "run"}``."""
    return {
        "curves": make_json(list(curves)),
        "run": run,
        "notes": list(notes),
    }


def _block(curve: Curve, width: int) -> str:
    controlled = any(point.above is not None for point in curve.points)
    shares = "share" in curve.dose_name
    head = ["dose", "mean", "95 % interval", "n", "abstained"]
    rows = [head + (["closed book", "above it", "95 % interval"] if controlled else [])]
    lost: Counter[str] = Counter()
    for point in curve.points:
        lost.update(point.without)
        dose = f"{point.dose:.0%}" if shares else f"{point.dose:g}"
        ends = interval(point.low, point.high)
        cells = [dose, number(point.mean), ends, str(point.n), share(point.abstained)]
        above = [format_signed(point.above), interval(point.above_low, point.above_high)]
        rows.append([*cells, *([number(point.closed_book), *above] if controlled else [])])
    known = ", questions known without passages" if curve.among == "known" else ""
    title = f"{curve.suite}: {curve.quantity} ({curve.measure}) over {curve.dose_name}{known}"
    lines = [
        *textwrap.wrap(title, 100, subsequent_indent="  "),
        text_table(rows, right=(0, 1, 3, 4, 5, 6), width=width),
    ]
    if curve.change is not None:
        ends = f"{interval(curve.change_low, curve.change_high)}"
        lines.append(f"from the first dose to the last: {curve.change:+.4f} ({ends})")
    if lost:
        lines.append("without a value: " + ", ".join(f"{k} {v}" for k, v in lost.items()))
    return "\n".join(lines)


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
                f"{who}: {best} is proven best by {grid.measures[0]}: set it as its model."
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
