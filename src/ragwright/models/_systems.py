"""Systems under test by name: described by an address or a file, opened once."""

from __future__ import annotations

import asyncio
import importlib.util
import inspect
import sys
import threading
from collections.abc import Coroutine, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ..core import (
    ConfigError,
    PluginError,
    RagwrightError,
    SystemCallError,
    Usage,
    build_options,
    canonical_json,
    list_changed_options,
    load_object,
    read_yaml,
)
from ..flow import AskSystem, Message, OnDelta, SendHandler, SystemReply
from ._names import PROVIDERS
from ._system_callers import Caller, caller_of, endpoint
from ._system_replies import SystemOptions, reply_of, text_of

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
    def _settings(self) -> Mapping[str, Any]:
        """The settings that decide how the system is asked and read."""
        return list_changed_options(replace(self.options, concurrency=8, timeout=120.0, price=None))

    @property
    def identity(self) -> str:
        """Everything that determines replies: the version, how the system is called and read."""
        return canonical_json([self.round, self._settings])

    @property
    def manifest(self) -> dict[str, Any]:
        """The parts of a run's manifest that describe the system."""
        named = ("call", "url", "name", "version")
        settings = {key: value for key, value in self._settings.items() if key not in named}
        return {
            "system": self.name,
            "system_version": self.options.version,
            **({"system_settings": settings} if settings else {}),
        }


class Systems(dict[str, UnderTest]):
    """The systems that a runner may ask, by name."""

    def close(self) -> None:
        """Let no name stand for a system any more."""
        self.clear()


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
        definition = system if hasattr(system, "__qualname__") else type(system)
        call = described.call or f"{definition.__module__}:{definition.__qualname__}"
        options, target = replace(described, call=call, url="", model=""), system
    elif system.model:
        return UnderTest(system, lambda question, history: None)  # asked as every model is
    elif system.url:
        return UnderTest(system, *endpoint(system))
    else:
        options, target = system, _load_system(system.call)
    return UnderTest(options, *caller_of(target, options))


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


class SystemHandler(SendHandler[AskSystem, SystemReply]):
    """Asks systems in threads of their own; coroutines run on one loop of their own.

    A thread whose time is up cannot be ended: it is left behind, and where as many are left
    behind as may be in work, the system is not asked again until one of them ends.

    Args:
        systems: Those that are open, by name.
    """

    carries = AskSystem

    def __init__(self, systems: Systems) -> None:
        self.systems = systems
        self._loop: asyncio.AbstractEventLoop | None = None
        self._late: dict[str, list[Future[SystemReply]]] = {}
        self._lock = threading.Lock()

    def identity(self, request: AskSystem) -> str:
        """The version or the run, and all that decides how the system is asked and read."""
        return self.systems[request.system].identity

    def lane(self, request: AskSystem) -> str:
        """The system's name."""
        return request.system

    def limit(self, lane: str) -> int | None:
        """Its ``concurrency``."""
        return self.systems[lane].options.concurrency

    def paid(self, request: AskSystem) -> bool:
        """True, since only its price tells what a system costs."""
        return True

    def price(self, request: AskSystem, usage: Usage) -> float | None:
        """Its ``price``."""
        return self.systems[request.system].options.price

    async def send(self, request: AskSystem, on_delta: OnDelta | None = None) -> SystemReply:
        """Ask once; errors of the system become typed, with what it raised or returned."""
        system = self.systems[request.system]
        options, name = system.options, system.name
        late = self._late[name] = [f for f in self._late.get(name, ()) if not f.done()]
        if len(late) >= options.concurrency:
            raise SystemCallError(
                f"not asked: {len(late)} earlier questions still run after their "
                f"{options.timeout:g} s",
                where=name,
                hint="see where the system hangs, or raise `timeout` in its file",
            )
        future: Future[SystemReply] = Future()
        future.set_running_or_notify_cancel()  # a thread cannot be ended
        threading.Thread(
            target=self._answer, args=(future, system, request), name="system", daemon=True
        ).start()
        try:
            return await asyncio.wait_for(asyncio.wrap_future(future), options.timeout)
        except TimeoutError as error:
            self._late[name].append(future)
            raise SystemCallError(
                f"no answer within {options.timeout:g} s",
                where=name,
                hint="raise `timeout` in the system's file, or lower -j",
            ) from error

    def _answer(self, future: Future[SystemReply], system: UnderTest, request: AskSystem) -> None:
        """In a thread: ask, and tell the future."""
        try:
            future.set_result(self._ask_system(system, request))
        except RagwrightError as error:
            error.where = error.where or system.name
            future.set_exception(error)
        except BaseException as error:
            named = SystemCallError(f"{type(error).__name__}: {error}", where=system.name)
            named.__cause__ = error
            future.set_exception(named)

    def _ask_system(self, system: UnderTest, request: AskSystem) -> SystemReply:
        """Call, read pieces to their end, read what came back."""
        reply = system.ask(request.question, request.history)
        if inspect.isawaitable(reply) or inspect.isasyncgen(reply):
            reply = self._await_on_loop(_await_reply(reply), system.options.timeout)
        if inspect.isgenerator(reply):
            reply = _joined_pieces(list(reply))
        return reply_of(reply, system.options.ids if system.options.call else "")

    def _await_on_loop(self, work: Coroutine[Any, Any, Any], timeout: float) -> Any:
        """One loop for all coroutines: clients of the system belong to the loop they began on."""
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                threading.Thread(
                    target=_run_loop, args=(self._loop,), name="system-loop", daemon=True
                ).start()
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result(timeout)
        finally:
            future.cancel()

    async def aclose(self) -> None:
        """End the loop of coroutines; what hangs is left to the process's end."""
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._loop = None


def _run_loop(loop: asyncio.AbstractEventLoop) -> None:
    try:
        loop.run_forever()
    finally:
        loop.close()


async def _await_reply(reply: Any) -> Any:
    if inspect.isawaitable(reply):
        reply = await reply
    return _joined_pieces([piece async for piece in reply]) if inspect.isasyncgen(reply) else reply


def _joined_pieces(pieces: list[Any]) -> Any:
    """Pieces of a text as the text; a last one that is not a piece of a text is the reply."""
    if pieces and not isinstance(pieces[-1], str) and not hasattr(pieces[-1], "content"):
        return pieces[-1]
    return "".join(map(text_of, pieces))
