"""The engine of the runner: drives flows and performs their steps, on the runner's loop."""

from __future__ import annotations

import asyncio
import copy
import itertools
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any, TypeVar, cast

from ..core import (
    BudgetStopped,
    FlowError,
    GatherError,
    ModelTimeoutError,
    RagwrightError,
    StoppedError,
    StoreError,
    StoreFullError,
    StoreUnreachableError,
    UnhandledRequestError,
)
from ._calls import Call, CallRunner, Key, Listener
from ._handlers import (
    AnyHandler,
    Batcher,
    BatchHandler,
    Handler,
    HandlerSource,
    durable,
    may_stream,
)
from ._lanes import RetryPolicy
from ._replies import Replies
from ._requests import ChatReply, Reply, Request, Search, decode, reply_key, sources_of
from ._spending import Budget
from ._verbs import (
    Branch,
    Context,
    Flow,
    Gather,
    PoolCall,
    ReplyCheck,
    RunnerOptions,
    Step,
    Stopping,
    TraceEntry,
)

T = TypeVar("T")

_STEPS_A_TURN = 64
_MOST_REMEMBERED = 4096


class RunnerLoop:
    """Everything that runs on the loop; the Runner is its interface for other threads."""

    def __init__(
        self,
        handlers: Mapping[type[Any], HandlerSource],
        options: RunnerOptions,
        retry: RetryPolicy,
        replies: Replies | None,
        budget: Budget,
    ) -> None:
        self.options = options
        self.caller = CallRunner(options, retry, replies, budget)
        self._sources = handlers
        self._replies = replies
        self._handlers: dict[int, Handler[Any, Any]] = {}
        self._memo: dict[Any, Reply] = {}
        self._calls: dict[Any, Call] = {}
        self._tasks: dict[asyncio.Task[None], Call] = {}
        self._drives: set[asyncio.Task[Any]] = set()
        self._pool = ThreadPoolExecutor(options.workers, thread_name_prefix="ragwright-batch")
        self._batchers: dict[int, Batcher] = {}

    def forget_searches(self) -> None:
        """Forget the remembered results of searches."""
        self._memo = {}

    # -- driving ---------------------------------------------------------------------------

    async def run(self, flow: Flow[T], context: Context) -> T:
        """Drive a flow to its end as a top-level flow: a stop reaches it.

        Raises:
            Stopping: The work was stopped; the generator is closed.
        """
        task = asyncio.current_task()
        assert task is not None
        self._drives.add(task)
        try:
            return await self.drive(flow, context)
        finally:
            self._drives.discard(task)

    async def drive(self, flow: Flow[T], context: Context) -> T:
        """Step a flow until it returns; errors of requests are thrown at its yield."""
        advance: Callable[[Any], Step] = flow.send
        value: Any = None
        steps = 0
        try:
            while True:
                if self.caller.reason is not None:
                    raise Stopping(self.caller.reason)
                try:
                    step = advance(value)
                except StopIteration as stop:
                    return cast("T", stop.value)
                try:
                    value = await self._perform(step, context)
                    advance = flow.send
                except Exception as error:
                    value = error
                    advance = flow.throw
                steps += 1
                if steps % _STEPS_A_TURN == 0:  # known replies never wait: give other flows a turn
                    await asyncio.sleep(0)
        except asyncio.CancelledError:
            _close(flow)
            if self.caller.reason is not None:
                raise Stopping(self.caller.reason) from None
            raise
        except Stopping:
            _close(flow)
            raise
        except (KeyboardInterrupt, SystemExit, GeneratorExit) as error:
            # Raised by the flow itself; let through, it would end the runner's loop.
            raise FlowError(f"the flow raised {type(error).__name__}") from error
        finally:
            value = None  # else the error and its traceback reference each other

    async def _perform(self, step: Step, context: Context) -> Any:
        if isinstance(step, Gather):
            return await self._gather(step, context)
        if isinstance(step, Branch):
            return None if context.scenario is None else context.scenario.branch(step)
        if isinstance(step, ReplyCheck):
            if context.scenario is None:
                self.caller.progress.read(step.model, step.problem)
            return None
        if context.deadline is not None and time.monotonic() >= context.deadline:
            raise _too_late()
        if isinstance(step, PoolCall):
            return await self._aside(step.work, context)
        if context.trace is None or (isinstance(step, Search) and step.untraced):
            return await self._request(step, context)
        return await self._traced(step, context, context.trace)

    async def _gather(self, step: Gather, context: Context) -> list[Any]:
        """Drive child flows side by side: read as they are needed, results in order."""
        flows, positions = iter(step.flows), itertools.count()
        results: dict[int, Any] = {}
        failed: list[int] = []

        def next_flow() -> tuple[int, Flow[Any]] | None:
            position = next(positions)
            try:
                return position, next(flows)
            except StopIteration:
                return None
            except Exception as error:  # the caller's iterable raised: siblings still settle
                results[position] = error
                failed.append(position)
                return None

        async def drive_some(item: tuple[int, Flow[Any]] | None) -> None:
            while item is not None:
                position, flow = item
                try:
                    results[position] = await self.drive(flow, context)
                except Exception as error:
                    results[position] = error
                    failed.append(position)
                item = next_flow()

        loop = asyncio.get_running_loop()
        tasks: list[asyncio.Task[None]] = []
        while len(tasks) < max(1, step.limit or self.options.width) and (item := next_flow()):
            tasks.append(loop.create_task(drive_some(item)))
        try:
            await asyncio.gather(*tasks)
        except BaseException:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
            raise
        outcomes = [results[position] for position in sorted(results)]
        if failed and not step.settle:
            first = results[min(failed)]
            raise GatherError(
                f"{len(failed)} of {len(outcomes)} flows failed; the first: {first}",
                outcomes=outcomes,
            ) from first
        return outcomes

    async def _aside(self, work: Callable[[], Any], context: Context) -> Any:
        try:
            async with asyncio.timeout_at(context.deadline) as limit:
                return await asyncio.get_running_loop().run_in_executor(self._pool, work)
        except TimeoutError:
            if limit.expired():
                raise _too_late() from None
            raise

    async def _traced(self, request: Request, context: Context, trace: list[TraceEntry]) -> Reply:
        loop = asyncio.get_running_loop()
        started = loop.time()
        try:
            reply = await self._request(request, context)
        except RagwrightError as error:
            trace.append(TraceEntry(request, None, error, loop.time() - started, False))
            raise
        trace.append(
            TraceEntry(request, reply, None, loop.time() - started, getattr(reply, "cached", False))
        )
        return reply

    # -- requests --------------------------------------------------------------------------

    def handler(self, request: Request) -> AnyHandler:
        """The handler of a request.

        Raises:
            UnhandledRequestError: There is none.
        """
        try:
            source = self._sources[type(request)]
        except KeyError:
            raise UnhandledRequestError(
                f"this runner has no handler for {type(request).__name__} requests",
                hint="open the flow's project with a Workbench, pass a handler to the Runner, or "
                "install the package that adds them",
            ) from None
        handler = source if isinstance(source, Handler) else source(request)
        self._handlers[id(handler)] = handler
        return handler

    async def _request(self, request: Request, context: Context) -> Reply:
        """The reply to a request: remembered, stored, forecast in a dry run, or sent for."""
        try:
            handler = self.handler(request)
            key = self._key(handler, request, context.scope)
        except RagwrightError as error:
            # A flow may treat it, an unknown model say, as the failure of one row: a dry run fails.
            if context.scenario is not None:
                context.scenario.refused = context.scenario.refused or error
            raise
        if isinstance(request, Search):
            memo_key = (context.scope, request)
            remembered = self._memo.get(memo_key)
            if remembered is not None:
                return remembered
            reply = await self._shared(memo_key, handler, request, None, context)
            if len(self._memo) >= _MOST_REMEMBERED:
                del self._memo[next(iter(self._memo))]
            self._memo[memo_key] = reply
            return reply
        if may_stream(request) and context.sink is not None:
            if context.streamed:
                raise FlowError(
                    "a second request of one flow is marked stream",
                    hint="mark only the request whose text is shown to the user",
                )
            context.streamed = True
        if context.scenario is not None:
            known = await self._known(request, key)
            if known is not None:
                context.scenario.reused += 1
                return known
            if not isinstance(handler, BatchHandler) and not handler.free(request):
                return context.scenario.forecast(handler, request, key.text if key else None)
        reply = await self._shared(key, handler, request, key, context)
        # The reply may be known or shared: it is forgotten with the sources of this flow too.
        sources = (*sources_of(request), *context.sources)
        if key is not None and sources and self._replies is not None:
            self._replies.add_sources(key.text, sources)
        return reply

    def _key(self, handler: AnyHandler, request: Request, scope: str) -> Key | None:
        """Key of its stored reply; None if it is not stored."""
        if not durable(request) or not handler.durable(request):
            return None
        return Key(
            reply_key(request, handler.identity(request), scope, self.options.attempt), scope
        )

    async def _known(self, request: Request, key: Key | None) -> Reply | None:
        if key is None or not self.options.reuse or self._replies is None:
            return None
        try:
            if self._replies.remote:  # off the loop
                loop = asyncio.get_running_loop()
                data = await loop.run_in_executor(self._pool, self._replies.get, key.text)
            else:
                data = self._replies.get(key.text)
        except StoreError as error:  # calls would be paid for again
            raise Stopping(error) from error
        return None if data is None else decode(type(request), data)

    async def _shared(
        self,
        merge_key: Any,
        handler: AnyHandler,
        request: Request,
        key: Key | None,
        context: Context,
    ) -> Reply:
        call = self._calls.get(merge_key) if merge_key is not None else None
        if call is None:
            call = self._start(merge_key, handler, request, key)
        listener = None
        if may_stream(request) and context.sink is not None:
            listener = Listener(context.sink)
            call.listen(listener)
        call.waiters += 1
        try:
            reply = await self._awaited(call, context)
        finally:
            call.waiters -= 1
            if listener is not None:
                call.listeners.remove(listener)
            wanted = call.waiters or self.caller.reason is not None or context.left
            if not wanted and not call.future.done():
                self._abandon(merge_key, call)
        if listener is not None:
            if not listener.heard:  # made by another process, or for a flow that did not stream
                listener.hear(_text(reply))
            if listener.error is not None:
                raise FlowError("the sink of a streamed reply failed") from listener.error
        return reply

    async def _awaited(self, call: Call, context: Context) -> Reply:
        """The reply of a shared call, or this flow's own copy of its error."""
        try:
            async with asyncio.timeout_at(context.deadline) as limit:
                return await asyncio.shield(call.future)
        except Exception as error:
            if isinstance(error, TimeoutError) and limit.expired():
                raise _too_late() from None
            raise _copy_error(error) from error.__cause__

    def _start(
        self, merge_key: Any, handler: AnyHandler, request: Request, key: Key | None
    ) -> Call:
        loop = asyncio.get_running_loop()
        # what a batch holds is dropped by its batcher at a stop, not by cancelling
        call = Call(loop.create_future(), sent=isinstance(handler, BatchHandler))
        call.task = loop.create_task(self._make_call(handler, request, key, call))
        self._tasks[call.task] = call
        call.task.add_done_callback(lambda task: self._tasks.pop(task, None))
        if merge_key is not None:
            self._calls[merge_key] = call
            call.future.add_done_callback(lambda _: self._leave_out(merge_key, call))
        # asyncio logs nothing about the error of an abandoned call once it was asked for
        call.future.add_done_callback(lambda future: future.cancelled() or future.exception())
        return call

    def _leave_out(self, merge_key: Any, call: Call) -> None:
        """No further request joins this call; a call that replaced it is not touched."""
        if self._calls.get(merge_key) is call:
            del self._calls[merge_key]

    async def _make_call(
        self, handler: AnyHandler, request: Request, key: Key | None, call: Call
    ) -> None:
        try:
            reply = await self._known(request, key)
            if reply is not None:
                self.caller.progress.reused += 1
            elif isinstance(handler, BatchHandler):
                if self.caller.reason is not None:
                    raise Stopping(self.caller.reason)
                batcher = self._batchers.setdefault(id(handler), Batcher(handler, self._pool))
                reply = cast("Reply", await batcher.put(request))
                if key is not None and self._replies is not None:
                    await self.caller.commit(key, request, handler.lane(request), reply, 0.0)
            else:
                reply = await self.caller.call(handler, request, key, call)
        except asyncio.CancelledError:
            if self.caller.reason is not None:
                _fail(call.future, Stopping(self.caller.reason))
            call.future.cancel()
        except Stopping as stopping:
            self.stop(stopping.reason)
            _fail(call.future, stopping)
        except (BudgetStopped, StoreFullError, StoreUnreachableError) as error:
            self.stop(error)  # replies would be lost, or cost too much
            _fail(call.future, Stopping(error))
        except Exception as error:
            _fail(call.future, error)
        else:
            if not call.future.done():
                call.future.set_result(reply)

    def _abandon(self, merge_key: Any, call: Call) -> None:
        """No flow waits any more: cancel the call; a later request starts a new one."""
        if merge_key is not None:
            self._leave_out(merge_key, call)
        if call.task is not None:
            call.task.cancel()

    # -- stopping --------------------------------------------------------------------------

    def stop(self, reason: RagwrightError) -> None:
        """Close every flow at its yield; calls in flight go on and are committed.

        Calls that wait (for a place, for money, before another attempt) end at once.
        """
        if self.caller.reason is None:
            self.caller.reason = reason
            current = asyncio.current_task()
            for drive in list(self._drives):
                drive.cancel()
            for task, call in list(self._tasks.items()):
                if not call.sent and task is not current:
                    task.cancel()
            for batcher in self._batchers.values():
                batcher.drop()

    async def drain(self, grace: float | None = None) -> None:
        """Wait for the calls in flight, then allow new work (a spent budget stays spent).

        Calls that take longer than ``grace`` seconds are cancelled. A batch under way cannot be: it
        goes on, and nobody waits for it.
        """
        loop = asyncio.get_running_loop()
        end = None if grace is None else loop.time() + grace
        late = False
        while True:
            working = [b.task for b in self._batchers.values() if b.task is not None]
            waiting: list[asyncio.Future[Any]] = [*self._tasks, *self._drives]
            waiting += [] if late else working
            if not waiting:
                break
            left = None if end is None or late else max(0.0, end - loop.time())
            _, pending = await asyncio.wait(waiting, timeout=left)
            await asyncio.sleep(0)  # their callbacks take them off the lists
            if pending and end is not None and not late:
                late = True
                progress = self.caller.progress
                progress.given_up.update(+progress.awaited)
                for task in list(self._tasks):
                    task.cancel()
        self.caller.reason = None

    async def close(self) -> None:
        """Stop, drain and release every handler, those that a source picked included.

        Raises:
            Exception: The first failure of a handler to close; the others are closed first.
        """
        if self._tasks or self._drives:
            self.stop(StoppedError("the runner was closed"))
        await self.drain()
        for source in self._sources.values():
            if isinstance(source, Handler):
                self._handlers[id(source)] = source
        failure = None
        for handler in self._handlers.values():
            try:
                await handler.aclose()
            except Exception as error:
                failure = failure or error
        self._pool.shutdown(wait=False, cancel_futures=True)
        await asyncio.get_running_loop().shutdown_asyncgens()
        if failure is not None:
            raise failure


def _text(reply: Reply) -> str:
    return reply.text if isinstance(reply, ChatReply) else ""


def _close(flow: Flow[Any]) -> None:
    with suppress(Exception, SystemExit, KeyboardInterrupt):
        flow.close()


def _copy_error(error: Exception) -> Exception:
    """A copy for one flow: one object raised in several would collect all tracebacks."""
    with suppress(Exception):  # an exception class whose arguments differ
        copied = copy.copy(error)
        if type(copied) is type(error):
            return copied.with_traceback(error.__traceback__)
    return error


def _too_late() -> ModelTimeoutError:
    return ModelTimeoutError(
        "the flow's own time limit has passed", hint="raise the time limit of the run"
    )


def _fail(future: asyncio.Future[Any], error: BaseException) -> None:
    if not future.done():
        future.set_exception(error)
