"""Settings of a database that several machines share."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ..core import ConfigError, holds_secret, option
from ..ledger import SharedPlace

if TYPE_CHECKING:
    from ..ledger import Place

_NAME = re.compile(r"[a-z_][a-z0-9_]{0,39}")


@dataclass(frozen=True, slots=True)
class SharedOptions:
    """A database where several machines keep replies, runs and outputs together."""

    address: str = option(
        "",
        "PostgreSQL database for replies, runs and outputs: postgresql://host/database ([pg]); "
        "empty: files in .ragwright.",
    )
    schema: str = option(
        "ragwright",
        "Beginning of the names of its schemas; projects in one database need different ones.",
    )
    patience: float = option(
        30.0,
        "Most seconds to wait for the database when it is away; `ragwright serve` waits at most 3.",
        ge=0,
    )

    def __post_init__(self) -> None:
        """Refuse other databases, passwords, and names that would have to be quoted."""
        if self.address and not self.address.startswith(("postgresql://", "postgres://", "${")):
            raise ConfigError(
                "the shared database must be PostgreSQL",
                hint="write shared.address: postgresql://host/database",
            )
        if holds_secret(self.address):
            raise ConfigError(
                "the address of the shared database holds a password",
                hint="leave it out: it is read from PGPASSWORD or ~/.pgpass; or name a variable, "
                "postgresql://user:${MY_PASSWORD}@host/database",
            )
        if not _NAME.fullmatch(self.schema):
            raise ConfigError(
                f"{self.schema!r} is not a name of a schema",
                hint="use lower-case letters, digits and _, at most 40",
            )

    def place(self, file: Path) -> Place:
        """Return where tables are kept: the shared database if there is one, else the file."""
        if not self.address:
            return file
        return SharedPlace(self.address, self.schema, self.patience)
