"""YAML with places: every value knows the line it was written on."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import Any

from ._errors import ConfigError


@dataclass(slots=True)
class Placed:
    """A YAML document as plain values, and the line of every key path."""

    value: Any
    lines: dict[tuple[str, ...], int] = field(default_factory=dict)
    file: str = ""
    overrides: dict[tuple[str, ...], str] = field(default_factory=dict)

    def where(self, *path: str) -> str:
        """``file:line`` of a key path, or of the nearest enclosing one, or its override."""
        for length in range(len(path), -1, -1):
            if path[:length] in self.overrides:
                return self.overrides[path[:length]]
            line = self.lines.get(path[:length])
            if line is not None:
                return f"{self.file}:{line}"
        return self.file


def read_yaml(path: Path, shown: str | None = None) -> Placed:
    """A YAML file as values with their lines.

    Raises:
        ConfigError: Not there, not UTF-8, not YAML (a tab, a duplicate key), with file and line.
    """
    try:
        text = path.read_text("utf-8-sig")
    except FileNotFoundError as error:
        raise ConfigError("the file does not exist", where=str(path)) from error
    except UnicodeDecodeError as error:
        line = path.read_bytes()[: error.start].count(b"\n") + 1
        raise ConfigError(
            "the file is not UTF-8", where=f"{shown or path}:{line}", hint="save it as UTF-8"
        ) from error
    except OSError as error:
        raise ConfigError(f"the file cannot be read: {error}", where=str(path)) from error
    return parse_yaml(text, shown or str(path))


def parse_yaml(text: str, file: str) -> Placed:
    """YAML text as values with their lines; raises ConfigError as :func:`read_yaml`."""
    import yaml

    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = "" if mark is None else f":{mark.line + 1}"
        problem = (error.problem or "not valid YAML").strip()
        hint = None
        if "\\t" in problem or "'\t'" in problem or (mark is not None and _tab_at(text, mark.line)):
            problem, hint = "a tab where YAML wants spaces", "indent with spaces"
        elif "another document" in problem:
            problem, hint = "a second document begins here", "keep one, and no line --- behind it"
        raise ConfigError(problem, where=f"{file}{line}", hint=hint) from error
    except yaml.YAMLError as error:
        raise ConfigError(f"not valid YAML: {error}", where=file) from error
    placed = Placed({}, file=file)
    if node is not None:
        placed.value = _value(node, (), placed)
    return placed


def scalar(text: str) -> Any:
    """One value as YAML reads it: ``3`` a number, ``[a, b]`` a list, anything else a text."""
    import yaml

    if not text:
        return ""
    try:
        found = yaml.safe_load(text)
    except yaml.YAMLError:
        return text
    return found.isoformat() if isinstance(found, date) else found


def _tab_at(text: str, line: int) -> bool:
    lines = text.splitlines()
    return line < len(lines) and "\t" in lines[line]


def _value(node: Any, path: tuple[str, ...], placed: Placed) -> Any:
    import yaml

    placed.lines.setdefault(path, node.start_mark.line + 1)
    if isinstance(node, yaml.MappingNode):
        mapping: dict[str, Any] = {}
        for key_node, value_node in node.value:
            key = str(_plain(key_node, placed))
            line = key_node.start_mark.line + 1
            if key in mapping:
                raise ConfigError(
                    f"the key {key!r} is there twice",
                    where=f"{placed.file}:{line}",
                    hint="keep one of them",
                )
            placed.lines[(*path, key)] = line
            mapping[key] = _value(value_node, (*path, key), placed)
        return mapping
    if isinstance(node, yaml.SequenceNode):
        return [_value(item, (*path, str(i)), placed) for i, item in enumerate(node.value)]
    return _plain(node, placed)


def _plain(node: Any, placed: Placed) -> Any:
    import yaml

    try:
        loader = yaml.SafeLoader("")
        try:
            found = loader.construct_object(node, deep=True)
        finally:
            loader.dispose()
        return found.isoformat() if isinstance(found, date) else found
    except yaml.YAMLError as error:
        line = node.start_mark.line + 1
        raise ConfigError(f"not a plain value: {error}", where=f"{placed.file}:{line}") from error
