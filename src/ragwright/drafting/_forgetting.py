"""Purging a document, a tenant or a person from everything that a project stores."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, nullcontext
from functools import partial

from ..answer import CONVERSATION
from ..core import person_source
from ..index import forget_sheets
from ..ledger import Database, Ledger, count_kept_of_person, forget, one_to_forget
from ..project import (
    Project,
    clear_spools,
    forget_glossaries,
    forget_stamps,
)
from ..testsets import forget_feedback
from ._draft import project_outputs
from ._project_records import ProjectRecords

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
    with project.work.alone("forget", hint=_END_WORK, announce=note):
        try:
            yield
        finally:
            note()


def forget_document(project: Project, document_id: str) -> Mapping[str, int]:
    """Purge a document from store, replies, runs, outputs and tables; return the counts.

    The document of a record is also removed from the tables, with all their earlier versions.
    Replies to prompts that held earlier answers are removed too, since those may have quoted it.
    Every process reads :attr:`Project.erasures` again before it shows or stores an answer.

    Args:
        project: The project.
        document_id: The document.

    Raises:
        StoreError: The name is empty, or there are tables of a package that is not installed.
        StoreBusyError: Other processes work on the project and could store the text again; the
            message names them, and nothing was forgotten.
    """
    one_to_forget(document_id)
    with _erasing_alone(project, document_id), _ledgers(project) as ledgers:
        document = project.store.document(document_id)
        names = {document_id, CONVERSATION} | ({document.source} if document else set())
        records = ProjectRecords(project)
        # the document last: it can be named again if anything else cannot be forgotten
        counts = _add_counts(ledgers, partial(forget, source=document_id))
        replies = sum(project.replies.forget(source=name) for name in sorted(names))
        forget_sheets(project.folder.sheets, document_id)
        removed = project.store.remove([document_id], purge=True)
        forget_glossaries(project.folder.cache)  # they may be mined from the document
        clear_spools(project.folder.cache)  # left by an ingest that was killed
        forget_stamps(project.folder.cache / "files.sqlite", document_id)
        candidates = forget_feedback(project.folder.testsets, document_id)
        return {
            "documents": removed.removed,
            "chunks": removed.chunks_removed,
            "replies": replies,
            "rows": counts["rows"],
            "outputs": counts["outputs"],
            "records": records.forget(document_id),
            "jobs": counts["jobs"],
            **({"feedback rows": candidates} if candidates else {}),
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
    one_to_forget(scope=scope)
    with _erasing_alone(project, scope_name(scope)), _ledgers(project) as ledgers:
        counts = _add_counts(ledgers, partial(forget, scope=scope))
        replies = project.replies.forget(scope=scope)
        candidates = forget_feedback(project.folder.testsets, scope=scope)
        return {
            "replies": replies,
            "rows": counts["rows"],
            "outputs": counts["outputs"],
            **({"feedback rows": candidates} if candidates else {}),
        }


def forget_person(project: Project, person: str, *, dry_run: bool = False) -> Mapping[str, int]:
    """Purge everything that is stored under the name of a key or person; return the counts.

    Answers and drafts with all feedback on them, feedback and
    corrections that the person gave, the key, counts of requests and replies to what they
    asked are deleted, as are rows of runs and of feedback that hold their questions. Events of the
    audit log and promotions stay, with a hash in place of the name; the day's spend stays without
    one. With ``dry_run`` this is counted, and nothing is changed.

    Raises:
        StoreError: The name is empty.
        StoreBusyError: As :func:`forget_document`.
    """
    one_to_forget(person=person)
    source = person_source(person)
    with (
        nullcontext() if dry_run else _erasing_alone(project, source),
        _ledgers(project) as ledgers,
    ):
        asked = project_outputs(project).of_person(person)
        rows = sum(_question_rows(ledger, asked, dry_run=dry_run) for ledger in ledgers)
        candidates = forget_feedback(
            project.folder.testsets, outputs=[text[0] for text in asked], dry_run=dry_run
        )
        purge = count_kept_of_person if dry_run else forget
        counts = _add_counts(ledgers, partial(purge, person=person))
        replies = project.replies
        return {
            # what other packages and jobs keep goes with any person: it says nothing of this one
            **{name: number for name, number in counts.items() if name not in ("jobs", "added")},
            "replies": replies.number_of(source) if dry_run else replies.forget(source=source),
            "rows": rows,
            "feedback rows": candidates,
        }


_AT_ONCE = 500
"""Ids of rows that are looked up by one statement."""


def _question_rows(
    ledger: Ledger, asked: Sequence[tuple[str, str]], *, dry_run: bool = False
) -> int:
    """Delete, or count, the rows of runs that hold what a person asked.

    Args:
        ledger: The ledger.
        asked: Id and question of each text.
        dry_run: Count them only.
    """
    questions = {row: question for row, question in asked if question}
    names, lost = sorted(questions), []
    for at in range(0, len(names), _AT_ONCE):
        some = names[at : at + _AT_ONCE]
        marks = ", ".join("?" * len(some))
        for run, row, body in ledger.select(
            f"SELECT run, row, body FROM rows WHERE row IN ({marks})",  # noqa: S608
            some,
        ):
            # rows of a test set may have ids like those of outputs
            if _holds_text(str(body), questions[row]):
                lost.append((run, row))
    if lost and not dry_run:
        with ledger.database.transaction() as connection:
            for table in ("rows", "row_sources"):
                deletion = f"DELETE FROM {table} WHERE run = ? AND row = ?"  # noqa: S608
                connection.executemany(deletion, lost)
    return len(lost)


def _holds_text(body: str, text: str) -> bool:
    """True if a JSON text holds a text, however its characters are escaped."""
    return any(json.dumps(text, ensure_ascii=plain)[1:-1] in body for plain in (True, False))


@contextmanager
def _ledgers(project: Project) -> Iterator[Sequence[Ledger]]:
    """The ledgers of a project, opened before anything is removed: one may be damaged.

    With a shared database, that of the project folder too: it holds promotions and
    what jobs have printed.
    """
    file = project.folder.ledger
    with ExitStack() as stack:
        yield [
            stack.enter_context(closing(Ledger(place)))
            for place in dict.fromkeys((file, project.settings.shared.place(file)))
        ]


def _add_counts(
    ledgers: Sequence[Ledger], purge: Callable[[Database], Mapping[str, int]]
) -> Counter[str]:
    """Purge, or count, the rows of ledgers; return the counts of all."""
    counts = Counter[str]()
    for ledger in ledgers:
        counts.update(purge(ledger.database))
    return counts
