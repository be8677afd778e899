"""Readiness for an answer: index, disk, shared database and models are tried."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, suppress
from pathlib import Path

from ..core import RagwrightError
from ..ledger import writable
from ..models import NO_MODEL, check_model
from ..workbench import Workbench
from ._opened import OpenConfiguration

log = logging.getLogger("ragwright.serve")

_KEPT = 5.0
"""Seconds that results are kept, so that probes cost models and databases little."""

_PATIENCE = 5.0
"""Most seconds that one test may take."""

_PROBE = 64 * 1024
"""Bytes written to learn whether the disk takes an answer."""


class Readiness:
    """Tries what the configurations need for an answer; never pays for a reply.

    The first time also opens what the first answer would wait for: model clients, local models.

    Args:
        configurations: Gives what is served now.
        using: Keeps a configuration open while it is used.
    """

    def __init__(
        self,
        configurations: Callable[[], Sequence[OpenConfiguration]],
        using: Callable[[OpenConfiguration], AbstractAsyncContextManager[Workbench]],
    ) -> None:
        self._configurations = configurations
        self._using = using
        self._lock = asyncio.Lock()
        self._faults: Mapping[str, str] = {}
        self._until = 0.0

    async def faults(self) -> Mapping[str, str]:
        """Return faults by name: ``index``, ``disk``, ``shared database``, ``chat model``...

        The texts name no address, since the endpoint needs no key; details are logged once.
        """
        opened = self._configurations()
        index = next(
            (str(configuration.fault) for configuration in opened if configuration.target is None),
            "",
        )
        async with self._lock:
            if time.monotonic() >= self._until:
                before, self._faults = self._faults, await self._all_faults()
                for name in self._faults.keys() - before.keys():
                    log.warning("not ready: %s: %s", name, self._faults[name])
                if before and not self._faults:
                    log.warning("ready again")
                self._until = time.monotonic() + _KEPT * (0.2 if self._faults else 1.0)
            return {**self._faults, **({"index": index} if index else {})}

    async def _all_faults(self) -> dict[str, str]:
        tests = [self._faults_of(opened) for opened in self._configurations()]
        return {
            name: fault for faults in await asyncio.gather(*tests) for name, fault in faults.items()
        }

    async def _faults_of(self, opened: OpenConfiguration) -> dict[str, str]:
        async with self._using(opened) as bench:
            tests = {
                "disk": asyncio.to_thread(_disk_fault, bench),
                "shared database": asyncio.to_thread(_database_fault, bench),
                **{
                    use: asyncio.to_thread(_model_fault, bench, name)
                    for use, name in _needed_models(opened).items()
                },
            }
            outcomes = await asyncio.gather(
                *(asyncio.wait_for(test, _PATIENCE) for test in tests.values()),
                return_exceptions=True,
            )
        faults = {}
        for name, outcome in zip(tests, outcomes, strict=True):
            if isinstance(outcome, TimeoutError):
                faults[name] = f"no reply within {_PATIENCE:g} s"
            elif isinstance(outcome, RagwrightError | OSError):
                faults[name] = str(outcome)
            elif isinstance(outcome, BaseException):
                raise outcome
            elif outcome:
                faults[name] = outcome
        return faults


def _needed_models(opened: OpenConfiguration) -> dict[str, str]:
    """The models of an answer by their use; several chat models where personas have their own."""
    project = opened.bench.project
    own = [project.persona(name).model or project.settings.answer.model for name in opened.personas]
    chats = sorted(set(own or [project.settings.answer.model]) - {"", NO_MODEL})
    uses = {"chat model" if n == 1 else f"chat model {n}": name for n, name in enumerate(chats, 1)}
    if project.settings.embed.model:
        uses["embedding model"] = project.settings.embed.model
    return uses


def _model_fault(bench: Workbench, name: str) -> str:
    project = bench.project
    _ = project.runner  # opened before the first reader waits for it
    finding = check_model(project.models, name, _PATIENCE)
    return finding.text if finding.state == "error" else ""


def _database_fault(bench: Workbench) -> str:
    bench.project.work.reach()
    return ""


def _disk_fault(bench: Workbench) -> str:
    """Return why nothing can be written; empty if it can, or if nothing is meant to be."""
    folder = bench.project.folder.data / "serve"
    if not writable(folder / "probe"):
        return ""
    file = folder / f"probe-{os.getpid()}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _write_probe(file)
    except OSError as error:
        return f"nothing can be stored: {error.strerror or error}"
    finally:
        with suppress(OSError):
            file.unlink(missing_ok=True)
    return ""


def _write_probe(file: Path) -> None:
    with file.open("wb") as probe:
        probe.write(os.urandom(_PROBE))
        probe.flush()
        os.fsync(probe.fileno())
