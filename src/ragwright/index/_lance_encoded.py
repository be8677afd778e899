"""Searching encodings in a Lance store: scores from the rows of chunks, or from postings.

Late interaction reads the vectors of the chunks that it scores. Learned sparse search reads the
postings of the query's terms: a row of the table ``postings`` holds the places and weights of a
term in a block of some ten thousand chunks; the row of the term -1 names the chunks of the block.
A block is written by the first search that misses it, and never changed. Chunks in no block yet
are scored from their encodings. Scores are those of :mod:`ragwright.index._sparse` and ``_late``.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from . import _lance_tables as lance
from ._arrays import Arrays
from ._encoded import EncodedChannel
from ._lance_search import Found, Scoring, found_in, joined
from ._lance_where import Where, computed
from ._rank import ROUNDING, Scores, highest
from ._sparse import read_sparse

_BLOCK = 50_000
"""Documents of a block of postings, and about as many chunks or a few times more."""

_READ = 500
"""Documents whose encodings are read at once."""

_POOL, _GROWTH = 200, 4

Stamps = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class EncodedRows:
    """Encodings of a state by one encoder.

    Attributes:
        table: The table at one version; None where nothing was ever encoded.
        sql: Condition for the rows of the encoder.
        stamps: Stamps of the state's documents with chunks, ascending.
        chunks: Number of chunks of each.
        missing: Chunks that are not encoded.
    """

    table: Any
    sql: str
    stamps: Stamps
    chunks: NDArray[np.int32]
    missing: int

    def unposted(self, postings: Postings | None) -> Stamps:
        """Stamps of the documents that are in no block of postings."""
        return self.stamps if postings is None else np.setdiff1d(self.stamps, postings.documents)

    def documents(
        self, stamps: Sequence[int], ordinals: Sequence[int] = ()
    ) -> Iterator[tuple[Stamps, NDArray[np.int32], list[bytes]]]:
        """Stamps, ordinals and encodings of chunks, those of some documents at a time.

        Args:
            stamps: The documents.
            ordinals: Positions of the chunks that are wanted; others may be left out.
        """
        few = f"ordinal IN ({', '.join(map(str, ordinals))})" if ordinals else ""
        columns = ["stamp", "ordinal", "data"]
        for condition in lance.one_of("stamp", stamps, _READ):
            rows = lance.select(self.table, columns, lance.both(self.sql, condition, few))
            if rows.num_rows:
                yield (
                    rows["stamp"].to_numpy(),
                    rows["ordinal"].to_numpy(),
                    rows["data"].to_pylist(),
                )


@dataclass(frozen=True, slots=True)
class Postings:
    """The postings of one encoder at one version.

    Attributes:
        table: The table.
        sql: Condition for the rows of the encoder.
        blocks: Number of each block and its first place.
        stamps: Stamp of each place.
        ordinals: Position of its chunk in the document.
        documents: The distinct stamps, ascending.
        firsts: Place of the first chunk of each.
    """

    table: Any
    sql: str
    blocks: dict[int, int]
    stamps: Stamps
    ordinals: NDArray[np.int32]
    documents: Stamps
    firsts: NDArray[np.int64]

    @classmethod
    def of(cls, table: Any, sql: str) -> Postings:
        """The postings in a table."""
        blocks: dict[int, int] = {}
        stamps, ordinals, size = [np.empty(0, np.int64)], [np.empty(0, np.int32)], 0
        columns = ["block", "places", "weights"]
        rows = lance.select(table, columns, lance.both(sql, "term = -1")).to_pylist()
        for row in sorted(rows, key=lambda row: int(row["block"])):
            blocks[row["block"]] = size
            stamps.append(np.frombuffer(row["places"], np.int64))
            ordinals.append(np.frombuffer(row["weights"], np.int32))
            size += len(stamps[-1])
        every = np.concatenate(stamps)
        # Two processes may have posted one document: its first place counts.
        documents, firsts = np.unique(every, return_index=True)
        return cls(table, sql, blocks, every, np.concatenate(ordinals), documents, firsts)

    def scores(self, query: bytes) -> Scores:
        """The product of the query's vector with that of each place."""
        terms, weights = read_sparse(query)
        scores = np.zeros(len(self.stamps))
        factors = dict(zip(terms.tolist(), weights, strict=True))
        columns = ["block", "term", "places", "weights"]
        for condition in lance.one_of("term", factors):
            rows = lance.select(self.table, columns, lance.both(self.sql, condition))
            for row in rows.to_pylist():
                places = np.frombuffer(row["places"], np.int32) + self.blocks[row["block"]]
                scores[places] += np.frombuffer(row["weights"], np.float32) * factors[row["term"]]
        return scores

    def places(self, stamps: Stamps, ordinals: NDArray[Any]) -> NDArray[np.int64]:
        """Place of each chunk; -1 for those of documents that are in no block."""
        if not len(self.documents):
            return np.full(len(stamps), -1)
        at = np.minimum(np.searchsorted(self.documents, stamps), len(self.documents) - 1)
        return np.where(self.documents[at] == stamps, self.firsts[at] + ordinals, -1)


@dataclass(frozen=True, slots=True)
class EncodedState:
    """Encodings of a state, and their postings if there are any."""

    rows: EncodedRows
    postings: Postings | None = None


def add_postings(table: Any, rows: EncodedRows, stamps: Stamps, where: str) -> None:
    """Write postings of the documents with these stamps, a block of them at a time."""
    for start in range(0, len(stamps), _BLOCK):
        block = secrets.randbits(62)
        lance.retried(
            lambda b=block, s=start: table.add(_posted(rows, stamps[s : s + _BLOCK], b)),  # type: ignore[misc]
            where,
        )


def _posted(rows: EncodedRows, stamps: Stamps, block: int) -> Any:
    """The rows of a block: one for its chunks, and one for each term."""
    owners, ordinals, data = [], [], list[bytes]()
    for some_stamps, some_ordinals, some_data in rows.documents(stamps.tolist()):
        order = np.lexsort((some_ordinals, some_stamps))
        owners.append(some_stamps[order])
        ordinals.append(some_ordinals[order])
        data += [some_data[at] for at in order.tolist()]
    halves = [len(encoding) // 2 for encoding in data]
    terms = np.frombuffer(b"".join(d[:h] for d, h in zip(data, halves, strict=True)), np.uint32)
    weights = np.frombuffer(b"".join(d[h:] for d, h in zip(data, halves, strict=True)), np.float32)
    places = np.repeat(np.arange(len(data), dtype=np.int32), [half // 4 for half in halves])
    order = np.argsort(terms, kind="stable")
    distinct, starts = np.unique(terms[order], return_index=True)
    ends = np.append(starts[1:], len(terms))
    places, weights = places[order], weights[order]
    spans = [slice(*bounds) for bounds in zip(starts.tolist(), ends.tolist(), strict=True)]
    key = rows.sql.split("'")[1]
    columns: dict[str, list[Any]] = {
        "encoder": [key] * (1 + len(spans)),
        "block": [block] * (1 + len(spans)),
        "term": [-1, *distinct.tolist()],
        "places": [np.concatenate(owners).tobytes(), *(places[span].tobytes() for span in spans)],
        "weights": [
            np.concatenate(ordinals).tobytes(),
            *(weights[span].tobytes() for span in spans),
        ],
    }
    return lance.arrow_table(columns, lance.postings_schema())


class EncodedScoring(Scoring):
    """Scores of chunks by a channel with data of its own.

    Args:
        chunks: The chunks, at one version.
        data: Their encodings.
        channel: Scores encodings.
        query: The encoded query.
    """

    exact = True

    def __init__(
        self,
        chunks: Any,
        data: EncodedState,
        channel: EncodedChannel,
        query: bytes,
    ) -> None:
        self._chunks, self._rows, self._channel, self._query = chunks, data.rows, channel, query
        self._least = -np.inf if channel.least is None else channel.least
        self._postings = data.postings
        self._posted = None if data.postings is None else data.postings.scores(query)

    def every(self, where: str, soft: Sequence[str] = ()) -> Found:
        """All chunks under a condition that have a score."""
        return joined(list(self._batches(where, soft)))

    def _batches(self, where: str, soft: Sequence[str]) -> Iterator[Found]:
        names = ("id", "stamp", "ordinal")
        columns = {**{name: name for name in names}, **computed(soft)}
        for batch in lance.batches(self._chunks, columns, where):
            scores = self._scores_of(batch["stamp"].to_numpy(), batch["ordinal"].to_numpy())
            yield found_in(batch, scores, soft).above(self._least)

    def best(self, where: Where, k: int, soft: Sequence[str] = ()) -> Found:
        """The k best chunks under a condition, and those with the score of the last."""
        if self._posted is None or where.rows <= self.read:
            return self._best_of(where.sql, k, soft)
        size = max(_POOL, 2 * k)
        unposted = self._best_of_unposted(where, k, soft)
        while size < len(self._posted) // _GROWTH:
            places = highest(self._posted, size, ROUNDING, above=0.0)
            ranked = self._best_at(places, where, k, soft)
            rest = self._posted.copy()
            rest[places] = 0.0
            beyond = float(rest.max(initial=0.0)) + ROUNDING
            if beyond <= 2 * ROUNDING or (len(ranked.ids) >= k and ranked.scores.min() > beyond):
                return joined([ranked, unposted])
            size *= _GROWTH
        return self._best_of(where.sql, k, soft)

    def _best_at(
        self, places: NDArray[np.intp], where: Where, k: int, soft: Sequence[str]
    ) -> Found:
        """The best chunks of the documents at some places."""
        assert self._postings is not None
        stamps = np.unique(self._postings.stamps[places]).tolist()
        parts = [
            self._best_of(lance.both(where.sql, condition), k, soft)
            for condition in lance.one_of("stamp", stamps)
        ]
        return kept(joined(parts), k)

    def _best_of_unposted(self, where: Where, k: int, soft: Sequence[str]) -> Found:
        """The best chunks of the documents that are in no block."""
        stamps = self._rows.unposted(self._postings).tolist()
        parts = [
            self._best_of(lance.both(where.sql, condition), k, soft)
            for condition in lance.one_of("stamp", stamps)
        ]
        return joined(parts)

    def _best_of(self, where: str, k: int, soft: Sequence[str]) -> Found:
        best = joined([])
        for batch in self._batches(where, soft):
            best = kept(joined([best, batch]), k) if best.ids else kept(batch, k)
        return best if best.ids else joined([])

    def _scores_of(self, stamps: Stamps, ordinals: NDArray[Any]) -> Scores:
        """Scores of chunks by their document and their position in it."""
        scores = np.zeros(len(stamps))
        missing = np.ones(len(stamps), np.bool_)
        if self._postings is not None and self._posted is not None:
            places = self._postings.places(stamps, ordinals)
            missing = places < 0
            scores[~missing] = self._posted[places[~missing]]
        if not missing.any():
            return scores
        rows = np.flatnonzero(missing)
        keys = zip(stamps[rows].tolist(), ordinals[rows].tolist(), strict=True)
        at = dict(zip(keys, rows.tolist(), strict=True))
        wanted = np.unique(ordinals[rows]).tolist()
        for owners, positions, data in self._rows.documents(
            np.unique(stamps[rows]).tolist(), wanted
        ):
            keys = zip(owners.tolist(), positions.tolist(), strict=True)
            chosen = [(at[key], piece) for key, piece in zip(keys, data, strict=True) if key in at]
            if chosen:
                side = Arrays({}, self._channel.packed(piece for _, piece in chosen))
                scores[[row for row, _ in chosen]] = self._channel.scores(side, self._query)
        return scores


def kept(candidates: Found, k: int) -> Found:
    """The k best chunks, and those with the score of the last."""
    dropped = len(candidates.ids) - max(1, k)
    if dropped <= 0:
        return candidates
    least = np.partition(candidates.scores, dropped)[dropped]
    return candidates.above(float(least) - ROUNDING / 4)
