"""Engines: where a batch of work runs, threads of this process or workers of a Ray cluster."""

from ._local import LocalEngine
from ._options import EngineName, EngineOptions, open_engine, settled_engine
from ._quiet import quiet
from ._ray import RayEngine, check_storage, node_name, packed_error
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
    "node_name",
    "open_engine",
    "packed_error",
    "quiet",
    "settled_engine",
]
