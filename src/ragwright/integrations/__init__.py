"""Retrievers for other frameworks: LangChain, LlamaIndex and Haystack.

Each is loaded when it is first used: a user has one of the frameworks.
"""

from typing import TYPE_CHECKING

from .._late import load_late

if TYPE_CHECKING:
    from ._haystack import HaystackRetriever
    from ._langchain import LangChainRetriever
    from ._llama_index import LlamaIndexRetriever

__all__ = ["HaystackRetriever", "LangChainRetriever", "LlamaIndexRetriever"]

__getattr__ = load_late(
    __name__,
    {
        "_haystack": "HaystackRetriever",
        "_langchain": "LangChainRetriever",
        "_llama_index": "LlamaIndexRetriever",
    },
)
