"""Locks for work that stores text, so that erasing and writing never overlap."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Concatenate, ParamSpec, Protocol, TypeVar

from ..ledger import WorkLock


class Working(Protocol):
    """An opened project, as needed for its lock."""

    @property
    def work(self) -> WorkLock:
        """Held shared by everything that reads text and stores results."""


P = ParamSpec("P")
R = TypeVar("R")
B = TypeVar("B", bound=Working)


def at_work(
    what: str,
) -> Callable[[Callable[Concatenate[B, P], R]], Callable[Concatenate[B, P], R]]:
    """Decorator for work on a project, its first argument: ``forget`` is refused meanwhile.

    The lock is held from before the text is read until the results are stored; otherwise forgotten
    text could be stored again.
    """

    def decorate(function: Callable[Concatenate[B, P], R]) -> Callable[Concatenate[B, P], R]:
        @wraps(function)
        def working(project: B, /, *args: P.args, **kwargs: P.kwargs) -> R:
            with project.work.working(what):
                return function(project, *args, **kwargs)

        return working

    return decorate
