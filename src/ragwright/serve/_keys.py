"""Keys of a server: who may ask, which configurations, under which filters, how much.

The ledger holds hashes of the keys, never a key.
"""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import json
import re
import secrets
import time
from collections.abc import Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, Literal, TypeAlias, get_args

from pydantic import TypeAdapter

from ..core import EVERYONE, ConfigError, Filter, group_names, reader_filter, suggest_name
from ..jobs import EventKind
from ..ledger import Connection, Ledger, Place
from ..project import ProjectFolder, load_settings
from ..retrieve import parse_filter

Role: TypeAlias = Literal["reader", "reviewer", "owner"]

ROLES: tuple[Role, ...] = get_args(Role)
"""Every role, the fewest rights first."""

PROXIED = "proxy:"
"""Beginning of the names of people of a proxy; no key may have such a name."""


@dataclass(frozen=True, slots=True)
class Identity:
    """A person or a key, and its rights.

    Attributes:
        name: Its name, for lists, logs and its own answers; no other identity has it.
        role: A ``reader`` may ask, retrieve, draft and rate its own answers; a ``reviewer`` may
            also review rows of testsets; an ``owner`` may see everything of the project.
        configurations: Names of the configurations that it may use; all of them where empty.
        filters: Hard filters that every search is narrowed by, as ``field=value``.
        per_minute: Most requests a minute, None for no bound.
        daily_budget: Most money that its requests of a day (UTC) may cost, None for no bound.
        groups: Groups of readers that it belongs to: it sees their documents. An owner sees all.
        label: Name that pages show; others may have the same one.
    """

    name: str
    role: Role = "reader"
    configurations: tuple[str, ...] = ()
    filters: tuple[str, ...] = ()
    per_minute: int | None = None
    daily_budget: float | None = None
    groups: tuple[str, ...] = ()
    label: str = ""

    @property
    def shown(self) -> str:
        """Its label, or its name where it has none."""
        return self.label or self.name

    @property
    def conditions(self) -> tuple[Filter, ...]:
        """Its filters, parsed."""
        return tuple(map(parse_filter, self.filters))

    def right(self, *, ungrouped: bool) -> Filter | None:
        """Its right to read, None where it may read everything.

        Args:
            ungrouped: True if documents without groups are everyone's.
        """
        if self.role == "owner":
            return None
        return reader_filter(self.groups, ungrouped=ungrouped)

    @property
    def scope(self) -> str:
        """The tenant that may see what is made for it: identities of equal rights are one tenant.

        One filter is its own name; several are a JSON list, which no filter can imitate. Groups
        count as one filter, ``groups:hr|all``; filters contain a ``=``, so none can equal it.
        """
        named = {*self.groups} - {EVERYONE} if self.role != "owner" else set()
        filters = sorted({*self.filters, *([f"groups:{'|'.join(sorted(named))}"] if named else [])})
        if len(filters) == 1 and not filters[0].startswith("["):
            return filters[0]
        return json.dumps(filters, ensure_ascii=False) if filters else ""


def is_loopback(host: str) -> bool:
    """True for the names and addresses of this machine alone."""
    if host.strip("[]").lower() in ("localhost", ""):
        return bool(host)
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


@dataclass(slots=True)
class Note:
    """What a request did, as far as its handler knows; the middleware knows the rest.

    Attributes:
        kind: What it did; that of its route where None.
        subject: What it was about besides documents.
        documents: Ids of the documents whose text was shown or used.
        question: Text of the question.
        configuration: Configuration that answered.
        who: Name of an identity that is not known yet, such as one that signs in.
        role: Its role.
        outcome: How it ended, where the status of the reply does not say it.
    """

    kind: EventKind | None = None
    subject: str = ""
    documents: dict[str, None] = field(default_factory=dict)
    question: str = ""
    configuration: str = ""
    who: str = ""
    role: str = ""
    outcome: str = ""

    def used(self, documents: Iterable[str]) -> None:
        """Add documents whose text was shown or used."""
        self.documents.update(dict.fromkeys(documents))

    def identified(self, kind: EventKind, who: str, role: str = "") -> None:
        """Say who signs in or out."""
        self.kind, self.who, self.role = kind, who, role


_PREFIX = "rw_"
_SECRET_BYTES = 32
_NAME = 64
_LIVE = "substr(hash, 1, 8) <> 'revoked '"
"""A revoked key keeps its row, without its hash: what was stored under its name is someone's."""


@dataclass(frozen=True, slots=True)
class ServeKey(Identity):
    """A key: an identity that a secret proves.

    Attributes:
        hash: SHA-256 of the key, in hexadecimal; a key has 256 random bits, so no salt is needed.
        created: ISO 8601, UTC.
    """

    hash: str = ""
    created: str = ""


_KEY: TypeAdapter[ServeKey] = TypeAdapter(ServeKey)


class ServeKeys:
    """The keys of a project, in its ledger: a running server sees a change at its next request.

    With a shared database, that holds for the servers of all machines.

    Args:
        folder: The project.
        place: Its ledger; None: as its settings say.
    """

    def __init__(self, folder: ProjectFolder, place: Place | None = None) -> None:
        self._folder = folder
        self._ledger = Ledger(place or access_place(folder))
        self._used = False

    def close(self) -> None:
        """Close the ledger; safe to call twice."""
        self._ledger.close()

    def all(self) -> tuple[ServeKey, ...]:
        """Every key, by name."""
        return self._select_keys("ORDER BY name")

    @property
    def remote(self) -> bool:
        """True if each question to the ledger may have to wait for a network."""
        return self._ledger.database.remote

    @property
    def used(self) -> bool:
        """True once a key was made, also after the last one was revoked: all requests need one."""
        if not self._used:
            issued = "EXISTS (SELECT 1 FROM sqlite_sequence WHERE name = 'serve_keys' AND seq > 0)"
            if self.remote:
                issued = "(SELECT is_called FROM serve_keys_number_seq)"
            rows = self._ledger.select(f"SELECT EXISTS (SELECT 1 FROM serve_keys) OR {issued}")  # noqa: S608
            self._used = bool(rows[0][0]) or bool(self.left_behind)
        return self._used

    @property
    def left_behind(self) -> tuple[str, ...]:
        """Names of keys in the project folder that the shared database does not have yet."""
        if not self.remote or not self._folder.ledger.exists():
            return ()
        with closing(Ledger(self._folder.ledger)) as own:
            select = f"SELECT name FROM serve_keys WHERE {_LIVE}"  # noqa: S608
            names = [str(name) for (name,) in own.select(select)]
        known = {key.name for key in self.all()}
        return tuple(name for name in names if name not in known)

    def find(self, secret: str) -> ServeKey | None:
        """The key that a client sent, None where it is unknown."""
        return next(iter(self._select_keys("AND hash = ?", hash_key(secret))), None)

    def named_by(self, beginning: str) -> ServeKey | None:
        """The key whose hash begins with 16 digits, None where there is none."""
        return next(iter(self._select_keys("AND substr(hash, 1, 16) = ?", beginning)), None)

    def add(self, key: ServeKey, *, again: bool = False) -> str:
        """Make a key with these rights; the key itself, which is shown this once.

        Args:
            key: Its name and rights.
            again: Accept the name of a revoked key: its holder sees what was stored under it.

        Raises:
            ConfigError: The name is taken, empty or that of a revoked key, or a limit is out of
                range.
            FilterError: A filter cannot be read.
            StoreError: It cannot be stored.
        """
        where = self._ledger.database.where
        if not key.name.strip() or len(key.name) > _NAME or not key.name.isprintable():
            raise ConfigError(
                f"{key.name!r} cannot name a key", hint=f"give 1 to {_NAME} printable characters"
            )
        if key.name.startswith(PROXIED):
            raise ConfigError(
                f"{key.name!r} cannot name a key: names of people begin like it",
                hint=f"choose a name without {PROXIED} at its beginning",
            )
        rights = _write_rights(key)
        revoked = f"SELECT 1 FROM serve_keys WHERE name = ? AND NOT {_LIVE}"  # noqa: S608
        if not again and self._ledger.select(revoked, (key.name,)):
            raise ConfigError(
                f"a revoked key was named {key.name!r}: the new one would see what was stored "
                "under that name",
                where=where,
                hint="choose another name; or, if it is for the same person, say --again",
            )
        secret, digest, created = _make_secret()
        insert = (
            "INSERT INTO serve_keys (name, hash, created, rights) VALUES (?, ?, ?, ?) ON CONFLICT "
            "(name) DO UPDATE SET hash = excluded.hash, created = excluded.created, "
            "rights = excluded.rights WHERE substr(serve_keys.hash, 1, 8) = 'revoked '"
        )
        values = (key.name, digest, created, rights)
        if not self._ledger.write(lambda connection: connection.execute(insert, values).rowcount):
            raise ConfigError(
                f"there is a key named {key.name!r} already",
                where=where,
                hint=f"choose another name; a new secret: ragwright keys rotate {key.name}",
            )
        return secret

    def rotate(self, name: str) -> str:
        """Give a key a new secret, which is shown this once; its rights stay.

        Raises:
            ConfigError: There is none of this name.
            StoreError: It cannot be stored.
        """
        secret, digest, created = _make_secret()
        self._update(name, "hash = ?, created = ?", digest, created)
        return secret

    def change(self, name: str, rights: Mapping[str, Any]) -> None:
        """Give a key other rights; the key itself and its filters stay.

        Args:
            name: Of the key.
            rights: New values of fields of :class:`ServeKey`; other fields keep theirs.

        Raises:
            ConfigError: No key has this name, or the rights are invalid.
            StoreError: It cannot be changed.
        """
        for key in self._select_keys("AND name = ?", name) or (ServeKey(name),):
            self._update(name, "rights = ?", _write_rights(replace(key, **rights)))

    def revoke(self, name: str) -> None:
        """End a key; in a shared database and in the project folder.

        Raises:
            ConfigError: There is none of this name.
            StoreError: It cannot be stored.
        """
        self._update(name, "hash = 'revoked ' || name, rights = '{}'")

    def _update(self, name: str, change: str, *values: str) -> None:
        """Change a key, in a shared database and in the project folder."""
        update = f"UPDATE serve_keys SET {change} WHERE name = ? AND {_LIVE}"  # noqa: S608

        def work(connection: Connection) -> int:
            return int(connection.execute(update, (*values, name)).rowcount)

        if self.remote and self._folder.ledger.exists():
            with closing(Ledger(self._folder.ledger)) as own:  # else a move would bring rights back
                own.write(work)
        if not self._ledger.write(work):
            names = [key.name for key in self.all()]
            raise ConfigError(
                f"unknown key {name!r}",
                where=self._ledger.database.where,
                hint=suggest_name(name, names) if names else "there are no keys",
            )

    def _select_keys(self, condition: str, *values: str) -> tuple[ServeKey, ...]:
        select = f"SELECT name, hash, created, rights FROM serve_keys WHERE {_LIVE} {condition}"  # noqa: S608
        return tuple(_key_of_row(*row) for row in self._ledger.select(select, values))


def _make_secret() -> tuple[str, str, str]:
    secret = _PREFIX + secrets.token_urlsafe(_SECRET_BYTES)
    return secret, hash_key(secret), datetime.now(UTC).isoformat(timespec="seconds")


def _write_rights(key: ServeKey) -> str:
    """The rights of a key as JSON."""
    for limit in (key.per_minute, key.daily_budget):
        if limit is not None and limit <= 0:
            raise ConfigError("a limit of a key must be above 0")
    if key.role == "owner" and key.filters:
        raise ConfigError(
            "an owner sees everything, so its key takes no filters", hint="use --role reader"
        )
    _ = key.conditions
    if key.groups:
        group_names(key.groups)
    return _KEY.dump_json(key, exclude={"name", "hash", "created"}).decode()


@lru_cache(maxsize=256)  # at every request: to read its rights takes as long as the query
def _key_of_row(name: str, digest: str, created: str, rights: str) -> ServeKey:
    return _KEY.validate_python(
        {"name": name, "hash": digest, "created": created, **json.loads(rights)}
    )


def access_place(folder: ProjectFolder) -> Place:
    """Where keys and counts of requests are kept: shared where the project file says so.

    Raises:
        ConfigError: The project file is wrong.
    """
    return load_settings(folder.settings).shared.place(folder.ledger)


def hash_key(secret: str) -> str:
    """SHA-256 of a key, which is all that is stored of it."""
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()


COOKIE = "ragwright_reader"

LIFE = 24 * 3600
"""Seconds after which the key has to be entered again."""

_SHAPE = re.compile(r"(?P<key>[0-9a-f]{16})\.(?P<ends>[0-9]{1,12})\.(?P<signature>[0-9a-f]{64})")


def cookie_of_key(key: ServeKey) -> str:
    """The value of a cookie that holds from now on."""
    ends = str(int(time.time()) + LIFE)
    return f"{key.hash[:16]}.{ends}.{_signature(key, ends)}"


def key_of_cookie(keys: ServeKeys, value: str) -> ServeKey | None:
    """The key of a cookie, None where the cookie or the key has ended, or nobody signed it."""
    parts = _SHAPE.fullmatch(value)
    if parts is None or int(parts["ends"]) <= time.time():
        return None
    key = keys.named_by(parts["key"])
    if key is None or not hmac.compare_digest(_signature(key, parts["ends"]), parts["signature"]):
        return None
    return key


def _signature(key: ServeKey, ends: str) -> str:
    return hmac.new(key.hash.encode(), f"{COOKIE} {ends}".encode(), "sha256").hexdigest()
