"""Sections of a project file beside those of the base: of parts and stages.

They are found by name and imported when something uses them.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, TypeAlias

from ..core import (
    ConfigError,
    NamedOptions,
    Placed,
    PluginError,
    addition,
    build_options,
    find_additions,
    holds_secret,
    load_object,
    option,
)
from ..ledger import Place, SharedPlace

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


SectionKind: TypeAlias = type[Any] | NamedOptions
"""The option record of a section, or that of the names below it."""


def section_kind(name: str, retrieve: Any = None) -> SectionKind | None:
    """The option record of a section that is not of the base; None if there is no such section.

    Args:
        name: Name of the section.
        retrieve: The section ``retrieve``, whose stages may have sections: its record or its plain
            value.

    Raises:
        PluginError: It cannot be imported.
    """
    known = addition("sections", name)
    if known is not None:
        return _checked_kind(known.load(), known.address)  # type: ignore[no-any-return]
    known = addition("stages", name)
    if known is not None:
        return _checked_kind(getattr(known.load(), "settings", None), known.address)  # type: ignore[no-any-return]
    return stage_sections(retrieve).get(name)


def stage_sections(retrieve: Any) -> dict[str, type[Any]]:
    """Sections of the stages that the section ``retrieve`` names."""
    kinds: dict[str, type[Any]] = {}
    for name in _named_stages(retrieve):
        known = None if ":" in name else addition("stages", name)
        if ":" not in name and known is None:
            continue  # the search reports unknown names
        plugin = known.load() if known else load_object(name, where="retrieve.stages")
        kind = _checked_kind(getattr(plugin, "settings", None), name)
        section = str(getattr(plugin, "name", "")) or (name if known else "")
        if kind is not None and section:
            kinds[section] = kind
    return kinds


def is_of_a_part(name: str) -> bool:
    """True if a part declares the section; imports nothing of the part but its declaration."""
    return addition("sections", name) is not None


class PartSections(Mapping[str, Any]):
    """Sections of a project file that are not of the base; those of parts are read when used.

    Args:
        read: Sections that were read.
        unread: Plain values of the others.
        placed: The project file.
    """

    def __init__(self, read: Mapping[str, Any], unread: Mapping[str, Any], placed: Placed) -> None:
        self._read = dict(read)
        self._unread = dict(unread)
        self._placed = placed

    def __getitem__(self, name: str) -> Any:
        """The section's option record.

        Raises:
            ConfigError: A key or value is wrong, with file and line.
            PluginError: The part cannot be imported.
        """
        if name not in self._read:
            value = self._unread[name]
            kind = section_kind(name)
            assert kind is not None, "settings_from keeps sections of parts alone unread"
            self._read[name] = read_section(kind, value, self._placed, name)
        return self._read[name]

    def __iter__(self) -> Iterator[str]:
        return iter({**self._read, **self._unread})

    def __len__(self) -> int:
        return len({**self._read, **self._unread})


def list_sections() -> Iterator[tuple[str, SectionKind]]:
    """Sections of all installed parts and stages; what cannot be imported is left out."""
    for name in section_names():
        try:
            kind = section_kind(name)
        except PluginError:  # `ragwright doctor` reports it
            continue
        if kind is not None:
            yield name, kind


def section_names() -> list[str]:
    """Names that sections of installed packages can have."""
    return [*find_additions("sections"), *find_additions("stages")]


def read_section(kind: SectionKind, value: Any, placed: Placed, name: str) -> Any:
    """A section from its plain value.

    Raises:
        ConfigError: A key or value is wrong, with file and line.
    """
    if isinstance(kind, NamedOptions):
        return kind.read(value, placed)
    return build_options(kind, value, placed, (name,))


@cache
def default_section(kind: SectionKind, name: str) -> Any:
    """A section that the project file does not have."""
    return read_section(kind, None, Placed({}), name)


def _named_stages(retrieve: Any) -> list[str]:
    """Names under ``retrieve.stages``; none of a faulty value."""
    value: Any = getattr(retrieve, "stages", ())
    if isinstance(retrieve, Mapping):
        value = retrieve.get("stages")
    names = [value] if isinstance(value, str) else value
    return [n for n in names if isinstance(n, str)] if isinstance(names, list | tuple) else []


def _checked_kind(kind: Any, address: str) -> Any:
    """The kind of a section's settings, None for none.

    Raises:
        PluginError: It is not an option record.
    """
    if kind is None or isinstance(kind, NamedOptions) or dataclasses.is_dataclass(kind):
        return kind
    raise PluginError(
        f"the settings of {address} are not an option record",
        where=address,
        hint="write a frozen dataclass whose fields are made with ragwright.core.option",
    )
