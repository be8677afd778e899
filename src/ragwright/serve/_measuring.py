"""Measures served answers in the background: a child process scores them, so that no answer waits.

The server only looks whether there is something to do. What is drawn, scored and paid is in the
file of outputs: after a restart the work goes on where it ended.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from ..core import FileLock, RagwrightError
from ..jobs import PROGRAM, StepPlan, run_step

if TYPE_CHECKING:
    from ..drafting import Outputs
    from ._service import Service

log = logging.getLogger("ragwright.serve")


class BackgroundMeasuring:
    """Starts `ragwright outputs measure` whenever served answers wait to be measured.

    One worker of a project does it; where that one ends, another takes over.

    Args:
        service: What is served.
    """

    def __init__(self, service: Service) -> None:
        self._service = service
        self._stop = threading.Event()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="measuring")
        path = service.folder.data / "serve" / "background.lock"
        self._lock = FileLock(path, "measuring in the background")
        self._mine = False
        self._said = ""
        self._task = asyncio.create_task(self._run())

    async def close(self) -> None:
        """End the work under way; what was paid for is stored, the rest waits."""
        self._stop.set()
        self._task.cancel()
        with suppress(asyncio.CancelledError):
            await self._task
        await asyncio.to_thread(self._thread.shutdown, wait=True)
        self._lock.release()

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(self._service.options.measure.interval)
            options = self._service.options
            if not options.measure.share or not options.keep_answers:
                continue
            try:
                opened, _ = self._service.find("", None)
                async with self._service.using(opened) as bench:
                    loop = asyncio.get_running_loop()
                    await loop.run_in_executor(
                        self._thread, self._look, bench.outputs, options.measure.daily_budget
                    )
            except (RagwrightError, OSError) as error:
                self._warn(str(error))

    def _look(self, outputs: Outputs, daily_budget: float | None) -> None:
        """Score what waits, in a process of its own; on this object's thread."""
        self._mine = self._mine or self._lock.acquire()
        if not self._mine or not outputs.scores.has_work(daily_budget):
            return
        root = Path(self._service.folder.root).resolve()
        laid = [word for text in self._service.serving.overrides for word in ("--set", text)]
        words = [*PROGRAM, "outputs", "measure", "--quiet", "--project", str(root), *laid]
        end = run_step(StepPlan(words, root), self._stop)
        if end.state == "failed":
            self._warn(end.output.rpartition("\n")[2])
        elif end.state == "succeeded":
            self._said = ""

    def _warn(self, what: str) -> None:
        """Log a fault once, until it changes."""
        if what != self._said:
            self._said = what
            log.warning("served answers are not measured at the moment: %s", what)
