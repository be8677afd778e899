"""The runner: one loop in one thread, and the drivers that call it from any thread."""

from __future__ import annotations

import asyncio
import concurrent.futures
import copy
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Coroutine, Generator, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from ..core import ConfigError, FlowError, Interrupted, RagwrightError
from ._calls import Estimate
from ._engine import RunnerLoop
from ._forecast import Forecast, forecast_of
from ._handlers import HandlerSource
from ._lanes import Progress, RetryPolicy
from ._replies import Replies
from ._spending import Budget
from ._verbs import Context, Flow, Outcome, RunnerOptions, Scenario, Stopping, TraceEntry

T = TypeVar("T")


class Runner:
    """Carries out the requests of flows: merged, batched, limited, paid once, committed.

    Runs its own event loop in its own thread, so it works in scripts, notebooks and servers
    alike. Use it as a context manager, or call :meth:`close`.

    Args:
        handlers: Handler (or a function that picks one) per kind of request.
        options: Concurrency, time limits, budget, reuse.
        retry: When and how often to try again.
        replies: Store of paid replies; None stores nothing.
        budget: What may be spent; None for no bound.
        at_work: Makes a context that is entered while flows run, such as a lock.
    """

    def __init__(
        self,
        handlers: Mapping[type[Any], HandlerSource],
        options: RunnerOptions | None = None,
        *,
        retry: RetryPolicy | None = None,
        replies: Replies | None = None,
        budget: Budget | None = None,
        at_work: Callable[[], AbstractContextManager[object]] = nullcontext,
    ) -> None:
        self._at_work = at_work
        self.options = options or RunnerOptions()
        self.replies = replies
        self.budget = budget or Budget()
        self._engine = RunnerLoop(
            handlers, self.options, retry or RetryPolicy(), replies, self.budget
        )
        # a garbage-collected generator may re-enter while it is held
        self._lock = threading.RLock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._pid = os.getpid()
        self._closed = False

    def __enter__(self) -> Runner:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def progress(self) -> Progress:
        """Counters of the work so far; may be read from any thread."""
        return self._engine.caller.progress

    def forget_searches(self) -> None:
        """Forget the results of searches that are remembered in memory; from any thread."""
        self._engine.forget_searches()

    # -- drivers ---------------------------------------------------------------------------

    def run(
        self,
        flow: Flow[T],
        *,
        scope: str = "",
        timeout: float | None = None,
        sink: Callable[[str], None] | None = None,
        trace: list[TraceEntry] | None = None,
        sources: tuple[str, ...] = (),
    ) -> T:
        """Drive one flow to its end and return its result.

        Args:
            flow: The flow.
            scope: Who may see the replies; nothing is reused across scopes.
            timeout: Seconds for the whole flow.
            sink: Gets the deltas of the request marked ``stream``; called on the runner's
                thread, so it must be quick.
            sources: Added to the sources of every request: what its replies are forgotten with.
            trace: Gets an entry for each request.

        Raises:
            RagwrightError: What the flow failed with.
            StoppedError: The budget was spent, or the user stopped the work.
        """
        with self._at_work():
            context = Context(scope, _deadline(timeout), sink, trace, sources=sources)
            future = self._submit(self._engine.run(flow, context))
            try:
                return future.result()
            except KeyboardInterrupt:
                self.interrupt()
                raise
            except Stopping as stopping:
                self._drain()
                raise copy.copy(stopping.reason) from None

    async def arun(
        self,
        flow: Flow[T] | Callable[[], Flow[T]],
        *,
        scope: str = "",
        timeout: float | None = None,
        sink: Callable[[str], None] | None = None,
        trace: list[TraceEntry] | None = None,
        sources: tuple[str, ...] = (),
    ) -> T:
        """As :meth:`run`, awaited from another event loop (a server, a notebook).

        A function that makes the flow is called on a thread, so it may read files.
        """
        work = ExitStack()

        def begin() -> Flow[T]:
            work.enter_context(self._at_work())  # it may wait for a lock
            return flow() if callable(flow) else flow

        try:
            begun = await asyncio.to_thread(begin)
            context = Context(scope, _deadline(timeout), sink, trace, sources=sources)
            return await asyncio.wrap_future(self._submit(self._engine.run(begun, context)))
        except Stopping as stopping:
            if not self._closed:
                await asyncio.wrap_future(self._submit(self._engine.drain()))
            raise copy.copy(stopping.reason) from None
        finally:
            work.close()

    def map(self, flows: Iterable[Flow[T]], *, limit: int | None = None) -> Iterator[T]:
        """Results of many flows in input order, lazily.

        The iterable is read on the caller's thread, at most ``limit`` flows ahead.

        Raises:
            RagwrightError: The error of the first flow (in input order) that failed.
            StoppedError: The work was stopped.
            KeyboardInterrupt: After Ctrl-C, once what was in flight is kept.
        """
        stopped: Outcome[T] | None = None
        with closing(self.outcomes(flows, limit=limit)) as outcomes:
            for outcome in outcomes:
                if outcome.state == "skipped":  # read to the end, which may be Ctrl-C itself
                    stopped = stopped or outcome
                elif stopped is None:
                    yield outcome.unwrap()
        if stopped is not None:
            stopped.unwrap()

    def outcomes(
        self,
        flows: Iterable[Flow[T]],
        *,
        limit: int | None = None,
        scope: str = "",
        timeout: float | None = None,
    ) -> Generator[Outcome[T], None, None]:
        """How each flow ended, in input order; a failure stops no other flow.

        ``timeout`` is in seconds, for each flow as a whole. After a stop (budget, Ctrl-C) the
        flows that had not ended are ``skipped`` with the reason, and no further flow is started;
        Ctrl-C is raised at the end.
        """
        most, left, stopped = limit or self.options.width, iter(flows), False
        rows: deque[_Row[T]] = deque()
        news = threading.Event()
        with self._at_work():
            try:
                while True:
                    news.clear()
                    outcome = rows[0].outcome if rows else None
                    stopped = stopped or self._engine.caller.reason is not None
                    stopped = stopped or (outcome is not None and outcome.state == "skipped")
                    # rows that wait for an earlier slow one count too: memory is bounded
                    open_rows = sum(row.outcome is None for row in rows)
                    room = not stopped and open_rows < most and len(rows) < 4 * most
                    if room and (flow := next(left, None)) is not None:
                        rows.append(_Row(flow, Context(scope, _deadline(timeout)), news))
                        self._started().call_soon_threadsafe(rows[-1].begin, self._engine)
                    elif outcome is not None:
                        del rows[0]
                        yield outcome
                    elif rows:
                        news.wait()
                    else:
                        break
            except KeyboardInterrupt:
                self.interrupt()
                for row in rows:
                    yield row.outcome or Outcome("skipped")
                raise
            except BaseException:  # the caller stopped reading, or the iterable of flows raised
                if not self._closed:
                    for row in rows:
                        self._started().call_soon_threadsafe(row.leave)
                raise
            if stopped:
                self._drain()

    @contextmanager
    def stop_if_unreachable(self) -> Iterator[None]:
        """While it is open, all work stops if a model's server stays out of reach.

        Requests then go out one at a time; after five pauses without a connection the work stops
        with the reason. Without it, each request fails alone, after its own attempts.
        """
        caller = self._engine.caller
        caller.stop_if_unreachable = True
        try:
            yield
        finally:
            caller.stop_if_unreachable = False

    def forecast(self, makers: Iterable[Callable[[], Flow[Any]]], *, scope: str = "") -> Forecast:
        """Dry run: the calls that the flows would make, without calling any model.

        Each maker is called once per scenario. Known replies (of the scope) and free local work
        are real; calls are counted exactly where no flow branches, else as low, expected and high.

        Raises:
            RagwrightError: A flow would call a model that cannot be called, such as an unknown one.
        """
        forecast: Forecast = self._submit(self._forecast(list(makers), scope)).result()
        return forecast

    async def _forecast(self, makers: list[Callable[[], Flow[Any]]], scope: str) -> Forecast:
        expected = Scenario("expected")
        scenarios: dict[Estimate, Scenario] = dict.fromkeys(("low", "expected", "high"), expected)
        for make in makers:
            await self._walk(make(), expected, scope)
        if expected.branched:
            scenarios |= {"low": Scenario("low"), "high": Scenario("high")}
            for name in ("low", "high"):
                for make in makers:
                    await self._walk(make(), scenarios[name], scope)
        return forecast_of(scenarios, self._engine.caller)

    async def _walk(self, flow: Flow[Any], scenario: Scenario, scope: str) -> None:
        try:
            await self._engine.drive(flow, Context(scope, scenario=scenario))
        except ConfigError:  # the run would fail with it, too
            raise
        except Stopping as stopping:
            raise stopping.reason from None
        except Exception:  # a flow may fail on a stand-in reply; its further calls are unknown
            scenario.uncertain += 1
        if scenario.refused is not None:
            raise scenario.refused

    # -- stopping --------------------------------------------------------------------------

    def interrupt(self) -> None:
        """Stop as Ctrl-C does: close flows, wait for calls in flight, keep their replies.

        It waits for ``options.grace`` seconds at most; calls without a reply by then are cancelled.
        """
        if self._loop is not None and not self._closed:
            self.ask_to_stop(
                Interrupted("stopped by the user", hint="run it again: replies are kept")
            )
            self._drain(self.options.grace)

    def ask_to_stop(self, reason: RagwrightError) -> None:
        """Close the flows under way and return at once; whoever drives them gets the reason.

        Call it from any thread. Work can begin again after :meth:`interrupt`, or when the present
        driver has waited for the calls in flight.
        """
        loop = self._loop
        if loop is not None and not self._closed:
            loop.call_soon_threadsafe(self._engine.stop, reason)

    def close(self) -> None:
        """Stop, wait for calls in flight, release clients and threads; safe to call twice."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            loop, thread = self._loop, self._thread
        if loop is not None and thread is not None and self._pid == os.getpid():
            try:
                asyncio.run_coroutine_threadsafe(self._engine.close(), loop).result()
            finally:
                loop.call_soon_threadsafe(loop.stop)
                thread.join()
                loop.close()

    def _drain(self, grace: float | None = None) -> None:
        if not self._closed:  # closing drains by itself
            self._submit(self._engine.drain(grace)).result()

    # -- the loop --------------------------------------------------------------------------

    def _submit(self, coroutine: Coroutine[Any, Any, T]) -> concurrent.futures.Future[T]:
        try:
            return asyncio.run_coroutine_threadsafe(coroutine, self._started())
        except BaseException:
            coroutine.close()
            raise

    def _started(self) -> asyncio.AbstractEventLoop:
        if self._pid != os.getpid():
            raise FlowError(
                "a runner does not survive a fork",
                hint="make a Runner in the child process, or start children with spawn",
            )
        if threading.current_thread() is self._thread:
            raise FlowError(
                "the runner was driven from its own thread and would wait for itself",
                hint="inside a flow use `yield from`; inside a handler do the work directly",
            )
        with self._lock:
            if self._closed:
                raise FlowError("the runner is closed")
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(
                    target=self._loop.run_forever, name="ragwright-runner", daemon=True
                )
                self._thread.start()
            return self._loop


def _deadline(timeout: float | None) -> float | None:
    """Time on the loop's clock when a flow's own time is up."""
    return None if timeout is None else time.monotonic() + timeout


@dataclass(slots=True, eq=False)
class _Row(Generic[T]):
    """A flow of :meth:`Runner.outcomes`; only the loop writes its task and its outcome."""

    flow: Flow[T]
    context: Context
    news: threading.Event
    task: asyncio.Task[T] | None = None
    outcome: Outcome[T] | None = None

    def begin(self, engine: RunnerLoop) -> None:
        """Start the flow; runs on the loop."""
        self.task = asyncio.get_running_loop().create_task(engine.run(self.flow, self.context))
        self.task.add_done_callback(self._end)

    def leave(self) -> None:
        """Cancel the flow because its reader has left; replies in flight are still stored."""
        self.context.left = True
        if self.task is not None:
            self.task.cancel()

    def _end(self, task: asyncio.Task[T]) -> None:
        ended: Outcome[T] = Outcome("skipped")
        if task.cancelled():
            self.flow.close()  # a task that is cancelled before its first step never touches it
        elif (error := task.exception()) is None:
            ended = Outcome("done", task.result())
        elif isinstance(error, Stopping | Exception):
            ended = (
                Outcome("skipped", error=copy.copy(error.reason))
                if isinstance(error, Stopping)
                else Outcome("failed", error=error)
            )
        self.outcome = ended  # once: another thread reads it
        self.news.set()
