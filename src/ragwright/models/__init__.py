"""Back ends for chat, embedding and reranking, tokenizers, and the offline defaults."""

from ._analysis import (
    Analyzer,
    TokenSource,
    WordTokenizer,
    detect_language,
    fold,
    is_code,
    make_analyzer,
    words,
)
from ._check import Finding, check_model
from ._embedding import (
    Prefixes,
    VectorRule,
    embed_texts,
    family_prefixes,
    settle_rule,
)
from ._folder import local_engine, transformer_folder
from ._hf_tokenizer import HFTokenizer
from ._hub import LOCK_FILE, Hub, cached_models
from ._language import LANGUAGES, sentence_spans, stop_words
from ._lexical import LexicalReranker
from ._names import NO_MODEL, PROVIDERS, Directory, ModelName, Provider, Target
from ._onnx import OnnxEmbedder
from ._onnx_export import export_onnx
from ._onnx_rerank import OnnxReranker
from ._openai import OpenAIChat, OpenAIEmbeddings
from ._options import AnalyzerOptions, EmbedOptions, ModelSettings, Similarity, TimeLimits
from ._probe import Speed, measure_model
from ._registry import Models
from ._remote import model_handlers
from ._rerank import CrossEncoderReranker, ServerReranker, folder_identity
from ._seams import ChatModel, Embedder, Matrix, Reranker, Tokenizer
from ._st import SentenceTransformerEmbedder, folder_hash, no_progress_bars
from ._static import StaticEmbedder
from ._thought import no_text_error, without_thought
from ._trainable import open_trainable, open_trainable_reranker, save_trained
from ._transport import Connections, server_identity
from ._tuned_card import CARD, card_head, is_unproven
from .systems import (
    SystemHandler,
    SystemOptions,
    Systems,
    UnderTest,
    open_system,
    read_system,
    reply_of,
)

__all__ = [
    "CARD",
    "LANGUAGES",
    "LOCK_FILE",
    "NO_MODEL",
    "PROVIDERS",
    "Analyzer",
    "AnalyzerOptions",
    "ChatModel",
    "Connections",
    "CrossEncoderReranker",
    "Directory",
    "EmbedOptions",
    "Embedder",
    "Finding",
    "HFTokenizer",
    "Hub",
    "LexicalReranker",
    "Matrix",
    "ModelName",
    "ModelSettings",
    "Models",
    "OnnxEmbedder",
    "OnnxReranker",
    "OpenAIChat",
    "OpenAIEmbeddings",
    "Prefixes",
    "Provider",
    "Reranker",
    "SentenceTransformerEmbedder",
    "ServerReranker",
    "Similarity",
    "Speed",
    "StaticEmbedder",
    "SystemHandler",
    "SystemOptions",
    "Systems",
    "Target",
    "TimeLimits",
    "TokenSource",
    "Tokenizer",
    "UnderTest",
    "VectorRule",
    "WordTokenizer",
    "cached_models",
    "card_head",
    "check_model",
    "detect_language",
    "embed_texts",
    "export_onnx",
    "family_prefixes",
    "fold",
    "folder_hash",
    "folder_identity",
    "is_code",
    "is_unproven",
    "local_engine",
    "make_analyzer",
    "measure_model",
    "model_handlers",
    "no_progress_bars",
    "no_text_error",
    "open_system",
    "open_trainable",
    "open_trainable_reranker",
    "read_system",
    "reply_of",
    "save_trained",
    "sentence_spans",
    "server_identity",
    "settle_rule",
    "stop_words",
    "transformer_folder",
    "without_thought",
    "words",
]
