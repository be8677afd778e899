"""Small drawings as SVG, made on the server: they need no script and follow a page's colours."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from itertools import groupby
from typing import Any

from markupsafe import Markup, escape

from ...experiment import BaselineResult
from ...jobs import DriftDay, MeasureDrift, format_day
from ...report import null_bands

_WIDTH, _HEIGHT = 640, 300
_LEFT, _RIGHT, _TOP, _BOTTOM = 56, 18, 14, 40
_TICKS = 5


@dataclass(frozen=True, slots=True)
class PlotPoint:
    """A point of a scatter plot.

    Attributes:
        x: Its place from left to right, ``y`` from below to above.
        name: What it is.
        low: Lower end of the interval of ``y``, ``high`` its upper end; None where unknown.
        kind: ``current`` or ``best``, which are named; else empty.
        front: No other point beats it on both.
        href: What it leads to.
    """

    x: float
    y: float
    name: str
    low: float | None = None
    high: float | None = None
    kind: str = ""
    front: bool = False
    href: str = ""


def span_of(values: Iterable[float | None]) -> tuple[float, float] | None:
    """Smallest and largest of the values that are known; None where they do not differ."""
    known = [value for value in values if value is not None]
    return (min(known), max(known)) if known and max(known) > min(known) else None


def strip(
    value: float | None, low: float | None, high: float | None, span: tuple[float, float] | None
) -> Markup:
    """A value with its interval on an axis that several lines of a table share."""
    if value is None or span is None:
        return Markup("")

    def at(number: float) -> str:
        return f"{4 + 92 * (number - span[0]) / (span[1] - span[0]):.1f}"

    zero = f'<path class="axis" d="M{at(0)} 0V12"/>' if span[0] < 0 < span[1] else ""
    line = ""
    if low is not None and high is not None:
        line = f'<path d="M{at(low)} 6H{at(high)}"/>'
    return Markup(  # noqa: S704 - names in it are escaped
        f'<svg class="strip" viewBox="0 0 100 12" width="100" height="12" aria-hidden="true">'
        f'{zero}{line}<circle cx="{at(value)}" cy="6" r="3.5"/></svg>'
    )


def distances(
    points: Sequence[tuple[str, float, float | None, float | None]],
    bands: Sequence[tuple[str, float, float]],
    span: tuple[float, float] | None,
) -> Markup:
    """Means with their intervals above bands, on an axis that several lines of a table share.

    Args:
        points: Class of the mark, mean, and the ends of its interval.
        bands: Class of the band, and its ends.
        span: Ends of the axis.
    """
    if span is None:
        return Markup("")

    def at(number: float) -> float:
        return 4 + 192 * (number - span[0]) / (span[1] - span[0])

    drawn = []
    for kind, low, high in bands:
        width = max(1.5, at(high) - at(low))
        drawn.append(
            f'<rect class="{escape(kind)}" x="{at(low):.1f}" y="0" width="{width:.1f}" '
            'height="26"/>'
        )
    for place, (kind, value, low_end, high_end) in enumerate(points):
        y = 8 + 10 * place
        if low_end is not None and high_end is not None:
            ends = f"M{at(low_end):.1f} {y}H{at(high_end):.1f}"
            drawn.append(f'<path class="{escape(kind)}" d="{ends}"/>')
        drawn.append(f'<circle class="{escape(kind)}" cx="{at(value):.1f}" cy="{y}" r="3.5"/>')
    return Markup(  # noqa: S704 - names in it are escaped
        '<svg class="distances" viewBox="0 0 200 26" width="200" height="26" aria-hidden="true">'
        f"{''.join(drawn)}</svg>"
    )


def shares(parts: Sequence[tuple[str, int]], label: str) -> Markup:
    """Counts as one bar: better, equal, worse."""
    total = sum(count for _, count in parts)
    at, drawn = 0.0, []
    for kind, count in parts:
        width = 100 * count / total if total else 0
        if width:
            drawn.append(
                f'<rect class="{escape(kind)}" x="{at:.2f}" width="{width:.2f}" height="10"/>'
            )
        at += width
    return Markup(  # noqa: S704 - names in it are escaped
        f'<svg class="shares" viewBox="0 0 100 10" preserveAspectRatio="none" role="img" '
        f'aria-label="{escape(label)}">{"".join(drawn)}</svg>'
    )


def scatter(points: Sequence[PlotPoint], x: str, y: str) -> Markup:
    """Points with the intervals of their heights; each is a link, so that a keyboard reaches it."""
    ends = [end for p in points for end in (p.low, p.high) if end is not None]
    across = _axis_ticks([p.x for p in points])
    up = _axis_ticks([*ends, *(p.y for p in points)])

    def px(value: float) -> float:
        return _LEFT + (_WIDTH - _LEFT - _RIGHT) * (value - across[0]) / (across[-1] - across[0])

    def py(value: float) -> float:
        return _HEIGHT - _BOTTOM - (_HEIGHT - _TOP - _BOTTOM) * (value - up[0]) / (up[-1] - up[0])

    drawn = [
        f'<path class="grid" d="M{_LEFT} {py(at):.1f}H{_WIDTH - _RIGHT}"/>'
        f'<text class="tick" x="{_LEFT - 8}" y="{py(at) + 4:.1f}" text-anchor="end">{at:.4g}</text>'
        for at in up
    ]
    drawn += [
        f'<text class="tick" x="{px(at):.1f}" y="{_HEIGHT - _BOTTOM + 18}" '
        f'text-anchor="middle">{at:.4g}</text>'
        for at in across
    ]
    drawn.append(
        f'<text class="axisname" x="{_WIDTH - _RIGHT}" y="{_HEIGHT - 6}" '
        f'text-anchor="end">{escape(x)}</text>'
    )
    front = sorted((px(p.x), py(p.y)) for p in points if p.front)
    if len(front) > 1:
        steps = "".join(f"H{x:.1f}V{y:.1f}" for x, y in front[1:])
        drawn.append(f'<path class="front" d="M{front[0][0]:.1f} {front[0][1]:.1f}{steps}"/>')
    for point in sorted(points, key=lambda point: (point.kind != "", point.front)):
        drawn.append(_point_svg(point, px(point.x), py))
    return Markup(  # noqa: S704 - names in it are escaped
        f'<svg class="plot" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="group" '
        f'aria-label="{escape(y)} over {escape(x)}">{"".join(drawn)}</svg>'
    )


def _point_svg(point: PlotPoint, x: float, py: Callable[[float], float]) -> str:
    label = escape(f"{point.name}: {point.y:.4f} at {point.x:.4g}")
    y = py(point.y)
    line = ""
    if point.low is not None and point.high is not None:
        line = f'<path class="whisker" d="M{x:.1f} {py(point.low):.1f}V{py(point.high):.1f}"/>'
    mark = f'{line}<circle class="hit" cx="{x:.1f}" cy="{y:.1f}" r="12"/>' + (
        f'<circle class="dot" cx="{x:.1f}" cy="{y:.1f}" r="5"/>'
    )
    name = ""
    if point.kind:  # one above and one below, so that they do not cover each other
        height = y - 14 if point.kind == "best" else y + 24
        end = x > _WIDTH - 140
        place = f'x="{x:.1f}" y="{height:.1f}" text-anchor="{"end" if end else "start"}"'
        name = f'<text class="name" {place}>{escape(point.name)}</text>'
    kind = point.kind or ("front" if point.front else "other")
    return (
        f'<a href="{escape(point.href)}" class="{kind}" aria-label="{label}">'
        f"<title>{label}</title>{mark}{name}</a>"
    )


def _axis_ticks(values: Sequence[float]) -> list[float]:
    """Round numbers that the values lie between."""
    low, high = min(values), max(values)
    if high == low:
        low, high = low - 0.5, high + 0.5
    raw = (high - low) / (_TICKS - 1)
    unit = 10.0 ** len(str(int(raw))) / 10 if raw >= 1 else 1.0
    while unit > raw:
        unit /= 10
    step = next(unit * times for times in (1, 2, 2.5, 5, 10) if unit * times >= raw)
    first = step * (low // step)
    ticks = [first]
    while ticks[-1] < high - 1e-9 * step:
        ticks.append(first + step * len(ticks))
    return ticks


_WIDTH, _HEIGHT = 640, 250
_LEFT, _RIGHT, _TOP, _BOTTOM = 54, 16, 46, 30
_DRIFT_TICKS = 4
_MOST_LABELS = 5
_BETWEEN_MARKS = 24
"""Least distance between two numbers of changes; nearer ones are drawn a line lower."""


def drift_plot(
    drift: MeasureDrift, numbers: Mapping[str, int], window: int, href: Callable[[str], str]
) -> Markup:
    """A measure over days, as SVG.

    Args:
        drift: The measure; it has at least one day with scores.
        numbers: Day -> number under which the page lists what changed on it.
        window: Days of a period; each period has an interval of its own.
        href: Address of the answers of a day; its point leads there.
    """
    start = _ordinal(drift.reference_from)
    first, last = _ordinal(drift.days[0].day), _ordinal(drift.days[-1].day)
    last = max([last, *map(_ordinal, numbers)])
    if first == last:  # a day alone is drawn in the middle
        first, last = first - 1, last + 1
    low, high = drift.scale

    def px(day: float) -> float:
        return _LEFT + (_WIDTH - _LEFT - _RIGHT) * (day - first) / (last - first)

    def py(value: float) -> float:
        return _HEIGHT - _BOTTOM - (_HEIGHT - _TOP - _BOTTOM) * (value - low) / (high - low)

    drawn: list[str] = []
    for tick in range(_DRIFT_TICKS + 1):
        at = low + (high - low) * tick / _DRIFT_TICKS
        drawn.append(
            f'<path class="grid" d="M{_LEFT} {py(at):.1f}H{_WIDTH - _RIGHT}"/>'
            f'<text x="{_LEFT - 6}" y="{py(at) + 4:.1f}" text-anchor="end">{at:.4g}</text>'
        )
    labels = min(_MOST_LABELS, last - first + 1)
    for day in sorted({first + round((last - first) * at / (labels - 1)) for at in range(labels)}):
        anchor = "start" if day == first else "end" if day == last else "middle"
        drawn.append(
            f'<text x="{px(day):.1f}" y="{_HEIGHT - 8}" text-anchor="{anchor}">'
            f"{format_day(date.fromordinal(day).isoformat())[:-5]}</text>"
        )
    for number, days in groupby(drift.days, lambda point: (_ordinal(point.day) - start) // window):
        period = list(days)
        drawn.append(_interval_band(period, _period_kind(period[-1], number, drift), px, py, last))
    if drift.reference.mean is not None:
        level = py(drift.reference.mean)
        drawn.append(f'<path class="level" d="M{_LEFT} {level:.1f}H{_WIDTH - _RIGHT}"/>')
    drawn += _change_marks(numbers, px)
    for point in drift.days:
        label = f"{format_day(point.day)}: {point.mean:.3f} of {point.n}"
        drawn.append(
            f'<a href="{escape(href(point.day))}" aria-label="{escape(label)}: its answers">'
            f'<circle class="dot" cx="{px(_ordinal(point.day)):.1f}" cy="{py(point.mean):.1f}" '
            f'r="4"><title>{escape(label)}</title></circle></a>'
        )
    return Markup(  # noqa: S704 - names in it are escaped
        f'<svg class="plot drift {escape(drift.verdict)}" viewBox="0 0 {_WIDTH} {_HEIGHT}" '
        f'role="group" aria-label="{escape(str(drift))}">{"".join(drawn)}</svg>'
    )


def _interval_band(
    days: Sequence[DriftDay],
    kind: str,
    px: Callable[[float], float],
    py: Callable[[float], float],
    last: int,
) -> str:
    """The interval of a period, as it narrows day by day."""
    ends = [(px(_ordinal(day.day)), py(day.high), py(day.low)) for day in days]
    if len(ends) == 1:  # a day alone has no width
        x, above, below = ends[0]
        beside = px(min(last, _ordinal(days[0].day) + 1)) - x
        ends = [(x - beside / 2, above, below), (x + beside / 2, above, below)]
    upper = "L".join(f"{x:.1f} {above:.1f}" for x, above, _ in ends)
    lower = "L".join(f"{x:.1f} {below:.1f}" for x, _, below in reversed(ends))
    return f'<path class="band {kind}" d="M{upper}L{lower}Z"/>'


def _period_kind(newest: DriftDay, number: int, drift: MeasureDrift) -> str:
    """``first`` of the reference, ``apart`` of a period whose interval is apart from that one."""
    if not number:
        return "first"
    low, high = drift.reference.low, drift.reference.high
    if low is None or high is None or (newest.high >= low and newest.low <= high):
        return ""
    return "apart"


def _change_marks(numbers: Mapping[str, int], px: Callable[[float], float]) -> Iterator[str]:
    """A line and a number for each day on which something changed."""
    right = [float("-inf")] * 2  # where each of two rows of numbers ends
    for day, number in sorted(numbers.items()):
        x = px(_ordinal(day))
        row = 0 if x - right[0] >= _BETWEEN_MARKS else 1
        right[row] = x
        y = 19 + 19 * row
        yield (
            f'<path class="move" d="M{x:.1f} {y + 3}V{_HEIGHT - _BOTTOM}"/>'
            f'<text class="name" x="{x:.1f}" y="{y}" text-anchor="middle">{number}</text>'
        )


def _ordinal(day: str) -> int:
    return date.fromisoformat(day).toordinal()


SHOWN = 20
"""Baselines on the page, the newest ones; a report shows more."""

_BANDS = {"shuffled answers": "shuffled", "question echoed": "echoed"}


def baseline_lines(baselines: Sequence[BaselineResult]) -> list[dict[str, Any]]:
    """Baselines as lines of a table, all drawn on one axis."""
    bands = [
        [(_BANDS[name], low, high) for name, (low, high) in null_bands(baseline).items()]
        for baseline in baselines
    ]
    means = [[side.summary for side in baseline.sets[:2]] for baseline in baselines]
    ends = [
        end
        for sides in means
        for baseline in sides
        for end in (baseline.low, baseline.mean, baseline.high)
    ]
    ends += [end for band_rows in bands for _, *both in band_rows for end in both]
    span = span_of(ends)
    lines: list[dict[str, Any]] = []
    for baseline, sides, drawn in zip(baselines, means, bands, strict=True):
        points = [
            (kind, side.mean, side.low, side.high)
            for kind, side in zip(("given", "answered"), sides, strict=True)
            if side.mean is not None
        ]
        lines.append(
            {
                "id": baseline.run,
                "name": baseline.label,
                "started": time.strftime("%Y-%m-%d %H:%M", time.localtime(baseline.started)),
                "testset": baseline.testset,
                "embedder": baseline.embedder,
                "pairs": len(baseline.sets[1].pairs),
                "means": [side.mean for side in sides],
                "outcome": baseline.shift.outcome,
                "drawing": distances(points, drawn, span),
            }
        )
    return lines
