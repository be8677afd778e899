"""Measures served answers in the background: a child process scores them, so that no answer waits.

The server only looks whether there is something to do. What is drawn, scored and paid is in the
file of outputs: after a restart the work goes on where it ended.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager, suppress

from ..core import RagwrightError
from ..drafting import Outputs
from ..jobs import PROGRAM, StepPlan, run_step
from ..ledger import FileLock
from ..project import ProjectFolder
from ..workbench import Workbench
from ._options import ServeOptions

log = logging.getLogger("ragwright.serve")


class BackgroundMeasurer:
    """Starts `ragwright outputs measure` whenever served answers wait to be measured.

    One worker of a project does it; where that one ends, another takes over.

    Args:
        folder: The project.
        overrides: ``key.path=value`` texts laid over its file.
        options: Gives the settings of the moment.
        using: Gives the project, kept open while it is used.
    """

    def __init__(
        self,
        folder: ProjectFolder,
        overrides: Sequence[str],
        options: Callable[[], ServeOptions],
        using: Callable[[], AbstractAsyncContextManager[Workbench]],
    ) -> None:
        self._root = folder.root.resolve()
        self._overrides = overrides
        self._options = options
        self._using = using
        self._stop = threading.Event()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="measuring")
        path = folder.data / "serve" / "background.lock"
        self._lock = FileLock(path, "measuring in the background")
        self._mine = False
        self._last_fault = ""
        self._task = asyncio.create_task(self._measure_forever())

    async def close(self) -> None:
        """End the work under way; what was paid for is stored, the rest waits."""
        self._stop.set()
        self._task.cancel()
        with suppress(asyncio.CancelledError):
            await self._task
        await asyncio.to_thread(self._thread.shutdown, wait=True)
        self._lock.release()

    async def _measure_forever(self) -> None:
        while True:
            await asyncio.sleep(self._options().measure.interval)
            options = self._options()
            if not options.measure.share or not options.keep_answers:
                continue
            try:
                async with self._using() as bench:
                    loop = asyncio.get_running_loop()
                    await loop.run_in_executor(
                        self._thread,
                        self._score_waiting,
                        bench.outputs,
                        options.measure.daily_budget,
                    )
            except (RagwrightError, OSError) as error:
                self._warn_once(str(error))

    def _score_waiting(self, outputs: Outputs, daily_budget: float | None) -> None:
        """Score what waits, in a process of its own; on this object's thread."""
        self._mine = self._mine or self._lock.acquire()
        if not self._mine or not outputs.scores.has_work(daily_budget):
            return
        override_words = [word for text in self._overrides for word in ("--set", text)]
        words = [*PROGRAM, "outputs", "measure", "--background", "--quiet"]
        words += ["--project", str(self._root), *override_words]
        end = run_step(StepPlan(words, self._root), self._stop)
        if end.state == "failed":
            self._warn_once(end.output.rpartition("\n")[2])
        elif end.state == "succeeded":
            self._last_fault = ""

    def _warn_once(self, fault: str) -> None:
        """Log a fault once, until it changes."""
        if fault != self._last_fault:
            self._last_fault = fault
            log.warning("served answers are not measured at the moment: %s", fault)
