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
from ._check import ModelFinding, Speed, check_model, measure_model
from ._embedding import (
    Prefixes,
    VectorRule,
    embed_texts,
    family_prefixes,
)
from ._folder import transformer_folder
from ._handlers import model_handlers
from ._hf_tokenizer import HFTokenizer
from ._hub import Hub, list_cached_models
from ._language import sentence_spans, stop_words
from ._names import NO_MODEL, PROVIDERS, Directory, ModelName, ModelTarget, Provider
from ._onnx import OnnxEmbedder
from ._onnx_export import export_onnx
from ._openai import OpenAIChat, OpenAIEmbeddings
from ._options import AnalyzerOptions, EmbedOptions, ModelSettings, Similarity, TimeLimits
from ._registry import Models
from ._rerank import LexicalReranker, ServerReranker
from ._seams import ChatModel, Embedder, Matrix, Reranker, Tokenizer
from ._st import (
    CARD,
    CrossEncoderReranker,
    SentenceTransformerEmbedder,
    card_head,
    folder_hash,
    no_progress_bars,
    open_trainable,
    open_trainable_reranker,
    save_trained,
)
from ._thought import drop_thought, no_text_error
from ._transport import Connections
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
    "HFTokenizer",
    "Hub",
    "LexicalReranker",
    "Matrix",
    "ModelFinding",
    "ModelName",
    "ModelSettings",
    "ModelTarget",
    "Models",
    "OnnxEmbedder",
    "OpenAIChat",
    "OpenAIEmbeddings",
    "Prefixes",
    "Provider",
    "Reranker",
    "SentenceTransformerEmbedder",
    "ServerReranker",
    "Similarity",
    "Speed",
    "SystemHandler",
    "SystemOptions",
    "Systems",
    "TimeLimits",
    "TokenSource",
    "Tokenizer",
    "UnderTest",
    "VectorRule",
    "WordTokenizer",
    "card_head",
    "check_model",
    "detect_language",
    "drop_thought",
    "embed_texts",
    "export_onnx",
    "family_prefixes",
    "fold",
    "folder_hash",
    "is_code",
    "list_cached_models",
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
    "stop_words",
    "transformer_folder",
    "words",
]
