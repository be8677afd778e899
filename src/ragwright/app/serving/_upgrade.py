"""`ragwright upgrade`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

from ...core import ConfigError, counted
from ...operations import (
    UpgradeStep,
    owner_event,
    record,
    upgrade_project,
    upgrade_steps,
)
from ...project import ProjectFolder, load_settings
from .._flags import Flags, takes


@takes("project as_json quiet dry_run")
def command(flags: Flags) -> int:
    """Bring an old project to this version: databases are migrated after a copy."""
    folder = ProjectFolder(flags.project).require()
    steps = upgrade_steps(folder)
    waiting = [step for step in steps if step.automatic]
    left: Sequence[UpgradeStep] = [step for step in steps if not step.automatic]
    if not flags.dry_run and waiting:
        for step in left:
            if step.what == "settings":
                raise ConfigError(step.state, where=str(folder.settings), hint=step.action)
        left = upgrade_project(folder)
        done = owner_event("changed", "upgrade", ", ".join(step.what for step in waiting))
        record(folder, load_settings(folder.settings), done)
    console = flags.console
    console.show(
        lambda: {
            "dry_run": flags.dry_run,
            "migrated" if not flags.dry_run else "to_migrate": [asdict(step) for step in waiting],
            "left": [asdict(step) for step in left],
        },
        lambda: _text(waiting, left, flags.dry_run),
    )
    return 0


def _text(waiting: Sequence[UpgradeStep], left: Sequence[UpgradeStep], dry_run: bool) -> str:
    if not waiting and not left:
        return "this project is of this version: there is nothing to do"
    lines = []
    for step in waiting:
        size = f", {step.bytes / 1e6:,.1f} MB" if step.bytes else ""
        copy = f"; a copy is kept as {step.backup}" if step.backup else ""
        lines.append(f"{step.what}: {step.state}{size}: {step.action}{copy}")
    if waiting:
        total = sum(step.bytes for step in waiting if step.backup)
        room = f"; the copies need {total / 1e6:,.1f} MB" if total else ""
        lines.append(
            f"{counted(len(waiting), 'file')} to migrate{room}: run `ragwright upgrade`"
            if dry_run
            else f"{counted(len(waiting), 'file')} migrated"
        )
    lines += [f"left to do: {step.what}: {step.state}\n  {step.action}" for step in left]
    return "\n".join(lines)
