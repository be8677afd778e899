"""Option records: each room declares its settings once, as data, and they are built from it.

A room's options are a frozen dataclass whose fields are made with :func:`option`. The
project file, ``--set``, the documentation and the rebuild rule are all derived from them.
"""

from __future__ import annotations

import dataclasses
import difflib
import operator
import typing
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Any, Literal, TypeAlias, TypeVar

from ._errors import ConfigError, RagwrightError
from ._yaml import Placed

When: TypeAlias = Literal["index", "query"]


def option(
    default: Any, doc: str, *, when: When = "query", example: str = "", **limits: Any
) -> Any:
    """A field of an option record.

    Args:
        default: Value when the project file does not name the key; a callable makes one.
        doc: One sentence for the reference page.
        when: ``index`` where a change needs a rebuild, ``query`` where it does not.
        example: A value, as YAML, for messages; empty where the type shows one.
        limits: Bounds checked at the door: ``ge``, ``le``, ``gt``, ``lt``, ``min_length``.
    """
    metadata = {"doc": doc, "when": when, "example": example, "limits": limits}
    if callable(default):
        return dataclasses.field(default_factory=default, metadata=metadata)
    return dataclasses.field(default=default, metadata=metadata)


@dataclasses.dataclass(frozen=True, slots=True)
class NamedOptions:
    """A section of the project file whose keys are names, such as ``jobs``.

    Attributes:
        options: Option record of the keys below each name.
        read: Reads the plain value of the section; raises ConfigError with file and line.
    """

    options: type[Any]
    read: Callable[[Any, Placed], Mapping[str, Any]]


T = TypeVar("T")

_BOUNDS: Mapping[str, tuple[str, Callable[[Any, Any], bool]]] = {
    "ge": ("at least", operator.ge),
    "gt": ("above", operator.gt),
    "le": ("at most", operator.le),
    "lt": ("below", operator.lt),
    "min_length": ("of a length of at least", lambda value, limit: len(value) >= limit),
}
"""The text for each bound, and a function that checks a value against it."""

_known_hints = cache(typing.get_type_hints)


def _hints(kind: Any) -> Mapping[str, Any]:
    """Types of the fields of a record; every trial of a sweep reads all sections again."""
    return _known_hints(kind)


def build_options(kind: type[T], values: Any, placed: Placed, path: tuple[str, ...]) -> T:
    """An option record from a mapping of plain values.

    Args:
        kind: A frozen dataclass; its fields are the keys.
        values: The value at ``path``; None means "all defaults".
        placed: Where the values were written, for messages.
        path: Keys that lead there.

    Raises:
        ConfigError: Unknown key (the nearest is named), wrong type or value out of bounds,
            with file and line.
    """
    if values is None:
        values = {}
    if not isinstance(values, Mapping):
        raise ConfigError(
            f"{'.'.join(path)} must be a mapping of keys, not {_kind(values)}",
            where=placed.where(*path),
            hint=f"for example {_example(path, _mapping_of(kind))}",
        )
    fields = {f.name: f for f in dataclasses.fields(kind)}  # type: ignore[arg-type]
    hints = _hints(kind)
    arguments: dict[str, Any] = {}
    for key, value in values.items():
        if key not in fields:
            raise unknown_key(key, fields, placed, (*path, key))
        arguments[key] = _valid_value(fields[key], hints[key], value, placed, (*path, key))
    missing = [name for name, field in fields.items() if name not in arguments and _needed(field)]
    if missing:
        raise ConfigError(
            f"{'.'.join(path)} needs the key {missing[0]!r}", where=placed.where(*path)
        )
    try:
        return kind(**arguments)
    except RagwrightError as error:
        raise ConfigError(
            error.what, where=error.where or placed.where(*path), hint=error.hint
        ) from error


def unknown_key(
    key: str, known: typing.Iterable[str], placed: Placed, path: tuple[str, ...]
) -> ConfigError:
    """The error for an unknown key, with the nearest known ones."""
    names = sorted(known)
    near = difflib.get_close_matches(key, names, n=2, cutoff=0.5)
    hint = f"did you mean {' or '.join(near)}?" if near else f"known keys: {', '.join(names)}"
    return ConfigError(f"unknown key {'.'.join(path)!r}", where=placed.where(*path), hint=hint)


def overlaid(base: Any, path: tuple[str, ...], value: Any) -> dict[str, Any]:
    """A copy of nested mappings with one value set."""
    copy = dict(base) if isinstance(base, Mapping) else {}
    head, *rest = path
    copy[head] = overlaid(copy.get(head), tuple(rest), value) if rest else value
    return copy


def described_options(
    kind: type[Any], path: tuple[str, ...] = ()
) -> Iterator[tuple[str, str, Any, str]]:
    """(key, when, default, sentence) of every option, nested records included."""
    hints = _hints(kind)
    for field in dataclasses.fields(kind):
        nested = hints[field.name]
        key = (*path, field.name)
        if dataclasses.is_dataclass(nested) and isinstance(nested, type):
            yield from described_options(nested, key)
            continue
        if field.default_factory is not dataclasses.MISSING:
            default = field.default_factory()
        else:
            default = field.default
        meta = field.metadata
        doc = meta.get("doc", "")
        allowed = [value for value in _allowed(nested) if value]
        if any(value not in doc for value in allowed):
            doc = f"{doc} Allowed: {', '.join(allowed)}."
        yield ".".join(key), meta.get("when", "query"), default, doc


def changed_options(record: Any) -> dict[str, Any]:
    """An option record as plain values: only those that differ from the defaults."""
    changes: dict[str, Any] = {}
    for field in dataclasses.fields(record):
        value = getattr(record, field.name)
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            inner = changed_options(value)
            if inner:
                changes[field.name] = inner
            continue
        if field.default_factory is not dataclasses.MISSING:
            default = field.default_factory()
        else:
            default = field.default
        if value != default:
            changes[field.name] = _plain_list(value) if isinstance(value, tuple) else value
    return changes


def _plain_list(values: tuple[Any, ...]) -> list[Any]:
    """A tuple as a list; records in it hold only values that differ from their defaults."""
    return [changed_options(v) if dataclasses.is_dataclass(v) else v for v in values]


def _valid_value(
    field: dataclasses.Field[Any], hint: Any, value: Any, placed: Placed, path: tuple[str, ...]
) -> Any:
    from pydantic import TypeAdapter, ValidationError

    if dataclasses.is_dataclass(hint) and isinstance(hint, type):
        return build_options(hint, value, placed, path)
    if typing.get_origin(hint) is tuple:
        if isinstance(value, str | int | float):
            value = [value]  # a single value in place of a list
        item = typing.get_args(hint)[0]
        if dataclasses.is_dataclass(item) and isinstance(item, type) and isinstance(value, list):
            return tuple(
                build_options(item, each, placed, (*path, str(at))) for at, each in enumerate(value)
            )
    if value is None and hint is str:
        value = ""
    limits = {k: v for k, v in field.metadata.get("limits", {}).items() if v is not None}
    name = ".".join(path)
    try:
        valid = TypeAdapter(hint).validate_python(value)
    except ValidationError as error:
        first = error.errors()[0]
        # Report the wrong item of a list, not the whole list.
        bad = first["input"] if first["loc"] else value
        raise ConfigError(
            f"{name}: {_yaml_sentence(first['msg'])}, not {_kind(bad)}",
            where=placed.where(*path),
            hint=_meant(bad, hint) or _advice(field, hint, path),
        ) from error
    for bound, limit in limits.items():
        words, kept = _BOUNDS[bound]
        if valid is not None and not kept(valid, limit):
            raise ConfigError(
                f"{name} must be {words} {limit}, not {value!r}", where=placed.where(*path)
            )
    return valid


def _advice(field: dataclasses.Field[Any], hint: Any, path: tuple[str, ...]) -> str:
    """Return the description of a key with an example of it."""
    doc = field.metadata.get("doc") or ""
    example = f"for example {_example(path, _value_of(field, hint))}"
    return f"{doc} {example[0].upper()}{example[1:]}" if doc else example


def _example(path: tuple[str, ...], value: str) -> str:
    if not path:  # a file of its own
        return value
    if path[-1].isdigit():
        value = f"[{value}]"
    return f"{'.'.join(part for part in path if not part.isdigit())}: {value}"


def _mapping_of(kind: type[Any]) -> str:
    """A mapping with the keys that a record needs, or its first two, as YAML on one line."""
    hints = typing.get_type_hints(kind)
    fields = dataclasses.fields(kind)
    needed = [field for field in fields if _needed(field)]
    needed += [field for field in fields[:2] if field not in needed]
    pairs = [f"{field.name}: {_value_of(field, hints[field.name])}" for field in needed]
    return "{" + ", ".join(pairs) + "}"


def _value_of(field: dataclasses.Field[Any], hint: Any) -> str:
    """A value of the right type, as YAML: the default where it shows the type."""
    default = field.default
    if example := field.metadata.get("example"):
        return str(example)
    if isinstance(default, int | float) and not isinstance(default, bool):
        return f"{default:g}"
    if isinstance(default, str) and default:
        return default
    if field.name.endswith("model"):
        return "provider:name"
    return _value_of_type(hint)


def _value_of_type(hint: Any) -> str:
    """An example of a type, as YAML."""
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if hint is bool:
        return "true"
    if hint in (int, float):
        return "5" if hint is int else "0.5"
    if origin is typing.Literal:
        return str(inner[0])
    if dataclasses.is_dataclass(hint) and isinstance(hint, type):
        return _mapping_of(hint)
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return "{name: " + _value_of_type(inner[1]) + "}"
    if isinstance(origin, type) and issubclass(origin, tuple | list):
        return "[" + _value_of_type(inner[0]) + "]"
    if inner:  # a union: the first that is not None
        return _value_of_type(next(member for member in inner if member is not type(None)))
    return "text"


def _meant(value: Any, hint: Any) -> str:
    """The nearest of the texts that a type allows, as a question; empty where none is near."""
    near = difflib.get_close_matches(value, _allowed(hint), n=1) if isinstance(value, str) else []
    return f"did you mean {near[0]!r}?" if near else ""


def _allowed(hint: Any) -> list[str]:
    """The texts that a type allows, where it lists them."""
    parts = [hint]
    allowed: list[str] = []
    while parts:
        part = parts.pop()
        if typing.get_origin(part) is typing.Literal:
            allowed += [text for text in typing.get_args(part) if isinstance(text, str)]
        else:
            parts += typing.get_args(part)
    return allowed


def _yaml_sentence(message: str) -> str:
    """A type error in YAML's terms."""
    sentence = (
        message.lower()
        .removeprefix("value error, ")
        .partition(", unable to")[0]
        .replace("input should be ", "must be ")
    )
    for python, plain in (("tuple", "list"), ("dictionary", "mapping"), ("valid string", "text")):
        sentence = sentence.replace(f"a valid {python}", f"a {plain}").replace(
            f"a {python}", f"a {plain}"
        )
    return sentence.replace("a text", "text").replace("a valid integer", "a whole number")


def _needed(field: dataclasses.Field[Any]) -> bool:
    return field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING


def _kind(value: Any) -> str:
    if value is None:
        return "nothing"
    if isinstance(value, Mapping):
        return "a mapping"
    if isinstance(value, list):
        return "a list"
    return repr(value)
