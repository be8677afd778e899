"""Conformance suites and scripted back ends, for our tests and for plug-ins.

The suites need pytest, so each is loaded when it is first used; the scripted server does not.
"""

from typing import TYPE_CHECKING

from .._late import load_late
from ._server import Reply, Script, ScriptedServer, ServerRequest, SpawnedServer

if TYPE_CHECKING:
    from ._addition_suites import CommandSuite, JudgeSuite, MeasureSuite, StageSuite, StepSuite
    from ._chat_suite import ChatModelSuite
    from ._chunker_suite import ChunkerSuite
    from ._embedder_suite import EmbedderSuite
    from ._hold import RagGate, hold
    from ._index_corpus import PAIR, PLAIN, make_document, make_indexed, make_vector
    from ._reader_suite import ReaderSuite
    from ._reranker_suite import RerankerSuite, index_corpus

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
    "Script",
    "ScriptedServer",
    "ServerRequest",
    "SpawnedServer",
    "StageSuite",
    "StepSuite",
    "hold",
    "index_corpus",
    "make_document",
    "make_indexed",
    "make_vector",
]

__getattr__ = load_late(
    __name__,
    {
        "_addition_suites": "CommandSuite JudgeSuite MeasureSuite StageSuite StepSuite",
        "_chat_suite": "ChatModelSuite",
        "_chunker_suite": "ChunkerSuite",
        "_embedder_suite": "EmbedderSuite",
        "_hold": "RagGate hold",
        "_index_corpus": "PAIR PLAIN make_document make_indexed make_vector",
        "_reader_suite": "ReaderSuite",
        "_reranker_suite": "RerankerSuite index_corpus",
    },
)
