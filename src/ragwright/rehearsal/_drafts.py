"""Stored drafts that were made from documents which would change."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..drafting import OutputQuery, project_outputs
from ._records import ChangedDocument, StaleDraft

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..project import Project


def stale_drafts(
    project: Project, documents: Sequence[ChangedDocument], scope: str
) -> tuple[StaleDraft, ...]:
    """Drafts whose examples come from changed documents, newest first; served answers are none."""
    changed = {
        change.document_id: change for change in documents if change.state in ("gone", "changed")
    }
    if not changed or not project.folder.ledger.exists():
        return ()
    outputs = project_outputs(project)
    drafts: dict[int, StaleDraft] = {}
    for output in outputs.find(OutputQuery(kind="text", scope=scope), newest=True):
        if "question" in output.request:
            continue
        if output.batch in drafts:
            known = drafts[output.batch]
            names = (*known.outputs, output.id)
            drafts[output.batch] = StaleDraft(names, known.client, known.at, known.documents)
            continue
        used = {hit.document_id for hit in outputs.used(output.id)}
        stale = tuple(changed[name] for name in sorted(used & changed.keys()))
        if stale:
            drafts[output.batch] = StaleDraft((output.id,), output.client, output.at, stale)
    return tuple(drafts.values())
