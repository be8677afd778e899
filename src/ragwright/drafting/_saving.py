"""Storing drafted texts with their configuration."""

from __future__ import annotations

from dataclasses import replace

from ..project import Project, Served, Settings, configuration_of
from ._records import DraftBatch
from .outputs import Origin, Outputs


def project_outputs(project: Project) -> Outputs:
    """Return the table of outputs of a project, own or shared; it is closed with the project."""
    path = project.settings.shared.place(project.folder.ledger)
    return project.attached(Outputs, lambda: Outputs(path))


def save_drafts(
    project: Project, batch: DraftBatch, scope: str = "", origin: Origin | None = None
) -> int:
    """Store a batch of drafts with its origin; return its number.

    Args:
        project: Project of the draft.
        batch: The drafts, with the snapshot of the index that was searched.
        scope: Visibility of the batch (tenant, permissions).
        origin: :func:`origin_of` from before the drafting, as files may change meanwhile; the
            present one if None.

    Raises:
        StoreError: It cannot be stored; nothing is stored.
    """
    batch_origin = origin or origin_of(project)
    return project_outputs(project).save(
        batch, replace(batch_origin, snapshot=batch.snapshot, scope=scope)
    )


def origin_of(project: Project, settings: Settings | None = None) -> Origin:
    """Return the present configuration of an opened project, and its number if it is served.

    The snapshot and the scope are the batch's own. ``settings`` are those of the batch, if they
    differ from the project's.
    """
    configuration = configuration_of(project.folder, settings or project.settings)
    served = Served(project.folder).current()
    is_served = served is not None and served.configuration == configuration.hash
    return Origin(
        configuration=configuration.hash,
        settings=configuration.body(),
        served=served.number if served is not None and is_served else None,
    )
