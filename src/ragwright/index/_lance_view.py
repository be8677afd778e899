"""The view over Lance tables: answers from their indexes, at one version.

It holds no vectors, tokens or texts: each search asks Lance for candidates and works out their
scores (``_lance_search``). Memory is bounded by the caches of the store's session.
"""

from __future__ import annotations

import heapq
import json
import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

import numpy as np

from ..core import Document, Filter, Hit, Relaxation, RetrieveError, SnapshotGoneError
from ..flow import SearchReply
from ..models import Analyzer
from . import _lance_tables as lance
from ._lance_search import Corpus, DenseScoring, KeywordScoring, Scoring, Tuning, climb
from ._lance_state import Conditions, Pinned, Where
from ._lance_tables import rows_of
from ._prepare import unpack_standing
from ._rank import Ladder
from ._store import (
    IndexSpec,
    LanceSizes,
    Matrix,
    StoreOptions,
    View,
    ViewStatistics,
    pages_from,
    read_metadata,
    show_metadata,
)
from ._view import check_query_vectors

_HEADS = ("name", "source", "title", "language", "created", "modified", "metadata")
_PIECE = ("id", "stamp", "text", "start", "end", "page", "pages", "headings", "metadata")

T = TypeVar("T")
P = ParamSpec("P")


@dataclass(frozen=True, slots=True)
class VectorIndex:
    """The vector index of an index spec, as maintenance measured it.

    Attributes:
        depths: For growing numbers of candidates: the number, lists and refinement (0 where the
            target was not reached), and the recall measured with them.
        lists: Number of its lists, 0 if none was built for these settings.
        target: Recall it was tuned to.
        queries: Passages it was measured with.
    """

    depths: Sequence[tuple[int, int, int, float]] = ()
    lists: int = 0
    target: float = 0.0
    queries: int = 0

    def tuning(self, k: int, share: float) -> Tuning:
        """The search settings for k candidates under filters that leave a share of the chunks.

        The k nearest of them are about the k / share nearest of all. The same share of the chunks
        is refined as when recall was measured; under filters more lists are visited.
        """
        if not self.lists:
            text = "no vector index was built for these settings yet: exact search answered"
            return Tuning(0, 0, text)
        fitting = [depth for depth in self.depths if k <= depth[0] * share]
        if not fitting:
            most = self.depths[-1][0] if self.depths else 0
            fewer = f", with these filters {int(most * share)}" if share < 1 else ""
            text = f"approximate search is measured for up to {most} candidates{fewer}"
            return Tuning(0, 0, f"{text}: exact search answered")
        most, probes, refine, recall = fitting[0]
        if not probes:
            text = f"approximate search reached a recall@{most} of {int(recall * 1000) / 1000:.3f}"
            return Tuning(0, 0, f"{text}, short of {self.target:g}: exact search answered")
        return Tuning(
            min(self.lists, math.ceil(probes / share)),
            math.ceil(refine * most * share / max(1, k)),
            f"approximate: measured recall@{most} {recall:.3f} on {self.queries} sampled passages",
        )


@dataclass(frozen=True, slots=True)
class _OpenState:
    """A pinned state with what searches need to know of it."""

    pinned: Pinned
    conditions: Conditions
    corpus: Corpus
    near: VectorIndex | None


def use_open_state(
    method: Callable[Concatenate[LanceView, _OpenState, P], T],
) -> Callable[Concatenate[LanceView, P], T]:
    """Call a method of a view with its state, which is opened again if its files were replaced.

    Raises:
        SnapshotGoneError: The snapshot was replaced and its files were deleted.
    """

    @wraps(method)
    def call(view: LanceView, /, *arguments: P.args, **named: P.kwargs) -> T:
        try:
            with lance.type_lance_errors(view.where, pinned=True):
                return method(view, view.open_state(), *arguments, **named)
        except SnapshotGoneError:
            with lance.type_lance_errors(view.where, pinned=True):
                return method(view, view.open_state(again=True), *arguments, **named)

    return call


class LanceView(View):
    """A handle on one state; safe to use from several threads.

    Args:
        snapshot: Name of the state, empty for the present one.
        index_spec: The index spec.
        pinned: Opens the tables of a name (empty: the present state), and gives its name and what
            maintenance measured of their indexes.
        analyzer: Cuts queries as the chunks were cut.
        options: k1, b and whether search is approximate.
        sizes: Numbers of chunks from which searches work differently.
        where: The store, for errors.
    """

    def __init__(
        self,
        snapshot: str,
        index_spec: IndexSpec,
        pinned: Callable[[str], tuple[str, Pinned, Mapping[str, Any]]],
        analyzer: Analyzer,
        options: StoreOptions,
        sizes: LanceSizes,
        where: str,
    ) -> None:
        self.snapshot = snapshot
        self.where = where
        self.index_spec = index_spec
        self._pinned = pinned
        self._analyzer = analyzer
        self._options = options
        self._sizes = sizes
        self._closed = False
        self.open_state(again=True)

    def open_state(self, *, again: bool = False) -> _OpenState:
        """The state, opened ``again`` if its files were replaced."""
        if self._closed:
            raise RetrieveError("the view is closed", where=self.snapshot)
        if again:
            self.snapshot, pinned, facts = self._pinned(self.snapshot)
            self._state = self._state_of(pinned, facts)
        return self._state

    def _state_of(self, pinned: Pinned, facts: Mapping[str, Any]) -> _OpenState:
        totals, options = pinned.totals, self._options
        words = "none" if "words" not in pinned.indexes else "stale"
        word_facts = facts.get("words", {})
        if (
            words == "stale"
            and not pinned.live
            and pinned.indexes["words"] == (word_facts.get("uuid"), 0)
            and (word_facts["rows"], word_facts["length"]) == (totals.chunks, totals.length)
        ):
            words = "whole"
        approximate = options.approximate and totals.chunks >= options.approximate_rows
        near = None
        if approximate and self.index_spec.dimensions:
            vector = facts.get("vector", {})
            fits = vector.get("uuid") == pinned.indexes.get("vector", ("", 0))[0]
            near = VectorIndex()
            if fits and vector.get("target") == options.recall:
                lists, target, queries = (vector[name] for name in ("lists", "target", "queries"))
                near = VectorIndex(vector["measured"], lists, target, queries)
        average = totals.length / totals.chunks if totals.chunks else 0.0
        corpus = Corpus(totals.chunks, average, options.k1, options.b, words, approximate)
        conditions = Conditions(pinned.chunks, pinned.values, pinned.live, totals.chunks)
        return _OpenState(pinned, conditions, corpus, near)

    @use_open_state
    def keyword_reply(
        self, state: _OpenState, text: str, k: int, filters: Sequence[Filter] = ()
    ) -> SearchReply:
        """The result of :meth:`keyword`, and the tokens that were looked for."""
        where = state.conditions.hard(filters)
        scoring = self._keyword_scoring(state, text, where)
        if scoring is None:
            return SearchReply(())
        candidates = scoring.best(where, k).best(k) if k > 0 and where.rows else ()
        return SearchReply(candidates, terms=scoring.terms, notes=scoring.notes)

    def _keyword_scoring(self, state: _OpenState, text: str, where: Where) -> KeywordScoring | None:
        """Scores of a text; None for a text without words, or an empty store."""
        counts = Counter(self._analyzer.tokens(text))
        if not counts or not state.corpus.rows:
            return None
        return KeywordScoring(state.pinned.chunks, state.conditions, counts, state.corpus, where)

    @use_open_state
    def dense(
        self, state: _OpenState, vectors: Matrix, k: int, filters: Sequence[Filter] = ()
    ) -> tuple[tuple[tuple[str, float], ...], ...]:
        """For each query vector up to k (chunk id, similarity), best first, ties by id."""
        queries = check_query_vectors(vectors, self.index_spec, self.snapshot)
        where = state.conditions.hard(filters)
        if k < 1 or not where.rows:
            return tuple(() for _ in queries)
        return tuple(
            _dense_scoring(state, query, k, where, self._sizes.exact).best(where, k).best(k)
            for query in queries
        )

    @use_open_state
    def approximation(self, state: _OpenState, k: int, filters: Sequence[Filter] = ()) -> str:
        """The note on :meth:`dense` with these arguments; empty if it is exact."""
        rows = state.conditions.hard(filters).rows
        if state.near is None or rows <= self._sizes.exact:
            return ""
        return state.near.tuning(k, rows / state.corpus.rows).note

    @use_open_state
    def relaxed(
        self,
        state: _OpenState,
        query: str | Matrix,
        k: int,
        relax: Relaxation,
        filters: Sequence[Filter] = (),
    ) -> SearchReply:
        """Up to k chunks by weight of the soft filters they meet, then score, then id."""
        ladder = Ladder.of(relax)
        conditions = state.conditions
        where = conditions.hard(filters)
        scoring: Scoring | None
        if isinstance(query, str):
            scoring = self._keyword_scoring(state, query, where)
        else:
            [vector] = check_query_vectors(query, self.index_spec, self.snapshot)
            scoring = _dense_scoring(state, vector, k, where, self._sizes.exact)
        if not state.corpus.rows:
            return SearchReply(())
        for condition in ladder.conditions:
            conditions.within(where, condition, filters)
        if scoring is None:
            return SearchReply(())
        reply = SearchReply(())
        if where.rows:
            scoring.read = self._sizes.read
            soft = list(map(conditions.sql, ladder.conditions))
            reply = climb(conditions, where, soft, ladder, scoring, k, relax)
        return replace(reply, terms=scoring.terms, notes=scoring.notes)

    @use_open_state
    def every(
        self, state: _OpenState, k: int, filters: Sequence[Filter] = (), after: str = ""
    ) -> tuple[str, ...]:
        """Up to k chunk ids: documents by id, the chunks of each in text order."""
        sql = state.conditions.hard(filters).sql
        start = ("", -1)
        if after:
            row = self._ordered_rows(state, [after], ["document", "ordinal"])[0]
            start = (row["document"], row["ordinal"])
            stored = row["document"].replace("'", "''")
            sql = lance.both(sql, f"document >= '{stored}'")
        first: list[tuple[str, int, str]] = []
        columns = ["document", "ordinal", "id"]
        for batch in lance.batches(state.pinned.chunks, columns, sql):
            rows = zip(*(batch[name].to_pylist() for name in columns), strict=True)
            first = heapq.nsmallest(k, [*first, *(row for row in rows if row[:2] > start)])
        return tuple(lance.unescape_surrogates(name) for _, _, name in first)

    @use_open_state
    def count(self, state: _OpenState, filters: Sequence[Filter] = ()) -> int:
        """Number of chunks that meet hard filters."""
        return state.conditions.hard(filters).rows

    @use_open_state
    def vectors(self, state: _OpenState, chunk_ids: Sequence[str]) -> Matrix | None:
        """Vectors of these chunks, shape (chunks, dimensions); None for an index spec without."""
        rows = self._ordered_rows(
            state, chunk_ids, ["vector"] if self.index_spec.dimensions else []
        )
        if not self.index_spec.dimensions:
            return None
        return np.array([row["vector"] for row in rows], np.float32).reshape(
            -1, self.index_spec.dimensions
        )

    @use_open_state
    def lookup(self, state: _OpenState, chunk_ids: Sequence[str]) -> tuple[Hit, ...]:
        """The chunks with these ids as hits (rank and score 0), in this order."""
        return self._hits_of(state, chunk_ids)

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
        """Rows of these chunks, in this order."""
        by_id: dict[str, dict[str, Any]] = {}
        for condition in lance.one_of("id", dict.fromkeys(chunk_ids)):
            sql = lance.both(state.pinned.live, condition)
            rows = rows_of(state.pinned.chunks, list(dict.fromkeys(("id", *columns))), sql)
            by_id |= {row["id"]: row for row in rows}
        for chunk_id in chunk_ids:
            if lance.escape_surrogates(chunk_id) not in by_id:
                raise RetrieveError(
                    f"no chunk has the id {chunk_id!r}",
                    where=f"snapshot {self.snapshot}",
                    hint="search and look up in one snapshot",
                )
        return [by_id[lance.escape_surrogates(chunk_id)] for chunk_id in chunk_ids]

    @use_open_state
    def fields(self, state: _OpenState) -> Mapping[str, int]:
        """The metadata fields of the chunks, with the number of chunks that have each."""
        conditions = state.conditions
        live = conditions.live
        counts = {name: conditions.held_count(name, live.sql) for name in conditions.names}
        return {name: count for name, count in counts.items() if count and live.rows}

    @use_open_state
    def statistics(self, state: _OpenState) -> ViewStatistics:
        """Size of the view; ``bytes`` is what its caches hold at most."""
        totals = state.pinned.totals
        held = lance.CACHE_BYTES
        return ViewStatistics(
            totals.chunks, totals.documents, totals.length, held, self.approximation(100)
        )

    def close(self) -> None:
        """Release the tables; searching afterwards is a RetrieveError."""
        self._closed = True
        del self._state


def _dense_scoring(state: _OpenState, query: Any, k: int, where: Where, exact: int) -> DenseScoring:
    """Scores of a vector, by the vector index where it was measured for such a search."""

    def tuning(where: Where, k: int) -> Tuning | None:
        if state.near is None or where.rows <= exact:
            return None
        found = state.near.tuning(k, where.rows / state.corpus.rows)
        return found if found.probes else None

    return DenseScoring(state.pinned.chunks, query, tuning if tuning(where, k) else None)


def _hit_of(row: Mapping[str, Any], head: Mapping[str, Any]) -> Hit:
    """The chunk of a row, with rank and score 0."""
    texts = {name: lance.unescape_surrogates(head[name]) for name in _HEADS}
    headings, own_head = unpack_standing(row["headings"])
    document = Document(
        texts["name"],
        texts["source"],
        "",
        texts["title"],
        language=texts["language"],
        created=texts["created"],
        modified=texts["modified"],
        metadata=read_metadata(json.loads(texts["metadata"])),
    )
    return Hit(
        rank=0,
        score=0.0,
        document_id=document.id,
        chunk_id=lance.unescape_surrogates(row["id"]),
        source=document.source,
        title=document.title,
        page=row["page"] or None,
        start=row["start"],
        end=row["end"],
        text=lance.unescape_surrogates(row["text"]),
        headings=headings,
        metadata=show_metadata(document) | read_metadata(json.loads(row["metadata"])),
        pages=pages_from(row["pages"]),
        head=own_head,
    )
