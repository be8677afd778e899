"""One HTML file with everything: style, scripts, charts, rows; it needs no network."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from ._charts import DARK, LIGHT, Chart
from ._elements import Html, joined, tag
from ._headline import Headline
from ._pack import STATES, Packed
from ._page import (
    board_sections,
    chart_sections,
    head_section,
    navigation,
    rows_section,
    weak_section,
)
from ._subject import Subject
from ._weak import Weak

_LIBRARIES = ("vega.min.js", "vega-lite.min.js", "vega-embed.min.js")


@dataclass(frozen=True, slots=True)
class Document:
    """The content of a report file."""

    subject: Subject
    verdict: Headline
    charts: Sequence[Chart]
    packed: Packed
    weak: Weak = Weak()


def stylesheet() -> str:
    """The style of reports, which the server's pages have too."""
    return _asset("report.css")


def formatting() -> str:
    """The script that shows Markdown in texts of documents; the server's pages run it too."""
    return _asset("formatted.js")


def html_document(found: Document) -> str:
    """The whole file."""
    subject = found.subject
    script, library = formatting() + _asset("report.js"), _library()
    policy = (
        f"default-src 'none'; script-src {_source(script)} {_source(library)}; "
        "style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"
    )
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=policy),
        tag("meta", name_="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name_="color-scheme", content="light dark"),
        tag("meta", name_="generator", content="ragwright"),
        tag("title", f"{found.verdict.text[:90]} · {subject.title}"),
        tag("style", Html(_asset("report.css"))),
    )
    body = tag(
        "body",
        tag("a", "Skip to the rows", href="#browse", class_="skip"),
        navigation(found.charts, subject, found.weak),
        tag(
            "main",
            head_section(subject, found.verdict),
            board_sections(subject),
            weak_section(found.weak),
            chart_sections(found.charts),
            rows_section(subject, found.packed.left_out, subject.measures),
        ),
        _footer(found.charts),
        _data("report-data", _page_data(found)),
        tag("script", Html(script)),
        _library_block(found.charts),
        joined(
            Html(f'<script type="text/gzip-base64" id="b{at}">{block}</script>')
            for at, block in enumerate(found.packed.blocks)
        ),
    )
    text = f"<!doctype html>\n{tag('html', head, body, lang='en')}\n"
    return text.encode("utf-8", "replace").decode(
        "utf-8"
    )  # characters that cannot be encoded become "?"


def json_in_html(value: Any) -> Html:
    """JSON that is safe in HTML: ``<``, ``>``, ``&`` and line ends are escaped."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for mark in "<>&\u2028\u2029":
        text = text.replace(mark, f"\\u{ord(mark):04x}")
    return Html(text)


def _page_data(found: Document) -> Mapping[str, Any]:
    subject = found.subject
    scales = {
        measure: [scale.low, scale.high, scale.higher_is_better]
        for measure in subject.measures
        if (scale := subject.scale(measure)) is not None
    }
    return {
        "kind": subject.kind,
        "incumbent": subject.incumbent,
        "best": subject.best.id if subject.best else "",
        "states": list(STATES),
        "measures": list(subject.measures),
        "scales": scales,
        "labels": {entry.id: entry.label for entry in subject.entries if entry.label},
        "settings": {entry.id: dict(entry.values) for entry in subject.entries if entry.values},
        "index": found.packed.index,
        "charts": {chart.name: chart.spec for chart in found.charts},
        "themes": {
            name: {"config": theme.config(), "colours": theme.colours()}
            for name, theme in (("light", LIGHT), ("dark", DARK))
        },
    }


def _footer(charts: Sequence[Chart]) -> Html:
    licences = None
    if charts:
        licences = tag(
            "details",
            tag("summary", "Charts are drawn by Vega, Vega-Lite and Vega-Embed: their licences"),
            tag("pre", _asset("VEGA-LICENSES.txt")),
        )
    return tag(
        "footer",
        tag(
            "p",
            "Made by ragwright from stored runs. This file is self-contained: it loads nothing.",
        ),
        licences,
    )


def _data(name: str, value: Any) -> Html:
    return Html(f'<script type="application/json" id="{name}">{json_in_html(value)}</script>')


def _library_block(charts: Sequence[Chart]) -> Html | None:
    if not charts:
        return None
    packed = base64.b64encode(gzip.compress(_library().encode(), 9, mtime=0)).decode("ascii")
    return Html(f'<script type="text/gzip-base64" id="library">{packed}</script>')


@cache
def _library() -> str:
    """The drawing libraries as one script, run only when a chart comes into view."""
    return "\n;\n".join(map(_asset, _LIBRARIES))


@cache
def _asset(name: str) -> str:
    return (files("ragwright.report") / "data" / name).read_text("utf-8")


def _source(script: str) -> str:
    """The only script that the policy allows: exactly this text."""
    digest = hashlib.sha256(script.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode('ascii')}'"
