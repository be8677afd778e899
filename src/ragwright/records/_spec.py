"""The declarations of a records folder."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from importlib.resources import files
from pathlib import Path
from typing import TypeVar

from ..core import (
    ConfigError,
    Placed,
    RecordsError,
    nearest_name,
    option,
    parse_yaml,
    read_yaml,
    suggest_name,
)
from ..ingest import EngineOptions
from . import declared
from ._seams import FIELDS, TEXT

T = TypeVar("T")

_FORMATS = "text_formats"
_SHIPPED = "message"
_FILES = ("source", "cleaning", "tags", "rollups", "rules")


@dataclass(frozen=True, slots=True)
class RecordsSpec:
    """The declarations of a folder; each part has a ``fingerprint``."""

    source: declared.SourceSpec
    cleaning: declared.Cleaning
    tags: declared.Tags
    rollups: declared.Rollups
    rules: declared.Rules
    format: declared.TextFormat


def load_spec(
    folder: Path,
    format: str = _SHIPPED,  # noqa: A002 - the key
) -> RecordsSpec:
    """The declarations in a folder; missing files mean defaults.

    Args:
        folder: Holds source.yaml, cleaning.yaml, tags.yaml, rollups.yaml, rules.yaml and
            text_formats/NAME.yaml.
        format: Name of the text format.

    Raises:
        RecordsError: The first fault, with file and line.
    """
    _refuse_misnamed(folder)
    source = _declared(folder, "source", declared.read_source_spec)
    cleaning = _declared(folder, "cleaning", declared.read_cleaning)
    tags = _declared(folder, "tags", declared.read_tags)
    rollups = _declared(folder, "rollups", partial(declared.read_rollups, folder=folder))
    rules = _declared(folder, "rules", partial(declared.read_rules, tags=tags, kept=source.keep))
    fields = (*FIELDS, TEXT, *rules.fields, *source.keep)
    written = _read_format(folder, format, fields)
    return RecordsSpec(source, cleaning, tags, rollups, rules, written)


def load_draft_spec(
    folder: Path,
    format: str = _SHIPPED,  # noqa: A002 - the key
) -> RecordsSpec:
    """The declarations that drafts depend on: rollups with biographies, rules, text format; the
    rest is default.

    Tags and columns of rules and format are not checked, so that a folder with only these files can
    be read.

    Raises:
        RecordsError: The first fault, with file and line.
    """
    rollups = _declared(folder, "rollups", partial(declared.read_rollups, folder=folder))
    rules = _declared(folder, "rules", partial(declared.read_rules, tags=None))
    written = _read_format(folder, format, None)
    return RecordsSpec(
        declared.SourceSpec(), declared.Cleaning(), declared.Tags(), rollups, rules, written
    )


def _declared(folder: Path, name: str, read: Callable[[Placed], T]) -> T:
    """What a reader makes of a file; a missing one is empty."""
    file, shown = folder / f"{name}.yaml", f"{folder.name}/{name}.yaml"
    try:
        return read(read_yaml(file, shown) if file.exists() else Placed({}, file=shown))
    except ConfigError as error:
        hint = declared.SINGLE_QUOTES if "unknown escape" in error.what else error.hint
        raise RecordsError(error.what, where=error.where, hint=hint) from error


def _refuse_misnamed(folder: Path) -> None:
    """Refuse a missing file with a file of a similar name beside it."""
    known = {f"{name}.yaml" for name in _FILES} | {_FORMATS}
    there = {path.name for path in folder.iterdir()} if folder.is_dir() else set()
    for name in sorted(there - known):
        wanted = name.lower().replace(".yml", ".yaml")
        near = nearest_name(wanted, known, least=0.8)
        if near and near not in there:
            raise RecordsError(
                f"unknown file, and {near} is missing",
                where=f"{folder.name}/{name}",
                hint=f"rename it to {near}",
            )


def _read_format(folder: Path, name: str, known: tuple[str, ...] | None) -> declared.TextFormat:
    others = sorted(file.stem for file in (folder / _FORMATS).glob("[!.]*.yaml"))
    if name in others:
        read = partial(declared.read_text_format, name=name, known=known)
        return _declared(folder, f"{_FORMATS}/{name}", read)
    if name == _SHIPPED and not others:
        return load_shipped_format()
    raise RecordsError(
        f"unknown text format {name!r}",
        where=f"{folder.name}/{_FORMATS}",
        hint=f"{suggest_name(name, others or [_SHIPPED])}; the key is records.format",
    )


@cache
def load_shipped_format() -> declared.TextFormat:
    """The shipped text format, for folders without any."""
    file = files("ragwright.records") / "data" / _FORMATS / f"{_SHIPPED}.yaml"
    return declared.read_text_format(parse_yaml(file.read_text("utf-8"), file.name), _SHIPPED)


@dataclass(frozen=True, slots=True)
class RecordsOptions(EngineOptions):
    """Settings of the tables of records; their content is declared in the folder."""

    format: str = option("message", "Text format of the documents.", when="index")
    wait: float = option(600.0, "Seconds to wait for another refresh to end.", ge=0)
