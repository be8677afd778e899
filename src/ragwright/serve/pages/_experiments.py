"""Experiments: sweeps, stored runs, and the report of each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode
from weakref import WeakKeyDictionary

from fastapi import Query, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response

from ...core import RagwrightError, Score, count_noun
from ...experiment import (
    AnswerRecord,
    Evaluation,
    KnownRun,
    RowResult,
    RunMean,
    list_changed_settings,
    run_means,
)
from ...measure import Comparison
from ...report import Board, ScoredRun, Subject, value_text
from ...workbench import Workbench
from .._answers import source_url
from .._api import caller_of, service_of
from .._errors import ApiError
from ._base import PRIVATE, error_page, page, router, run_as_owner
from ._plots import SHOWN, PlotPoint, baseline_lines, scatter, shares, span_of, strip

_LISTED = 200
_SCORED = 60
"""Runs whose scores are listed, the newest."""
_SWEEPS = 20
_RANKED = 60
"""Trials of a leaderboard on a page; the report has all."""

_FACTS = {"context_tokens": "tokens", "cost": "cost", "seconds": "seconds"}


@router.get("/experiments", response_class=HTMLResponse)
async def experiments(request: Request) -> HTMLResponse:
    """List sweeps and runs, newest first."""
    service, caller = service_of(request), caller_of(request)
    try:
        caller.require_owner()
        opened, _ = service.find("", None)
        async with service.using(opened) as bench:
            runs = await service.for_page(bench.list_runs)
            sweeps = await service.for_page(bench.list_sweeps)
            baselines = await service.for_page(bench.list_baselines, SHOWN)
            means = await service.for_page(_means_of_runs, bench, runs[:_SCORED])
    except (RagwrightError, ApiError) as error:
        return error_page(request, error)
    by_testset: dict[str, list[Any]] = {}
    for run in runs[:_LISTED]:
        by_testset.setdefault(run.testset, []).append(run)
    values = {
        "title": "Experiments",
        "groups": by_testset,
        "means": means,
        "abstained": any(entry.abstained for run in means.values() for entry in run.values()),
        "left_out": max(0, len(runs) - _LISTED),
        "sweeps": sweeps[:_SWEEPS],
        "baselines": baseline_lines(baselines),
    }
    return page(request, "experiments.html", values)


_MEANS: WeakKeyDictionary[Workbench, dict[str, dict[str, RunMean]]] = WeakKeyDictionary()
"""Means of complete runs, which do not change."""


def _means_of_runs(bench: Workbench, runs: Sequence[KnownRun]) -> dict[str, dict[str, RunMean]]:
    """Run -> measure -> its means."""
    stored = _MEANS.setdefault(bench, {})
    means_of = {}
    for run in runs:
        means = stored.get(run.id)
        if means is None:
            means = run_means(bench.project.runs, run.id)
            if run.state == "complete":
                stored[run.id] = means
        means_of[run.id] = means
    return means_of


@router.get("/experiments/{run}", response_class=HTMLResponse)
async def experiment(request: Request, run: str) -> Response:
    """Show a sweep or a run: verdict, table, plot; or the report of another kind of run."""
    values = await run_as_owner(request, lambda bench: _experiment_values(bench, run))
    if isinstance(values, HTMLResponse):
        return values
    if values is None:
        return RedirectResponse(f"/experiments/{run}/report", 303)
    return page(request, values.pop("template"), values)


def _experiment_values(bench: Workbench, name: str) -> dict[str, Any] | None:
    report = bench.report(name)
    subject = report.subject
    sweep = next((s for s in bench.list_sweeps() if s.id == subject.facts.get("run")), None)
    if subject.kind == "study" and sweep is not None:
        return {
            "template": "sweep.html",
            "title": f"Sweep {sweep.name or sweep.id}",
            "run": sweep.id,
            "state": sweep.state,
            "headline": report.headline if subject.boards and sweep.state != "open" else None,
            "boards": [_board_values(subject, board, sweep.id) for board in subject.boards],
            "plot": _tradeoff_plot(subject, sweep.id),
            "without": _trials_without_result(subject),
            "facts": subject.facts,
            "notes": subject.notes,
        }
    if (
        subject.kind != "run"
        or subject.diagnosis
        or subject.ablation
        or subject.curves
        or subject.baselines
    ):
        return None
    [entry] = subject.entries
    earlier = [
        other_run
        for other_run in bench.list_runs()
        if other_run.testset == subject.facts.get("testset")
    ]
    return {
        "template": "run.html",
        "title": entry.label or name,
        "run": name,
        "headline": report.headline,
        "facts": subject.facts,
        "measures": entry.summaries,
        "notes": subject.notes,
        "others": [other_run for other_run in earlier if other_run.id != entry.run][:20],
    }


def _board_values(subject: Subject, board: Board, run: str) -> dict[str, Any]:
    known = {entry.id: entry for entry in subject.entries}
    entries = [known[name] for name in board.entries if name in known]
    goals = [goal.name for goal in subject.goals if goal.name in subject.measures]
    measures = list(dict.fromkeys([*goals, *subject.measures]))
    first = [entry.summary(measures[0]) for entry in entries]
    span = span_of(end for summary in first if summary for end in summary.deciding)
    keys = subject.keys
    lines: list[dict[str, Any]] = []
    for place, entry in enumerate(entries, 1):
        if place > _RANKED and entry.id != subject.incumbent:
            continue
        current = entry.id == subject.incumbent
        lead = entry.summary(measures[0])
        lines.append(
            {
                "place": place,
                "entry": entry,
                "current": current,
                "front": entry.id in board.front and len(subject.goals) > 1,
                "lead": lead,
                "strip": strip(*lead.deciding, span) if lead else "",
                "values": [
                    value_text(entry.shown[key]) if key in entry.shown else "" for key in keys
                ],
                "measures": [entry.summary(name) for name in measures[1:]],
                "facts": [_fact_text(entry, name) for name in _FACTS],
                "compare": ""
                if current or not subject.incumbent
                else f"/compare?baseline={run}:{subject.incumbent}&run={run}:{entry.id}",
            }
        )
    facts = [any(line["facts"][at] != "" for line in lines) for at in range(len(_FACTS))]
    return {
        "judge": board.judge,
        "lines": lines,
        "hidden": len(entries) - len(lines),
        "keys": _short_keys(keys),
        "lead": measures[0] if measures else "",
        "measures": measures[1:],
        "facts": [
            name for name, has_value in zip(_FACTS.values(), facts, strict=True) if has_value
        ],
        "held": facts,
    }


def _short_keys(keys: Sequence[str]) -> list[tuple[str, str]]:
    """Each key with its last parts, two at least, that no other one ends with."""
    short = []
    for key in keys:
        parts = key.split(".")
        tails = [".".join(parts[-length:]) for length in range(2, len(parts) + 1)]
        alone = (t for t in tails if sum(k == t or k.endswith(f".{t}") for k in keys) == 1)
        short.append((key, next(alone, key)))
    return short


def _fact_text(entry: ScoredRun, name: str) -> str:
    value = entry.facts.get(name)
    if not value:
        return ""
    return f"{value:,.0f}" if name == "context_tokens" else f"{value:.4g}"


def _tradeoff_plot(subject: Subject, run: str) -> dict[str, Any] | None:
    """The first objective over what an answer takes: the further objective, cost, or context."""
    if not subject.boards or not subject.goals:
        return None
    goal = subject.goals[0].name
    among = [goal.name for goal in subject.goals[1:]] + ["cost", "context_tokens"]
    board = subject.boards[0]
    entries = [entry for entry in subject.entries if entry.id in set(board.entries)]
    kinds = {board.entries[0]: "best", subject.incumbent: "current"}
    for other in among:
        points = [
            PlotPoint(
                x,
                y,
                entry.label or entry.id,
                summary.low if (summary := entry.summary(goal)) else None,
                summary.high if summary else None,
                kinds.get(entry.id, ""),
                entry.id in board.front,
                f"/experiments/{run}:{entry.id}",
            )
            for entry in entries
            if (x := entry.value(other)) is not None and (y := entry.value(goal)) is not None
        ]
        if span_of(point.x for point in points) is not None:
            name = "tokens of context" if other == "context_tokens" else other
            return {"svg": scatter(points, name, goal), "x": name, "y": goal}
    return None


def _trials_without_result(subject: Subject) -> list[str]:
    """Trials without a result, by reason."""
    groups: dict[str, list[str]] = {}
    for entry in subject.entries:
        if entry.state != "done":
            reason = f"{entry.state}: {entry.reason}" if entry.reason else entry.state
            groups.setdefault(reason, []).append(entry.id)
    return [
        f"{len(names)} {reason} ({', '.join(names[:5])}{', …' if names[5:] else ''})"
        for reason, names in groups.items()
    ]


@router.get("/experiments/{run}/report", response_class=HTMLResponse)
async def report(request: Request, run: str, baseline: str = "") -> HTMLResponse:
    """Show the report of a run, or of a run against a baseline that was chosen before."""
    names = [baseline, run] if baseline else [run]
    html = await run_as_owner(request, lambda bench: bench.report(*names).html())
    if isinstance(html, HTMLResponse):
        return html
    # The report states what its own scripts may do; nothing is loaded from elsewhere.
    return HTMLResponse(html, headers=dict(PRIVATE))


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
    deciding = [entry.deciding for entry in comparisons.measures]
    ends = [end for one in deciding for end in (one.low, one.high, one.difference)]
    span = span_of([0.0, *ends])  # a common axis for the differences
    end = wanted.start + len(rows)
    verdicts = {entry.verdict for entry in comparisons.measures} - {"no change proven"}
    return {
        "title": f"{labels[1]} compared with {labels[0]}",
        "baseline": wanted.baseline,
        "run": wanted.run,
        "labels": labels,
        "state": verdicts.pop() if len(verdicts) == 1 else "mixed" if verdicts else "open",
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
    kinds: tuple[tuple[str, str, Callable[[AnswerRecord], float | None]], ...] = (
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


def _mean_of_answers(side: Evaluation, of: Callable[[AnswerRecord], float | None]) -> float | None:
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
            rows.append(
                {
                    "id": after.row_id,
                    "question": after.row.user_input if after.row else after.row_id,
                    "cells": cells,
                    "order": (-abs(good) if kind != "all" else at, not moved, at),
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
    sides = await run_as_owner(
        request,
        lambda bench: [
            (
                name,
                next(
                    (result for result in bench.results(name).results if result.row_id == id), None
                ),
            )
            for name in names
        ],
    )
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
