"""Documents on their way into the index: a batch, how it is cut, how its texts are embedded."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from pathlib import Path
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from ...core import (
    GROUPS,
    Chunk,
    ChunkError,
    Document,
    ModelRefusedError,
    ModelReplyError,
    RagwrightError,
)
from ...flow import Flow, embed, gather, unpack_settled
from ...ingest import Chunker, Failure, SourceFile
from ._stamps import Stamp

Matrix = NDArray[np.float32]

_EMBED_TEXTS = 64

_HARMLESS = (("", "Is this model there?"), (" ", "The whale swims in the sea."))
"""Two harmless texts, for which any model gives different vectors."""

Bad: TypeAlias = ModelRefusedError | ModelReplyError
"""Errors of single texts: refused, or answered with an invalid vector."""

KEPT = "ragwright:ingest"
"""Name of paid vectors in the reply store until the index has them."""

Texts = list[tuple[str, str]]
"""(chunk key, text to embed)."""

Files = list[tuple["SourceFile", Stamp, list[tuple[str, str]], list[Failure]]]
"""A file, its stamp, (id, content hash) of its documents, and its warnings."""


@dataclass(slots=True)
class Batch:
    """Chunked documents to be stored, and the files that end with them.

    Attributes:
        root: The source that they were read from.
        vectors: Vectors by key of their text.
        missing: Texts to embed, by key.
        waiting: Texts that an earlier batch embeds, by key.
        refused: Texts that the model refuses, by key.
        replaced: Keys whose stored vectors are replaced.
        terms: Packed terms of the chunks by document id, where a worker has made them.
    """

    root: str
    documents: list[tuple[Document, tuple[Chunk, ...]]] = field(default_factory=list)
    files: Files = field(default_factory=list)
    vectors: dict[str, Matrix] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)
    waiting: dict[str, str] = field(default_factory=dict)
    refused: dict[str, Bad] = field(default_factory=dict)
    replaced: set[str] = field(default_factory=set)
    terms: dict[str, tuple[bytes, ...]] = field(default_factory=dict)

    def take(self, group: Texts, outcome: Matrix | Exception) -> None:
        """Store the vectors of a group, or the error of its single text."""
        if isinstance(outcome, Bad):
            self.refused[group[0][0]] = outcome
            return
        vectors = unpack_settled(outcome)
        self.vectors.update((key, row) for (key, _), row in zip(group, vectors, strict=True))


def cut_document(chunker: Chunker, document: Document) -> tuple[Chunk, ...] | Failure:
    """Chunks of a document, or why the chunker failed."""
    try:
        return tuple(map(_without_own_groups, chunker.chunks(document)))
    except RagwrightError as error:
        return Failure(document.id, error)
    except Exception as error:  # a custom chunker must not affect the other documents
        wrapped = ChunkError(
            f"the chunker {type(chunker).__name__!r} failed: {type(error).__name__}: {error}",
            where=document.id,
            hint="this is a fault of the chunker; the other documents were chunked",
        )
        wrapped.__cause__ = error
        return Failure(document.id, wrapped)


def _without_own_groups(chunk: Chunk) -> Chunk:
    """A chunk whose readers are those of its document: a field of its own would replace them."""
    if GROUPS not in chunk.metadata:
        return chunk
    kept = {name: value for name, value in chunk.metadata.items() if name != GROUPS}
    return replace(chunk, metadata=kept)


def embed_missing(
    batch: Batch, model: str, *, local: bool, done: Callable[[int], None]
) -> Flow[Batch]:
    """A flow that fills in the missing vectors.

    If a server refuses a group of texts or returns invalid vectors, each text is sent alone, so
    that one bad text affects only its own document; any other error ends the ingest.

    Args:
        batch: Its ``missing`` texts are embedded.
        model: The embedding model.
        local: False where a server embeds: its paid replies are kept until the index has them.
        done: Called with the number of texts of each group that is done.
    """

    def vectors(group: Texts) -> Flow[Matrix]:
        sources = () if local else (KEPT,)
        embedded_vectors = yield from embed(
            model, [text for _, text in group], "passage", sources=sources
        )
        done(len(group))
        return embedded_vectors

    def embedded(groups: Sequence[Texts]) -> Flow[list[Matrix | Exception]]:
        return gather((vectors(group) for group in groups), settle=True)

    # similar lengths together: a batch is padded to its longest text
    missing = sorted(batch.missing.items(), key=lambda item: len(item[1]))
    groups = [missing[i : i + _EMBED_TEXTS] for i in range(0, len(missing), _EMBED_TEXTS)]
    outcomes = yield from embedded(groups)
    refused = [g for g, o in zip(groups, outcomes, strict=True) if _refuses_one_of(g, o)]
    if groups and all(isinstance(o, Bad) for o in outcomes):
        # the text or the model? harmless texts show it
        [outcome] = yield from embedded([list(_HARMLESS)])
        unpack_settled(outcome)
    for group, outcome in zip(groups, outcomes, strict=True):
        if group not in refused:
            batch.take(group, outcome)
    alone = [[item] for group in refused for item in group]
    for group, outcome in zip(alone, (yield from embedded(alone)), strict=True):
        batch.take(group, outcome)
    return batch


def _refuses_one_of(group: Texts, outcome: Matrix | Exception) -> bool:
    return isinstance(outcome, Bad) and len(group) > 1


_WORDS = 4
"""Numbers of 64 bits a document: two of its id's hash, two of its content's."""


class KnownDocuments:
    """Ids and content hashes of stored documents: 32 bytes each, read by binary search.

    Workers open no database; this tells them which documents need not be cut again.

    Args:
        file: As :meth:`write` made it.
    """

    def __init__(self, file: Path) -> None:
        self._rows: NDArray[np.uint64] = np.load(file, mmap_mode="r")

    @staticmethod
    def write(file: Path, hashes: Mapping[str, str]) -> None:
        """Write the file, from document id -> content hash."""
        raw = b"".join(_digest_of(name) + _digest_of(content) for name, content in hashes.items())
        rows = np.frombuffer(raw, "<u8").reshape(-1, _WORDS)
        # by column: a search touches the first one alone
        np.save(file, np.ascontiguousarray(rows[np.argsort(rows[:, 0], kind="stable")].T))

    def unchanged(self, name: str, content: str) -> bool:
        """True for a document that is stored with this content."""
        return _digest_of(content) in self._content_digests(name)

    def _content_digests(self, name: str) -> Iterator[bytes]:
        wanted = np.frombuffer(_digest_of(name), "<u8")
        first = self._rows[0]
        at = int(np.searchsorted(first, wanted[0]))
        while at < len(first) and first[at] == wanted[0]:
            if self._rows[1, at] == wanted[1]:
                yield self._rows[2:, at].tobytes()
            at += 1


def _digest_of(text: str) -> bytes:
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()
