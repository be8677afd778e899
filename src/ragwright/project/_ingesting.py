"""Reading sources into the index of an opened project, and into indexes like it."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial, wraps
from pathlib import Path
from typing import Any, TypeVar, cast

from .. import flow
from ..core import (
    ConfigError,
    Document,
    SourceError,
    StoreError,
    common_groups,
    count_noun,
    plugin_folder,
)
from ..index import IndexSpec, Store, keep_sheets
from ..ingest import (
    Engine,
    Failure,
    FetchBytes,
    Reader,
    ScanProgress,
    SourceOptions,
    choose_engine,
    open_engine,
)
from ..ledger import Ledger
from ._folder import ProjectFolder
from ._project import Project
from ._settings import SourceEntry
from .building import (
    ClusterIngest,
    Feed,
    FetchAhead,
    Ingest,
    IngestForecast,
    IngestProgress,
    IngestReport,
    Preparing,
    Recipe,
    Stamps,
    reading,
    web_pages,
)


def entry_of_argument(project: Project, source: str) -> SourceEntry:
    """A source of the command line, with fields and parser of the sources that it lies in.

    Without them, a folder that is read again by hand would lose the fields that filters need.
    """
    fields: dict[str, Any] = {}
    groups: list[tuple[str, ...]] = []
    parser = ""
    path = Path(source).resolve()
    for entry in project.settings.sources:
        folder = (project.folder.root / entry.source).resolve()
        if source == entry.source or path.is_relative_to(folder):
            fields.update(entry.options.metadata)
            groups.append(entry.options.groups)
            parser = entry.options.parser or parser
    common = common_groups(groups)
    if common is None:
        raise ConfigError(
            "the sources that it lies in name no common group of readers",
            where=source,
            hint="ingest without naming it, or name one group in all of these sources",
        )
    return project.settings.parsed(
        SourceEntry(source, options=SourceOptions(metadata=fields, parser=parser, groups=common))
    )


Work = TypeVar("Work", bound=Callable[..., Any])


def refuse_forget(what: str) -> Callable[[Work], Work]:
    """Decorator for work on a project, its first argument: ``forget`` is refused meanwhile.

    The lock is held from before the text is read until the results are stored; otherwise forgotten
    text could be stored again.
    """

    def decorate(function: Work) -> Work:
        @wraps(function)
        def working(project: Any, /, *args: Any, **kwargs: Any) -> Any:
            with project.work.working(what):
                return function(project, *args, **kwargs)

        return cast("Work", working)

    return decorate


@refuse_forget("ingest")
def ingest_sources(
    project: Project,
    sources: Sequence[str | Path] = (),
    *,
    prune: bool = False,
    embed_again: bool = False,
    engine: str = "",
    on_start: Callable[[IngestProgress], None] | None = None,
) -> IngestReport:
    """Read sources into the index; unchanged documents cost nothing.

    Args:
        project: The project.
        sources: Files, folders, addresses; those of the project file if none are given.
        prune: Remove documents of these sources that are no longer there.
        embed_again: Embed every text of these sources, even if its vector is stored. If its length
            is another now, all documents that the model embedded are removed first.
        engine: Engine that overrides ``ingest.engine``.
        on_start: Gets the counters, for a progress bar.

    Raises:
        ConfigError: There is nothing to ingest, or no engine has this name.
        EngineError: The cluster fails; what was written before stays.
        ModelError: The embedding model fails; what was written before stays.
    """
    settings = project.settings.ingest
    used = choose_engine(settings, engine)
    scans = ScanProgress()
    feeds, reading_key = feeds_of(project, sources, scans)
    project.settled_spec()  # a server is asked for the length of its vectors before all else
    notes = _without_other_lengths(project) if embed_again else ()
    marker = project.folder.ingest_marker
    marker.parent.mkdir(parents=True, exist_ok=True)
    marker.touch()
    with ExitStack() as stack:
        # before anything is read: a cluster that is away is known at once
        ray = stack.enter_context(open_engine(settings, "ray")) if used == "ray" else None
        cluster = (ray, _preparing(project, feeds)) if ray else ()
        work = stack.enter_context(
            _opened_ingest(project, reading_key, cluster, embed_again=embed_again)
        )
        work.progress.scans = scans
        if on_start is not None:
            on_start(work.progress)
        with FetchAhead(fetch_by_runner(project), web_pages(feeds)) as fetch_page:
            report = work.run(feeds, fetch_page, prune=prune)
    keep_sheets(project.store, project.index_spec, project.folder.sheets)
    marker.unlink(missing_ok=True)
    # a misspelt rule would protect nothing
    unused = project.settings.groups.unused(list(project.store.sources(project.index_spec).items()))
    rules = [f"groups.rules: {match!r} matches no document" for match in unused]
    notes = (*notes, *report.notes, *rules)
    others = len(project.store.index_specs()) - 1
    if report.counts.added and others > 0:
        note = count_noun(others, "index of other settings stays", "indexes of other settings stay")
        notes = (*notes, note)
    report = replace(report, notes=notes, engine=used)
    _keep_report(project.folder, report)
    return report


def _without_other_lengths(project: Project) -> tuple[str, ...]:
    """Remove all documents of the model if its vectors have another length now; a note says so.

    Questions could not be compared with the stored vectors.
    """
    model, before = project.settings.embed.model, project.index_spec
    if not model:
        return ()
    # a store that cannot do this fails before anything is paid
    project.store.replace_vectors(before, {})
    if project.models.is_local(model) or project.measured_spec() == before:
        return ()
    for spec in project.store.index_specs():
        if spec.embedder == before.embedder:
            project.store.remove(list(project.store.content_hashes(spec)), spec)
    change = (
        f"{model} gives vectors of length {project.index_spec.dimensions}, not {before.dimensions}"
    )
    return (f"{change}: all documents that it embedded were removed first",)


def read_sources_again(project: Project) -> IngestReport:
    """Read the sources of the project file into the index of a trial; files that failed lack there.

    Raises:
        ConfigError: The project file lists no sources.
        RagwrightError: None of them could be read.
    """
    feeds, reading_key = feeds_of(project, (), ScanProgress())
    with (
        _opened_ingest(project, reading_key) as work,
        FetchAhead(fetch_by_runner(project), web_pages(feeds)) as fetch_page,
    ):
        report = work.run(feeds, fetch_page, prune=True)
    if report.nothing_read and report.failures:
        raise report.failures[0].error
    return report


def _keep_report(folder: ProjectFolder, report: IngestReport) -> None:
    """Keep it for those who look later; a full disk does not fail the ingest."""
    body = {"at": datetime.now(UTC).isoformat(timespec="seconds"), **report.as_dict()}
    insert = (
        "INSERT INTO last_ingest (one, report) VALUES (1, ?) "
        "ON CONFLICT (one) DO UPDATE SET report = excluded.report"
    )
    text = json.dumps(body)
    with suppress(StoreError), closing(Ledger(folder.ledger)) as ledger:
        ledger.write(lambda connection: connection.execute(insert, (text,)).rowcount)


def read_last_ingest(folder: ProjectFolder) -> Mapping[str, Any] | None:
    """The report of the last ingest, as ``ingest --json`` prints it, with its time ``at``.

    None if there is none, or it cannot be read.
    """
    with suppress(StoreError), closing(Ledger(folder.ledger)) as ledger:
        for (report,) in ledger.select("SELECT report FROM last_ingest"):
            return dict(json.loads(report))
    return None


def forecast_ingest(project: Project, sources: Sequence[str | Path] = ()) -> IngestForecast:
    """Forecast what an ingest would write, embed and cost; write nothing, call no model."""
    feeds, reading_key = feeds_of(project, sources, ScanProgress())
    with _opened_ingest(project, reading_key) as work:
        return work.forecast(feeds, fetch_by_runner(project))


def feeds_of(
    project: Project, sources: Sequence[str | Path], scans: ScanProgress
) -> tuple[list[Feed], str]:
    """Sources with their readers, and the key of the reading settings."""
    entries = [entry_of_argument(project, str(s)) for s in sources] or list(
        project.settings.entries()
    )
    if not entries:
        raise ConfigError(
            "there is nothing to ingest",
            where=str(project.folder.file),
            hint="give sources on the command line, or list them under `sources`",
        )
    base = Path.cwd() if sources else project.folder.root
    key = reading(entries, base, project.settings.groups)
    home = project.folder.root.absolute()
    recipes = [Recipe(entry, base.absolute(), home, project.settings.groups) for entry in entries]
    return [
        Feed(recipe.entry.source, recipe.readers(scans), recipe=recipe) for recipe in recipes
    ], key


@contextmanager
def _opened_ingest(
    project: Project,
    reading_key: str,
    cluster: tuple[()] | tuple[Engine, Preparing] = (),
    *,
    embed_again: bool = False,
) -> Iterator[Ingest]:
    with closing(Stamps(project.folder.cache / "files.sqlite", reading_key)) as stamps:
        _check_models(project)
        yield make_ingest(project, stamps, cluster=cluster, embed_again=embed_again)


def _check_models(project: Project) -> None:
    """Refuse an unknown model of heads before anything is read."""
    try:
        if name := project.settings.chunk.head.model:
            project.models.chat_model(name)
    except ConfigError as error:
        raise ConfigError(error.what, where="chunk.head.model", hint=error.hint) from error


def _preparing(project: Project, feeds: Sequence[Feed]) -> Preparing:
    """What the workers of a cluster do for these sources."""
    settings = project.settings
    model = settings.embed.model
    return Preparing(
        project.folder.root.absolute(),
        settings.chunk,
        settings.embed,
        settings.models,
        bool(model) and project.models.is_local(model) and not settings.chunk.head.model,
        tuple(str(Path(folder).absolute()) for folder in sys.path),
        plugin_folder(),
        project.index_spec,
        tuple((feed.source, feed.recipe) for feed in feeds),
    )


def fetch_by_runner(project: Project) -> FetchBytes:
    """A function that fetches addresses through the project's runner."""
    return lambda url: project.runner.run(flow.fetch(url))


def make_ingest(
    project: Project,
    stamps: Stamps | None = None,
    *,
    cluster: tuple[()] | tuple[Engine, Preparing] = (),
    embed_again: bool = False,
    store: Store | None = None,
) -> Ingest:
    """Return an ingest into the index of a project.

    Args:
        project: The project.
        stamps: Stamps of unchanged files; None reads every file.
        cluster: Engine and work that read documents; empty for this process.
        embed_again: Embed every text, even if its vector is stored.
        store: Where stored vectors are looked up; None for the store of the project.

    Raises:
        ConfigError: The name of a model is wrong.
    """
    settings = project.settings
    model = settings.embed.model
    embedding = (model, bool(model) and project.models.is_local(model))
    return (partial(ClusterIngest, *cluster) if cluster else Ingest)(
        store or project.store,
        project.index_spec,
        project.chunker,
        embedding,
        project.runner,
        stamps,
        embed_again=embed_again,
    )


class StoredDocuments(Reader):
    """Reads the documents that a store holds under one index spec, by the source they came from.

    ``only`` names those that are read; None for all.
    """

    name = "store"

    def __init__(self, store: Store, spec: IndexSpec, only: frozenset[str] | None = None) -> None:
        self._store = store
        self._spec = spec
        self._hashes = store.content_hashes(spec)
        self._by_source: dict[str, list[str]] = {}
        for name, source in sorted(store.sources(spec).items()):
            if only is None or name in only:
                self._by_source.setdefault(source, []).append(name)

    @property
    def sources(self) -> list[str]:
        """Sources the documents came from."""
        return sorted(self._by_source)

    def accepts(self, source: str) -> bool:
        """True for the sources of the index spec."""
        return source in self._by_source

    def read(self, source: str, fetch: FetchBytes) -> Iterator[Document | Failure]:
        """Documents from a source, by id."""
        for name in self._by_source[source]:
            document = self._store.document(name)
            if document is None or document.content_hash() != self._hashes[name]:
                # Another index spec has another version of it.
                document = next(d for d in self._store.documents(self._spec) if d.id == name)
            yield document


def build_like(project: Project, other: Project) -> IngestReport | None:
    """Update the index of a project to the documents of another's; None if it is up to date.

    No source is read: documents come from the store, and texts with stored vectors are not embedded
    again. Documents that the other project no longer has are removed. With another parser
    (``ingest.parser``) the sources of the project file are read, unchanged files once.

    Raises:
        ConfigError: The parser differs, and the project file lists no sources.
        ModelError: The embedding model fails; what was written before stays.
    """
    store, spec = project.store, project.settled_spec()
    if spec == other.index_spec:
        return None
    if project.settings.ingest.parser != other.settings.ingest.parser:
        return read_sources_again(project)
    if other.store.content_hashes(other.index_spec) == store.content_hashes(spec):
        return None
    reader = StoredDocuments(other.store, other.index_spec)
    feeds = [Feed(source, (reader,)) for source in reader.sources]
    report = make_ingest(project).run(feeds, refuse_fetch, prune=True)
    if report.failures:
        raise report.failures[0].error
    return report


def refuse_fetch(address: str) -> flow.FetchReply:
    """Raises: stored documents are not fetched."""
    raise SourceError("a stored document is not fetched", where=address)
