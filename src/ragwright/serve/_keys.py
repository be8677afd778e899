"""Keys of a server: who may ask, which configurations, under which filters, how much.

The file ``.ragwright/data/serve/keys.json`` holds hashes of the keys, never a key.
"""

from __future__ import annotations

import hashlib
import json
import secrets
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from ..core import ConfigError, StoreError, near, replace_text
from ..ledger import FileLock, file_error
from ..retrieve import parse_filter

if TYPE_CHECKING:
    from ..core import Filter
    from ..project import ProjectFolder

Role: TypeAlias = Literal["reader", "owner"]

_VERSION = 1
_PREFIX = "rw_"
_SECRET_BYTES = 32
_NAME = 64


@dataclass(frozen=True, slots=True)
class ServeKey:
    """One key.

    Attributes:
        name: Its name, for lists and logs.
        hash: SHA-256 of the key, in hexadecimal; a key has 256 random bits, so no salt is needed.
        role: An ``owner`` may see everything of the project; a ``reader`` may ask, retrieve, draft
            and rate its own answers.
        configurations: Names of the configurations that it may use; all of them where empty.
        filters: Hard filters that every search is narrowed by, as ``field=value``.
        per_minute: Most requests a minute, None for no bound.
        daily_budget: Most money that its requests of a day (UTC) may cost, None for no bound.
        created: ISO 8601, UTC.
    """

    name: str
    hash: str
    role: Role = "reader"
    configurations: tuple[str, ...] = ()
    filters: tuple[str, ...] = ()
    per_minute: int | None = None
    daily_budget: float | None = None
    created: str = ""

    @property
    def conditions(self) -> tuple[Filter, ...]:
        """Its filters, parsed."""
        return tuple(map(parse_filter, self.filters))

    @property
    def scope(self) -> str:
        """Who may see what is made for it: keys of equal filters are one tenant.

        One filter is its own name; several are a JSON list, which no filter can imitate.
        """
        filters = sorted(set(self.filters))
        if len(filters) == 1 and not filters[0].startswith("["):
            return filters[0]
        return json.dumps(filters, ensure_ascii=False) if filters else ""


class ServeKeys:
    """The keys of a project, kept in a file that only its owner may read.

    Changes of the file are seen by a running server at its next request.

    Args:
        folder: The project.
    """

    def __init__(self, folder: ProjectFolder) -> None:
        self.file = folder.data / "serve" / "keys.json"
        self._lock = threading.Lock()
        self._seen: tuple[int, int] | None = None
        self._by_hash: Mapping[str, ServeKey] = {}

    def all(self) -> tuple[ServeKey, ...]:
        """Every key, by name.

        Raises:
            StoreError: The file is damaged.
        """
        return tuple(sorted(self._known().values(), key=lambda key: key.name))

    @property
    def used(self) -> bool:
        """True once a key was made, also after the last one was revoked.

        Then nobody is let in without a key; deleting the file makes the server open again to
        this machine alone.
        """
        return bool(self._known()) or self.file.exists()

    def find(self, secret: str) -> ServeKey | None:
        """The key that a client sent, None where it is unknown."""
        return self._known().get(_hashed(secret))

    def of_hash(self, found: str) -> ServeKey | None:
        """The key with this hash, None where it was revoked."""
        return self._known().get(found)

    def add(self, key: ServeKey) -> str:
        """Make a key with these rights; the key itself, which is shown this once.

        Raises:
            ConfigError: The name is taken or empty, or a limit is out of range.
            FilterError: A filter cannot be read.
        """
        if not key.name.strip() or len(key.name) > _NAME or not key.name.isprintable():
            raise ConfigError(
                f"{key.name!r} cannot name a key", hint=f"give 1 to {_NAME} printable characters"
            )
        for limit in (key.per_minute, key.daily_budget):
            if limit is not None and limit <= 0:
                raise ConfigError("a limit of a key must be above 0")
        if key.role == "owner" and key.filters:
            raise ConfigError(
                "an owner sees everything, so its key takes no filters", hint="use --role reader"
            )
        _ = key.conditions
        secret = _PREFIX + secrets.token_urlsafe(_SECRET_BYTES)
        now = datetime.now(UTC).isoformat(timespec="seconds")
        with self._changing() as keys:
            if any(one.name == key.name for one in keys):
                raise ConfigError(
                    f"there is a key named {key.name!r} already",
                    where=str(self.file),
                    hint="choose another name, or revoke that key first",
                )
            keys.append(replace(key, hash=_hashed(secret), created=now))
        return secret

    def revoke(self, name: str) -> None:
        """Remove a key.

        Raises:
            ConfigError: There is none of this name.
        """
        with self._changing() as keys:
            names = [key.name for key in keys]
            if name not in names:
                raise ConfigError(
                    f"unknown key {name!r}",
                    where=str(self.file),
                    hint=near(name, names) if names else "there are no keys",
                )
            keys[:] = [key for key in keys if key.name != name]

    @contextmanager
    def _changing(self) -> Iterator[list[ServeKey]]:
        """The keys, to be changed in place; the file is replaced whole, or stays as it is.

        Raises:
            StoreError: It cannot be written.
        """
        try:
            self.file.parent.mkdir(parents=True, exist_ok=True)
            with FileLock(self.file.with_name("keys.lock"), "keys", wait=10.0):
                keys = list(self._known().values())
                yield keys
                body = {"version": _VERSION, "keys": [asdict(key) for key in keys]}
                text = json.dumps(body, indent=1, ensure_ascii=False)
                replace_text(self.file, text, private=True)
        except OSError as error:
            raise file_error(error, self.file) from error

    def _known(self) -> Mapping[str, ServeKey]:
        with self._lock:
            try:
                stat = self.file.stat()
            except FileNotFoundError:
                self._seen, self._by_hash = None, {}
                return {}
            except OSError as error:
                raise file_error(error, self.file) from error
            state = (stat.st_mtime_ns, stat.st_ino)
            if state != self._seen:
                self._by_hash = {key.hash: key for key in self._read()}
                self._seen = state
            return self._by_hash

    def _read(self) -> Iterator[ServeKey]:
        try:
            body = json.loads(self.file.read_text("utf-8"))
            if body["version"] != _VERSION:
                raise ValueError(f"version {body['version']}")
            for one in body["keys"]:
                yield _key(one)
        except (OSError, ValueError, TypeError, KeyError) as error:
            raise StoreError(
                f"the file of keys cannot be read: {error}",
                where=str(self.file),
                hint="restore it from a backup, or delete it and make new keys",
            ) from error


def _key(body: Mapping[str, Any]) -> ServeKey:
    lists = {name: tuple(body[name]) for name in ("configurations", "filters")}
    key = ServeKey(**{**body, **lists})
    _ = key.conditions
    return key


def _hashed(secret: str) -> str:
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()
