"""Work on a project that stores text, so that erasing and writing never meet."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Concatenate, ParamSpec, Protocol, TypeVar

from ..core import WorkLock


class Working(Protocol):
    """An opened project, as far as work on it is known to others."""

    @property
    def work(self) -> WorkLock:
        """Held shared by all that reads text and stores what came of it."""


P = ParamSpec("P")
R = TypeVar("R")
B = TypeVar("B", bound=Working)


def at_work(
    what: str,
) -> Callable[[Callable[Concatenate[B, P], R]], Callable[Concatenate[B, P], R]]:
    """Decorates what works on a project, its first argument: ``forget`` is refused meanwhile.

    From before the text is read until what came of it is stored, or a text that was forgotten in
    between would be stored again.
    """

    def decorate(function: Callable[Concatenate[B, P], R]) -> Callable[Concatenate[B, P], R]:
        @wraps(function)
        def working(project: B, /, *given: P.args, **named: P.kwargs) -> R:
            with project.work.working(what):
                return function(project, *given, **named)

        return working

    return decorate
