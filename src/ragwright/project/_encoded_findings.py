"""Findings of `doctor` on channels with data of their own."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ..core import RagwrightError, counted
from ._encoding import encoded_models
from ._late_loss import rounding_loss

if TYPE_CHECKING:
    from ..index import EncodingSize
    from ._project import Project


def encoded_texts(project: Project) -> Iterator[tuple[str, str, str]]:
    """Per channel (state, text, what to do): the size of its data, and what is missing.

    The data are stored by the identity of a model.
    """
    for channel, model in encoded_models(project.settings).items():
        try:
            size = _size_of(project, channel, model)
        except RagwrightError as error:
            yield "fault", f"{channel}: {error.what}", error.hint or ""
            continue
        yield _size_text(channel, model, size)


def late_loss_text(project: Project, encoded: int | None = None) -> str:
    """What 8-bit vectors lose, if late interaction is set up and enough chunks are indexed.

    Args:
        project: The project.
        encoded: Chunks that were encoded just now: less than a tenth of them all changes little,
            and the text is empty. None in any case.

    Raises:
        RagwrightError: The model cannot be opened, or the index not be read.
    """
    model = project.settings.late.model
    if not model or (
        encoded is not None and 10 * encoded < _size_of(project, "late", model).chunks
    ):
        return ""
    loss = rounding_loss(project, model) if encoded != 0 else None
    return "" if loss is None else f"late: {loss}"


def _size_of(project: Project, channel: str, model: str) -> EncodingSize:
    encoder = project.models.encoders.identity(channel, model)
    return project.store.encoding_size(project.pair, encoder)


def _size_text(channel: str, model: str, size: EncodingSize) -> tuple[str, str, str]:
    if size.missing:
        left = counted(size.missing, "document has", "documents have")
        return "fault", f"{channel}: {left} no data of {model}", "run: ragwright ingest"
    each = size.bytes / max(1, size.chunks)
    return (
        "ok",
        f"{channel}: {counted(size.chunks, 'chunk')} encoded by {model}, {each:,.0f} bytes a "
        f"chunk, {size.bytes / 1e6:,.1f} MB in the store and as much in the view",
        "",
    )
