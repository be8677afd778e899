"""Names of a package that are loaded when they are first used."""

from collections.abc import Callable, Mapping
from importlib import import_module
from sys import modules


def load_late(package: str, files: Mapping[str, str]) -> Callable[[str], object]:
    """Return the ``__getattr__`` of a package whose files are imported late.

    So that a package can be imported where an extra that one of its files needs is missing.

    Args:
        package: Its ``__name__``.
        files: Name of a file or room below it -> the names it gives, with a space between them.
    """
    places = {name: file for file, names in files.items() for name in names.split()}

    def load(name: str) -> object:
        if name not in places:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(import_module(f"{package}.{places[name]}"), name)
        setattr(modules[package], name, value)
        return value

    return load
