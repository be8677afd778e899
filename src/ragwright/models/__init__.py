"""Back ends for chat, embedding and reranking, tokenizers, and the offline defaults."""

from ._analysis import (
    Analyzer,
    LexicalReranker,
    WordTokenizer,
    detect_language,
    fold,
    is_code,
    make_analyzer,
    words,
)
from ._embedding import (
    ChatModel,
    Embedder,
    Matrix,
    Reranker,
    Tokenizer,
    VectorRule,
    embed_texts,
    folder_hash,
)
from ._handlers import SystemHandler, model_handlers
from ._hub import Hub, list_cached_models, transformer_folder
from ._language import sentence_spans, stop_words
from ._names import (
    NO_MODEL,
    PROVIDERS,
    AnalyzerOptions,
    EmbedOptions,
    ModelSettings,
    Similarity,
    TimeLimits,
)
from ._onnx import HFTokenizer, OnnxEmbedder
from ._openai import OpenAIChat, OpenAIEmbeddings
from ._registry import Models, check_model
from ._replies import drop_thought, no_text_error
from ._st import (
    CARD,
    CrossEncoderReranker,
    SentenceTransformerEmbedder,
    card_head,
    no_progress_bars,
    open_trainable,
    open_trainable_reranker,
    save_trained,
)
from ._systems import SystemOptions, Systems, UnderTest, open_system, read_system, reply_of
from ._transport import Connections

__all__ = [
    "CARD",
    "NO_MODEL",
    "PROVIDERS",
    "Analyzer",
    "AnalyzerOptions",
    "ChatModel",
    "Connections",
    "CrossEncoderReranker",
    "EmbedOptions",
    "Embedder",
    "HFTokenizer",
    "Hub",
    "LexicalReranker",
    "Matrix",
    "ModelSettings",
    "Models",
    "OnnxEmbedder",
    "OpenAIChat",
    "OpenAIEmbeddings",
    "Reranker",
    "SentenceTransformerEmbedder",
    "Similarity",
    "SystemHandler",
    "SystemOptions",
    "Systems",
    "TimeLimits",
    "Tokenizer",
    "UnderTest",
    "VectorRule",
    "WordTokenizer",
    "card_head",
    "check_model",
    "detect_language",
    "drop_thought",
    "embed_texts",
    "fold",
    "folder_hash",
    "is_code",
    "list_cached_models",
    "make_analyzer",
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
