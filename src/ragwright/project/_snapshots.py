"""Kept states of the index: listed, compared, and restored with what they were made with."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..core import ConfigError
from ._served import configuration_of
from ._work import at_work

if TYPE_CHECKING:
    from ..index import KeptState, WriteCounts
    from ._project import Project

NOW = "now"
"""The present state, where a number is expected."""


@dataclass(frozen=True, slots=True)
class SnapshotDiff:
    """What differs between two states of the index.

    Attributes:
        added: Documents that only the second one holds.
        changed: Documents whose content differs.
        removed: Documents that only the first one holds.
        settings: Key -> (first, second); None is the default.
    """

    added: tuple[str, ...]
    changed: tuple[str, ...]
    removed: tuple[str, ...]
    settings: Mapping[str, tuple[Any, Any]]


def keep_snapshot(project: Project, note: str) -> None:
    """Keep the present state of the index with the settings that it was made with."""
    project.store.keep_state(project.pair, note, _settings_text(project))


def list_snapshots(project: Project) -> tuple[KeptState, ...]:
    """The kept states of the index under the present settings, oldest first.

    Raises:
        StoreError: This kind of store keeps none.
    """
    key = project.pair.key
    return tuple(state for state in project.store.kept_states() if state.pair == key)


@at_work("snapshots diff")
def diff_snapshots(project: Project, first: str, second: str = NOW) -> SnapshotDiff:
    """Compare two states: documents by their content, and settings.

    Raises:
        ConfigError: One is neither a number nor ``now``.
        StoreError: There is no such state.
    """
    (old, old_settings), (new, new_settings) = (_state(project, s) for s in (first, second))
    keys = sorted(old_settings.keys() | new_settings.keys())
    return SnapshotDiff(
        tuple(sorted(new.keys() - old.keys())),
        tuple(sorted(name for name in old.keys() & new.keys() if old[name] != new[name])),
        tuple(sorted(old.keys() - new.keys())),
        {
            key: (old_settings.get(key), new_settings.get(key))
            for key in keys
            if old_settings.get(key) != new_settings.get(key)
        },
    )


@at_work("snapshots restore")
def restore_snapshot(project: Project, state: str) -> tuple[WriteCounts, SnapshotDiff]:
    """Make a kept state the present one, all of it or nothing; it can be undone by another.

    The project file stays as it is: the settings that differ are returned.

    Raises:
        ConfigError: It is no number.
        StoreError: There is no such state under the present chunk, keyword and embed settings.
    """
    number = _number(state)
    diff = diff_snapshots(project, NOW, state)
    counts = project.store.restore(project.pair, number)
    # the next ingest must read every file again, since the index holds older versions
    (project.folder.cache / "files.sqlite").unlink(missing_ok=True)
    project.views.drop()
    return counts, diff


def _state(project: Project, name: str) -> tuple[Mapping[str, str], Mapping[str, Any]]:
    """Content hashes and flat settings of a state."""
    if name == NOW:
        return project.store.content_hashes(project.pair), json.loads(_settings_text(project))
    number = _number(name)
    hashes = project.store.state_hashes(number)
    [state] = [s for s in project.store.kept_states() if s.number == number]
    return hashes, json.loads(state.settings or "{}")


def _number(name: str) -> int:
    if name.isdecimal():
        return int(name)
    raise ConfigError(
        f"{name!r} is not the number of a snapshot",
        hint="give one that `ragwright snapshots list` shows",
    )


def _settings_text(project: Project) -> str:
    settings = configuration_of(project.folder, project.settings).settings
    return json.dumps(flat_settings(settings), ensure_ascii=False)


def flat_settings(values: Mapping[str, Any], head: str = "") -> dict[str, Any]:
    """Dotted key -> value of nested settings."""
    flat: dict[str, Any] = {}
    for key, value in values.items():
        name = f"{head}{key}"
        nested = isinstance(value, Mapping) and value
        flat |= flat_settings(value, f"{name}.") if nested else {name: value}
    return flat
