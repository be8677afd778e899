"""Engines: where a batch of work runs, threads of this process or workers of a Ray cluster."""

from ._options import EngineName, EngineOptions, LocalEngine, choose_engine, open_engine
from ._ray import RayEngine, check_storage, node_name, quiet
from ._seams import Engine, Result, Task, Work

__all__ = [
    "Engine",
    "EngineName",
    "EngineOptions",
    "LocalEngine",
    "RayEngine",
    "Result",
    "Task",
    "Work",
    "check_storage",
    "choose_engine",
    "node_name",
    "open_engine",
    "quiet",
]
