"""Extensions: everything that can be added to the program from outside, found by entry points.

An installed package adds a measure, a stage or a command under the entry points
``ragwright.<kind>``; or it names an :class:`Extension`, which lists several, under
``ragwright.extensions``. Those of ragwright itself are found in the same way. Nothing is imported
before it is used.

A module that is not installed (``module:object`` in a settings file) is looked for in the folder
that the command was started in. Only a folder that holds such a module joins ``sys.path``:
otherwise a file of a stranger's folder would run as soon as a library tries an optional import.
"""

from __future__ import annotations

import importlib
import inspect
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from importlib.machinery import PathFinder
from importlib.metadata import Distribution, EntryPoint, distribution, distributions, version
from importlib.util import find_spec
from itertools import chain
from pathlib import Path
from traceback import extract_tb
from typing import Any, Literal, TypeAlias, TypeVar, get_args

from ._errors import MissingExtraError, PluginError
from ._yaml import suggest_name

MadeT = TypeVar("MadeT")
_SAFE = "PYTHONSAFEPATH"


_folder = ""
"""The folder that modules named in settings may be imported from; empty if there is none."""


def plugin_folder() -> str:
    """The folder that modules named in settings may be imported from; empty if there is none."""
    return _folder


def import_plugins_from(folder: str) -> None:
    """Import modules that settings name from this folder, too, if they are not installed."""
    global _folder
    _folder = folder


def _allow(module: str) -> None:
    """Let a module that settings name, and what it imports, be found in the folder.

    The folder is last on the path, so that no file there shadows an installed module.
    """
    name = module.partition(".")[0]
    if not _folder or _folder in sys.path or name in sys.modules or find_spec(name):
        return
    if PathFinder.find_spec(name, [_folder]) is not None:
        sys.path.append(_folder)


@contextmanager
def spawning() -> Iterator[None]:
    """While it is open, Python processes start without the present folder on their path.

    ``multiprocessing`` starts them with ``python -c``, which would import files of that folder in
    place of modules of the standard library.
    """
    before = os.environ.get(_SAFE)
    os.environ[_SAFE] = "1"
    try:
        yield
    finally:
        if before is None:
            os.environ.pop(_SAFE, None)
        else:
            os.environ[_SAFE] = before


def load_object(
    address: str, *, where: str | None = None, shown: str = "", installed: bool = False
) -> Any:
    """The object at ``module:object`` (dots reach into it).

    Args:
        address: Module and object.
        where: Where the address is written, for errors.
        shown: How errors name the module; by default as it is imported.
        installed: The module must be installed: the folder of the command is not searched.

    Raises:
        PluginError: No such module or attribute, or the module fails on import.
    """
    module_name, colon, path = address.partition(":")
    if not colon or not module_name or not path:
        raise PluginError(
            f"{address!r} is not of the form module:object",
            where=where,
            hint="write for example mypackage.readers:ChatLogReader",
        )
    if not installed:
        _allow(module_name)
    try:
        loaded: Any = importlib.import_module(module_name)
    except SystemExit as error:
        raise PluginError(
            f"{module_name!r} ends the program when it is imported (sys.exit({error}))",
            where=where,
            hint='put what it runs under `if __name__ == "__main__":`',
        ) from error
    except Exception as error:
        raise PluginError(
            f"cannot import {module_name!r}: {getattr(error, 'what', error)}",
            where=where,
            hint="install the package, or start from the folder that holds it"
            if isinstance(error, ModuleNotFoundError)
            else f"the module was found, but it fails on import{_line_of_module(error)}: "
            f"{getattr(error, 'hint', '') or 'correct it'}",
        ) from error
    for name in path.split("."):
        if not hasattr(loaded, name):
            raise PluginError(
                f"{shown or module_name!r} has no {path!r}",
                where=where,
                hint="check the name after the colon",
            )
        loaded = getattr(loaded, name)
    return loaded


def _line_of_module(error: Exception) -> str:
    """``, in FILE, line N``: the last line of the module's folder that ran; empty if none did."""
    others = ("<frozen", str(Path(importlib.__file__).parent), str(Path(__file__).parents[1]))
    frames = [f for f in extract_tb(error.__traceback__) if not f.filename.startswith(others)]
    folder = str(Path(frames[0].filename).parent) if frames else ""
    lines = [f", in {f.filename}, line {f.lineno}" for f in frames if f.filename.startswith(folder)]
    return lines[-1] if lines else ""


def require(module: str, extra: str, purpose: str) -> Any:
    """Import an optional dependency, or say how to install it.

    Args:
        module: Module to import.
        extra: Extra of ragwright that brings it.
        purpose: What needs it, for the message: ``reading PDF files``.

    Raises:
        MissingExtraError: The module is not installed.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise MissingExtraError(
            f"{purpose} needs the package {module.partition('.')[0]!r}, which is not installed",
            hint=f"pip install 'ragwright[{extra}]'",
        ) from error


ExtensionKind: TypeAlias = Literal[
    "sections",
    "readers",
    "chunkers",
    "parsers",
    "models",
    "stages",
    "measures",
    "judges",
    "commands",
    "steps",
    "promoted",
    "tables",
    "handlers",
    "people",
    "guards",
]
"""Kind of thing that can be added; its entry points are in the group ``ragwright.<kind>``."""

_HERE = "ragwright"
_GROUP = "ragwright."
_EXTENSIONS = "ragwright.extensions"


@dataclass(frozen=True, slots=True)
class Extension:
    """Several additions of one package or subject.

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
        tables: Tables of SQL that a project keeps: ``Tables`` of ragwright.ledger.
        handlers: What carries out requests of a kind: name of the request's class -> function of
            the project that returns a ``Handler``.
        people: Adapters of sets of people's verdicts, for passports of judges.
        guards: Functions of an opened project that return the guard of its answers, or None.
    """

    name: str
    sections: Mapping[str, str] = field(default_factory=dict)
    readers: Mapping[str, str] = field(default_factory=dict)
    chunkers: Mapping[str, str] = field(default_factory=dict)
    parsers: Mapping[str, str] = field(default_factory=dict)
    models: Mapping[str, str] = field(default_factory=dict)
    stages: Mapping[str, str] = field(default_factory=dict)
    measures: Mapping[str, str] = field(default_factory=dict)
    judges: Mapping[str, str] = field(default_factory=dict)
    commands: Mapping[str, str] = field(default_factory=dict)
    steps: Mapping[str, str] = field(default_factory=dict)
    promoted: Mapping[str, str] = field(default_factory=dict)
    tables: Mapping[str, str] = field(default_factory=dict)
    handlers: Mapping[str, str] = field(default_factory=dict)
    people: Mapping[str, str] = field(default_factory=dict)
    guards: Mapping[str, str] = field(default_factory=dict)
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

    kind: ExtensionKind
    name: str
    address: str
    package: str
    sentence: str = ""

    @property
    def version(self) -> str:
        """Version of the package."""
        return version(self.package)

    def load(self) -> Any:
        """Import the object.

        Raises:
            PluginError: It cannot be imported; the error names the package.
        """
        return load_object(
            self.address,
            where=f"{self.kind.removesuffix('s')} {self.name!r} of the package {self.package}",
            installed=True,
        )


def find_additions(kind: ExtensionKind) -> Mapping[str, Addition]:
    """Everything of a kind that is installed, by name: ragwright's own first, then by package.

    Where two packages use one name, the first one counts; see :func:`addition_faults`.
    """
    return _collected()[0][kind]


@cache
def addition(kind: ExtensionKind, name: str) -> Addition | None:
    """The addition of a name; None if no package has it.

    Other packages are read only for a name that is not ragwright's own.
    """
    for point in sorted(_own_points(), key=lambda point: point.name != name):  # mostly the first
        for own in _additions(point):
            if (own.kind, own.name) == (kind, name):
                return own
    return find_additions(kind).get(name)


def load_addition(kind: ExtensionKind, name: str, *, where: str) -> Any:
    """The object that settings name: ``module:object``, or the name of something installed.

    Raises:
        PluginError: There is none, with the known names; or it cannot be imported.
    """
    if ":" in name:
        return load_object(name, where=where)
    known = addition(kind, name)
    if known is None:
        names = find_additions(kind)
        known_names = suggest_name(name, names) if names else "none is installed"
        raise PluginError(
            f"no installed package has the {kind.removesuffix('s')} {name!r}",
            where=where,
            hint=f"{known_names.rstrip('?')}; or write module:object",
        )
    return known.load()


def make_addition(
    kind: ExtensionKind, name: str, base: type[MadeT], where: str, *arguments: Any
) -> MadeT:
    """An object that settings name: itself, or what its class or a function makes.

    Raises:
        PluginError: It cannot be loaded or made, or is something else.
    """
    made = load_addition(kind, name, where=where)
    if callable(made) and not isinstance(made, base):
        try:
            made = made(*arguments) if inspect.signature(made).parameters else made()
        except Exception as error:
            what = f"{name!r} is not a {base.__name__.lower()} and makes none: {error}"
            raise PluginError(what, where=where) from error
    if not isinstance(made, base):
        raise PluginError(
            f"{name!r} is not a {base.__name__.lower()}",
            where=where,
            hint=f"subclass {base.__name__} of ragwright.{base.__module__.split('.')[1]}",
        )
    return made


def list_own_additions(kind: ExtensionKind) -> tuple[Addition, ...]:
    """Everything of a kind that ragwright itself adds, without a look at other packages."""
    points = (new for point in _own_points() for new in _additions(point))
    return tuple(new for new in points if new.kind == kind)


def additions_of_others() -> tuple[Addition, ...]:
    """Return the additions of packages other than ragwright, by kind."""
    kinds = _collected()[0]
    return tuple(new for known in kinds.values() for new in known.values() if new.package != _HERE)


def addition_faults() -> tuple[str, ...]:
    """Faults of installed packages: what cannot be imported, and names that are used twice.

    Everything that other packages add is imported.
    """
    faults = list(_collected()[1])
    for new in additions_of_others():
        try:
            new.load()
        except PluginError as error:
            faults.append(str(error))
    return tuple(faults)


def _points_of(package: Distribution) -> tuple[EntryPoint, ...]:
    return tuple(point for point in package.entry_points if point.group.startswith(_GROUP))


@cache
def _points() -> tuple[EntryPoint, ...]:
    packages: dict[str, tuple[EntryPoint, ...]] = {}
    for package in distributions():
        if points := _points_of(package):
            packages.setdefault(package.name, points)  # the first one on the path is imported
    packages.pop(_HERE, None)
    return (*_own_points(), *chain.from_iterable(packages[name] for name in sorted(packages)))


@cache
def _own_points() -> tuple[EntryPoint, ...]:
    points = _points_of(distribution(_HERE))
    if not any(point.group == _EXTENSIONS for point in points):
        raise PluginError(
            "this installation of ragwright is older than its code: "
            "it does not list its extensions",
            where=str(distribution(_HERE).locate_file("")),
            hint="install it again: pip install ragwright, or in a checkout: make install",
        )
    return tuple(sorted(points, key=lambda point: (point.group, point.name)))


@cache
def _collected() -> tuple[Mapping[ExtensionKind, Mapping[str, Addition]], tuple[str, ...]]:
    """Additions by kind and name, and faults.

    A fault of one package must not stop the program, which may not need it.
    """
    kinds: dict[ExtensionKind, dict[str, Addition]] = {kind: {} for kind in get_args(ExtensionKind)}
    faults = []
    for point in _points():
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
def _additions(point: EntryPoint) -> tuple[Addition, ...]:
    group = point.group.removeprefix(_GROUP)
    package = "" if point.dist is None else point.dist.name
    address = point.value.partition("[")[0].strip()
    if group in get_args(ExtensionKind):
        return (Addition(group, point.name, address, package),)  # type: ignore[arg-type]
    if point.group != _EXTENSIONS:
        return ()
    extension = load_object(
        address, where=f"extension {point.name!r} of the package {package}", installed=True
    )
    if not isinstance(extension, Extension):
        raise PluginError(
            f"{address} is {type(extension).__name__}, not an Extension",
            where=f"the package {package}",
            hint="write EXTENSION = Extension(...) with Extension from ragwright.core",
        )
    return tuple(
        Addition(kind, name, address, package, extension.sentences.get(name, ""))
        for kind in get_args(ExtensionKind)
        for name, address in getattr(extension, kind).items()
    )
