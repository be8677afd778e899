"""Carries out requests to systems under test, off the runner's loop."""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Coroutine
from concurrent.futures import Future
from typing import Any

from ...core import RagwrightError, SystemCallError, Usage
from ...flow import AskSystem, OnDelta, SendHandler, SystemReply
from ._open import Systems, UnderTest
from ._replies import reply_of, text_of


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
        return self.systems.find(request.system).identity

    def lane(self, request: AskSystem) -> str:
        """The system's name."""
        return request.system

    def limit(self, lane: str) -> int | None:
        """Its ``concurrency``."""
        return self.systems.find(lane).options.concurrency

    def paid(self, request: AskSystem) -> bool:
        """True, since only its price tells what a system costs."""
        return True

    def price(self, request: AskSystem, usage: Usage) -> float | None:
        """Its ``price``."""
        return self.systems.find(request.system).options.price

    async def send(self, request: AskSystem, on_delta: OnDelta | None = None) -> SystemReply:
        """Ask once; errors of the system become typed, with what it raised or returned."""
        system = self.systems.find(request.system)
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
        if inspect.isawaitable(reply):
            reply = self._await_on_loop(_await_value(reply), system.options.timeout)
        if inspect.isasyncgen(reply):
            reply = self._await_on_loop(_joined_async(reply), system.options.timeout)
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


async def _await_value(awaitable: Any) -> Any:
    return await awaitable


async def _joined_async(pieces: Any) -> Any:
    return _joined_pieces([piece async for piece in pieces])


def _joined_pieces(pieces: list[Any]) -> Any:
    """Pieces of a text as the text; a last one that is not a piece of a text is the reply."""
    if pieces and not isinstance(pieces[-1], str) and not hasattr(pieces[-1], "content"):
        return pieces[-1]
    return "".join(map(text_of, pieces))
