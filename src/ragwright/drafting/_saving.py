"""Texts that were made are stored, with the configuration they were made under."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ..project import Project, Served, configuration_of
from .outputs import Origin, Outputs

if TYPE_CHECKING:
    from ._records import DraftBatch


def project_outputs(project: Project) -> Outputs:
    """The table of outputs of a project, in its data folder; closed with the project."""
    path = project.folder.data / "outputs.sqlite"
    power_safe = project.settings.budget.power_safe
    return project.attached(Outputs, lambda: Outputs(path, power_safe=power_safe))


def save_drafts(
    project: Project, batch: DraftBatch, scope: str = "", origin: Origin | None = None
) -> int:
    """Store a batch of drafts with all that is known of where it came from; its number.

    Args:
        project: The project it was drafted in.
        batch: What was drafted; it knows the state of the index that was searched.
        scope: Who may see it (tenant, permissions).
        origin: :func:`origin_of` from before the drafting, for files may change meanwhile; as
            things stand where None.

    Raises:
        StoreError: It cannot be stored; nothing of it is.
    """
    made = origin or origin_of(project)
    return project_outputs(project).save(batch, replace(made, snapshot=batch.snapshot, scope=scope))


def origin_of(project: Project) -> Origin:
    """Under what an opened project makes texts now: configuration, and whether that is served.

    The snapshot and the scope are the batch's own.
    """
    configuration = configuration_of(project.folder, project.settings)
    served = Served(project.folder).current()
    same = served is not None and served.configuration == configuration.hash
    return Origin(
        configuration=configuration.hash,
        settings=configuration.body(),
        served=served.number if served is not None and same else None,
    )
