"""Two runs row by row: the verdict, what each measure says, and the rows that changed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from fastapi import APIRouter, Query, Request
from fastapi.responses import HTMLResponse

from ...core import Score, count_noun
from ...experiment import Evaluation, Made, RowResult, list_changed_settings
from ...measure import Comparison, Comparisons
from ...workbench import Workbench
from .._errors import ApiError
from .._links import source_url
from ._base import error_page, page, run_as_owner
from ._plots import shares, span_of, strip

router = APIRouter()

_PAGE = 40
"""Rows on one page."""

_KINDS = ("changed", "worse", "better", "all")


@dataclass(frozen=True, slots=True)
class _Wanted:
    """The rows that a reader asks to see."""

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
        query = {name: value for name, value in {**own, **other}.items() if value not in ("", 0)}
        return f"/compare?{urlencode(query)}"


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
    values = await run_as_owner(request, lambda bench: _comparison_values(bench, wanted))
    if isinstance(values, HTMLResponse):
        return values
    return page(request, "compare.html", values)


def _comparison_values(bench: Workbench, wanted: _Wanted) -> dict[str, Any]:
    if not wanted.baseline or not wanted.run:
        raise ApiError(400, "choose a baseline and a run at Experiments", "invalid_value")
    first, second = bench.results(wanted.baseline), bench.results(wanted.run)
    comparisons = bench.compare(wanted.baseline, wanted.run)
    names = {entry.id: entry.name for entry in bench.list_runs() if entry.name}
    labels = [names.get(name, name.rpartition(":")[2]) for name in (wanted.baseline, wanted.run)]
    if labels[0] == labels[1]:
        labels = [wanted.baseline, wanted.run]
    measures = [entry.measure for entry in comparisons.measures]
    lead = wanted.measure if wanted.measure in measures else measures[0]
    ordered = _changed_rows(first, second, comparisons[lead], wanted.kind)
    rows = ordered[wanted.start : wanted.start + _PAGE]
    span = _difference_span(comparisons)
    end = wanted.start + len(rows)
    return {
        "title": f"{labels[1]} compared with {labels[0]}",
        "baseline": wanted.baseline,
        "run": wanted.run,
        "labels": labels,
        "state": _overall_state(comparisons),
        "verdicts": [_verdict_line(entry, span) for entry in comparisons.measures],
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
        "only": (len(comparisons.only_a), len(comparisons.only_b)),
        "costs": _cost_changes(first, second),
        "settings": [change.text for change in list_changed_settings(first, second)],
    }


def _difference_span(comparisons: Comparisons) -> tuple[float, float] | None:
    """A common axis for the differences; it holds 0."""
    deciding = [entry.deciding for entry in comparisons.measures]
    ends = [end for one in deciding for end in (one.low, one.high, one.difference)]
    return span_of([0.0, *ends])


def _overall_state(comparisons: Comparisons) -> str:
    verdicts = {entry.verdict for entry in comparisons.measures} - {"no change proven"}
    return verdicts.pop() if len(verdicts) == 1 else "mixed" if verdicts else "open"


def _verdict_line(entry: Comparison, span: tuple[float, float] | None) -> dict[str, Any]:
    text, entry = entry.text, entry.deciding
    counts_text = (
        f"{count_noun(entry.wins, 'row')} better, {entry.ties} equal, {entry.losses} worse"
    )
    parts = (("wins", entry.wins), ("ties", entry.ties), ("losses", entry.losses))
    return {
        "comparison": entry,
        "strip": strip(entry.difference, entry.low, entry.high, span),
        "shares": shares(parts, counts_text),
        "counted": counts_text,
        "text": text,
    }


def _cost_changes(a: Evaluation, b: Evaluation) -> list[dict[str, str]]:
    """Time, tokens and money of an answer in both, where both made answers."""
    kinds: tuple[tuple[str, str, Callable[[Made], float | None]], ...] = (
        ("seconds", "s", lambda answer: answer.usage.seconds),
        ("context", "tokens", lambda answer: answer.context_tokens or None),
        ("cost", "", lambda answer: answer.usage.cost),
    )
    changes = []
    for name, unit, of in kinds:
        before, after = (_mean_of_answers(side, of) for side in (a, b))
        if before is not None and after is not None and (before or after):
            change = f"{(after - before) / before:+.0%}" if before else ""
            change_line = {"name": name, "a": f"{before:.4g} {unit}", "b": f"{after:.4g} {unit}"}
            changes.append(change_line | {"by": change})
    return changes


def _mean_of_answers(side: Evaluation, of: Callable[[Made], float | None]) -> float | None:
    """Mean over the answers of a run; None where one is unknown."""
    values = [of(result.made) for result in side.results if result.made is not None]
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known and len(known) == len(values) else None


def _changed_rows(
    a: Evaluation, b: Evaluation, lead: Comparison, kind: str
) -> list[dict[str, Any]]:
    """Rows of both, the largest change of the leading measure first."""
    upward = lead.scale is None or lead.scale.higher_is_better
    others = {result.row_id: result for result in a.results}
    rows = []
    for at, after in enumerate(b.results):
        before = others.get(after.row_id)
        if before is None:
            continue
        scores_before = {score.measure: score for score in before.scores}
        both = [(scores_before.get(score.measure), score) for score in after.scores]
        cells = [
            _score_cell(first, score)
            for first, score in both
            if first is not None and (first.value is not None or score.value is not None)
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
            rows.append(
                {
                    "id": after.row_id,
                    "question": question,
                    "cells": cells,
                    "order": order,
                    "good": good,
                    "upward": upward,
                }
            )
    return sorted(rows, key=lambda row: row["order"])


def _score_cell(before: Score, after: Score) -> dict[str, Any]:
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
    sides = await run_as_owner(request, lambda bench: _rows_of_runs(bench, names, id))
    if isinstance(sides, HTMLResponse):
        return sides
    stored = [result for _, result in sides if result is not None and result.row is not None]
    if not stored:
        return error_page(request, ApiError(404, f"no run holds the row {id!r}", "not_found"))
    first = stored[0].row
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
            {"name": name.rpartition(":")[2], "result": result, "hits": _marked_hits(result)}
            for name, result in sides
            if result is not None
        ],
    }
    return page(request, "row.html", values)


def _rows_of_runs(
    bench: Workbench, names: list[str], row_id: str
) -> list[tuple[str, RowResult | None]]:
    return [
        (
            name,
            next(
                (result for result in bench.results(name).results if result.row_id == row_id), None
            ),
        )
        for name in names
    ]


def _marked_hits(result: RowResult) -> list[dict[str, Any]]:
    """Passages of a row with the address of each; those that hold gold are marked."""
    row = result.row
    if row is None:
        return []
    gold = [(span.document_id, span.start, span.end) for span in row.reference_spans]
    hits = []
    for span in row.retrieved_spans:
        holds_gold = any(
            span.document_id == name and span.start < end and start < span.end
            for name, start, end in gold
        )
        url = source_url("", span.document_id, span.start, span.end, span.text)
        hits.append({"name": span.document_id, "text": span.text, "url": url, "gold": holds_gold})
    if not hits:
        hits = [
            {"name": "", "text": text, "url": "", "gold": False} for text in row.retrieved_contexts
        ]
    return hits
