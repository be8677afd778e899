"""Tags: a name and a pattern; the kind and the display name come from the name."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from ...core import value_hash
from .._patterns import Pattern
from .._seams import TagKind
from ._file import DeclaredFile
from ._patterns import read_pattern

_WORDS = re.compile(r"[\s_-]+")
_KINDS_TOLD = (
    "a name's second word is ask (an ask type), or its last word is tone (a tone) or hook (a "
    "topic); words are separated by blanks, underscores or hyphens"
)


@dataclass(frozen=True, slots=True)
class Tag:
    """One line of tags.yaml.

    Attributes:
        name: As written; the value in the column ``tags`` of silver.
        kind: Derived from the name.
        display: Name in documents and filters; displays of a kind that differ only in case are the
            same, spelled like the first.
        column: Column in which the pattern is searched; the clean text if empty.
        definition: Its meaning, for people and prompts.
        where: ``file:line``.
    """

    name: str
    kind: TagKind
    display: str
    pattern: Pattern
    definition: str = ""
    column: str = ""
    where: str = field(default="", compare=False)

    @property
    def fingerprint(self) -> str:
        """Hash of the pattern and the column, which decide its rows."""
        return value_hash([self.pattern.find, *filter(None, [self.column])])


@dataclass(frozen=True, slots=True)
class Tags:
    """The table of tags, in the order of the file.

    Attributes:
        pattern_seconds: Seconds a pattern may take on one row.
        faulty: Faulty ones, with unusable patterns.
    """

    tags: tuple[Tag, ...] = ()
    pattern_seconds: float = 1.0
    faulty: tuple[Tag, ...] = field(default=(), compare=False)

    @property
    def fingerprint(self) -> str:
        """Hash of everything it says."""
        return value_hash(
            [
                [t.name, t.pattern.find, t.display, t.definition, t.kind, *filter(None, [t.column])]
                for t in self.tags
            ]
        )

    @property
    def fingerprints(self) -> Mapping[str, str]:
        """Hash of the pattern by the tag's name."""
        return {tag.name: tag.fingerprint for tag in self.tags}

    @property
    def names(self) -> tuple[str, ...]:
        """Names in order."""
        return tuple(tag.name for tag in self.tags)

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns that tags are found in besides the text, each once."""
        return tuple(dict.fromkeys(tag.column for tag in self.tags if tag.column))

    def displays(self, kind: TagKind) -> tuple[str, ...]:
        """Display names of a kind, in order, each once."""
        return tuple(dict.fromkeys(tag.display for tag in self.tags if tag.kind == kind))

    def definitions(self) -> Mapping[str, str]:
        """Definition by display name, of the tags that have one."""
        return {tag.display: tag.definition for tag in self.tags if tag.definition}


def tag_kind(name: str) -> tuple[TagKind, str] | None:
    """Kind and display name that follow from a tag's name; None if there is no kind."""
    words = [word for word in _WORDS.split(name.strip()) if word]
    lowered = [word.lower() for word in words]
    kind: TagKind
    if len(words) < 2:
        return None
    if lowered[1] == "ask":
        kind, rest = "ask_type", [words[0], *words[2:]]
    elif lowered[-1] == "tone":
        kind, rest = "tone", words[:-1]
    elif lowered[-1] == "hook":
        kind, rest = "topic", words[:-1]
    else:
        return None
    return kind, " ".join(rest)


def read_tags(declared: DeclaredFile) -> Tags:
    """The tags in a file's values; faults are noted."""
    values = declared.keys(("tags", "pattern_seconds"))
    tags: list[Tag] = []
    faulty: list[Tag] = []
    spelled: dict[tuple[TagKind, str], str] = {}
    for name, value in declared.mapping(values.get("tags"), "tags").items():
        tag = _tag(declared, name, value)
        spelling = spelled.setdefault((tag.kind, tag.display.casefold()), tag.display)
        tag = replace(tag, display=spelling)
        (faulty if tag.pattern.find == "" else tags).append(tag)
    return Tags(tuple(tags), read_seconds(declared, values), tuple(faulty))


def read_seconds(declared: DeclaredFile, values: Mapping[str, Any]) -> float:
    """The key ``pattern_seconds`` of a file: seconds of a pattern on one row."""
    value = values.get("pattern_seconds", 1.0)
    if isinstance(value, bool) or not isinstance(value, int | float) or value <= 0:
        declared.fault(
            f"pattern_seconds must be a number above 0, not {value!r}", "pattern_seconds"
        )
        return 1.0
    return float(value)


def _tag(declared: DeclaredFile, name: str, value: Any) -> Tag:
    """A tag; a faulty one has an empty pattern."""
    path = ("tags", name)
    fields = value if isinstance(value, dict) else {"pattern": value}
    at = path if not isinstance(value, dict) else (*path, "pattern")
    if isinstance(value, dict):
        fields = declared.keys(("pattern", "column", "display", "definition"), value, *path)
    kind = tag_kind(name)
    if kind is None:
        declared.fault(f"the tag {name!r} is of an unknown kind", *path, hint=_KINDS_TOLD)
    pattern = read_pattern(declared, fields.get("pattern"), *at)
    texts = {}
    for key in ("display", "definition", "column"):
        text = declared.text(fields[key], *path, key) if key in fields else None
        texts[key] = (text if key == "column" else " ".join(text.split())) if text else ""
    kind_and_display = kind or ("topic", name)
    whole = pattern if kind is not None and pattern is not None else Pattern("")
    return Tag(
        name,
        kind_and_display[0],
        texts["display"] or kind_and_display[1],
        whole,
        texts["definition"],
        texts["column"],
        declared.where(*path),
    )
