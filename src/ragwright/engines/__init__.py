"""Engines: where a batch of work runs, threads of this process or workers of a Ray cluster."""

from ._seams import (
    Engine,
    EngineName,
    EngineOptions,
    LocalEngine,
    RayEngine,
    Result,
    Task,
    Work,
    check_storage,
    choose_engine,
    node_name,
    open_engine,
    quiet,
)

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
