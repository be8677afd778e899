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
from ._extractive import ExtractiveReranker, pack_sentence
from ._names import Directory, ModelName, ModelSettings, Provider, Target
from ._openai import OpenAIChat, OpenAIEmbeddings
from ._seams import ChatModel, Embedder, Reranker, Tokenizer
from ._sentences import sentence_spans
from ._transport import Connections

__all__ = [
    "Analyzer",
    "AnalyzerOptions",
    "ChatModel",
    "Connections",
    "Directory",
    "Embedder",
    "ExtractiveReranker",
    "ModelName",
    "ModelSettings",
    "OpenAIChat",
    "OpenAIEmbeddings",
    "Provider",
    "Reranker",
    "Target",
    "TokenSource",
    "Tokenizer",
    "WordTokenizer",
    "detect_language",
    "make_analyzer",
    "pack_sentence",
    "sentence_spans",
]
