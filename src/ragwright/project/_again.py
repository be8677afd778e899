"""Documents that an ingest embeds again: on request, or because their vectors are unusable."""

from __future__ import annotations

from ..core import listed
from ._project import Project

Again = tuple["frozenset[str] | None", tuple[str, ...]]


def doubtful_documents(project: Project) -> frozenset[str]:
    """Documents with stored vectors that cannot be searched with, if a server made them.

    A local model may give a zero vector to a text without known words, and would do so again.
    """
    model = project.settings.embed.model
    if not model or project.models.is_local(model) or not project.pair.dimensions:
        return frozenset()
    return project.store.doubtful_documents(project.pair)


def vectors_again(project: Project, *, everything: bool) -> Again:
    """Documents to be embedded again (None for all), and notes that say so.

    If there are any, the length of the server's vectors is measured again. If it differs from the
    stored length, questions cannot be compared with the stored vectors: all documents that this
    model embedded are removed from the index.
    """
    doubtful = doubtful_documents(project)
    model = project.settings.embed.model
    if not model or not (everything or doubtful):
        return frozenset(), ()
    notes: tuple[str, ...] = ()
    if doubtful:
        names = listed(sorted(doubtful), 3)
        notes = (
            f"embedded again, because their stored vectors cannot be used for search: {names}",
        )
    before = project.pair
    # a store that cannot do this fails before anything is paid
    project.store.replace_vectors(before, {})
    if not project.models.is_local(model) and project.measured_pair() != before:
        for pair in project.store.pairs():
            if pair.embedder == before.embedder:
                project.store.remove(list(project.store.content_hashes(pair)), pair)
        change = (
            f"{model} gives vectors of length {project.pair.dimensions}, not {before.dimensions}"
        )
        notes = (*notes, f"{change}: all documents that it embedded were removed first")
    return (None if everything else doubtful), notes
