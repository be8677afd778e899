"""``POST /retrieval``: passages for an external knowledge base of Dify."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, Any, Literal, TypeAlias

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, Response
from pydantic import Field

from ..core import Filter, Hit, prefix_filter
from ._admission import Caller, RequestNeeds, admit
from ._answers import hits_for
from ._api import Calls, Serves
from ._errors import KNOWLEDGE, ApiError, KnowledgeError, describe_errors
from ._links import source_url
from ._wire import Body, Text

router = APIRouter()

Value: TypeAlias = str | int | float | bool

_OPERATORS = {
    "is": "=", "=": "=", "is not": "!=", "≠": "!=", "!=": "!=", "start with": "^",
    ">": ">", "after": ">", "≥": ">=", ">=": ">=", "<": "<", "before": "<", "≤": "<=", "<=": "<=",
}  # fmt: skip
"""Ours for Dify's operators; the others, such as ``contains``, are refused."""


class DifyCondition(Body):
    """A condition on a field of metadata."""

    name: Annotated[list[str], Field(min_length=1, max_length=1)]
    comparison_operator: str
    value: Value | None = None


class DifyConditions(Body):
    """The conditions that passages must meet."""

    logical_operator: Literal["and", "or"] = "and"
    conditions: list[DifyCondition] = Field(default_factory=list, max_length=32)


class RetrievalSetting(Body):
    """How many passages, and the least score."""

    top_k: Annotated[int, Field(ge=1, le=1000, strict=True)] = 5
    score_threshold: Annotated[float, Field(ge=0, le=1, strict=True)] = 0.0


class KnowledgeRequest(Body):
    """A search of a knowledge base, whose id is the name of a configuration."""

    knowledge_id: str
    query: Text
    retrieval_setting: RetrievalSetting = Field(default_factory=RetrievalSetting)
    metadata_condition: DifyConditions | None = None


@router.post(
    KNOWLEDGE, responses=describe_errors(404, 429, 501, 502, 503, 504, model=KnowledgeError)
)
async def knowledge(
    request: Request, body: KnowledgeRequest, service: Serves, caller: Calls
) -> Response:
    """Find passages as an external knowledge base of Dify."""
    wanted = RequestNeeds(body.knowledge_id, "searches", "retrieval", request)
    setting = body.retrieval_setting
    async with admit(service, caller, wanted) as work:
        asking = work.asking()
        filters = (*asking.filters, *_filters(body.metadata_condition))
        asking = replace(asking, filters=filters)
        retrieval = await work.retrieved(body.query, setting.top_k, asking)
    records = [
        {
            "content": hit.text,
            "score": score,
            "title": hit.title or hit.source,
            "metadata": {"path": hit.source, **_attributes(hit, caller)},
        }
        for hit, score in zip(retrieval.hits, _unit_scores(retrieval.hits), strict=True)
        if score >= setting.score_threshold
    ]
    return JSONResponse({"records": records})


def _filters(wanted: DifyConditions | None) -> tuple[Filter, ...]:
    if wanted is None or not wanted.conditions:
        return ()
    if wanted.logical_operator == "or" and len(wanted.conditions) > 1:
        fault = "conditions joined by `or` are not supported; use `and`"
        raise _refusal(fault, "logical_operator")
    filters: list[Filter] = []
    for number, condition in enumerate(wanted.conditions):
        operator = _OPERATORS.get(condition.comparison_operator)
        place = f"conditions.{number}"
        if operator is None:
            raise _refusal(
                f"the operator {condition.comparison_operator!r} is not supported; use one of "
                f"{', '.join(_OPERATORS)}",
                f"{place}.comparison_operator",
            )
        value = condition.value
        if value is None:
            fault = f"`{condition.comparison_operator}` needs a value"
            raise _refusal(fault, f"{place}.value")
        if isinstance(value, bool) and operator not in ("=", "!="):
            raise _refusal("compare with a number or a text", f"{place}.value")
        filters += _compared(condition.name[0], operator, value)
    return tuple(filters)


def _refusal(fault: str, place: str) -> ApiError:
    return ApiError(400, fault, "invalid_filter", param=f"metadata_condition.{place}")


def _compared(name: str, operator: str, value: Value) -> tuple[Filter, ...]:
    """The hard filters of a comparison; ``^`` asks for values that begin so."""
    if operator in ("=", "!="):
        return (Filter(name, (value,), exclude=operator == "!="),)
    if operator == "^":
        return (prefix_filter(name, str(value)),)
    low, high = (value, None) if operator.startswith(">") else (None, value)
    within = Filter(name, (), low, high)
    # Bounds of ours are inclusive.
    return (within,) if operator.endswith("=") else (within, Filter(name, (value,), exclude=True))


def _unit_scores(hits: Sequence[Hit]) -> list[float]:
    """Scores between 0 and 1 in the same order.

    Those of keyword search have no upper end: then each score s becomes s / (1 + s).
    """
    scores = [max(0.0, hit.score) for hit in hits]
    if all(score <= 1 for score in scores):
        return scores
    return [score / (1 + score) for score in scores]


def _attributes(hit: Hit, caller: Caller) -> dict[str, str | float | bool]:
    """Metadata, place and address of a passage: texts, numbers and booleans."""
    [shown] = hits_for([hit], caller)
    place: dict[str, Any] = {
        **shown.metadata,
        "title": hit.title,
        "document_id": hit.document_id,
        "chunk_id": hit.chunk_id,
        "start": hit.start,
        "end": hit.end,
        "page": hit.page,
        "url": source_url(caller.base, hit.document_id, hit.start, hit.end, hit.text),
    }
    return {name: _simple(value) for name, value in place.items() if value is not None}


def _simple(value: object) -> str | float | bool:
    if isinstance(value, str | int | float):
        return value
    return ", ".join(map(str, value)) if isinstance(value, tuple | list) else str(value)
