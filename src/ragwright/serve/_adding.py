"""The job that reads added sources in."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

from ..core import RagwrightError
from ._errors import ApiError

if TYPE_CHECKING:
    from ..project import IngestProgress

    OnStart: TypeAlias = Callable[[IngestProgress], None]

log = logging.getLogger("ragwright.serve")


@dataclass
class AddingJob:
    """What is read in, or was read in last, since this process was started.

    Attributes:
        names: Files and addresses.
        running: True while they are read in.
        progress: Counters, once reading has begun.
        report: The report at the end, as ``ingest --json`` prints it.
        fault: Why the job failed, and what to do.
    """

    names: tuple[str, ...] = ()
    running: bool = False
    progress: IngestProgress | None = None
    report: Mapping[str, Any] | None = None
    fault: str = ""
    tasks: set[asyncio.Task[None]] = field(default_factory=set)

    def start(
        self, ingest: Callable[[OnStart], Awaitable[Mapping[str, Any]]], names: Sequence[str]
    ) -> None:
        """Begin to read sources in.

        Args:
            ingest: Reads them in; returns the report.
            names: Names of the sources, for the page.

        Raises:
            ApiError: 409, others are read in already.
        """
        if self.running:
            raise ApiError(409, "other sources are being read in; wait for them", "busy")
        self.names, self.running = tuple(names), True
        self.progress, self.report, self.fault = None, None, ""
        task = asyncio.create_task(self._work(ingest))
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    async def _work(self, ingest: Callable[[OnStart], Awaitable[Mapping[str, Any]]]) -> None:
        try:
            self.report = await ingest(self._keep_progress)
        except RagwrightError as error:
            self.fault = f"{error.what}{f': {error.hint}' if error.hint else ''}"
        except Exception:
            log.exception("sources could not be read in")
            self.fault = "an unexpected error; the log of the server says what it was"
        finally:
            self.running = False

    def _keep_progress(self, progress: IngestProgress) -> None:
        self.progress = progress
