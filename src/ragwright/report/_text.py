"""Numbers for people: tables of plain text."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from ..core import MeasureError
from ..measure import (
    Calibration,
    Comparisons,
    Estimate,
    GateOutcome,
    Summary,
    parse_measure,
)


def text_table(rows: Sequence[Sequence[str]], right: Sequence[int] = ()) -> str:
    """Columns two spaces apart, the first row underlined; those named in ``right`` end flush."""
    widths = [max(len(row[at]) for row in rows) for at in range(len(rows[0]))]
    lines = []
    for row in rows:
        cells = [
            cell.rjust(width) if at in right else cell.ljust(width)
            for at, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append("  ".join(cells).rstrip())
    lines.insert(1, "  ".join("-" * width for width in widths))
    return "\n".join(lines)


def summary_table(summaries: Iterable[Summary], *, notes: Iterable[str] = (), run: str = "") -> str:
    """Measures with scale, interval, n, coverage and states.

    Where rows lack a score, the bounds that the mean would have with them at the ends of the
    scale stand below, and so do the histograms of judged measures.
    """
    summaries = tuple(summaries)
    rows = [["measure", "mean", "95 % interval", "median", "sd", "n", "coverage", "states"]]
    below = []
    for s in summaries:
        states = ", ".join(f"{name} {count}" for name, count in s.states.items())
        rows.append(
            [
                with_scale(s.measure),
                number(s.mean),
                interval(s.low, s.high),
                number(s.median),
                number(s.sd),
                str(s.n),
                f"{s.coverage:.1%}",
                states,
            ]
        )
        if s.coverage < 1 and s.n and s.worst is not None and s.best is not None:
            low, high = sorted((s.worst, s.best))
            below.append(f"{s.measure}: {low:.4f} to {high:.4f} whatever the missing rows hold")
        if s.histogram:
            counts = ", ".join(f"{value}: {count}" for value, count in s.histogram.items())
            below.append(f"{s.measure}: {counts}")
        if s.clusters is not None:
            below.append(f"{s.measure}: {s.n} rows in {s.clusters} clusters")
    lines = [text_table(rows, right=(1, 3, 4, 5, 6)), *below]
    lines += [f"run: {run}"] if run else []
    return "\n".join([*lines, *(f"note: {note}" for note in notes)])


def slice_table(parts: Mapping[str, Sequence[Summary]], by: str) -> str:
    """One line a slice and measure, with mean, interval and n."""
    rows = [[by, "measure", "mean", "95 % interval", "n", "coverage"]]
    for value, summaries in parts.items():
        rows += [
            [
                value or "(none)",
                with_scale(s.measure),
                number(s.mean),
                interval(s.low, s.high),
                str(s.n),
                f"{s.coverage:.1%}",
            ]
            for s in summaries
        ]
    return text_table(rows, right=(2, 4, 5))


def comparison_table(found: Comparisons, *, names: tuple[str, str] = ("A", "B")) -> str:
    """B against A, measure by measure, and a sentence for each of them."""
    a, b = names
    rows = [["measure", a, b, f"{b} - {a}", "95 % interval", "p (Holm)", "wins/ties/losses", "n"]]
    for c in found.measures:
        rows.append(
            [
                with_scale(c.measure),
                number(c.mean_a),
                number(c.mean_b),
                "-" if c.difference is None else f"{c.difference:+.4f}",
                interval(c.low, c.high),
                number(c.p_holm),
                f"{c.wins}/{c.ties}/{c.losses}",
                str(c.n),
            ]
        )
    lines = [text_table(rows, right=(1, 2, 3, 5, 7)), *(c.text for c in found.measures)]
    for c in found.measures:
        if c.only_a or c.only_b:
            lines.append(
                f"{c.measure}: {c.only_a} rows have a score in {a} alone, {c.only_b} in {b} alone"
            )
    for name, ids in ((a, found.only_a), (b, found.only_b)):
        if ids:
            lines.append(f"rows of {name} alone, left out: {_some(ids)}")
    if found.missing:
        lines.append(f"measures of one run alone, left out: {_some(found.missing)}")
    return "\n".join(lines)


def gate_table(outcome: GateOutcome) -> str:
    """Each rule with what became of it, the outcome last."""
    rows = [["rule", "outcome", "because"]]
    rows += [[check.rule, check.state, check.reason] for check in outcome.checks]
    return f"{text_table(rows)}\ngate: {outcome.state}"


def calibration_table(found: Calibration) -> str:
    """Judge against people: agreement, bias, the corrected mean, and who confused what."""
    parts: list[tuple[str, Estimate]] = [
        ("equal", found.agreement),
        ("kappa", found.kappa),
        ("kappa, quadratic weights", found.weighted_kappa),
        ("bias (judge - people)", found.bias),
        ("Pearson", found.pearson),
        ("Spearman", found.spearman),
        ("mean by the judge", found.judge_mean),
        ("mean by people", found.human_mean),
        ("mean, corrected by people", found.corrected),
    ]
    rows = [["", "value", "95 % interval"]]
    rows += [[name, number(e.value), interval(e.low, e.high)] for name, e in parts]
    lines = [
        f"{with_scale(found.measure)} against people, {found.n} rows with both "
        f"({found.unlabelled} without a label, {found.unscored} without a score, "
        f"{found.unknown} labels of other rows)",
        text_table(rows, right=(1,)),
    ]
    if found.levels:
        heads = [f"{level:g}" for level in found.levels]
        table = [["people \\ judge", *heads]]
        table += [
            [head, *map(str, counts)] for head, counts in zip(heads, found.confusion, strict=True)
        ]
        lines.append(text_table(table, right=range(1, len(heads) + 1)))
    return "\n".join(lines)


def with_scale(measure: str) -> str:
    """A measure with its scale: others use some of its names for another one."""
    try:
        definition = parse_measure(measure).definition
    except MeasureError:
        return measure
    high = "" if definition.high is None else f"{definition.high:g}"
    return f"{measure} ({definition.low:g}-{high})"


def number(value: float | None) -> str:
    """Four digits, or a dash for what is undefined."""
    return "-" if value is None else f"{value:.4f}"


def interval(low: float | None, high: float | None) -> str:
    """Both ends, or a dash."""
    return "-" if low is None or high is None else f"{low:.4f} .. {high:.4f}"


def _some(names: Sequence[str], most: int = 5) -> str:
    shown = ", ".join(names[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"
