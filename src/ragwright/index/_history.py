"""Kept states of the SQLite store: statements that mark, list, compare, restore and prune them.

A kept state is a row with the highest stamp of that moment. A document that is replaced or removed
while a kept state holds it moves from ``entries`` to ``retired``, with the last state that holds
it; its chunks, its document and its vectors stay. So a state costs nothing until documents change,
and then only the former version of these.

State ``n`` of a pair holds its entries, and its retired documents whose ``died`` is at least n, as
far as their stamps are at most ``last``.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence

from ..core import StoreError
from ._kept import KeptState, StateMember
from ._store import IndexSpec

_MEMBERS = """
SELECT e.id, e.document, e.name, e.root FROM entries e, kept_states s
WHERE s.id = ? AND e.pair = s.pair AND e.id <= s.last
UNION ALL
SELECT r.stamp, r.document, r.name, r.root FROM retired r, kept_states s
WHERE s.id = ? AND r.pair = s.pair AND r.stamp <= s.last AND r.died >= s.id
"""


def no_such_state(number: int, known: Sequence[int], where: str, of_pair: bool) -> StoreError:
    """The error for a number that no kept state has, with those that there are."""
    return StoreError(
        f"there is no snapshot {number}" + (" of the present settings" if of_pair else ""),
        where=where,
        hint=f"kept: {', '.join(map(str, known))}" if known else "none is kept yet",
    )


class KeptRows:
    """The rows of kept states, within a transaction that the caller opened."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db

    def last_state_with(self, stamp: int) -> int | None:
        """The newest kept state that holds a present entry; None if none does."""
        row = self._db.execute(
            "SELECT max(s.id) FROM kept_states s JOIN entries e ON e.pair = s.pair "
            "WHERE e.id = ? AND s.last >= e.id",
            (stamp,),
        ).fetchone()
        return None if row[0] is None else int(row[0])

    def retire(self, stamp: int, died: int) -> None:
        """Move an entry to the retired documents."""
        self._db.execute(
            "INSERT INTO retired (stamp, pair, document, name, root, died) "
            "SELECT id, pair, document, name, root, ? FROM entries WHERE id = ?",
            (died, stamp),
        )
        self._db.execute("DELETE FROM entries WHERE id = ?", (stamp,))

    def members(self, state: int) -> Mapping[str | bytes, StateMember]:
        """The documents of a kept state, by id."""
        rows = self._db.execute(_MEMBERS, (state, state))
        return {
            name: StateMember(stamp, document, name, root) for stamp, document, name, root in rows
        }

    def document_hashes(self, numbers: Iterable[int]) -> dict[int, tuple[str, str]]:
        """Number of a document -> (content hash, source)."""
        hashes_by_number = {}
        for number in numbers:
            row = self._db.execute(
                "SELECT hash, source FROM documents WHERE id = ?", (number,)
            ).fetchone()
            hashes_by_number[number] = (str(row[0]), row[1])
        return hashes_by_number

    def add_state(
        self, pair: int, text: tuple[str, str, str], *, restoring: bool = False
    ) -> int | None:
        """Keep the present state of a pair; None if its newest kept state is equal.

        ``text`` is (time, note, settings); other settings make another state only around a
        restore, which writes them.
        """
        (digest,) = self._db.execute("SELECT digest FROM pairs WHERE id = ?", (pair,)).fetchone()
        newest = self._db.execute(
            "SELECT digest, settings FROM kept_states WHERE pair = ? ORDER BY id DESC LIMIT 1",
            (pair,),
        ).fetchone()
        if newest and newest[0] == digest and (not restoring or newest[1] == text[2]):
            return None
        cursor = self._db.execute(
            "INSERT INTO kept_states (pair, last, digest, at, note, settings) VALUES "
            "(?, (SELECT coalesce(max(id), 0) FROM entries WHERE pair = ?), ?, ?, ?, ?)",
            (pair, pair, digest, *text),
        )
        return int(cursor.lastrowid or 0)

    def states(self) -> Iterator[KeptState]:
        """Every kept state, oldest first."""
        rows = self._db.execute(
            "SELECT s.id, p.key, s.at, s.note, s.settings FROM kept_states s "
            "JOIN pairs p ON p.id = s.pair ORDER BY s.id"
        ).fetchall()
        for number, key, at, note, settings in rows:
            count = len(self.members(number))
            yield KeptState(number, key, at, note, count, settings)

    def prune(self, pair: int, keep: int, since: str) -> set[int]:
        """Drop states of a pair beyond the newest ``keep``, and those older than ``since``.

        The newest state stays. Returns vectors that may be needed no longer.
        """
        self._db.execute(
            "DELETE FROM kept_states WHERE pair = ? AND (at < ? OR id NOT IN "
            "(SELECT id FROM kept_states WHERE pair = ? ORDER BY id DESC LIMIT ?)) AND id < "
            "(SELECT max(id) FROM kept_states WHERE pair = ?)",
            (pair, since, pair, keep, pair),
        )
        gone = self._db.execute(
            "SELECT stamp FROM retired r WHERE pair = ? AND NOT EXISTS "
            "(SELECT 1 FROM kept_states s WHERE s.pair = r.pair AND s.id <= r.died "
            "AND s.last >= r.stamp)",
            (pair,),
        ).fetchall()
        return self.drop_retired([stamp for (stamp,) in gone])

    def drop_states(self, pair: int) -> set[int]:
        """Drop every state and retired document of a pair; vectors that may be needed no longer."""
        self._db.execute("DELETE FROM kept_states WHERE pair = ?", (pair,))
        gone = self._db.execute("SELECT stamp FROM retired WHERE pair = ?", (pair,)).fetchall()
        return self.drop_retired([stamp for (stamp,) in gone])

    def retired_of(self, name: str | bytes) -> list[int]:
        """Stamps of the retired versions of a document, of every pair."""
        rows = self._db.execute("SELECT stamp FROM retired WHERE name = ?", (name,))
        return [stamp for (stamp,) in rows]

    def drop_retired(self, stamps: Sequence[int]) -> set[int]:
        """Delete retired documents with their chunks; vectors that may be needed no longer."""
        vectors: set[int] = set()
        for stamp in stamps:
            used = self._db.execute(
                "SELECT vector FROM chunks WHERE entry = ? AND vector IS NOT NULL", (stamp,)
            )
            vectors.update(row[0] for row in used)
            self._db.execute("DELETE FROM chunks WHERE entry = ?", (stamp,))
            (document,) = self._db.execute(
                "SELECT document FROM retired WHERE stamp = ?", (stamp,)
            ).fetchone()
            self._db.execute("DELETE FROM retired WHERE stamp = ?", (stamp,))
            self.drop_document(document)
        return vectors

    def drop_document(self, number: int) -> None:
        """Delete a document that neither an entry nor a kept state needs."""
        self._db.execute(
            "DELETE FROM documents WHERE id = ? "
            "AND NOT EXISTS (SELECT 1 FROM entries WHERE document = documents.id) "
            "AND NOT EXISTS (SELECT 1 FROM retired WHERE document = documents.id)",
            (number,),
        )

    def revive(self, pair: int, member: StateMember, stamp: int) -> None:
        """Make a copy of a retired document an entry again, under a new stamp."""
        self._db.execute(
            "INSERT INTO entries (id, pair, document, name, root) VALUES (?, ?, ?, ?, ?)",
            (stamp, pair, member.document, member.name, member.root),
        )
        columns = (
            'ordinal, name, start, "end", page, pages, headings, metadata, tokens, terms, vector'
        )
        self._db.execute(
            f"INSERT INTO chunks (entry, {columns}) SELECT ?, {columns} FROM chunks "  # noqa: S608
            "WHERE entry = ? ORDER BY ordinal",
            (stamp, member.stamp),
        )

    def pair_number(self, pair: IndexSpec) -> int | None:
        """Number of a pair; None if it was never written."""
        row = self._db.execute("SELECT id FROM pairs WHERE key = ?", (pair.key,)).fetchone()
        return None if row is None else int(row[0])
