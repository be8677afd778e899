"""Passages as other programs expect them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ...core import Hit
from .._answers import hits_for
from .._links import source_url

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ...core import Filter
    from ...workbench import Asking
    from .._admission import Caller


def narrowed(asking: Asking, filters: Sequence[Filter]) -> Asking:
    """The same way of asking under further hard filters."""
    return replace(asking, filters=(*asking.filters, *filters))


def unit_scores(hits: Sequence[Hit]) -> list[float]:
    """Scores between 0 and 1 in the same order.

    Those of keyword search have no upper end: then each score s becomes s / (1 + s).
    """
    scores = [max(0.0, hit.score) for hit in hits]
    if all(score <= 1 for score in scores):
        return scores
    return [score / (1 + score) for score in scores]


def attributes(hit: Hit, caller: Caller) -> dict[str, str | float | bool]:
    """Metadata, place and address of a passage: texts, numbers and booleans."""
    [shown] = hits_for([hit], caller)
    place: Mapping[str, Any] = {
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
