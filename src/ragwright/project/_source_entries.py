"""The settings of a source: those of the project file, also for what the command line names."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ..core import ConfigError, common_groups
from ..ingest import SourceOptions
from ._project import Project
from ._settings import SourceEntry


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
    options = SourceOptions(metadata=fields, parser=parser, groups=common)
    return project.settings.parsed(SourceEntry(source, options=options))
