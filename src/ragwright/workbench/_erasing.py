"""Erasing what is stored: replies, documents, tenants, people."""

from __future__ import annotations

from collections.abc import Mapping

from .. import drafting, operations
from ..project import Project


class ErasingVerbs:
    """The verbs of a workbench that erase; each is in the audit log, where that is kept."""

    project: Project

    def clear_replies(self) -> int:
        """Delete every stored reply; returns their number, 0 if their file was damaged."""
        return self.project.clear_replies()

    def forget(self, document_id: str) -> Mapping[str, int]:
        """Purge a document from all that is stored; see ``ragwright.drafting.forget_document``."""
        with operations.recorded_erasure(self.project, "forget document", document_id):
            return drafting.forget_document(self.project, document_id)

    def forget_tenant(self, scope: str) -> Mapping[str, int]:
        """Purge what was made in a visibility scope; see ``ragwright.drafting.forget_tenant``."""
        with operations.recorded_erasure(self.project, "forget tenant", scope):
            return drafting.forget_tenant(self.project, scope)

    def forget_person(self, person: str, *, dry_run: bool = False) -> Mapping[str, int]:
        """Purge what is kept of a key or person; see ``ragwright.drafting.forget_person``.

        With ``dry_run`` nothing is changed, and the counts are those of a purge.
        """
        if dry_run:
            return drafting.kept_of(self.project, person)
        with operations.recorded_erasure(self.project, "forget person", person):
            return drafting.forget_person(self.project, person)
