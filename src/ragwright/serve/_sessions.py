"""Sessions of readers who signed in on the pages: random ids, kept by the server until they end."""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from ..core import ConfigError, erased_name, near
from ..ledger import Connection, Ledger, Place
from ._identity import PERSON
from ._keys import ServeKey, ServeKeys, hashed
from .sign_in import Person

if TYPE_CHECKING:
    from cryptography.fernet import Fernet

LIFE = 7 * 24 * 3600
"""Seconds after which a reader with a key has to sign in again."""

_ID_BYTES = 32
_MOST = 10_000
"""Sessions of a kind that are kept; the oldest end first."""

_LISTED = (
    "SELECT s.id, k.name, '', 'key', s.ends - ?, s.ends FROM serve_sessions s "
    "JOIN serve_keys k ON k.hash = s.key WHERE s.ends > ? UNION ALL "
    "SELECT s.id, s.person, p.label, 'provider', s.began, s.ends FROM serve_signed_in s "
    "JOIN serve_people p ON p.name = s.person WHERE s.ends > ? ORDER BY 6 DESC"
)


@dataclass(frozen=True, slots=True)
class ServeSession:
    """A session that has not ended.

    Attributes:
        id: Beginning of the hash of its id; enough to name it, worth nothing to a thief.
        name: Name of the key or person.
        label: The person's name for people; empty for a key.
        way: ``key`` or ``provider``.
        began: Seconds since 1970.
        ends: Seconds since 1970.
    """

    id: str
    name: str
    label: str
    way: str
    began: float
    ends: float


class Sessions:
    """The sessions of a project, in its ledger, which holds hashes of their ids.

    A session is worth nothing once its key is revoked, and cannot be used in place of the key
    anywhere else.

    Args:
        place: Its ledger.
        keys: Its keys.
        clock: Returns seconds since 1970.
    """

    def __init__(
        self, place: Place, keys: ServeKeys, clock: Callable[[], float] = time.time
    ) -> None:
        self._ledger = Ledger(place)
        self._keys = keys
        self._clock = clock
        self._cipher: Fernet | None = None

    def close(self) -> None:
        """Close the ledger; safe to call twice."""
        self._ledger.close()

    def begin(self, key: str) -> str:
        """Begin a session of the key with this hash; the session's id.

        Raises:
            StoreError: It cannot be stored.
        """
        return self._begin("serve_sessions", {"key": key}, LIFE)

    def begin_person(self, person: Person, life: float) -> str:
        """Begin a session of a person that ends after ``life`` seconds; the session's id.

        Raises:
            StoreError: It cannot be stored.
        """
        naming = (
            "INSERT INTO serve_people (name, label, refused_before) VALUES (?, ?, 0) "
            "ON CONFLICT (name) DO UPDATE SET label = excluded.label"
        )
        self._write(naming, (person.name, person.label))
        row = {
            "person": person.name,
            "groups_of": json.dumps(person.groups, ensure_ascii=False),
            "roles": json.dumps(person.roles, ensure_ascii=False),
            "issuer": person.issuer,
            "session": person.session,
            "began": self._clock(),
        }
        return self._begin("serve_signed_in", row, life)

    def key(self, session: str) -> ServeKey | None:
        """The key that a session was begun with, None once the session or the key has ended."""
        return self._keys.of_session(session, self._clock())

    def person(self, session: str, issuer: str) -> Person | None:
        """The person of a session who signed in at this provider, None once it has ended."""
        rows = self._ledger.select(
            "SELECT s.person, p.label, s.groups_of, s.roles, s.issuer, s.session "
            "FROM serve_signed_in s JOIN serve_people p ON p.name = s.person "
            "WHERE s.id = ? AND s.ends > ? AND s.issuer = ?",
            (hashed(session), self._clock(), issuer),
        )
        return _person_of_row(*rows[0]) if rows else None

    def end(self, session: str) -> None:
        """End a session; an unknown one has ended.

        Raises:
            StoreError: It cannot be stored.
        """
        row = (hashed(session),)
        for table in ("serve_sessions", "serve_signed_in"):
            if self._ledger.select(f"SELECT 1 FROM {table} WHERE id = ?", row):  # noqa: S608
                self._write(f"DELETE FROM {table} WHERE id = ?", row)  # noqa: S608

    def end_at_provider(self, issuer: str, session: str, person: str) -> int:
        """End the sessions of a session at the provider, or else of a person; their number.

        Raises:
            StoreError: It cannot be stored.
        """
        column, value = ("session", session) if session else ("person", person)
        return self._write(
            f"DELETE FROM serve_signed_in WHERE issuer = ? AND {column} = ?",  # noqa: S608
            (issuer, value),
        )

    # -- lists and revocation --------------------------------------------------------------

    def all(self) -> tuple[ServeSession, ...]:
        """Every session that has not ended, those that end last first."""
        now = self._clock()
        rows = self._ledger.select(_LISTED, (float(LIFE), now, now))
        return tuple(ServeSession(row[0][:12], *row[1:]) for row in rows)

    def revoke(self, wanted: str) -> int:
        """End a session by the beginning of its id, or all of a key or person by its name.

        Tokens that were issued to the person before now are refused from now on.

        Raises:
            ConfigError: No session, key or person has this name.
            StoreError: It cannot be stored.
        """
        sessions = self.all()
        of_id = [session for session in sessions if session.id == wanted]
        if of_id:
            ended = f"{wanted}%"
            return sum(
                self._write(f"DELETE FROM {table} WHERE id LIKE ?", (ended,))  # noqa: S608
                for table in ("serve_sessions", "serve_signed_in")
            )
        now = self._clock()
        known = 0
        if wanted.startswith(PERSON):  # also who has used tokens alone
            known = self._write(
                "INSERT INTO serve_people (name, label, refused_before) VALUES (?, '', ?) "
                "ON CONFLICT (name) DO UPDATE SET refused_before = excluded.refused_before",
                (wanted, now),
            )
        ended_count = self._write("DELETE FROM serve_signed_in WHERE person = ?", (wanted,))
        ended_count += self._write(
            "DELETE FROM serve_sessions WHERE key IN (SELECT hash FROM serve_keys WHERE name = ?)",
            (wanted,),
        )
        if not known and not ended_count:
            names = [*dict.fromkeys(session.name for session in sessions)]
            raise ConfigError(
                f"no session and no person is named {wanted!r}",
                hint=near(wanted, names) if names else "nobody is signed in",
            )
        return ended_count

    def refused_before(self, person: str) -> float:
        """When the tokens of a person were revoked last, in seconds since 1970; else 0."""
        rows = self._ledger.select(
            "SELECT max(refused_before) FROM serve_people WHERE name IN (?, ?)",
            (person, erased_name(person)),
        )
        return float(rows[0][0] or 0.0)

    # -- sign-in under way -----------------------------------------------------------------

    def use_once(self, name: str, ends: float) -> bool:
        """Use something that may be used once until ``ends``; False where it was used before.

        Raises:
            StoreError: It cannot be stored.
        """
        row, now = (hashed(name), ends), self._clock()

        def work(connection: Connection) -> int:
            connection.execute("DELETE FROM serve_used WHERE ends <= ?", (now,))
            insert = "INSERT INTO serve_used (id, ends) VALUES (?, ?) ON CONFLICT (id) DO NOTHING"
            return connection.execute(insert, row).rowcount

        return bool(self._ledger.write(work))

    def cipher(self) -> Fernet:
        """The cipher of states that go through the provider; all workers have the same.

        Raises:
            StoreError: Its key cannot be stored.
        """
        from cryptography.fernet import Fernet

        if self._cipher is None:
            row = ("states", Fernet.generate_key().decode())
            self._write(
                "INSERT INTO serve_secrets (name, secret) VALUES (?, ?) "
                "ON CONFLICT (name) DO NOTHING",
                row,
            )
            query = "SELECT secret FROM serve_secrets WHERE name = ?"
            self._cipher = Fernet(self._ledger.select(query, row[:1])[0][0])
        return self._cipher

    def _begin(self, table: str, row: dict[str, Any], life: float) -> str:
        session, now = secrets.token_urlsafe(_ID_BYTES), self._clock()
        full = {"id": hashed(session), **row, "ends": now + life}
        places = ", ".join("?" * len(full))
        insert = f"INSERT INTO {table} ({', '.join(full)}) VALUES ({places})"  # noqa: S608

        def work(connection: Connection) -> None:
            connection.execute(f"DELETE FROM {table} WHERE ends <= ?", (now,))  # noqa: S608
            connection.execute(
                f"DELETE FROM {table} WHERE id NOT IN "  # noqa: S608
                f"(SELECT id FROM {table} ORDER BY ends DESC LIMIT ?)",
                (_MOST - 1,),
            )
            connection.execute(insert, tuple(full.values()))

        self._ledger.write(work)
        return session

    def _write(self, statement: str, values: Sequence[Any]) -> int:
        return self._ledger.write(lambda connection: connection.execute(statement, values).rowcount)


@lru_cache(maxsize=256)
def _person_of_row(
    name: str, label: str, groups: str, roles: str, issuer: str, session: str
) -> Person:
    held = (*json.loads(groups),), (*json.loads(roles),)
    return Person(name, label, *held, issuer, session)
