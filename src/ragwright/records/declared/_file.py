"""A declared file while it is read: its values with places, and the faults so far."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ...core import (
    ConfigError,
    PatternError,
    Placed,
    RagwrightError,
    RecordsError,
    parse_yaml,
    read_yaml,
    unknown_key,
)


@dataclass(slots=True)
class DeclaredFile:
    """The values of one file, and every fault found in it.

    Attributes:
        readable: It is valid YAML with the right name, so missing keys are intended.
    """

    placed: Placed
    faults: list[RagwrightError] = field(default_factory=list)
    readable: bool = True

    def fault(
        self,
        sentence: str,
        *path: str,
        hint: str | None = None,
        kind: type[RecordsError] = RecordsError,
    ) -> None:
        """Note a fault at a key path."""
        self.faults.append(kind(sentence, where=self.where(*path), hint=hint))

    def where(self, *path: str) -> str:
        """``file:line`` of a key path."""
        return self.placed.where(*path)

    def keys(self, known: Iterable[str], value: Any = None, *path: str) -> dict[str, Any]:
        """The known keys of a mapping; unknown ones, and other values than mappings, are faults.

        Args:
            known: Names of the keys.
            value: The mapping; the whole file without a path.
            path: Path of the mapping.
        """
        names = list(known)
        values = self.mapping(value if path else self.placed.value, *path)
        for key in values:
            if key not in names:
                key_error = unknown_key(key, names, self.placed, (*path, key))
                self.faults.append(make_records_error(key_error))
        return {key: values[key] for key in values if key in names}

    def mapping(self, value: Any, *path: str) -> dict[str, Any]:
        """A mapping, empty if missing; anything else is a fault."""
        if value is None or value == {}:
            return {}
        if isinstance(value, dict):
            return value
        self.fault(f"{_name(path)} must be a mapping of keys, not {_kind(value)}", *path)
        return {}

    def items(self, value: Any, *path: str) -> list[Any]:
        """A list; a single value is a list of one, a missing one an empty list."""
        if value is None:
            return []
        if isinstance(value, dict):
            self.fault(f"{_name(path)} must be a list, not a mapping", *path)
            return []
        return list(value) if isinstance(value, list) else [value]

    def text(self, value: Any, *path: str) -> str | None:
        """A text that is not empty, else None and a fault."""
        if isinstance(value, str) and value:
            return value
        plain = isinstance(value, dict | list) or value is None or value == ""
        kind_of_value = "an empty text" if value == "" else _kind(value)
        self.fault(
            f"{_name(path)} must be a text, not {kind_of_value}",
            *path,
            hint=None if plain else "put it in quotes",
        )
        return None

    def texts(self, value: Any, *path: str) -> tuple[str, ...]:
        """A list of texts; a single one counts as a list of one."""
        texts = [
            self.text(item, *path, str(at)) if isinstance(value, list) else self.text(item, *path)
            for at, item in enumerate(self.items(value, *path))
        ]
        return tuple(item for item in texts if item is not None)


SINGLE_QUOTES = r"use single quotes: in double quotes YAML interprets the \ itself"


def read_declared(file: Path, shown: str, faults: list[RagwrightError]) -> DeclaredFile:
    """A file of a records folder; a missing one is empty.

    Args:
        file: Where it is.
        shown: Name in messages.
        faults: List for its faults; invalid YAML is one.
    """
    if not file.exists():
        return DeclaredFile(Placed({}, file=shown), faults)
    try:
        return DeclaredFile(read_yaml(file, shown), faults)
    except ConfigError as error:
        fault = make_records_error(error)
        if "unknown escape" in fault.what:
            fault = RecordsError(fault.what, where=fault.where, hint=SINGLE_QUOTES)
        faults.append(fault)
        return DeclaredFile(Placed({}, file=shown), faults, readable=False)


def read_declared_text(text: str, shown: str, faults: list[RagwrightError]) -> DeclaredFile:
    """The same of a text, for files that ship with the package."""
    return DeclaredFile(parse_yaml(text, shown), faults)


def make_records_error(error: RagwrightError) -> RecordsError:
    """The same sentence, place and hint as an error about records."""
    if isinstance(error, RecordsError | PatternError):
        return error
    return RecordsError(error.what, where=error.where, hint=error.hint)


def make_plain(value: Any) -> Any:
    """Tuples as lists and mappings as dicts, for :func:`~ragwright.core.value_hash`."""
    if isinstance(value, Mapping):
        return {str(key): make_plain(item) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return [make_plain(item) for item in value]
    return value


def _name(path: tuple[str, ...]) -> str:
    return ".".join(path) if path else "the file"


def _kind(value: Any) -> str:
    if value is None:
        return "nothing"
    if isinstance(value, dict):
        return "a mapping"
    return "a list" if isinstance(value, list) else repr(value)
