from ._addition_suites import (
    CommandSuite as CommandSuite,
    JudgeSuite as JudgeSuite,
    MeasureSuite as MeasureSuite,
    StageSuite as StageSuite,
    StepSuite as StepSuite,
)
from ._chat_suite import ChatModelSuite as ChatModelSuite
from ._chunker_suite import ChunkerSuite as ChunkerSuite
from ._embedder_suite import EmbedderSuite as EmbedderSuite
from ._fixture import RagGate as RagGate, hold as hold
from ._index_corpus import (
    PAIR as PAIR,
    PLAIN as PLAIN,
    make_document as make_document,
    make_indexed as make_indexed,
    make_vector as make_vector,
)
from ._naive import naive_relaxed as naive_relaxed
from ._reader_suite import ReaderSuite as ReaderSuite
from ._reranker_suite import (
    RerankerSuite as RerankerSuite,
    RetrieverFunction as RetrieverFunction,
    RetrieverSuite as RetrieverSuite,
    indexed_corpus as indexed_corpus,
)
from ._server import (
    Reply as Reply,
    Script as Script,
    ScriptedServer as ScriptedServer,
    ServerRequest as ServerRequest,
    SpawnedServer as SpawnedServer,
)
