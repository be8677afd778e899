"""Purging a document or a tenant from everything that a project stores."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from functools import partial
from typing import TYPE_CHECKING

from ..answer import CONVERSATION
from ..ledger import forget, forget_backups, one_to_forget, open_ledger
from ..project import clear_spools, forget_glossaries, forget_stamps
from .tables import ProjectRecords

if TYPE_CHECKING:
    from ..project import Project

_END_WORK = (
    "nothing was forgotten, because running work could store the text again; wait for it to "
    "end, or end it (Ctrl-C, or `kill` with its process id), then forget again"
)


@contextmanager
def _erasing_alone(project: Project, name: str) -> Iterator[None]:
    """Erase without other work on the project; announce the erasure before and after.

    After the first announcement, answers that use the erased text end; after the second, other
    processes read the remaining data again.

    Raises:
        StoreBusyError: As :func:`forget_document`.
    """
    note = partial(project.erasures.add, [name])
    with project.alone("forget", hint=_END_WORK, announce=note):
        try:
            yield
        finally:
            note()


def forget_document(project: Project, document_id: str) -> Mapping[str, int]:
    """Purge a document from store, replies, runs, outputs and tables; return the counts.

    The document of a record is also removed from the tables, with all their earlier versions, and
    from exported Delta tables (``exported``). Replies to prompts that held earlier answers are
    removed too, since those may have quoted it. Every process reads :attr:`Project.erasures` again
    before it shows or stores an answer.

    Args:
        project: The project.
        document_id: The document.

    Raises:
        StoreError: The name is empty.
        StoreBusyError: Other processes work on the project and could store the text again; the
            message names them, and nothing was forgotten.
    """
    one_to_forget(document_id, None)
    with _erasing_alone(project, document_id):
        document = project.store.document(document_id)
        removed = project.store.remove([document_id], purge=True)
        project.views.channels.drop()  # they may hold its text
        forget_glossaries(project.folder.cache)  # they may be mined from the document
        clear_spools(project.folder.cache)  # left by an ingest that was killed
        project.folder.ingest_report.unlink(missing_ok=True)  # it may name the document
        forget_stamps(project.folder.cache / "files.sqlite", document_id)
        names = {document_id, CONVERSATION} | ({document.source} if document else set())
        records = ProjectRecords(project)
        replies = sum(project.replies.forget(source=name) for name in sorted(names))
        counts = _forget_rows(project, source=document_id)
        return {
            "documents": removed.removed,
            "chunks": removed.chunks_removed,
            "replies": replies,
            "rows": counts["rows"],
            "outputs": counts["outputs"],
            "records": records.forget(document_id),
            "exported": records.forget_exported(document_id),
            "jobs": counts["jobs"],
        }


def scope_name(scope: str) -> str:
    """Return the name of a visibility scope among the erasures of a project."""
    return f"ragwright:scope:{scope}"


def forget_tenant(project: Project, scope: str) -> Mapping[str, int]:
    """Purge the replies, runs and outputs made in a visibility scope; return the counts.

    Raises:
        StoreError: The name is empty.
        StoreBusyError: As :func:`forget_document`.
    """
    one_to_forget(None, scope)
    with _erasing_alone(project, scope_name(scope)):
        replies = project.replies.forget(scope=scope)
        counts = _forget_rows(project, scope=scope)
        return {"replies": replies, "rows": counts["rows"], "outputs": counts["outputs"]}


def _forget_rows(project: Project, **target: str) -> Mapping[str, int]:
    """Purge a document (``source``) or a ``scope`` from ledger and backups; return the counts.

    With a shared database, the ledger of the project folder is purged too: it holds rows from
    before the move, and the printed output of jobs.
    """
    file = project.folder.ledger
    counts: dict[str, int] = {}
    for place in dict.fromkeys((file, project.settings.shared.place(file))):
        power_safe = project.settings.budget.power_safe
        with closing(open_ledger(place, power_safe=power_safe)) as database:
            counts.update(forget(database, **target))
    forget_backups(project.folder.data)  # after opening, which may have made one
    return counts
