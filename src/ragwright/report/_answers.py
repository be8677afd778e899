"""JSON of hits, answers and drafts, which other programs build on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ._data import as_json, fields_of

if TYPE_CHECKING:
    from ..core import Answer, Hit
    from ..drafting import DraftBatch


def hit_json(hit: Hit) -> dict[str, Any]:
    """Return a hit as ``retrieve --json`` prints it."""
    document: dict[str, Any] = as_json(hit)
    return document


def answer_json(answer: Answer) -> dict[str, Any]:
    """Return an answer as ``ask --json`` prints it."""
    route = ("route", "route_reason", "model", "cached", "usage", "notes")
    return {
        **fields_of(answer, "persona", "text", "abstained", "citations"),
        "closest": [
            as_json(near.citation) | {"text": near.text, "score": near.score}
            for near in answer.closest
        ],
        **fields_of(answer, *route),
        **({} if answer.promise is None else fields_of(answer, "promise")),
        "hits": [hit_json(hit) for hit in answer.hits],
    }


def batch_json(batch: DraftBatch) -> dict[str, Any]:
    """Return a batch as ``draft --json`` prints it."""
    text = ("text", "model", "prompt", "marks", "characters", "usage")
    return {
        "batch": batch.number,
        **fields_of(batch, "request", "models", "query", "mode"),
        "hits": [hit_json(hit) for hit in batch.hits],
        "prompts": [
            as_json(prompt)
            | {
                "messages": [
                    {"role": role, "content": content} for role, content in prompt.messages
                ]
            }
            for prompt in batch.prompts
        ],
        "texts": [
            {**fields_of(text_item, *text), "cost": text_item.usage.cost}
            for text_item in batch.texts
        ],
        **fields_of(batch, "notes", "usage"),
        "cost": batch.usage.cost,
        **fields_of(batch, "cached", "snapshot", "partial"),
    }
