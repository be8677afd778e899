"""A declared file while it is read: its values with places, and the faults so far."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_args

from ...core import (
    ConfigError,
    PatternError,
    Placed,
    RagwrightError,
    RecordsError,
    parse_yaml,
    read_yaml,
    suggest_name,
    unknown_key,
    value_hash,
)
from .._patterns import Pattern, Replace, compile_pattern, quote_text, read_replacement_tokens
from .._seams import TagKind


@dataclass(slots=True)
class DeclaredFile:
    """The values of one file, and every fault found in it.

    Attributes:
        readable: It is valid YAML with the right name, so missing keys are intended.
    """

    placed: Placed
    faults: list[RagwrightError] = field(default_factory=list)
    readable: bool = True

    def fault(
        self,
        sentence: str,
        *path: str,
        hint: str | None = None,
        kind: type[RecordsError] = RecordsError,
    ) -> None:
        """Note a fault at a key path."""
        self.faults.append(kind(sentence, where=self.where(*path), hint=hint))

    def where(self, *path: str) -> str:
        """``file:line`` of a key path."""
        return self.placed.where(*path)

    def keys(self, known: Iterable[str], value: Any = None, *path: str) -> dict[str, Any]:
        """The known keys of a mapping; unknown ones, and other values than mappings, are faults.

        Args:
            known: Names of the keys.
            value: The mapping; the whole file without a path.
            path: Path of the mapping.
        """
        names = list(known)
        values = self.mapping(value if path else self.placed.value, *path)
        for key in values:
            if key not in names:
                key_error = unknown_key(key, names, self.placed, (*path, key))
                self.faults.append(make_records_error(key_error))
        return {key: values[key] for key in values if key in names}

    def mapping(self, value: Any, *path: str) -> dict[str, Any]:
        """A mapping, empty if missing; anything else is a fault."""
        if value is None or value == {}:
            return {}
        if isinstance(value, dict):
            return value
        self.fault(f"{_name(path)} must be a mapping of keys, not {_kind(value)}", *path)
        return {}

    def items(self, value: Any, *path: str) -> list[Any]:
        """A list; a single value is a list of one, a missing one an empty list."""
        if value is None:
            return []
        if isinstance(value, dict):
            self.fault(f"{_name(path)} must be a list, not a mapping", *path)
            return []
        return list(value) if isinstance(value, list) else [value]

    def text(self, value: Any, *path: str) -> str | None:
        """A text that is not empty, else None and a fault."""
        if isinstance(value, str) and value:
            return value
        plain = isinstance(value, dict | list) or value is None or value == ""
        kind_of_value = "an empty text" if value == "" else _kind(value)
        self.fault(
            f"{_name(path)} must be a text, not {kind_of_value}",
            *path,
            hint=None if plain else "put it in quotes",
        )
        return None

    def texts(self, value: Any, *path: str) -> tuple[str, ...]:
        """A list of texts; a single one counts as a list of one."""
        texts = [
            self.text(item, *path, str(at)) if isinstance(value, list) else self.text(item, *path)
            for at, item in enumerate(self.items(value, *path))
        ]
        return tuple(item for item in texts if item is not None)


SINGLE_QUOTES = r"use single quotes: in double quotes YAML interprets the \ itself"


def read_declared(file: Path, shown: str, faults: list[RagwrightError]) -> DeclaredFile:
    """A file of a records folder; a missing one is empty.

    Args:
        file: Where it is.
        shown: Name in messages.
        faults: List for its faults; invalid YAML is one.
    """
    if not file.exists():
        return DeclaredFile(Placed({}, file=shown), faults)
    try:
        return DeclaredFile(read_yaml(file, shown), faults)
    except ConfigError as error:
        fault = make_records_error(error)
        if "unknown escape" in fault.what:
            fault = RecordsError(fault.what, where=fault.where, hint=SINGLE_QUOTES)
        faults.append(fault)
        return DeclaredFile(Placed({}, file=shown), faults, readable=False)


def read_declared_text(text: str, shown: str, faults: list[RagwrightError]) -> DeclaredFile:
    """The same of a text, for files that ship with the package."""
    return DeclaredFile(parse_yaml(text, shown), faults)


def make_records_error(error: RagwrightError) -> RecordsError:
    """The same sentence, place and hint as an error about records."""
    if isinstance(error, RecordsError | PatternError):
        return error
    return RecordsError(error.what, where=error.where, hint=error.hint)


def make_plain(value: Any) -> Any:
    """Tuples as lists and mappings as dicts, for :func:`~ragwright.core.value_hash`."""
    if isinstance(value, Mapping):
        return {str(key): make_plain(item) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return [make_plain(item) for item in value]
    return value


def _name(path: tuple[str, ...]) -> str:
    return ".".join(path) if path else "the file"


def _kind(value: Any) -> str:
    if value is None:
        return "nothing"
    if isinstance(value, dict):
        return "a mapping"
    return "a list" if isinstance(value, list) else repr(value)


def read_pattern(declared: DeclaredFile, value: Any, *path: str) -> Pattern | None:
    """A pattern from a file's value; one that does not compile is a fault."""
    text = declared.text(value, *path)
    if text is None or not _without_controls(declared, text, *path):
        return None
    try:
        compile_pattern(text)
    except PatternError as error:
        declared.fault(error.what, *path, hint=error.hint, kind=PatternError)
        return None
    return Pattern(text, declared.where(*path))


def read_replacement(
    declared: DeclaredFile, value: Any, pattern: Pattern | None, *path: str
) -> str | None:
    """A replacement from a file's value; a group that the pattern lacks is a fault."""
    if value is None or value == "":
        return ""
    text = declared.text(value, *path)
    if text is None or pattern is None or not _without_controls(declared, text, *path):
        return None
    try:
        read_replacement_tokens(text, pattern.find)
    except PatternError as error:
        declared.fault(error.what, *path, hint=error.hint, kind=PatternError)
        return None
    return text


def _without_controls(declared: DeclaredFile, text: str, *path: str) -> bool:
    r"""True if a text has no control characters, which YAML makes from ``\b`` in double quotes."""
    control = next((c for c in text if unicodedata.category(c) == "Cc" and c not in "\t\n\r"), "")
    if control:
        declared.fault(
            f"{quote_text(text)} contains a control character", *path, hint=SINGLE_QUOTES
        )
        return False
    return True


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
        tag = replace(
            tag, display=spelled.setdefault((tag.kind, tag.display.casefold()), tag.display)
        )
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


StepName: TypeAlias = Literal[
    "strip", "unescape_html", "normalise_unicode", "squeeze_spaces", "control_characters"
]

_NAMED: tuple[StepName, ...] = get_args(StepName)
_REPEAT = "max_repeat"
_FORMS = (
    "a step is a name (strip, unescape_html, normalise_unicode, squeeze_spaces, "
    "control_characters), max_repeat: N, max_repeat: {times: N, except: digits}, "
    "or NAME: [patterns]"
)


@dataclass(frozen=True, slots=True)
class NamedStep:
    """A step that is known by name.

    ``strip``: no white space at the ends; ``unescape_html``: entities as characters;
    ``normalise_unicode``: NFKC; ``squeeze_spaces``: every run of white space (line breaks
    too) as one blank; ``control_characters``: none but tabs and line breaks.
    """

    name: StepName


@dataclass(frozen=True, slots=True)
class MaxRepeat:
    """Limits repeats of a character to this number.

    Attributes:
        digits: Also for digits; otherwise ``$10000`` is unchanged.
        where: ``file:line``.
    """

    times: int
    digits: bool = True
    where: str = field(default="", compare=False)


CleaningStep: TypeAlias = Replace | NamedStep | MaxRepeat


@dataclass(frozen=True, slots=True)
class Cleaning:
    """The cleaning of texts.

    Attributes:
        steps: In order.
        max_characters: Clean texts of this many characters (code points) or more are left out.
        pattern_seconds: Seconds a pattern may take on one row.
    """

    steps: tuple[CleaningStep, ...] = ()
    max_characters: int = 1100
    pattern_seconds: float = 1.0

    @property
    def fingerprint(self) -> str:
        """Hash of everything that affects the cleaning of a text."""
        return value_hash([self.max_characters, [_hashed_step(step) for step in self.steps]])


def read_cleaning(declared: DeclaredFile) -> Cleaning:
    """The cleaning in a file's values; faults are noted."""
    values = declared.keys(("max_characters", "steps", "pattern_seconds"))
    limit = values.get("max_characters", 1100)
    if isinstance(limit, bool) or not isinstance(limit, int) or limit < 1:
        declared.fault(
            f"max_characters must be a whole number above 0, not {limit!r}", "max_characters"
        )
        limit = 1100
    steps: list[CleaningStep] = []
    items = values.get("steps")
    if items is not None and not isinstance(items, list):
        declared.fault("steps must be a list, one step per line with a dash", "steps", hint=_FORMS)
        items = None
    for at, item in enumerate(items or ()):
        steps += _step(declared, item, "steps", str(at))
    return Cleaning(tuple(steps), limit, read_seconds(declared, values))


def _step(declared: DeclaredFile, item: Any, *path: str) -> list[CleaningStep]:
    if isinstance(item, str):
        for name in _NAMED:
            if item == name:
                return [NamedStep(name)]
        hint = suggest_name(item, _NAMED) if item != _REPEAT else "give the number: max_repeat: 3"
        declared.fault(f"unknown cleaning step {item!r}", *path, hint=hint)
        return []
    if not isinstance(item, dict) or not item:
        declared.fault("this is not a cleaning step", *path, hint=_FORMS)
        return []
    steps: list[CleaningStep] = []
    for name, value in item.items():
        if name in _NAMED:
            declared.fault(f"{name} has no parameters", *path, name, hint=f"write - {name}")
        elif name == _REPEAT:
            steps += _max_repeat(declared, value, *path, name)
        else:
            steps += _replacements(declared, name, value, *path, name)
    return steps


def _max_repeat(declared: DeclaredFile, value: Any, *path: str) -> list[CleaningStep]:
    """``N``, or ``{times: N, except: digits}``."""
    settings = {"times": value}
    if isinstance(value, dict):
        settings = declared.keys(("times", "except"), value, *path)
    times, spared = settings.get("times"), settings.get("except")
    if isinstance(times, bool) or not isinstance(times, int) or times < 1:
        declared.fault(f"max_repeat must be a whole number above 0, not {times!r}", *path)
        return []
    if spared not in (None, "digits"):
        declared.fault(
            f"max_repeat cannot except {spared!r} to except", *path, "except", hint="known: digits"
        )
        return []
    return [MaxRepeat(times, digits=spared is None, where=declared.where(*path))]


def _replacements(declared: DeclaredFile, name: str, value: Any, *path: str) -> list[CleaningStep]:
    """A list of patterns: texts to remove, and mappings from pattern to replacement."""
    if isinstance(value, dict):
        return _mapped(declared, name, value, *path)
    steps: list[CleaningStep] = []
    for at, item in enumerate(declared.items(value, *path)):
        place = (*path, str(at)) if isinstance(value, list) else path
        if isinstance(item, dict):
            steps += _mapped(declared, name, item, *place)
            continue
        pattern = read_pattern(declared, item, *place)
        if pattern is not None:
            steps.append(Replace(name, pattern, ""))
    return steps


def _mapped(declared: DeclaredFile, name: str, value: Any, *path: str) -> list[CleaningStep]:
    steps: list[CleaningStep] = []
    for find, replacement_text in value.items():
        place = (*path, find)
        pattern = read_pattern(declared, find, *place)
        replacement = read_replacement(declared, replacement_text, pattern, *place)
        if pattern is not None and replacement is not None:
            steps.append(Replace(name, pattern, replacement))
    return steps


def _hashed_step(step: CleaningStep) -> list[Any]:
    if isinstance(step, Replace):
        return ["replace", step.pattern.find, step.replacement]
    if isinstance(step, NamedStep):
        return [step.name]
    return [_REPEAT, step.times] if step.digits else [_REPEAT, step.times, "except digits"]
