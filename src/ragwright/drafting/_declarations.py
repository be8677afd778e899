"""The record declarations that drafts depend on, the present or the promoted ones."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from .. import records
from ..project import ProjectFolder, Settings, read_promoted_settings
from ..records import RecordsSpec

_RECORDS = "records"
"""The section of the project file, and the key of a promoted configuration."""

_BIOGRAPHIES = "biographies"


def draft_declarations(folder: ProjectFolder, settings: Settings) -> RecordsSpec:
    """The record declarations that drafts depend on: rollups, biographies, rules, text format.

    Under the served configuration they are the promoted ones, except for a folder of records
    outside the project, which cannot be promoted.

    Raises:
        RecordsError: A declaration is wrong, with file and line.
    """
    where, name = _declared(folder, settings)
    if folder.frozen is None or not _within(where):
        return records.load_spec(folder.root / where, name)
    return records.load_draft_spec(folder.frozen / where, name)


def read_promoted_declarations(
    folder: ProjectFolder, settings: Settings
) -> tuple[dict[str, Any], list[str]]:
    """What a promoted configuration contains of record declarations.

    Returns:
        Keys of the section ``records`` that differ from their defaults, and paths of the files
        that drafts depend on, relative to the project folder.
    """
    where, name = _declared(folder, settings)
    default = records.RecordsOptions()
    values = {"folder": (where, default.folder), "format": (name, default.format)}
    changed = {key: value for key, (value, usual) in values.items() if value != usual}
    paths = _declarations(folder.parts, where, name)
    return changed, [path for path in paths if _within(path)]


def _declared(folder: ProjectFolder, settings: Settings) -> tuple[str, str]:
    """Folder of the declarations and name of the text format, perhaps the promoted ones."""
    if folder.frozen is None:
        options = settings.part(_RECORDS, records.RecordsOptions)
    else:
        options = records.RecordsOptions(**(read_promoted_settings(folder).get(_RECORDS) or {}))
    return options.folder, options.format


def _within(path: str) -> bool:
    """True for a path that stays within its folder."""
    plain = Path(os.path.normpath(path))
    return not plain.is_absolute() and ".." not in plain.parts


def _declarations(root: Path, where: str, name: str) -> Iterator[str]:
    """Files of a folder of records that drafts depend on, relative to the project folder."""
    yield os.path.normpath(f"{where}/rules.yaml")
    yield os.path.normpath(f"{where}/text_formats/{name}.yaml")
    rollups = os.path.normpath(f"{where}/rollups.yaml")
    yield rollups
    table = _biographies(root / rollups)
    if table:
        yield os.path.normpath(Path(where) / table)


def _biographies(rollups: Path) -> str:
    """The table of biographies in a file of rollups; empty if there is none."""
    import yaml

    # The file may list thousands of clients: libyaml events are several times faster than values
    # with lines. Its composer is not used: deep nesting overflows its stack and ends the process.
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        text = rollups.read_text("utf-8-sig")
        return _value_of(_BIOGRAPHIES, yaml.parse(text, loader)) if _BIOGRAPHIES in text else ""
    except (OSError, ValueError, yaml.YAMLError):  # reading the file for a draft reports the fault
        return ""


def _value_of(name: str, events: Iterable[Any]) -> str:
    """The text of a key of the outermost mapping, empty if the key or text is missing."""
    import yaml

    level = 0
    key: str | None = None  # the last key of the outermost mapping, until its value follows
    for event in events:
        if isinstance(event, yaml.CollectionEndEvent):
            level -= 1
        elif level == 1 and key is None and isinstance(event, yaml.ScalarEvent):
            key = str(event.value)
            continue
        elif level == 1 and key == name:
            return str(event.value) if isinstance(event, yaml.ScalarEvent) else ""
        elif isinstance(event, yaml.CollectionStartEvent):
            level += 1
        if level == 1:
            key = None
    return ""
