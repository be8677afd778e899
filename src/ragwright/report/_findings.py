"""Diagnoses, ablations, capability curves and personas as blocks, text and JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import product
from typing import Any

from ..core import Score, make_plain
from ..experiment import (
    LOST_RULE,
    RIGHT_RULE,
    Ablation,
    Curve,
    DiagnosedRow,
    Diagnosis,
    GridComparison,
    PartEffect,
    PartResult,
    PersonaModelGrid,
    RunDiagnosis,
)
from ..measure import Summary
from ._charts import bars, curve, intervals, whisker
from ._text import (
    WIDTH,
    Cells,
    ResultBlock,
    drop_empty_columns,
    fields_of,
    format_signed,
    interval,
    number,
    p_cell,
    print_result,
    share,
    shorten_list,
)

_TEXTS = (
    *("user_input", "reference", "response", "persona_name"),
    *("retrieved_contexts", "retrieved_context_ids"),
)
_INTERVAL = "95 % interval"

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


_ORACLE = (
    "oracle: points recovered with a perfect stage; own rows: the part of it on rows that this "
    "stage is the first to lose. p is corrected for all stages and measures (Holm)."
)


def diagnosis_blocks(diagnosis: Diagnosis) -> Iterator[ResultBlock]:
    """Yield the points of every stage, and first losses."""
    for at, measure in enumerate(dict.fromkeys(stage.measure for stage in diagnosis.points)):
        stages = [stage for stage in diagnosis.points if stage.measure == measure]
        rows = (
            (
                f"{stage.stage}, proven" if stage.proven else stage.stage,
                number(stage.plain),
                format_signed(stage.recovered.difference),
                interval(stage.recovered.low, stage.recovered.high),
                p_cell(stage.recovered.p_holm),
                format_signed(stage.first.difference),
                p_cell(stage.first.p_holm),
                str(stage.rows),
            )
            for stage in stages
        )
        points = [
            whisker(stage.stage, effect.difference, effect.low, effect.high)
            for stage, effect in ((stage, stage.recovered) for stage in stages)
            if effect.difference is not None
        ]
        yield ResultBlock(
            f"stages-{measure}",
            f"Points of {measure} recovered by each stage's oracle",
            "Each row run again with one stage made perfect. The interval is that of the paired "
            "difference.",
            ("stage", "without", "oracle", _INTERVAL, "p", "own rows", "p", "rows"),
            tuple(rows),
            intervals(points, x=f"points of {measure}"),
            remarks=() if at else (_ORACLE,),
        )
    yield _losses_block(diagnosis)
    for value, part in diagnosis.parts.items():
        yield _losses_block(part, value)


def _losses_block(diagnosis: Diagnosis | RunDiagnosis, part: str = "") -> ResultBlock:
    """Return how many rows each place loses first, and which; of a part of the rows, if named."""
    places = LOST if isinstance(diagnosis, Diagnosis) else _RUN_PLACES
    ids = [
        (row.lost, row.plain.row_id if isinstance(row, DiagnosedRow) else row.row_id)
        for row in diagnosis.rows
    ]
    found = {place: [name for lost, name in ids if lost == place] for place in places}
    lost = [(place, names) for place, names in found.items() if names]
    return ResultBlock(
        f"losses-{part}" if part else "losses",
        "\n".join([part, *diagnosis.verdict]) if part else "The first stage that loses each row",
        "Each row is counted once.",
        ("lost first", "rows", "place of the gold", "such as"),
        tuple(
            (place or "-", str(len(names)), places[place], shorten_list(names))
            for place, names in lost
        ),
        bars(
            [{"x": place or "nothing lost", "y": len(names)} for place, names in lost],
            x="stage",
            y="rows",
        ),
    )


def diagnosis_table(diagnosis: Diagnosis, *, run: str = "", width: int = WIDTH) -> str:
    """Return the verdict, points of every stage, and first losses."""
    sentences, blocks = (*diagnosis.verdict, f"rule: {LOST_RULE}"), diagnosis_blocks(diagnosis)
    return print_result(sentences, blocks, run=run, notes=diagnosis.notes, width=width)


def run_diagnosis_table(diagnosis: RunDiagnosis, *, width: int = WIDTH) -> str:
    """Return the verdict of a run's diagnosis, and the rows of each place by their ids."""
    blocks = [_losses_block(diagnosis)]
    blocks += [_losses_block(part, value) for value, part in diagnosis.parts.items()]
    sentences = (*diagnosis.verdict, f"rule: {RIGHT_RULE}")
    return print_result(sentences, blocks, run=diagnosis.run, notes=diagnosis.notes, width=width)


def diagnosis_json(diagnosis: Diagnosis, *, run: str = "") -> dict[str, Any]:
    """The document of ``diagnose --json``; every row with its oracles.

    ``{"verdict", "stage", "points": […], "losses", "rows": […], "parts", "notes",
    "run"}``; differences are improvements, whatever the measure's direction.
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
            }
            for row in diagnosis.rows
        ],
        "parts": {value: _outcome_json(part) for value, part in diagnosis.parts.items()},
        "notes": list(diagnosis.notes),
        "run": run,
    }


def _outcome_json(diagnosis: Diagnosis | RunDiagnosis) -> dict[str, Any]:
    losses = {lost or "none": count for lost, count in diagnosis.losses.items()}
    if isinstance(diagnosis, RunDiagnosis):
        verdict, stage = list(diagnosis.verdict), diagnosis.stage or None
        return {"verdict": verdict, "stage": stage, "losses": losses}
    names = ("stage", "measure", "plain", "recovered", "first", "rows")
    points = [fields_of(stage, *names, "proven") for stage in diagnosis.points]
    return {**fields_of(diagnosis, "verdict", "stage"), "points": points, "losses": losses}


def _scores_json(scores: Iterable[Score]) -> dict[str, Any]:
    return {
        score.measure: fields_of(score, "state", "value", "reason", "detail") for score in scores
    }


def run_diagnosis_json(diagnosis: RunDiagnosis) -> dict[str, Any]:
    """The document of ``diagnose --run --json``."""
    return {
        **_outcome_json(diagnosis),
        "rule": RIGHT_RULE,
        "rows": make_plain(diagnosis.rows),
        "parts": {value: _outcome_json(part) for value, part in diagnosis.parts.items()},
        **fields_of(diagnosis, "notes", "run"),
    }


def curve_block(at: int, measured: Curve) -> ResultBlock:
    """Return every dose of a curve with mean, interval, n and the closed-book control."""
    shares, lost = "share" in measured.dose_name, Counter[str]()
    points, rows = [], []
    control = any(point.above is not None for point in measured.points)
    for point in measured.points:
        lost.update(point.without)
        ends = interval(point.low, point.high)
        mean = (number(point.mean), ends, str(point.n), share(point.abstained))
        above = (
            number(point.closed_book),
            *(format_signed(point.above), interval(point.above_low, point.above_high)),
        )
        dose = f"{point.dose:.0%}" if shares else f"{point.dose:g}"
        rows.append((dose, *mean, *(above if control else ())))
        if point.mean is not None:
            points.append(
                {
                    "dose": point.dose,
                    "closed": point.closed_book,
                    **whisker("", point.mean, point.low, point.high),
                    "n": point.n,
                }
            )
    x, y = measured.dose_name, measured.quantity
    known = ", questions known without passages" if measured.among == "known" else ""
    remarks = [f"without a value: {', '.join(f'{k} {v}' for k, v in lost.items())}"] if lost else []
    if measured.change is not None:
        ends = interval(measured.change_low, measured.change_high)
        remarks.insert(0, f"from the first dose to the last: {measured.change:+.4f} ({ends})")
    heads = ("dose", "mean", _INTERVAL, "n", "abstained")
    return ResultBlock(
        f"curve-{at}-{measured.suite}",
        f"{measured.suite}: {y} ({measured.measure}) over {x}{known}",
        "Mean with its 95 % interval. A dashed line shows the same questions without passages.",
        (*heads, *(("closed book", "above it", _INTERVAL) if control else ())),
        tuple(rows),
        curve(points, x=x, y=y, share=shares),
        remarks=tuple(remarks),
    )


def curves_table(
    curves: Iterable[Curve], *, run: str = "", notes: Iterable[str] = (), width: int = WIDTH
) -> str:
    """Return :func:`curve_block` of each curve as text."""
    blocks = [curve_block(at, measured) for at, measured in enumerate(curves, 1)]
    return print_result((), blocks, run=run, notes=notes, width=width)


def curves_json(
    curves: Iterable[Curve], *, run: str = "", notes: Iterable[str] = ()
) -> dict[str, Any]:
    """The document of ``suite curves --json``: ``{"curves": [{"suite", …, "points"}], "run"}``."""
    return {"curves": make_plain(list(curves)), "run": run, "notes": list(notes)}


_OWN = "(as configured)"


def generators_table(grid: PersonaModelGrid, *, run: str = "", width: int = WIDTH) -> str:
    """Return verdicts, then persona by generator for each measure, pairs, and facts kept."""
    blocks = [
        *(_grid_block(grid, measure, grid.cells) for measure in grid.measures),
        *_pair_blocks("persona", grid.pairs),
        *(_grid_block(grid, name, grid.kept) for name in dict.fromkeys(k[2] for k in grid.kept)),
        *_pair_blocks("generator", grid.facts),
    ]
    return print_result(reader_verdicts(grid), blocks, run=run, notes=grid.notes, width=width)


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
            best, of = grid.best.get(persona), grid.measures[0]
            verdicts.append(
                f"{persona or _OWN}: {best} is proven best by {of}: set it as its model."
                if best
                else f"{persona or _OWN}: no generator is proven better than all others by {of}."
            )
    drops = [
        f"Facts drop for {pair.b if c.difference < 0 else pair.a}: {abs(c.difference):.3f} fewer "
        f"of the gold facts than for {pair.a if c.difference < 0 else pair.b}, on the same "
        f"questions ({pair.within or _OWN}): proven."
        for pair, c in ((pair, pair.comparison) for pair in grid.facts)
        if c.verdict != "no change proven" and c.difference is not None
    ]
    if grid.facts and not drops:
        least = max((pair.comparison.smallest or 0.0 for pair in grid.facts), default=0.0)
        seen = f"; differences of at least about {least:.3f} would be detected" if least else ""
        drops = [f"No loss of facts is proven for any persona{seen}."]
    return [*verdicts, *drops]


def generators_json(grid: PersonaModelGrid, *, run: str = "") -> dict[str, Any]:
    """The document of ``diagnose --compare-models`` and ``--personas`` with ``--json``."""
    tables = {
        name: [
            {"persona": who, "generator": model, **make_plain(summary)}
            for (who, model, _), summary in cells.items()
        ]
        for name, cells in (("cells", grid.cells), ("kept", grid.kept))
    }
    pairs = {
        name: [
            {**fields_of(p, "within", "a", "b"), **make_plain(p.comparison)} for p in comparisons
        ]
        for name, comparisons in (("pairs", grid.pairs), ("facts", grid.facts))
    }
    return {
        "verdict": reader_verdicts(grid),
        "best": dict(grid.best),
        "cells": tables["cells"],
        "pairs": pairs["pairs"],
        "kept": tables["kept"],
        "facts": pairs["facts"],
        "notes": list(grid.notes),
        "run": run,
    }


def _grid_block(
    grid: PersonaModelGrid, name: str, cells: Mapping[tuple[str, str, str], Summary]
) -> ResultBlock:
    rows = (
        (persona or _OWN, *(_mean_cell(cells.get((persona, m, name))) for m in grid.generators))
        for persona in grid.personas
    )
    head = (name, *(model or _OWN for model in grid.generators))
    return ResultBlock(f"grid-{name}", "", "", head, tuple(rows))


def _mean_cell(summary: Summary | None) -> str:
    if summary is None or summary.mean is None:
        return "-"
    return f"{number(summary.mean)} ({interval(summary.low, summary.high)}), n {summary.n}"


def _pair_blocks(within: str, pairs: Sequence[GridComparison]) -> Iterator[ResultBlock]:
    rows = (
        (
            *(pair.within or _OWN, pair.a, pair.b, format_signed(c.difference)),
            *(interval(c.low, c.high), p_cell(c.p_holm), str(c.n)),
            "" if c.verdict == "no change proven" else f"b {c.verdict}",
        )
        for pair, c in ((pair, pair.comparison) for pair in pairs)
    )
    if pairs:
        title = f"{pairs[0].comparison.measure}, paired, p corrected for all pairs (Holm)"
        head = (within, "a", "b", "b - a", _INTERVAL, "p", "n", "")
        yield ResultBlock(f"pairs-{within}", title, "", head, tuple(rows))


_DESIGNS = {
    "leave one out": "Parts left out one at a time: the complete prompt against the one without",
    "preset": "Presets: the complete prompt against the preset; above 0 the complete one is better",
}
"""Design of an ablation -> what its table compares."""

_LEGEND = (
    "effect: what the part adds; positive is better. p is corrected for all parts of a "
    "table (Holm), personas separately from all rows. loss up to: the most that deleting it may "
    "cost; safe if that is below the margin for every measure and persona. "
    "tokens: its length in a prompt, by the project's tokenizer."
)
_EFFECT_HEAD = (
    *("part", "persona", "with", "without", "effect", _INTERVAL, "p", "n", "loss up to", "tokens"),
    "",
)


def ablation_blocks(ablation: Ablation) -> Iterator[ResultBlock]:
    """Yield the effect of each part for every measure and design, and the confirm split."""
    measures = dict.fromkeys(effect.measure for part in ablation.parts for effect in part.effects)
    designs = dict.fromkeys(part.design for part in ablation.parts)
    for measure, design in product(measures, designs):
        effects = [
            (part, effect)
            for part in ablation.parts
            for effect in part.effects
            if part.design == design and effect.measure == measure
        ]
        points = [
            whisker(part.label, e.difference, e.low, e.high, e.persona or "all")
            for part, e in effects
            if e.difference is not None
        ]
        groups = tuple(dict.fromkeys(e.persona or "all" for _, e in effects))
        head, rows = drop_empty_columns(_EFFECT_HEAD, [_effect_cells(*pair) for pair in effects])
        yield ResultBlock(
            f"ablation-{measure}-{design.replace(' ', '-')}",
            f"What each part of the prompt does to {measure}",
            "Right of 0 the part helps; an interval that contains 0 proves nothing: the part may "
            "still be needed.",
            head,
            rows,
            intervals(points, x=f"effect on {measure}", groups=groups if len(groups) > 1 else ()),
            remarks=(f"{_DESIGNS[design]}.", _LEGEND),
        )
    tested = [part for part in (*ablation.parts, ablation.together) if part and part.confirmed]
    if ablation.openings:
        rows = tuple(
            (
                *(part.part, e.measure, e.persona or "all", format_signed(e.difference)),
                *(interval(e.low, e.high), number(e.loss), number(e.margin)),
                "within" if e.within else "not shown",
            )
            for part in tested
            for e in part.confirmed
        )
        title = f"The confirm split, {ablation.confirm_rows} held-out rows"
        head = ("deleted", "measure", "persona", "effect", _INTERVAL, "loss up to", "margin", "")
        yield ResultBlock("deleted", title, "", head, rows)


def _effect_cells(part: PartResult, effect: PartEffect) -> Cells:
    verdict: str = effect.verdict
    if part.safe and not effect.persona:
        verdict = part.state
    elif part.design == "preset" and verdict != "no effect proven":
        verdict = "worse than the complete prompt" if verdict == "helps" else "better"
    several = any(other.persona for other in part.effects)
    return (
        part.label,
        (effect.persona or "all") if several else "",
        *(number(effect.with_part), number(effect.without), format_signed(effect.difference)),
        *(interval(effect.low, effect.high), p_cell(effect.p_holm), str(effect.n)),
        number(effect.loss),
        "-" if part.tokens is None else f"{part.tokens:.4g}",
        verdict,
    )


def ablation_table(ablation: Ablation, *, run: str = "", width: int = 140) -> str:
    """Return the verdict, a table for every measure and design, and the confirm split.

    Lines are wide by default, since names of presets are long.
    """
    never = [f"not in the prompt of any row: {', '.join(ablation.never)}"] if ablation.never else []
    sentences, blocks = (*ablation.verdict, *never), ablation_blocks(ablation)
    return print_result(sentences, blocks, run=run, notes=ablation.notes, width=width)


def ablation_json(ablation: Ablation, *, run: str = "", sweep: str = "") -> dict[str, Any]:
    """The document of ``ablate --json``.

    ``{"verdict", "testset", "rows", "personas", "margin", "parts": [{"part", "design", "tokens",
    "safe", "holds", "state", "effects": […], "confirmed": […]}], "together", "openings",
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
        "trial": f"T{part.trial:03d}",
        **fields_of(part, "tokens", "safe", "holds", "state"),
        "effects": [fields_of(effect, *_EFFECT) for effect in part.effects],
        "confirmed": [fields_of(effect, *_EFFECT) for effect in part.confirmed],
    }
