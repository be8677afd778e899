"""Testsets: a review queue that is worked by keyboard, by several people at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any, TypeVar
from urllib.parse import quote, urlencode

from fastapi import Form, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response
from pydantic import BaseModel, Field

from ...core import Row, TestsetError, current_user, value_hash
from ...testsets import (
    ReviewStatus,
    TestsetReview,
    answer_in_evidence,
    feedback_note,
    holds_reviews,
    is_feedback,
    review_status,
    row_record,
    stale_rows,
)
from ...workbench import Workbench
from .._admission import Caller
from .._answers import source_url
from .._api import caller_of, service_of
from .._errors import ApiError
from ._base import page, router, run_as_owner

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
    """The page of a testset with a row of a queue."""
    values = {"only": only if only != "open" else "", "row": row, "outcome": outcome}
    query = urlencode({key: value for key, value in values.items() if value})
    return f"/testsets/{quote(name)}" + (f"?{query}" if query else "")


def _require_reviewer(caller: Caller) -> str:
    """Refuse who may not review; the name that decisions are stored under.

    Raises:
        ApiError: 403; also to whom groups of readers hide documents that rows may quote.
    """
    caller.require_reviewer()
    if caller.hindered:
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
    for path in _testset_files(folder):
        line: dict[str, Any] = {"name": path.name, "fault": ""}
        try:
            review = TestsetReview(path, by)
            labels = review.labels()
            line |= {"rows": len(review.rows), "counts": review.counts()}
            line |= {"own": len(labels.of(by)), "agreement": labels.agreement()}
        except TestsetError as error:
            line["fault"] = f"{error.what} ({error.where})" if error.where else error.what
        lines.append(line)
    return lines


def _testset_files(folder: Path) -> list[Path]:
    paths = [*folder.glob("*.jsonl"), *folder.glob("*.json")] if folder.is_dir() else []
    return sorted(p for p in paths if not holds_reviews(p) and p.name != "openings.jsonl")


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
        ApiError: 403; or 404, there is no such testset.
    """
    service, by = service_of(request), _require_reviewer(caller_of(request))
    path = next((p for p in _testset_files(service.folder.testsets) if p.name == name), None)
    if path is None:
        raise ApiError(404, f"there is no testset {name!r}", "not_found")
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
    """The ids of the rows of each queue, in file order."""
    labels, ids = review.labels(), [row.id for row in review.rows]
    own, disputed = labels.of(review.by), labels.agreement().disputed
    return {
        "open": [name for name in ids if name not in own],
        "all": ids,
        "disputed": [name for name in ids if name in disputed],
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
    ids, own = queues[only], labels.of(review.by)
    by_id = {row.id: row for row in review.rows}
    row = by_id.get(wanted) or (by_id[ids[0]] if ids else None)
    behind = _rows_behind(review, row.id, ids) if row else []
    decisions = labels.by_row.get(row.id, {}) if row else {}
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
        "own": len(own),
        "agreement": labels.agreement(),
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
