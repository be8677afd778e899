"""The served configuration: numbered snapshots of settings and files, and the history of changes.

``.ragwright/data/served/`` contains a folder per number (``0003/settings.yaml`` and copies of the
files named in it), because prompts and personas are read from a folder. The history is in the
ledger; its last change names the number that is served.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import asdict, dataclass, field, fields, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, TypeAlias

from ..core import (
    ConfigError,
    StoreError,
    current_user,
    find_additions,
    list_changed_options,
    read_yaml,
    replace_text,
    text_hash,
    value_hash,
)
from ..flow import Runs
from ..ledger import Connection, FileLock, Ledger
from ._folder import ProjectFolder
from ._settings import Settings, list_served_sections

Action: TypeAlias = Literal["promote", "back"]

_HEAD = "# A served configuration: not to be edited; `ragwright promote` makes another.\n"

_WAIT = 30.0
"""Seconds to wait for another process that changes the served configuration."""

_BUSY = "the served configuration is being changed"

_PERSONAS = ("personas/*.yaml", "personas/*.yml")
"""Files that are included without being named."""

_SETTINGS = "settings.yaml"
"""The settings of a numbered configuration, in its folder."""

_NAMING = ("retrieve", "prompt", "answer")
"""Sections in which a text may be the path of a file."""


@dataclass(frozen=True, slots=True)
class Configuration:
    """Settings that determine results, and the files that they name.

    Attributes:
        settings: Sections of the project file as plain values, without defaults.
        files: Path from the project's folder -> hash of the file.
    """

    settings: Mapping[str, Any]
    files: Mapping[str, str] = field(default_factory=dict)

    @property
    def hash(self) -> str:
        """Equal for equal settings and files."""
        return value_hash({"settings": self.settings, "files": self.files})

    @property
    def sections(self) -> dict[str, Any]:
        """Its sections, as in a project file."""
        names = list_served_sections(self.settings.get("retrieve"))
        return {name: self.settings.get(name) or {} for name in names}

    def body(self) -> dict[str, Any]:
        """JSON-able, for :func:`configuration_from`."""
        return {"settings": dict(self.settings), "files": dict(self.files)}


def configuration_from(body: Mapping[str, Any]) -> Configuration | None:
    """The configuration that :meth:`Configuration.body` wrote; None if there is none."""
    if not body:
        return None
    return Configuration(body["settings"], body["files"])


def configuration_of(folder: ProjectFolder, settings: Settings) -> Configuration:
    """The configuration of an opened project: everything that determines its results.

    Budgets, judges, sources and jobs are left out.

    Args:
        folder: The project; under the served configuration its frozen copy.
        settings: Its settings, as opened.
    """
    names = [name for name in list_served_sections(settings.retrieve) if name != "models"]
    plain = {name: _yaml_ready(list_changed_options(settings.section(name))) for name in names}
    models = {
        name: _yaml_ready(list_changed_options(settings_of_model))
        for name, settings_of_model in settings.models.items()
    }
    values = {name: value for name, value in {**plain, "models": models}.items() if value}
    relative = _relative_paths(values, folder.parts)
    files: set[str] = set()
    for key, promoted in find_additions("promoted").items():
        values_of_part, paths = promoted.load()(folder, settings)
        files.update(paths)
        if values_of_part:
            relative[key] = values_of_part
    return Configuration(relative, dict(_included_files(folder.parts, relative, files)))


def read_promoted_settings(folder: ProjectFolder) -> Mapping[str, Any]:
    """The settings of the promoted configuration of a frozen folder, as they were promoted."""
    assert folder.frozen is not None
    settings: Mapping[str, Any] = read_yaml(folder.frozen / _SETTINGS).value["settings"] or {}
    return settings


_CONFIGURATION = "configuration"
"""Name of a run's fact: the configuration it was measured under."""


def keep_configuration(runs: Runs, run: str, configuration: Configuration) -> None:
    """Store the configuration that a run was measured under."""
    runs.keep(run, _CONFIGURATION, configuration.body())


def run_configuration(runs: Runs, run: str) -> Configuration:
    """The configuration that a run was measured under; for rescored rows that of their run.

    Raises:
        ConfigError: It is unknown.
    """
    configuration = configuration_from(runs.kept(run, _CONFIGURATION))
    if configuration is not None:
        return configuration
    scored = str(runs.get(run).manifest.get("testset", "")).removeprefix("run ")
    if scored != run and runs.holds(scored):
        return run_configuration(runs, scored)
    raise ConfigError(
        f"the settings of the run {run} are unknown",
        where=run,
        hint="promote a run of `ragwright eval`, of a sweep, or of `ragwright outputs evaluate` "
        "over texts of one configuration; rows of other systems have no configuration",
    )


def list_changed_files(root: Path, configuration: Configuration) -> list[str]:
    """The changed files of a configuration, by path."""
    changes = []
    for name, known in sorted(configuration.files.items()):
        now = _promoted_file_hash(root / name)
        if now is None:
            changes.append(f"{name} no longer exists")
        elif now != known:
            changes.append(f"{name} has changed")
    return changes


@dataclass(frozen=True, slots=True)
class Change:
    """One change of the served configuration.

    Attributes:
        number: Number of the configuration served from then on.
        replaced: Number of the one served before, None if there was none.
        action: ``promote``, or ``back`` to an earlier one.
        at: ISO 8601, UTC.
        by: Who.
        configuration: Hash of the configuration.
        run: The run that measured it.
        reason: The reason given by the user.
        gate: Outcome of the gate, JSON-able; empty if there was none.
        baseline: The run it was compared with, empty if there was none.
    """

    number: int
    replaced: int | None
    action: Action
    at: str
    by: str
    configuration: str
    run: str
    reason: str = ""
    gate: Mapping[str, Any] = field(default_factory=dict)
    baseline: str = ""


_FIELDS = tuple(member.name for member in fields(Change))
_COLUMNS = ", ".join(f'"{name}"' for name in _FIELDS)


class Served:
    """The served configurations of a project.

    Args:
        folder: The project.
    """

    def __init__(self, folder: ProjectFolder) -> None:
        self._folder = folder
        self._root = folder.data / "served"

    @property
    def folder(self) -> Path:
        """Folder of the numbered configurations."""
        return self._root

    def history(self) -> tuple[Change, ...]:
        """All changes, oldest first."""
        return self._stored_changes("ORDER BY change")

    def current(self) -> Change | None:
        """The served configuration, None if there is none."""
        return next(iter(self._stored_changes("ORDER BY change DESC LIMIT 1")), None)

    def _stored_changes(self, rest: str) -> tuple[Change, ...]:
        query = f"SELECT {_COLUMNS} FROM served_changes {rest}"  # noqa: S608
        with closing(Ledger(self._folder.ledger)) as ledger:
            rows = (dict(zip(_FIELDS, row, strict=True)) for row in ledger.select(query))
            return tuple(Change(**{**row, "gate": json.loads(row["gate"])}) for row in rows)

    def add(self, change: Change) -> None:
        """Add a change to the history; only for the holder of the lock."""
        row = {**asdict(change), "gate": json.dumps(change.gate, ensure_ascii=False)}
        marks = ", ".join("?" * len(_FIELDS))
        insert = f"INSERT INTO served_changes ({_COLUMNS}) VALUES ({marks})"  # noqa: S608

        def work(connection: Connection) -> None:
            connection.execute(insert, [row[name] for name in _FIELDS])

        with closing(Ledger(self._folder.ledger)) as ledger:
            ledger.write(work)

    def snapshot(self, number: int) -> tuple[Configuration, Path]:
        """A numbered configuration, and the folder with copies of its files.

        Raises:
            StoreError: It is missing, or has been changed.
        """
        folder = self._root / f"{number:04d}"
        promoted = [change for change in self.history() if change.number == number]
        path = folder / _SETTINGS
        if not promoted or not path.is_file():
            raise StoreError(
                f"the served configuration {number} does not exist", where=str(self._root)
            )
        values = read_yaml(path).value
        configuration = Configuration(values["settings"] or {}, values["files"] or {})
        wrong = list_changed_files(folder, configuration)
        if configuration.hash != promoted[0].configuration:
            wrong.append("settings.yaml has changed")
        if wrong:
            raise StoreError(
                f"the served configuration {number} was changed after it was promoted: "
                f"{', '.join(wrong)}",
                where=str(folder),
                hint="restore the folder from a backup, or go back: ragwright promote --back",
            )
        return configuration, folder

    def text(self, number: int) -> str:
        """A numbered configuration as YAML, checked as :meth:`snapshot` does."""
        _, folder = self.snapshot(number)
        return (folder / _SETTINGS).read_text("utf-8")

    def promote(self, configuration: Configuration, change: Change) -> Change:
        """Serve a configuration from now on, under the next number; ``change`` has the other
        fields. Only for the holder of the lock.

        Raises:
            ConfigError: One of its files has changed; nothing is promoted.
        """
        import yaml

        before = self.history()
        number = max((earlier.number for earlier in before), default=0) + 1
        target = self._root / f"{number:04d}"
        draft = self._root / f"{number:04d}.new"
        # left by a process that was interrupted before it was served
        for leftover in (draft, target):
            shutil.rmtree(leftover, ignore_errors=True)
        for name in configuration.files:
            copy = draft / name
            copy.parent.mkdir(parents=True, exist_ok=True)
            with suppress(OSError):  # recognised by its hash
                shutil.copyfile(self._folder.parts / name, copy)
        wrong = list_changed_files(draft, configuration)
        if wrong:
            shutil.rmtree(draft, ignore_errors=True)
            raise not_reproducible(change.run, wrong)
        draft.mkdir(parents=True, exist_ok=True)
        text: str = yaml.safe_dump(
            configuration.body(), sort_keys=True, allow_unicode=True, default_flow_style=False
        )
        replace_text(draft / _SETTINGS, f"{_HEAD}{text}", private=True)
        draft.replace(target)
        promoted = replace(
            change,
            number=number,
            replaced=before[-1].number if before else None,
            configuration=configuration.hash,
            at=_utc_time(),
            by=change.by or current_user(),
        )
        self.add(promoted)
        return promoted

    def back(self, reason: str, by: str = "") -> Change:
        """Serve the configuration that the present one replaced. Only for the holder of the lock.

        Raises:
            ConfigError: There is none before it.
            StoreError: It is missing or has been changed.
        """
        before = self.history()
        now = before[-1] if before else None
        promoted = {change.number: change for change in before if change.action == "promote"}
        earlier = promoted[now.number].replaced if now else None
        if now is None or earlier is None:
            raise ConfigError(
                "no earlier configuration to return to",
                where=str(self._root),
                hint="no configuration is served" if now is None else f"{now.number} was the first",
            )
        self.snapshot(earlier)
        reverted = replace(
            promoted[earlier],
            replaced=now.number,
            action="back",
            at=_utc_time(),
            by=by or current_user(),
            reason=reason,
            gate={},
            baseline="",
        )
        self.add(reverted)
        return reverted

    @contextmanager
    def changing(self, what: str) -> Iterator[None]:
        """Hold the lock for changing the served configuration.

        Args:
            what: What is being done, for messages to waiting processes.

        Raises:
            StoreBusyError: Another process holds it for longer than half a minute; the message
                names it.
            StoreError: The folder cannot be written.
        """
        lock = FileLock(self._root / "lock", what, wait=_WAIT, busy=_BUSY)
        try:
            with lock:
                yield
        except OSError as error:
            raise StoreError(
                f"the served configuration cannot be changed: {error.strerror or error}",
                where=str(self._root),
                hint="check the rights of the folder and the free space of the disk",
            ) from error


def not_reproducible(run: str, wrong: Sequence[str]) -> ConfigError:
    """The error for a run whose files have changed."""
    return ConfigError(
        f"the run {run} was measured with other files: {', '.join(wrong)}",
        where=run,
        hint="restore the files, or run `ragwright eval` again and promote that run",
    )


def open_served_project(folder: ProjectFolder) -> tuple[ProjectFolder, Mapping[str, Any]]:
    """A project with the served prompts, personas and sections.

    Raises:
        ConfigError: No configuration is served yet.
        StoreError: The promoted files are missing or have been changed.
    """
    served = Served(folder)
    change = served.current()
    if change is None:
        raise ConfigError(
            "no configuration is served yet",
            where=str(folder.root.resolve()),
            hint="measure the project with `ragwright eval`, then run `ragwright promote RUN`",
        )
    configuration, files = served.snapshot(change.number)
    return ProjectFolder(folder.root, files), configuration.sections


def _utc_time() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def _yaml_ready(value: Any) -> Any:
    """Plain mappings and lists, as in YAML and JSON."""
    if isinstance(value, Mapping):
        return {str(key): _yaml_ready(item) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return [_yaml_ready(item) for item in value]
    return value


def _relative_paths(value: Any, root: Path) -> Any:
    """Paths inside the project folder, as written in its file."""
    if isinstance(value, dict):
        return {key: _relative_paths(item, root) for key, item in value.items()}
    if isinstance(value, list):
        return [_relative_paths(item, root) for item in value]
    if isinstance(value, str) and value.startswith(f"{root}{os.sep}") and root != Path():
        return Path(value).relative_to(root).as_posix()
    return value


def _included_files(
    root: Path, values: Mapping[str, Any], others: Collection[str]
) -> Iterator[tuple[str, str]]:
    """(path from the project folder, hash) of every included file, by path."""
    paths = {path for pattern in _PERSONAS for path in root.glob(pattern)}
    paths |= {root / path for path in others}
    for section in _NAMING:
        paths |= {
            root / text for text in _nested_texts(values.get(section)) if _is_file(root / text)
        }
    for path in sorted(paths):
        known = _promoted_file_hash(path)
        if known is None or not path.is_relative_to(root):
            continue
        relative = path.relative_to(root)
        if ".." not in relative.parts:
            yield relative.as_posix(), known


def _nested_texts(value: Any) -> Iterator[str]:
    """Every text among nested values that could be the name of a file."""
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, list):
        for item in value:
            yield from _nested_texts(item)
    elif isinstance(value, str) and value and "\n" not in value:
        yield value


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except (OSError, ValueError):  # a text that is not a path
        return False


def _promoted_file_hash(path: Path) -> str | None:
    try:
        return text_hash(path.read_bytes().decode("utf-8", "surrogateescape"))
    except OSError:
        return None
