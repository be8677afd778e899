"""The charts of a report: swept keys, personas, differences, histograms, findings."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import product
from statistics import fmean

from ..core import Score
from ..experiment import RowResult
from ..measure import Comparisons, Summary, aggregate
from ._baseline import distance_charts
from ._charts import bars, dots, heat, order_values
from ._findings import ablation_blocks, curve_block, diagnosis_blocks
from ._headline import values_of
from ._results import comparison_block
from ._subject import FACT_NAMES, ScoredRun, Subject, parameter_relations
from ._text import ResultBlock, interval, is_numeric, name_with_scale, number, value_text

_HEAT_KEYS = ("chunk.size", "retrieve.top_k")
_MOST_VALUES = 24
"""Most distinct values of a key in a chart."""


def setting_charts(subject: Subject) -> Iterator[ResultBlock]:
    """Yield the heat map of two keys, and the score against every swept key."""
    if subject.kind != "study":
        return
    trials = subject.ranked(subject.boards[0]) if subject.boards else []
    goal = subject.goal
    swept = [entry for entry in trials if entry.values]
    keys = [key for key in subject.keys if not key.startswith("judge.")]
    yield from _heat_chart(subject, swept, keys, goal)
    for key in keys:
        yield from _key_chart(subject, swept, key, goal)


def relation_charts(subject: Subject) -> Iterator[ResultBlock]:
    """Yield correlations of measures and facts with swept keys."""
    relations = [(r, r.rho) for r in parameter_relations(subject) if r.rho is not None]
    if relations:
        cells = [
            {
                "x": relation.second,
                "y": FACT_NAMES.get(relation.first, relation.first),
                "shade": rho,
                "text": f"{rho:+.2f}".replace("-0.00", "0.00").replace("+0.00", "0.00"),
                "told": f"{rho:+.3f} over {relation.n} trials",
            }
            for relation, rho in relations
        ]
        yield ResultBlock(
            "keys-and-measures",
            "Correlation of settings and measures",
            "Spearman's rank correlation over the trials; names count as 1 where a trial has them. "
            "Correlation is not causation: chunk size and top_k both change the length of the "
            "context.",
            ("", "with", "Spearman's rho", "trials"),
            tuple((r.first, r.second, f"{rho:+.3f}", str(r.n)) for r, rho in relations),
            heat(cells, x="", y="", diverging=True),
            "relations",
        )


def row_charts(subject: Subject, comparisons: Comparisons | None) -> Iterator[ResultBlock]:
    """Yield charts of the rows of the entries in focus: differences, personas, histograms."""
    first, second = subject.focus[:1], subject.focus[-1:]
    if comparisons is not None and first and second:
        names = first[0].label or first[0].id, second[0].label or second[0].id
        against = "the current settings" if first[0].id == subject.incumbent else names[0]
        block = comparison_block(comparisons, names)
        title = f"{names[1]} against {against}, measure by measure"
        yield from [replace(block, title=title)] if block.spec else []
    entries = [entry for entry in subject.focus if entry.rows]
    for entry in entries:
        yield from _persona_chart(subject, entry)
    if entries:
        yield from _histograms(subject, entries)


def _key_chart(
    subject: Subject, trials: Sequence[ScoredRun], key: str, goal: str
) -> Iterator[ResultBlock]:
    pairs = [
        (trial, trial.values[key], score)
        for trial in trials
        if key in trial.values and (score := trial.value(goal)) is not None
    ]
    values = order_values(value for _, value, _ in pairs)
    numeric = is_numeric(values)
    if len(values) < 2 or (not numeric and len(values) > _MOST_VALUES):
        return
    points = [
        {
            "x": value if numeric else value_text(value),
            "y": score,
            "trial": trial.id,
            "settings": values_of(trial),
        }
        for trial, value, score in pairs
    ]
    means, rows = [], []
    others = [measure for measure in subject.measures if measure != goal]
    for value in values:
        same = [(t, score) for t, at, score in pairs if value_text(at) == value_text(value)]
        scores = [score for _, score in same]
        known = [[v for t, _ in same if (v := t.value(name)) is not None] for name in others]
        x = value if numeric else value_text(value)
        means.append({"x": x, "y": fmean(scores), "n": len(scores)})
        cells = [number(fmean(scores)), number(min(scores)), number(max(scores)), str(len(scores))]
        more = (number(fmean(each) if each else None) for each in known)
        rows.append((value_text(value), *cells, *more))
    yield ResultBlock(
        f"key-{key.replace('.', '-')}",
        f"{goal} against {key}",
        "A dot is a trial; the orange marks are means over the trials with the same value.",
        (key, f"mean {goal}", "lowest", "highest", "trials", *(f"mean {m}" for m in others)),
        tuple(rows),
        dots(points, x=key, y=_entry_name(subject, goal), line=means, numeric=numeric),
        "settings",
    )


def _heat_chart(
    subject: Subject, trials: Sequence[ScoredRun], keys: Sequence[str], goal: str
) -> Iterator[ResultBlock]:
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
        if score is not None and {down, across} <= trial.values.keys():
            at = value_text(trial.values[down]), value_text(trial.values[across])
            cells.setdefault(at, []).append(score)
    means = [fmean(scores) for scores in cells.values()]
    scale = subject.scale(goal)
    low, high = min(means), max(means)
    if scale is not None and scale.high is not None:
        low, high = scale.low, scale.high
    upward, span = subject.upward(goal), high - low or 1.0
    found = [
        (y, x, fmean(cells[y, x]), len(cells[y, x]))
        for y, x in product(map(value_text, values[down]), map(value_text, values[across]))
        if (y, x) in cells
    ]
    drawn = [
        {
            "x": x,
            "y": y,
            "text": f"{mean:.3f}",
            "told": f"{mean:.4f} over {count} trials",
            "shade": (mean - low if upward else high - mean) / span,
        }
        for y, x, mean, count in found
    ]
    yield ResultBlock(
        "heat",
        f"{goal} by {down} and {across}",
        "The stronger the colour, the better; a cell is the mean over its trials. The colours run "
        f"from {low:.3f} to {high:.3f}, the ends of its scale or the least and the greatest mean.",
        (down, across, f"mean {goal}", "trials"),
        tuple((y, x, number(mean), str(count)) for y, x, mean, count in found),
        heat(drawn, x=across, y=down),
        "settings",
    )


def _persona_chart(subject: Subject, entry: ScoredRun) -> Iterator[ResultBlock]:
    parts = _group_by_persona(entry.read(), subject.measures)
    if not parts.keys() - {""}:
        return
    shown = [
        (
            name or "(no persona)",
            summary,
            number(summary.deciding[0]),
            interval(*summary.deciding[1:]),
        )
        for name, part in parts.items()
        for summary in part
        if summary.deciding[0] is not None
    ]
    cells = [
        {
            "x": summary.measure,
            "y": name,
            "shade": _shade(summary),
            "text": f"{float(mean):.2f}",
            "told": f"{mean} ({ends}), n = {summary.n}",
        }
        for name, summary, mean, ends in shown
    ]
    yield ResultBlock(
        f"personas-{entry.id}",
        f"Results per persona: {entry.label or entry.id}",
        "Mean of each measure per persona, abstentions on rows with gold counted as the worst "
        "value; the colour shows the position on the measure's scale.",
        ("persona", "measure", "mean", "95 % interval", "n"),
        tuple((name, s.measure, mean, ends, str(s.n)) for name, s, mean, ends in shown),
        heat(cells, x="", y=""),
        "rows",
    )


def _histograms(subject: Subject, entries: Sequence[ScoredRun]) -> Iterator[ResultBlock]:
    names = [entry.label or entry.id for entry in entries]
    for measure in subject.measures:
        summaries = [entry.summary(measure) for entry in entries]
        counted = [{} if summary is None else summary.histogram for summary in summaries]
        values = sorted({value for counts in counted for value in counts}, key=float)
        if not values:
            continue
        drawn = [
            {"x": value, "y": counts.get(value, 0), "group": name}
            for value in values
            for name, counts in zip(names, counted, strict=True)
        ]
        named = _entry_name(subject, measure)
        yield ResultBlock(
            f"histogram-{measure}",
            f"Distribution of {measure}",
            "Number of rows; rows without a score are not included.",
            (named, *names),
            tuple((v, *(str(counts.get(v, 0)) for counts in counted)) for v in values),
            bars(drawn, x=named, y="rows", groups=names if len(names) > 1 else ()),
            "rows",
        )


def _group_by_persona(
    results: Iterable[RowResult], measures: Sequence[str]
) -> dict[str, list[Summary]]:
    scores: dict[str, dict[str, list[Score]]] = {}
    for result in results:
        kept = scores.setdefault(result.row.persona_name if result.row is not None else "", {})
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


def finding_charts(subject: Subject) -> Iterator[ResultBlock]:
    """Yield the charts of an ablation, of baselines, of capability suites and of a diagnosis."""
    if subject.ablation is not None:
        yield from ablation_blocks(subject.ablation)
    if subject.baselines:
        yield from distance_charts(subject.baselines, subject.about)
    for at, measured in enumerate(subject.curves, 1):
        if any(point.mean is not None for point in measured.points):
            yield curve_block(at, measured)
    if subject.diagnosis is not None:
        yield from diagnosis_blocks(subject.diagnosis)
