"""Parts: everything that can be added to the program from outside, found by entry points.

An installed package adds a measure, a stage or a command under the entry points
``ragwright.<kind>``; or it names a :class:`Part`, which lists several, under ``ragwright.parts``.
The parts of ragwright itself are found in the same way. Nothing is imported before it is used.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
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
    "promoted",
    "people",
]
"""Kind of thing that can be added; its entry points are in the group ``ragwright.<kind>``."""

_HERE = "ragwright"
_GROUP = b"[ragwright."


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
        promoted: What a promoted configuration contains beside sections of the project file: key
            -> function of project folder and settings that returns plain settings, and paths of
            files relative to the folder.
        people: Adapters of sets of people's verdicts, for passports of judges.
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
    promoted: Mapping[str, str] = field(default_factory=dict)
    people: Mapping[str, str] = field(default_factory=dict)
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
        from importlib.metadata import version

        return version(self.package)

    def load(self) -> Any:
        """Import the object.

        Raises:
            PluginError: It cannot be imported; the error names the package.
        """
        where = f"{self.kind.removesuffix('s')} {self.name!r} of the package {self.package}"
        return load_object(self.address, where=where, installed=True)


def added(kind: PartKind) -> Mapping[str, Addition]:
    """Everything of a kind that is installed, by name: ragwright's own first, then by package.

    Where two packages use one name, the first one counts; see :func:`addition_faults`.
    """
    return _collected(_points())[0][kind]


@cache
def addition(kind: PartKind, name: str) -> Addition | None:
    """The addition of a name; None if no package has it.

    Other packages are read only for a name that is not ragwright's own.
    """
    for point in sorted(_own_points(), key=lambda point: point.name != name):  # mostly the first
        for own in _additions(point):
            if (own.kind, own.name) == (kind, name):
                return own
    return added(kind).get(name)


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
        known_names = near(name, names) if names else "none is installed"
        raise PluginError(
            f"no installed package has the {kind.removesuffix('s')} {name!r}",
            where=where,
            hint=f"{known_names.rstrip('?')}; or write module:object",
        )
    return known.load()


def additions_of_others() -> tuple[Addition, ...]:
    """Return the additions of packages other than ragwright, by kind."""
    kinds = _collected(_points())[0]
    return tuple(new for known in kinds.values() for new in known.values() if new.package != _HERE)


def addition_faults() -> tuple[str, ...]:
    """Faults of installed packages: what cannot be imported, and names that are used twice.

    Everything that other packages add is imported.
    """
    faults = list(_collected(_points())[1])
    for new in additions_of_others():
        try:
            new.load()
        except PluginError as error:
            faults.append(str(error))
    return tuple(faults)


@dataclass(frozen=True, slots=True)
class _Point:
    """An entry point: its group without ``ragwright.``, its name, and what it leads to."""

    group: str
    name: str
    address: str
    package: str


@cache
def _points() -> tuple[_Point, ...]:
    """Entry points of all installed packages, ragwright's first, then by package."""
    folders: dict[str, str] = {}
    for name, folder in _metadata_folders():
        folders.setdefault(name, folder)  # the first one on the path is imported
    names = sorted(folders.keys() - {_HERE})
    return (*_own_points(), *(point for name in names for point in _read(name, folders[name])))


@cache
def _own_points() -> tuple[_Point, ...]:
    folder = next((folder for name, folder in _metadata_folders() if name == _HERE), None)
    points = () if folder is None else tuple(_read(_HERE, folder))
    if not any(point.group == "parts" for point in points):
        raise PluginError(
            "this installation of ragwright is older than its code: it does not list its parts",
            where=folder or "sys.path",
            hint="install it again: pip install ragwright, or in a checkout: make install",
        )
    return points


def _metadata_folders() -> Iterator[tuple[str, str]]:
    """(package, folder of its metadata) of all installed packages, in the order of the path.

    Read from the disk: with ``importlib.metadata`` `ragwright --help` takes twice as long.
    """
    for path in filter(None, sys.path):
        try:
            with os.scandir(path) as entries:
                for entry in entries:
                    if entry.name.endswith((".dist-info", ".egg-info")):
                        name = entry.name[: -len(".egg-info")].partition("-")[0]
                        yield name.replace("_", "-").lower(), entry.path
        except OSError:  # an archive, or a folder that does not exist
            continue


def _read(package: str, folder: str) -> Iterator[_Point]:
    """The entry points for ragwright in a folder of metadata."""
    try:
        with open(f"{folder}/entry_points.txt", "rb") as file:  # noqa: PTH123 (three times faster)
            content = file.read()
    except OSError:
        return
    group = ""
    for line in content.decode("utf-8", "replace").splitlines() if _GROUP in content else ():
        if line.startswith("["):
            known = line.startswith(f"[{_HERE}.")
            group = line.strip("[] ").removeprefix(f"{_HERE}.") if known else ""
        elif group and "=" in line and not line.startswith(("#", ";")):
            name, _, address = line.partition("=")
            yield _Point(group, name.strip(), address.partition("[")[0].strip(), package)


@cache
def _collected(
    points: tuple[_Point, ...],
) -> tuple[Mapping[PartKind, Mapping[str, Addition]], tuple[str, ...]]:
    """Additions by kind and name, and faults.

    A fault of one package must not stop the program, which may not need it.
    """
    kinds: dict[PartKind, dict[str, Addition]] = {kind: {} for kind in get_args(PartKind)}
    faults = []
    for point in points:
        try:
            additions = _additions(point)
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


@cache
def _additions(point: _Point) -> tuple[Addition, ...]:
    group, package = point.group, point.package
    if group in get_args(PartKind):
        return (Addition(group, point.name, point.address, package),)  # type: ignore[arg-type]
    if group != "parts":
        return ()
    where = f"part {point.name!r} of the package {package}"
    part = load_object(point.address, where=where, installed=True)
    if not isinstance(part, Part):
        raise PluginError(
            f"{point.address} is {type(part).__name__}, not a Part",
            where=f"the package {package}",
            hint="write PART = Part(...) with Part from ragwright.core",
        )
    return tuple(
        Addition(kind, name, address, package, part.sentences.get(name, ""))
        for kind in get_args(PartKind)
        for name, address in getattr(part, kind).items()
    )
