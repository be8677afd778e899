"""``POST /retrieval``: passages for an external knowledge base of Dify."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from fastapi import Request
from fastapi.responses import JSONResponse, Response
from pydantic import Field

from ...core import Filter
from .._admission import Wanted, admitted
from .._errors import ApiError
from .._wire import Body, Text
from ._conditions import Value, compared
from ._passages import attributes, narrowed, unit_scores

if TYPE_CHECKING:
    from .._admission import Caller
    from .._service import Service

_OPERATORS = {
    "is": "=", "=": "=", "is not": "!=", "≠": "!=", "!=": "!=", "start with": "^",
    ">": ">", "after": ">", "≥": ">=", ">=": ">=", "<": "<", "before": "<", "≤": "<=", "<=": "<=",
}  # fmt: skip
"""Ours for Dify's operators; the others, such as ``contains``, are refused."""


class Condition(Body):
    """A condition on a field of metadata."""

    name: Annotated[list[str], Field(min_length=1, max_length=1)]
    comparison_operator: str
    value: Value | None = None


class Conditions(Body):
    """The conditions that passages must meet."""

    logical_operator: Literal["and", "or"] = "and"
    conditions: list[Condition] = Field(default_factory=list, max_length=32)


class RetrievalSetting(Body):
    """How many passages, and the least score."""

    top_k: Annotated[int, Field(ge=1, le=1000, strict=True)] = 5
    score_threshold: Annotated[float, Field(ge=0, le=1, strict=True)] = 0.0


class KnowledgeRequest(Body):
    """A search of a knowledge base, whose id is the name of a configuration."""

    knowledge_id: str
    query: Text
    retrieval_setting: RetrievalSetting = Field(default_factory=RetrievalSetting)
    metadata_condition: Conditions | None = None


async def knowledge_records(
    service: Service, request: Request, body: KnowledgeRequest, caller: Caller
) -> Response:
    """Search, and reply in Dify's shape."""
    wanted = Wanted(body.knowledge_id, "searches", "retrieval", request)
    setting = body.retrieval_setting
    async with admitted(service, caller, wanted) as work:
        asking = narrowed(work.asking(), _filters(body.metadata_condition))
        retrieval = await work.retrieved(body.query, setting.top_k, asking)
    records = [
        {
            "content": hit.text,
            "score": score,
            "title": hit.title or hit.source,
            "metadata": {"path": hit.source, **attributes(hit, caller)},
        }
        for hit, score in zip(retrieval.hits, unit_scores(retrieval.hits), strict=True)
        if score >= setting.score_threshold
    ]
    return JSONResponse({"records": records})


def _filters(wanted: Conditions | None) -> tuple[Filter, ...]:
    if wanted is None or not wanted.conditions:
        return ()
    if wanted.logical_operator == "or" and len(wanted.conditions) > 1:
        raise ApiError(
            400,
            "conditions joined by `or` are not supported; use `and`",
            "invalid_filter",
            param="metadata_condition.logical_operator",
        )
    filters: list[Filter] = []
    for number, condition in enumerate(wanted.conditions):
        operator = _OPERATORS.get(condition.comparison_operator)
        place = f"metadata_condition.conditions.{number}"
        if operator is None:
            raise ApiError(
                400,
                f"the operator {condition.comparison_operator!r} is not supported; use one of "
                f"{', '.join(_OPERATORS)}",
                "invalid_filter",
                param=f"{place}.comparison_operator",
            )
        if condition.value is None:
            raise ApiError(
                400,
                f"`{condition.comparison_operator}` needs a value",
                "invalid_filter",
                param=f"{place}.value",
            )
        filters += compared(condition.name[0], operator, [condition.value])
    return tuple(filters)
