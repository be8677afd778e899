"""An index beside the project's own: a copy, into which changed sources are read on trial."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from ..core import Document, SourceError, value_hash
from ..index import StoreOptions
from ..ingest import Reader, ScanProgress
from ..ledger import FileLock
from ._ingesting import feeds_of, fetch_by_runner
from ._like import StoredDocuments, unfetched
from ._make_ingest import make_ingest
from ._source_entries import entry_of_argument
from .building import (
    Feed,
    FetchAhead,
    Ingest,
    IngestForecast,
    IngestReport,
    Recipe,
    web_pages,
)

if TYPE_CHECKING:
    from ..ingest import Failure, FetchBytes
    from ._project import Project
    from ._settings import Settings

_FOLDER = "trial"
"""Folder in the cache with the store of a trial."""


@dataclass(frozen=True, slots=True)
class TrialSources:
    """Sources that are read into a copy of the index.

    Attributes:
        names: Sources; ``NEW=OLD`` reads NEW in place of the ingested source OLD: its documents
            take the ids that they would have in OLD, and those that NEW lacks are removed.
        prune: Also remove documents of the other sources that are no longer there.
    """

    names: tuple[str, ...]
    prune: bool = False


class _InPlace(Reader):
    """Reads one source under the ids of another."""

    name = "in place"

    def __init__(self, feed: Feed, old: Recipe, home: Path) -> None:
        self._feed, self._recipe, self._home = feed, old, home
        self._old = old.entry.source

    def accepts(self, source: str) -> bool:
        """True for the source that is replaced."""
        return source == self._old

    def read(self, source: str, fetch: FetchBytes) -> Iterator[Document | Failure]:
        """Documents of the new source, with ids, fields and groups as in the old one."""
        return self._recipe.labelled(self._renamed(fetch))

    def _renamed(self, fetch: FetchBytes) -> Iterator[Document | Failure]:
        heads = {self._feed.source.rstrip("/"): self._old.rstrip("/")}
        for item in self._feed.reader().read(self._feed.source, fetch):
            if isinstance(item, Document):
                names = (_moved(text, heads, self._home) for text in (item.id, item.source))
                item = replace(item, id=next(names), source=next(names))
            yield item


def _moved(name: str, heads: Mapping[str, str], home: Path) -> str:
    """A name with its head replaced; relative and absolute spellings are known."""
    for new, old in heads.items():
        whole = Path(new).absolute()
        for head in {new, str(whole), Path(os.path.relpath(whole, home)).as_posix()}:
            if name == head or name.startswith((f"{head}/", f"{head}#")):
                return old + name[len(head) :]
    return name


@contextmanager
def trial_store(project: Project, key: str) -> Iterator[StoreOptions]:
    """The settings of a store for a trial, whose files are removed when the trial has ended.

    Those of a trial that was interrupted stay, and a trial with the same key goes on with them.

    Raises:
        StoreBusyError: Another process has a trial under way.
    """
    folder = project.folder.cache / _FOLDER
    with FileLock(folder / "lock", "a trial of changed sources", busy="a trial is under way"):
        place = folder / value_hash(key)[:16]
        for other in folder.iterdir():
            if other.is_dir() and other != place:
                shutil.rmtree(other, ignore_errors=True)
        place.mkdir(exist_ok=True)
        yield replace(
            project.settings.store,
            kind="sqlite",
            uri="",
            path=str((place / "store.sqlite").absolute()),
            views=str((place / "views").absolute()),
            approximate=False,
            max_mb=0,
        )
        shutil.rmtree(place, ignore_errors=True)


def clear_trials(cache: Path) -> None:
    """Remove what trials of changed sources left in the cache; they hold texts of documents."""
    for place in (cache / _FOLDER).glob("*/"):
        shutil.rmtree(place, ignore_errors=True)


def on_trial(settings: Settings, store: StoreOptions) -> Settings:
    """Settings with another store."""
    return replace(settings, store=store)


def build_beside(trial: Project, base: Project, sources: TrialSources) -> IngestReport:
    """Copy the documents of a project into a trial's store, then read sources into it.

    The project's own store is only read. Texts whose vectors it holds are not embedded again.

    Raises:
        ModelError: The embedding model fails.
        ConfigError: There is nothing to read.
        RagwrightError: None of the sources could be read.
    """
    pair = trial.settled_spec()
    reader = StoredDocuments(base.store, base.pair)
    kept = [Feed(source, (reader,)) for source in reader.sources]
    _trial_ingest(trial, base).run(kept, unfetched)
    feeds, moved = _trial_feeds(trial, base, sources)
    pruned = sources.prune or bool(moved)
    work = _trial_ingest(trial, base)
    with FetchAhead(fetch_by_runner(trial), web_pages(feeds)) as fetch_page:
        report = work.run(feeds, fetch_page, prune=pruned)
    if report.failures and (report.nothing_read or not trial.store.holds(pair)):
        raise report.failures[0].error
    return report


def forecast_beside(project: Project, sources: TrialSources) -> IngestForecast:
    """Forecast what :func:`build_beside` would embed; write nothing, call no model."""
    feeds, _ = _trial_feeds(project, project, sources)
    return make_ingest(project, Ingest).forecast(feeds, fetch_by_runner(project))


def _trial_ingest(trial: Project, base: Project) -> Ingest:
    """An ingest into a trial's store that uses vectors of the project."""
    work = make_ingest(trial, Ingest)
    work.others = base.store
    return work


def forecast_like(project: Project, other: Project) -> IngestForecast | None:
    """Forecast what :func:`build_like` would embed; None if the index is there."""
    if project.pair == other.pair or project.store.holds(project.pair):
        return None
    reader = StoredDocuments(other.store, other.pair)
    return make_ingest(project, Ingest).forecast(
        [Feed(s, (reader,)) for s in reader.sources], unfetched
    )


def _trial_feeds(
    trial: Project, base: Project, sources: TrialSources
) -> tuple[list[Feed], Mapping[str, str]]:
    """The sources with their readers, and OLD -> NEW of those that take the place of others.

    Raises:
        SourceError: OLD of NEW=OLD was never ingested, or plain sources are mixed with such.
    """
    roots = set(base.store.sources(base.pair).values())
    spelled = {root.rstrip("/"): root for root in roots}
    names = (name.partition("=")[::2] if _replaces(name) else (name, "") for name in sources.names)
    pairs = [(new, spelled.get(old.rstrip("/"), old)) for new, old in names]
    for _, old in pairs:
        if old and old not in roots:
            raise SourceError(
                f"no ingested document comes from {old!r}",
                where="--sources",
                hint=f"after = write one of: {', '.join(sorted(roots)[:8])}",
            )
    if any(old for _, old in pairs) and not all(old for _, old in pairs) and not sources.prune:
        raise SourceError(
            "sources with and without = are mixed",
            where="--sources",
            hint="NEW=OLD removes what NEW lacks: give --prune for all, or rehearse them apart",
        )
    feeds, _ = feeds_of(trial, [new for new, _ in pairs], ScanProgress())
    home = trial.folder.root.absolute()
    rules = trial.settings.groups
    placed = []
    for feed, (_, old) in zip(feeds, pairs, strict=True):
        if old:
            recipe = Recipe(entry_of_argument(trial, old), trial.folder.root, home, rules)
            placed.append(Feed(old, (_InPlace(feed, recipe, home),)))
        else:
            placed.append(feed)
    return placed, {old: new for new, old in pairs if old}


def _replaces(name: str) -> bool:
    """True for NEW=OLD; a = within an address, or in the name of a file, is no such sign."""
    return "=" in name and "://" not in name and not Path(name).exists()
