"""Charts as Vega-Lite specs in plain mappings, each with a table of the same data.

Colours stand in a spec by name (``@accent``): the theme replaces them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from ..measure import MeasureScale
from ._relations import is_numeric, value_text

Spec: TypeAlias = dict[str, Any]

SCHEMA = "https://vega.github.io/schema/vega-lite/v6.json"

_COLOURS = ("@accent", "@second", "@good", "@bad", "@quiet", "@ink")

_FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'DejaVu Sans', sans-serif"


@dataclass(frozen=True, slots=True)
class Chart:
    """A chart and its table.

    Attributes:
        name: Short name, part of file names and links: ``pareto``.
        title: Heading.
        note: How to read it, a sentence.
        spec: Vega-Lite spec; width and colours are the theme's.
        head: Heads of the table.
        rows: Its lines.
        section: Section of the report.
    """

    name: str
    title: str
    note: str
    spec: Spec
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    section: str = "settings"


@dataclass(frozen=True, slots=True)
class Theme:
    """Colours of a chart by name, and their backgrounds.

    On cells of a heat map, ``high_text`` replaces ``low_text`` above the shade ``cross`` (``wide``
    for a diverging one), where both have the same contrast.
    """

    ink: str
    quiet: str
    line: str
    accent: str
    second: str
    good: str
    bad: str
    ramp: tuple[str, str]
    diverging: tuple[str, str, str]
    low_text: str
    high_text: str
    cross: float
    wide: float

    def config(self) -> Spec:
        """Vega-Lite config."""
        axis = {
            "labelColor": self.quiet,
            "titleColor": self.ink,
            "titleFontWeight": "normal",
            "gridColor": self.line,
            "domainColor": self.line,
            "tickColor": self.line,
            "labelFontSize": 11,
            "titleFontSize": 12,
            "labelLimit": 220,
        }
        legend = {"labelColor": self.ink, "titleColor": self.quiet, "titleFontWeight": "normal"}
        return {
            "background": "transparent",
            "font": _FONT,
            "view": {"stroke": None},
            "axis": axis,
            "legend": {**legend, "orient": "bottom"},
            "header": {"labelColor": self.ink, "titleColor": self.quiet, "labelFontSize": 12},
            "mark": {"color": self.accent},
            "text": {"color": self.ink},
        }

    def colours(self) -> dict[str, Any]:
        """Name in a spec -> colour."""
        return {
            "@ink": self.ink,
            "@quiet": self.quiet,
            "@line": self.line,
            "@accent": self.accent,
            "@second": self.second,
            "@good": self.good,
            "@bad": self.bad,
            "@ramp": list(self.ramp),
            "@diverging": list(self.diverging),
            "@lowText": self.low_text,
            "@highText": self.high_text,
            "@cross": self.cross,
            "@wide": self.wide,
        }


LIGHT = Theme(
    "#1d2329",
    "#5b6570",
    "#e3e7ea",
    "#1f5fa8",
    "#b4560f",
    "#1c7245",
    "#b3261e",
    ("#e6eef7", "#174a85"),
    ("#9c4a0b", "#f2f2ef", "#1f5fa8"),
    "#000000",
    "#ffffff",
    0.72,
    0.84,
)
DARK = Theme(
    "#e4e7ea",
    "#a0a9b2",
    "#30373e",
    "#79b0ee",
    "#e8a05c",
    "#6fc598",
    "#f08a80",
    ("#1e2a37", "#8fc1f5"),
    ("#e8a05c", "#262b30", "#79b0ee"),
    "#ffffff",
    "#000000",
    0.52,
    0.575,
)
"""Light and dark: every text on every background has a contrast of at least 4.5 to 1."""


def themed(spec: Mapping[str, Any], theme: Theme, width: int | None = None) -> Spec:
    """A spec with a theme's colours and config; ``width`` in pixels outside of a page."""
    found: Spec = _coloured(dict(spec), theme.colours())
    found["config"] = theme.config()
    if width is not None and found.get("width") == "container":
        found["width"] = width
    return found


def dots(
    points: Sequence[Mapping[str, Any]],
    *,
    x: str,
    y: str,
    line: Sequence[Mapping[str, Any]] = (),
    numeric: bool = True,
) -> Spec:
    """Points over a key, with a line (or ticks) through the means.

    A point has ``x``, ``y``, ``trial`` and ``settings``; a mean ``x``, ``y``, ``n``.
    """
    kind = "quantitative" if numeric else "nominal"
    across: Spec = {
        "field": "x",
        "type": kind,
        "title": x,
        "axis": {"labelAngle": 0, "grid": numeric},
    }
    if numeric:
        values = sorted({point["x"] for point in points})
        across["scale"] = {"zero": False, "padding": 14}
        if len(values) <= 8:
            across["axis"] = {**across["axis"], "values": values}
        mean: Spec = {"type": "line", "color": "@second", "point": {"color": "@second"}}
    else:
        names = list(dict.fromkeys(str(point["x"]) for point in points))
        across["sort"] = None
        across["axis"] = {**across["axis"], "labelAngle": _angle(names)}
        wide = min(44, 300 // len(names)) if names else 44
        mean = {"type": "tick", "color": "@second", "thickness": 2.5, "size": wide}
    up = {"field": "y", "type": "quantitative", "title": y, "scale": {"zero": False}}
    seen = [("trial", "trial", ""), ("settings", "settings", ""), ("y", y, ".4f")]
    averaged = [("x", x, ""), ("y", "mean", ".4f"), ("n", "trials", "")]
    return {
        **_frame(240),
        "layer": [
            {
                "data": {"values": list(points)},
                "mark": {"type": "circle", "size": 46, "opacity": 0.5, "color": "@accent"},
                "encoding": {"x": across, "y": up, "tooltip": _told(seen)},
            },
            {
                "data": {"values": list(line)},
                "mark": mean,
                "encoding": {"x": across, "y": up, "tooltip": _told(averaged)},
            },
        ],
    }


def _told(fields: Sequence[tuple[str, str, str]]) -> list[Spec]:
    """Tooltip of a mark: field, name, format."""
    return [
        {"field": field, "title": title, **({"format": form} if form else {})}
        for field, title, form in fields
    ]


_LEAST_SPAN = 0.1
"""Least part of a measure's scale that the colours of a heat map run over."""


def heat_span(scale: MeasureScale | None, means: Iterable[float]) -> tuple[float, float]:
    """The values of the lightest and the strongest colour.

    These are the least and the greatest mean, further apart where they differ by less than a tenth
    of the measure's scale (or, without a highest value, a tenth of the greatest mean).
    """
    found = [*means]
    low, high = min(found), max(found)
    bottom, top = (scale.low, scale.high) if scale is not None else (None, None)
    whole = top - bottom if top is not None and bottom is not None else abs(high)
    missing = _LEAST_SPAN * (whole or 1.0) - (high - low)
    if missing > 0:
        low, high = low - missing / 2, high + missing / 2
        # within the scale, where it has ends
        up = max(0.0, bottom - low) if bottom is not None else 0.0
        down = max(0.0, high - top) if top is not None else 0.0
        low, high = low + up - down, high + up - down
    return low, high


def heat(cells: Sequence[Mapping[str, Any]], *, x: str, y: str, diverging: bool = False) -> Spec:
    """Cells ``x``, ``y``, ``value``, ``shade`` (0 to 1, or -1 to 1), ``text`` and ``told``."""
    across = list(dict.fromkeys(str(cell["x"]) for cell in cells))
    down = list(dict.fromkeys(str(cell["y"]) for cell in cells))
    scale: Spec = (
        {"domain": [-1, 0, 1], "range": "@diverging"}
        if diverging
        else {"domain": [0, 1], "range": "@ramp"}
    )
    shade = {
        "field": "shade",
        "type": "quantitative",
        "scale": {**scale, "interpolate": "rgb"},
        "legend": None,
    }
    told = [
        {"field": "y", "title": y or "row"},
        {"field": "x", "title": x or "column"},
        {"field": "told", "title": "value"},
    ]
    strong = "abs(datum.shade) > cross" if diverging else "datum.shade > cross"
    ink = {"condition": {"test": strong, "value": "@highText"}, "value": "@lowText"}
    long = max((len(text) for text in across), default=0)
    return {
        **_frame(max(44, 34 * len(down))),
        "usermeta": {"narrow": long * len(across) > 36, "columns": len(across)},
        "data": {"values": list(cells)},
        "params": [{"name": "cross", "value": "@wide" if diverging else "@cross"}],
        "encoding": _names(across, down, x, y),
        "layer": [
            {
                "mark": {"type": "rect", "cornerRadius": 2, "stroke": "@line", "strokeWidth": 1},
                "encoding": {"color": shade, "tooltip": told},
            },
            {
                "mark": {"type": "text", "fontSize": 11},
                "encoding": {"text": {"field": "text", "type": "nominal"}, "color": ink},
            },
        ],
    }


def _names(across: Sequence[str], down: Sequence[str], x: str, y: str) -> Spec:
    """Axes of a heat map."""
    bare = {"domain": False, "ticks": False}
    axes: Spec = {}
    for at, names, title, axis in (
        ("x", across, x, {**bare, "labelAngle": _angle(across), "orient": "bottom"}),
        ("y", down, y, {**bare, "labelLimit": 130}),
    ):
        axes[at] = {
            "field": at,
            "type": "nominal",
            "sort": list(names),
            "title": title or None,
            "axis": axis,
        }
    return axes


def _angle(names: Sequence[str]) -> int:
    """Long names are tilted."""
    long = max((len(text) for text in names), default=0)
    return -40 if len(names) > 8 or long * len(names) > 75 else 0


def intervals(
    points: Sequence[Mapping[str, Any]], *, x: str, zero: bool = True, groups: Sequence[str] = ()
) -> Spec:
    """Dots with whiskers, one per line: ``y``, ``value``, ``low``, ``high``, ``group``."""
    down = list(dict.fromkeys(str(point["y"]) for point in points))
    colour: Spec = {"value": "@accent"}
    offset: Spec = {}
    if groups:
        colour = {
            "field": "group",
            "type": "nominal",
            "title": None,
            "scale": {"domain": list(groups), "range": _palette(len(groups))},
        }
        offset = {"yOffset": {"field": "group", "type": "nominal", "sort": list(groups)}}
    up = {
        "field": "y",
        "type": "nominal",
        "sort": down,
        "title": None,
        "axis": {"labelLimit": 170, "grid": True, "ticks": False},
    }
    lines = len(points) if groups else len(down)
    layers: list[Spec] = [
        {
            "mark": {"type": "rule", "strokeWidth": 2},
            "encoding": {
                "y": up,
                **offset,
                "x": {"field": "low", "type": "quantitative", "title": x, "scale": {"zero": False}},
                "x2": {"field": "high"},
                "color": colour,
            },
        },
        {
            "mark": {"type": "circle", "size": 64, "opacity": 1},
            "encoding": {
                "y": up,
                **offset,
                "x": {"field": "value", "type": "quantitative", "title": x},
                "color": colour,
                "tooltip": [
                    {"field": "y", "title": "what"},
                    *([{"field": "group", "title": "of"}] if groups else []),
                    {"field": "value", "format": ".4f"},
                    {"field": "told", "title": "95 % interval"},
                ],
            },
        },
    ]
    if zero:
        nought: Spec = {"x": {"field": "at", "type": "quantitative"}}
        rule = {"type": "rule", "color": "@quiet", "strokeDash": [3, 3]}
        layers.insert(0, {"data": {"values": [{"at": 0}]}, "mark": rule, "encoding": nought})
    return {
        **_frame(max(70, (14 if groups else 26) * lines + 20)),
        "data": {"values": list(points)},
        "layer": layers,
    }


def bars(
    counts: Sequence[Mapping[str, Any]], *, x: str, y: str, groups: Sequence[str] = ()
) -> Spec:
    """Bars ``x``, ``y``, side by side for each ``group``."""
    across = list(dict.fromkeys(str(count["x"]) for count in counts))
    encoding: Spec = {
        "x": {
            "field": "x",
            "type": "nominal",
            "sort": across,
            "title": x,
            "axis": {"labelAngle": 0, "labelOverlap": True},
        },
        "y": {"field": "y", "type": "quantitative", "title": y, "axis": {"tickMinStep": 1}},
        "tooltip": [{"field": "x", "title": x}, {"field": "y", "title": y}],
    }
    if groups:
        encoding["xOffset"] = {"field": "group", "type": "nominal", "sort": list(groups)}
        encoding["color"] = {
            "field": "group",
            "type": "nominal",
            "title": None,
            "scale": {"domain": list(groups), "range": _palette(len(groups))},
        }
        encoding["tooltip"] = [{"field": "group", "title": "of"}, *encoding["tooltip"]]
    else:
        encoding["color"] = {"value": "@accent"}
    return {
        **_frame(170),
        "data": {"values": list(counts)},
        "mark": {"type": "bar", "cornerRadiusEnd": 2},
        "encoding": encoding,
    }


def front(points: Sequence[Mapping[str, Any]], *, x: str, y: str) -> Spec:
    """Trials as points ``x``, ``y``, ``kind``; those of the Pareto front joined by a line."""
    kinds = ["on the front", "current settings", "other trials"]
    known = [kind for kind in kinds if any(point["kind"] == kind for point in points)]
    colours = dict(zip(kinds, ("@accent", "@second", "@quiet"), strict=True))
    axes = {
        "x": {"field": "x", "type": "quantitative", "title": x, "scale": {"zero": False}},
        "y": {"field": "y", "type": "quantitative", "title": y, "scale": {"zero": False}},
    }
    return {
        **_frame(280),
        "data": {"values": list(points)},
        "layer": [
            {
                "transform": [{"filter": "datum.front"}],
                "mark": {"type": "line", "color": "@accent", "opacity": 0.6},
                "encoding": {**axes, "order": {"field": "x"}},
            },
            {
                "mark": {"type": "point", "filled": True, "size": 62, "opacity": 0.8},
                "encoding": {
                    **axes,
                    "color": {
                        "field": "kind",
                        "type": "nominal",
                        "title": None,
                        "scale": {"domain": known, "range": [colours[kind] for kind in known]},
                    },
                    "shape": {
                        "field": "kind",
                        "type": "nominal",
                        "title": None,
                        "scale": {"domain": known, "range": ["circle", "diamond", "circle"]},
                    },
                    "tooltip": [
                        {"field": "trial", "title": "trial"},
                        {"field": "settings", "title": "settings"},
                        {"field": "y", "title": y, "format": ".4f"},
                        {"field": "x", "title": x, "format": ".4~g"},
                    ],
                },
            },
        ],
    }


def curve(
    points: Sequence[Mapping[str, Any]], *, x: str, y: str, share: bool, control: bool
) -> Spec:
    """A dose-response curve: ``dose``, ``mean``, ``low``, ``high``, ``closed``."""
    across: Spec = {"field": "dose", "type": "quantitative", "title": x}
    across["axis"] = {"format": ".0%"} if share else {"tickMinStep": 1}
    across["scale"] = {"zero": share, "padding": 8}
    up = {"type": "quantitative", "title": y, "scale": {"domainMin": 0}}
    layers: list[Spec] = [
        {
            "mark": {"type": "area", "color": "@accent", "opacity": 0.16},
            "encoding": {"x": across, "y": {"field": "low", **up}, "y2": {"field": "high"}},
        },
        {
            "mark": {"type": "line", "color": "@accent", "point": {"color": "@accent"}},
            "encoding": {
                "x": across,
                "y": {"field": "mean", **up},
                "tooltip": [
                    {"field": "dose", "title": x},
                    {"field": "mean", "format": ".4f"},
                    {"field": "told", "title": "95 % interval"},
                    {"field": "n", "title": "rows"},
                ],
            },
        },
    ]
    if control:
        layers.append(
            {
                "mark": {"type": "line", "color": "@second", "strokeDash": [5, 4]},
                "encoding": {"x": across, "y": {"field": "closed", **up}},
            }
        )
    return {**_frame(200), "data": {"values": list(points)}, "layer": layers}


def ordered_values(values: Iterable[Any]) -> list[Any]:
    """Distinct values: numbers by size, others in the order they came."""
    distinct = list({value_text(value): value for value in values}.values())
    return sorted(distinct) if is_numeric(distinct) else distinct


def _frame(height: int) -> Spec:
    return {"$schema": SCHEMA, "width": "container", "height": height}


def _palette(groups: int) -> list[str]:
    if groups == 2:  # the baseline, and the compared entry
        return ["@quiet", "@accent"]
    return [_COLOURS[at % len(_COLOURS)] for at in range(groups)]


def _coloured(value: Any, colours: Mapping[str, Any]) -> Any:
    if isinstance(value, str):
        return colours.get(value, value) if value.startswith("@") else value
    if isinstance(value, dict):
        # Data is user text: a text that looks like a colour name stays as it is.
        return {
            key: inner if key == "values" else _coloured(inner, colours)
            for key, inner in value.items()
        }
    if isinstance(value, list):
        return [_coloured(inner, colours) for inner in value]
    return value
