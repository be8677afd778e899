"""A configuration that is open."""

from __future__ import annotations

import asyncio
import os
import re
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, suppress
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from ..answer import corpus_ids
from ..core import (
    GROUPS,
    Document,
    Filter,
    FilterError,
    Hit,
    RagwrightError,
    RetrieveError,
    Span,
    is_readable,
)
from ..drafting import Origin, Outputs
from ..flow import Flow, lookup
from ..jobs import PROGRAM, run_step
from ..ledger import FileLock, writable
from ..models import NO_MODEL, check_model
from ..project import ProjectFolder
from ..retrieve import Target
from ..workbench import AskOptions, Workbench
from ._errors import log
from ._keys import Identity
from ._options import ServeOptions, serve_options

T = TypeVar("T")


@dataclass(slots=True)
class OpenConfiguration:
    """A configuration that is open, and how many requests use it.

    Attributes:
        name: Its name in ids of models.
        bench: The project under it.
        number: Number of the served configuration, None where it is the project's own.
        origin: What stored answers say of where they come from.
        target: What is searched; None where nothing is ingested, see ``fault``.
        fault: Why there is no target.
        erased: The last erasure that the target knows of.
        grouped: True if some documents of the target name groups of readers.
        ungrouped: True if documents without groups are everyone's.
    """

    name: str
    bench: Workbench
    number: int | None
    origin: Origin
    target: Target | None = None
    fault: RagwrightError | None = None
    erased: int = 0
    grouped: bool = False
    ungrouped: bool = False
    users: int = 0
    retired: bool = False

    @property
    def personas(self) -> tuple[str, ...]:
        """Personas that are served, by name: those chosen, else the project's own.

        Shipped personas speak of teams that a project may not have.
        """
        project = self.bench.project
        wanted = serve_options(project.settings).personas
        known = project.personas if wanted else project.own_personas
        return tuple(name for name in sorted(known) if not wanted or name in wanted)

    def aim(self) -> None:
        """Search the newest state of the index.

        Raises:
            RagwrightError: Nothing is ingested, or the index cannot be opened.
        """
        project = self.bench.project
        target = project.target()
        grouped, _ = project.views.answer(target.snapshot, lambda view: GROUPS in view.fields())
        # Requests read both from another thread, see `asking`: the right is never late.
        self.grouped = self.grouped or grouped
        self.target, self.fault = target, None
        self.grouped = grouped

    def searched(self) -> Target:
        """The index that is searched now.

        Raises:
            RagwrightError: Nothing is.
        """
        if self.target is None:
            raise self.fault or RetrieveError("nothing has been ingested yet")
        return self.target

    def asking(self, identity: Identity | None) -> AskOptions:
        """Return how a caller's requests ask: under its rights and scope, on the current index.

        Where every document is everyone's, groups cost nothing and narrow nothing.
        """
        grouped = self.grouped  # before the target is read and behind it: either may be newer
        target = self.searched()
        if identity is None:
            return AskOptions(target=target)
        filters: tuple[Filter, ...] = identity.conditions
        grouped = grouped or self.grouped or self.bench.project.databases.grouped
        if grouped or not self.ungrouped:
            right = identity.right(ungrouped=self.ungrouped)
            filters = filters if right is None else (right, *filters)
        return AskOptions(
            scope=identity.scope, person=identity.name, filters=filters, target=target
        )


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
        override_words = [word for text in overrides for word in ("--set", text)]
        words = [*PROGRAM, "outputs", "measure", "--background", "--quiet", *override_words]
        self._root = folder.root.resolve()
        self._words = [*words, "--project", str(self._root)]
        self._options, self._using, self._stop = options, using, threading.Event()
        path = folder.data / "serve" / "background.lock"
        self._lock = FileLock(path, "measuring in the background")
        self._mine = False
        self._ended = asyncio.Event()
        self._task = asyncio.create_task(self._measure_forever())

    async def close(self) -> None:
        """End the work under way; what was paid for is stored, the rest waits."""
        self._stop.set()
        self._ended.set()
        await self._task
        self._lock.release()

    async def _measure_forever(self) -> None:
        said = ""
        while not self._ended.is_set():
            with suppress(TimeoutError):
                await asyncio.wait_for(self._ended.wait(), self._options().measure.interval)
            options = self._options()
            if self._ended.is_set() or not options.measure.share or not options.keep_answers:
                continue
            try:
                async with self._using() as bench:
                    budget = options.measure.daily_budget
                    fault = await asyncio.to_thread(self._score_waiting, bench.outputs, budget)
            except (RagwrightError, OSError) as error:
                fault = str(error)
            if fault and fault != said:  # once, until it changes
                log.warning("served answers are not measured at the moment: %s", fault)
            said = fault

    def _score_waiting(self, outputs: Outputs, daily_budget: float | None) -> str:
        """Score what waits, in a process of its own; the fault that it ended with."""
        self._mine = self._mine or self._lock.acquire()
        if not self._mine or not outputs.scores.has_work(daily_budget):
            return ""
        end = run_step(self._words, self._root, self._stop)
        return end.output.rpartition("\n")[2] if end.state == "failed" else ""


_PROBES_KEPT = 5.0
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
        async with self._lock:
            if time.monotonic() >= self._until:
                found = await asyncio.gather(*map(self._faults_of, opened))
                before, self._faults = self._faults, {k: v for one in found for k, v in one.items()}
                for name in self._faults.keys() - before.keys():
                    log.warning("not ready: %s: %s", name, self._faults[name])
                if before and not self._faults:
                    log.warning("ready again")
                self._until = time.monotonic() + _PROBES_KEPT * (0.2 if self._faults else 1.0)
            unsearched = [("index", str(one.fault)) for one in opened if one.target is None]
            return {**self._faults, **dict(unsearched)}

    async def _faults_of(self, opened: OpenConfiguration) -> dict[str, str]:
        async def fault(test: Callable[..., str], *arguments: object) -> str:
            try:
                async with asyncio.timeout(_PATIENCE):
                    return await asyncio.to_thread(test, *arguments)
            except TimeoutError:
                return f"no reply within {_PATIENCE:g} s"
            except (RagwrightError, OSError) as error:
                return str(error)

        async with self._using(opened) as bench:
            tests = {"disk": fault(_disk_fault, bench), "shared database": fault(_reach, bench)}
            for use, name in _needed_models(opened).items():
                tests[use] = fault(_model_fault, bench, name)
            outcomes = await asyncio.gather(*tests.values())
        return {name: text for name, text in zip(tests, outcomes, strict=True) if text}


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


def _reach(bench: Workbench) -> str:
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
        with file.open("wb") as probe:
            probe.write(os.urandom(_PROBE))
            probe.flush()
            os.fsync(probe.fileno())
    except OSError as error:
        return f"nothing can be stored: {error.strerror or error}"
    finally:
        with suppress(OSError):
            file.unlink(missing_ok=True)
    return ""


_AT_ONCE = 500
"""Chunks looked up by one request."""

_KEPT = 8
"""Lists that are kept: states of indexes, times rights of callers."""


@dataclass(frozen=True, slots=True)
class ListedSource:
    """A document in a list.

    Attributes:
        id: Its id.
        title: Its title.
        source: Its path or address.
        chunks: Chunks of it that may be seen.
        groups: Groups of readers that it is for; to a reader those that it belongs to itself.
    """

    id: str
    title: str
    source: str
    chunks: int
    groups: tuple[str, ...]


class Catalogues:
    """Lists of documents by state of the index and rights."""

    def __init__(self) -> None:
        self._kept: dict[tuple[str, str, str], tuple[Any, ...]] = {}

    async def of(self, bench: Workbench, asking: AskOptions) -> tuple[ListedSource, ...]:
        """All documents that a caller may see, by id."""
        return await self._find(_list_sources, bench, asking)

    async def questions(self, bench: Workbench, asking: AskOptions) -> tuple[str, ...]:
        """Headings of documents that a caller may see, of those that are questions."""
        return await self._find(_list_questions, bench, asking)

    async def _find(
        self, listing: Callable[..., Flow[tuple[T, ...]]], bench: Workbench, asking: AskOptions
    ) -> tuple[T, ...]:
        project, target = bench.project, target_of(asking)
        filters = asking.search_options(project.settings.retrieve).filters
        key = (listing.__name__, target.snapshot, repr(filters))
        if key not in self._kept:
            if len(self._kept) >= _KEPT:
                self._kept.clear()
            try:
                flow = listing(target, filters)
                self._kept[key] = await project.runner.arun(flow, scope=asking.scope)
            except FilterError:  # no document has what the rights ask for
                return ()
        return self._kept[key]


_SAMPLED = 400
"""Most chunks whose headings are read for questions."""
_QUESTION = re.compile(r"^#{1,6} +(?=(?:\S+ +){2})(\S.{8,88}\?) *$", re.MULTILINE)
"""A heading that asks something, in three words or more."""


def _list_questions(target: Target, filters: Sequence[Filter]) -> Flow[tuple[str, ...]]:
    """Questions in headings of chunks that meet the filters, in a sample of all."""
    ids, _ = yield from corpus_ids(target, filters)
    sample = ids[:: max(1, -(-len(ids) // _SAMPLED))]
    hits = (yield from lookup(target.snapshot, sample)).hits if sample else ()
    return tuple(dict.fromkeys(text for hit in hits for text in _QUESTION.findall(hit.text)))


def _list_sources(target: Target, filters: Sequence[Filter]) -> Flow[tuple[ListedSource, ...]]:
    """The documents with a chunk that meets the filters, by id."""
    right = next((condition for condition in filters if condition.missing is not None), None)
    ids, _ = yield from corpus_ids(target, filters)
    # the id of a chunk begins with that of its document
    counts = Counter(chunk.rpartition(":")[0] for chunk in ids)
    wanted = list({chunk.rpartition(":")[0]: chunk for chunk in reversed(ids)}.values())
    sources: list[ListedSource] = []
    for at in range(0, len(wanted), _AT_ONCE):
        for hit in (yield from lookup(target.snapshot, wanted[at : at + _AT_ONCE])).hits:
            named = hit.metadata.get(GROUPS, ())
            groups = named if isinstance(named, tuple) else (str(named),)
            if right is not None:  # readers do not learn which other groups may read it
                groups = tuple(group for group in groups if group in right.values)
            chunks = counts[hit.document_id]
            sources.append(ListedSource(hit.document_id, hit.title, hit.source, chunks, groups))
    return tuple(sorted(sources, key=lambda source: source.id))


@dataclass(frozen=True, slots=True)
class VisibleSource:
    """A document, and the spans of it and of its chunks that a caller may see, in text order."""

    document: Document
    spans: tuple[Span, ...]
    chunks: tuple[Span, ...]

    @property
    def complete(self) -> bool:
        """True where all of it may be seen."""
        return self.spans == (Span(0, len(self.document.text)),)

    def shows(self, start: int, end: int) -> bool:
        """True where a span may be seen as a whole."""
        return any(span.start <= start and end <= span.end for span in self.spans)

    def text(self, start: int, end: int) -> str:
        """Return the visible text of a span; gaps are left out."""
        parts = (
            self.document.text[max(start, span.start) : min(end, span.end)]
            for span in self.spans
            if span.start < end and start < span.end
        )
        return "\n\n".join(parts)


async def visible_source(
    bench: Workbench, asking: AskOptions, document_id: str
) -> VisibleSource | None:
    """A document of the index as a caller may see it; None where nothing of it may be."""
    project = bench.project
    filters = asking.search_options(project.settings.retrieve).filters
    wanted = (*filters, Filter("document_id", (document_id,)))
    try:
        hits = await project.runner.arun(_visible_chunks(asking, wanted), scope=asking.scope)
    except FilterError:  # no chunk that may be seen is of this document
        return None
    document = await asyncio.to_thread(project.store.document, document_id) if hits else None
    # An ingest under way may have closed it: the text is its newest, the search is of before.
    if document is None or not is_readable(document, filters):
        return None
    parted = any(condition.missing is None for condition in filters)  # groups are of documents
    spans = _merged_spans(hits) if parted else (Span(0, len(document.text)),)
    return VisibleSource(document, spans, tuple(Span(hit.start, hit.end) for hit in hits))


def _visible_chunks(asking: AskOptions, filters: Sequence[Filter]) -> Flow[tuple[Hit, ...]]:
    """Every chunk that meets the filters, as hits."""
    target = target_of(asking)
    ids, _ = yield from corpus_ids(target, filters)
    if not ids:
        return ()
    return (yield from lookup(target.snapshot, ids)).hits


def target_of(asking: AskOptions) -> Target:
    """The index that a request searches."""
    assert asking.target is not None, "a service says what is searched"
    return asking.target


def _merged_spans(hits: Iterable[Hit]) -> tuple[Span, ...]:
    spans: list[Span] = []
    for hit in sorted(hits, key=lambda hit: hit.start):
        if spans and hit.start <= spans[-1].end:
            spans[-1] = replace(spans[-1], end=max(spans[-1].end, hit.end))
        else:
            spans.append(Span(hit.start, hit.end))
    return tuple(spans)
