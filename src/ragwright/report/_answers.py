"""Hits, answers and drafts for programs: the JSON that others build on."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..core import Answer, Hit
    from ..drafting import DraftBatch, DraftPrompt


def hit_json(hit: Hit) -> dict[str, Any]:
    """A hit as ``retrieve --json`` prints it."""
    shown = asdict(hit)
    shown["headings"] = list(hit.headings)
    shown["metadata"] = {k: list(v) if isinstance(v, tuple) else v for k, v in hit.metadata.items()}
    return shown


def answer_json(answer: Answer) -> dict[str, Any]:
    """An answer as ``ask --json`` prints it."""
    return {
        "persona": answer.persona,
        "text": answer.text,
        "abstained": answer.abstained,
        "citations": [asdict(citation) for citation in answer.citations],
        "closest": [
            asdict(near.citation) | {"text": near.text, "score": near.score}
            for near in answer.closest
        ],
        "route": answer.route,
        "route_reason": answer.route_reason,
        "model": answer.model,
        "cached": answer.cached,
        "usage": asdict(answer.usage),
        "notes": list(answer.notes),
        "hits": [hit_json(hit) for hit in answer.hits],
    }


def batch_json(batch: DraftBatch) -> dict[str, Any]:
    """A batch as ``draft --json`` prints it."""
    return {
        "batch": batch.number,
        "request": asdict(batch.request),
        "models": list(batch.models),
        "query": batch.query,
        "mode": batch.mode,
        "hits": [hit_json(hit) for hit in batch.hits],
        "prompts": [_prompt_json(prompt) for prompt in batch.prompts],
        "texts": [
            {
                "text": text.text,
                "model": text.model,
                "prompt": text.prompt,
                "marks": list(text.marks),
                "characters": text.characters,
                "usage": asdict(text.usage),
                "cost": text.usage.cost,
            }
            for text in batch.texts
        ],
        "notes": list(batch.notes),
        "usage": asdict(batch.usage),
        "cost": batch.usage.cost,
        "cached": batch.cached,
        "snapshot": batch.snapshot,
        "partial": batch.partial,
    }


def _prompt_json(prompt: DraftPrompt) -> dict[str, Any]:
    shown = asdict(prompt)
    shown["messages"] = [{"role": role, "content": content} for role, content in prompt.messages]
    return shown
