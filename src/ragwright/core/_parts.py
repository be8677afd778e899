"""Parts: everything that can be added to the program from outside, found by entry points.

An installed package adds a measure, a stage or a command under the entry points
``ragwright.<kind>``; or it names a :class:`Part`, which lists several, under ``ragwright.parts``.
The parts of ragwright itself are found in the same way. Nothing is imported before it is used.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import metadata
from typing import Any, Literal, TypeAlias, get_args

from ._errors import PluginError
from ._mapping import near
from ._plugins import load_object

PartKind: TypeAlias = Literal[
    "sections",
    "readers",
    "chunkers",
    "models",
    "stores",
    "channels",
    "stages",
    "measures",
    "judges",
    "commands",
    "pages",
    "steps",
]
"""Kind of thing that can be added; its entry points are in the group ``ragwright.<kind>``."""

_HERE = "ragwright"


@dataclass(frozen=True, slots=True)
class Part:
    """Several additions of one subject: the contents of a file ``part.py``.

    Each mapping leads from a name to ``module:object``.

    Attributes:
        name: Name of the subject.
        sections: Sections of the project file; the objects are option records.
        commands: Commands of the command line.
        sentences: Name of a command -> its line on the help page, which needs no import then.
        steps: Steps of jobs.
    """

    name: str
    sections: Mapping[str, str] = field(default_factory=dict)
    readers: Mapping[str, str] = field(default_factory=dict)
    chunkers: Mapping[str, str] = field(default_factory=dict)
    models: Mapping[str, str] = field(default_factory=dict)
    stores: Mapping[str, str] = field(default_factory=dict)
    channels: Mapping[str, str] = field(default_factory=dict)
    stages: Mapping[str, str] = field(default_factory=dict)
    measures: Mapping[str, str] = field(default_factory=dict)
    judges: Mapping[str, str] = field(default_factory=dict)
    commands: Mapping[str, str] = field(default_factory=dict)
    pages: Mapping[str, str] = field(default_factory=dict)
    steps: Mapping[str, str] = field(default_factory=dict)
    sentences: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Addition:
    """Something that a package adds.

    Attributes:
        kind: Kind of the addition.
        name: Name under which it is used.
        address: Its ``module:object``.
        package: The installed package that adds it.
        sentence: What it does; empty where only the object says.
    """

    kind: PartKind
    name: str
    address: str
    package: str
    sentence: str = ""

    @property
    def version(self) -> str:
        """Version of the package."""
        return metadata.version(self.package)

    def load(self) -> Any:
        """Import the object.

        Raises:
            PluginError: It cannot be imported; the error names the package.
        """
        where = f"{self.kind} {self.name!r} of the package {self.package}"
        return load_object(self.address, where=where)


def added(kind: PartKind) -> Mapping[str, Addition]:
    """Everything of a kind that is installed, by name: ragwright's own first, then by package.

    Where two packages use one name, the first one counts; see :func:`addition_faults`.
    """
    return _by_kind()[kind]


def addition(kind: PartKind, name: str) -> Addition | None:
    """The addition of a name; None if no package has it.

    Other packages are read only for a name that is not ragwright's own.
    """
    own = _collected(_own_points())[0][kind].get(name)
    return own or added(kind).get(name)


def load_addition(kind: PartKind, name: str, *, where: str) -> Any:
    """The object that settings name: ``module:object``, or the name of something installed.

    Args:
        kind: Kind of the addition.
        name: As written in the settings.
        where: Where it is written, for errors.

    Raises:
        PluginError: There is none, with the known names; or it cannot be imported.
    """
    if ":" in name:
        return load_object(name, where=where)
    known = addition(kind, name)
    if known is None:
        names = added(kind)
        known_names = f"{near(name, names)}, or" if names else "none is installed:"
        raise PluginError(
            f"no installed package has the {kind.removesuffix('s')} {name!r}",
            where=where,
            hint=f"{known_names} write module:object",
        )
    return known.load()


def addition_faults() -> tuple[str, ...]:
    """Faults of installed packages: parts that cannot be imported, names that are used twice."""
    return _collected(tuple(_points()))[1]


@cache
def _by_kind() -> Mapping[PartKind, Mapping[str, Addition]]:
    return _collected(tuple(_points()))[0]


def _points() -> Iterator[metadata.EntryPoint]:
    """Entry points of all installed packages, ragwright's first, then by package."""
    packages: dict[str, metadata.Distribution] = {}
    for package in metadata.distributions():
        packages.setdefault(package.name, package)  # the first one on the path is imported
    packages.pop(_HERE, None)
    yield from _own_points()
    for name in sorted(packages):
        points = packages[name].entry_points
        yield from (point for point in points if point.group.startswith(f"{_HERE}."))


@cache
def _own_points() -> tuple[metadata.EntryPoint, ...]:
    points = metadata.distribution(_HERE).entry_points
    return tuple(point for point in points if point.group.startswith(f"{_HERE}."))


@cache
def _collected(
    points: tuple[metadata.EntryPoint, ...],
) -> tuple[Mapping[PartKind, Mapping[str, Addition]], tuple[str, ...]]:
    """Additions by kind and name, and faults.

    A fault of one package must not stop the program, which may not need it.
    """
    kinds: dict[PartKind, dict[str, Addition]] = {kind: {} for kind in get_args(PartKind)}
    faults = []
    for point in points:
        try:
            additions = list(_additions(point))
        except PluginError as error:
            faults.append(str(error))
            continue
        for new in additions:
            used = kinds[new.kind].setdefault(new.name, new)
            if used is not new:
                faults.append(
                    f"{new.kind} {new.name!r} of the package {new.package} is not used: "
                    f"{used.package} has one of this name"
                )
    return kinds, tuple(faults)


def _additions(point: metadata.EntryPoint) -> Iterator[Addition]:
    group, package = point.group.partition(".")[2], _package(point)
    if group != "parts":
        if group in get_args(PartKind):
            yield Addition(group, point.name, point.value, package)  # type: ignore[arg-type]
        return
    part = load_object(point.value, where=f"part {point.name!r} of the package {package}")
    if not isinstance(part, Part):
        raise PluginError(
            f"{point.value} is {type(part).__name__}, not a Part",
            where=f"the package {package}",
            hint="write PART = Part(...) with Part from ragwright.core",
        )
    for kind in get_args(PartKind):
        for name, address in getattr(part, kind).items():
            yield Addition(kind, name, address, package, part.sentences.get(name, ""))


def _package(point: metadata.EntryPoint) -> str:
    return "" if point.dist is None else point.dist.name
