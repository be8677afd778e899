"""Rows made from readers' feedback: candidates of a testset until a person decides on them."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from pathlib import Path

from ..core import Row, TestsetError
from ..ledger import folder_locked
from ._labels import ReviewLog
from .rows import read_rows, write_rows

FEEDBACK = "feedback"
"""Value of the metadata key ``kind`` of these rows; ``output`` names the rated answer."""


def is_feedback(row: Row) -> bool:
    """True for a row that was made from readers' feedback, decided or not."""
    return row.metadata.get("kind") == FEEDBACK


def is_candidate(row: Row) -> bool:
    """True for a row from feedback that nobody has decided on; it is not measured."""
    return is_feedback(row) and not row.metadata.get("review")


def feedback_note(row: Row) -> str:
    """Return what readers said of the answer of a row from feedback, in a line."""
    corrected = "corrected" if row.metadata.get("corrected") else ""
    said = (row.metadata.get("feedback"), corrected, row.metadata.get("feedback_note"))
    return f"Readers: {'; '.join(str(word) for word in said if word) or 'named its passage'}."


def require_gold(row: Row) -> None:
    """Refuse to accept a row from feedback without gold.

    Raises:
        TestsetError: It has neither a gold passage nor a gold answer.
    """
    if is_feedback(row) and not (row.reference_spans or row.reference):
        raise TestsetError(
            f"row {row.id!r} has neither a gold passage nor a gold answer",
            hint="edit it and write the answer, or reject it",
        )


def store_candidates(path: Path, candidates: Sequence[Row]) -> tuple[Row, ...]:
    """Replace the candidates of a testset; return its rows. Other rows stay as they are.

    Raises:
        TestsetError: The file cannot be read or written.
        StoreBusyError: Another process holds the folder.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with folder_locked(path.parent, "the feedback"):
        before = read_rows(path) if path.exists() and path.stat().st_size else ()
        kept = {row.id: row for row in before if not is_candidate(row)}
        rows = ({row.id: row for row in candidates} | kept).values()
        _replace_rows(rows, path)
    return tuple(rows)


def _replace_rows(rows: Collection[Row], path: Path) -> None:
    """Write rows; without any, remove the file: a testset without rows cannot be read."""
    if rows:
        write_rows(rows, path)
    else:
        path.unlink(missing_ok=True)


def forget_feedback(
    folder: Path,
    document_id: str = "",
    scope: str = "",
    outputs: Collection[str] = (),
    *,
    dry_run: bool = False,
) -> int:
    """Delete the rows from feedback that hold text of a document, or belong to a scope or person.

    Also their lines in the logs of reviews: a correction may quote the document.

    Args:
        folder: Folder of testsets.
        document_id: The document, if one is forgotten.
        scope: The scope, if one is forgotten.
        outputs: Ids of the outputs that a person asked for or rated, if one is forgotten.
        dry_run: Count them only.

    Returns:
        The number of rows.

    Raises:
        TestsetError: A file cannot be read or written.
        StoreBusyError: Another process holds the folder.
    """

    def holds(row: Row) -> bool:
        documents = {*row.retrieved_context_ids, *(s.document_id for s in row.reference_spans)}
        return (
            document_id in documents
            or bool(scope and row.metadata.get("scope") == scope)
            or row.metadata.get("output") in outputs
        )

    gone = 0
    for path in sorted(folder.glob("*.jsonl")) if folder.is_dir() else ():
        if f'"{FEEDBACK}"' not in path.read_text("utf-8", "replace"):
            continue  # most files; some of them are no testsets
        with folder_locked(folder, "the erasure"):
            rows = read_rows(path)
            lost = {row.id for row in rows if is_feedback(row) and holds(row)}
            gone += len(lost)
            if lost and not dry_run:
                ReviewLog(path).forget(lost)
                _replace_rows([row for row in rows if row.id not in lost], path)
    return gone


def files_naming(folder: Path, person: str) -> list[Path]:
    """Files of test sets, reviews and labels that name a person, as a JSON text.

    Args:
        folder: Folder of testsets.
        person: The name.
    """
    named = json.dumps(person, ensure_ascii=False)
    files = sorted(folder.rglob("*.jsonl")) if folder.is_dir() else []
    return [path for path in files if named in path.read_text("utf-8", "replace")]
