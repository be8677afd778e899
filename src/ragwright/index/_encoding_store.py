"""What a store and its views offer to channels with data of their own; here: nothing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from ..core import RetrieveError, StoreError

if TYPE_CHECKING:
    from ..flow import Search, SearchReply
    from ._store import IndexSpec

Encodings: TypeAlias = tuple[bytes, ...]
"""Encodings of a document's chunks, in text order."""

_HINT = "set store.kind: sqlite and run ragwright ingest, or leave the channel out of the settings"


@dataclass(frozen=True, slots=True)
class EncodingSize:
    """Size of the stored data of one encoder under a pair, for ``doctor``.

    Attributes:
        documents: Documents that are encoded.
        missing: Documents of the pair that are not.
        chunks: Chunks that are encoded.
        bytes: Bytes of all encodings.
    """

    documents: int
    missing: int
    chunks: int
    bytes: int


def titled_text(text: str, title: str) -> str:
    """A text with its document's title before it, unless it begins with that."""
    head = title.strip()
    return f"{head}\n{text}" if head and not text.lstrip().startswith(head) else text


class EncodingStore:
    """The part of a store that keeps encodings of chunks, by encoder and document.

    A document is named by its stamp, as in segments. Its encodings are deleted with it, kept with
    the states that hold it, and restored with them. A store without them need not override this.
    """

    def stamps_without(self, pair: IndexSpec, encoder: str) -> Sequence[int]:
        """Stamps of the pair's documents that an encoder has not encoded.

        Raises:
            StoreError: This kind of store keeps no encodings; so for the other methods.
        """
        raise _no_encodings()

    def stamped_texts(
        self, pair: IndexSpec, stamps: Sequence[int]
    ) -> Iterator[tuple[int, tuple[str, ...]]]:
        """(Stamp, texts of its chunks as they are embedded) of documents, one in memory at a time.

        Documents that are gone are left out.
        """
        raise _no_encodings()

    def put_encodings(self, encoder: str, encodings: Mapping[int, Encodings]) -> None:
        """Store the encodings of documents by stamp; those of documents that are gone are not."""
        raise _no_encodings()

    def forget_encodings(self, encoder: str) -> None:
        """Delete what an encoder has encoded; the model is not used any more."""
        raise _no_encodings()

    def encoding_size(self, pair: IndexSpec, encoder: str) -> EncodingSize:
        """What an encoder has encoded of a pair."""
        raise _no_encodings()


class EncodingView:
    """The part of a view that searches encodings."""

    def encoded(self, request: Search) -> SearchReply:
        """Up to k chunks by a channel with its own data, as the channels of the index give them.

        Raises:
            RetrieveError: The view has no data of this channel and encoder.
        """
        raise RetrieveError(
            f"this kind of store has no data for the channel {request.channel!r}",
            where="retrieve.channels",
            hint=_HINT,
        )


def _no_encodings() -> StoreError:
    return StoreError(
        "this kind of store keeps no data for the channels sparse and late",
        where="store.kind",
        hint=_HINT,
    )
