"""Back ends for chat, embedding and reranking, tokenizers, and the offline defaults."""

from __future__ import annotations

from ._analysis import (
    Analyzer,
    AnalyzerOptions,
    TokenSource,
    WordTokenizer,
    detect_language,
    make_analyzer,
)
from ._seams import ChatModel, Embedder, Reranker, Tokenizer
from ._sentences import sentence_spans

__all__ = [
    "Analyzer",
    "AnalyzerOptions",
    "ChatModel",
    "Embedder",
    "Reranker",
    "TokenSource",
    "Tokenizer",
    "WordTokenizer",
    "detect_language",
    "make_analyzer",
    "sentence_spans",
]
