"""The charts of a report: swept keys, cost, personas, correlations."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from statistics import fmean
from typing import Any

from ..core import Score
from ..experiment import RowResult
from ..measure import Comparisons, Summary, aggregate
from ._charts import Chart, bars, dots, front, heat, heat_span, intervals, ordered_values, whisker
from ._headline import values_of
from ._relations import (
    Relation,
    between,
    is_numeric,
    measure_relations,
    parameter_relations,
    value_text,
)
from ._subject import FACT_NAMES, Entry, Subject
from ._text import number, p_cell, signed, with_scale

_HEAT_KEYS = ("chunk.size", "retrieve.top_k")
_MOST_VALUES = 24
"""Most distinct values of a key in a chart."""

_FEW_VALUES = 6
"""Up to this number, distinct values are counted one by one."""


def setting_charts(subject: Subject) -> Iterator[Chart]:
    """Score against every swept key, the heat map of two keys, the Pareto front."""
    trials = _ranked(subject)
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
        yield _context_chart(subject, facts, goal)


def relation_charts(subject: Subject) -> Iterator[Chart]:
    """Measures against swept keys over trials, and measures against each other over rows."""
    found = [one for one in parameter_relations(subject) if one.rho is not None]
    if found:
        yield _relation_chart(
            "keys-and-measures",
            "Correlation of settings and measures",
            "Spearman's rank correlation over the trials; names count as 1 where a trial has them. "
            "Correlation is not causation: chunk size and top_k both change the length of the "
            "context.",
            found,
            "trials",
        )
    entry = subject.focus[-1] if subject.focus else None
    if entry is None or len(subject.measures) < 2:
        return
    rows = list(entry.read(False))
    columns = {
        name: [
            next((score.value for score in row.scores if score.measure == name), None)
            for row in rows
        ]
        for name in subject.measures
    }
    pairs = [one for one in measure_relations(subject.measures, columns) if one.rho is not None]
    if pairs:
        yield _relation_chart(
            "measures",
            "Which measures agree",
            f"Spearman's rank correlation over the rows of {entry.label or entry.id}. Two measures "
            "with a high correlation count as one piece of evidence, not two.",
            pairs,
            "rows",
        )


def row_charts(subject: Subject, found: Comparisons | None) -> Iterator[Chart]:
    """Charts of the rows of the entries in focus: differences, personas, histograms."""
    if found is not None and any(one.deciding.difference is not None for one in found.measures):
        yield _difference_chart(subject, found)
    entries = [entry for entry in subject.focus if entry.rows]
    if not entries:
        return
    yield from _persona_charts(subject, entries)
    yield from _histograms(subject, entries)


def _ranked(subject: Subject) -> list[Entry]:
    """Entries of the first board, best first."""
    return subject.ranked(subject.boards[0]) if subject.boards else []


def _key_chart(subject: Subject, trials: Sequence[Entry], key: str, goal: str) -> Iterator[Chart]:
    pairs = [
        (trial, trial.values[key], value)
        for trial in trials
        if key in trial.values and (value := trial.value(goal)) is not None
    ]
    values = ordered_values(value for _, value, _ in pairs)
    numeric = is_numeric(values)
    if len(values) < 2 or (not numeric and len(values) > _MOST_VALUES):
        return
    shown: Callable[[Any], Any] = (lambda value: value) if numeric else value_text
    points = [
        {"x": shown(at), "y": value, "trial": trial.id, "settings": values_of(trial)}
        for trial, at, value in pairs
    ]
    means = []
    rows = []
    others = [measure for measure in subject.measures if measure != goal]
    for value in values:
        mine = [(one, y) for one, at, y in pairs if value_text(at) == value_text(value)]
        found = [y for _, y in mine]
        means.append({"x": shown(value), "y": fmean(found), "n": len(found)})
        cells = [number(fmean(found)), number(min(found)), number(max(found)), str(len(found))]
        for measure in others:
            known = [v for one, _ in mine if (v := one.value(measure)) is not None]
            cells.append(number(fmean(known) if known else None))
        rows.append((value_text(value), *cells))
    yield Chart(
        f"key-{key.replace('.', '-')}",
        f"{goal} against {key}",
        "A dot is a trial; the orange marks are means over the trials with the same value.",
        dots(points, x=key, y=_named(subject, goal), line=means, numeric=numeric),
        (key, f"mean {goal}", "lowest", "highest", "trials", *(f"mean {m}" for m in others)),
        tuple(rows),
    )


def _heat_chart(
    subject: Subject, trials: Sequence[Entry], keys: Sequence[str], goal: str
) -> Iterator[Chart]:
    """Chunk size by top_k if both are swept, else the first two keys with few values."""
    values = {
        key: ordered_values(trial.values[key] for trial in trials if key in trial.values)
        for key in keys
    }
    fit = [key for key in keys if 2 <= len(values[key]) <= 12]
    chosen = [key for key in _HEAT_KEYS if key in fit]
    chosen += [key for key in fit if key not in chosen]
    if len(chosen) < 2:
        return
    down, across = chosen[:2]
    cells: dict[tuple[str, str], list[float]] = {}
    for trial in trials:
        value = trial.value(goal)
        if value is not None and down in trial.values and across in trial.values:
            at = value_text(trial.values[down]), value_text(trial.values[across])
            cells.setdefault(at, []).append(value)
    means = {at: fmean(found) for at, found in cells.items()}
    low, high = heat_span(subject.scale(goal), means.values())
    upward = subject.upward(goal)
    drawn, rows = [], []
    for y in map(value_text, values[down]):
        for x in map(value_text, values[across]):
            if (y, x) not in means:
                continue
            mean = means[y, x]
            share = (mean - low) / (high - low)
            told = f"{mean:.4f} over {len(cells[y, x])} trials"
            shade = share if upward else 1 - share
            drawn.append({"x": x, "y": y, "shade": shade, "text": f"{mean:.3f}", "told": told})
            rows.append((y, x, number(mean), str(len(cells[y, x]))))
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


def _front_chart(subject: Subject, trials: Sequence[Entry]) -> Iterator[Chart]:
    goals = [goal.name for goal in subject.goals]
    costs = goals[1:] or [
        name
        for name in ("cost", "seconds", "context_tokens")
        if name not in goals and len({trial.facts.get(name) for trial in trials}) > 1
    ]
    if not costs:
        return
    x, y = costs[0], goals[0]
    placed = []
    for trial in trials:
        a, b = trial.value(x), trial.value(y)
        if a is not None and b is not None:
            placed.append((trial, a, b))
    if len(placed) < 2:
        return
    chosen = set(subject.boards[0].front) if len(goals) > 1 else set()
    best = chosen or _front(placed, subject.upward(x), subject.upward(y))
    points, rows = [], []
    for trial, a, b in placed:
        on = trial.id in best
        as_is = trial.id == subject.incumbent
        kind = "current settings" if as_is else "on the front" if on else "other trials"
        points.append(
            {
                "x": a,
                "y": b,
                "trial": trial.id,
                "settings": values_of(trial),
                "kind": kind,
                "front": on,
            }
        )
        if on or as_is:
            rows.append((trial.id, values_of(trial), number(b), f"{a:.4g}", kind))
    yield Chart(
        "pareto",
        f"{y} against {FACT_NAMES.get(x, x)}",
        "No trial is better on both axes than one on the line: choose among these.",
        front(points, x=_named(subject, x), y=_named(subject, y)),
        ("trial", "settings", y, FACT_NAMES.get(x, x), ""),
        tuple(rows),
    )


def _front(placed: Sequence[tuple[Entry, float, float]], x_up: bool, y_up: bool) -> set[str]:
    """Ids of trials on the Pareto front of two objectives."""
    signed = [
        (trial.id, round(a if x_up else -a, 6), round(b if y_up else -b, 6))
        for trial, a, b in placed
    ]
    return {
        name
        for name, a, b in signed
        if not any(c >= a and d >= b and (c, d) != (a, b) for _, c, d in signed)
    }


def _context_chart(subject: Subject, trials: Sequence[Entry], goal: str) -> Chart:
    points, rows = [], []
    for trial in trials:
        value = trial.value(goal)
        if value is None:
            continue
        tokens = round(trial.facts["context_tokens"], 1)
        points.append({"x": tokens, "y": value, "trial": trial.id, "settings": values_of(trial)})
        rows.append((trial.id, values_of(trial), f"{tokens:g}", number(value)))
    return Chart(
        "context",
        f"{goal} against the length of the context",
        "Chunk size and top_k both change how much is read. If the points rise, larger chunks "
        "may only help by a longer context; fix retrieve.context_tokens to test this.",
        dots(points, x="context tokens", y=_named(subject, goal)),
        ("trial", "settings", "context tokens", goal),
        tuple(rows),
    )


def _relation_chart(
    name: str, title: str, note: str, found: Sequence[Relation], over: str
) -> Chart:
    cells = [
        {
            "x": one.second,
            "y": FACT_NAMES.get(one.first, one.first),
            "shade": one.rho,
            "text": f"{one.rho:+.2f}".replace("-0.00", "0.00").replace("+0.00", "0.00"),
            "told": f"{one.rho:+.3f} over {one.n} {over}",
        }
        for one in found
    ]
    rows = tuple((one.first, one.second, f"{one.rho:+.3f}", str(one.n)) for one in found)
    return Chart(
        name,
        title,
        note,
        heat(cells, x="", y="", diverging=True),
        ("", "with", "Spearman's rho", over),
        rows,
        "relations",
    )


def _difference_chart(subject: Subject, found: Comparisons) -> Chart:
    points, rows = [], []
    for one in (comparison.deciding for comparison in found.measures):
        if one.difference is None:
            continue
        named = with_scale(one.measure, one.scale, one.counted)
        points.append(whisker(named, one.difference, one.low, one.high))
        rows.append(
            (
                named,
                number(one.mean_a),
                number(one.mean_b),
                signed(one.difference),
                between(one.low, one.high),
                p_cell(one.p_holm),
                f"{one.wins}/{one.ties}/{one.losses}",
                str(one.n),
                one.verdict,
            )
        )
    first, second = subject.focus[0], subject.focus[-1]
    stands = first.id == subject.incumbent
    against = "the current settings" if stands else first.label or first.id
    return Chart(
        "differences",
        f"{second.label or second.id} against {against}, measure by measure",
        "Difference of the means on the rows both have, with its 95 % interval. An interval that "
        "contains 0 proves no change. An abstention on a row with gold counts as the worst value.",
        intervals(points, x="difference"),
        (
            "measure",
            first.label or first.id,
            second.label or second.id,
            "difference",
            "95 % interval",
            "p (Holm)",
            "wins/ties/losses",
            "n",
            "verdict",
        ),
        tuple(rows),
        "rows",
    )


def _persona_charts(subject: Subject, entries: Sequence[Entry]) -> Iterator[Chart]:
    for entry in entries:
        parts = _by_persona(entry.read(True), subject.measures)
        if not parts.keys() - {""}:
            continue
        cells, rows = [], []
        for persona, summaries in parts.items():
            named = persona or "(no persona)"
            for one in summaries:
                mean, low, high = one.deciding
                if mean is None:
                    continue
                shade = _shade(subject, one)
                told = f"{mean:.4f} ({between(low, high)}), n = {one.n}"
                text = f"{mean:.2f}"
                cells.append(
                    {"x": one.measure, "y": named, "shade": shade, "text": text, "told": told}
                )
                told = between(low, high)
                rows.append((named, one.measure, number(mean), told, str(one.n)))
        name = entry.label or entry.id
        yield Chart(
            f"personas-{entry.id}",
            f"Results per persona: {name}",
            "Mean of each measure per persona, abstentions on rows with gold counted as the worst "
            "value; the colour shows the position on the measure's "
            "scale.",
            heat(cells, x="", y=""),
            ("persona", "measure", "mean", "95 % interval", "n"),
            tuple(rows),
            "rows",
        )


def _histograms(subject: Subject, entries: Sequence[Entry]) -> Iterator[Chart]:
    names = [entry.label or entry.id for entry in entries]
    for measure in subject.measures:
        counted = _counted(entries, measure)
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
        named = _named(subject, measure)
        yield Chart(
            f"histogram-{measure}",
            f"Distribution of {measure}",
            "Number of rows; rows without a score are not included.",
            bars(drawn, x=named, y="rows", groups=names if len(names) > 1 else ()),
            (named, *names),
            tuple(table),
            "rows",
        )


def _counted(entries: Sequence[Entry], measure: str) -> list[Mapping[str, int]]:
    """Rows by value for each entry: points of a judge's scale, else ten equal parts."""
    found = [entry.summary(measure) for entry in entries]
    if all(summary is not None and summary.histogram for summary in found):
        return [summary.histogram for summary in found if summary is not None]
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
    binned: list[Mapping[str, int]] = []
    for side in values:
        counts = dict.fromkeys(edges, 0)
        for value in side:
            counts[edges[min(9, int((value - low) / width + 1e-9))]] += 1
        binned.append(counts)
    return binned


def _by_persona(
    results: Iterator[RowResult] | Any, measures: Sequence[str]
) -> dict[str, list[Summary]]:
    rows: dict[str, dict[str, list[Score]]] = {}
    for result in results:
        persona = result.row.persona_name if result.row is not None else ""
        kept = rows.setdefault(persona, {})
        for score in result.scores:
            kept.setdefault(score.measure, []).append(score)
    return {
        persona: [aggregate(rows[persona][m]) for m in measures if m in rows[persona]]
        for persona in sorted(rows, key=lambda name: (not name, name))
    }


def _shade(subject: Subject, one: Summary) -> float:
    scale, mean = one.scale, one.deciding[0]
    if scale is None or scale.high is None or mean is None or scale.high <= scale.low:
        return 0.3
    share = (mean - scale.low) / (scale.high - scale.low)
    share = min(1.0, max(0.0, share))
    return share if scale.higher_is_better else 1 - share


def _named(subject: Subject, name: str) -> str:
    return FACT_NAMES.get(name) or with_scale(name, subject.scale(name))
