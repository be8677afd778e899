"""Testsets: a review queue that is worked by keyboard, by several people at once."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import quote, unquote, urlencode

from fastapi import APIRouter, Form, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response
from pydantic import BaseModel, Field

from ...core import RagwrightError, Row, TestsetError, current_user, value_hash
from ...testsets import (
    ReviewStatus,
    TestsetReview,
    answer_in_evidence,
    holds_reviews,
    review_status,
    row_record,
    stale_rows,
)
from .._api import caller_of, service_of
from .._errors import ApiError
from .._links import source_url
from ._base import error_page, local_path, page

if TYPE_CHECKING:
    from ...workbench import Workbench

router = APIRouter()

_QUEUES = {"open": "to review", "all": "all rows", "disputed": "disputed"}
_REVIEWER = "ragwright_reviewer"
"""Cookie with the name of a reviewer who has no key."""

_YEAR = 365 * 24 * 3600
_LONGEST = 20_000
_LEAKY = 0.5
"""Leak from which a question is marked."""

_DECISIONS: dict[str, ReviewStatus] = {
    "accepted": "accepted",
    "edited": "accepted",  # the review finds out whether anything was edited
    "rejected": "rejected",
}
_MARKS = ("review", "reviewed_by", "reviewed_at")


@dataclass(frozen=True, slots=True)
class _Queue:
    """What a reviewer looks at."""

    name: str
    by: str
    only: str = "open"
    row: str = ""

    def address(self, row: str = "", **more: str) -> str:
        """The page with a row."""
        kept = {"only": self.only if self.only != "open" else "", "row": row, **more}
        query = urlencode({name: value for name, value in kept.items() if value})
        return f"/testsets/{quote(self.name)}" + (f"?{query}" if query else "")


def _reviewer(request: Request) -> str:
    """The name of the key, else what the person called themselves, else this machine's user."""
    return caller_of(request).name or unquote(request.cookies.get(_REVIEWER, "")) or current_user()


@router.get("/testsets", response_class=HTMLResponse)
async def testsets(request: Request) -> HTMLResponse:
    """List the testsets of the project with the state of their review."""
    service, caller = service_of(request), caller_of(request)
    try:
        caller.require_owner()
        found = await service.for_page(_listed, service.folder.testsets, _reviewer(request))
    except (RagwrightError, ApiError) as error:
        return error_page(request, error)
    return page(request, "testsets.html", {"title": "Testsets", "testsets": found})


def _listed(folder: Path, by: str) -> list[dict[str, Any]]:
    found = []
    for path in _files(folder):
        line: dict[str, Any] = {"name": path.name, "fault": ""}
        try:
            review = TestsetReview(path, by)
            labels = review.labels()
            line |= {"rows": len(review.rows), "counts": review.counts()}
            line |= {"own": len(labels.of(by)), "agreement": labels.agreement()}
        except TestsetError as error:
            line["fault"] = f"{error.what} ({error.where})" if error.where else error.what
        found.append(line)
    return found


def _files(folder: Path) -> list[Path]:
    named = [*folder.glob("*.jsonl"), *folder.glob("*.json")] if folder.is_dir() else []
    return sorted(p for p in named if not holds_reviews(p) and p.name != "openings.jsonl")


def _path(folder: Path, name: str) -> Path:
    """A testset by its name, which is compared and never opened as a path.

    Raises:
        ApiError: 404; there is none.
    """
    for path in _files(folder):
        if path.name == name:
            return path
    raise ApiError(404, f"there is no testset {name!r}", "not_found")


@router.post("/testsets/reviewer")
async def reviewer(request: Request, by: str = Form(""), next: str = Form("/testsets")) -> Response:  # noqa: A002
    """Remember what a reviewer without a key is called."""
    reply = RedirectResponse(local_path(next), 303)
    name = " ".join(by.split())[:80]
    if name and name.isprintable():
        reply.set_cookie(_REVIEWER, quote(name), max_age=_YEAR, httponly=True, samesite="strict")
    return reply


@router.get("/testsets/{name}", response_class=HTMLResponse)
async def review(
    request: Request, name: str, row: str = "", only: str = "open", said: str = ""
) -> HTMLResponse:
    """Show a row of a testset, and what can be decided."""
    queue = _Queue(name, _reviewer(request), only if only in _QUEUES else "open", row)
    return await _page(request, queue, {"said": said[:200]})


async def _page(request: Request, queue: _Queue, more: dict[str, Any]) -> HTMLResponse:
    service, caller = service_of(request), caller_of(request)
    try:
        caller.require_owner()
        opened, _ = service.find("", None)
        path = _path(service.folder.testsets, queue.name)
        async with service.using(opened) as bench:
            values = await service.for_page(_shown, bench, path, queue)
    except (RagwrightError, ApiError) as error:
        return error_page(request, error)
    plain = {"conflict": "", "kept": {}, "said": "", **more}
    # htmx shows only pages that went well; the page itself says what did not.
    status = 409 if plain["conflict"] and "HX-Request" not in request.headers else 200
    fixed = bool(caller.name)
    return page(request, "review.html", {**values, **plain, "fixed": fixed}, status=status)


def _shown(bench: Workbench, path: Path, queue: _Queue) -> dict[str, Any]:
    found = TestsetReview(path, queue.by)
    labels = found.labels()
    own, agreement = labels.of(queue.by), labels.agreement()
    queues = {
        "open": [row for row in found.rows if row.id not in own],
        "all": list(found.rows),
        "disputed": [row for row in found.rows if row.id in agreement.disputed],
    }
    listed = queues[queue.only]
    ids = [row.id for row in listed]
    known = {row.id: row for row in found.rows}
    present = known.get(queue.row) or (listed[0] if listed else None)
    at = ids.index(present.id) if present is not None and present.id in ids else -1
    around = [ids[(at + step) % len(ids)] if ids and len(ids) > 1 else "" for step in (-1, 1)]
    if at < 0 and present is not None:  # decided already, so no longer in the queue
        around = [ids[-1] if ids else "", _after(found.rows, present.id, set(ids))]
    return {
        "title": f"Testset {path.name}",
        "name": path.name,
        "by": queue.by,
        "only": queue.only,
        "here": queue.address(queue.row),
        "queues": [
            {
                "label": f"{label} ({len(queues[key])})",
                "here": key == queue.only,
                "href": replace(queue, only=key).address(),
            }
            for key, label in _QUEUES.items()
        ],
        "counts": found.counts(),
        "total": len(found.rows),
        "own": len(own),
        "agreement": agreement,
        "row": None if present is None else _row(bench, present, queue),
        "decisions": _visible(labels.by_row.get(present.id, {}), queue.by) if present else [],
        "decided": own.get(present.id, "") if present else "",
        "place": at + 1,
        "of": len(ids),
        "previous": queue.address(around[0]) if around[0] else "",
        "next": queue.address(around[1]) if around[1] else "",
        "can_undo": bool(own),
        "action": f"/testsets/{quote(path.name)}",
    }


def _visible(given: Any, by: str) -> list[tuple[str, str]]:
    """What people decided; hidden from those who have not decided yet, so that it sways nobody."""
    return sorted(given.items()) if by in given else []


def _row(bench: Workbench, row: Row, queue: _Queue) -> dict[str, Any]:
    leak = row.metadata.get("leak")
    return {
        "row": row,
        "shown": _hash(row),
        "status": review_status(row),
        "facts": [
            (key, str(row.metadata[key]))
            for key in ("kind", "level", "split", "suite", "language")
            if row.metadata.get(key)
        ],
        "leak": leak if isinstance(leak, int | float) else None,
        "leaky": isinstance(leak, int | float) and leak >= _LEAKY,
        "answerable": _answerable(row),
        "evidence": _evidence(bench, row),
    }


def _answerable(row: Row) -> tuple[str, str]:
    """Whether the evidence answers the question, as a kind of badge and a sentence."""
    if row.metadata.get("answerable") is False:
        return "caution", "marked as not answerable: a system should abstain"
    held = answer_in_evidence(row)
    if held is None:
        what = "gold answer" if not row.reference else "gold passage"
        return "", f"no {what}: read whether it can be answered"
    if held:
        return "good", "the gold answer is in the evidence"
    return "caution", "the gold answer is not in the evidence word for word: read it"


def _evidence(bench: Workbench, row: Row) -> list[dict[str, Any]]:
    def text_of(name: str) -> str | None:
        document = bench.project.store.document(name)
        return None if document is None else document.text

    stale = {one.span: one for one in stale_rows([row], text_of)}
    found = []
    for span in row.reference_spans:
        fault = ""
        if span in stale:
            moved = stale[span].now is not None
            fault = "moved in its document since" if moved else "not in its document any more"
        elif text_of(span.document_id) is None:
            fault = "its document is not in the index"
        url = source_url("", span.document_id, span.start, span.end, span.text)
        place = f"{span.document_id}, characters {span.start}-{span.end}"
        found.append({"place": place, "url": url, "text": span.text, "fault": fault})
    if not found:
        found = [
            {"place": "", "url": "", "text": text, "fault": ""} for text in row.reference_contexts
        ]
    return found


def _hash(row: Row) -> str:
    """What a reviewer saw of a row: all but its review."""
    plain = {key: value for key, value in row.metadata.items() if key not in _MARKS}
    return value_hash({**row_record(row), "metadata": plain})[:16]


def _after(rows: tuple[Row, ...], row: str, waiting: set[str]) -> str:
    """The next row that waits, in file order and around its end; empty if none does."""
    ids = [one.id for one in rows]
    at = ids.index(row) if row in ids else -1
    return next((name for name in ids[at + 1 :] + ids[: at + 1] if name in waiting), "")


class Given(BaseModel):
    """A decision as it comes from the form."""

    row: str = ""
    decision: str = ""
    question: str = Field("", max_length=_LONGEST)
    answer: str = Field("", max_length=_LONGEST)
    shown: str = ""
    only: str = "open"


@router.post("/testsets/{name}/decide")
async def decide(request: Request, name: str, given: Annotated[Given, Form()]) -> Response:
    """Store a decision and show the next row."""
    service, caller = service_of(request), caller_of(request)
    only = given.only if given.only in _QUEUES else "open"
    queue = _Queue(name, _reviewer(request), only, given.row)
    try:
        caller.require_owner()
        if given.decision not in _DECISIONS:
            raise ApiError(400, f"unknown decision {given.decision!r}", "invalid_value")
        path = _path(service.folder.testsets, name)
        opened, _ = service.find("", None)
        async with service.using(opened):
            following, made = await service.for_page(_decided, path, queue, given)
    except TestsetError as error:
        edits = {"question": given.question, "answer": given.answer}
        kept = edits if given.decision == "edited" else {}
        return await _page(request, queue, {"conflict": error.what, "kept": kept})
    except (RagwrightError, ApiError) as error:
        return error_page(request, error)
    return RedirectResponse(queue.address(following, said=f"{given.row}: {made}"), 303)


def _decided(path: Path, queue: _Queue, given: Given) -> tuple[str, str]:
    """Store a decision; the next row of the queue, and what was decided."""
    review = TestsetReview(path, queue.by)
    row = next((one for one in review.rows if one.id == given.row), None)
    if row is None or _hash(row) != given.shown:
        raise TestsetError(
            "Somebody changed this row after you opened it. Nothing was stored; look at it again."
        )
    edits = {"question": given.question, "answer": given.answer}
    made = review.decide(
        row, _DECISIONS[given.decision], **(edits if given.decision == "edited" else {})
    )
    labels = review.labels()
    own = labels.of(queue.by)
    waiting = {one.id for one in review.rows if one.id not in own}
    if queue.only == "all":
        waiting = {one.id for one in review.rows} - {row.id}
    elif queue.only == "disputed":
        waiting = set(labels.agreement().disputed) - {row.id}
    return _after(review.rows, row.id, waiting), review_status(made)


@router.post("/testsets/{name}/undo")
async def undo(request: Request, name: str, only: str = Form("open")) -> Response:
    """Undo this reviewer's last decision and show its row."""
    service, caller = service_of(request), caller_of(request)
    queue = _Queue(name, _reviewer(request), only if only in _QUEUES else "open")
    try:
        caller.require_owner()
        path = _path(service.folder.testsets, name)
        opened, _ = service.find("", None)
        async with service.using(opened):
            restored = await service.for_page(lambda: TestsetReview(path, queue.by).undo())
    except TestsetError as error:
        return await _page(request, queue, {"conflict": error.what})
    except (RagwrightError, ApiError) as error:
        return error_page(request, error)
    if restored is None:
        return RedirectResponse(queue.address(said="there is no decision of yours to undo"), 303)
    said = f"{restored.id}: your decision is undone"
    return RedirectResponse(queue.address(restored.id, said=said), 303)
