"""What an upgrade of an old project would do, and doing it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ..core import ConfigError, MissingExtraError, SchemaVersionError, StoreError
from ..index import STORE_VERSION
from ..ledger import (
    REPLY_TABLES,
    Ledger,
    SharedPlace,
    check_shared,
    held_files,
    ledger_tables,
)
from ..project import Project, ProjectFolder, index_findings, load_settings

if TYPE_CHECKING:
    from ..project import Settings


@dataclass(frozen=True, slots=True)
class UpgradeStep:
    """Something of a project that this version does not use as it is.

    Attributes:
        what: What it is about: ``ledger``, ``store``, ``settings``, ``index``.
        state: How it is: a version, or what is wrong, with its place.
        action: What changes it.
        backup: Copy that is made first; empty for none.
        automatic: True if ``ragwright upgrade`` does it.
        bytes: Size of what is rewritten.
    """

    what: str
    state: str
    action: str
    backup: str = ""
    automatic: bool = True
    bytes: int = 0


def upgrade_steps(folder: ProjectFolder) -> list[UpgradeStep]:
    """What an upgrade would do; nothing is written, and nothing is migrated.

    Raises:
        StoreError: A file cannot be read.
    """
    steps: list[UpgradeStep] = []
    settings: Settings | None = None
    try:
        settings = load_settings(folder.settings)
    except ConfigError as error:
        state = f"{error.where}: {error.what}" if error.where else error.what
        steps.append(UpgradeStep("settings", state, error.hint or "edit the file", automatic=False))
    steps += _former_files(folder)
    steps += _old_files(folder, settings)
    steps += _old_records(folder)
    if settings is not None and settings.shared.address:
        steps += _shared_steps(folder, settings)
    # Opening the index would migrate it: then it is looked at after the upgrade.
    if settings is not None and not any(step.automatic for step in steps):
        steps += _index_steps(folder)
    return steps


def _former_files(folder: ProjectFolder) -> Iterator[UpgradeStep]:
    for former in ledger_tables().former:
        file = folder.data / former.file
        if file.is_file():
            yield UpgradeStep(
                file.name,
                f"a file of an older ragwright ({file})",
                "its rows move into ledger.sqlite",
                f"{file.name}.v{former.version}.bak",
                bytes=file.stat().st_size,
            )


def _old_files(folder: ProjectFolder, settings: Settings | None) -> Iterator[UpgradeStep]:
    store = folder.data / "store.sqlite"
    if settings is not None and settings.store.path:
        store = folder.root / settings.store.path
    known = [
        (folder.ledger, ledger_tables().version, True),
        (store, STORE_VERSION, True),
        (folder.cache / "replies.sqlite", REPLY_TABLES.version, False),
    ]
    for file, present, copied in known:
        if not file.is_file():
            continue
        with held_files([file]) as [held]:
            version, size = held.version, held.size
        if version > present:
            state = f"version {version}; this ragwright knows {present}"
            yield UpgradeStep(file.name, state, "pip install -U ragwright", automatic=False)
        elif version < present:
            yield UpgradeStep(
                file.name,
                f"version {version}",
                f"migrate to version {present}",
                f"{file.name}.v{version}.bak" if copied else "",
                bytes=size,
            )


def _old_records(folder: ProjectFolder) -> Iterator[UpgradeStep]:
    manifests = sorted((folder.data / "records" / "manifests").glob("*.json"))
    if manifests and _schema(manifests[-1]) == 1:
        yield UpgradeStep(
            "records",
            f"tables from before they were Delta tables ({manifests[-1]})",
            "run: ragwright records refresh   (the former files go once all rows are written)",
            automatic=False,
        )


def _schema(manifest: Path) -> int:
    try:
        return int(json.loads(manifest.read_text("utf-8"))["schema_version"])
    except (OSError, ValueError, KeyError, TypeError):
        return 0


def _shared_steps(folder: ProjectFolder, settings: Settings) -> Iterator[UpgradeStep]:
    place = settings.shared.place(folder.ledger)
    assert isinstance(place, SharedPlace)
    for tables in (ledger_tables(), REPLY_TABLES):
        try:
            check_shared(place, tables)
        except SchemaVersionError as error:
            yield UpgradeStep("shared database", error.what, f"run: {error.hint}", automatic=False)
        except (StoreError, MissingExtraError) as error:
            yield UpgradeStep("shared database", error.what, error.hint or "", automatic=False)
            return


def _index_steps(folder: ProjectFolder) -> Iterator[UpgradeStep]:
    with closing(Project.open(folder.root)) as project:
        for check in index_findings(project):
            if check.state != "ok" and check.do:
                price = "   (--dry-run: its price)" if "ragwright ingest" in check.do else ""
                yield UpgradeStep(check.topic, check.text, f"{check.do}{price}", automatic=False)


def upgrade_project(folder: ProjectFolder) -> list[UpgradeStep]:
    """Migrate the files of a project, each after a copy; what is left to do afterwards.

    Raises:
        StoreError: A file cannot be migrated; it is as it was.
        ConfigError: The settings cannot be read: correct them first.
    """
    # opening them migrates them
    with closing(Project.open(folder.root)) as project, closing(Ledger(folder.ledger)):
        _ = project.store
        _ = project.replies
    return upgrade_steps(folder)
