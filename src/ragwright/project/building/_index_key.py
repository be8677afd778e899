"""The part of an index's key that names its chunks: how documents are cut and read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...ingest import OURS

if TYPE_CHECKING:
    from ...ingest import IngestOptions

_DESCRIBED_BY = "; figures described by "
_READ_BY = "; read by "
"""What parts the chunker's settings from names of other models and parsers in an index's key."""


def reading_suffix(options: IngestOptions) -> str:
    """What the key of an index says after the chunker's settings: by what documents are read."""
    described = f"{_DESCRIBED_BY}{options.image_model}" if options.image_model else ""
    return described + ("" if options.parser == OURS else f"{_READ_BY}{options.parser}")


def chunker_of(key: str) -> str:
    """The chunker's settings in the key of an index."""
    return key.partition(_DESCRIBED_BY)[0].partition(_READ_BY)[0]
