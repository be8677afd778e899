"""Settings that choose an engine, the same in every section that has one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

from ..core import ConfigError, near, option
from ._local import LocalEngine
from ._ray import RayEngine
from ._seams import Engine

EngineName: TypeAlias = Literal["local", "ray"]


@dataclass(frozen=True, slots=True)
class EngineOptions:
    """Options of where work runs."""

    engine: EngineName = option(
        "local", "Where the work runs: local (this machine) or ray (a cluster)."
    )
    address: str = option("", "Address of the Ray cluster; empty for the one of the environment.")
    workers: int | None = option(
        None, "Tasks at once; as many as there are cores by default.", ge=1
    )


def settled_engine(options: EngineOptions, name: str = "") -> EngineName:
    """The engine of a name, of the options if it is empty.

    Raises:
        ConfigError: No engine has this name; the nearest is named.
    """
    for known in get_args(EngineName):
        if known == (name or options.engine):
            engine: EngineName = known
            return engine
    raise ConfigError(f"unknown engine {name!r}", hint=near(name, get_args(EngineName)))


def open_engine(options: EngineOptions, name: str = "", section: str = "records") -> Engine:
    """The engine of a name, of the options if it is empty; to be closed.

    Args:
        options: Settings.
        name: Engine that overrides the options'.
        section: Section of the project file that the options are of, for messages.

    Raises:
        ConfigError: Unknown name, or no cluster can be reached.
        MissingExtraError: Ray is not installed.
    """
    if settled_engine(options, name) == "ray":
        return RayEngine(options.address, options.workers, section)
    return LocalEngine(options.workers)
