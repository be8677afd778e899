"""Kept states of a Lance store: listed, compared, restored, and pruned.

A kept state is a list of the stamps of its documents. Documents that are about to be replaced or
removed while a kept state holds them are copied, with their chunks, to two tables of retired rows;
stamps are never used twice, so a retired row is the same document wherever it is found. The rows
of the state among the facts are written last, and restoring is one commit to the table of
documents: a process that is killed meanwhile leaves rows that no state names, and nothing else.
"""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core import StoreError
from . import _lance_tables as lance
from ._history import no_such_state
from ._kept import KeptState
from ._lance_open import OpenTables
from ._lance_rows import facet_values
from ._lance_state import stamps_of
from ._options import StoreOptions
from ._store import IndexSpec, WriteCounts

_HEAD, _LAST = "kept ", "last kept"
_BLOCK = 500
"""Documents whose rows are copied at a time."""


@dataclass(frozen=True, slots=True)
class _State:
    """A kept state among the facts: ``members`` names its rows in the table of stamps."""

    number: int
    pair: str
    at: str
    note: str
    settings: str
    digest: str
    members: int


class LanceHistory:
    """The kept states of a store.

    Args:
        tables: The open tables of the store.
        options: How many states are kept, and for how long.
        where: The store, for errors.
    """

    def __init__(self, tables: OpenTables, options: StoreOptions, where: str) -> None:
        self._tables, self._options, self._where = tables, options, where
        self._kept: dict[str, tuple[int, NDArray[np.int64]]] = {}

    def states(self, pair: str = "") -> list[_State]:
        """The kept states, oldest first; those of one pair where its key is named."""
        rows = lance.select(self._tables["facts"], ["name", "value"]).to_pylist()
        states = [_State(**json.loads(r["value"])) for r in rows if r["name"].startswith(_HEAD)]
        return sorted(
            (state for state in states if pair in ("", state.pair)), key=lambda s: s.number
        )

    def listed(self) -> list[KeptState]:
        """The kept states as the store lists them."""
        return [
            KeptState(s.number, s.pair, s.at, s.note, len(self._stamps(s)), s.settings)
            for s in self.states()
        ]

    def state(self, number: int, pair: IndexSpec | None = None) -> _State:
        """A kept state by its number.

        Raises:
            StoreError: There is none, or none of the pair.
        """
        states = self.states(pair.key if pair else "")
        for state in states:
            if state.number == number:
                return state
        raise no_such_state(number, [s.number for s in states], self._where, pair is not None)

    def _stamps(self, state: _State) -> NDArray[np.int64]:
        table = self._tables.opened(f"kept_{state.pair}")
        if table is None:
            return np.empty(0, np.int64)
        rows = lance.select(table, ["stamp"], f"state = {state.members}")
        return np.asarray(rows["stamp"].to_numpy(), np.int64)

    def keep(
        self, pair: IndexSpec, digest: str, text: tuple[str, str], *, restoring: bool = False
    ) -> None:
        """Keep the present state, unless the newest one is equal; ``text`` is (note, settings).

        Other settings make another state only around a restore, which writes them.
        """
        newest = self.states(pair.key)[-1:]
        equal = newest and newest[0].digest == digest
        if equal and (not restoring or newest[0].settings == text[1]):
            return
        documents = self._tables.opened(f"documents_{pair.key}")
        members = secrets.randbits(62)
        table = self._tables.created(f"kept_{pair.key}", lance.kept_schema())
        stamps = stamps_of(documents)
        rows: dict[str, Any] = {"state": [members] * len(stamps), "stamp": stamps}
        added = lance.arrow_table(rows, lance.kept_schema())
        lance.retried(lambda: table.add(added), self._where)
        now = datetime.now(UTC).isoformat(timespec="seconds")
        number = int(self._fact(_LAST) or 0)
        while True:
            number = 1 + max(number, *(state.number for state in self.states()), 0)
            state = _State(number, pair.key, now, *text, digest, members)
            self._set_fact(f"{_HEAD}{members}", json.dumps(asdict(state)))
            if all(s.members >= members for s in self.states() if s.number == number):
                break  # no other process took this number at the same moment
        self._set_fact(_LAST, str(number))

    def prune(self, pair: IndexSpec, least: int = 0) -> None:
        """Drop the states beyond the newest few and the old ones, with what only they hold."""
        keep = max(self._options.keep_snapshots, least)
        days = self._options.keep_days
        since = datetime.now(UTC) - timedelta(days=days or 36_500)
        states = self.states(pair.key)
        stay = [
            state
            for at, state in enumerate(reversed(states))
            if at < keep and (at == 0 or datetime.fromisoformat(state.at) >= since)
        ]
        gone = [state for state in states if state not in stay]
        for state in gone:
            self._drop_fact(f"{_HEAD}{state.members}")
        table = self._tables.opened(f"kept_{pair.key}")
        if gone and table is not None:
            names = ", ".join(str(state.members) for state in gone)
            lance.retried(lambda: table.delete(f"state IN ({names})"), self._where)
            self._drop_retired(pair, lambda stamps: np.setdiff1d(stamps, self.held(pair)))

    def held(self, pair: IndexSpec) -> NDArray[np.int64]:
        """Stamps that some kept state of a pair holds; read again when the table has changed."""
        table = self._tables.opened(f"kept_{pair.key}")
        if table is None:
            return np.empty(0, np.int64)
        version = int(table.version)
        cached = self._kept.get(pair.key)
        if cached is None or cached[0] != version:
            cached = self._kept[pair.key] = version, np.unique(stamps_of(table))
        return cached[1]

    def retire(self, pair: IndexSpec, stamps: Sequence[int]) -> None:
        """Copy documents that a kept state holds, before they are replaced or removed."""
        doomed = np.intersect1d(np.asarray(stamps, np.int64), self.held(pair))
        if not len(doomed):
            return
        kinds = (
            ("chunks", lance.chunks_schema(pair), ["stamp", "ordinal"]),
            ("documents", lance.documents_schema(), ["stamp"]),  # last: they name the chunks
        )
        for kind, schema, keys in kinds:
            source = self._tables.opened(f"{kind}_{pair.key}")
            schema = lance.keyed(schema, keys)
            kept = self._tables.created(f"retired_{kind}_{pair.key}", schema)
            for rows in _rows_in(source, doomed):
                merge = kept.merge_insert(keys).when_not_matched_insert_all()
                lance.retried(lambda m=merge, r=rows: m.execute(r), self._where)  # type: ignore[misc]

    def hashes(self, number: int) -> dict[str, str]:
        """Id of each document of a state -> content hash."""
        state = self.state(number)
        wanted = self._stamps(state)
        hashes: dict[str, str] = {}
        for kind in ("documents", "retired_documents"):
            table = self._tables.opened(f"{kind}_{state.pair}")
            if table is None:
                continue
            rows = lance.select(table, ["stamp", "name", "hash"])
            inside = np.isin(rows["stamp"].to_numpy(), wanted).nonzero()[0]
            for name, hash_ in zip(*(rows[c].take(inside).to_pylist() for c in ("name", "hash")),
                                   strict=True):  # fmt: skip
                hashes[lance.from_string(name)] = hash_
        return hashes

    def restore(self, pair: IndexSpec, state: _State) -> tuple[WriteCounts, set[tuple[str, str]]]:
        """Make the documents of a state the present ones, in one commit.

        Returns:
            What was written, and the (field, value) pairs of chunks that came back.
        """
        documents: Any = self._tables.opened(f"documents_{pair.key}")
        chunks: Any = self._tables.opened(f"chunks_{pair.key}")
        present, wanted = stamps_of(documents), self._stamps(state)
        gone, back = np.setdiff1d(present, wanted), np.setdiff1d(wanted, present)
        self.retire(pair, gone.tolist())
        values: set[tuple[str, str]] = set()
        # left by a process that was killed while it restored
        lance.delete_rows(chunks, "stamp", back.tolist(), self._where)
        chunks_back = 0
        for rows in _rows_in(self._tables.opened(f"retired_chunks_{pair.key}"), back):
            facets = rows["facets"].combine_chunks().flatten().unique().to_pylist()
            values |= facet_values(facets) | {(name, "") for name in lance.OWN_COLUMNS}
            chunks_back += rows.num_rows
            fresh = _written_now(rows)
            lance.retried(lambda r=fresh: chunks.add(r), self._where)  # type: ignore[misc]
        chunks_gone = _chunks_of(documents, gone)
        self._replace(pair, documents, back, gone)
        lance.delete_rows(chunks, "stamp", gone.tolist(), self._where)
        counts = WriteCounts(
            added=len(back),
            removed=len(gone),
            unchanged=len(present) - len(gone),
            chunks_added=chunks_back,
            chunks_removed=chunks_gone,
        )
        return counts, values

    def _replace(
        self, pair: IndexSpec, documents: Any, back: NDArray[np.int64], gone: NDArray[np.int64]
    ) -> None:
        """Put documents back and take others out, in one commit; a few are in memory at a time."""
        condition = next(lance.one_of("stamp", gone.tolist(), max(1, len(gone))), "")
        if not len(back):
            if condition:
                lance.retried(lambda: documents.delete(condition), self._where)
            return
        kept = self._tables.opened(f"retired_documents_{pair.key}")
        conditions = lance.one_of("stamp", back.tolist())
        if kept is None or sum(kept.count_rows(c) for c in conditions) != len(back):
            raise StoreError(
                "documents of this snapshot are no longer stored: another process replaced them "
                "while it was kept",
                where=self._where,
                hint="choose another one of `ragwright snapshots list`",
            )
        merge = documents.merge_insert("key").use_index(False)
        merge = merge.when_matched_update_all().when_not_matched_insert_all()
        if condition:
            merge = merge.when_not_matched_by_source_delete(condition)
        schema = lance.documents_schema()
        lance.retried(
            lambda: merge.execute(lance.streamed(_rows_in(kept, back), schema)), self._where
        )

    def forget(self, pair: IndexSpec, keys: Sequence[str], present: Sequence[int]) -> WriteCounts:
        """Delete every retired version of these documents, and take them out of the kept states.

        ``present`` are the stamps that the documents had among the present ones.
        """
        self._forget_members(pair, present)
        table = self._tables.opened(f"retired_documents_{pair.key}")
        stamps: list[int] = []
        if table is not None:
            for condition in lance.one_of("key", keys):
                stamps += lance.select(table, ["stamp"], condition)["stamp"].to_pylist()
        doomed = np.asarray(stamps, np.int64)
        return self._drop_retired(pair, lambda held: np.intersect1d(held, doomed))

    def _forget_members(self, pair: IndexSpec, stamps: Sequence[int]) -> None:
        """Take documents out of every kept state."""
        table = self._tables.opened(f"kept_{pair.key}")
        if table is not None:
            lance.delete_rows(table, "stamp", stamps, self._where)

    def _drop_retired(
        self, pair: IndexSpec, chosen: Callable[[NDArray[np.int64]], NDArray[np.int64]]
    ) -> WriteCounts:
        """Delete chosen retired documents with their chunks."""
        tables = [
            self._tables.opened(f"retired_{kind}_{pair.key}") for kind in ("documents", "chunks")
        ]
        if tables[0] is None:
            return WriteCounts()
        stamps = chosen(np.unique(stamps_of(tables[0]))).tolist()
        removed = [
            0 if table is None else lance.delete_rows(table, "stamp", stamps, self._where)
            for table in tables
        ]
        self._forget_members(pair, stamps)
        return WriteCounts(removed=removed[0], chunks_removed=removed[1])

    def tables(self, pair: IndexSpec) -> list[Any]:
        """The tables of kept states that exist, for maintenance."""
        names = (f"{kind}_{pair.key}" for kind in ("kept", "retired_documents", "retired_chunks"))
        return [table for table in map(self._tables.opened, names) if table is not None]

    def _fact(self, name: str) -> str:
        rows = lance.select(self._tables["facts"], ["value"], f"name = {lance.literal(name)}")
        return str(rows["value"].to_pylist()[-1]) if rows.num_rows else ""

    def _set_fact(self, name: str, value: str) -> None:
        lance.set_fact(self._tables["facts"], name, value, self._where)

    def _drop_fact(self, name: str) -> None:
        facts = self._tables["facts"]
        lance.retried(lambda: facts.delete(f"name = {lance.literal(name)}"), self._where)


def _rows_in(table: Any, stamps: NDArray[np.int64]) -> Iterator[Any]:
    """All columns of the rows with these stamps, a block of documents at a time."""
    if table is None:
        return
    for condition in lance.one_of("stamp", stamps.tolist(), _BLOCK):
        rows = lance.select(table, table.schema.names, condition)
        if rows.num_rows:
            yield rows


def _chunks_of(documents: Any, stamps: NDArray[np.int64]) -> int:
    """Chunks of documents."""
    total = 0
    for condition in lance.one_of("stamp", stamps.tolist()):
        total += sum(lance.select(documents, ["chunks"], condition)["chunks"].to_pylist())
    return total


def _written_now(rows: Any) -> Any:
    """Chunks as if they were written now, so that they are not taken for leftovers."""
    at = rows.schema.get_field_index("written")
    return rows.set_column(at, rows.schema.field(at), [np.full(rows.num_rows, time.time_ns())])
