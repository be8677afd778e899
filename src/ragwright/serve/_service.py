"""What is served: configurations, opened, each replaced whole when something newer is ready."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import re
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from ..core import Filter, RagwrightError, RetrieveError, near
from ..drafting import Origin, origin_of
from ..project import ProjectFolder, Served, ServeOptions, Session, load_settings
from ..workbench import Asking, Workbench
from ._errors import ApiError
from ._keys import ServeKey, ServeKeys
from ._ledger import Ledger
from ._traces import Tracing
from ._turns import Turns

if TYPE_CHECKING:
    from ..retrieve import Target
    from ._metrics import Metrics

log = logging.getLogger("ragwright.serve")

_WATCH = 1.0
"""Seconds between two looks for a new index, configuration or file."""

_UNLIMITED = "budget.max_cost=null"
"""``budget.max_cost`` bounds a command; a server is bounded by the day."""


@dataclass(frozen=True, slots=True)
class Serving:
    """How a project is served.

    Attributes:
        folder: The project.
        overrides: ``key.path=value`` texts laid over what is served.
        own: Serve the project's own settings instead of the promoted ones, and follow changes of
            its files.
        watch: Seconds between two looks for something newer.
    """

    folder: Path = Path()
    overrides: tuple[str, ...] = ()
    own: bool = False
    watch: float = _WATCH


@dataclass(slots=True)
class Opened:
    """A configuration that is open, and how many requests use it.

    Attributes:
        name: Its name in ids of models.
        bench: The project under it.
        number: Number of the served configuration, None where it is the project's own.
        origin: What stored answers say of where they come from.
        target: What is searched; None where nothing is ingested, see ``fault``.
        fault: Why there is no target.
    """

    name: str
    bench: Workbench
    number: int | None
    origin: Origin
    target: Target | None = None
    fault: RagwrightError | None = None
    users: int = 0
    retired: bool = False
    idle: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def personas(self) -> tuple[str, ...]:
        """Personas that are served, in the order of their names."""
        project = self.bench.project
        wanted = project.settings.serve.personas
        return tuple(name for name in sorted(project.personas) if not wanted or name in wanted)

    def searched(self) -> Target:
        """What is searched now.

        Raises:
            RagwrightError: Nothing is.
        """
        if self.target is None:
            raise self.fault or RetrieveError("nothing has been ingested yet")
        return self.target

    def asking(self, key: ServeKey | None, filters: tuple[Filter, ...] = ()) -> Asking:
        """How a key's requests are asked: its filters and its scope, on what is searched now."""
        own, scope = ((), "") if key is None else (key.conditions, key.scope)
        return Asking(scope=scope, filters=(*own, *filters), target=self.searched())


class Service:
    """Serves a project: opens its configurations, watches for newer ones, hands them out.

    All methods but those that say otherwise belong to the server's event loop.
    """

    def __init__(self, serving: Serving) -> None:
        self.serving = serving
        self.folder = ProjectFolder(serving.folder).require()
        self.options: ServeOptions = self._settings_options()
        self.keys = ServeKeys(self.folder)
        self.ledger = Ledger(self.folder)
        self.turns = Turns(self.options.concurrency, self.options.waiting)
        self.tracing = Tracing()
        self.metrics: Metrics | None = None
        self.started = int(time.time())
        self._open: Mapping[str, Opened] = {}
        self._state: object = None
        self._watcher: asyncio.Task[None] | None = None
        self._closing: set[asyncio.Task[None]] = set()

    def _settings_options(self) -> ServeOptions:
        return load_settings(self.folder.file, self.serving.overrides).serve

    @property
    def name(self) -> str:
        """Name of the main configuration."""
        return self._named(self.options)

    def _named(self, options: ServeOptions) -> str:
        named = options.name or self.folder.root.resolve().name
        return re.sub(r"[^\w.-]+", "-", named).strip("-") or "project"

    async def start(self) -> None:
        """Open every configuration.

        Raises:
            ConfigError: The settings of one of them are wrong.
        """
        self._state = await asyncio.to_thread(self._seen)
        self.options, self._open = await asyncio.to_thread(self._opened)
        self._watcher = asyncio.create_task(self._watch())

    async def close(self) -> None:
        """Finish what is under way and close everything."""
        if self._watcher is not None:
            self._watcher.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._watcher
        for opened in self._open.values():
            self._retire(opened)
        self._open = {}
        while self._closing:
            await asyncio.wait(self._closing)
        self.tracing.close()
        self.ledger.close()

    # -- handing out -----------------------------------------------------------------------

    def configurations(self, key: ServeKey | None) -> list[Opened]:
        """The configurations that a key may use."""
        return [one for name, one in self._open.items() if _may(key, name)]

    def models(self, key: ServeKey | None) -> Iterator[str]:
        """Ids of models: ``configuration`` and ``configuration/persona``."""
        for opened in self.configurations(key):
            yield opened.name
            for persona in opened.personas:
                yield f"{opened.name}/{persona}"

    def find(self, model: str, key: ServeKey | None) -> tuple[Opened, str]:
        """The configuration and the persona of a model's id; the main one for an empty id.

        Raises:
            ApiError: 404; there is none, or this key may not use it.
        """
        name, _, persona = (model or self.name).partition("/")
        opened = self._open.get(name)
        if opened is None or not _may(key, name) or (persona and persona not in opened.personas):
            raise ApiError(
                404,
                f"there is no model {model!r}; {near(model, self.models(key))}",
                "model_not_found",
                param="model",
            )
        return opened, persona

    @contextlib.asynccontextmanager
    async def using(self, opened: Opened) -> AsyncIterator[Workbench]:
        """The project under a configuration, kept open while it is used."""
        opened.users += 1
        try:
            yield opened.bench
        finally:
            opened.users -= 1
            if opened.retired and not opened.users:
                opened.idle.set()

    @property
    def ready(self) -> RagwrightError | None:
        """None where every configuration can answer, else why one cannot."""
        return next((one.fault for one in self._open.values() if one.target is None), None)

    # -- opening, on a thread of its own ---------------------------------------------------

    def _opened(self) -> tuple[ServeOptions, dict[str, Opened]]:
        options = self._settings_options()
        wanted = {self._named(options): (), **options.configurations}
        made: dict[str, Opened] = {}
        try:
            for name, laid in wanted.items():
                made[name] = self._opened_one(name, laid)
        except BaseException:
            for opened in made.values():
                opened.bench.close()
            raise
        return options, made

    def _opened_one(self, name: str, laid: tuple[str, ...]) -> Opened:
        change = None if self.serving.own else Served(self.folder).current()
        session = Session((_UNLIMITED, *laid, *self.serving.overrides), served=change is not None)
        bench = Workbench.open(self.folder.root, session)
        try:
            number = change.number if change is not None else None
            opened = Opened(name, bench, number, origin_of(bench.project))
            _ = bench.project.plan()  # settings that no question could be answered under
            self._aim(opened)
        except BaseException:
            bench.close()
            raise
        return opened

    def _aim(self, opened: Opened) -> None:
        """Search the newest state of the index from now on, once it is whole and open."""
        project = opened.bench.project
        if opened.target is not None:
            if project.folder.ingest_marker.exists():
                return
            if project.store.snapshot(project.pair) == opened.target.snapshot:
                return
        try:
            opened.target, opened.fault = project.target(), None
        except RagwrightError as error:
            if opened.target is None:
                opened.fault = error
            else:
                log.warning("the new index cannot be opened: %s", error.what)

    # -- watching --------------------------------------------------------------------------

    def _seen(self) -> object:
        """What decides the settings, as far as it is followed: equal while nothing has changed."""
        files = [Served(self.folder).file]
        if self.serving.own:
            folders = (self.folder.personas, self.folder.prompts)
            files = [self.folder.file]
            files += [file for folder in folders if folder.is_dir() for file in folder.iterdir()]
        return [(file, _stamp(file)) for file in sorted(files)]

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(self.serving.watch)
            try:
                seen = await asyncio.to_thread(self._seen)
                if seen != self._state:
                    self._state = seen
                    await self._replace()
                for opened in list(self._open.values()):
                    await asyncio.to_thread(self._aim, opened)
            except Exception as error:
                what = error.what if isinstance(error, RagwrightError) else repr(error)
                log.warning("still serving what was served before: %s", what)

    async def _replace(self) -> None:
        """Open what is served now; requests under way end under what they began with."""
        options, made = await asyncio.to_thread(self._opened)
        before, self._open = self._open, made
        self.options = options
        for opened in before.values():
            self._retire(opened)
        log.info("serving %s", ", ".join(f"{o.name} ({o.number or 'own'})" for o in made.values()))

    def _retire(self, opened: Opened) -> None:
        opened.retired = True
        if not opened.users:
            opened.idle.set()
        task = asyncio.create_task(_closed(opened))
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)


async def _closed(opened: Opened) -> None:
    await opened.idle.wait()
    await asyncio.to_thread(opened.bench.close)


def _may(key: ServeKey | None, name: str) -> bool:
    return key is None or not key.configurations or name in key.configurations


def _stamp(file: Path) -> tuple[int, int] | None:
    try:
        stat = file.stat()
    except OSError:
        return None
    return stat.st_mtime_ns, stat.st_size
