"""Pages of installed packages: a template and a function that gives its values."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from ...core import PluginError, added

if TYPE_CHECKING:
    from ...workbench import Workbench


@dataclass(frozen=True, slots=True)
class Page:
    """A page that an installed package adds; only owners of the project see it.

    Attributes:
        title: Its heading, and its name in the navigation.
        template: Jinja source of what is below the heading. Values are escaped.
        values: Gives the values of the template, from the project and the query of the address;
            called outside the event loop.
    """

    title: str
    template: str
    values: Callable[[Workbench, Mapping[str, str]], Mapping[str, Any]]


@cache
def added_pages() -> Mapping[str, Page]:
    """The pages of installed packages by name; those that cannot be loaded are left out.

    `doctor` reports these.
    """
    pages = {}
    for name in added("pages"):
        with suppress(PluginError):
            pages[name] = opened_page(name)
    return pages


def opened_page(name: str) -> Page:
    """The page of a name.

    Raises:
        PluginError: There is none, it cannot be imported, or it is not a page.
    """
    addition = added("pages").get(name)
    if addition is None:
        raise PluginError(f"no installed package has a page {name!r}")
    page = addition.load()
    if not isinstance(page, Page):
        raise PluginError(
            f"{addition.address} is {type(page).__name__}, not a Page of ragwright.serve",
            where=f"the package {addition.package}",
        )
    return page
