"""Purging a document or a tenant from everything that a project stores."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from typing import TYPE_CHECKING

from ..answer import CONVERSATION
from ..index import forget_sheets
from ..ledger import ADDED, Ledger, forget, forget_backups, one_to_forget
from ..project import (
    clear_sheets,
    clear_spools,
    clear_trials,
    forget_glossaries,
    forget_stamps,
    kept_tables,
)
from ..testsets import forget_feedback
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
        StoreError: The name is empty, or there are tables of a package that is not installed.
        StoreBusyError: Other processes work on the project and could store the text again; the
            message names them, and nothing was forgotten.
    """
    one_to_forget(document_id, None)
    with _erasing_alone(project, document_id), _ledgers(project) as ledgers:
        document = project.store.document(document_id)
        names = {document_id, CONVERSATION} | ({document.source} if document else set())
        records = ProjectRecords(project)
        # the document last: it can be named again if anything else cannot be forgotten
        counts = _forget_rows(project, ledgers, source=document_id)
        replies = sum(project.replies.forget(source=name) for name in sorted(names))
        project.figures.remove([document_id])
        forget_sheets(project.folder.sheets, [document_id])
        removed = project.store.remove([document_id], purge=True)
        project.views.channels.drop()  # they may hold its text
        forget_glossaries(project.folder.cache)  # they may be mined from the document
        clear_spools(project.folder.cache)  # left by an ingest that was killed
        clear_trials(project.folder.cache)  # left by a rehearsal that was killed
        clear_sheets(project.folder.cache)
        forget_stamps(project.folder.cache / "files.sqlite", document_id)
        candidates = forget_feedback(project.folder.testsets, document_id)
        return {
            "documents": removed.removed,
            "chunks": removed.chunks_removed,
            "replies": replies,
            "rows": counts["rows"],
            "outputs": counts["outputs"],
            "records": records.forget(document_id),
            "exported": records.forget_exported(document_id),
            "jobs": counts["jobs"],
            **({"feedback rows": candidates} if candidates else {}),
            **_added_count(counts),
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
    with _erasing_alone(project, scope_name(scope)), _ledgers(project) as ledgers:
        counts = _forget_rows(project, ledgers, scope=scope)
        replies = project.replies.forget(scope=scope)
        candidates = forget_feedback(project.folder.testsets, scope=scope)
        return {
            "replies": replies,
            "rows": counts["rows"],
            "outputs": counts["outputs"],
            **({"feedback rows": candidates} if candidates else {}),
            **_added_count(counts),
        }


def _added_count(counts: Mapping[str, int]) -> dict[str, int]:
    """Rows that went from tables of other packages, if there are such tables."""
    return {"added": counts["added"]} if "added" in counts else {}


@contextmanager
def _ledgers(project: Project) -> Iterator[Sequence[Ledger]]:
    """The ledgers of a project, opened before anything is removed: one may be damaged.

    With a shared database, that of the project folder too: it holds rows from before they were
    moved, and what jobs have printed. Tables of other packages come last.
    """
    file, power_safe = project.folder.ledger, project.settings.budget.power_safe
    with ExitStack() as stack:
        places = dict.fromkeys((file, project.settings.shared.place(file)))
        added = [*kept_tables(project)]
        yield [
            *(
                stack.enter_context(closing(Ledger(place, power_safe=power_safe)))
                for place in places
            ),
            *(stack.enter_context(closing(Ledger(place, tables))) for place, tables in added),
        ]


def _forget_rows(project: Project, ledgers: Sequence[Ledger], **target: str) -> Mapping[str, int]:
    """Purge a document (``source``) or a ``scope`` from ledgers and backups; returns the counts."""
    counts: dict[str, int] = {}
    for ledger in ledgers:
        gone = forget(ledger.database, **target)
        added = ledger.database.tables.name.startswith(ADDED)
        counts.update({"added": counts.get("added", 0) + sum(gone.values())} if added else gone)
    forget_backups(project.folder.data)  # opening a ledger may have made one
    return counts
