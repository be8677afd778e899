"""A view that was never built: it answers by going through the stored rows, each time anew."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np

from ..core import Filter, Hit, RagwrightError, Relaxation, RetrieveError
from ..flow import Search, SearchReply
from ._scan import blocks, meets, scan
from ._store import IndexSpec, Matrix, View, ViewStatistics
from ._stored import StoredDocument, StoredState, fields_of, hit_of
from ._tokens import unpack_terms


class ScanView(View):
    """Answers as the read view of the same state does, slowly and from the rows alone.

    Memory does not grow with the corpus: what is held are candidates, and the documents of
    the chunks that were looked up last.

    Args:
        pair: The pair.
        reading: Its stored rows; the view lives as long as they may be read.
    """

    def __init__(self, pair: IndexSpec, reading: StoredState) -> None:
        self.snapshot = reading.snapshot
        self.pair = pair
        self._reading = reading
        self._held: dict[str, tuple[StoredDocument, int]] = {}

    def keyword(
        self, text: str, k: int, filters: Sequence[Filter] = ()
    ) -> tuple[tuple[str, float], ...]:
        """Up to k (chunk id, BM25 score), score above 0, best first, ties by id."""
        return self.keyword_reply(text, k, filters).candidates

    def keyword_reply(self, text: str, k: int, filters: Sequence[Filter] = ()) -> SearchReply:
        """What :meth:`keyword` finds, and the tokens that were looked for."""
        return self._one(Search(self.snapshot, "keyword", k, text, filters=tuple(filters)))

    def dense(
        self, vectors: Matrix, k: int, filters: Sequence[Filter] = ()
    ) -> tuple[tuple[tuple[str, float], ...], ...]:
        """For each query vector up to k (chunk id, similarity); all of them in one pass."""
        rows = np.ascontiguousarray(np.atleast_2d(vectors), np.float32)
        replies = scan(
            self._reading,
            [
                Search(self.snapshot, "dense", k, vector=row.tobytes(), filters=tuple(filters))
                for row in rows
            ],
        )
        return tuple(_sound(reply).candidates for reply in replies)

    def relaxed(
        self, query: str | Matrix, k: int, relax: Relaxation, filters: Sequence[Filter] = ()
    ) -> SearchReply:
        """Up to k chunks by weight of the soft filters they meet, then score, then id."""
        if isinstance(query, str):
            request = Search(self.snapshot, "keyword", k, query, b"", tuple(filters), relax)
        else:
            vector = np.ascontiguousarray(query, np.float32).tobytes()
            request = Search(self.snapshot, "dense", k, "", vector, tuple(filters), relax)
        return self._one(request)

    def every(self, k: int, filters: Sequence[Filter] = (), after: str = "") -> tuple[str, ...]:
        """Up to k chunk ids: documents by id, the chunks of each in text order."""
        request = Search(self.snapshot, "all", k, filters=tuple(filters), after=after)
        return tuple(name for name, _ in self._one(request).candidates)

    def _one(self, request: Search) -> SearchReply:
        return _sound(scan(self._reading, [request])[0])

    def allowed(self, chunk_ids: Sequence[str], filters: Sequence[Filter]) -> tuple[bool, ...]:
        """Which of these chunks meet all hard filters, in this order."""
        places = self._places(chunk_ids)
        fields = [fields_of(places[n][0], places[n][0].chunks[places[n][1]]) for n in chunk_ids]
        return tuple(all(meets(one, condition) for condition in filters) for one in fields)

    def around(self, chunk_id: str, reach: int) -> tuple[Hit, ...]:
        """A chunk with up to ``reach`` chunks before and after it, as hits in text order."""
        document, number = self._places([chunk_id])[chunk_id]
        chunks = document.chunks[max(0, number - reach) : number + reach + 1]
        return tuple(hit_of(document, chunk) for chunk in chunks)

    def vectors(self, chunk_ids: Sequence[str]) -> Matrix | None:
        """Vectors of these chunks, shape (chunks, dimensions); None for a pair without."""
        places = self._places(chunk_ids)
        if not self.pair.dimensions:
            return None
        rows = [places[name][0].chunks[places[name][1]].vector for name in chunk_ids]
        found = [row for row in rows if row is not None]
        return np.stack(found) if found else np.empty((0, self.pair.dimensions), np.float32)

    def lookup(self, chunk_ids: Sequence[str]) -> tuple[Hit, ...]:
        """The chunks with these ids as hits (rank and score 0), in this order."""
        places = self._places(chunk_ids)
        found = [places[name] for name in chunk_ids]
        return tuple(hit_of(document, document.chunks[number]) for document, number in found)

    def _places(self, chunk_ids: Sequence[str]) -> Mapping[str, tuple[StoredDocument, int]]:
        """Document and number of each chunk."""
        wanted = set(chunk_ids)
        if wanted <= self._held.keys():
            return self._held
        self._held = {}
        for document in self._reading.documents():
            if wanted.isdisjoint(chunk.id for chunk in document.chunks):
                continue
            # With all its chunks: neighbours of what was looked up are asked for next.
            self._held |= {chunk.id: (document, n) for n, chunk in enumerate(document.chunks)}
            if wanted <= self._held.keys():
                break
        for name in chunk_ids:
            if name not in self._held:
                raise RetrieveError(
                    f"no chunk has the id {name!r}",
                    where=f"snapshot {self.snapshot}",
                    hint="search and look up in one snapshot",
                )
        return self._held

    def fields(self) -> Mapping[str, int]:
        """Metadata fields of the chunks and how many chunks carry each."""
        counts: Counter[str] = Counter()
        for rows in blocks(self._reading.documents()):
            for document, _, chunk in rows:
                counts.update(fields_of(document, chunk).keys())
        return dict(sorted(counts.items()))

    def statistics(self) -> ViewStatistics:
        """Size of what is stored; a scan keeps nothing in memory."""
        chunks = documents = tokens = 0
        for document in self._reading.documents():
            documents += 1
            chunks += len(document.chunks)
            tokens += sum(int(unpack_terms(chunk.terms)[1].sum()) for chunk in document.chunks)
        return ViewStatistics(chunks, documents, tokens, 0)


def _sound(reply: SearchReply | RagwrightError) -> SearchReply:
    if isinstance(reply, RagwrightError):
        raise reply
    return reply
