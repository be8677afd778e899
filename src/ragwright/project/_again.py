"""Whose vectors an ingest makes again: those asked for, and those that no search can use."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..core import listed

if TYPE_CHECKING:
    from ._project import Project

Again = tuple["frozenset[str] | None", tuple[str, ...]]


def doubtful_documents(project: Project) -> frozenset[str]:
    """Documents with stored vectors that cannot be searched with, where a server made them.

    A local model may give a text without a known word a vector of zeros, and the same again.
    """
    model = project.settings.embed.model
    if not model or project.models.is_local(model) or not project.pair.dimensions:
        return frozenset()
    return project.store.doubtful_documents(project.pair)


def vectors_again(project: Project, *, everything: bool) -> Again:
    """Documents to be embedded again (None for all), and notes that say so.

    Where that is any, the length of the server's vectors is measured anew. Where it is not
    the stored one, nothing that is stored can be searched with the vectors of a question:
    all documents that this model embedded leave the index.
    """
    doubtful = doubtful_documents(project)
    model = project.settings.embed.model
    if not model or not (everything or doubtful):
        return frozenset(), ()
    notes: tuple[str, ...] = ()
    if doubtful:
        names = listed(sorted(doubtful), 3)
        notes = (f"embedded again, for their stored vectors cannot be searched with: {names}",)
    before = project.pair
    project.store.replace_vectors(before, {})  # a store that cannot says so before anything is paid
    if not project.models.is_local(model) and project.measured_pair() != before:
        for pair in project.store.pairs():
            if pair.embedder == before.embedder:
                project.store.remove(list(project.store.content_hashes(pair)), pair)
        said = f"{model} gives vectors of length {project.pair.dimensions}, not {before.dimensions}"
        notes = (*notes, f"{said}: all documents that it embedded were taken out first")
    return (None if everything else doubtful), notes
