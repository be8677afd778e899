"""The view over Lance tables: answers from their indexes, at one version.

It holds no vectors, tokens or texts: each search asks Lance for candidates and works out their
scores (``_lance_search``). Memory is bounded by the caches of the store's session.
"""

from __future__ import annotations

import heapq
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np

from ..core import Filter, Hit, Relaxation, RetrieveError, SnapshotGoneError
from ..flow import SearchReply
from ..models import TokenSource
from . import _lance_tables as lance
from ._heads import unpack_standing
from ._lance_relaxed import climb
from ._lance_rows import rows_of
from ._lance_search import Corpus, DenseScoring, KeywordScoring, Scoring, Tuning, tokens_of
from ._lance_state import Pinned
from ._lance_where import Conditions, Where
from ._options import LanceSizes, StoreOptions
from ._rank import Ladder
from ._store import IndexSpec, Matrix, View, ViewStatistics, as_metadata, pages_from, shown_parts
from ._view import checked_queries, checked_query

_HEADS = ("name", "source", "title", "language", "created", "modified", "metadata")
_PIECE = ("id", "stamp", "text", "start", "end", "page", "pages", "headings", "metadata")

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Measured:
    """Depths of the vector index for up to k candidates, and the recall measured with them."""

    k: int
    probes: int
    refine: int
    recall: float


@dataclass(frozen=True, slots=True)
class Near:
    """The vector index of a pair, as maintenance measured it.

    Attributes:
        measured: For growing k; ``probes`` 0 where the target was not reached.
        lists: Number of its lists.
        target: Recall it was tuned to.
        queries: Passages it was measured with.
    """

    measured: tuple[Measured, ...]
    lists: int
    target: float
    queries: int

    def fitting(self, k: int, share: float) -> Measured | None:
        """The measurement for k candidates under filters that leave a share of the chunks.

        The k nearest of them are about the k / share nearest of all. None if that is too large.
        """
        return next((entry for entry in self.measured if k <= entry.k * share), None)

    def tuning(self, k: int, share: float) -> Tuning | None:
        """The search settings for k candidates; None for exact search.

        The same share of the chunks is refined as when recall was measured. Under filters more
        lists are visited.
        """
        measurement = self.fitting(k, share)
        if measurement is None or not measurement.probes:
            return None
        probes = min(self.lists, math.ceil(measurement.probes / share))
        refine = math.ceil(measurement.refine * measurement.k * share / k)
        return Tuning(probes, refine, self.stated(k, share))

    def stated(self, k: int, share: float) -> str:
        """A note for the user on a search for them."""
        measurement = self.fitting(k, share)
        if measurement is None:
            most = self.measured[-1].k if self.measured else 0
            fewer = f", with these filters {int(most * share)}" if share < 1 else ""
            return (
                f"approximate search is measured for up to {most} candidates{fewer}: "
                "exact search answered"
            )
        if not measurement.probes:
            return (
                f"approximate search reached a recall@{measurement.k} of "
                f"{math.floor(measurement.recall * 1000) / 1000:.3f}, short of {self.target:g}: "
                "exact search answered"
            )
        return (
            f"approximate: measured recall@{measurement.k} {measurement.recall:.3f} "
            f"on {self.queries} sampled passages"
        )


@dataclass(frozen=True, slots=True)
class _OpenState:
    """A pinned state with what searches need to know of it."""

    pinned: Pinned
    conditions: Conditions
    corpus: Corpus
    near: Near | None


@dataclass(frozen=True, slots=True)
class Answering:
    """Settings of a view: k1, b and whether search is approximate; sizes; the store, for errors."""

    options: StoreOptions
    sizes: LanceSizes
    where: str


class LanceView(View):
    """A handle on one state; safe to use from several threads.

    Args:
        snapshot: Name of the state.
        pair: The pair.
        reopen: Opens the state's tables, with what maintenance measured of their indexes.
        analyzer: Cuts queries as the chunks were cut.
        how: Settings.
    """

    def __init__(
        self,
        snapshot: str,
        pair: IndexSpec,
        reopen: Callable[[], tuple[Pinned, Mapping[str, Any]]],
        analyzer: TokenSource,
        settings: Answering,
    ) -> None:
        self.snapshot = snapshot
        self.pair = pair
        self._reopen = reopen
        self._analyzer = analyzer
        self._options = settings.options
        self._sizes = settings.sizes
        self._where = settings.where
        self._state: _OpenState | None = self._open_state()
        self._closed = False

    def _open_state(self) -> _OpenState:
        pinned, facts = self._reopen()
        totals = pinned.totals
        words = "none" if "words" not in pinned.indexes else "stale"
        word_facts = facts.get("words", {})
        if (
            words == "stale"
            and not pinned.live
            and pinned.indexes["words"] == (word_facts.get("uuid"), 0)
            and (word_facts["rows"], word_facts["length"]) == (totals.chunks, totals.length)
        ):
            words = "whole"
        near = self._near_index(pinned, facts.get("vector", {}))
        approximate = self._options.approximate and totals.chunks >= self._options.approximate_rows
        corpus = Corpus(
            totals.chunks,
            totals.length / totals.chunks if totals.chunks else 0.0,
            self._options.k1,
            self._options.b,
            words,
            approximate,
        )
        conditions = Conditions(pinned.chunks, pinned.values, pinned.live, totals.chunks)
        return _OpenState(pinned, conditions, corpus, near)

    def _near_index(self, pinned: Pinned, vector_facts: Mapping[str, Any]) -> Near | None:
        options = self._options
        if not options.approximate or pinned.totals.chunks < options.approximate_rows:
            return None
        if not self.pair.dimensions:
            return None
        fits = vector_facts.get("uuid") == pinned.indexes.get("vector", ("", 0))[0]
        if not fits or vector_facts.get("target") != options.recall:
            return Near((Measured(10**9, 0, 0, 0.0),), 0, options.recall, 0)
        measured = tuple(Measured(*values) for values in vector_facts["measured"])
        return Near(
            measured, vector_facts["lists"], vector_facts["target"], vector_facts["queries"]
        )

    def _answer_on(self, work: Callable[[_OpenState], T]) -> T:
        """The result of some work on the state, which is opened again if its files were replaced.

        Raises:
            SnapshotGoneError: The snapshot was replaced and its files were deleted.
        """
        if self._closed:
            raise RetrieveError("the view is closed", where=self.snapshot)
        state = self._state or self._open_state()
        try:
            with lance.explained(self._where, pinned=True):
                return work(state)
        except SnapshotGoneError:
            self._state = None
            with lance.explained(self._where, pinned=True):
                self._state = self._open_state()
                return work(self._state)

    def keyword_reply(self, text: str, k: int, filters: Sequence[Filter] = ()) -> SearchReply:
        """The result of :meth:`keyword`, and the tokens that were looked for."""

        def work(state: _OpenState) -> SearchReply:
            where = state.conditions.hard(filters)
            scoring = self._keyword_scoring(state, text, where)
            if scoring is None:
                return SearchReply(())
            candidates = scoring.best(where, k).best(k) if k > 0 and where.rows else ()
            notes = (scoring.note,) if scoring.note else ()
            return SearchReply(candidates, terms=scoring.terms, notes=notes)

        return self._answer_on(work)

    def _keyword_scoring(self, state: _OpenState, text: str, where: Where) -> KeywordScoring | None:
        """Scores of a text; None for a text without words, or an empty store."""
        counts = tokens_of(self._analyzer.query_tokens(text))
        if not counts or not state.corpus.rows:
            return None
        return KeywordScoring(state.pinned.chunks, state.conditions, counts, state.corpus, where)

    def dense(
        self, vectors: Matrix, k: int, filters: Sequence[Filter] = ()
    ) -> tuple[tuple[tuple[str, float], ...], ...]:
        """For each query vector up to k (chunk id, similarity), best first, ties by id."""

        def work(state: _OpenState) -> tuple[tuple[tuple[str, float], ...], ...]:
            queries = checked_queries(vectors, self.pair, self.snapshot)
            where = state.conditions.hard(filters)
            exact = self._sizes.exact
            if k < 1 or not where.rows:
                return tuple(() for _ in queries)
            return tuple(
                _dense_scoring(state, query, k, where, exact).best(where, k).best(k)
                for query in queries
            )

        return self._answer_on(work)

    def approximation(self, k: int, filters: Sequence[Filter] = ()) -> str:
        """The note on :meth:`dense` with these arguments; empty if it is exact."""

        def work(state: _OpenState) -> str:
            rows = state.conditions.hard(filters).rows
            if state.near is None or rows <= self._sizes.exact:
                return ""
            if not state.near.lists:
                return "no vector index was built for these settings yet: exact search answered"
            return state.near.stated(k, rows / state.corpus.rows)

        return self._answer_on(work)

    def relaxed(
        self, query: str | Matrix, k: int, relax: Relaxation, filters: Sequence[Filter] = ()
    ) -> SearchReply:
        """Up to k chunks by weight of the soft filters they meet, then score, then id."""

        def work(state: _OpenState) -> SearchReply:
            ladder = Ladder.of(relax)
            where = state.conditions.hard(filters)
            scoring = self._scoring_for(state, query, k, where)
            reply = self._climbed(state, ladder, where, scoring, (k, relax, filters))
            if scoring is None:
                return reply
            terms = scoring.terms if isinstance(scoring, KeywordScoring) else ()
            notes = (scoring.note,) if scoring.note else ()
            return replace(reply, terms=terms, notes=notes)

        return self._answer_on(work)

    def _climbed(
        self,
        state: _OpenState,
        ladder: Ladder,
        where: Where,
        scoring: Scoring | None,
        parameters: tuple[int, Relaxation, Sequence[Filter]],
    ) -> SearchReply:
        """Up to k chunks by weight of the soft filters.

        Args:
            state: The opened snapshot.
            ladder: The conditions of the soft filters.
            where: The hard filters as SQL.
            scoring: None where nothing can match.
            parameters: k, soft filters, hard filters.
        """
        k, relax, filters = parameters
        if not state.corpus.rows:
            return SearchReply(())
        soft = []
        for condition in ladder.conditions:
            state.conditions.within(where, condition, filters)
            soft.append(state.conditions.sql(condition))
        if scoring is None or not where.rows:
            return SearchReply(())
        scoring.read = self._sizes.read
        return climb(state.conditions, where, soft, ladder, scoring, k, relax)

    def _scoring_for(
        self, state: _OpenState, query: str | Matrix, k: int, where: Where
    ) -> Scoring | None:
        if isinstance(query, str):
            return self._keyword_scoring(state, query, where)
        vector = checked_query(query, self.pair, self.snapshot)
        return _dense_scoring(state, vector, k, where, self._sizes.exact)

    def every(self, k: int, filters: Sequence[Filter] = (), after: str = "") -> tuple[str, ...]:
        """Up to k chunk ids: documents by id, the chunks of each in text order."""

        def work(state: _OpenState) -> tuple[str, ...]:
            where = state.conditions.hard(filters)
            start = ("", -1)
            sql = where.sql
            if after:
                row = self._ordered_rows(state, [after], ["document", "ordinal"])[0]
                start = (row["document"], row["ordinal"])
                sql = lance.both(sql, f"document >= {_text_literal(start[0])}")
            first: list[tuple[str, int, str]] = []
            columns = ["document", "ordinal", "id"]
            for batch in lance.batches(state.pinned.chunks, columns, sql):
                rows = zip(*(batch[name].to_pylist() for name in columns), strict=True)
                first = heapq.nsmallest(k, [*first, *(row for row in rows if row[:2] > start)])
            return tuple(lance.from_string(name) for _, _, name in first)

        return self._answer_on(work)

    def count(self, filters: Sequence[Filter] = ()) -> int:
        """Number of chunks that meet hard filters."""
        return self._answer_on(lambda state: state.conditions.hard(filters).rows)

    def allowed(self, chunk_ids: Sequence[str], filters: Sequence[Filter]) -> tuple[bool, ...]:
        """One flag per chunk: True if it meets all hard filters."""

        def work(state: _OpenState) -> tuple[bool, ...]:
            where = state.conditions.hard(filters)
            self._ordered_rows(state, chunk_ids, [])
            met = self._rows_by_id(state, chunk_ids, ["id"], where.sql)
            return tuple(lance.as_string(chunk_id) in met for chunk_id in chunk_ids)

        return self._answer_on(work)

    def around(self, chunk_id: str, reach: int) -> tuple[Hit, ...]:
        """A chunk with up to ``reach`` chunks before and after it, as hits in text order."""

        def work(state: _OpenState) -> tuple[Hit, ...]:
            stamp = self._ordered_rows(state, [chunk_id], ["stamp"])[0]["stamp"]
            rows = rows_of(state.pinned.chunks, ["id", "ordinal"], f"stamp = {stamp}")
            names = [row["id"] for row in sorted(rows, key=lambda row: int(row["ordinal"]))]
            at = names.index(lance.as_string(chunk_id))
            near = names[max(0, at - reach) : at + reach + 1]
            return self._hits_of(state, list(map(lance.from_string, near)))

        return self._answer_on(work)

    def vectors(self, chunk_ids: Sequence[str]) -> Matrix | None:
        """Vectors of these chunks, shape (chunks, dimensions); None for a pair without."""

        def work(state: _OpenState) -> Matrix | None:
            columns = ["vector"] if self.pair.dimensions else []
            rows = self._ordered_rows(state, chunk_ids, columns)
            if not self.pair.dimensions:
                return None
            if not rows:
                return np.empty((0, self.pair.dimensions), np.float32)
            return np.stack([row["vector"] for row in rows])

        return self._answer_on(work)

    def lookup(self, chunk_ids: Sequence[str]) -> tuple[Hit, ...]:
        """The chunks with these ids as hits (rank and score 0), in this order."""
        return self._answer_on(lambda state: self._hits_of(state, chunk_ids))

    def _hits_of(self, state: _OpenState, chunk_ids: Sequence[str]) -> tuple[Hit, ...]:
        rows = self._ordered_rows(state, chunk_ids, _PIECE)
        stamps = dict.fromkeys(row["stamp"] for row in rows)
        heads: dict[int, dict[str, Any]] = {}
        for condition in lance.one_of("stamp", stamps):
            documents = rows_of(state.pinned.documents, ["stamp", *_HEADS], condition)
            heads |= {row["stamp"]: row for row in documents}
        return tuple(_hit_of(row, heads[row["stamp"]]) for row in rows)

    def _ordered_rows(
        self, state: _OpenState, chunk_ids: Sequence[str], columns: Sequence[str]
    ) -> list[dict[str, Any]]:
        """Rows of these chunks, in this order.

        Raises:
            RetrieveError: An id is not in the snapshot.
        """
        by_id = self._rows_by_id(state, chunk_ids, ["id", *(c for c in columns if c != "id")], "")
        for chunk_id in chunk_ids:
            if lance.as_string(chunk_id) not in by_id:
                raise RetrieveError(
                    f"no chunk has the id {chunk_id!r}",
                    where=f"snapshot {self.snapshot}",
                    hint="search and look up in one snapshot",
                )
        return [by_id[lance.as_string(chunk_id)] for chunk_id in chunk_ids]

    def _rows_by_id(
        self, state: _OpenState, chunk_ids: Sequence[str], columns: Sequence[str], where: str
    ) -> dict[str, dict[str, Any]]:
        by_id: dict[str, dict[str, Any]] = {}
        for condition in lance.one_of("id", dict.fromkeys(chunk_ids)):
            sql = lance.both(where or state.pinned.live, condition)
            by_id |= {row["id"]: row for row in rows_of(state.pinned.chunks, columns, sql)}
        return by_id

    def fields(self) -> Mapping[str, int]:
        """The metadata fields of the chunks, with the number of chunks that have each."""

        def work(state: _OpenState) -> Mapping[str, int]:
            conditions = state.conditions
            counts = {
                name: conditions.count(lance.both(conditions.live.sql, conditions.having(name)))
                for name in conditions.names()
            }
            return {name: count for name, count in sorted(counts.items()) if count}

        return self._answer_on(work) if self._answer_on(lambda state: state.corpus.rows) else {}

    def has_field(self, name: str) -> bool:
        """True if a chunk has a metadata field; counts no other field."""

        def work(state: _OpenState) -> bool:
            conditions = state.conditions
            if not state.corpus.rows or name not in conditions.names():
                return False
            return conditions.count(lance.both(conditions.live.sql, conditions.having(name))) > 0

        return self._answer_on(work)

    def statistics(self) -> ViewStatistics:
        """Size of the view; ``bytes`` is what its caches hold at most."""
        totals = self._answer_on(lambda state: state.pinned.totals)
        return ViewStatistics(
            totals.chunks,
            totals.documents,
            totals.length,
            self._options.cache_mb * 2**20,
            self.approximation(100),
        )

    def close(self) -> None:
        """Release the tables; searching afterwards is a RetrieveError."""
        self._state, self._closed = None, True


def _dense_scoring(state: _OpenState, query: Any, k: int, where: Where, exact: int) -> DenseScoring:
    """Scores of a vector, by the vector index where it was measured for such a search."""
    near = state.near

    def tuning(where: Where, k: int) -> Tuning | None:
        if near is None or where.rows <= exact:
            return None
        return near.tuning(k, where.rows / state.corpus.rows)

    return DenseScoring(state.pinned.chunks, query, tuning if tuning(where, k) else None)


def _text_literal(stored: str) -> str:
    """A stored text as SQL."""
    return "'" + stored.replace("'", "''") + "'"


def _hit_of(row: Mapping[str, Any], head: Mapping[str, Any]) -> Hit:
    """The chunk of a row, with rank and score 0."""
    texts = {name: lance.from_string(head[name]) for name in _HEADS}
    headings, own_head = unpack_standing(row["headings"])
    metadata = shown_parts(as_metadata(json.loads(texts["metadata"])), texts)
    return Hit(
        rank=0,
        score=0.0,
        document_id=texts["name"],
        chunk_id=lance.from_string(row["id"]),
        source=texts["source"],
        title=texts["title"],
        page=row["page"] or None,
        start=row["start"],
        end=row["end"],
        text=lance.from_string(row["text"]),
        headings=headings,
        metadata=metadata | as_metadata(json.loads(row["metadata"])),
        pages=pages_from(row["pages"]),
        head=own_head,
    )
