from ._analysis import (
    Analyzer as Analyzer,
    TokenSource as TokenSource,
    WordTokenizer as WordTokenizer,
    detect_language as detect_language,
    fold as fold,
    is_code as is_code,
    make_analyzer as make_analyzer,
    words as words,
)
from ._carriers import model_handlers as model_handlers
from ._check import Finding as Finding, check_model as check_model
from ._embedding import (
    Prefixes as Prefixes,
    VectorRule as VectorRule,
    embed_texts as embed_texts,
    family_prefixes as family_prefixes,
    settle_rule as settle_rule,
    usable_vectors as usable_vectors,
)
from ._folder import (
    local_engine as local_engine,
    transformer_folder as transformer_folder,
)
from ._hf_tokenizer import HFTokenizer as HFTokenizer
from ._hub import LOCK_FILE as LOCK_FILE, Hub as Hub, cached_models as cached_models
from ._language import (
    LANGUAGES as LANGUAGES,
    sentence_spans as sentence_spans,
    stop_words as stop_words,
)
from ._lexical import LexicalReranker as LexicalReranker
from ._names import (
    NO_MODEL as NO_MODEL,
    PROVIDERS as PROVIDERS,
    Directory as Directory,
    ModelName as ModelName,
    Provider as Provider,
    Target as Target,
)
from ._onnx import OnnxEmbedder as OnnxEmbedder
from ._onnx_export import export_onnx as export_onnx
from ._onnx_rerank import OnnxReranker as OnnxReranker
from ._openai import OpenAIChat as OpenAIChat, OpenAIEmbeddings as OpenAIEmbeddings
from ._options import (
    AnalyzerOptions as AnalyzerOptions,
    EmbedOptions as EmbedOptions,
    ModelSettings as ModelSettings,
    Similarity as Similarity,
    TimeLimits as TimeLimits,
)
from ._probe import Speed as Speed, measure_model as measure_model
from ._registry import Models as Models
from ._remote import remote_handlers as remote_handlers
from ._rerank import (
    CrossEncoderReranker as CrossEncoderReranker,
    ServerReranker as ServerReranker,
    folder_identity as folder_identity,
)
from ._seams import (
    ChatModel as ChatModel,
    Embedder as Embedder,
    Matrix as Matrix,
    Reranker as Reranker,
    Tokenizer as Tokenizer,
)
from ._st import (
    SentenceTransformerEmbedder as SentenceTransformerEmbedder,
    folder_hash as folder_hash,
    no_progress_bars as no_progress_bars,
)
from ._static import StaticEmbedder as StaticEmbedder
from ._trainable import (
    open_trainable as open_trainable,
    open_trainable_reranker as open_trainable_reranker,
    save_trained as save_trained,
)
from ._transport import Connections as Connections, server_identity as server_identity
from ._tuned_card import CARD as CARD, card_head as card_head, is_unproven as is_unproven
from .systems import (
    SystemHandler as SystemHandler,
    SystemOptions as SystemOptions,
    Systems as Systems,
    UnderTest as UnderTest,
    open_system as open_system,
    read_system as read_system,
    reply_of as reply_of,
)
