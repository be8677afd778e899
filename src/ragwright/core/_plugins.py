"""Loading plug-ins: ``module:object`` in a settings file.

A module that is not installed is looked for in the folder that the command was started in. That
folder is not on ``sys.path``: otherwise a file of a stranger's folder would run as soon as any
library tries to import an optional module of its name.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any

from ._errors import MissingExtraError, PluginError

_SAFE = "PYTHONSAFEPATH"
_CALLER_FRAMES = 20
"""Most frames of the import system between an import and the module that asked for it."""


class _FolderPlugins(MetaPathFinder):
    """Finds modules in a folder: those that settings name, and those that they import."""

    def __init__(self) -> None:
        self.folder = ""
        self._folders: dict[str, str] = {}

    def allow(self, module: str) -> None:
        """Let a module, named by the settings, be imported from the folder."""
        name = module.partition(".")[0]
        if self.folder and name not in sys.stdlib_module_names:
            self._folders[name] = self.folder

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The module, where the settings or a module of the folder ask for it."""
        if path is not None or fullname in sys.stdlib_module_names:
            return None
        folder = self._folders.get(fullname) or self._folders.get(_importer())
        spec = PathFinder.find_spec(fullname, [folder], target) if folder else None
        if folder and spec is not None:
            self._folders[fullname] = folder
        return spec


_PLUGINS = _FolderPlugins()


def _importer() -> str:
    """The package or module whose code runs the present import."""
    frame = sys._getframe(2)
    for _ in range(_CALLER_FRAMES):
        name = str(frame.f_globals.get("__name__", ""))
        if not name.startswith(("importlib.", "_frozen_importlib")) and name != "importlib":
            return name.partition(".")[0]
        if frame.f_back is None:
            break
        frame = frame.f_back
    return ""


def plugin_folder() -> str:
    """The folder that modules named in settings may be imported from; empty if there is none."""
    return _PLUGINS.folder


def import_plugins_from(folder: str) -> None:
    """Import modules that settings name from this folder, too, if they are not installed."""
    _PLUGINS.folder = folder
    if folder and _PLUGINS not in sys.meta_path:
        sys.meta_path.append(_PLUGINS)  # last, so that no file there shadows an installed module


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
        _PLUGINS.allow(module_name)
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
            f"cannot import {module_name!r}: {error}",
            where=where,
            hint="install the package, or start from the folder that holds it",
        ) from error
    for name in path.split("."):
        if not hasattr(loaded, name):
            raise PluginError(f"{shown or module_name!r} has no {path!r}", where=where)
        loaded = getattr(loaded, name)
    return loaded


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
