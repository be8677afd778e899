"""Option records: each room declares its settings once, as data, and pydantic builds them.

A room's options are a frozen dataclass whose fields are made with :func:`option`. The
project file, ``--set``, the documentation and the rebuild rule are all derived from them.
"""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Callable, Collection, Iterator, Mapping
from functools import cache
from typing import Any, Literal, TypeAlias, TypeVar

from ._errors import ConfigError, RagwrightError
from ._yaml import Placed, nearest_name, suggest_name

When: TypeAlias = Literal["index", "query"]


def option(default: Any, doc: str, *, when: When = "query", **limits: Any) -> Any:
    """A field of an option record.

    Args:
        default: Value when the project file does not name the key; a callable makes one.
        doc: One sentence for the reference page.
        when: ``index`` where a change needs a rebuild, ``query`` where it does not.
        limits: Bounds that pydantic checks: ``ge``, ``le``, ``gt``, ``lt``, ``min_length``.
    """
    metadata = {"doc": doc, "when": when, **limits}
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


_UNKNOWN = "unexpected_keyword_argument"
"""pydantic's type of an unknown key: it is reported before a missing one, which it may mean."""


@cache
def _adapter(kind: Any) -> Any:
    """What reads a record; a sweep reads all sections again for each trial."""
    from pydantic import ConfigDict, TypeAdapter

    return TypeAdapter(kind | None, config=ConfigDict(extra="forbid"))


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
    from pydantic import ValidationError

    if values is None:
        values = {}
    if not isinstance(values, Mapping):
        raise ConfigError(
            f"{'.'.join(path)} must be a mapping of keys, not {_kind(values)}",
            where=placed.where(*path),
            hint=f"its keys: {', '.join(typing.get_type_hints(kind))}",
        )
    hints = typing.get_type_hints(kind)
    arguments = {
        key: _in_shape(hints.get(key), value, placed, (*path, key)) for key, value in values.items()
    }
    try:
        built: T = _adapter(typing.cast("Any", kind)).validate_python(arguments)
    except ValidationError as error:
        faults = sorted(error.errors(), key=lambda fault: fault["type"] != _UNKNOWN)
        raise _explain(faults[0], kind, placed, path) from error
    except RagwrightError as error:
        raise ConfigError(
            error.what, where=error.where or placed.where(*path), hint=error.hint
        ) from error
    return built


def _in_shape(hint: Any, value: Any, placed: Placed, path: tuple[str, ...]) -> Any:
    """A plain value as its type wants it: inner records, one value for a list, empty for none."""
    if _is_record(hint):
        return build_options(hint, value, placed, path)
    if typing.get_origin(hint) is tuple:
        alone = isinstance(value, str | int | float) and typing.get_args(hint)[-1] is ...
        items = [value] if alone else value
        item = typing.get_args(hint)[0]
        if _is_record(item) and isinstance(items, list):
            return [
                build_options(item, each, placed, (*path, str(at))) for at, each in enumerate(items)
            ]
        return items
    return "" if value is None and hint is str else value


def _explain(
    fault: Mapping[str, Any], kind: Any, placed: Placed, path: tuple[str, ...]
) -> ConfigError:
    """The error for what pydantic found, in terms of YAML."""
    key = str(fault["loc"][0])
    here, sentence, bad = (*path, key), fault["msg"], fault["input"]
    fields = {field.name: field for field in dataclasses.fields(kind)}
    if fault["type"] == _UNKNOWN:
        return unknown_key(key, fields, placed, here)
    hint = typing.get_type_hints(kind)[key]
    if fault["type"] == "missing" and len(fault["loc"]) == 1:
        return ConfigError(
            f"{'.'.join(path) or 'the file'} needs the key {key!r}",
            where=placed.where(*path),
            hint=_describe(fields[key], hint),
        )
    near = nearest_name(bad, _allowed(hint)) if isinstance(bad, str) else ""
    said = f"{say_plainly(sentence)}, not {_kind(bad)}"
    return ConfigError(
        f"{'.'.join(here)} {_COUNTS.get(fault['type'], said)}",
        where=placed.where(*here),
        hint=f"did you mean {near}?" if near else _describe(fields[key], hint),
    )


_COUNTS = {"missing": "has too few values", "too_long": "has too many values"}
"""pydantic's faults of a list of fixed length, in words."""

_PLAIN_WORDS: Mapping[str, str] = {
    "Value error, ": "",
    "Input should be": "must be",
    "greater than or equal to": "at least",
    "less than or equal to": "at most",
    "greater than": "above",
    "less than": "below",
    "a valid string": "text",
    "a valid integer": "a whole number",
    "a valid tuple": "a list",
    "a valid dictionary": "a mapping",
    "a valid ": "a ",
}
"""pydantic's words, and YAML's."""


def say_plainly(sentence: str) -> str:
    """A sentence of pydantic about a wrong value, in words for users."""
    for python, plain in _PLAIN_WORDS.items():
        sentence = sentence.replace(python, plain)
    return sentence.partition(", unable to")[0]


def unknown_key(
    key: str, known: Collection[str], placed: Placed, path: tuple[str, ...]
) -> ConfigError:
    """The error for an unknown key, with the nearest known ones."""
    above = "".join(f"{part}." for part in path[:-1])
    hint = suggest_name(key, known, above)
    return ConfigError(f"unknown key {'.'.join(path)!r}", where=placed.where(*path), hint=hint)


def overlaid(base: Any, path: tuple[str, ...], value: Any) -> dict[str, Any]:
    """A copy of nested mappings with one value set."""
    copy = dict(base) if isinstance(base, Mapping) else {}
    head, *rest = path
    copy[head] = overlaid(copy.get(head), tuple(rest), value) if rest else value
    return copy


def describe_options(
    kind: type[Any], path: tuple[str, ...] = ()
) -> Iterator[tuple[str, str, Any, str]]:
    """(key, when, default, sentence) of every option, nested records included."""
    hints = typing.get_type_hints(kind)
    for field in dataclasses.fields(kind):
        nested, key = hints[field.name], (*path, field.name)
        if _is_record(nested):
            yield from describe_options(nested, key)
            continue
        doc, when = _describe(field, nested), field.metadata.get("when", "query")
        yield ".".join(key), when, _default(field), doc


def list_changed_options(record: Any) -> dict[str, Any]:
    """An option record as plain values: only those that differ from the defaults."""
    changes: dict[str, Any] = {}
    for field in dataclasses.fields(record):
        value = getattr(record, field.name)
        if dataclasses.is_dataclass(value):
            if inner := list_changed_options(value):
                changes[field.name] = inner
        elif value != _default(field):
            if isinstance(value, tuple):
                value = [
                    list_changed_options(v) if dataclasses.is_dataclass(v) else v for v in value
                ]
            changes[field.name] = value
    return changes


def _is_record(hint: Any) -> bool:
    return isinstance(hint, type) and dataclasses.is_dataclass(hint)


def _default(field: dataclasses.Field[Any]) -> Any:
    factory = field.default_factory
    return field.default if factory is dataclasses.MISSING else factory()


def _describe(field: dataclasses.Field[Any], hint: Any) -> str:
    """The sentence of an option, with the values that it allows."""
    doc = str(field.metadata.get("doc", ""))
    allowed = [value for value in _allowed(hint) if value]
    if any(value not in doc for value in allowed):
        doc = f"{doc} Allowed: {', '.join(allowed)}."
    return doc.strip()


def _allowed(hint: Any) -> list[str]:
    if typing.get_origin(hint) is Literal:
        return [text for text in typing.get_args(hint) if isinstance(text, str)]
    return [text for part in typing.get_args(hint) for text in _allowed(part)]


def _kind(value: Any) -> str:
    if value is None:
        return "nothing"
    if isinstance(value, Mapping):
        return "a mapping"
    return "a list" if isinstance(value, list) else repr(value)
