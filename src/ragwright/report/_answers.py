"""JSON of hits, answers and drafts, which other programs build on."""

from __future__ import annotations

from typing import Any

from ..core import Answer, Hit, Snippet
from ..drafting import DraftBatch
from ._data import fields_of, make_json


def hit_json(hit: Hit) -> dict[str, Any]:
    """Return a hit as ``retrieve --json`` prints it."""
    document: dict[str, Any] = make_json(hit)
    return document


def answer_json(answer: Answer) -> dict[str, Any]:
    """Return an answer as ``ask --json`` prints it."""
    return {
        **fields_of(answer, "persona", "text", "abstained", "citations"),
        "snippets": [snippet_json(snippet) for snippet in answer.snippets],
        **fields_of(answer, "route", "route_reason", "model", "cached", "usage", "notes"),
        **({} if answer.promise is None else fields_of(answer, "promise")),
        "hits": [hit_json(hit) for hit in answer.hits],
    }


def snippet_json(snippet: Snippet) -> dict[str, Any]:
    """Return a snippet: its text, where its best sentence is in it, and its place."""
    return fields_of(
        snippet,
        *("text", "marked", "document_id", "source", "page", "start", "end", "heading", "score"),
    )


def batch_json(batch: DraftBatch) -> dict[str, Any]:
    """Return a batch as ``draft --json`` prints it."""
    return {
        "batch": batch.number,
        **fields_of(batch, "request", "models", "query", "mode"),
        "hits": [hit_json(hit) for hit in batch.hits],
        "prompts": [
            make_json(prompt)
            | {
                "messages": [
                    {"role": role, "content": content} for role, content in prompt.messages
                ]
            }
            for prompt in batch.prompts
        ],
        "texts": [
            {
                **fields_of(text, "text", "model", "prompt", "marks", "characters", "usage"),
                "cost": text.usage.cost,
            }
            for text in batch.texts
        ],
        **fields_of(batch, "notes", "usage"),
        "cost": batch.usage.cost,
        **fields_of(batch, "cached", "snapshot", "partial"),
    }
