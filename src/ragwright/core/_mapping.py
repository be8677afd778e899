"""YAML that holds one mapping of known keys: an unknown key is an error with its line."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from ._errors import ConfigError, PromptError
from ._yaml import Placed, parse_yaml, read_yaml


@dataclass(frozen=True, slots=True)
class Mapped:
    """A YAML mapping and the lines of its keys."""

    placed: Placed

    @property
    def values(self) -> Mapping[str, Any]:
        """The plain values by key."""
        by_key: Mapping[str, Any] = self.placed.value
        return by_key

    @property
    def where(self) -> str:
        """The file."""
        return self.placed.file

    def place(self, key: str) -> str:
        """``file:line`` of a key, the file's first line where the key is not there."""
        return self.placed.where(key)

    def check_keys(self, known: Iterable[str], what: str) -> None:
        """Refuse unknown keys; the error names the nearest known one.

        Raises:
            PromptError: At the first unknown key, with its line.
        """
        allowed = list(known)
        for key in self.values:
            if key not in allowed:
                raise PromptError(
                    f"unknown key {key!r} in {what}",
                    where=self.place(key),
                    hint=suggest_name(key, allowed),
                )

    def text(self, key: str) -> str:
        """The text of a key, empty where it is not given.

        Raises:
            PromptError: The value is not text.
        """
        value = self.values.get(key, "")
        if not isinstance(value, str):
            raise PromptError(
                f"{key!r} must be text, not {type(value).__name__}",
                where=self.place(key),
                hint="put the value in quotes",
            )
        return value.strip()


def suggest_name(key: str, known: Iterable[str]) -> str:
    """A hint with the nearest known key, or with all of them."""
    names = sorted(known)
    close = difflib.get_close_matches(key, names, n=1)
    return f"did you mean {close[0]!r}?" if close else f"known: {', '.join(names)}"


def list_names(names: Sequence[str], most: int) -> str:
    """The first names of a list, and how many more there are."""
    more = f" and {len(names) - most:,} more" if len(names) > most else ""
    return f"{', '.join(names[:most])}{more}"


def read_mapping(path: Path) -> Mapped:
    """The mapping in a YAML file.

    Raises:
        PromptError: No such file, not YAML, a key given twice, or not a mapping; with file and
            line.
    """
    try:
        return _mapped_of(read_yaml(path))
    except ConfigError as error:
        raise PromptError(error.what, where=error.where, hint=error.hint) from error


def _parse_mapping(text: str, where: str) -> Mapped:
    """The mapping in a YAML text; ``where`` names it in errors (see :func:`read_mapping`)."""
    try:
        return _mapped_of(parse_yaml(text, where))
    except ConfigError as error:
        raise PromptError(error.what, where=error.where, hint=error.hint) from error


@cache
def load_shipped_mapping(room: str, path: str) -> Mapped:
    """The mapping in a YAML file that is shipped in a room's folder ``data``."""
    from importlib.resources import files

    file = files(f"ragwright.{room}") / "data" / path
    return _parse_mapping(file.read_text("utf-8"), path.rpartition("/")[2])


def _mapped_of(placed: Placed) -> Mapped:
    if not isinstance(placed.value, dict) or not placed.value:
        raise PromptError("the file must hold keys and values", where=placed.file)
    return Mapped(placed)
