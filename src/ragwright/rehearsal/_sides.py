"""The two sides of a rehearsal: the project as it is, and as it would be."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..core import ConfigError, Document, Filter, read_yaml
from ..experiment import best_trial_run, find_run
from ..project import (
    Configuration,
    Project,
    ProjectFolder,
    Settings,
    TrialSources,
    build_beside,
    build_like,
    changed_files,
    configuration_of,
    flat_settings,
    load_settings,
    not_reproducible,
    on_trial,
    run_configuration,
    served_project,
    trial_store,
)
from ._records import ChangedDocument

if TYPE_CHECKING:
    from ..project import IngestReport
    from ._options import Rehearsing

_SERVED, _TUNED = "served", "tuned"


class Side:
    """One side: its project, and the documents that its index holds."""

    def __init__(self, project: Project) -> None:
        self.project = project
        self._documents: dict[str, Document | None] = {}

    @cached_property
    def hashes(self) -> Mapping[str, str]:
        """Content hash of each document."""
        return self.project.store.content_hashes(self.project.pair)

    @cached_property
    def configuration(self) -> Configuration:
        """Settings that determine its answers, and the files that they name."""
        return configuration_of(self.project.folder, self.project.settings)

    def document(self, name: str) -> Document | None:
        """A document of its index; None if it holds none of this id."""
        if name not in self.hashes:
            return None
        if name not in self._documents:
            store, pair = self.project.store, self.project.pair
            document = store.document(name)
            if document is not None and document.content_hash() != self.hashes[name]:
                # an index of other settings holds another version
                document = next((d for d in store.documents(pair) if d.id == name), None)
            self._documents[name] = document
        return self._documents[name]


@dataclass(frozen=True, slots=True)
class Sides:
    """Both sides, and what differs between them.

    Attributes:
        before: As it is.
        after: As it would be.
        settings: Key -> (before, after); files by their path, with the beginning of their hash.
        report: What was read into the copy of the index; None without sources.
    """

    before: Side
    after: Side
    settings: Mapping[str, tuple[Any, Any]]
    report: IngestReport | None = None

    @property
    def documents(self) -> tuple[ChangedDocument, ...]:
        """Documents that differ, by id."""
        old, new = self.before.hashes, self.after.hashes
        changes = [ChangedDocument(name, "gone") for name in old.keys() - new.keys()]
        changes += [ChangedDocument(name, "new") for name in new.keys() - old.keys()]
        changes += [
            ChangedDocument(name, "changed")
            for name in old.keys() & new.keys()
            if old[name] != new[name]
        ]
        return tuple(sorted(changes, key=lambda change: change.document_id))


@contextmanager
def opened_sides(project: Project, options: Rehearsing) -> Iterator[Sides]:
    """Open both sides and build the index of the second one, if it needs one of its own.

    Raises:
        ConfigError: Nothing would change, or the configuration cannot be found.
        SourceError: A source that is to be replaced was never ingested.
    """
    with ExitStack() as stack:
        base, settings = _changed_base(project, options, stack)
        report = None
        if options.sources:
            snapshot = project.views.snapshot(project.pair)
            key = f"{snapshot} {options.sources} {options.prune} {settings}"
            settings = on_trial(settings, stack.enter_context(trial_store(project, key)))
            # The store of a trial is closed before its files are removed.
            trial = stack.enter_context(Project(base.folder, settings, base.session))
            trial.spend_with(project)
            sources = TrialSources(options.sources, options.prune)
            report = build_beside(trial, project, sources)
            after = trial
        else:
            after = base.variant(settings)
            after.share_budget()
            build_like(after, project)
        first, second = Side(project), Side(after)
        differing = changed_settings_of(first.configuration, second.configuration)
        if options.sources:  # the store of the trial is no part of the change
            differing = {k: v for k, v in differing.items() if not k.startswith("store.")}
        sides = Sides(first, second, differing, report)
        if options.must_differ and not differing and not options.sources:
            raise ConfigError(
                "the change changes nothing: all settings are equal",
                where="ragwright rehearse",
                hint="give another value: --set KEY=VALUE, --config served, or --sources FOLDER",
            )
        yield sides


def require_change(options: Rehearsing) -> None:
    """Refuse a rehearsal without a change.

    Raises:
        ConfigError: Neither settings, nor a configuration, nor sources are given.
    """
    if not (options.settings or options.config or options.sources):
        raise ConfigError(
            "there is nothing to rehearse",
            where="ragwright rehearse",
            hint="say what would change: --set KEY=VALUE, --sources FOLDER, or --config "
            "tuned|served|RUN|FILE",
        )


def plain_sides(project: Project, options: Rehearsing, stack: ExitStack) -> Sides:
    """Both sides without an index for the second one, for forecasts: nothing is built."""
    base, settings = _changed_base(project, options, stack)
    first, second = Side(project), Side(base.variant(settings))
    return Sides(
        first, second, changed_settings_of(first.configuration, second.configuration), None
    )


def changed_settings_of(
    before: Configuration, after: Configuration
) -> Mapping[str, tuple[Any, Any]]:
    """Key -> (before, after) of every setting and file that differs; None is the default."""
    old, new = flat_settings(before.settings), flat_settings(after.settings)
    old |= {name: f"file {digest[:8]}" for name, digest in before.files.items()}
    new |= {name: f"file {digest[:8]}" for name, digest in after.files.items()}
    keys = sorted(old.keys() | new.keys())
    return {key: (old.get(key), new.get(key)) for key in keys if old.get(key) != new.get(key)}


def _changed_base(
    project: Project, options: Rehearsing, stack: ExitStack
) -> tuple[Project, Settings]:
    """The project whose variant the second side is, and the settings of that variant."""
    session = project.session
    frozen = options.config == _SERVED or (not options.config and session.served)
    base = project
    if frozen != session.served:
        # Prompts and personas of the served configuration are in a folder of their own.
        other = replace(session, served=frozen)
        base = stack.enter_context(Project.open(project.folder.root, other))
        base.spend_with(project)
    overrides = (*session.overrides, *options.settings)
    file = base.folder.settings
    if frozen:
        _, sections = served_project(ProjectFolder(project.folder.root))
        return base, load_settings(file, overrides, served=sections)
    if not options.config:
        return base, load_settings(file, overrides)
    return base, load_settings(file, overrides, served=_sections_of(base, options.config))


def _sections_of(project: Project, config: str) -> Mapping[str, Any]:
    """The sections that a configuration consists of: of a file, or of a run."""
    path = Path(config)
    if path.suffix in (".yaml", ".yml") or path.is_file():
        if not path.is_file():
            raise ConfigError(
                f"the file {config} does not exist",
                where="--config",
                hint="name a file of settings, a run, `tuned` or `served`",
            )
        load_settings(path)  # faults are reported with the lines of this file
        values = read_yaml(path, config).value or {}
        return {key: value for key, value in values.items() if key != "sources"}
    run = best_trial_run(project) if config == _TUNED else find_run(project.runs, config)
    configuration = run_configuration(project.runs, run)
    if wrong := changed_files(project.folder.parts, configuration):
        raise not_reproducible(run, wrong)
    return configuration.sections


def rights(project: Project, groups: Sequence[str] | None) -> tuple[Filter, ...]:
    """What readers of some groups may read of a project, as a filter; none for None."""
    return () if groups is None else (project.settings.groups.right(groups),)
