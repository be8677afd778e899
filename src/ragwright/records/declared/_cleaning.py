"""``cleaning.yaml`` and ``tags.yaml``: the steps that clean texts, and the tags found in them."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeAlias, TypeVar

from ...core import Placed, RecordsError, build_options, option, value_hash
from .._patterns import Pattern, Replace, compile_pattern, quote_text, replacement_template
from .._seams import TagKind

T = TypeVar("T")

SINGLE_QUOTES = r"use single quotes: in double quotes YAML interprets the \ itself"


def read_keys(kind: type[T], placed: Placed) -> T:
    """The keys of a file; one without a value counts as missing."""
    values = placed.value
    if isinstance(values, dict):
        values = {key: value for key, value in values.items() if value is not None}
    return build_options(kind, values, placed, ())


def read_text(value: Any, placed: Placed, *path: str) -> str:
    r"""A text that is not empty and has no control characters.

    Raises:
        RecordsError: It is none; YAML makes control characters from ``\b`` in double quotes.
    """
    where = placed.where(*path)
    if not isinstance(value, str) or not value:
        said = "an empty text" if value == "" else "nothing" if value is None else repr(value)
        raise RecordsError(f"{'.'.join(path)} must be a text, not {said}", where=where)
    if any(unicodedata.category(c) == "Cc" and c not in "\t\n\r" for c in value):
        raise RecordsError(
            f"{quote_text(value)} contains a control character", where=where, hint=SINGLE_QUOTES
        )
    return value


def read_texts(value: Any, placed: Placed, *path: str) -> tuple[str, ...]:
    """A list of texts; a single one counts as a list of one."""
    items = value if isinstance(value, list) else [value]
    return tuple(read_text(item, placed, *path, str(at)) for at, item in enumerate(items))


def read_pattern(value: Any, placed: Placed, *path: str) -> Pattern:
    """A pattern that compiles; raises PatternError."""
    pattern = Pattern(read_text(value, placed, *path), placed.where(*path))
    compile_pattern(pattern)
    return pattern


_WORDS = re.compile(r"[\s_-]+")


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
    """

    name: str
    kind: TagKind
    display: str
    pattern: Pattern
    definition: str = ""
    column: str = ""

    @property
    def fingerprint(self) -> str:
        """Hash of the pattern and the column, which decide its rows."""
        return value_hash([self.pattern.find, self.column])


@dataclass(frozen=True, slots=True)
class Tags:
    """The table of tags, in the order of the file.

    Attributes:
        pattern_seconds: Seconds a pattern may take on one row.
    """

    tags: tuple[Tag, ...] = ()
    pattern_seconds: float = 1.0

    @property
    def fingerprint(self) -> str:
        """Hash of everything it says."""
        return value_hash(
            [[t.name, t.display, t.definition, t.kind, t.fingerprint] for t in self.tags]
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
    """Derive the kind and the display name of a tag from its name; None if it fits no kind."""
    words = [word for word in _WORDS.split(name) if word]
    if len(words) < 2:
        return None
    if words[1].lower() == "ask":
        return "ask_type", " ".join([words[0], *words[2:]])
    endings: dict[str, TagKind] = {"tone": "tone", "hook": "topic"}
    kind = endings.get(words[-1].lower())
    return kind and (kind, " ".join(words[:-1]))


@dataclass(frozen=True, slots=True)
class _TagKeys:
    pattern: str = option("", "What is searched.")
    column: str = option("", "Column in which the pattern is searched.")
    display: str = option("", "Name in documents and filters.")
    definition: str = option("", "What it means.")


@dataclass(frozen=True, slots=True)
class _TagsKeys:
    tags: Mapping[str, Any] = option(dict, "Pattern by name.")
    pattern_seconds: float = option(1.0, "Seconds a pattern may take on one row.", gt=0)


def read_tags(placed: Placed) -> Tags:
    """The tags in a file.

    Raises:
        RecordsError: The kind of a tag does not follow from its name.
        ConfigError: A key or a value is wrong.
    """
    keys = read_keys(_TagsKeys, placed)
    tags: list[Tag] = []
    spelled: dict[tuple[TagKind, str], str] = {}
    for name, value in keys.tags.items():
        path = ("tags", name)
        told = tag_kind(name)
        if told is None:
            raise RecordsError(
                f"the tag {name!r} is of an unknown kind",
                where=placed.where(*path),
                hint="a name's second word is ask (an ask type), or its last word is tone (a tone) "
                "or hook (a topic); words are separated by blanks, underscores or hyphens",
            )
        long = value if isinstance(value, dict) else {"pattern": value}
        fields = build_options(_TagKeys, long, placed, path)
        pattern = read_pattern(fields.pattern, placed, *path, "pattern")
        display = " ".join(fields.display.split()) or told[1]
        display = spelled.setdefault((told[0], display.casefold()), display)
        definition = " ".join(fields.definition.split())
        tags.append(Tag(name, told[0], display, pattern, definition, fields.column))
    return Tags(tuple(tags), keys.pattern_seconds)


NAMED_STEPS = (
    "strip",
    "unescape_html",
    "normalise_unicode",
    "squeeze_spaces",
    "control_characters",
)
"""``strip``: no white space at the ends; ``unescape_html``: entities as characters;
``normalise_unicode``: NFKC; ``squeeze_spaces``: every run of white space (line breaks too) as one
blank; ``control_characters``: none but tabs and line breaks."""

CleaningStep: TypeAlias = Replace | str
"""Replacements of a pattern, or the name of a step."""

_FORMS = (
    f"a step is a name ({', '.join(NAMED_STEPS)}), max_repeat: N, "
    "max_repeat: {times: N, except: digits}, or NAME: [patterns]"
)


@dataclass(frozen=True, slots=True)
class Cleaning:
    """The cleaning of texts.

    Attributes:
        steps: In order, each a CleaningStep.
        max_characters: Clean texts of this many characters (code points) or more are left out.
        pattern_seconds: Seconds a pattern may take on one row.
    """

    steps: tuple[Any, ...] = option((), "Steps that clean a text, in order.")
    max_characters: int = option(1100, "Clean texts of this length or more are left out.", ge=1)
    pattern_seconds: float = option(1.0, "Seconds a pattern may take on one row.", gt=0)

    @property
    def fingerprint(self) -> str:
        """Hash of everything that affects the cleaning of a text."""
        steps = [
            [step.pattern.find, step.replacement] if isinstance(step, Replace) else step
            for step in self.steps
        ]
        return value_hash([self.max_characters, steps])


def read_cleaning(placed: Placed) -> Cleaning:
    """The cleaning in a file.

    Raises:
        RecordsError: A step is none, or a pattern does not compile.
        ConfigError: A key or a value is wrong.
    """
    cleaning = read_keys(Cleaning, placed)
    steps: list[CleaningStep] = []
    for at, item in enumerate(cleaning.steps):
        steps += _steps(item, placed, "steps", str(at))
    return replace(cleaning, steps=tuple(steps))


def _steps(item: Any, placed: Placed, *path: str) -> Iterator[CleaningStep]:
    """The steps of one item of the list."""
    if item in NAMED_STEPS:
        yield item
        return
    if not isinstance(item, dict) or any(name in NAMED_STEPS for name in item):
        raise RecordsError(
            f"unknown cleaning step {item!r}", where=placed.where(*path), hint=_FORMS
        )
    for name, value in item.items():
        if name == "max_repeat":
            yield _max_repeat(value, placed.where(*path, name))
            continue
        for at, listed in enumerate(value if isinstance(value, list) else [value]):
            place = (*path, name, str(at)) if isinstance(value, list) else (*path, name)
            pairs = listed.items() if isinstance(listed, dict) else [(listed, "")]
            for find, becomes in pairs:
                here = (*place, find) if isinstance(listed, dict) else place
                pattern = read_pattern(find, placed, *here)
                text = "" if becomes in (None, "") else read_text(becomes, placed, *here)
                step = Replace(name, pattern, text)
                replacement_template(step)
                yield step


def _max_repeat(value: Any, where: str) -> Replace:
    """The step of ``N``, or ``{times: N, except: digits}``."""
    keys = value if isinstance(value, dict) else {"times": value}
    times, spared = keys.get("times"), keys.get("except")
    known = keys.keys() <= {"times", "except"} and spared in (None, "digits")
    if not known or type(times) is not int or times < 1:
        raise RecordsError(f"max_repeat cannot be {value!r}", where=where, hint=_FORMS)
    each = r"\D" if spared else "."
    return Replace("max_repeat", Pattern(rf"(?s)({each})\1{{{times},}}", where), "$1" * times)
