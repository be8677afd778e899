"""Whose vectors an ingest makes again: those asked for, and those that no search can use."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...core import listed

if TYPE_CHECKING:
    from ..project import Opened

Again = tuple["frozenset[str] | None", tuple[str, ...]]


def doubtful_documents(bench: Opened) -> frozenset[str]:
    """Documents with stored vectors that cannot be searched with, where a server made them.

    A local model may give a text without a known word a vector of zeros, and the same again.
    """
    model = bench.settings.embed.model
    if not model or bench.models.is_local(model) or not bench.pair.dimensions:
        return frozenset()
    return bench.store.doubtful_documents(bench.pair)


def vectors_again(bench: Opened, *, everything: bool) -> Again:
    """Documents to be embedded again (None for all), and notes that say so.

    Where that is any, the length of the server's vectors is measured anew. Where it is not
    the stored one, nothing that is stored can be searched with the vectors of a question:
    all documents that this model embedded leave the index.
    """
    doubtful = doubtful_documents(bench)
    model = bench.settings.embed.model
    if not model or not (everything or doubtful):
        return frozenset(), ()
    notes: tuple[str, ...] = ()
    if doubtful:
        names = listed(sorted(doubtful), 3)
        notes = (f"embedded again, for their stored vectors cannot be searched with: {names}",)
    before = bench.pair
    if not bench.models.is_local(model) and bench.measured_pair() != before:
        for pair in bench.store.pairs():
            if pair.embedder == before.embedder:
                bench.store.remove(list(bench.store.content_hashes(pair)), pair)
        said = f"{model} gives vectors of length {bench.pair.dimensions}, not {before.dimensions}"
        notes = (*notes, f"{said}: all documents that it embedded were taken out first")
    return (None if everything else doubtful), notes
