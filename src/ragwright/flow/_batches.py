"""Batching: requests queued at the same moment are carried out together; nothing waits."""

from __future__ import annotations

import asyncio
from concurrent.futures import Executor
from typing import Any

from ..core import FlowError, counted
from ._handlers import BatchHandler


class Batcher:
    """The queue in front of one batch handler.

    Requests that arrive while a batch is under way are the next batch; no timer, no wait.
    Lives on the runner's loop.
    """

    def __init__(self, handler: BatchHandler[Any, Any], pool: Executor) -> None:
        self._handler = handler
        self._pool = pool
        self._queue: list[tuple[Any, asyncio.Future[Any]]] = []
        self._scheduled = False
        self.carried: asyncio.Future[Any] | None = None

    def put(self, request: Any) -> asyncio.Future[Any]:
        """Queue a request; the future ends with its reply, or raises its error."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Any] = loop.create_future()
        self._queue.append((request, future))
        self._schedule(loop)
        return future

    def drop(self) -> None:
        """Give up what is queued; a batch under way goes on."""
        waiting, self._queue = self._queue, []
        for _, future in waiting:
            future.cancel()

    def _schedule(self, loop: asyncio.AbstractEventLoop) -> None:
        if not self._scheduled and self.carried is None and self._queue:
            self._scheduled = True
            loop.call_soon(self._flush)

    def _flush(self) -> None:
        self._scheduled = False
        waiting = [pair for pair in self._queue if not pair[1].cancelled()]
        batch, self._queue = waiting, []
        if not batch:
            return
        loop = asyncio.get_running_loop()
        try:
            most = max(1, self._handler.together([request for request, _ in waiting]))
            batch, self._queue = waiting[:most], waiting[most:]
            requests = [request for request, _ in batch]
            quick = self._handler.quick(requests)
        except Exception as error:
            self._settle(batch, [], error)
            self._schedule(loop)
            return
        if quick:
            self._settle(batch, *_carry(self._handler, requests))
            self._schedule(loop)
            return
        self.carried = loop.run_in_executor(self._pool, _carry, self._handler, requests)
        self.carried.add_done_callback(lambda done: self._finished(loop, batch, done))

    def _finished(
        self,
        loop: asyncio.AbstractEventLoop,
        batch: list[tuple[Any, asyncio.Future[Any]]],
        done: asyncio.Future[Any],
    ) -> None:
        self.carried = None
        if done.cancelled():
            self._settle(batch, [], FlowError("the runner was closed"))
        else:
            self._settle(batch, *done.result())
        self._schedule(loop)

    def _settle(
        self,
        batch: list[tuple[Any, asyncio.Future[Any]]],
        replies: list[Any],
        failure: BaseException | None,
    ) -> None:
        if failure is None and len(replies) != len(batch):
            failure = FlowError(
                f"{type(self._handler).__name__} returned {len(replies)} replies "
                f"for {counted(len(batch), 'request')}"
            )
        for position, (_, future) in enumerate(batch):
            if future.done():
                continue
            reply = replies[position] if failure is None else failure
            if isinstance(reply, BaseException):
                future.set_exception(_raisable(reply))
            else:
                future.set_result(reply)


def _carry(
    handler: BatchHandler[Any, Any], requests: list[Any]
) -> tuple[list[Any], BaseException | None]:
    """Replies, or the error of the whole batch as a value (a single bad request fails alone).

    Nothing is raised here: on a worker's thread nothing would catch it.
    """
    try:
        return list(handler.carry(requests)), None
    except BaseException as error:
        if len(requests) == 1 or not isinstance(error, Exception):
            return [error] * len(requests), None
    replies: list[Any] = []
    for request in requests:
        try:
            replies.extend(handler.carry([request]))
        except BaseException as error:
            replies.append(error)
    return replies, None


def _raisable(error: BaseException) -> Exception:
    """The error as one that a future can hold and that does not end the thread."""
    if isinstance(error, Exception) and not isinstance(error, StopIteration):
        return error
    wrapped = FlowError(f"the handler raised {type(error).__name__}")
    wrapped.__cause__ = error
    return wrapped
