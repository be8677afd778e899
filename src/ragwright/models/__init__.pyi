from ._analysis import (
    Analyzer,
    TokenSource,
    WordTokenizer,
    detect_language,
    is_code,
    make_analyzer,
    words,
)
from ._carriers import model_handlers
from ._check import Finding, check_model
from ._embedding import Prefixes, VectorRule, embed_texts, family_prefixes, usable_vectors
from ._extractive import ExtractiveReranker, pack_sentence
from ._hf_tokenizer import HFTokenizer
from ._names import Directory, ModelName, Provider, Target
from ._onnx import OnnxEmbedder
from ._openai import OpenAIChat, OpenAIEmbeddings
from ._options import AnalyzerOptions, EmbedOptions, ModelSettings
from ._registry import Models
from ._rerank import CrossEncoderReranker
from ._seams import ChatModel, Embedder, Reranker, Tokenizer
from ._sentences import sentence_spans
from ._st import SentenceTransformerEmbedder, export_onnx, folder_hash, no_progress_bars
from ._transport import Connections

__all__ = [
    "Analyzer",
    "AnalyzerOptions",
    "ChatModel",
    "Connections",
    "CrossEncoderReranker",
    "Directory",
    "EmbedOptions",
    "Embedder",
    "ExtractiveReranker",
    "Finding",
    "HFTokenizer",
    "ModelName",
    "ModelSettings",
    "Models",
    "OnnxEmbedder",
    "OpenAIChat",
    "OpenAIEmbeddings",
    "Prefixes",
    "Provider",
    "Reranker",
    "SentenceTransformerEmbedder",
    "Target",
    "TokenSource",
    "Tokenizer",
    "VectorRule",
    "WordTokenizer",
    "check_model",
    "detect_language",
    "embed_texts",
    "export_onnx",
    "family_prefixes",
    "folder_hash",
    "is_code",
    "make_analyzer",
    "model_handlers",
    "no_progress_bars",
    "pack_sentence",
    "sentence_spans",
    "usable_vectors",
    "words",
]
