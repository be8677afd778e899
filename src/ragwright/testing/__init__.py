"""Conformance suites and scripted back ends, for our tests and for plug-ins.

The suites need pytest, so each is loaded when it is first used; the scripted server does not.
"""

from typing import TYPE_CHECKING

from .._late import load_late
from ._server import Reply, Script, ScriptedServer, ServerRequest, SpawnedServer

if TYPE_CHECKING:
    from ._addition_suites import (
        CommandSuite,
        JudgeSuite,
        MeasureSuite,
        RagGate,
        ReaderSuite,
        StageSuite,
        StepSuite,
        hold,
    )
    from ._model_suites import (
        PAIR,
        PLAIN,
        ChatModelSuite,
        ChunkerSuite,
        EmbedderSuite,
        RerankerSuite,
        index_corpus,
        make_document,
        make_indexed,
        make_vector,
    )

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
        "_addition_suites": "CommandSuite JudgeSuite MeasureSuite RagGate ReaderSuite StageSuite "
        "StepSuite hold",
        "_model_suites": "PAIR PLAIN ChatModelSuite ChunkerSuite EmbedderSuite RerankerSuite "
        "index_corpus make_document make_indexed make_vector",
    },
)
