"""Retrievers for other frameworks: LangChain, LlamaIndex and Haystack.

Each is loaded when it is first used: a user has one of the frameworks.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ._haystack import HaystackRetriever
    from ._langchain import LangChainRetriever
    from ._llama_index import LlamaIndexRetriever

__all__ = ["HaystackRetriever", "LangChainRetriever", "LlamaIndexRetriever"]

_FILES = {
    "HaystackRetriever": "_haystack",
    "LangChainRetriever": "_langchain",
    "LlamaIndexRetriever": "_llama_index",
}


def __getattr__(name: str) -> object:
    if name not in _FILES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{_FILES[name]}", __name__), name)
