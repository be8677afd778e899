"""Back ends for chat, embedding and reranking, tokenizers, and the offline defaults."""

from __future__ import annotations

from ._seams import ChatModel, Embedder, Reranker, Tokenizer

__all__ = ["ChatModel", "Embedder", "Reranker", "Tokenizer"]
