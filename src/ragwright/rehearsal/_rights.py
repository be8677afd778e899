"""As whom a rehearsal reads a project."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..core import Filter
    from ..project import Project


def rights(project: Project, groups: Sequence[str] | None) -> tuple[Filter, ...]:
    """What readers of some groups may read of a project, as a filter; none for None."""
    return () if groups is None else (project.settings.groups.right(groups),)
