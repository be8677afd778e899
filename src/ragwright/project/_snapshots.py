"""Kept states of the index: listed, compared, and restored with what they were made with."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from ..core import ConfigError, StoreError, replace_text, text_hash
from ._folder import PROJECT_FILE
from ._served import configuration_of
from ._settings import project_keys
from ._work import at_work

if TYPE_CHECKING:
    from ..index import KeptState, WriteCounts
    from ._project import Project

NOW = "now"
"""The present state, where a number is expected."""

FileDifference: TypeAlias = Literal["added", "changed", "removed"]
"""What became of a file between two states."""

_MOST_CHARACTERS = 200_000
"""Length up to which the text of a file is kept; of longer ones only the hash."""


@dataclass(frozen=True, slots=True)
class SnapshotDiff:
    """What differs between two states of the index.

    Attributes:
        added: Documents that only the second one holds.
        changed: Documents whose content differs.
        removed: Documents that only the first one holds.
        settings: Key -> (first, second); None is the default.
        files: Path of the project file, a prompt or a persona -> what became of it.
    """

    added: tuple[str, ...]
    changed: tuple[str, ...]
    removed: tuple[str, ...]
    settings: Mapping[str, tuple[Any, Any]]
    files: Mapping[str, FileDifference] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Restored:
    """What a restore did.

    Attributes:
        counts: Documents and chunks that were put back and taken out.
        diff: From the state before to the restored one.
        written: File that was written -> copy of what it held before; empty if there was none.
        left: Files that differ and were not written, since their text is not kept.
    """

    counts: WriteCounts
    diff: SnapshotDiff
    written: Mapping[str, str]
    left: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _KeptFile:
    hash: str
    text: str | None


@dataclass(frozen=True, slots=True)
class _State:
    """A state to be compared; settings and files are None where they are not known."""

    hashes: Mapping[str, str]
    settings: Mapping[str, Any] | None
    files: Mapping[str, _KeptFile] | None


def keep_snapshot(project: Project, note: str) -> None:
    """Keep the present state of the index with its settings, prompts and personas."""
    project.store.keep_state(project.pair, note, _made_with(project))


def snapshot_settings(state: KeptState) -> Mapping[str, Any]:
    """The settings that a kept state was made with: dotted key -> value, without defaults."""
    return _read_made_with(state.settings)[0] or {}


def setting_text(key: str, value: Any) -> str:
    """A value of a setting as text; None is the default, which is named."""
    if value is not None:
        return str(value)
    defaults = {name: default for name, _, default, _ in project_keys()}
    if key not in defaults:
        return "default"
    default = defaults[key]
    return f"default ({'empty' if default in ('', (), None) else default})"


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
    old, new = (_state(project, name) for name in (first, second))
    return SnapshotDiff(
        tuple(sorted(new.hashes.keys() - old.hashes.keys())),
        tuple(
            sorted(
                name
                for name in old.hashes.keys() & new.hashes.keys()
                if old.hashes[name] != new.hashes[name]
            )
        ),
        tuple(sorted(old.hashes.keys() - new.hashes.keys())),
        dict(_changed_settings(old.settings, new.settings)),
        dict(_changed_files(old.files, new.files)),
    )


@at_work("snapshots restore")
def restore_snapshot(project: Project, state: str, *, files: bool = True) -> Restored:
    """Make a kept state the present one: the index at once or not at all, then the files.

    Args:
        project: The project.
        state: Number of the kept state.
        files: Also write the project file, prompts and personas of that time where they differ;
            what a file held before is copied beside it first. Files that the state does not have
            stay.

    Raises:
        ConfigError: It is no number.
        StoreError: There is no such state under the present chunk, keyword and embed settings, a
            file lies outside the project, or a file cannot be written; only in the last case the
            index is restored.
    """
    number = _number(state)
    diff = diff_snapshots(project, NOW, state)
    kept = _state(project, state).files or {}
    files = files and project.folder.frozen is None
    if files:
        _require_inside(project.folder.root, (name for name in diff.files if name in kept))
    # the next ingest must read every file again, since the index holds older versions
    (project.folder.cache / "files.sqlite").unlink(missing_ok=True)
    counts = project.store.restore(project.pair, number, _made_with(project))
    project.views.drop()
    project.keep_views()
    written: dict[str, str] = {}
    left = []
    if files:
        for name, difference in diff.files.items():
            text = kept[name].text if name in kept else None
            if difference == "removed":
                continue  # it is newer than the state: no answer of that time used it
            if text is None:
                left.append(name)
            else:
                written[name] = _written(project.folder.root / name, text)
    return Restored(counts, diff, written, tuple(left))


def _require_inside(root: Path, names: Iterable[str]) -> None:
    """Refuse files that are not below the project's folder, symbolic links followed."""
    whole = root.resolve()
    for name in names:
        if not (root / name).resolve().is_relative_to(whole):
            raise StoreError(
                "the snapshot names a file outside the project",
                where=name,
                hint="--index-only restores the index alone",
            )


def _written(path: Path, text: str) -> str:
    """Write a file after a copy of what it holds; the name of the copy."""
    copy = ""
    try:
        if path.exists():
            at = datetime.now(UTC).strftime("%Y%m%d-%H%M%S")
            backup = path.with_name(f"{path.name}.{at}.bak")
            backup.write_bytes(path.read_bytes())
            copy = backup.name
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_text(path, text)
    except OSError as error:
        raise StoreError(
            f"the index is restored, but this file cannot be written: {error}",
            where=str(path),
            hint="make it writable and run the same command again",
        ) from error
    return copy


def _changed_settings(
    old: Mapping[str, Any] | None, new: Mapping[str, Any] | None
) -> Iterator[tuple[str, tuple[Any, Any]]]:
    if old is None or new is None:
        return
    for key in sorted(old.keys() | new.keys()):
        if old.get(key) != new.get(key):
            yield key, (old.get(key), new.get(key))


def _changed_files(
    old: Mapping[str, _KeptFile] | None, new: Mapping[str, _KeptFile] | None
) -> Iterator[tuple[str, FileDifference]]:
    if old is None or new is None:
        return
    for name in sorted(old.keys() | new.keys()):
        if name not in old:
            yield name, "added"
        elif name not in new:
            yield name, "removed"
        elif old[name].hash != new[name].hash:
            yield name, "changed"


def _state(project: Project, name: str) -> _State:
    """Content hashes, flat settings and files of a state."""
    if name == NOW:
        hashes = project.store.content_hashes(project.pair)
        return _State(hashes, *_read_made_with(_made_with(project)))
    number = _number(name)
    hashes = project.store.state_hashes(number)
    [state] = [s for s in project.store.kept_states() if s.number == number]
    return _State(hashes, *_read_made_with(state.settings))


def _number(name: str) -> int:
    if name.isdecimal():
        return int(name)
    raise ConfigError(
        f"{name!r} is not the number of a snapshot",
        hint="give one that `ragwright snapshots list` shows",
    )


def _made_with(project: Project) -> str:
    """Settings and files of the project, as a kept state holds them."""
    configuration = configuration_of(project.folder, project.settings)
    root = project.folder.root
    files = {}
    for name in (PROJECT_FILE, *configuration.files):
        place = project.folder.parts if name != PROJECT_FILE else root
        try:
            data = (place / name).read_bytes()
        except OSError:
            continue
        text = data.decode("utf-8", "surrogateescape")
        whole = len(text) <= _MOST_CHARACTERS and text.encode("utf-8", "replace") == data
        files[name] = {"hash": text_hash(text), "text": text if whole else None}
    body = {"settings": flat_settings(configuration.settings), "files": files}
    return json.dumps(body, ensure_ascii=True)


def _read_made_with(
    text: str,
) -> tuple[Mapping[str, Any] | None, Mapping[str, _KeptFile] | None]:
    """Settings and files that :func:`_made_with` wrote; None where they are not known."""
    if not text:
        return None, None
    body = json.loads(text)
    if "files" not in body:  # written before files were kept: the settings alone
        return body, None
    return body["settings"], {name: _KeptFile(**file) for name, file in body["files"].items()}


def flat_settings(values: Mapping[str, Any], head: str = "") -> dict[str, Any]:
    """Dotted key -> value of nested settings."""
    flat: dict[str, Any] = {}
    for key, value in values.items():
        name = f"{head}{key}"
        nested = isinstance(value, Mapping) and value
        flat |= flat_settings(value, f"{name}.") if nested else {name: value}
    return flat
