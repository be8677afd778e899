"""What a records folder declares, read whole: every fault with its file and line."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path

from ..core import RagwrightError, RecordsError, near
from ._cleaning import Cleaning, read_cleaning
from ._declared import Declared, declared_text, read_declared
from ._rollups import Rollups, read_rollups
from ._rules import FIELDS, Rules, read_rules
from ._source_spec import SourceSpec, read_source_spec
from ._tags import Tags, read_tags
from ._text_format import TEXT, TextFormat, read_text_format

_FORMATS = "text_formats"
_SHIPPED = "message"


@dataclass(frozen=True, slots=True)
class RecordsSpec:
    """What a folder declares; each part has a ``fingerprint``."""

    source: SourceSpec
    cleaning: Cleaning
    tags: Tags
    rollups: Rollups
    rules: Rules
    format: TextFormat


def load_spec(folder: Path, format: str = _SHIPPED) -> RecordsSpec:  # noqa: A002 - the key
    """The declarations in a folder; files that are not there mean defaults.

    Args:
        folder: Holds source.yaml, cleaning.yaml, tags.yaml, rollups.yaml, rules.yaml and
            text_formats/NAME.yaml.
        format: Name of the text format.

    Raises:
        RecordsError: The first fault, with file and line (see :func:`spec_faults`).
    """
    faults: list[RagwrightError] = []
    spec = _read(folder, format, faults)
    if faults:
        raise faults[0]
    return spec


def load_draft_spec(folder: Path, format: str = _SHIPPED) -> RecordsSpec:  # noqa: A002 - the key
    """What drafts depend on: rollups with biographies, rules, text format; the rest is default.

    Tags and columns that rules and format name are not looked up: the files of a folder that
    holds these alone can be read, too.

    Args:
        folder: Holds rollups.yaml, the biographies that it names, rules.yaml and
            text_formats/NAME.yaml.
        format: Name of the text format.

    Raises:
        RecordsError: The first fault, with file and line.
    """
    faults: list[RagwrightError] = []
    rollups = read_rollups(_declared(folder, "rollups", faults), folder)
    rules = read_rules(_declared(folder, "rules", faults), None)
    written = _read_format(folder, format, None, faults)
    if faults:
        raise faults[0]
    return RecordsSpec(SourceSpec(), Cleaning(), Tags(), rollups, rules, written)


def spec_faults(folder: Path, format: str = _SHIPPED) -> list[RagwrightError]:  # noqa: A002
    """Every fault of a folder, file by file; of all its text formats, not only the chosen one."""
    return read_spec(folder, format)[1]


def read_spec(
    folder: Path,
    format: str = _SHIPPED,  # noqa: A002 - the key
) -> tuple[RecordsSpec, list[RagwrightError]]:
    """What of the declarations can be used, and every fault (see :func:`spec_faults`)."""
    faults: list[RagwrightError] = []
    spec = _read(folder, format, faults)
    for file in sorted((folder / _FORMATS).glob("*.yaml")):
        if file.stem != format:
            _read_format(folder, file.stem, _fields(spec), faults)
    return spec, faults


def _read(folder: Path, chosen: str, faults: list[RagwrightError]) -> RecordsSpec:
    def declared(name: str) -> Declared:
        return _declared(folder, name, faults)

    source = read_source_spec(declared("source"))
    cleaning = read_cleaning(declared("cleaning"))
    tags = read_tags(declared("tags"))
    rollups = read_rollups(declared("rollups"), folder)
    rules = read_rules(declared("rules"), tags)
    faults += _twice(rules, source)
    spec = RecordsSpec(source, cleaning, tags, rollups, rules, TextFormat(chosen, ()))
    written = _read_format(folder, chosen, _fields(spec), faults)
    return RecordsSpec(source, cleaning, tags, rollups, rules, written)


def _declared(folder: Path, name: str, faults: list[RagwrightError]) -> Declared:
    return read_declared(folder / f"{name}.yaml", f"{folder.name}/{name}.yaml", faults)


def _twice(rules: Rules, source: SourceSpec) -> list[RagwrightError]:
    """Fields that a rule sets although they are columns that records carry."""
    return [
        RecordsError(
            f"the rule sets {name!r}, which is a column that source.yaml keeps",
            where=rule.place,
            hint="give the field another name, or rename the column in source.yaml",
        )
        for rule in rules.refinements
        for name, _ in rule.values
        if name in source.keep
    ]


def _fields(spec: RecordsSpec) -> tuple[str, ...]:
    """Variables that a format may name."""
    return tuple(dict.fromkeys([*FIELDS, TEXT, *spec.rules.fields, *spec.source.keep]))


def _read_format(
    folder: Path, name: str, known: tuple[str, ...] | None, faults: list[RagwrightError]
) -> TextFormat:
    file = folder / _FORMATS / f"{name}.yaml"
    if file.exists():
        shown = f"{folder.name}/{_FORMATS}/{name}.yaml"
        return read_text_format(read_declared(file, shown, faults), name, known)
    if name == _SHIPPED:
        return shipped_format()
    there = [_SHIPPED, *(path.stem for path in (folder / _FORMATS).glob("*.yaml"))]
    faults.append(
        RecordsError(
            f"there is no text format {name!r}",
            where=f"{folder.name}/{_FORMATS}/{name}.yaml",
            hint=near(name, there),
        )
    )
    return TextFormat(name, ())


@cache
def shipped_format() -> TextFormat:
    """The text format that ships, for folders without one of that name."""
    file = files("ragwright.records") / "data" / _FORMATS / f"{_SHIPPED}.yaml"
    faults: list[RagwrightError] = []
    declared = declared_text(file.read_text("utf-8"), f"{_SHIPPED}.yaml", faults)
    return read_text_format(declared, _SHIPPED)
