"""Charts of special runs: ablation effects, capability curves, diagnosis."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ..experiment import Ablation, Curve, Diagnosis, PartResult
from ._ablation import HEADS
from ._charts import Chart, bars, curve, intervals
from ._diagnosis import LOST
from ._distances import distance_charts
from ._relations import between
from ._subject import Subject
from ._text import number, p_cell, signed


def finding_charts(subject: Subject) -> Iterator[Chart]:
    """Every chart of an ablation, of baselines, of capability suites and of a diagnosis."""
    if subject.ablation is not None:
        yield from _ablation(subject.ablation)
    if subject.baselines:
        yield from distance_charts(subject.baselines, subject.about)
    for at, one in enumerate(subject.curves):
        if any(point.mean is not None for point in one.points):
            yield _curve(at, one)
    if subject.diagnosis is not None:
        yield from _diagnosis(subject.diagnosis)


def _ablation(found: Ablation) -> Iterator[Chart]:
    """A chart for every measure and design."""
    measures = dict.fromkeys(effect.measure for one in found.parts for effect in one.effects)
    for measure in measures:
        for design in dict.fromkeys(one.design for one in found.parts):
            yield _effects(measure, design, [one for one in found.parts if one.design == design])


def _effects(measure: str, design: str, parts: Sequence[PartResult]) -> Chart:
    points, rows = [], []
    personas = dict.fromkeys(e.persona or "all" for one in parts for e in one.effects)
    groups = tuple(personas) if len(personas) > 1 else ()
    for one in parts:
        for effect in one.effects:
            if effect.measure != measure:
                continue
            named = effect.persona or "all"
            told = between(effect.low, effect.high)
            tokens = "" if one.tokens is None else f"{one.tokens:.4g}"
            said = one.state if one.safe and not effect.persona else effect.verdict
            rows.append(
                (one.label, named, signed(effect.difference), told, str(effect.n), tokens, said)
            )
            if effect.difference is not None:
                low = effect.difference if effect.low is None else effect.low
                high = effect.difference if effect.high is None else effect.high
                points.append(
                    {
                        "y": one.label,
                        "group": named,
                        "value": effect.difference,
                        "low": low,
                        "high": high,
                        "told": told,
                    }
                )
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


def _curve(at: int, one: Curve) -> Chart:
    share = "share" in one.dose_name
    points, rows = [], []
    control = False
    for point in one.points:
        dose = f"{point.dose:.0%}" if share else f"{point.dose:g}"
        told = between(point.low, point.high)
        rows.append(
            (
                dose,
                number(point.mean),
                told,
                str(point.n),
                "-" if point.abstained is None else f"{point.abstained:.0%}",
                number(point.closed_book),
                "-" if point.above is None else f"{point.above:+.4f}",
            )
        )
        if point.mean is None:
            continue
        control = control or point.closed_book is not None
        points.append(
            {
                "dose": point.dose,
                "mean": point.mean,
                "low": point.mean if point.low is None else point.low,
                "high": point.mean if point.high is None else point.high,
                "closed": point.closed_book,
                "told": told,
                "n": point.n,
            }
        )
    known = ", questions known without passages" if one.among == "known" else ""
    change = ""
    if one.change is not None:
        sure = between(one.change_low, one.change_high)
        change = f" From the first dose to the last: {one.change:+.4f} ({sure})."
    closed = " The dashed line shows the same questions without passages." if control else ""
    return Chart(
        f"curve-{at + 1}-{one.suite}",
        f"{one.suite}: {one.quantity} over {one.dose_name}{known}",
        f"Mean by {one.measure} with its 95 % interval.{closed}{change}",
        curve(points, x=one.dose_name, y=one.quantity, share=share, control=control),
        (one.dose_name, "mean", "95 % interval", "n", "abstained", "closed book", "above it"),
        tuple(rows),
        "findings",
    )


def _diagnosis(found: Diagnosis) -> Iterator[Chart]:
    counts = [(lost, count) for lost, count in found.losses.items() if count]
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
    for measure in dict.fromkeys(one.measure for one in found.points):
        points, rows = [], []
        for one in found.points:
            if one.measure != measure:
                continue
            whole = one.recovered
            told = between(whole.low, whole.high)
            rows.append(
                (
                    one.stage,
                    number(one.plain),
                    signed(whole.difference),
                    told,
                    p_cell(whole.p_holm),
                    signed(one.first.difference),
                    str(one.rows),
                    "proven" if one.proven else "",
                )
            )
            if whole.difference is not None:
                low = whole.difference if whole.low is None else whole.low
                high = whole.difference if whole.high is None else whole.high
                points.append(
                    {
                        "y": one.stage,
                        "value": whole.difference,
                        "low": low,
                        "high": high,
                        "told": told,
                    }
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
