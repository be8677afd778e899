"""The part of an index's key that names its chunks: how documents are cut and read."""

from __future__ import annotations

from ...ingest import OURS, IngestOptions

_READ_BY = "; read by "
"""What parts the chunker's settings from the name of another parser in an index's key."""


def reading_suffix(options: IngestOptions) -> str:
    """What the key of an index says after the chunker's settings: by what documents are read."""
    return "" if options.parser == OURS else f"{_READ_BY}{options.parser}"


def chunker_of(key: str) -> str:
    """The chunker's settings in the key of an index."""
    return key.partition(_READ_BY)[0]
