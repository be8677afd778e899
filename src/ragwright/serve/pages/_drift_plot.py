"""A measure of served answers over days: means, intervals, and where something changed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import date
from itertools import groupby

from markupsafe import Markup, escape

from ...monitoring import DriftDay, MeasureDrift, format_day

_WIDTH, _HEIGHT = 640, 250
_LEFT, _RIGHT, _TOP, _BOTTOM = 54, 16, 46, 30
_TICKS = 4
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
    for tick in range(_TICKS + 1):
        at = low + (high - low) * tick / _TICKS
        drawn.append(
            f'<path class="grid" d="M{_LEFT} {py(at):.1f}H{_WIDTH - _RIGHT}"/>'
            f'<text x="{_LEFT - 6}" y="{py(at) + 4:.1f}" text-anchor="end">{at:.4g}</text>'
        )
    for day in _labelled_days(first, last):
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


def _labelled_days(first: int, last: int) -> list[int]:
    count = min(_MOST_LABELS, last - first + 1)
    return sorted({first + round((last - first) * at / (count - 1)) for at in range(count)})


def _ordinal(day: str) -> int:
    return date.fromisoformat(day).toordinal()
