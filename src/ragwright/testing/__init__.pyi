from ._chat_suite import ChatModelSuite
from ._chunker_suite import ChunkerSuite
from ._embedder_suite import EmbedderSuite
from ._fixture import RagGate, rag_gate_fixture
from ._index_suite import IndexSuite
from ._reader_suite import ReaderSuite
from ._reranker_suite import RerankerSuite, RetrieverFunction, RetrieverSuite
from ._server import Reply, Script, ScriptedServer, ServerRequest, SpawnedServer

__all__ = [
    "ChatModelSuite",
    "ChunkerSuite",
    "EmbedderSuite",
    "IndexSuite",
    "RagGate",
    "ReaderSuite",
    "Reply",
    "RerankerSuite",
    "RetrieverFunction",
    "RetrieverSuite",
    "Script",
    "ScriptedServer",
    "ServerRequest",
    "SpawnedServer",
    "rag_gate_fixture",
]
