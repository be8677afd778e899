"""Study files: a project file with lists of values to sweep, and search settings."""

from __future__ import annotations

import dataclasses
import math
import typing
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_args

from ..core import (
    ConfigError,
    Placed,
    StudyError,
    build_options,
    count_noun,
    option,
    read_yaml,
    unknown_key,
)

SearchKind: TypeAlias = Literal["grid", "random", "tpe"]

_RANGE = {"low", "high", "log"}

_LARGEST = 2**53
"""Largest end of a range: beyond it floats cannot represent every whole number."""

_MOST = 2000
"""Most trials of a study."""


@dataclass(frozen=True, slots=True)
class StudyOptions:
    """The section ``study`` of a study file: testset, measures and search."""

    testset: str = option("", "Testset of the study; the tune split is used for the choice.")
    measures: str = option(
        "", "Measures, separated by commas; by default those that suit the rows."
    )
    objective: str = option(
        "", "The measure that trials are ordered by; by default the first measure."
    )
    search: SearchKind = option("grid", "How trials are chosen: grid, random or tpe.")
    trials: int = option(40, "Trials of a random or tpe search.", ge=1, le=_MOST)
    limit: int | None = option(None, "Most questions of the tune split, chosen by the seed.", ge=1)
    personas: tuple[str, ...] = option(
        (), "Ask every question for each of these personas; the rows' own by default."
    )
    seed: int = option(0, "Seed of the search, the choice of rows and the intervals.")
    retrieval_only: bool = option(False, "Score only retrieval; write no answers.")


@dataclass(frozen=True, slots=True)
class SweptRange:
    """Values between two ends, both included; on a logarithmic scale if ``log`` is set.

    If ``whole``, only whole numbers.
    """

    low: float
    high: float
    log: bool = False
    whole: bool = False


@dataclass(frozen=True, slots=True)
class Axis:
    """One swept key with its values or its range."""

    path: tuple[str, ...]
    values: tuple[Any, ...] = ()
    range: SweptRange | None = None
    where: str = ""

    @property
    def key(self) -> str:
        """``chunk.size``."""
        return ".".join(self.path)


@dataclass(frozen=True, slots=True)
class Study:
    """A study: swept keys, fixed settings and options.

    Attributes:
        name: The file's name without suffix.
        options: Its section ``study``.
        axes: Swept keys in file order.
        fixed: Key path -> value of settings that are not swept.
        places: Key path -> ``file:line``, for messages.
        points: An explicit list of trials, swept key -> value, instead of the whole grid.
    """

    name: str
    options: StudyOptions
    axes: tuple[Axis, ...]
    fixed: Mapping[tuple[str, ...], Any] = field(default_factory=dict)
    places: Mapping[tuple[str, ...], str] = field(default_factory=dict)
    points: tuple[Mapping[str, Any], ...] = ()

    @property
    def size(self) -> int | None:
        """Trials of a grid; None if a key has a range."""
        if any(axis.range is not None for axis in self.axes):
            return None
        if self.points:
            return len(self.points)
        return math.prod(len(axis.values) for axis in self.axes)

    @property
    def judging(self) -> tuple[Axis, ...]:
        """Swept keys of the section ``judge``: they show a ranking's dependence on the judge."""
        return tuple(axis for axis in self.axes if axis.path[0] == "judge")

    @property
    def sweeps_embedder(self) -> bool:
        """True if the embedding model is swept: cosines of different models do not compare."""
        return any(axis.path == ("embed", "model") for axis in self.axes)

    def settings_of(self, values: Mapping[str, Any]) -> dict[tuple[str, ...], Any]:
        """Return the key paths that override the project file for a trial."""
        return {**self.fixed, **{axis.path: values[axis.key] for axis in self.axes}}

    def described(self) -> dict[str, Any]:
        """Return the study as JSON-able values for a run's manifest."""
        points = {"points": [dict(point) for point in self.points]} if self.points else {}
        return points | {
            "name": self.name,
            "options": dataclasses.asdict(self.options),
            "axes": {
                axis.key: list(axis.values)
                if axis.range is None
                else dataclasses.asdict(axis.range)
                for axis in self.axes
            },
            "fixed": {".".join(path): value for path, value in self.fixed.items()},
        }


def load_study(file: Path, sections: Mapping[str, type[Any]]) -> Study:
    """The study in a file.

    Args:
        file: A project file with lists of values to sweep (a key that is itself a list takes a list
            of lists; ranges are ``{low, high, log}``), and a section ``study``.
        sections: Option record of every section that may be swept.

    Raises:
        ConfigError: The file is missing or wrong, with file and line.
        StudyError: Nothing is swept, or there are too many trials: the count is shown.
    """
    return study_of(read_yaml(file), file.stem, sections)


def rebuild_study(body: Mapping[str, Any]) -> Study:
    """Rebuild the study from the values of :meth:`Study.described`; without places."""
    options: dict[str, Any] = {
        key: tuple(value) if isinstance(value, list) else value
        for key, value in body["options"].items()
    }
    axes = [
        Axis(tuple(key.split(".")), range=SweptRange(**values))
        if isinstance(values, Mapping)
        else Axis(tuple(key.split(".")), tuple(values))
        for key, values in body["axes"].items()
    ]
    fixed = {tuple(key.split(".")): value for key, value in body["fixed"].items()}
    return Study(
        body["name"],
        StudyOptions(**options),
        tuple(axes),
        fixed,
        points=tuple(body.get("points", ())),
    )


def study_of(placed: Placed, name: str, sections: Mapping[str, type[Any]]) -> Study:
    """The study in parsed YAML; raises as :func:`load_study`."""
    values = placed.value
    if not isinstance(values, dict):
        raise ConfigError("a study file is a mapping of sections", where=placed.where())
    options = build_options(StudyOptions, values.get("study"), placed, ("study",))
    axes: list[Axis] = []
    fixed: dict[tuple[str, ...], Any] = {}
    for section, value in values.items():
        if section == "study":
            continue
        if section == "models":
            fixed[(section,)] = value
            continue
        if section not in sections:
            raise unknown_key(section, (*sections, "models", "study"), placed, (section,))
        for leaf in _study_leaves(value, sections[section], placed, (section,)):
            if isinstance(leaf, Axis):
                axes.append(leaf)
            else:
                fixed[leaf[0]] = leaf[1]
    paths = [axis.path for axis in axes] + list(fixed)
    places = {path: placed.where(*path) for path in paths}
    study = Study(name, options, tuple(axes), fixed, places)
    _check_study(study, placed)
    return study


def _check_study(study: Study, placed: Placed) -> None:
    if not study.axes:
        raise StudyError(
            "the study sweeps nothing",
            where=placed.where(),
            hint="write a list of values to try, such as  retrieve: {top_k: [3, 5, 8]}",
        )
    _check_size(study, placed)
    _check_judging(study)


def _check_size(study: Study, placed: Placed) -> None:
    """Refuse a grid over a range, and a grid of too many trials."""
    if study.options.search != "grid":
        return
    size = study.size
    if size is None:
        ranged = next(axis for axis in study.axes if axis.range is not None)
        raise StudyError(
            f"{ranged.key} is a range, which a grid cannot enumerate",
            where=ranged.where,
            hint="write a list of values, or  study: {search: random}  or tpe",
        )
    if size > _MOST:
        counts = " x ".join(f"{axis.key} {len(axis.values)}" for axis in study.axes)
        raise StudyError(
            f"the grid has {count_noun(size, 'trial')}: {counts}",
            where=placed.where(),
            hint=f"sweep fewer keys or values (at most {_MOST:,} trials), or search among them: "
            "study: {search: tpe, trials: 60}",
        )


def _check_judging(study: Study) -> None:
    """Refuse to rank trials with different judges together."""
    for axis in study.judging:
        if axis.range is not None:
            raise StudyError(
                f"{axis.key} is a range, but judges must be listed: trials of different judges "
                "are not comparable",
                where=axis.where,
                hint=f"write a list of values, such as  {axis.path[-1]}: "
                f"[{axis.range.low:g}, {axis.range.high:g}]",
            )
        if study.options.search == "tpe":
            raise StudyError(
                f"{axis.key} is swept, but trials of different judges cannot be ranked together",
                where=axis.where,
                hint="choose with one judge; then sweep the judge over the best few in a grid",
            )


def _study_leaves(
    value: Any, kind: type[Any], placed: Placed, path: tuple[str, ...]
) -> Iterator[Axis | tuple[tuple[str, ...], Any]]:
    """Swept keys and fixed values below a path."""
    if value is None:
        return
    if not isinstance(value, Mapping):
        raise ConfigError(f"{'.'.join(path)} must be a mapping of keys", where=placed.where(*path))
    hints = typing.get_type_hints(kind)
    for key, item in value.items():
        here = (*path, key)
        if key not in hints:
            raise unknown_key(key, hints, placed, here)
        hint = hints[key]
        if dataclasses.is_dataclass(hint) and isinstance(hint, type):
            yield from _study_leaves(item, hint, placed, here)
        elif isinstance(item, Mapping) and {"low", "high"} <= item.keys():
            yield Axis(here, range=_range_of(item, hint, placed, here), where=placed.where(*here))
        elif isinstance(item, list) and _list_depth(item) > _list_nesting(hint):
            yield Axis(here, _distinct_values(item, placed, here), where=placed.where(*here))
        else:
            yield here, item


def _distinct_values(
    items: Sequence[Any], placed: Placed, path: tuple[str, ...]
) -> tuple[Any, ...]:
    values: list[Any] = []
    for item in items:
        if any(item == other and type(item) is type(other) for other in values):
            raise StudyError(
                f"{'.'.join(path)} contains {item!r} twice",
                where=placed.where(*path),
                hint="write every value once",
            )
        values.append(item)
    if not values:
        raise StudyError(f"{'.'.join(path)} has no values", where=placed.where(*path))
    return tuple(values)


def _range_of(
    item: Mapping[str, Any], hint: Any, placed: Placed, path: tuple[str, ...]
) -> SweptRange:
    name = ".".join(path)
    kinds = set(get_args(hint)) or {hint}
    if not kinds & {int, float}:
        raise StudyError(f"{name} is not a number: it has no range", where=placed.where(*path))
    for key in item.keys() - _RANGE:
        raise unknown_key(key, _RANGE, placed, (*path, key))
    low, high, log = item["low"], item["high"], bool(item.get("log"))
    if any(isinstance(n, bool) or not isinstance(n, int | float) for n in (low, high)):
        raise StudyError(f"the ends of {name} must be numbers", where=placed.where(*path))
    if not (abs(low) <= _LARGEST and abs(high) <= _LARGEST):  # also for NaN
        raise StudyError(f"the ends of {name} are too large", where=placed.where(*path))
    whole = float not in kinds
    if whole and (low != int(low) or high != int(high)):
        raise StudyError(
            f"{name} takes whole numbers, and its range has others",
            where=placed.where(*path),
            hint="write low and high without a fraction",
        )
    if not low < high or (log and low <= 0):
        raise StudyError(
            f"{name} has no values between {low} and {high}",
            where=placed.where(*path),
            hint="use low below high, and above 0 with log",
        )
    return SweptRange(low, high, log, whole)


def _list_nesting(hint: Any) -> int:
    """Nesting of lists in a key's own values: 0 for a number or a text."""
    if typing.get_origin(hint) is tuple:
        return 1 + _list_nesting(get_args(hint)[0])
    return max((_list_nesting(part) for part in get_args(hint) if part is not Ellipsis), default=0)


def _list_depth(value: Any) -> int:
    return 1 + max(map(_list_depth, value), default=0) if isinstance(value, list) else 0
