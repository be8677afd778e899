"""Charts of special runs: ablation effects, capability curves, diagnosis."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ..experiment import Ablation, Curve, Diagnosis, PartResult
from ._ablation import HEADS
from ._charts import Chart, bars, curve, intervals, whisker
from ._diagnosis import LOST
from ._distances import distance_charts
from ._relations import format_interval
from ._subject import Subject
from ._text import format_signed, number, p_cell, share


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
