"""Systems under test by name: described by an address or a file, opened once."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ...core import (
    ConfigError,
    PluginError,
    build_options,
    canonical_json,
    list_changed_options,
    load_object,
    read_yaml,
)
from ...flow import Message, SystemReply
from .._names import PROVIDERS
from ._callers import Caller, caller_of, make_target, takes_turns
from ._http import endpoint, sends_turns
from ._options import SystemOptions

_FILES = (".yaml", ".yml")


@dataclass(frozen=True, slots=True)
class UnderTest:
    """A system that can be asked.

    Attributes:
        options: How it is called and read; ``model`` is set where it is a chat model, which is
            asked as every other model is.
        ask: Takes a question and its history, in a thread of its own.
        takes_turns: False if it has no place for the history.
        round: Apart from what other replies of it are kept; empty where a version says that.
        early: Replies that a first check got, each to be used once.
    """

    options: SystemOptions
    ask: Caller
    takes_turns: bool = True
    round: str = ""
    early: dict[tuple[str, tuple[Message, ...]], SystemReply] = field(
        default_factory=dict, compare=False
    )

    @property
    def name(self) -> str:
        """Name in runs and reports."""
        return self.options.title

    @property
    def identity(self) -> str:
        """Everything that determines replies: the version, how the system is called and read."""
        settings = list_changed_options(
            replace(self.options, concurrency=8, timeout=120.0, price=None)
        )
        return canonical_json([self.round, settings])

    @property
    def manifest(self) -> dict[str, Any]:
        """The parts of a run's manifest that describe the system."""
        settings = list_changed_options(
            replace(self.options, concurrency=8, timeout=120.0, price=None)
        )
        settings_left = {
            k: v for k, v in settings.items() if k not in ("call", "url", "name", "version")
        }
        return {
            "system": self.name,
            "system_version": self.options.version,
            **({"system_settings": settings_left} if settings_left else {}),
        }


class Systems:
    """The systems that a runner may ask, by name."""

    def __init__(self) -> None:
        self._open: dict[str, UnderTest] = {}

    def add(self, system: UnderTest) -> None:
        """Let a name stand for a system; the newest one of a name is asked."""
        self._open[system.name] = system

    def close(self) -> None:
        """Let no name stand for a system any more."""
        self._open.clear()

    def find(self, name: str) -> UnderTest:
        """The system of a name.

        Raises:
            ConfigError: None was opened under it.
        """
        system = self._open.get(name)
        if system is None:
            raise ConfigError(
                f"no system {name!r} is open", hint=f"open are: {', '.join(self._open) or 'none'}"
            )
        return system


def read_system(address: str, version: str = "") -> SystemOptions:
    """Read the system that ``--system`` names: a YAML file, an address, a model, or a Python
    object.

    Args:
        address: ``system.yaml``; ``module:object`` or ``file.py:object``; ``http(s)://…``, where
            ``…/v1#name`` is a model of an OpenAI-compatible server; ``provider:name``.
        version: Wins over that of a file.

    Raises:
        ConfigError: It is none of these, or the file is wrong (with file and line).
    """
    if Path(address).suffix.lower() in _FILES:
        placed = read_yaml(Path(address))
        options = build_options(SystemOptions, placed.value, placed, ())
        if not options.title or not (options.call or options.url or options.model):
            raise ConfigError(
                "the file names no system", where=address, hint="give it call, url or model"
            )
    elif address.startswith(("http://", "https://")):
        named = "#" in address
        options = SystemOptions(model=address if named else "", url="" if named else address)
    elif address.partition(":")[0] in PROVIDERS:
        options = SystemOptions(model=address)
    elif ":" in address:
        options = SystemOptions(call=address)
    else:
        raise ConfigError(
            f"cannot tell what kind of system {address!r} is",
            where="--system",
            hint="write module:object, file.py:object, an address, http://host/v1#model, or a file "
            "such as system.yaml",
        )
    return replace(options, version=version) if version else options


def open_system(system: Any, options: SystemOptions | None = None) -> UnderTest:
    """A system that can be asked, of an address, options, or an object of Python.

    Args:
        system: What :func:`read_system` takes, options, or a function, pipeline or engine.
        options: For an object: how it is called and read, its name and version.

    Raises:
        ConfigError: It cannot be found or asked.
    """
    if isinstance(system, UnderTest):
        return system
    if isinstance(system, str | Path):
        system = read_system(str(system))
    if not isinstance(system, SystemOptions):
        described = options or SystemOptions()
        options_of = replace(described, call=described.call or _name_of(system), url="", model="")
        return _called(system, options_of)
    if system.model:
        return UnderTest(system, _not_asked)
    if system.url:
        return UnderTest(system, endpoint(system), sends_turns(system))
    return _called(_load_system(system.call), system)


def _called(system: Any, options: SystemOptions) -> UnderTest:
    """An object of Python that is called with the question."""
    target = make_target(system, options)
    return UnderTest(options, caller_of(target, options), takes_turns(target))


def _not_asked(question: str, history: Sequence[Message]) -> Any:
    raise AssertionError("a chat model is asked by `chat`")


def _name_of(system: Any) -> str:
    """Name of an object in runs: where it is defined."""
    definition: Callable[..., Any] | type = (
        system if hasattr(system, "__qualname__") else type(system)
    )
    return f"{definition.__module__}:{definition.__qualname__}"


def _load_system(address: str) -> Any:
    """The object at ``module:object`` or ``file.py:object``.

    Raises:
        PluginError: There is no such file, module or object, or it fails on import.
    """
    file, _, path = address.rpartition(":")
    if not file.endswith(".py"):
        return load_object(address, where="--system")
    source = Path(file)
    if not source.is_file():
        raise PluginError(f"file not found: {file!r}", where="--system")
    folder = str(source.resolve().parent)
    if folder not in sys.path:
        sys.path.append(folder)  # for modules beside it
    name = f"ragwright_system_{source.stem}"
    spec = importlib.util.spec_from_file_location(name, source)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        raise PluginError(
            f"{file} fails when it is imported: {type(error).__name__}: {error}",
            where="--system",
            hint='put what it runs under `if __name__ == "__main__":`'
            if isinstance(error, SystemExit)
            else None,
        ) from error
    return load_object(f"{name}:{path}", where="--system", shown=file)
