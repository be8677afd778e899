"""The declarations of a records folder: every fault with its file and line."""

from __future__ import annotations

import difflib
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from ..core import RagwrightError, RecordsError, option, suggest_name
from ..ingest import EngineOptions
from . import declared
from ._seams import FIELDS, TEXT

_FORMATS = "text_formats"
_SHIPPED = "message"
_FILES = ("source", "cleaning", "tags", "rollups", "rules")
_SUFFIXES = (".yaml", ".yml")


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
        RecordsError: The first fault, with file and line (see :func:`spec_faults`).
    """
    faults: list[RagwrightError] = []
    spec = _read(folder, format, faults)
    if faults:
        raise faults[0]
    return spec


def load_draft_spec(
    folder: Path,
    format: str = _SHIPPED,  # noqa: A002 - the key
) -> RecordsSpec:
    """The declarations that drafts depend on: rollups with biographies, rules, text format; the
    rest is default.

    Tags and columns of rules and format are not checked, so that a folder with only these files can
    be read.

    Args:
        folder: Holds rollups.yaml, the biographies that it names, rules.yaml and
            text_formats/NAME.yaml.
        format: Name of the text format.

    Raises:
        RecordsError: The first fault, with file and line.
    """
    faults: list[RagwrightError] = []
    rollups = declared.read_rollups(_declared(folder, "rollups", faults), folder)
    rules = declared.read_rules(_declared(folder, "rules", faults), None)
    written = _read_format(folder, format, None, faults)
    if faults:
        raise faults[0]
    return RecordsSpec(
        declared.SourceSpec(), declared.Cleaning(), declared.Tags(), rollups, rules, written
    )


def spec_faults(folder: Path, format: str = _SHIPPED) -> list[RagwrightError]:  # noqa: A002
    """Every fault of a folder that stops a refresh, file by file, for the chosen text format."""
    return read_spec(folder, format)[1]


def list_declared_files() -> tuple[str, ...]:
    """Names of the files and folders that a folder of declarations may contain."""
    return (*(f"{name}.yaml" for name in _FILES), _FORMATS)


def unread_files(folder: Path) -> dict[str, str]:
    """Unknown declarations in a folder, and the probable name of each.

    Those with a name similar to a missing one are faults (see :func:`spec_faults`).
    """
    known = list_declared_files()
    probable_names: dict[str, str] = {}
    for path in sorted(folder.iterdir()) if folder.is_dir() else ():
        written = path.suffix.lower() in _SUFFIXES
        if path.name in known or not (written or path.is_dir()) or path.name.startswith("."):
            continue
        wanted = f"{path.stem.lower()}.yaml" if written else path.name.lower()
        close = difflib.get_close_matches(wanted, known, n=1, cutoff=0.8)
        if written or close:
            probable_names[path.name] = close[0] if close else ""
    for path in sorted((folder / _FORMATS).glob("*.yml")):
        probable_names[f"{_FORMATS}/{path.name}"] = f"{_FORMATS}/{path.stem}.yaml"
    return probable_names


def read_spec(
    folder: Path,
    format: str = _SHIPPED,  # noqa: A002 - the key
) -> tuple[RecordsSpec, list[RagwrightError]]:
    """The usable declarations, and every fault (see :func:`spec_faults`)."""
    faults: list[RagwrightError] = []
    return _read(folder, format, faults), faults


def find_unused_format_faults(folder: Path, spec: RecordsSpec) -> list[RagwrightError]:
    """Faults of the text formats in a folder that are not the chosen one: they stop no refresh."""
    faults: list[RagwrightError] = []
    for name in _format_names(folder):
        if name != spec.format.name:
            _read_format(folder, name, _fields(spec), faults)
    return faults


def _read(
    folder: Path,
    chosen: str,
    faults: list[RagwrightError],
) -> RecordsSpec:
    misnamed = _misnamed(folder, faults)

    def read(name: str) -> declared.DeclaredFile:
        values = _declared(folder, name, faults)
        return replace(values, readable=values.readable and f"{name}.yaml" not in misnamed)

    source = declared.read_source_spec(read("source"))
    cleaning = declared.read_cleaning(read("cleaning"))
    written_tags = read("tags")
    tags = declared.read_tags(written_tags)
    rollups = declared.read_rollups(read("rollups"), folder)
    known = replace(tags, tags=(*tags.tags, *tags.faulty)) if written_tags.readable else None
    rules = declared.read_rules(_declared(folder, "rules", faults), known)
    faults += _twice(rules, source)
    spec = RecordsSpec(source, cleaning, tags, rollups, rules, declared.TextFormat(chosen, ()))
    return RecordsSpec(
        source, cleaning, tags, rollups, rules, _read_format(folder, chosen, _fields(spec), faults)
    )


def _declared(folder: Path, name: str, faults: list[RagwrightError]) -> declared.DeclaredFile:
    return declared.read_declared(folder / f"{name}.yaml", f"{folder.name}/{name}.yaml", faults)


def _misnamed(folder: Path, faults: list[RagwrightError]) -> set[str]:
    """Missing names with a similarly named file; each is a fault."""
    missing_names = set()
    for name, meant in unread_files(folder).items():
        if meant and not (folder / meant).exists():
            missing_names.add(meant)
            faults.append(
                RecordsError(
                    f"unknown file, and {meant} is missing",
                    where=f"{folder.name}/{name}",
                    hint=f"rename it to {meant}",
                )
            )
    return missing_names


def _twice(rules: declared.Rules, source: declared.SourceSpec) -> list[RagwrightError]:
    """Fields set by a rule that are also columns of records."""
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
    """Variables of a format."""
    return tuple(dict.fromkeys([*FIELDS, TEXT, *spec.rules.fields, *spec.source.keep]))


def _read_format(
    folder: Path, name: str, known: tuple[str, ...] | None, faults: list[RagwrightError]
) -> declared.TextFormat:
    file = folder / _FORMATS / f"{name}.yaml"
    if file.exists():
        shown = f"{folder.name}/{_FORMATS}/{name}.yaml"
        return declared.read_text_format(declared.read_declared(file, shown, faults), name, known)
    if name == _SHIPPED:
        others = _format_names(folder)
        if others:
            faults.append(
                RecordsError(
                    f"the text format is {_SHIPPED!r}, but the folder only has others: "
                    f"{', '.join(others)}",
                    where=f"{folder.name}/{_FORMATS}",
                    hint=f"choose one (records.format: {others[0]} in ragwright.yaml), or rename "
                    f"its file to {_SHIPPED}.yaml",
                )
            )
        return load_shipped_format()
    there = [_SHIPPED, *_format_names(folder)]
    faults.append(
        RecordsError(
            f"unknown text format {name!r}",
            where=f"{folder.name}/{_FORMATS}/{name}.yaml",
            hint=suggest_name(name, there),
        )
    )
    return declared.TextFormat(name, ())


def _format_names(folder: Path) -> list[str]:
    return sorted(file.stem for file in (folder / _FORMATS).glob("[!.]*.yaml"))


@cache
def load_shipped_format() -> declared.TextFormat:
    """The shipped text format, for folders without one of that name."""
    from importlib.resources import files

    file = files("ragwright.records") / "data" / _FORMATS / f"{_SHIPPED}.yaml"
    faults: list[RagwrightError] = []
    values = declared.read_declared_text(file.read_text("utf-8"), f"{_SHIPPED}.yaml", faults)
    return declared.read_text_format(values, _SHIPPED)


@dataclass(frozen=True, slots=True)
class RecordsOptions(EngineOptions):
    """Settings of the tables of records; their content is declared in the folder."""

    format: str = option("message", "Text format of the documents.", when="index")
    wait: float = option(600.0, "Seconds to wait for another refresh to end.", ge=0)
