"""Testsets: a review queue that is worked by keyboard, by several people at once."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import quote, unquote, urlencode

from fastapi import Form, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response
from pydantic import BaseModel, Field

from ...core import RagwrightError, Row, TestsetError, current_user, holds_secret, value_hash
from ...project import project_keys, setting_places
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
from .._configurations import OpenConfiguration
from .._errors import ApiError
from .._service import OF_A_SERVER
from ._base import error_page, local_path, page, router

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
    """The queue that a reviewer works on."""

    name: str
    by: str
    only: str = "open"
    row: str = ""

    def address(self, row: str = "", **more: str) -> str:
        """The page with a row."""
        parameters = {"only": self.only if self.only != "open" else "", "row": row, **more}
        query = urlencode({name: value for name, value in parameters.items() if value})
        return f"/testsets/{quote(self.name)}" + (f"?{query}" if query else "")


def _reviewer_name(request: Request) -> str:
    """The name of the key, else what the person called themselves, else this machine's user."""
    return caller_of(request).name or unquote(request.cookies.get(_REVIEWER, "")) or current_user()


def _require_reviewer(caller: Caller) -> None:
    """Refuse who may not review, and whom groups of readers hide documents that rows may quote.

    Raises:
        ApiError: 403.
    """
    caller.require_reviewer()
    if caller.hindered:
        raise ApiError(
            403,
            "testsets quote documents of all groups: this needs a reviewer who may read every "
            "document, or the role `owner`",
            "reviewer_only",
        )


@router.get("/testsets", response_class=HTMLResponse)
async def testsets(request: Request) -> HTMLResponse:
    """List the testsets of the project with the state of their review."""
    service, caller = service_of(request), caller_of(request)
    try:
        _require_reviewer(caller)
        lines = await service.for_page(
            _testset_lines, service.folder.testsets, _reviewer_name(request)
        )
    except (RagwrightError, ApiError) as error:
        return error_page(request, error)
    outcome = request.query_params.get("outcome", "")[:200]
    values = {"title": "Testsets", "testsets": lines, "outcome": outcome, "owner": caller.owner}
    return page(request, "testsets.html", values)


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


def _testset_path(folder: Path, name: str) -> Path:
    """A testset by its name, which is compared and never opened as a path.

    Raises:
        ApiError: 404; there is none.
    """
    for path in _testset_files(folder):
        if path.name == name:
            return path
    raise ApiError(404, f"there is no testset {name!r}", "not_found")


@router.post("/testsets/collect")
async def collect(request: Request) -> Response:
    """Collect readers' feedback as candidate rows, and open their review."""
    service, caller = service_of(request), caller_of(request)
    try:
        caller.require_owner()
        opened, _ = service.find("", None)
        async with service.using(opened) as bench:
            path = await service.for_page(bench.collect_feedback)
    except (RagwrightError, ApiError) as error:
        return error_page(request, error)
    if not path.exists():
        return RedirectResponse(
            f"/testsets?{urlencode({'outcome': 'No answer has feedback yet.'})}", 303
        )
    return RedirectResponse(_Queue(path.name, _reviewer_name(request)).address(), 303)


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
    request: Request, name: str, row: str = "", only: str = "open", outcome: str = ""
) -> HTMLResponse:
    """Show a row of a testset, and what can be decided."""
    queue = _Queue(name, _reviewer_name(request), only if only in _QUEUES else "open", row)
    return await _review_page(request, queue, {"outcome": outcome[:800]})


async def _review_page(request: Request, queue: _Queue, more: dict[str, Any]) -> HTMLResponse:
    service, caller = service_of(request), caller_of(request)
    try:
        _require_reviewer(caller)
        opened, _ = service.find("", None)
        path = _testset_path(service.folder.testsets, queue.name)
        async with service.using(opened) as bench:
            values = await service.for_page(_review_values, bench, path, queue)
    except (RagwrightError, ApiError) as error:
        return error_page(request, error)
    defaults = {"conflict": "", "kept": {}, "outcome": "", **more}
    # htmx shows only pages that went well; the page itself says what did not.
    status = 409 if defaults["conflict"] and "HX-Request" not in request.headers else 200
    fixed = bool(caller.name)
    return page(request, "review.html", {**values, **defaults, "fixed": fixed}, status=status)


def _review_values(bench: Workbench, path: Path, queue: _Queue) -> dict[str, Any]:
    review = TestsetReview(path, queue.by)
    labels = review.labels()
    own, agreement = labels.of(queue.by), labels.agreement()
    queues = {
        "open": [row for row in review.rows if row.id not in own],
        "all": list(review.rows),
        "disputed": [row for row in review.rows if row.id in agreement.disputed],
    }
    queue_rows = queues[queue.only]
    ids = [row.id for row in queue_rows]
    by_id = {row.id: row for row in review.rows}
    current = by_id.get(queue.row) or (queue_rows[0] if queue_rows else None)
    at = ids.index(current.id) if current is not None and current.id in ids else -1
    neighbours = [ids[(at + step) % len(ids)] if ids and len(ids) > 1 else "" for step in (-1, 1)]
    if at < 0 and current is not None:  # decided already, so no longer in the queue
        neighbours = [ids[-1] if ids else "", _next_waiting(review.rows, current.id, set(ids))]
    decisions = labels.by_row.get(current.id, {}) if current else {}
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
        "counts": review.counts(),
        "total": len(review.rows),
        "own": len(own),
        "agreement": agreement,
        "row": None if current is None else _row_values(bench, current),
        # Hidden from those who have not decided yet.
        "decisions": sorted(decisions.items()) if queue.by in decisions else [],
        "decided": own.get(current.id, "") if current else "",
        "place": at + 1,
        "of": len(ids),
        "previous": queue.address(neighbours[0]) if neighbours[0] else "",
        "next": queue.address(neighbours[1]) if neighbours[1] else "",
        "can_undo": bool(own),
        "action": f"/testsets/{quote(path.name)}",
    }


def _row_values(bench: Workbench, row: Row) -> dict[str, Any]:
    leak = row.metadata.get("leak")
    return {
        "row": row,
        "shown": _shown_row_hash(row),
        "status": review_status(row),
        "facts": [
            (key, str(row.metadata[key]))
            for key in ("kind", "level", "split", "suite", "language")
            if row.metadata.get(key)
        ],
        "leak": leak if isinstance(leak, int | float) else None,
        "leaky": isinstance(leak, int | float) and leak >= _LEAKY,
        "answerable": _answer_badge(row),
        "evidence": _evidence_lines(bench, row),
        "feedback": is_feedback(row),
        "note": feedback_note(row) if is_feedback(row) else "",
    }


def _answer_badge(row: Row) -> tuple[str, str]:
    """Return whether the evidence answers the question, as a kind of badge and a sentence."""
    if row.metadata.get("answerable") is False:
        return "caution", "marked as not answerable: a system should abstain"
    in_evidence = answer_in_evidence(row)
    if in_evidence is None:
        missing = "gold answer" if not row.reference else "gold passage"
        return "", f"no {missing}: read whether it can be answered"
    if in_evidence:
        return "good", "the gold answer is in the evidence"
    return "caution", "the gold answer is not in the evidence word for word: read it"


def _evidence_lines(bench: Workbench, row: Row) -> list[dict[str, Any]]:
    def text_of(name: str) -> str | None:
        document = bench.project.store.document(name)
        return None if document is None else document.text

    stale = {stale_span.span: stale_span for stale_span in stale_rows([row], text_of)}
    lines: list[dict[str, Any]] = []
    for span in row.reference_spans:
        fault = ""
        if span in stale:
            moved = stale[span].now is not None
            fault = "moved in its document since" if moved else "not in its document any more"
        elif text_of(span.document_id) is None:
            fault = "its document is not in the index"
        url = source_url("", span.document_id, span.start, span.end, span.text)
        place = f"{span.document_id}, characters {span.start}-{span.end}"
        lines.append({"place": place, "url": url, "text": span.text, "fault": fault})
    if not (lines or is_feedback(row)):
        lines = [
            {"place": "", "url": "", "text": text, "fault": ""} for text in row.reference_contexts
        ]
    return lines


def _shown_row_hash(row: Row) -> str:
    """Return a hash of what a reviewer saw of a row: all but its review."""
    metadata = {key: value for key, value in row.metadata.items() if key not in _MARKS}
    return value_hash({**row_record(row), "metadata": metadata})[:16]


def _next_waiting(rows: tuple[Row, ...], row: str, waiting: set[str]) -> str:
    """The next row that waits, in file order and around its end; empty if none does."""
    ids = [listed_row.id for listed_row in rows]
    at = ids.index(row) if row in ids else -1
    return next((name for name in ids[at + 1 :] + ids[: at + 1] if name in waiting), "")


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
    service, caller = service_of(request), caller_of(request)
    only = form.only if form.only in _QUEUES else "open"
    queue = _Queue(name, _reviewer_name(request), only, form.row)
    try:
        _require_reviewer(caller)
        if form.decision not in _DECISIONS:
            raise ApiError(400, f"unknown decision {form.decision!r}", "invalid_value")
        path = _testset_path(service.folder.testsets, name)
        opened, _ = service.find("", None)
        async with service.using(opened):
            following, outcome = await service.for_page(_store_decision, path, queue, form)
    except TestsetError as error:
        edits = {
            "question": form.question,
            "answer": form.answer,
        }
        edited = edits if form.decision == "edited" else {}
        problem = f"{error.what}. {error.hint}." if error.hint else error.what
        return await _review_page(request, queue, {"conflict": problem, "kept": edited})
    except (RagwrightError, ApiError) as error:
        return error_page(request, error)
    return RedirectResponse(queue.address(following, outcome=f"{form.row}: {outcome}"), 303)


def _store_decision(path: Path, queue: _Queue, form: DecisionForm) -> tuple[str, str]:
    """Store a decision; the next row of the queue, and what was decided."""
    review = TestsetReview(path, queue.by)
    row = next((candidate for candidate in review.rows if candidate.id == form.row), None)
    if row is None or _shown_row_hash(row) != form.shown:
        raise TestsetError(
            "Somebody changed this row after you opened it. Nothing was stored; look at it again."
        )
    if form.decision == "edited":
        decided = review.decide(
            row,
            _DECISIONS[form.decision],
            question=form.question,
            answer=form.answer,
        )
    else:
        decided = review.decide(row, _DECISIONS[form.decision])
    labels = review.labels()
    own = labels.of(queue.by)
    waiting = {c.id for c in review.rows if c.id not in own}
    if queue.only == "all":
        waiting = {candidate.id for candidate in review.rows} - {row.id}
    elif queue.only == "disputed":
        waiting = set(labels.agreement().disputed) - {row.id}
    return _next_waiting(review.rows, row.id, waiting), review_status(decided)


@router.post("/testsets/{name}/undo")
async def undo(request: Request, name: str, only: str = Form("open")) -> Response:
    """Undo this reviewer's last decision and show its row."""
    service, caller = service_of(request), caller_of(request)
    queue = _Queue(name, _reviewer_name(request), only if only in _QUEUES else "open")
    try:
        _require_reviewer(caller)
        path = _testset_path(service.folder.testsets, name)
        opened, _ = service.find("", None)
        async with service.using(opened):
            restored = await service.for_page(lambda: TestsetReview(path, queue.by).undo())
    except TestsetError as error:
        return await _review_page(request, queue, {"conflict": error.what})
    except (RagwrightError, ApiError) as error:
        return error_page(request, error)
    if restored is None:
        return RedirectResponse(queue.address(outcome="you have no decision to undo"), 303)
    message = f"{restored.id}: your decision is undone"
    return RedirectResponse(queue.address(restored.id, outcome=message), 303)


_HIDDEN = "… (not shown: it holds a password or a key)"

_LISTS = ("models.NAME", "sources.[]", "jobs.NAME")


@router.get("/settings", response_class=HTMLResponse)
async def settings(
    request: Request, configuration: str = "", show: str = "all", find: str = ""
) -> HTMLResponse:
    """List the keys, or those that hold a text; those that differ from defaults are marked."""
    service, caller = service_of(request), caller_of(request)
    try:
        caller.require_owner()
        names = [configured.name for configured in service.configurations(caller.identity)]
        opened, _ = service.find(configuration, caller.identity)
        sections = await service.for_page(_setting_sections, opened, show == "changed")
        sections = _sections_with_words(sections, find.casefold().split())
    except (RagwrightError, ApiError) as error:
        return error_page(request, error)
    values = {
        "title": "Settings",
        "keys": sections,
        "configurations": names,
        "configuration": opened.name,
        "served": opened.number,
        "find": find.strip(),
        "show": "changed" if show == "changed" else "all",
    }
    return page(request, "settings.html", values)


def _setting_sections(opened: OpenConfiguration, changed: bool) -> dict[str, list[dict[str, Any]]]:
    project = opened.bench.project
    overrides = tuple(text for text in project.session.overrides if text not in OF_A_SERVER)
    places = setting_places(project.folder.file, overrides)
    sections: dict[str, list[dict[str, Any]]] = {}
    for key, when, default, sentence in project_keys():
        if key.startswith(_LISTS):
            continue
        value = project.settings.value(key)
        if key == "budget.max_cost":
            value = default  # a server has a budget a day instead
        differs = value != default
        if changed and not differs:
            continue
        yaml_text = _yaml_value(value)
        sections.setdefault(key.partition(".")[0], []).append(
            {
                "key": key,
                "value": yaml_text,
                "default": _yaml_value(default),
                "changed": differs,
                "source": _value_source(key, places, differs, opened.number),
                "sentence": sentence,
                "index": when == "index",
                "line": ""
                if _HIDDEN in yaml_text
                else f"--set {shlex.quote(f'{key}={yaml_text}')}",
                "yaml": "" if _HIDDEN in yaml_text else _yaml_lines(key, yaml_text),
            }
        )
    return sections


def _sections_with_words(
    sections: dict[str, list[dict[str, Any]]], words: Sequence[str]
) -> dict[str, list[dict[str, Any]]]:
    """The keys whose name, value or sentence contains every word."""
    matching = {
        section: [
            row
            for row in rows
            if all(
                word in f"{row['key']} {row['value']} {row['sentence']}".casefold()
                for word in words
            )
        ]
        for section, rows in sections.items()
    }
    return {section: rows for section, rows in matching.items() if rows}


def _value_source(key: str, places: Mapping[str, str], differs: bool, number: int | None) -> str:
    """Return the place that a value comes from."""
    parts = key.split(".")
    for length in range(len(parts), 0, -1):
        where = places.get(".".join(parts[:length]), "")
        if where == "--set" or (where and length == len(parts) and number is None):
            return where
    if differs and number is not None:
        return f"promoted configuration {number}"
    return "project file" if differs else "default"


def _yaml_lines(key: str, yaml_text: str) -> str:
    """The lines of a project file that set a key."""
    *outer, last = key.split(".")
    lines = [f"{'  ' * depth}{part}:" for depth, part in enumerate(outer)]
    return "\n".join([*lines, f"{'  ' * len(outer)}{last}: {yaml_text}"])


def _yaml_value(value: Any) -> str:
    """A value as it is written in YAML, on one line."""
    return json.dumps(_json_without_secrets(value), ensure_ascii=False)


def _json_without_secrets(value: Any) -> Any:
    if is_dataclass(value) and not isinstance(value, type):
        return {
            field.name: _json_without_secrets(getattr(value, field.name)) for field in fields(value)
        }
    if isinstance(value, dict):
        return {str(key): _json_without_secrets(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_json_without_secrets(item) for item in value]
    if isinstance(value, str) and holds_secret(value):
        return _HIDDEN
    return value if isinstance(value, str | int | float | bool | None) else str(value)
