"""Markdown: front matter to metadata, headings to sections, the text unchanged."""

from __future__ import annotations

import math
import re
import tomllib
from typing import Any

from ..core import (
    GROUPS,
    ConfigError,
    MalformedSourceError,
    MetaValue,
    Placed,
    UnclearGroupsError,
    group_names,
    mentions_groups,
    misspelt_groups,
    parse_yaml,
)
from ._encoding import decode
from ._extract import Extract, markdown_headings, sections_of
from ._normalise import clean_metadata, guess_language, iso_date, normalise
from ._options import SourceOptions

_FRONT = re.compile(r"\A\s*---[ \t]*\n(.*?)(?<=\n)(?:---|\.\.\.)[ \t]*(?:\n|\Z)", re.DOTALL)
_TOML = re.compile(r"\A\s*\+\+\+[ \t]*\n(.*?)(?<=\n)\+\+\+[ \t]*(?:\n|\Z)", re.DOTALL)
_OPENED = re.compile(
    r"\A\s*(?:---|\+\+\+)[ \t]*\n(?:[ \t]*(?:#[^\n]*)?\n)*(?:[\w-]+:(?:\s|\Z)|[\w-]+[ \t]*=)"
)
_KEY = re.compile(r"""["']?([^\s"'#:-][^"':]*)["']?[ \t]*:(?:\s|\Z)""")
_LIMIT = 65_536
_LARGEST = 2**63
_HOLDS = "a filter could not use it, so an excluding filter would not exclude the document"
_CREATED = ("created", "date", "published", "publish_date", "date_created")
_MODIFIED = ("modified", "updated", "lastmod", "last_modified", "ms_date")


def read_markdown(data: bytes, where: str, options: SourceOptions) -> Extract:
    """Read a Markdown file; refused if its front matter cannot be read completely.

    Raises:
        MalformedSourceError: The front matter cannot be read completely.
        UnsupportedSourceError: The bytes are not text.
    """
    decoded = decode(data, where, options.encoding)
    text = normalise(decoded.text)
    front, text = _front_matter(text, where)
    metadata = clean_metadata({"encoding": decoded.unusual, **front})
    headings = markdown_headings(text)
    title = str(metadata.pop("title", ""))
    language = str(metadata.pop("lang", metadata.pop("language", "")))[:2].lower()
    return Extract(
        text=text,
        title=title or (headings[0][0] if headings else ""),
        language=language or guess_language(text),
        created=_date(metadata, _CREATED),
        modified=_date(metadata, _MODIFIED),
        media_type="text/markdown",
        sections=sections_of(headings, len(text)),
        metadata=metadata,
        faults=decoded.faults,
    )


def _date(metadata: dict[str, Any], names: tuple[str, ...]) -> str:
    return next((d for name in names if (d := iso_date(metadata.get(name)))), "")


def _front_matter(text: str, where: str) -> tuple[dict[str, MetaValue], str]:
    """Return what :func:`_parsed_front_matter` does; without groups, a fault leaves readers alone.

    Raises:
        UnclearGroupsError: It cannot be read, and seems to name groups of readers.
        MalformedSourceError: It cannot be read.
    """
    try:
        return _parsed_front_matter(text, where)
    except MalformedSourceError as error:
        match = _FRONT.match(text[:_LIMIT])
        if mentions_groups(match[1] if match else text[:_LIMIT]):
            raise UnclearGroupsError(error.what, where=error.where, hint=error.hint) from error
        raise


def _parsed_front_matter(text: str, where: str) -> tuple[dict[str, MetaValue], str]:
    """Return the fields of the front matter as metadata, and the text below it.

    A hard filter may use any of them: a document whose fields were dropped would pass a filter
    that excludes it, so front matter is read completely or the file is refused.

    Two rules around something other than a mapping are text, not front matter.

    Raises:
        MalformedSourceError: The front matter is opened and not closed, is not YAML, or holds a
            value that metadata cannot, such as an infinite number.
    """
    match = _FRONT.match(text[:_LIMIT]) or _TOML.match(text[:_LIMIT])
    if match is None:
        if _OPENED.match(text):
            raise MalformedSourceError(
                f"the front matter is not closed within {_LIMIT:,} characters",
                where=f"{where}:1",
                hint="close it with the same line, or put a blank line and text in front of it",
            )
        return {}, text
    before = text.count("\n", 0, match.start(1))
    try:
        if match[0].lstrip().startswith("+++"):
            placed = _parsed_toml(match[1], where)
        else:
            placed = parse_yaml(match[1], where, as_written=True)
    except ConfigError as error:
        raise _unreadable(error, match[1], where, before) from error
    if not isinstance(placed.value, dict):
        return {}, text
    for key, value in placed.value.items():
        _check_groups(key, value, placed, where, before)
    fields = {key: _flat(value) for key, value in placed.value.items()}
    names: dict[str, str] = {}
    for key, value in fields.items():
        fault = _fault(key, value)
        for name in clean_metadata({key: value}):
            other = names.setdefault(name, key)
            if other != key:  # one would hide the other
                fault = fault or f"becomes the same field as {other!r}"
        if fault:
            raise MalformedSourceError(
                f"front matter: {key!r} {fault}: {_HOLDS}",
                where=f"{where}:{placed.lines.get((key,), 1) + before}",
                hint="write a text, a number, a date, true or false, or a list of them",
            )
    return clean_metadata(fields), text[match.end() :]


def _parsed_toml(front: str, where: str) -> Placed:
    """Parse TOML to plain values; a number that is written in another way stays text.

    Raises:
        ConfigError: It is not TOML.
    """

    def number(written: str) -> Any:
        return float(written) if str(float(written)) == written else written

    try:
        return Placed(tomllib.loads(front, parse_float=number), file=where)
    except tomllib.TOMLDecodeError as error:
        line = re.search(r"line (\d+)", str(error))
        raise ConfigError(str(error), where=f"{where}:{line[1] if line else 1}") from error


def _check_groups(key: Any, value: Any, placed: Placed, where: str, before: int) -> None:
    """Refuse groups of readers that cannot be read: the document would be everyone's.

    Raises:
        UnclearGroupsError: The value names no groups, or the key is ``groups`` misspelt.
    """
    name = str(key).strip().lower()
    line = f"{where}:{placed.lines.get((key,), 1) + before}"
    if misspelt_groups((name,)):
        raise UnclearGroupsError(
            f"front matter: {key!r} is not a field, but nearly {GROUPS!r}",
            where=line,
            hint=f"write {GROUPS}: [hr], or give the field another name",
        )
    if next(iter(clean_metadata({key: "x"})), "") == GROUPS:
        try:
            group_names(value)
        except ConfigError as error:
            raise UnclearGroupsError(
                f"front matter: {key!r}: {error.what}: the document would be everyone's",
                where=line,
                hint=error.hint,
            ) from error


def _flat(value: Any) -> Any:
    """Flatten a nested table or list, so that filters match each of its values."""
    items = value if isinstance(value, list) else [value]
    nested = isinstance(value, dict) or any(isinstance(item, dict | list) for item in items)
    return _leaves(value) if nested else value


def _leaves(value: Any) -> list[Any]:
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        return [leaf for item in value for leaf in _leaves(item)]
    return [] if value is None else [value]


def _fault(key: str, value: Any) -> str:
    """Return the fault of a value; empty if metadata can hold it as it is."""
    items = value if isinstance(value, list) else [value]
    if any(isinstance(item, float) and not math.isfinite(item) for item in items):
        return "is not a finite number"
    if any(isinstance(item, int) and abs(item) >= _LARGEST for item in items):
        return "is a number of more than 64 bits"
    if key.lower() in ("title", "lang", "language") and isinstance(value, list):
        return "is a list"
    return ""


def _unreadable(error: ConfigError, front: str, where: str, before: int) -> MalformedSourceError:
    number = (error.where or "").rpartition(":")[2]
    line = int(number) if number.isdecimal() else 1
    lines = front.split("\n")[:line]
    keys = (match[1].strip() for text in reversed(lines) if (match := _KEY.match(text)))
    key = next(keys, "")
    named = f"front matter, key {key!r}: " if key else "front matter: "
    return MalformedSourceError(
        named + error.what,
        where=f"{where}:{line + before}",
        hint=error.hint or "quote values that contain a colon or begin with a sign",
    )
