"""YAML with places: each value knows its line; files of known keys, unknown ones refused."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from functools import cache
from pathlib import Path
from typing import Any

from ._errors import ConfigError, PromptError
from ._text import well_formed

_REPEATED = 100_000
"""Most values that aliases may add: nine aliases of nine aliases, nine times, are 387 million."""

_DIGITS = 1_000
"""Longest number that is read: Python refuses to print one of more than 4,300 digits."""

_TAGS = "tag:yaml.org,2002:"
_KINDS = ("bool", "float", "int", "null", "str", "timestamp")
_SCALARS = frozenset(f"{_TAGS}{name}" for name in _KINDS)
_FAULTS = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)
"""Errors that PyYAML's constructors raise, besides its own, for malformed values."""


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
            if below := [p for p in self.overrides if length and p[:length] == path[:length]]:
                return self.overrides[below[0]]
        return self.file


def read_yaml(path: Path, shown: str | None = None) -> Placed:
    """A YAML file as values with their lines.

    Raises:
        ConfigError: Missing, not UTF-8, not YAML (a tab, a duplicate key), or an invalid value (an
            impossible date, an alias to itself, an unknown tag), with file and line.
    """
    try:
        text = path.read_text("utf-8-sig")
    except FileNotFoundError as error:
        raise ConfigError("no such file", where=str(path), hint="check the path") from error
    except UnicodeDecodeError as error:
        line = path.read_bytes()[: error.start].count(b"\n") + 1
        raise ConfigError(
            "the file is not UTF-8", where=f"{shown or path}:{line}", hint="save it as UTF-8"
        ) from error
    except OSError as error:
        raise ConfigError(f"the file cannot be read: {error}", where=str(path)) from error
    return parse_yaml(text, shown or str(path))


def parse_yaml(text: str, file: str, *, as_written: bool = False) -> Placed:
    """YAML text as values with their lines; raises ConfigError as :func:`read_yaml`.

    ``as_written`` keeps a number as text that is written in another way than Python writes it:
    the version 1.10, the code 007, the time 12:30.
    """
    import yaml

    try:
        return _parse_placed(text, file, as_written)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = "" if mark is None else f":{mark.line + 1}"
        problem = (error.problem or "not valid YAML").strip()
        hint = None
        there = "" if mark is None else "".join(text.splitlines()[mark.line : mark.line + 1])
        if "\\t" in problem or "'\t'" in problem or "\t" in there:
            problem, hint = "a tab where YAML requires spaces", "indent with spaces"
        elif "another document" in problem:
            problem, hint = (
                "a second document begins here",
                "keep one, and remove the line --- behind it",
            )
        raise ConfigError(problem, where=f"{file}{line}", hint=hint) from error
    except yaml.reader.ReaderError as error:
        line = f":{text.count(chr(10), 0, error.position) + 1}"
        raise ConfigError(
            f"the character {error.character!r} is not allowed in YAML", where=f"{file}{line}"
        ) from error


def scalar(text: str, where: str) -> Any:
    """One value as YAML reads it: ``3`` a number, ``[a, b]`` a list, anything else a text.

    Raises:
        ConfigError: YAML with an invalid value, as in :func:`read_yaml`.
    """
    import yaml

    if not text:
        return ""
    if well_formed(text) != text:
        raise ConfigError("the value is not UTF-8", where=where)
    try:
        return _parse_placed(text, where).value
    except yaml.YAMLError:
        return text
    except ConfigError as error:
        raise ConfigError(error.what, where=where, hint=error.hint) from error


def _parse_placed(text: str, file: str, as_written: bool = False) -> Placed:
    """Values with their lines; raises yaml.YAMLError, and ConfigError for invalid values."""
    import yaml

    placed = Placed({}, file=file)
    loader = yaml.SafeLoader(text)
    try:
        node = loader.get_single_node()
        if node is not None:
            placed.value = _Values(placed, loader, len(text), as_written).of(node, ())
    except RecursionError as error:
        raise ConfigError(
            "values are nested in too many levels",
            where=f"{file}:{loader.line + 1}",
            hint="close the brackets",
        ) from error
    finally:
        loader.dispose()
    return placed


class _Values:
    """Plain values of YAML nodes; their lines go to ``placed``."""

    def __init__(self, placed: Placed, loader: Any, length: int, as_written: bool) -> None:
        self._placed = placed
        self._loader = loader
        self._as_written = as_written
        self._open: set[int] = set()
        self._left = length + _REPEATED

    def of(self, node: Any, path: tuple[str, ...]) -> Any:
        """The value of a node under a key path."""
        import yaml

        self._placed.lines.setdefault(path, node.start_mark.line + 1)
        self._left -= 1
        if self._left < 0:
            raise self._fault_at(node, "aliases repeat this value too often", "write it out once")
        if isinstance(node, yaml.ScalarNode):
            return self._read_scalar(node)
        if id(node) in self._open:
            raise self._fault_at(node, "the value holds itself by an alias", "write the value out")
        self._open.add(id(node))
        if isinstance(node, yaml.MappingNode):
            self._check_tag(node, f"{_TAGS}map")
            value: Any = self._read_mapping_node(node, path)
        else:
            self._check_tag(node, f"{_TAGS}seq")
            value = [self.of(item, (*path, str(at))) for at, item in enumerate(node.value)]
        self._open.discard(id(node))
        return value

    def _read_mapping_node(self, node: Any, path: tuple[str, ...]) -> dict[str, Any]:
        import yaml

        mapping: dict[str, Any] = {}
        for key_node, value_node in node.value:
            if not isinstance(key_node, yaml.ScalarNode):
                raise self._fault_at(key_node, "a key is a list or a mapping", "put it in quotes")
            key = str(self._read_scalar(key_node))
            if key in mapping:
                raise self._fault_at(
                    key_node, f"the key {key!r} is given twice", "keep one of them"
                )
            self._placed.lines[(*path, key)] = key_node.start_mark.line + 1
            mapping[key] = self.of(value_node, (*path, key))
        return mapping

    def _read_scalar(self, node: Any) -> Any:
        import yaml

        kind = node.tag.removeprefix(_TAGS)
        if node.tag not in _SCALARS:
            self._check_tag(node, "")
        if kind in ("int", "float") and len(node.value) > _DIGITS:
            length = f"{len(node.value):,}"
            raise self._fault_at(
                node, f"a number of {length} digits", "put it in quotes if it is text"
            )
        try:
            value = self._loader.construct_object(node, deep=True)
        except (yaml.YAMLError, *_FAULTS) as error:
            excerpt = node.value if len(node.value) <= 60 else f"{node.value[:60]}…"
            kind_text = {"timestamp": "date", "bool": "true or false"}.get(kind, kind)
            raise self._fault_at(
                node, f"{excerpt!r} cannot be read as {kind_text}", "put it in quotes if it is text"
            ) from error
        if self._as_written and not node.style and kind in ("int", "float"):
            finite = abs(value) < float("inf")
            return node.value if finite and str(value) != node.value else value
        if isinstance(value, str) and (formed := well_formed(value)) != value:
            if "\ufffd" in formed and formed.count("\ufffd") > value.count("\ufffd"):
                raise self._fault_at(
                    node,
                    "the text holds half a character (a lone surrogate)",
                    r"write the emoji itself, or its number with a large U: \U0001F600",
                )
            return formed
        return value.isoformat() if isinstance(value, date) else value

    def _check_tag(self, node: Any, expected: str) -> None:
        if node.tag != expected:
            tag = node.tag.replace(_TAGS, "!!") if node.tag.startswith(_TAGS) else node.tag
            raise self._fault_at(node, f"the tag {tag} is not supported", "write a plain value")

    def _fault_at(self, node: Any, sentence: str, hint: str) -> ConfigError:
        return ConfigError(
            sentence, where=f"{self._placed.file}:{node.start_mark.line + 1}", hint=hint
        )


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


def suggest_name(key: str, known: Collection[str], above: str = "") -> str:
    """A hint with the known name nearest to one, capitals aside; if none is near, with all names.

    ``above`` stands before the nearest name: the path of a key.
    """
    near = nearest_name(key, known)
    return f"did you mean {above}{near}?" if near else f"known: {list_names(sorted(known), 20)}"


def nearest_name(key: str, known: Iterable[str], least: float = 0.55) -> str:
    """The known name nearest to one, capitals aside; empty if none is as similar as ``least``.

    Similarity is difflib's ratio, 0 to 1.
    """
    names = {name.casefold(): name for name in sorted(known)}
    close = difflib.get_close_matches(key.casefold(), names, n=1, cutoff=least)
    return names[close[0]] if close else ""


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


@cache
def load_shipped_mapping(room: str, path: str) -> Mapped:
    """The mapping in a YAML file that is shipped in a room's folder ``data``."""
    from importlib.resources import files

    file = files(f"ragwright.{room}") / "data" / path
    return _mapped_of(parse_yaml(file.read_text("utf-8"), path.rpartition("/")[2]))


def _mapped_of(placed: Placed) -> Mapped:
    if not isinstance(placed.value, dict) or not placed.value:
        raise PromptError("the file must hold keys and values", where=placed.file)
    return Mapped(placed)
