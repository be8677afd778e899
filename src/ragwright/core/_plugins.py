"""Loading plug-ins: ``module:object`` in a settings file."""

from __future__ import annotations

import importlib
from typing import Any

from ._errors import MissingExtraError, PluginError


def load_object(address: str, *, where: str | None = None, shown: str = "") -> Any:
    """The object at ``module:object`` (dots reach into it).

    Args:
        address: Module and object.
        where: Where the address is written, for errors.
        shown: How errors name the module; by default as it is imported.

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
    try:
        found: Any = importlib.import_module(module_name)
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
        if not hasattr(found, name):
            raise PluginError(f"{shown or module_name!r} has no {path!r}", where=where)
        found = getattr(found, name)
    return found


def entry_point(group: str, name: str) -> Any | None:
    """The object that an installed package offers under ``ragwright.<group>``, or None."""
    from importlib.metadata import entry_points

    for point in entry_points(group=f"ragwright.{group}"):
        if point.name == name:
            return point.load()
    return None


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
