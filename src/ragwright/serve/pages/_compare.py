"""Two runs row by row: the verdict, what each measure says, and the rows that changed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from fastapi import APIRouter, Query, Request
from fastapi.responses import HTMLResponse

from ...core import counted
from ...experiment import changed_settings, counting_note
from .._errors import ApiError
from .._links import source_url
from ._base import as_owner, error_page, page
from ._plots import shares, span_of, strip

if TYPE_CHECKING:
    from ...core import Score
    from ...experiment import Evaluation, Made, RowResult
    from ...measure import Comparison, Comparisons
    from ...workbench import Workbench

router = APIRouter()

_PAGE = 40
"""Rows on one page."""

_KINDS = ("changed", "worse", "better", "all")


@dataclass(frozen=True, slots=True)
class _Wanted:
    """What a reader asks to see."""

    baseline: str
    run: str
    measure: str
    kind: str
    start: int

    def link(self, **other: object) -> str:
        """The address of the same comparison with something changed."""
        own = {
            "baseline": self.baseline,
            "run": self.run,
            "measure": self.measure,
            "show": self.kind,
            "start": self.start,
        }
        kept = {name: value for name, value in {**own, **other}.items() if value not in ("", 0)}
        return f"/compare?{urlencode(kept)}"


@router.get("/compare", response_class=HTMLResponse)
async def compare(
    request: Request,
    baseline: str = "",
    run: str = "",
    measure: str = "",
    show: str = "changed",
    start: int = Query(0, ge=0, le=10**7),
) -> HTMLResponse:
    """Compare a run with the baseline that was chosen before."""
    wanted = _Wanted(baseline, run, measure, show if show in _KINDS else "changed", start)
    values = await as_owner(request, lambda bench: _shown(bench, wanted))
    if isinstance(values, HTMLResponse):
        return values
    return page(request, "compare.html", values)


def _shown(bench: Workbench, wanted: _Wanted) -> dict[str, Any]:
    if not wanted.baseline or not wanted.run:
        raise ApiError(400, "choose a baseline and a run at Experiments", "invalid_value")
    first, second = bench.results(wanted.baseline), bench.results(wanted.run)
    found = bench.compare(wanted.baseline, wanted.run)
    names = {one.id: one.name for one in bench.list_runs() if one.name}
    labels = [names.get(name, name.rpartition(":")[2]) for name in (wanted.baseline, wanted.run)]
    if labels[0] == labels[1]:
        labels = [wanted.baseline, wanted.run]
    measures = [one.measure for one in found.measures]
    lead = wanted.measure if wanted.measure in measures else measures[0]
    ordered = _rows(first, second, found[lead], wanted.kind)
    rows = ordered[wanted.start : wanted.start + _PAGE]
    span = _span(found)
    end = wanted.start + len(rows)
    return {
        "title": f"{labels[1]} compared with {labels[0]}",
        "baseline": wanted.baseline,
        "run": wanted.run,
        "labels": labels,
        "state": _state(found),
        "verdicts": [_verdict(one, span) for one in found.measures],
        "measures": measures,
        "lead": lead,
        "kinds": [
            {"name": name, "here": name == wanted.kind, "href": wanted.link(show=name, start=0)}
            for name in _KINDS
        ],
        "kind": wanted.kind,
        "rows": rows,
        "total": len(ordered),
        "start": wanted.start,
        "end": end,
        "previous": wanted.link(start=max(0, wanted.start - _PAGE)) if wanted.start else "",
        "next": wanted.link(start=end) if end < len(ordered) else "",
        "swap": wanted.link(baseline=wanted.run, run=wanted.baseline, start=0),
        "only": (len(found.only_a), len(found.only_b)),
        "costs": _costs(first, second),
        "old": _counting_notes(bench, (first, second)),
        "settings": [change.text for change in changed_settings(first, second)],
    }


def _counting_notes(bench: Workbench, sides: Sequence[Evaluation]) -> list[str]:
    """Runs of earlier versions that counted documents where gold is spans."""
    root = bench.project.folder.root
    return [note for one in sides if (note := counting_note(one.name, one.manifest, root))]


def _span(found: Comparisons) -> tuple[float, float] | None:
    """A common axis for the differences; it holds 0."""
    ends = [e for one in found.measures for e in _ends(one.deciding)]
    return span_of([0.0, *ends])


def _ends(one: Comparison) -> tuple[float | None, float | None, float | None]:
    return one.low, one.high, one.difference


def _state(found: Comparisons) -> str:
    verdicts = {one.verdict for one in found.measures} - {"no change proven"}
    return verdicts.pop() if len(verdicts) == 1 else "mixed" if verdicts else "open"


def _verdict(one: Comparison, span: tuple[float, float] | None) -> dict[str, Any]:
    text, one = one.text, one.deciding
    said = f"{counted(one.wins, 'row')} better, {one.ties} equal, {one.losses} worse"
    parts = (("wins", one.wins), ("ties", one.ties), ("losses", one.losses))
    return {
        "one": one,
        "strip": strip(one.difference, one.low, one.high, span),
        "shares": shares(parts, said),
        "counted": said,
        "text": text,
    }


def _costs(a: Evaluation, b: Evaluation) -> list[dict[str, str]]:
    """Time, tokens and money of an answer in both, where both made answers."""
    taken: tuple[tuple[str, str, Callable[[Made], float | None]], ...] = (
        ("seconds", "s", lambda made: made.usage.seconds),
        ("context", "tokens", lambda made: made.context_tokens or None),
        ("cost", "", lambda made: made.usage.cost),
    )
    found = []
    for name, unit, of in taken:
        before, after = (_mean(side, of) for side in (a, b))
        if before is not None and after is not None and (before or after):
            change = f"{(after - before) / before:+.0%}" if before else ""
            told = {"name": name, "a": f"{before:.4g} {unit}", "b": f"{after:.4g} {unit}"}
            found.append(told | {"by": change})
    return found


def _mean(side: Evaluation, of: Callable[[Made], float | None]) -> float | None:
    """Mean over the answers of a run; None where one is unknown."""
    values = [of(result.made) for result in side.results if result.made is not None]
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known and len(known) == len(values) else None


def _rows(a: Evaluation, b: Evaluation, lead: Comparison, kind: str) -> list[dict[str, Any]]:
    """Rows of both, the largest change of the leading measure first."""
    upward = lead.scale is None or lead.scale.higher_is_better
    others = {result.row_id: result for result in a.results}
    found = []
    for at, after in enumerate(b.results):
        before = others.get(after.row_id)
        if before is None:
            continue
        both = [(_score(before, one.measure), one) for one in after.scores]
        cells = [
            _cell(first, one)
            for first, one in both
            if first is not None and (first.value is not None or one.value is not None)
        ]
        lead_cell = next((c for c in cells if c["measure"] == lead.measure), None)
        by = lead_cell["by"] if lead_cell else None
        good = 0.0 if by is None else by if upward else -by
        moved = any(cell["moved"] for cell in cells)
        wanted = {
            "all": True,
            "changed": moved or any(cell["by"] for cell in cells),
            "better": good > 0,
            "worse": good < 0 or bool(lead_cell and lead_cell["lost"]),
        }[kind]
        if wanted:
            question = after.row.user_input if after.row else after.row_id
            order = (-abs(good) if kind != "all" else at, not moved, at)
            found.append(
                {
                    "id": after.row_id,
                    "question": question,
                    "cells": cells,
                    "order": order,
                    "good": good,
                    "upward": upward,
                }
            )
    return sorted(found, key=lambda row: row["order"])


def _score(result: RowResult, measure: str) -> Score | None:
    return next((score for score in result.scores if score.measure == measure), None)


def _cell(before: Score, after: Score) -> dict[str, Any]:
    a, b = before.value, after.value
    moved = before.state != after.state
    return {
        "measure": after.measure,
        "a": f"{a:.3f}" if a is not None else before.state,
        "b": f"{b:.3f}" if b is not None else after.state,
        "by": round(b - a, 6) if a is not None and b is not None else None,
        "moved": moved,
        "lost": moved and a is not None,
    }


@router.get("/compare/row", response_class=HTMLResponse)
async def row(request: Request, run: str, id: str, baseline: str = "") -> HTMLResponse:  # noqa: A002
    """Show a row in full, in one run or in two side by side."""
    names = [baseline, run] if baseline else [run]
    sides = await as_owner(request, lambda bench: _sides(bench, names, id))
    if isinstance(sides, HTMLResponse):
        return sides
    known = [result for _, result in sides if result is not None and result.row is not None]
    if not known:
        return error_page(request, ApiError(404, f"no run holds the row {id!r}", "not_found"))
    first = known[0].row
    assert first is not None
    values = {
        "title": f"Row {id}",
        "part": "HX-Request" in request.headers,
        "row": first,
        "gold": [
            (span, source_url("", span.document_id, span.start, span.end, span.text))
            for span in first.reference_spans
        ],
        "sides": [
            {"name": name.rpartition(":")[2], "result": result, "hits": _hits(result)}
            for name, result in sides
            if result is not None
        ],
    }
    return page(request, "row.html", values)


def _sides(bench: Workbench, names: list[str], row_id: str) -> list[tuple[str, RowResult | None]]:
    return [
        (name, next((one for one in bench.results(name).results if one.row_id == row_id), None))
        for name in names
    ]


def _hits(result: RowResult) -> list[dict[str, Any]]:
    """Passages of a row with the address of each; those that hold gold are marked."""
    row = result.row
    if row is None:
        return []
    gold = [(span.document_id, span.start, span.end) for span in row.reference_spans]
    hits = []
    for span in row.retrieved_spans:
        held = any(
            span.document_id == name and span.start < end and start < span.end
            for name, start, end in gold
        )
        url = source_url("", span.document_id, span.start, span.end, span.text)
        hits.append({"name": span.document_id, "text": span.text, "url": url, "gold": held})
    if not hits:
        hits = [
            {"name": "", "text": text, "url": "", "gold": False} for text in row.retrieved_contexts
        ]
    return hits
