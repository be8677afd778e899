"""The service: configurations, opened, each replaced whole when something newer is ready."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import re
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal, TypeAlias, TypeVar, get_args

from ..core import ConfigError, RagwrightError, Usage, suggest_name
from ..drafting import origin_of
from ..flow import Meter
from ..jobs import AuditLog, owner_event
from ..ledger import WorkLock
from ..project import (
    EVERY,
    AnswersUnderWay,
    ProjectFolder,
    Served,
    Session,
    Settings,
    load_settings,
)
from ..workbench import Workbench
from ._configurations import BackgroundMeasurer, Catalogues, OpenConfiguration, Readiness
from ._errors import ApiError, log
from ._keys import Identity, Note, ServeKeys
from ._limits import Charges, Metrics, Tracing, Turns
from ._options import ServeOptions, serve_options

_DRAFTS = 4
"""Drafts made at once by one worker; further requests wait."""

_HOUR = 3_600.0
"""Seconds between two deletions of answers that were kept long enough."""

_WATCH = 1.0
"""Seconds between two looks for a new index, configuration or file."""

_RETRY = 30.0
"""Most seconds between two attempts to open what could not be opened."""

_THREADS = 64
"""Most threads of slow work; the turns of drafts bound it further."""

_SHOWN_NAME = 100
"""Most characters of an unknown name that an error repeats."""

PAGE_THREADS = 2
"""Threads of the work of pages: a report takes seconds of one core."""

T = TypeVar("T")

Lane: TypeAlias = Literal["answers", "searches", "drafts"]
"""Kinds of work that take turns apart, so that the slow ones cannot hold up the others."""

OF_A_SERVER = ("budget.max_cost=null", "shared.patience=3")
"""Settings that a server overrides: ``budget.max_cost`` bounds a command, a server is bounded
by the day; and no reader waits long for a shared database that is away."""


@dataclass(frozen=True, slots=True)
class ServedProject:
    """The project to serve, and how.

    Attributes:
        folder: The project.
        overrides: ``key.path=value`` texts laid over what is served.
        own: Serve the project's own settings instead of the promoted ones, and follow changes of
            its files.
        watch: Seconds between two looks for something newer.
        body: Most seconds that a client may take to send a body; nothing else waits meanwhile.
        gives_way: Seconds that answers under way may still take while an erasure waits for them.
    """

    folder: Path = Path()
    overrides: tuple[str, ...] = ()
    own: bool = False
    watch: float = _WATCH
    body: float = 60.0
    gives_way: float = 10.0


class Service:
    """Serves a project: opens its configurations, watches for newer ones, hands them out.

    All methods but those that say otherwise belong to the server's event loop.
    """

    def __init__(self, serving: ServedProject) -> None:
        self.serving = serving
        self.folder = ProjectFolder(serving.folder).require()
        settings = self._load_settings()
        self.options: ServeOptions = serve_options(settings)
        place = settings.shared.place(self.folder.ledger)
        self.audit = AuditLog(place, self.options.audit)
        self.keys = ServeKeys(self.folder, place)
        self.charges = Charges(place)
        self.catalogues = Catalogues()
        self.used: set[str] = set()
        """Addresses of sections of the pages that the project is known to use."""
        self.turns: Mapping[Lane, Turns] = {lane: Turns() for lane in get_args(Lane)}
        self._follow_options(self.options)
        self.tracing = Tracing()
        self.readiness = Readiness(lambda: list(self._open.values()), self.using)
        self._answering = AnswersUnderWay(self.folder.data)
        self._erasing = 0.0
        self.metrics = Metrics()
        self.started = int(time.time())
        self._open: Mapping[str, OpenConfiguration] = {}
        self._state: object = None
        self._file_read: object = None
        self._failed: tuple[object, float, float] = (None, 0.0, 0.0)
        self._slow = ThreadPoolExecutor(_THREADS, thread_name_prefix="ragwright-slow")
        self._pages = ThreadPoolExecutor(PAGE_THREADS, thread_name_prefix="ragwright-pages")
        self._aiming = asyncio.Lock()
        self._watching: list[asyncio.Task[None]] = []
        self._dropped = -_HOUR
        self._measuring: BackgroundMeasurer | None = None
        self._closing: set[asyncio.Task[None]] = set()

    def _follow_options(self, options: ServeOptions) -> None:
        self.options = options
        self.audit.options = options.audit
        for lane, turns in self.turns.items():
            turns.limit(_DRAFTS if lane == "drafts" else options.concurrency, options.waiting)

    async def store_call(self, note: Note) -> None:
        """Add the event of a tool's call by the program that started this one.

        Raises:
            StoreError: It cannot be stored.
        """
        if self.audits and note.kind is not None:
            await self.audit.store(
                replace(
                    owner_event(note.kind, "ragwright mcp", note.subject, note.outcome or "done"),
                    configuration=note.configuration,
                    documents=tuple(note.documents),
                    question=note.question,
                )
            )

    def _load_settings(self) -> Settings:
        return load_settings(self.folder.file, (*OF_A_SERVER, *self.serving.overrides))

    @property
    def audits(self) -> bool:
        """True where the audit log is kept."""
        keep = self.options.audit.keep
        return keep == "always" or (keep == "auto" and self.guarded)

    @property
    def guarded(self) -> bool:
        """True where every request has to say who sends it."""
        return self.options.knows_people or self.keys.used

    @property
    def name(self) -> str:
        """Name of the main configuration."""
        return self._main_name(self.options)

    def _main_name(self, options: ServeOptions) -> str:
        name = options.name or self.folder.root.resolve().name
        return re.sub(r"[^\w.-]+", "-", name).strip("-") or "project"

    async def start(self) -> None:
        """Open every configuration.

        Raises:
            ConfigError: The settings of one of them are wrong.
        """
        self._state = await asyncio.to_thread(self._settings_state)
        self._file_read = _file_stamp(self.folder.file)
        options, self._open = await asyncio.to_thread(self._open_all)
        self._follow_options(options)
        watching = (self._watch_for_changes(), self._note_answers())
        self._watching = [asyncio.create_task(work) for work in watching]
        self._measuring = BackgroundMeasurer(
            self.folder, self.serving.overrides, lambda: self.options, self.main
        )

    async def close(self) -> None:
        """Finish what is under way and close everything."""
        if self._measuring is not None:
            await self._measuring.close()
        for task in self._watching:
            task.cancel()
        await asyncio.gather(*self._watching, return_exceptions=True)
        for opened in self._open.values():
            self._retire_configuration(opened)
        self._open = {}
        while self._closing:
            await asyncio.wait(self._closing)
        for pool in (self._slow, self._pages):
            pool.shutdown(wait=False, cancel_futures=True)
        self.tracing.close()
        self.close_ledger()

    def close_ledger(self) -> None:
        """Close keys, charges and the audit log; safe to call twice."""
        for part in (self.keys, self.charges, self.audit):
            part.close()

    def check(self) -> None:
        """Check every configuration without opening an index.

        Raises:
            ConfigError: The settings of one of them are wrong; it is named.
        """
        with contextlib.ExitStack() as stack:
            self._open_configurations(self.options, stack)

    # -- handing out -----------------------------------------------------------------------

    def configurations(self, identity: Identity | None) -> list[OpenConfiguration]:
        """The configurations that a caller may use."""
        return [opened for name, opened in self._open.items() if _may_use(identity, name)]

    def models(self, identity: Identity | None) -> Iterator[str]:
        """Ids of models: ``configuration`` and ``configuration/persona``."""
        for opened in self.configurations(identity):
            yield opened.name
            for persona in opened.personas:
                yield f"{opened.name}/{persona}"

    def find(self, model: str, identity: Identity | None) -> tuple[OpenConfiguration, str]:
        """The configuration and the persona of a model's id; for an empty id the first one.

        Raises:
            ApiError: 404; there is none, or this caller may not use it.
        """
        name, _, persona = model.partition("/")
        opened = self._open.get(name) if model else next(iter(self.configurations(identity)), None)
        allowed = opened is not None and _may_use(identity, opened.name)
        if opened is None or not allowed or (persona and persona not in opened.personas):
            raise ApiError(
                404,
                f"unknown model {model[:_SHOWN_NAME]!r}; "
                f"{suggest_name(model, [*self.models(identity)])}",
                "model_not_found",
                param="model",
            )
        return opened, persona

    @contextlib.asynccontextmanager
    async def using(self, opened: OpenConfiguration) -> AsyncIterator[Workbench]:
        """The project under a configuration, kept open while it is used."""
        opened.users += 1
        try:
            yield opened.bench
        finally:
            opened.users -= 1
            self._close_unused(opened)

    @contextlib.asynccontextmanager
    async def main(self) -> AsyncIterator[Workbench]:
        """The project under its main configuration, kept open while it is used."""
        async with self.using(self.find("", None)[0]) as bench:
            yield bench

    async def for_page(self, work: Callable[..., T], *arguments: Any) -> T:
        """The work of a page, on few threads of its own: pages never hold up answers."""
        return await self._run_in_pool(self._pages, partial(work, *arguments))

    async def aside(self, work: Callable[[], T]) -> T:
        """Slow work, on threads of its own: what is quick never waits for it."""
        return await self._run_in_pool(self._slow, work)

    async def _run_in_pool(self, pool: ThreadPoolExecutor, work: Callable[[], T]) -> T:
        context = contextvars.copy_context()
        return await asyncio.get_running_loop().run_in_executor(pool, context.run, work)

    def meter(self, identity: Identity | None) -> Meter:
        """The meter for this identity, or for anonymous calls.

        Where money is bounded, calls need a price.
        """
        name, own = ("", None) if identity is None else (identity.name, identity.daily_budget)

        def note(usage: Usage) -> None:
            self.charges.charge(name, usage)
            self.metrics.spent(usage)

        return Meter(note, priced=own is not None or self.options.daily_budget is not None)

    @property
    def gives_way(self) -> bool:
        """True when answers under way must end, because an erasure has waited for them."""
        return self._erasing > self.serving.gives_way

    # -- opening, on a thread of its own ---------------------------------------------------

    def _configured_overrides(self, options: ServeOptions) -> dict[str, tuple[str, ...]]:
        """Configurations by name, and what is laid over the served one for each."""
        return {self._main_name(options): (), **options.configurations}

    def _open_all(self) -> tuple[ServeOptions, dict[str, OpenConfiguration]]:
        options = serve_options(self._load_settings())
        with contextlib.ExitStack() as stack:
            configurations = self._open_configurations(options, stack)
            for opened in configurations.values():
                self._aim_at_newest(opened)
            stack.pop_all()
        return options, configurations

    def _open_configurations(
        self, options: ServeOptions, stack: contextlib.ExitStack
    ) -> dict[str, OpenConfiguration]:
        """The project under each configuration, by name; the stack closes them."""
        configurations = {}
        for name, laid in self._configured_overrides(options).items():
            change = None if self.serving.own else Served(self.folder).current()
            overrides = (*OF_A_SERVER, *laid, *self.serving.overrides)
            session = Session(overrides, served=change is not None)
            try:
                bench = Workbench.open(self.folder.root, session)
                stack.callback(bench.close)
                project = bench.project
                _ = project.plan()
                for persona in serve_options(project.settings).personas:
                    _ = project.persona(persona)
            except ConfigError as error:
                if laid:
                    error.where = f"serve.configurations.{name}: {error.where or self.folder.file}"
                raise
            number = change.number if change is not None else None
            configurations[name] = OpenConfiguration(
                name,
                bench,
                number,
                origin_of(project),
                ungrouped=project.settings.groups.ungrouped == "everyone",
            )
        return configurations

    def _aim_at_newest(self, opened: OpenConfiguration) -> None:
        """Search the newest state of the index from now on, once it is whole and open.

        After an erasure that is at once: no answer may begin from what was erased.
        """
        project = opened.bench.project
        erased = project.erasures.position != opened.erased
        try:
            if erased:
                with project.work.working("serve", brief=True):  # once the erasure has ended
                    position = project.erasures.position
                    project.drop_erased()
                    opened.aim()
                    opened.erased = position
                return
            if opened.target is not None:
                if project.folder.ingest_marker.exists():
                    return
                if project.store.snapshot(project.index_spec) == opened.target.snapshot:
                    return
            opened.aim()
        except RagwrightError as error:
            if erased or opened.target is None:
                opened.target, opened.fault = None, error
            else:
                log.warning("the new index cannot be opened: %s", error.what)

    async def after_erasures(self, opened: OpenConfiguration) -> None:
        """Search what is left, where something was erased from the project since."""
        if opened.bench.project.erasures.position != opened.erased:
            async with self._aiming:
                await asyncio.to_thread(self._aim_at_newest, opened)

    # -- watching --------------------------------------------------------------------------

    def _settings_state(self) -> object:
        """Return a state of the followed settings and files, equal while nothing has changed."""
        if not self.serving.own:
            return Served(self.folder).current()
        folders = (self.folder.personas, self.folder.prompts)
        files = [self.folder.file]
        files += [file for folder in folders if folder.is_dir() for file in folder.iterdir()]
        return [(file, _file_stamp(file)) for file in sorted(files)]

    async def _note_answers(self) -> None:
        """Tell work in the background, in any process, that answers are under way.

        And learn whether an erasure waits for them.
        """
        work = WorkLock(self.folder.data / "work")
        while True:
            if self.turns["answers"].taken or self.turns["drafts"].taken:
                await asyncio.get_running_loop().run_in_executor(self._pages, self._answering.note)
            self._erasing = self._erasing + EVERY if work.awaited else 0.0
            await asyncio.sleep(EVERY)

    async def _watch_for_changes(self) -> None:
        said = ""
        while True:
            await asyncio.sleep(self.serving.watch)
            try:
                await self._follow_groups()
                await self._replace_changed()
                for opened in list(self._open.values()):
                    async with self._aiming:
                        await asyncio.to_thread(self._aim_at_newest, opened)
                await self._drop_old_answers()
                fault = ""
            except Exception as error:
                fault = str(error) if isinstance(error, RagwrightError) else repr(error)
            if fault != said:
                said = fault
                text = f"still serving what was served before: {fault}"
                log.warning("%s", text if fault else "changes are followed again")

    async def _drop_old_answers(self) -> None:
        """Delete stored answers that are older than the settings keep them, once an hour."""
        days, now = self.options.answer_days, time.monotonic()
        opened = next(iter(self._open.values()), None)
        if days is None or opened is None or now < self._dropped + _HOUR:
            return
        self._dropped = now
        async with self.using(opened) as bench:
            await asyncio.to_thread(bench.outputs.drop_answers, days)

    async def _follow_groups(self) -> None:
        """Let a change of ``groups.ungrouped`` and of a database's groups hold at once.

        Also under a promoted configuration.

        Raises:
            ConfigError: The project file cannot be read; what held before holds, and the file is
                read again once it has changed.
        """
        stamp = _file_stamp(self.folder.file)
        if stamp == self._file_read:
            return
        self._file_read = stamp
        overrides = self._configured_overrides(self.options)
        fault: ConfigError | None = None
        for opened in list(self._open.values()):
            laid = (*overrides.get(opened.name, ()), *self.serving.overrides)
            try:
                settings = await asyncio.to_thread(load_settings, self.folder.file, laid)
            except ConfigError as error:  # the others are to be closed nevertheless
                fault = error
                continue
            opened.ungrouped = settings.groups.ungrouped == "everyone"
            opened.bench.project.databases.regroup(settings.retrieve.databases)
        if fault is not None:
            raise fault

    async def _replace_changed(self) -> None:
        """Replace what is served where something has changed.

        What cannot be opened is tried again after a pause that grows, since its fault may pass.
        """
        state = await asyncio.to_thread(self._settings_state)
        if state == self._state:
            return
        failed, pause, again = self._failed
        if state == failed and time.monotonic() < again:
            return
        pause = min(2 * pause, _RETRY) if state == failed else self.serving.watch
        self._failed = (state, pause, time.monotonic() + pause)
        await self._replace_all()
        self._state, self._failed = state, (None, 0.0, 0.0)

    async def _replace_all(self) -> None:
        """Open what is served now; requests under way end under what they began with."""
        options, configurations = await asyncio.to_thread(self._open_all)
        before, self._open = self._open, configurations
        self._follow_options(options)
        for opened in before.values():
            self._retire_configuration(opened)
        log.info(
            "serving %s",
            ", ".join(f"{o.name} ({o.number or 'own'})" for o in configurations.values()),
        )

    def _retire_configuration(self, opened: OpenConfiguration) -> None:
        opened.retired = True
        self._close_unused(opened)

    def _close_unused(self, opened: OpenConfiguration) -> None:
        if opened.retired and not opened.users:
            task = asyncio.create_task(asyncio.to_thread(opened.bench.close))
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)


def _may_use(identity: Identity | None, name: str) -> bool:
    return identity is None or not identity.configurations or name in identity.configurations


def _file_stamp(file: Path) -> tuple[int, int] | None:
    try:
        stat = file.stat()
    except OSError:
        return None
    return stat.st_mtime_ns, stat.st_size
