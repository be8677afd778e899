"""YAML at the door: mappings with the line of every key, and errors that name it."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..core import PromptError


@dataclass(frozen=True, slots=True)
class Mapped:
    """A YAML mapping: its values, and the line (from 1) of each top-level key."""

    where: str
    values: Mapping[str, Any]
    lines: Mapping[str, int]

    def place(self, key: str) -> str:
        """``file:line`` of a key, the file alone where the key is not there."""
        return f"{self.where}:{self.lines[key]}" if key in self.lines else self.where

    def check_keys(self, known: Iterable[str], what: str) -> None:
        """Refuse keys that are not known; the nearest known one is named.

        Raises:
            PromptError: At the first unknown key, with its line.
        """
        allowed = list(known)
        for key in self.values:
            if key not in allowed:
                raise PromptError(
                    f"unknown key {key!r} in {what}", where=self.place(key), hint=near(key, allowed)
                )

    def text(self, key: str) -> str:
        """The text of a key, empty where it is not given.

        Raises:
            PromptError: The value is no text.
        """
        value = self.values.get(key, "")
        if not isinstance(value, str):
            raise PromptError(
                f"{key!r} must be text, not {type(value).__name__}",
                where=self.place(key),
                hint="put the value in quotes",
            )
        return value.strip()


def near(key: str, known: Iterable[str]) -> str:
    """A hint with the nearest known key, or with all of them."""
    names = sorted(known)
    close = difflib.get_close_matches(key, names, n=1)
    return f"did you mean {close[0]!r}?" if close else f"known: {', '.join(names)}"


def read_mapping(path: Path) -> Mapped:
    """The mapping in a YAML file.

    Raises:
        PromptError: No such file, no YAML (a tab is named as such), a key given twice, or
            something else than a mapping; with file and line.
    """
    try:
        text = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise PromptError(f"cannot read the file: {error}", where=str(path)) from error
    return parse_mapping(text, str(path))


def parse_mapping(text: str, where: str) -> Mapped:
    """The mapping in a YAML text; ``where`` names it in errors (see :func:`read_mapping`)."""
    import yaml

    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
        values = yaml.safe_load(text)
    except yaml.MarkedYAMLError as error:
        _refuse_tabs(text, where)
        mark = error.problem_mark
        line_number = f":{mark.line + 1}" if mark else ""
        raise PromptError(
            f"not valid YAML: {error.problem or error}", where=f"{where}{line_number}"
        ) from error
    except yaml.YAMLError as error:
        raise PromptError(f"not valid YAML: {error}", where=where) from error
    if not isinstance(node, yaml.MappingNode) or not isinstance(values, dict):
        raise PromptError("the file must hold keys and values", where=where)
    lines: dict[str, int] = {}
    for key, _ in node.value:
        number = key.start_mark.line + 1
        if key.value in lines:
            raise PromptError(f"key {key.value!r} is given twice", where=f"{where}:{number}")
        lines[key.value] = number
    return Mapped(where, {str(k): v for k, v in values.items()}, lines)


def _refuse_tabs(text: str, where: str) -> None:
    """Name the first line that is indented with a tab: the parser's own message does not."""
    for number, line in enumerate(text.splitlines(), 1):
        if line.strip() and "\t" in line[: len(line) - len(line.lstrip())]:
            raise PromptError(
                "a tab is used for indentation, which YAML does not allow",
                where=f"{where}:{number}",
                hint="indent with spaces",
            )
