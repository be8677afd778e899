"""Conformance suites and scripted back ends, for our tests and for plug-ins."""

from ._addition_suites import CommandSuite, JudgeSuite, MeasureSuite, StageSuite, StepSuite
from ._chat_suite import ChatModelSuite
from ._chunker_suite import ChunkerSuite
from ._embedder_suite import EmbedderSuite
from ._index_corpus import PAIR, PLAIN, make_document, make_indexed, make_vector
from ._reader_suite import ReaderSuite
from ._reranker_suite import RerankerSuite, RetrieverFunction, RetrieverSuite, indexed_corpus
from ._server import Reply, Script, ScriptedServer, ServerRequest, SpawnedServer
from .pytest_plugin import RagGate, hold

__all__ = [
    "PAIR",
    "PLAIN",
    "ChatModelSuite",
    "ChunkerSuite",
    "CommandSuite",
    "EmbedderSuite",
    "JudgeSuite",
    "MeasureSuite",
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
    "StageSuite",
    "StepSuite",
    "hold",
    "indexed_corpus",
    "make_document",
    "make_indexed",
    "make_vector",
]
