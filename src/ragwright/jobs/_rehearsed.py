"""A promotion that is rehearsed first: its gate sees which answers readers would lose."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace

from ..experiment import find_run
from ..project import Project, Served
from ..rehearsal import (
    Rehearsal,
    RehearsalRule,
    RehearsalVerdict,
    Rehearsing,
    gate_rehearsal,
    rehearse,
)


def rehearse_promotion(
    project: Project, run: str, rules: Sequence[RehearsalRule], options: Rehearsing | None = None
) -> tuple[Rehearsal, RehearsalVerdict]:
    """Compare the answers of the served configuration with those of a run's; change nothing.

    If nothing is served yet, the project's own settings are the present ones.

    Raises:
        ConfigError: There is no question to ask, or the run's configuration is unknown.
        StoreError: There is no such run.
    """
    name = find_run(project.runs, run)
    served = Served(project.folder).current() is not None
    session = replace(project.session, served=served)
    same = served == project.session.served
    base = nullcontext(project) if same else Project.open(project.folder.root, session)
    with base as present:
        if not same:
            present.spend_with(project)
        rehearsal = rehearse(
            present, replace(options or Rehearsing(), config=name, must_differ=False)
        )
    return rehearsal, gate_rehearsal(rehearsal, rules)
