"""The charts of a report: swept keys, cost, personas, effects, curves, diagnosis."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import product
from statistics import fmean
from typing import Any

from ..core import Score
from ..experiment import Ablation, Curve, Diagnosis, PartResult, RowResult
from ..measure import Comparison, Comparisons, Summary, aggregate
from ._ablation import HEADS
from ._baseline import distance_charts
from ._charts import (
    Chart,
    bars,
    curve,
    dots,
    front as front_spec,
    heat,
    heat_span,
    intervals,
    order_values,
    whisker,
)
from ._diagnosis import LOST
from ._headline import values_of
from ._subject import (
    FACT_NAMES,
    ColumnRelation,
    ScoredRun,
    Subject,
    format_interval,
    is_numeric,
    measure_relations,
    parameter_relations,
    value_text,
)
from ._text import (
    COMPARISON_HEAD,
    comparison_cells,
    format_signed,
    name_with_scale,
    number,
    p_cell,
    share,
)

_HEAT_KEYS = ("chunk.size", "retrieve.top_k")
_MOST_VALUES = 24
"""Most distinct values of a key in a chart."""

_FEW_VALUES = 6
"""Up to this number, distinct values are counted one by one."""


def setting_charts(subject: Subject) -> Iterator[Chart]:
    """Yield the Pareto front, the heat map of two keys, and the score against every swept key."""
    trials = subject.ranked(subject.boards[0]) if subject.boards else []
    if subject.kind != "study" or not subject.goals:
        return
    yield from _front_chart(subject, trials)
    swept = [entry for entry in trials if entry.values]
    keys = [key for key in subject.keys if not key.startswith("judge.")]
    goal = subject.goals[0].name
    yield from _heat_chart(subject, swept, keys, goal)
    for key in keys:
        yield from _key_chart(subject, swept, key, goal)
    facts = [entry for entry in trials if "context_tokens" in entry.facts]
    if len({entry.facts["context_tokens"] for entry in facts}) > 1 and goal != "context_tokens":
        placed = [
            (round(trial.facts["context_tokens"], 1), score, trial.id, values_of(trial))
            for trial in facts
            if (score := trial.value(goal)) is not None
        ]
        points = [dict(zip(("x", "y", "trial", "settings"), each, strict=True)) for each in placed]
        yield Chart(
            "context",
            f"{goal} against the length of the context",
            "Chunk size and top_k both change how much is read. If the points rise, larger chunks "
            "may only help by a longer context; fix retrieve.context_tokens to test this.",
            dots(points, x="context tokens", y=_entry_name(subject, goal)),
            ("trial", "settings", "context tokens", goal),
            tuple((name, settings, f"{x:g}", number(y)) for x, y, name, settings in placed),
        )


def relation_charts(subject: Subject) -> Iterator[Chart]:
    """Yield correlations of measures with swept keys, and of measures with each other."""
    relations = [relation for relation in parameter_relations(subject) if relation.rho is not None]
    if relations:
        yield _relation_chart(
            "keys-and-measures",
            "Correlation of settings and measures",
            "Spearman's rank correlation over the trials; names count as 1 where a trial has them. "
            "Correlation is not causation: chunk size and top_k both change the length of the "
            "context.",
            relations,
            "trials",
        )
    entry = subject.focus[-1] if subject.focus else None
    if entry is None or len(subject.measures) < 2:
        return
    rows = [{score.measure: score.value for score in row.scores} for row in entry.read(False)]
    columns = {name: [row.get(name) for row in rows] for name in subject.measures}
    pairs = [r for r in measure_relations(subject.measures, columns) if r.rho is not None]
    if pairs:
        yield _relation_chart(
            "measures",
            "Which measures agree",
            f"Spearman's rank correlation over the rows of {entry.label or entry.id}. Two measures "
            "with a high correlation count as one piece of evidence, not two.",
            pairs,
            "rows",
        )


def row_charts(subject: Subject, comparisons: Comparisons | None) -> Iterator[Chart]:
    """Yield charts of the rows of the entries in focus: differences, personas, histograms."""
    measures = () if comparisons is None else comparisons.measures
    if any(comparison.deciding.difference is not None for comparison in measures):
        yield _difference_chart(subject, measures)
    entries = [entry for entry in subject.focus if entry.rows]
    for entry in entries:
        yield from _persona_chart(subject, entry)
    if entries:
        yield from _histograms(subject, entries)


def _key_chart(
    subject: Subject, trials: Sequence[ScoredRun], key: str, goal: str
) -> Iterator[Chart]:
    pairs = [
        (trial, trial.values[key], score)
        for trial in trials
        if key in trial.values and (score := trial.value(goal)) is not None
    ]
    values = order_values(value for _, value, _ in pairs)
    numeric = is_numeric(values)
    if len(values) < 2 or (not numeric and len(values) > _MOST_VALUES):
        return
    shown: Callable[[Any], Any] = (lambda value: value) if numeric else value_text
    points = [
        {"x": shown(value), "y": score, "trial": trial.id, "settings": values_of(trial)}
        for trial, value, score in pairs
    ]
    means, rows = [], []
    others = [measure for measure in subject.measures if measure != goal]
    for name, value in ((value_text(value), value) for value in values):
        same = [(trial, score) for trial, at, score in pairs if value_text(at) == name]
        scores = [score for _, score in same]
        means.append({"x": shown(value), "y": fmean(scores), "n": len(scores)})
        cells = [number(fmean(scores)), number(min(scores)), number(max(scores)), str(len(scores))]
        for measure in others:
            known = [mean for trial, _ in same if (mean := trial.value(measure)) is not None]
            cells.append(number(fmean(known) if known else None))
        rows.append((name, *cells))
    yield Chart(
        f"key-{key.replace('.', '-')}",
        f"{goal} against {key}",
        "A dot is a trial; the orange marks are means over the trials with the same value.",
        dots(points, x=key, y=_entry_name(subject, goal), line=means, numeric=numeric),
        (key, f"mean {goal}", "lowest", "highest", "trials", *(f"mean {m}" for m in others)),
        tuple(rows),
    )


def _heat_chart(
    subject: Subject, trials: Sequence[ScoredRun], keys: Sequence[str], goal: str
) -> Iterator[Chart]:
    """Chunk size by top_k if both are swept, else the first two keys with few values."""
    values = {
        key: order_values(trial.values[key] for trial in trials if key in trial.values)
        for key in keys
    }
    fit = [key for key in keys if 2 <= len(values[key]) <= 12]
    if len(fit) < 2:
        return
    down, across = sorted(fit, key=(*_HEAT_KEYS, *fit).index)[:2]
    cells: dict[tuple[str, str], list[float]] = {}
    for trial in trials:
        score = trial.value(goal)
        if score is not None and down in trial.values and across in trial.values:
            at = value_text(trial.values[down]), value_text(trial.values[across])
            cells.setdefault(at, []).append(score)
    means = {at: fmean(scores) for at, scores in cells.items()}
    low, high = heat_span(subject.scale(goal), means.values())
    upward = subject.upward(goal)
    drawn, rows = [], []
    for y, x in product(map(value_text, values[down]), map(value_text, values[across])):
        if (y, x) in means:
            mean, count = means[y, x], len(cells[y, x])
            share = (mean - low) / (high - low)
            shade, tooltip = share if upward else 1 - share, f"{mean:.4f} over {count} trials"
            drawn.append({"x": x, "y": y, "shade": shade, "text": f"{mean:.3f}", "told": tooltip})
            rows.append((y, x, number(mean), str(count)))
    yield Chart(
        "heat",
        f"{goal} by {down} and {across}",
        f"The stronger the colour, the better; a cell is the mean over its trials. The colours run "
        f"from {low:.3f} to {high:.3f}: never over less than a tenth of the scale, so that small "
        "differences look small.",
        heat(drawn, x=across, y=down),
        (down, across, f"mean {goal}", "trials"),
        tuple(rows),
    )


def _front_chart(subject: Subject, trials: Sequence[ScoredRun]) -> Iterator[Chart]:
    goals = [goal.name for goal in subject.goals]
    costs = goals[1:] or [
        name
        for name in FACT_NAMES
        if name not in goals and len({trial.facts.get(name) for trial in trials}) > 1
    ]
    x, y = costs[0] if costs else "", goals[0]
    placed = [
        (trial, a, b)
        for trial in trials
        if costs and (a := trial.value(x)) is not None and (b := trial.value(y)) is not None
    ]
    if len(placed) < 2:
        return
    chosen = set(subject.boards[0].front) if len(goals) > 1 else set()
    x_up, y_up = subject.upward(x), subject.upward(y)
    signed = [
        (trial.id, round(a if x_up else -a, 6), round(b if y_up else -b, 6))
        for trial, a, b in placed
    ]
    best = chosen or {
        name
        for name, a, b in signed
        if not any(c >= a and d >= b and (c, d) != (a, b) for _, c, d in signed)
    }
    points, rows = [], []
    for trial, a, b in placed:
        front, current = trial.id in best, trial.id == subject.incumbent
        kind = "current settings" if current else "on the front" if front else "other trials"
        named = {"trial": trial.id, "settings": values_of(trial)}
        points.append({"x": a, "y": b, **named, "kind": kind, "front": front})
        if front or current:
            rows.append((*named.values(), number(b), f"{a:.4g}", kind))
    yield Chart(
        "pareto",
        f"{y} against {FACT_NAMES.get(x, x)}",
        "No trial is better on both axes than one on the line: choose among these.",
        front_spec(points, x=_entry_name(subject, x), y=_entry_name(subject, y)),
        ("trial", "settings", y, FACT_NAMES.get(x, x), ""),
        tuple(rows),
    )


def _relation_chart(
    name: str, title: str, note: str, relations: Sequence[ColumnRelation], over: str
) -> Chart:
    cells = [
        {
            "x": relation.second,
            "y": FACT_NAMES.get(relation.first, relation.first),
            "shade": relation.rho,
            "text": f"{relation.rho:+.2f}".replace("-0.00", "0.00").replace("+0.00", "0.00"),
            "told": f"{relation.rho:+.3f} over {relation.n} {over}",
        }
        for relation in relations
    ]
    return Chart(
        name,
        title,
        note,
        heat(cells, x="", y="", diverging=True),
        ("", "with", "Spearman's rho", over),
        tuple((r.first, r.second, f"{r.rho:+.3f}", str(r.n)) for r in relations),
        "relations",
    )


def _difference_chart(subject: Subject, comparisons: Sequence[Comparison]) -> Chart:
    points, rows = [], []
    for comparison in (measure.deciding for measure in comparisons):
        if comparison.difference is not None:
            name, *cells = comparison_cells(comparison, format_interval)
            points.append(whisker(name, comparison.difference, comparison.low, comparison.high))
            rows.append((name, *cells, comparison.verdict))
    first, second = subject.focus[0], subject.focus[-1]
    names = first.label or first.id, second.label or second.id
    against = "the current settings" if first.id == subject.incumbent else names[0]
    return Chart(
        "differences",
        f"{names[1]} against {against}, measure by measure",
        "Difference of the means on the rows both have, with its 95 % interval. An interval that "
        "contains 0 proves no change. An abstention on a row with gold counts as the worst value.",
        intervals(points, x="difference"),
        ("measure", *names, "difference", *COMPARISON_HEAD, "verdict"),
        tuple(rows),
        "rows",
    )


def _persona_chart(subject: Subject, entry: ScoredRun) -> Iterator[Chart]:
    parts = _group_by_persona(entry.read(True), subject.measures)
    if not parts.keys() - {""}:
        return
    cells, rows = [], []
    for persona, summary in ((name, s) for name, part in parts.items() for s in part):
        mean, low, high = summary.deciding
        if mean is not None:
            name, ends = persona or "(no persona)", format_interval(low, high)
            shade, tooltip = _shade(summary), f"{mean:.4f} ({ends}), n = {summary.n}"
            axes = {"x": summary.measure, "y": name}
            cells.append({**axes, "shade": shade, "text": f"{mean:.2f}", "told": tooltip})
            rows.append((name, summary.measure, number(mean), ends, str(summary.n)))
    yield Chart(
        f"personas-{entry.id}",
        f"Results per persona: {entry.label or entry.id}",
        "Mean of each measure per persona, abstentions on rows with gold counted as the worst "
        "value; the colour shows the position on the measure's "
        "scale.",
        heat(cells, x="", y=""),
        ("persona", "measure", "mean", "95 % interval", "n"),
        tuple(rows),
        "rows",
    )


def _histograms(subject: Subject, entries: Sequence[ScoredRun]) -> Iterator[Chart]:
    names = [entry.label or entry.id for entry in entries]
    for measure in subject.measures:
        counted = _count_values(entries, measure)
        values = list(dict.fromkeys(value for counts in counted for value in counts))
        if len(values) < 2 or set(values) <= {"0", "1"}:  # the mean says all of a 0/1 measure
            continue
        values.sort(key=lambda value: float(value.split(" ")[0]))
        drawn = [
            {"x": value, "y": counts.get(value, 0), "group": name}
            for value in values
            for name, counts in zip(names, counted, strict=True)
        ]
        table = [(value, *(str(counts.get(value, 0)) for counts in counted)) for value in values]
        named = _entry_name(subject, measure)
        yield Chart(
            f"histogram-{measure}",
            f"Distribution of {measure}",
            "Number of rows; rows without a score are not included.",
            bars(drawn, x=named, y="rows", groups=names if len(names) > 1 else ()),
            (named, *names),
            tuple(table),
            "rows",
        )


def _count_values(entries: Sequence[ScoredRun], measure: str) -> list[Mapping[str, int]]:
    """Rows by value for each entry: points of a judge's scale, else ten equal parts."""
    summaries = [entry.summary(measure) for entry in entries]
    if all(summary is not None and summary.histogram for summary in summaries):
        return [summary.histogram for summary in summaries if summary is not None]
    values = [
        [
            score.value
            for result in entry.read(False)
            for score in result.scores
            if score.measure == measure and score.value is not None
        ]
        for entry in entries
    ]
    distinct = sorted({round(value, 6) for side in values for value in side})
    if len(distinct) <= _FEW_VALUES:
        return [Counter(f"{value:.4g}" for value in side) for side in values]
    shares = distinct[0] >= 0 and distinct[-1] <= 1
    low, high = (0.0, 1.0) if shares else (distinct[0], distinct[-1])
    width = (high - low) / 10
    edges = [f"{low + width * at:.3g} –" for at in range(10)]
    binned = [Counter(min(9, int((v - low) / width + 1e-9)) for v in side) for side in values]
    return [{edge: counts[at] for at, edge in enumerate(edges)} for counts in binned]


def _group_by_persona(
    results: Iterable[RowResult], measures: Sequence[str]
) -> dict[str, list[Summary]]:
    scores: dict[str, dict[str, list[Score]]] = {}
    for result in results:
        persona = result.row.persona_name if result.row is not None else ""
        kept = scores.setdefault(persona, {})
        for score in result.scores:
            kept.setdefault(score.measure, []).append(score)
    return {
        persona: [aggregate(scores[persona][m]) for m in measures if m in scores[persona]]
        for persona in sorted(scores, key=lambda name: (not name, name))
    }


def _shade(summary: Summary) -> float:
    """The position of a mean on its scale: 0 the worst end, 1 the best."""
    scale, mean = summary.scale, summary.deciding[0]
    if scale is None or scale.high is None or mean is None or scale.high <= scale.low:
        return 0.3
    share = min(1.0, max(0.0, (mean - scale.low) / (scale.high - scale.low)))
    return share if scale.higher_is_better else 1 - share


def _entry_name(subject: Subject, name: str) -> str:
    return FACT_NAMES.get(name) or name_with_scale(name, subject.scale(name))


def finding_charts(subject: Subject) -> Iterator[Chart]:
    """Yield the charts of an ablation, of baselines, of capability suites and of a diagnosis."""
    if subject.ablation is not None:
        yield from _ablation(subject.ablation)
    if subject.baselines:
        yield from distance_charts(subject.baselines, subject.about)
    for at, measured in enumerate(subject.curves, 1):
        if any(point.mean is not None for point in measured.points):
            yield _curve(at, measured)
    if subject.diagnosis is not None:
        yield from _diagnosis(subject.diagnosis)


def _ablation(ablation: Ablation) -> Iterator[Chart]:
    """Yield a chart for every measure and design."""
    for measure in dict.fromkeys(
        effect.measure for part in ablation.parts for effect in part.effects
    ):
        for design in dict.fromkeys(part.design for part in ablation.parts):
            yield _effects(measure, design, [p for p in ablation.parts if p.design == design])


def _effects(measure: str, design: str, parts: Sequence[PartResult]) -> Chart:
    points, rows = [], []
    personas = dict.fromkeys(e.persona or "all" for part in parts for e in part.effects)
    for part, effect in ((p, e) for p in parts for e in p.effects if e.measure == measure):
        persona, low, high = effect.persona or "all", effect.low, effect.high
        cells = (format_signed(effect.difference), format_interval(low, high), str(effect.n))
        tokens = "" if part.tokens is None else f"{part.tokens:.4g}"
        verdict = part.state if part.safe and not effect.persona else effect.verdict
        rows.append((part.label, persona, *cells, tokens, verdict))
        if effect.difference is not None:
            points.append(whisker(part.label, effect.difference, low, high, persona))
    groups = tuple(personas) if len(personas) > 1 else ()
    return Chart(
        f"ablation-{measure}-{design.replace(' ', '-')}",
        f"What each part of the prompt does to {measure}",
        f"{HEADS.get(design, design)}. Right of 0 the part helps; an interval that contains 0 "
        "proves nothing: the part may still be needed.",
        intervals(points, x=f"effect on {measure}", groups=groups),
        ("part", "persona", "effect", "95 % interval", "n", "tokens", "verdict"),
        tuple(rows),
        "findings",
    )


def _curve(at: int, measured: Curve) -> Chart:
    shares = "share" in measured.dose_name
    points, rows = [], []
    for point in measured.points:
        dose = f"{point.dose:.0%}" if shares else f"{point.dose:g}"
        interval = format_interval(point.low, point.high)
        cells = (dose, number(point.mean), interval, str(point.n), share(point.abstained))
        rows.append((*cells, number(point.closed_book), format_signed(point.above)))
        if point.mean is not None:
            points.append(
                {
                    "dose": point.dose,
                    "mean": point.mean,
                    "low": point.mean if point.low is None else point.low,
                    "high": point.mean if point.high is None else point.high,
                    "closed": point.closed_book,
                    "told": interval,
                    "n": point.n,
                }
            )
    control = any(point["closed"] is not None for point in points)
    known = ", questions known without passages" if measured.among == "known" else ""
    change = ""
    if measured.change is not None:
        ends = format_interval(measured.change_low, measured.change_high)
        change = f" From the first dose to the last: {measured.change:+.4f} ({ends})."
    closed = " The dashed line shows the same questions without passages." if control else ""
    x, y = measured.dose_name, measured.quantity
    return Chart(
        f"curve-{at}-{measured.suite}",
        f"{measured.suite}: {y} over {x}{known}",
        f"Mean by {measured.measure} with its 95 % interval.{closed}{change}",
        curve(points, x=x, y=y, share=shares, control=control),
        (x, "mean", "95 % interval", "n", "abstained", "closed book", "above it"),
        tuple(rows),
        "findings",
    )


def _diagnosis(diagnosis: Diagnosis) -> Iterator[Chart]:
    counts = [(lost, count) for lost, count in diagnosis.losses.items() if count]
    if counts:
        drawn = [{"x": lost or "nothing lost", "y": n} for lost, n in counts]
        yield Chart(
            "losses",
            "The first stage that loses each row",
            "Each row is counted once.",
            bars(drawn, x="stage", y="rows"),
            ("lost first", "rows", "what became of the gold"),
            tuple((lost or "-", str(n), LOST.get(lost, "")) for lost, n in counts),
            "findings",
        )
    for measure in dict.fromkeys(stage.measure for stage in diagnosis.points):
        points, rows = [], []
        for stage in (stage for stage in diagnosis.points if stage.measure == measure):
            oracle = stage.recovered
            if oracle.difference is not None:
                points.append(whisker(stage.stage, oracle.difference, oracle.low, oracle.high))
            rows.append(
                (
                    stage.stage,
                    number(stage.plain),
                    format_signed(oracle.difference),
                    format_interval(oracle.low, oracle.high),
                    p_cell(oracle.p_holm),
                    format_signed(stage.first.difference),
                    str(stage.rows),
                    "proven" if stage.proven else "",
                )
            )
        yield Chart(
            f"stages-{measure}",
            f"Points of {measure} recovered by each stage's oracle",
            "Each row run again with one stage made perfect. The interval is that of the paired "
            "difference; p is corrected for all stages and measures (Holm).",
            intervals(points, x=f"points of {measure}"),
            ("stage", "without", "oracle", "95 % interval", "p", "own rows", "rows", ""),
            tuple(rows),
            "findings",
        )
