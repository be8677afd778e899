"""An ingest under the settings of a project."""

from __future__ import annotations

from typing import TypeVar

from ..index import Store
from ._project import Project
from .building import Ingest, Stamps

IngestT = TypeVar("IngestT", bound=Ingest)


def make_ingest(
    project: Project,
    kind: type[IngestT],
    stamps: Stamps | None = None,
    *,
    embed_again: bool = False,
    store: Store | None = None,
) -> IngestT:
    """Return an ingest into the index of a project.

    Args:
        project: The project.
        kind: Class of the ingest.
        stamps: Stamps of unchanged files; None reads every file.
        embed_again: Embed every text, even if its vector is stored.
        store: Where stored vectors are looked up; None for the store of the project.

    Raises:
        ConfigError: The name of a model is wrong.
    """
    settings = project.settings
    model = settings.embed.model
    embedding = (model, bool(model) and project.models.is_local(model))
    return kind(
        store or project.store,
        project.pair,
        project.chunker,
        embedding,
        project.runner,
        stamps,
        embed_again=embed_again,
    )
