"""Charts as Vega-Lite specs in plain mappings.

Colours stand in a spec by name (``@accent``): the theme replaces them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from ._text import interval, is_numeric, value_text

Spec: TypeAlias = dict[str, Any]

SCHEMA = "https://vega.github.io/schema/vega-lite/v6.json"

_COLOURS = ("@accent", "@second", "@good", "@bad", "@quiet", "@ink")

_FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'DejaVu Sans', sans-serif"


Theme: TypeAlias = Mapping[str, Any]
"""Name in a spec -> colour, or colours of a scale.

On cells of a heat map, ``@highText`` replaces ``@lowText`` above the shade ``@cross`` (``@wide``
for a diverging one), where both have the same contrast.
"""

LIGHT: Theme = {
    "@ink": "#1d2329",
    "@quiet": "#5b6570",
    "@line": "#e3e7ea",
    "@accent": "#1f5fa8",
    "@second": "#b4560f",
    "@good": "#1c7245",
    "@bad": "#b3261e",
    "@ramp": ["#e6eef7", "#174a85"],
    "@diverging": ["#9c4a0b", "#f2f2ef", "#1f5fa8"],
    "@lowText": "#000000",
    "@highText": "#ffffff",
    "@cross": 0.72,
    "@wide": 0.84,
}
DARK: Theme = {
    "@ink": "#e4e7ea",
    "@quiet": "#a0a9b2",
    "@line": "#30373e",
    "@accent": "#79b0ee",
    "@second": "#e8a05c",
    "@good": "#6fc598",
    "@bad": "#f08a80",
    "@ramp": ["#1e2a37", "#8fc1f5"],
    "@diverging": ["#e8a05c", "#262b30", "#79b0ee"],
    "@lowText": "#ffffff",
    "@highText": "#000000",
    "@cross": 0.52,
    "@wide": 0.575,
}
"""Light and dark: every text on every background has a contrast of at least 4.5 to 1."""

_LABELS = {"labelColor": "@quiet", "titleColor": "@ink", "titleFontWeight": "normal"}
_LINES = {"gridColor": "@line", "domainColor": "@line", "tickColor": "@line"}
_LEGEND = {"labelColor": "@ink", "titleColor": "@quiet", "titleFontWeight": "normal"}
_CONFIG = {
    "background": "transparent",
    "font": _FONT,
    "view": {"stroke": None},
    "axis": {**_LABELS, **_LINES, "labelFontSize": 11, "titleFontSize": 12, "labelLimit": 220},
    "legend": {**_LEGEND, "orient": "bottom"},
    "header": {"labelColor": "@ink", "titleColor": "@quiet", "labelFontSize": 12},
    "mark": {"color": "@accent"},
    "text": {"color": "@ink"},
}


def apply_theme(spec: Mapping[str, Any], theme: Theme, width: int | None = None) -> Spec:
    """Return a spec in a theme's colours; ``width`` in pixels replaces that of a page."""
    shown = {**fill_colours(dict(spec), theme), "config": fill_colours(_CONFIG, theme)}
    if width is not None and shown.get("width") == "container":
        shown["width"] = width
    return shown


def theme_data(theme: Theme) -> dict[str, Any]:
    """Return config and colours of a theme, for the script of a report."""
    return {"config": fill_colours(_CONFIG, theme), "colours": dict(theme)}


def amount(field: str, **more: Any) -> Spec:
    """Return the encoding of a field of numbers."""
    return {"field": field, "type": "quantitative", **more}


def kind(field: str, **more: Any) -> Spec:
    """Return the encoding of a field of names."""
    return {"field": field, "type": "nominal", **more}


def tooltip(**titles: str | tuple[str, str]) -> list[Spec]:
    """Return a tooltip: field -> title, or title and number format."""
    pairs = {f: (title, "") if isinstance(title, str) else title for f, title in titles.items()}
    return [
        {"field": f, **({"title": title} if title else {}), **({"format": form} if form else {})}
        for f, (title, form) in pairs.items()
    ]


def layer(mark: Spec, encoding: Spec, values: Iterable[Mapping[str, Any]] | None = None) -> Spec:
    """Return a layer of a spec, with its own data if ``values`` is given."""
    data = {} if values is None else {"data": {"values": list(values)}}
    return {**data, "mark": mark, "encoding": encoding}


def frame(height: int, **more: Any) -> Spec:
    """Return a spec as wide as the page."""
    return {"$schema": SCHEMA, "width": "container", "height": height, **more}


def whisker(
    y: str, value: float, low: float | None, high: float | None, group: str = ""
) -> dict[str, Any]:
    """Return a point of :func:`intervals`; an unknown end lies at the value."""
    return {
        "y": y,
        **({"group": group} if group else {}),
        "value": value,
        "low": value if low is None else low,
        "high": value if high is None else high,
        "told": interval(low, high),
    }


def dots(
    points: Sequence[Mapping[str, Any]],
    *,
    x: str,
    y: str,
    line: Sequence[Mapping[str, Any]] = (),
    numeric: bool = True,
) -> Spec:
    """Draw points over a key, with a line (or ticks) through the means.

    A point has ``x``, ``y``, ``trial`` and ``settings``; a mean ``x``, ``y``, ``n``.
    """
    values = list(dict.fromkeys(point["x"] for point in points))
    angle = 0 if numeric else _angle([str(value) for value in values])
    known = {"values": sorted(values)} if numeric and len(values) <= 8 else {}
    scale = {"scale": {"zero": False, "padding": 14}} if numeric else {"sort": None}
    axis = {"labelAngle": angle, "grid": numeric, **known}
    axes = {
        "x": (amount if numeric else kind)("x", title=x, axis=axis, **scale),
        "y": amount("y", title=y, scale={"zero": False}),
    }
    size = min(44, 300 // max(1, len(values)))
    mark = (
        {"type": "line", "point": {"color": "@second"}}
        if numeric
        else {"type": "tick", "thickness": 2.5, "size": size}
    )
    trial = tooltip(trial="trial", settings="settings", y=(y, ".4f"))
    means = tooltip(x=x, y=("mean", ".4f"), n="trials")
    dot = {"type": "circle", "size": 46, "opacity": 0.5, "color": "@accent"}
    return frame(
        240,
        layer=[
            layer(dot, {**axes, "tooltip": trial}, points),
            layer({**mark, "color": "@second"}, {**axes, "tooltip": means}, line),
        ],
    )


def heat(cells: Sequence[Mapping[str, Any]], *, x: str, y: str, diverging: bool = False) -> Spec:
    """Draw cells ``x``, ``y``, ``shade`` (0 to 1, or -1 to 1), ``text`` and ``told``, a tooltip."""
    across = list(dict.fromkeys(str(cell["x"]) for cell in cells))
    down = list(dict.fromkeys(str(cell["y"]) for cell in cells))
    colours = ([-1, 0, 1], "@diverging") if diverging else ([0, 1], "@ramp")
    scale = {"domain": colours[0], "range": colours[1], "interpolate": "rgb"}
    strong = "abs(datum.shade) > cross" if diverging else "datum.shade > cross"
    ink = {"condition": {"test": strong, "value": "@highText"}, "value": "@lowText"}
    box = {"type": "rect", "cornerRadius": 2, "stroke": "@line", "strokeWidth": 1}
    hover = tooltip(y=y or "row", x=x or "column", told="value")
    bare = {"domain": False, "ticks": False}
    axes = {
        "x": (across, x, {**bare, "labelAngle": _angle(across), "orient": "bottom"}),
        "y": (down, y, {**bare, "labelLimit": 130}),
    }
    long = max((len(text) for text in across), default=0)
    return frame(
        max(44, 34 * len(down)),
        usermeta={"narrow": long * len(across) > 36, "columns": len(across)},
        data={"values": list(cells)},
        params=[{"name": "cross", "value": "@wide" if diverging else "@cross"}],
        encoding={
            at: kind(at, sort=names, title=title or None, axis=axis)
            for at, (names, title, axis) in axes.items()
        },
        layer=[
            layer(box, {"color": amount("shade", scale=scale, legend=None), "tooltip": hover}),
            layer({"type": "text", "fontSize": 11}, {"text": kind("text"), "color": ink}),
        ],
    )


def _angle(names: Sequence[str]) -> int:
    """Return the angle of an axis's labels; long names are tilted."""
    long = max((len(text) for text in names), default=0)
    return -40 if len(names) > 8 or long * len(names) > 75 else 0


def intervals(points: Sequence[Mapping[str, Any]], *, x: str, groups: Sequence[str] = ()) -> Spec:
    """Draw dots with whiskers around 0, one per line: see :func:`whisker`."""
    down = list(dict.fromkeys(str(point["y"]) for point in points))
    colour: Spec = _colour_by_group(groups) if groups else {"value": "@accent"}
    axis = {"labelLimit": 170, "grid": True, "ticks": False}
    beside = {"yOffset": kind("group", sort=list(groups))} if groups else {}
    up = {"y": kind("y", sort=down, title=None, axis=axis), **beside, "color": colour}
    of = {"group": "of"} if groups else {}
    hover = tooltip(y="what", **of, value=("", ".4f"), told="95 % interval")
    zero = {"type": "rule", "color": "@quiet", "strokeDash": [3, 3]}
    ends = {"x": amount("low", title=x, scale={"zero": False}), "x2": {"field": "high"}}
    value = {"x": amount("value", title=x), "tooltip": hover}
    lines = 14 * len(points) if groups else 26 * len(down)
    return frame(
        max(70, lines + 20),
        data={"values": list(points)},
        layer=[
            layer(zero, {"x": amount("at")}, [{"at": 0}]),
            layer({"type": "rule", "strokeWidth": 2}, {**up, **ends}),
            layer({"type": "circle", "size": 64, "opacity": 1}, {**up, **value}),
        ],
    )


def bars(
    counts: Sequence[Mapping[str, Any]], *, x: str, y: str, groups: Sequence[str] = ()
) -> Spec:
    """Draw bars ``x``, ``y``, side by side for each ``group``."""
    across = list(dict.fromkeys(str(count["x"]) for count in counts))
    axis = {"labelAngle": 0, "labelOverlap": True}
    encoding: Spec = {
        "x": kind("x", sort=across, title=x, axis=axis),
        "y": amount("y", title=y, axis={"tickMinStep": 1}),
        "tooltip": tooltip(**({"group": "of"} if groups else {}), x=x, y=y),
        **({"xOffset": kind("group", sort=list(groups))} if groups else {}),
        "color": _colour_by_group(groups) if groups else {"value": "@accent"},
    }
    return frame(170, **layer({"type": "bar", "cornerRadiusEnd": 2}, encoding, counts))


def curve(points: Sequence[Mapping[str, Any]], *, x: str, y: str, share: bool) -> Spec:
    """Draw a dose-response curve: :func:`whisker` with ``dose`` and ``closed``, the control."""
    axis = {"format": ".0%"} if share else {"tickMinStep": 1}
    across = {"x": amount("dose", title=x, axis=axis, scale={"zero": share, "padding": 8})}
    low, mean, closed = (
        {**across, "y": amount(name, title=y, scale={"domainMin": 0})}
        for name in ("low", "value", "closed")
    )
    hover = tooltip(dose=x, value=("", ".4f"), told="95 % interval", n="rows")
    line = {"type": "line", "color": "@accent", "point": {"color": "@accent"}}
    area = {"type": "area", "color": "@accent", "opacity": 0.16}
    return frame(
        200,
        data={"values": list(points)},
        layer=[
            layer(area, {**low, "y2": {"field": "high"}}),
            layer(line, {**mean, "tooltip": hover}),
            layer({"type": "line", "color": "@second", "strokeDash": [5, 4]}, closed),
        ],
    )


def order_values(values: Iterable[Any]) -> list[Any]:
    """Return distinct values: numbers by size, others in order of appearance."""
    distinct = list({value_text(value): value for value in values}.values())
    return sorted(distinct) if is_numeric(distinct) else distinct


def _colour_by_group(groups: Sequence[str]) -> Spec:
    repeated = [_COLOURS[at % len(_COLOURS)] for at in range(len(groups))]
    colours = ["@quiet", "@accent"] if len(groups) == 2 else repeated
    return kind("group", title=None, scale={"domain": list(groups), "range": colours})


def fill_colours(value: Any, colours: Theme) -> Any:
    """Return a spec with colours in place of their names."""
    if isinstance(value, str):
        return colours.get(value, value) if value.startswith("@") else value
    if isinstance(value, dict):
        # Data is user text: a text that looks like a colour name stays as it is.
        return {
            key: inner if key == "values" else fill_colours(inner, colours)
            for key, inner in value.items()
        }
    return [fill_colours(inner, colours) for inner in value] if isinstance(value, list) else value
