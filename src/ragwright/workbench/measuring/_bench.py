"""What measuring needs of an opened project."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from ...answer import AskPlan
    from ...core import Persona, WorkLock
    from ...flow import Runner, Runs
    from ...index import Pair, Store
    from ...models import Models
    from ...retrieve import Databases, Target
    from ..project import ProjectFolder, Settings


class Bench(Protocol):
    """What measuring needs of an opened project."""

    @property
    def folder(self) -> ProjectFolder:
        """Where the project lies."""

    @property
    def work(self) -> WorkLock:
        """Held shared by all that reads text and stores what came of it."""

    @property
    def settings(self) -> Settings:
        """The project's settings."""

    @property
    def runner(self) -> Runner:
        """Carries requests out."""

    @property
    def runs(self) -> Runs:
        """Keeps rows."""

    @property
    def models(self) -> Models:
        """Knows models by name."""

    @property
    def count(self) -> Callable[[str], int]:
        """Number of tokens of a passage."""

    @property
    def store(self) -> Store:
        """Keeps documents."""

    @property
    def pair(self) -> Pair:
        """Under which settings documents are indexed."""

    @property
    def personas(self) -> Mapping[str, Persona]:
        """Whom answers may be written for."""

    def target(self) -> Target:
        """What is searched."""

    @property
    def databases(self) -> Databases:
        """The SQL databases that questions may be answered from."""

    def plan(self) -> AskPlan:
        """How questions are answered."""

    def persona(self, name: str = "") -> Persona:
        """The persona of a name, the project's own for the empty one."""
