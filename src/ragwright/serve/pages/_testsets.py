"""Testsets: a review queue that is worked by keyboard, by several people at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import date, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, TypeVar
from urllib.parse import quote, urlencode

from fastapi import Form, Query, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response
from pydantic import BaseModel, Field

from ...core import Row, TestsetError, current_user, value_hash
from ...drafting import OutputQuery, ServedScore
from ...experiment import KnownRun, list_changed_settings
from ...jobs import measure_options
from ...measure import parse_measures
from ...testsets import (
    ReviewStatus,
    TestsetReview,
    answer_in_evidence,
    feedback_note,
    is_feedback,
    review_status,
    row_record,
    stale_rows,
)
from ...workbench import Workbench
from .._admission import Caller
from .._answers import source_url
from .._chat import caller_of, service_of
from .._errors import ApiError
from ._base import PRIVATE, VERDICTS, page, router, run_as_owner, testset_files

T = TypeVar("T")

_QUEUES = {"open": "to review", "all": "all rows", "disputed": "disputed"}
_LONGEST = 20_000

_DECISIONS: dict[str, ReviewStatus] = {
    "accepted": "accepted",
    "edited": "accepted",  # the review finds out whether anything was edited
    "rejected": "rejected",
}
_MARKS = ("review", "reviewed_by", "reviewed_at")


def _address(name: str, only: str, row: str = "", outcome: str = "") -> str:
    values = {"only": only if only != "open" else "", "row": row, "outcome": outcome}
    query = urlencode({key: value for key, value in values.items() if value})
    return f"/testsets/{quote(name)}" + (f"?{query}" if query else "")


def _require_reviewer(caller: Caller) -> str:
    """Refuse who may not review; the name that decisions are stored under."""
    if not caller.reviewer:
        fault = "this needs the role `reviewer`, without filters, or the role `owner`"
        raise ApiError(403, fault, "reviewer_only")
    if caller.restricted:
        raise ApiError(
            403,
            "testsets quote documents of all groups: this needs a reviewer who may read every "
            "document, or the role `owner`",
            "reviewer_only",
        )
    return caller.name or current_user()


@router.get("/testsets")
async def list_testsets(request: Request, outcome: str = "") -> HTMLResponse:
    """List the testsets of the project with the state of their review."""
    service, caller = service_of(request), caller_of(request)
    by = _require_reviewer(caller)
    lines = await service.for_page(_testset_lines, service.folder.testsets, by)
    values = {"title": "Testsets", "testsets": lines, "owner": caller.owner}
    return page(request, "testsets.html", {**values, "outcome": outcome[:200]})


def _testset_lines(folder: Path, by: str) -> list[dict[str, Any]]:
    lines = []
    for path in testset_files(folder):
        line: dict[str, Any] = {"name": path.name, "fault": ""}
        try:
            review = TestsetReview(path, by)
            queues = _queues(review)
            line |= {
                "rows": len(review.rows),
                "counts": review.counts(),
                "own": len(review.rows) - len(queues["open"]),
                "disputed": len(queues["disputed"]),
            }
        except TestsetError as error:
            line["fault"] = f"{error.what} ({error.where})" if error.where else error.what
        lines.append(line)
    return lines


@router.post("/testsets/collect")
async def collect(request: Request) -> Response:
    """Collect readers' feedback as candidate rows, and open their review."""
    path = await run_as_owner(request, lambda bench: bench.collect_feedback())
    if not path.exists():
        query = urlencode({"outcome": "No answer has feedback yet."})
        return RedirectResponse(f"/testsets?{query}", 303)
    return RedirectResponse(_address(path.name, "open"), 303)


async def _reviewing(
    request: Request, name: str, work: Callable[[Workbench, TestsetReview], T]
) -> T:
    """Return what ``work`` makes of a testset under review, called outside the event loop.

    The name is compared and never opened as a path.

    Raises:
        ApiError: 403, or 404 if the testset does not exist.
    """
    service, by = service_of(request), _require_reviewer(caller_of(request))
    path = next((p for p in testset_files(service.folder.testsets) if p.name == name), None)
    if path is None:
        raise ApiError(404, f"the testset {name!r} does not exist", "not_found")
    async with service.main() as bench:
        return await service.for_page(lambda: work(bench, TestsetReview(path, by)))


@router.get("/testsets/{name}")
async def review(
    request: Request, name: str, row: str = "", only: str = "open", outcome: str = ""
) -> HTMLResponse:
    """Show a row of a testset, and what can be decided."""
    return await _review_page(request, name, only, row, outcome=outcome[:800])


async def _review_page(
    request: Request, name: str, only: str, row: str = "", **more: Any
) -> HTMLResponse:
    only = only if only in _QUEUES else "open"
    values = await _reviewing(
        request, name, lambda bench, review: _review_values(bench, review, only, row)
    )
    values |= {"conflict": "", "kept": {}, "outcome": "", **more}
    # htmx shows only pages that went well; the page itself says what did not.
    status = 409 if values["conflict"] and "HX-Request" not in request.headers else 200
    return page(request, "review.html", values, status=status)


def _queues(review: TestsetReview) -> dict[str, list[str]]:
    labels, ids = review.labels(), [row.id for row in review.rows]
    rejected = {row: {d == "rejected" for d in labels[row].values()} for row in labels}
    return {
        "open": [name for name in ids if review.by not in labels.get(name, {})],
        "all": ids,
        "disputed": [name for name in ids if len(rejected.get(name, ())) > 1],
    }


def _rows_behind(review: TestsetReview, row: str, waiting: Sequence[str]) -> list[str]:
    """The ids of rows that wait, in file order behind a row and around the end of the file."""
    ids = [listed.id for listed in review.rows]
    at = ids.index(row) if row in ids else -1
    return [name for name in ids[at + 1 :] + ids[: max(at, 0)] if name in waiting]


def _review_values(
    bench: Workbench, review: TestsetReview, only: str, wanted: str
) -> dict[str, Any]:
    name, queues, labels = review.path.name, _queues(review), review.labels()
    ids, own = queues[only], len(review.rows) - len(queues["open"])
    by_id = {row.id: row for row in review.rows}
    row = by_id.get(wanted) or (by_id[ids[0]] if ids else None)
    behind = _rows_behind(review, row.id, ids) if row else []
    decisions = labels.get(row.id, {}) if row else {}
    return {
        "title": f"Testset {name}",
        "name": name,
        "by": review.by,
        "only": only,
        "queues": [
            {
                "label": f"{label} ({len(queues[key])})",
                "here": key == only,
                "href": _address(name, key),
            }
            for key, label in _QUEUES.items()
        ],
        "counts": review.counts(),
        "total": len(review.rows),
        "own": own,
        "row": row,
        "shown": _shown_row_hash(row) if row else "",
        "status": review_status(row) if row else "",
        "answerable": _answer_badge(row) if row else (),
        "evidence": _evidence_lines(bench, row) if row else (),
        "note": feedback_note(row) if row and is_feedback(row) else None,
        # Hidden from those who have not decided yet.
        "decisions": sorted(decisions.items()) if review.by in decisions else [],
        "place": ids.index(row.id) + 1 if row and row.id in ids else 0,
        "of": len(ids),
        "previous": _address(name, only, behind[-1]) if behind else "",
        "next": _address(name, only, behind[0]) if behind else "",
        "can_undo": bool(own),
        "action": f"/testsets/{quote(name)}",
    }


def _answer_badge(row: Row) -> tuple[str, str]:
    """Return whether the evidence answers the question, as a kind of badge and a sentence."""
    if row.metadata.get("answerable") is False:
        return "caution", "marked as not answerable: a system should abstain"
    missing = "gold answer" if not row.reference else "gold passage"
    return {
        None: ("", f"no {missing}: read whether it can be answered"),
        True: ("good", "the gold answer is in the evidence"),
        False: ("caution", "the gold answer is not in the evidence word for word: read it"),
    }[answer_in_evidence(row)]


def _evidence_lines(bench: Workbench, row: Row) -> list[dict[str, Any]]:
    def text_of(name: str) -> str | None:
        document = bench.project.store.document(name)
        return None if document is None else document.text

    stale = {
        span.span: "not in its document any more"
        if span.now is None
        else "moved in its document since"
        for span in stale_rows([row], text_of)
    }
    lines = [
        {
            "place": f"{span.document_id}, characters {span.start}-{span.end}",
            "url": source_url("", span.document_id, span.start, span.end, span.text),
            "text": span.text,
            "fault": stale.get(span, "")
            if text_of(span.document_id) is not None
            else "its document is not in the index",
        }
        for span in row.reference_spans
    ]
    if lines or is_feedback(row):
        return lines
    return [{"text": text, "url": ""} for text in row.reference_contexts]


def _shown_row_hash(row: Row) -> str:
    """Return a hash of what a reviewer saw of a row: all but its review."""
    metadata = {key: value for key, value in row.metadata.items() if key not in _MARKS}
    return value_hash({**row_record(row), "metadata": metadata})[:16]


class DecisionForm(BaseModel):
    """A decision as it comes from the form."""

    row: str = ""
    decision: str = ""
    question: str = Field("", max_length=_LONGEST)
    answer: str = Field("", max_length=_LONGEST)
    shown: str = ""
    only: str = "open"


@router.post("/testsets/{name}/decide")
async def decide(request: Request, name: str, form: Annotated[DecisionForm, Form()]) -> Response:
    """Store a decision and show the next row."""
    try:
        following, outcome = await _reviewing(
            request, name, lambda _, review: _store_decision(review, form)
        )
    except TestsetError as error:
        edits = {"question": form.question, "answer": form.answer}
        kept = edits if form.decision == "edited" else {}
        problem = f"{error.what}. {error.hint}." if error.hint else error.what
        return await _review_page(request, name, form.only, form.row, conflict=problem, kept=kept)
    return RedirectResponse(_address(name, form.only, following, f"{form.row}: {outcome}"), 303)


def _store_decision(review: TestsetReview, form: DecisionForm) -> tuple[str, str]:
    """Store a decision; the next row of the queue, and what was decided."""
    if form.decision not in _DECISIONS:
        raise ApiError(400, f"unknown decision {form.decision!r}", "invalid_value")
    row = next((candidate for candidate in review.rows if candidate.id == form.row), None)
    if row is None or _shown_row_hash(row) != form.shown:
        raise TestsetError(
            "Somebody changed this row after you opened it. Nothing was stored; look at it again."
        )
    edits = {"question": form.question, "answer": form.answer}
    decided = review.decide(
        row, _DECISIONS[form.decision], **(edits if form.decision == "edited" else {})
    )
    queues = _queues(review)
    behind = _rows_behind(review, row.id, queues.get(form.only, queues["open"]))
    return next(iter(behind), ""), review_status(decided)


@router.post("/testsets/{name}/undo")
async def undo(request: Request, name: str, only: str = Form("open")) -> Response:
    """Undo this reviewer's last decision and show its row."""
    try:
        restored = await _reviewing(request, name, lambda _, review: review.undo())
    except TestsetError as error:
        return await _review_page(request, name, only, conflict=error.what)
    row, outcome = "", "you have no decision to undo"
    if restored is not None:
        row, outcome = restored.id, f"{restored.id}: your decision is undone"
    return RedirectResponse(_address(name, only, row, outcome), 303)


_LISTED = 50
_PERIOD = 28
"""Days of the figures at the top."""


@dataclass(frozen=True, slots=True)
class _OutputListing:
    """The texts to list, as the address of the page says."""

    verdict: str = ""
    day: str = ""
    worst: str = ""
    page: int = 1

    def href(self, **other: Any) -> str:
        """The address of the listing with something changed."""
        values = {key: value for key, value in asdict(replace(self, **other)).items() if value}
        return f"/outputs?{urlencode(values)}#texts"

    def query(self) -> OutputQuery:
        """The query of the listing."""
        since = until = ""
        try:
            if self.day:
                since = date.fromisoformat(self.day).isoformat()
                until = (date.fromisoformat(since) + timedelta(days=1)).isoformat()
        except (ValueError, OverflowError):
            raise ApiError(400, f"{self.day!r} is not a day", "invalid_value") from None
        verdict = VERDICTS.get(self.verdict, "")
        return OutputQuery(kind="text", scope=None, verdict=verdict, since=since, until=until)


@router.get("/outputs")
async def outputs(
    request: Request,
    verdict: str = "",
    day: str = "",
    worst: str = "",
    at: int = Query(1, alias="page", ge=1, le=1_000_000),
) -> HTMLResponse:
    """List texts with their scores: newest first, or the worst by a measure."""
    listing = _OutputListing(verdict, day, worst, at)
    values = await run_as_owner(request, lambda bench: _outputs_values(bench, listing))
    return page(request, "outputs.html", {"title": "Outputs", "listing": listing, **values})


def _outputs_values(bench: Workbench, listing: _OutputListing) -> dict[str, Any]:
    """A page of the texts, the ways to the pages beside it, and what all scores say.

    The scores are of all tenants together: numbers, no texts.
    """
    stored, query = bench.outputs, listing.query()
    worst: dict[str, Any] = {}
    if listing.worst:
        measure = parse_measures(listing.worst)[0]
        worst |= {"worst_by": str(measure), "higher_is_better": measure.definition.higher_is_better}
    skipped = (listing.page - 1) * _LISTED
    texts = list(stored.find(query, limit=_LISTED, offset=skipped, newest=True, **worst))
    scores: dict[str, list[ServedScore]] = {}
    for score in stored.scores.of(*(text.id for text in texts)) if texts else ():
        scores.setdefault(score.output, []).append(score)
    total = stored.count(query)
    return {
        "outputs": texts,
        "scores": scores,
        "total": total,
        "first": skipped + 1,
        "previous": listing.href(page=listing.page - 1) if listing.page > 1 else "",
        "next": listing.href(page=listing.page + 1) if skipped + len(texts) < total else "",
        "options": measure_options(bench.project.settings),
        "served": stored.scores.served(_PERIOD),
        "period": _PERIOD,
        "today": stored.scores.today(),
        "waiting": stored.scores.count_waiting(),
        "report": bench.drift(),
    }


@router.get("/outputs/{name}")
async def output(request: Request, name: str) -> HTMLResponse:
    """Show a text with its passages, its prompt and its feedback history."""

    def values(bench: Workbench) -> dict[str, Any]:
        stored = bench.outputs
        output = stored.get(name)
        return {
            "title": f"Output {name}",
            "output": output,
            "hits": stored.used(name),
            "prompt": stored.get(output.prompt) if output.prompt else None,
            "feedback": stored.feedback(name),
            "scores": stored.scores.of(name),
        }

    return page(request, "output.html", await run_as_owner(request, values))


@router.post("/outputs/{name}")
async def respond(
    request: Request,
    name: str,
    verdict: str = Form(""),
    note: str = Form("", max_length=10_000),
    correction: str = Form("", max_length=10_000),
) -> Response:
    """Store what the reader says of a text."""
    by, response = caller_of(request).name or "pages", VERDICTS.get(verdict, "")
    await run_as_owner(
        request,
        lambda bench: bench.outputs.respond(
            name, by=by, verdict=response, note=note, correction=correction
        ),
    )
    return RedirectResponse(f"/outputs/{name}", 303)


_RUNS = 200
_SCORED = 20
"""Runs whose scores are listed, the newest."""
_SWEEPS = 20
_BASELINES = 20


@router.get("/experiments")
async def experiments(request: Request) -> HTMLResponse:
    """List sweeps, baselines and runs, newest first."""
    return page(request, "experiments.html", await run_as_owner(request, _listed_runs))


def _listed_runs(bench: Workbench) -> dict[str, Any]:
    runs = bench.list_runs()
    by_testset: dict[str, list[KnownRun]] = {}
    for run in runs[:_RUNS]:
        by_testset.setdefault(run.testset, []).append(run)
    known = {run.id: bench.results(run.id) for run in runs[:_SCORED]}
    means = {
        name: {summary.measure: summary for summary in evaluation.summaries}
        for name, evaluation in known.items()
    }
    changes: dict[str, list[str]] = {}
    for group in by_testset.values():
        for run, before in pairwise(group):
            if before.id in known:
                changed = list_changed_settings(known[before.id], known[run.id])
                changes[run.id] = [change.text for change in changed]
    return {
        "title": "Experiments",
        "groups": by_testset,
        "measures": {
            testset: _measure_columns(name for run in group for name in run.measures)
            for testset, group in by_testset.items()
        },
        "means": means,
        "changes": changes,
        "abstained": any(entry.missed for run in means.values() for entry in run.values()),
        "left_out": max(0, len(runs) - _RUNS),
        "sweeps": bench.list_sweeps()[:_SWEEPS],
        "baselines": bench.list_baselines(_BASELINES),
    }


def _measure_columns(names: Iterable[str]) -> list[str]:
    """The measures in order, those that differ in their depth alone side by side by depth."""
    cut = dict.fromkeys(name.partition("@")[::2] for name in names)
    first = list(dict.fromkeys(base for base, _ in cut))
    ordered = sorted(cut, key=lambda pair: (first.index(pair[0]), len(pair[1]), pair[1]))
    return ["@".join(filter(None, pair)) for pair in ordered]


@router.get("/compare")
@router.get("/experiments/{run}")
async def report(request: Request, run: str, baseline: str = "") -> HTMLResponse:
    """Show the report of a run, or of a run against a baseline that was chosen before."""
    names = [baseline, run] if baseline else [run]
    home = f"{service_of(request).options.prefix}/experiments"
    html = await run_as_owner(request, lambda bench: bench.report(*names).html(home))
    # The report states what its own scripts may do; nothing is loaded from elsewhere.
    return HTMLResponse(html, headers=dict(PRIVATE))
