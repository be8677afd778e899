"""Channels with data of their own: encodings of chunks that the store holds beside the vectors.

A model encodes each chunk once, as bytes in the form of its channel (:class:`Encode`). The store
keeps them by (encoder, document under a pair), so that they are deleted with the document. A view
packs those of each of its segments into arrays, a *side* of the segment, whose rows are those of
the segment: filters, soft filters and dead rows work as for the other channels.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TypeAlias

import numpy as np

from .. import index
from ..core import RetrieveError, StoreError, counted
from ._arrays import Array, Arrays
from ._kept import Encodings
from ._rank import Rows, Scores
from ._segment import Segment

ReadEncodings: TypeAlias = Callable[[str, Sequence[int]], Iterator[tuple[int, Encodings]]]
"""From an encoder and stamps to (stamp, encodings) of those documents that have any."""


class EncodedChannel(ABC):
    """How the encodings of a channel are packed for search, and scored.

    Attributes:
        name: Name of the channel: in ``retrieve.channels``, and in requests.
        form: Version of the packed arrays; saved ones of another version are packed again.
        least: The least score of a hit is above this; None where every chunk has a score.
        terms: True for sums over the terms of a query, which postings answer.
    """

    name: str
    form: int = 1
    least: float | None = 0.0
    terms: bool = False

    @abstractmethod
    def packed(self, encodings: Iterable[bytes]) -> dict[str, Array]:
        """Arrays from the encodings of a segment's rows, in their order; ``b""`` for none."""

    @abstractmethod
    def scores(self, side: Arrays, query: bytes) -> Scores:
        """Scores of all rows of a segment: float64, a higher one is better.

        Raises:
            RetrieveError: The query is not an encoding of this channel.
        """

    def scores_of(self, side: Arrays, query: bytes, rows: Rows) -> Scores:
        """Scores of some rows; for a channel in which scoring all would cost more."""
        return self.scores(side, query)[rows]

    def floor(self, query: bytes) -> float:
        """The least score that there could be for a query, for the fusion of scores."""
        return 0.0


def encoded_channel(name: str) -> EncodedChannel:
    """The channel of a name.

    Raises:
        RetrieveError: There is none.
    """
    if name not in ENCODED_CHANNELS:
        raise RetrieveError(
            f"there is no search channel {name!r}",
            where="retrieve.channels",
            hint=f"one of keyword, dense, {', '.join(ENCODED_CHANNELS)}",
        )
    return ENCODED_CHANNELS[name]()


ENCODED_CHANNELS: Mapping[str, Callable[[], EncodedChannel]] = {
    "sparse": lambda: index.SparseChannel(),
    "late": lambda: index.LateChannel(),
}
"""Channels that keep their own data in the store, each made when it is first used."""


def packed_side(
    segment: Segment, channel: EncodedChannel, encoder: str, read: ReadEncodings
) -> Arrays:
    """The side of a segment for a channel; ``absent`` marks the rows that are not encoded.

    Raises:
        StoreError: A document has another number of encodings than chunks.
    """
    absent = np.ones(segment.rows, np.bool_)
    ends = np.cumsum(segment.sizes)
    stored = dict(_places(segment))

    def encodings() -> Iterator[bytes]:
        row = 0
        for stamp, pieces in read(encoder, segment.stamps.tolist()):
            at = stored[stamp]
            first, end = int(ends[at] - segment.sizes[at]), int(ends[at])
            if len(pieces) != end - first:
                raise wrong_encodings(len(pieces), end - first)
            yield from (b"" for _ in range(row, first))
            absent[first:end] = False
            yield from pieces
            row = end
        yield from (b"" for _ in range(row, segment.rows))

    arrays = channel.packed(encodings())
    meta = {"form": channel.form, "rows": segment.rows}
    return Arrays(meta, {"absent": absent, **arrays})


def _places(segment: Segment) -> Iterator[tuple[int, int]]:
    """Stamp and number of each document of a segment."""
    return ((stamp, at) for at, stamp in enumerate(segment.stamps.tolist()))


def wrong_encodings(encodings: int, chunks: int) -> StoreError:
    """The error for a document with another number of encodings than chunks."""
    return StoreError(
        f"a document has {counted(encodings, 'encoding')} for {counted(chunks, 'chunk')}",
        hint="run: ragwright ingest (it encodes the document again)",
    )


def not_encoded(channel: str, chunks: int, snapshot: str) -> RetrieveError:
    """The error for an index whose chunks have no data for a channel."""
    return RetrieveError(
        f"{counted(chunks, 'chunk')} of this index {'has' if chunks == 1 else 'have'} no data for "
        f"the channel {channel!r}",
        where=f"snapshot {snapshot}",
        hint=f"run: ragwright ingest (it encodes what the present state lacks, not a former "
        f"state), or leave {channel} out of retrieve.channels",
    )
