"""``cleaning.yaml``: steps in order, and the maximum length of texts."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias, get_args

from ...core import suggest_name, value_hash
from .._patterns import Replace
from ._file import DeclaredFile
from ._patterns import read_pattern, read_replacement
from ._tags import read_seconds

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
    for find, replace in value.items():
        place = (*path, find)
        pattern = read_pattern(declared, find, *place)
        replacement = read_replacement(declared, replace, pattern, *place)
        if pattern is not None and replacement is not None:
            steps.append(Replace(name, pattern, replacement))
    return steps


def _hashed_step(step: CleaningStep) -> list[Any]:
    if isinstance(step, Replace):
        return ["replace", step.pattern.find, step.replacement]
    if isinstance(step, NamedStep):
        return [step.name]
    return [_REPEAT, step.times] if step.digits else [_REPEAT, step.times, "except digits"]
