"""The handlers through which flows reach models: local ones, and the choice between them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ..core import PluginError, RagwrightError, Usage, counted
from ..flow import (
    BatchHandler,
    Embed,
    EmbedReply,
    Handler,
    Rerank,
    RerankReply,
)
from ._embedding import embed_texts
from ._registry import Models
from ._rerank import LexicalReranker

_CONCURRENCY = 16
_NONE = np.zeros((0, 0), np.float32)


class ByModel(Handler[Any, Any]):
    """The common part of all model handlers: lane, limit and price by the model's name."""

    def __init__(self, models: Models) -> None:
        self.models = models

    def lane(self, request: Any) -> str:
        """The model's name."""
        return str(request.model)

    def limit(self, lane: str) -> int | None:
        """``concurrency`` of the settings, at most ``requests_per_minute``."""
        entry = self.models.settings_of(lane)
        if entry.requests_per_minute is None:
            return entry.concurrency
        return min(entry.concurrency or _CONCURRENCY, entry.requests_per_minute)

    def timeout(self, request: Any) -> float | None:
        """``timeout`` of the settings."""
        return self.models.settings_of(request.model).timeout

    def longest_reply(self, request: Any) -> int | None:
        """``max_tokens`` among the parameters of the settings."""
        params = self.models.settings_of(request.model).params
        tokens = params.get("max_completion_tokens", params.get("max_tokens"))
        return tokens if isinstance(tokens, int) else None

    def paid(self, request: Any) -> bool:
        """True unless the model is local, free, or served by this machine without a price."""
        return not self.models.free(request.model)

    def price(self, request: Any, usage: Usage) -> float | None:
        """Money by ``price_in`` and ``price_out``."""
        return self.models.price(request.model, usage)


class ReadsOnly(ByModel):
    """A handler of models without output text: only input tokens are paid for."""

    def price(self, request: Any, usage: Usage) -> float | None:
        """Money by ``price_in``; completion tokens that some servers report are ignored."""
        return self.models.price(request.model, replace(usage, completion_tokens=0))


_TEXTS = 64
"""Texts that a local model embeds at once: an ingest counts them, and a query waits for them."""


class LocalEmbedHandler(ReadsOnly, BatchHandler[Embed, EmbedReply]):
    """Carries out ``Embed`` by local models, off the loop; the model is opened there too."""

    def identity(self, request: Embed) -> str:
        """Hash of weights and tokenizer, with the rule.

        Opens the model: call it before the run (``models.embedder(name)``), or the first
        query waits for it on the loop.
        """
        return self.models.embedder_identity(request.model)

    def together(self, requests: Sequence[Embed]) -> int:
        """The first requests with up to 64 texts in all, so that each batch ends soon."""
        texts = 0
        for count, request in enumerate(requests[: self.max_batch]):
            texts += len(request.texts)
            if texts > _TEXTS and count:
                return count
        return self.max_batch

    def carry(self, requests: Sequence[Embed]) -> Sequence[EmbedReply | RagwrightError]:
        """Replies in order; requests of one model and role are embedded in one go."""
        groups: dict[tuple[str, str], list[int]] = {}
        for index, request in enumerate(requests):
            groups.setdefault((request.model, request.role), []).append(index)
        replies: list[EmbedReply | RagwrightError] = [EmbedReply(_NONE)] * len(requests)
        for (name, _), members in groups.items():
            for index, reply in zip(
                members, self._embed_group(name, [requests[i] for i in members]), strict=True
            ):
                replies[index] = reply
        return replies

    def _embed_group(
        self, name: str, requests: Sequence[Embed]
    ) -> list[EmbedReply | RagwrightError]:
        try:
            embedder = self.models.embedder(name)
            assert embedder is not None, "the route sends servers elsewhere"
            rule = self.models.vector_rule(name)
            results = embed_texts(
                embedder,
                [request.texts for request in requests],
                rule.prefixes.of(requests[0].role),
                long_texts=self.models.embed.long_texts,
                normalise=rule.similarity == "cosine",
            )
        except RagwrightError as error:
            return [error] * len(requests)
        return [v if isinstance(v, RagwrightError) else EmbedReply(v) for v in results]


class LocalRerankHandler(ReadsOnly, BatchHandler[Rerank, RerankReply]):
    """Carries out ``Rerank`` by local rerankers, off the loop."""

    def identity(self, request: Rerank) -> str:
        """The reranker's own identity."""
        return self.models.reranker_identity(request.model)

    def durable(self, request: Rerank) -> bool:
        """False for the built-in one: it is faster than reading stored replies."""
        return not isinstance(self.models.backend(request.model), LexicalReranker)

    def carry(self, requests: Sequence[Rerank]) -> Sequence[RerankReply | RagwrightError]:
        """Replies in order, one score per passage."""
        return [self._rerank_reply(request) for request in requests]

    def _rerank_reply(self, request: Rerank) -> RerankReply | RagwrightError:
        try:
            reranker = self.models.reranker(request.model)
            scores = tuple(float(s) for s in reranker.score(request.query, request.passages))
            if len(scores) != len(request.passages):
                raise PluginError(
                    f"{counted(len(scores), 'score')} for "
                    f"{counted(len(request.passages), 'passage')}",
                    where=request.model,
                )
        except RagwrightError as error:
            return error
        return RerankReply(scores, scale=reranker.scale)
