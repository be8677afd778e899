"""Small drawings as SVG, made on the server: they need no script and follow a page's colours."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from markupsafe import Markup, escape

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
    across, up = _axis_ticks([p.x for p in points]), _axis_ticks(_interval_heights(points))

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


def _interval_heights(points: Sequence[PlotPoint]) -> list[float]:
    ends = [end for p in points for end in (p.low, p.high) if end is not None]
    return [*ends, *(p.y for p in points)]


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
