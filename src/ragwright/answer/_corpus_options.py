"""Settings of the whole-corpus route."""

from __future__ import annotations

from dataclasses import dataclass

from ..core import option


@dataclass(frozen=True, slots=True)
class CorpusOptions:
    """How a question is answered from every chunk of the corpus."""

    max_chunks: int = option(
        500, "Most chunks a chat model reads for one question, one call each.", ge=1
    )
    limit: int = option(16, "Chunks read side by side for one question.", ge=1)
    max_tokens: int = option(800, "Most tokens of a reply on one chunk.", ge=50)
    max_items: int = option(50, "Most items that an answer shows; all are counted.", ge=1)
    sentences: int = option(12, "Most sentences that are quoted offline.", ge=1)
