"""A configuration that is open."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from ..core import GROUPS, Filter, RagwrightError, RetrieveError
from ..drafting import Origin
from ..project import Settings
from ..retrieve import Target
from ..workbench import AskOptions, Workbench
from ._identity import Identity
from ._options import serve_options


def is_everyones(settings: Settings) -> bool:
    """True if documents without groups are everyone's."""
    return settings.groups.ungrouped == "everyone"


@dataclass(slots=True)
class OpenConfiguration:
    """A configuration that is open, and how many requests use it.

    Attributes:
        name: Its name in ids of models.
        bench: The project under it.
        number: Number of the served configuration, None where it is the project's own.
        origin: What stored answers say of where they come from.
        target: What is searched; None where nothing is ingested, see ``fault``.
        fault: Why there is no target.
        erased: The last erasure that the target knows of.
        grouped: True if some documents of the target name groups of readers.
        ungrouped: True if documents without groups are everyone's.
    """

    name: str
    bench: Workbench
    number: int | None
    origin: Origin
    target: Target | None = None
    fault: RagwrightError | None = None
    erased: int = 0
    grouped: bool = False
    ungrouped: bool = False
    users: int = 0
    retired: bool = False
    idle: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def personas(self) -> tuple[str, ...]:
        """Personas that are served, by name: those chosen, else the project's own.

        Shipped personas speak of teams that a project may not have.
        """
        project = self.bench.project
        wanted = serve_options(project.settings).personas
        known = project.personas if wanted else project.own_personas
        return tuple(name for name in sorted(known) if not wanted or name in wanted)

    def aim(self) -> None:
        """Search the newest state of the index.

        Raises:
            RagwrightError: Nothing is ingested, or the index cannot be opened.
        """
        project = self.bench.project
        target = project.target()
        grouped, _ = project.views.answer(target.snapshot, lambda view: GROUPS in view.fields())
        # Requests read both from another thread, see `asking`: the right is never late.
        self.grouped = self.grouped or grouped
        self.target, self.fault = target, None
        self.grouped = grouped

    def searched(self) -> Target:
        """The index that is searched now.

        Raises:
            RagwrightError: Nothing is.
        """
        if self.target is None:
            raise self.fault or RetrieveError("nothing has been ingested yet")
        return self.target

    def asking(self, identity: Identity | None) -> AskOptions:
        """Return how a caller's requests ask: under its rights and scope, on the current index.

        Where every document is everyone's, groups cost nothing and narrow nothing.
        """
        grouped = self.grouped  # before the target is read and behind it: either may be newer
        target = self.searched()
        if identity is None:
            return AskOptions(target=target)
        filters: tuple[Filter, ...] = identity.conditions
        grouped = grouped or self.grouped or self.bench.project.databases.grouped
        if grouped or not self.ungrouped:
            right = identity.right(ungrouped=self.ungrouped)
            filters = filters if right is None else (right, *filters)
        return AskOptions(
            scope=identity.scope, person=identity.name, filters=filters, target=target
        )
