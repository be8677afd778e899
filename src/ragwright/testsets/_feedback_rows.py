"""Candidate rows: questions that people asked and voted on, waiting for a person's decision.

A candidate is a row of a testset under review. ``retrieved_spans`` are the passages that readers
were shown, numbered from 1, and ``reference_spans`` those that the votes propose as gold. Until a
person accepts it, it is left out of every measurement.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ..core import Row, TestsetError
from ..ledger import folder_locked
from ._feedback_row import (
    FEEDBACK,
    feedback_words,
    is_candidate,
    is_feedback,
    votes_on,
)
from ._labels import ReviewLog
from .rows import read_rows, write_rows


def feedback_notes(row: Row) -> tuple[str, ...]:
    """Return what readers said of a row from feedback, in sentences."""
    accepted, rejected = votes_on(row)
    voted = f"{accepted} of {accepted + rejected} votes accept this answer."
    notes = [voted if accepted or rejected else "Nobody voted on this answer."]
    if accepted and rejected:
        notes.append("Readers disagree: read the passages before you decide.")
    if row.metadata.get("feedback_correction"):
        notes.append("The gold answer is a reader's correction.")
    if others := feedback_words(row, "feedback_corrections"):
        notes.append(f"Other corrections: {' | '.join(others)}")
    notes += [f"Remark of {note.rstrip('.')}." for note in feedback_words(row, "feedback_notes")]
    if gone := row.metadata.get("feedback_gone"):
        passages = "1 passage" if gone == 1 else f"{gone} passages"
        notes.append(f"{passages} that readers saw are no longer in the documents.")
    if row.metadata.get("answerable") is False:
        notes.append("Readers agree with the abstention: accepted, the row is unanswerable.")
    elif not row.reference_spans:
        notes.append("The votes propose no gold passage: choose one, or reject the row.")
    return tuple(notes)


@dataclass(frozen=True, slots=True)
class CandidateCounts:
    """What happened to a file of candidates: rows added, changed, removed, and left as they are.

    ``decided`` rows are those that people decided on; ``revoted`` are those of them that got
    further votes since.
    """

    added: int = 0
    changed: int = 0
    removed: int = 0
    unchanged: int = 0
    decided: int = 0
    revoted: int = 0


def rows_so_far(path: Path) -> tuple[Row, ...]:
    """Return the rows of a testset that may not exist yet, or be empty.

    Raises:
        TestsetError: The file cannot be read.
    """
    return read_rows(path) if path.exists() and path.stat().st_size else ()


def _replace_rows(rows: Collection[Row], path: Path) -> None:
    """Write rows; without any, remove the file: a testset without rows cannot be read."""
    if rows:
        write_rows(rows, path)
    else:
        path.unlink(missing_ok=True)


def store_candidates(path: Path, candidates: Sequence[Row], scope: str = "") -> CandidateCounts:
    """Write candidates of a scope into a testset; rows that people decided on stay as they are.

    Undecided rows of the scope whose feedback no longer exists are removed; other rows stay.

    Raises:
        TestsetError: The file cannot be read or written, or holds rows of another scope.
        StoreBusyError: Another process holds the folder.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with folder_locked(path.parent, "the feedback"):
        before = {row.id: row for row in rows_so_far(path)}
        others = {
            str(r.metadata.get("feedback_scope", "")) for r in before.values() if is_feedback(r)
        }
        if others - {scope}:
            raise TestsetError(
                f"the file holds feedback of {_tenant(min(others - {scope}))}, and this is "
                f"feedback of {_tenant(scope)}",
                where=str(path),
                hint="tenants do not share a file: name another one",
            )
        new = {row.id: row for row in candidates}
        rows, counts = dict[str, Row](), dict.fromkeys(CandidateCounts.__slots__, 0)
        for name, row in before.items():
            if not is_candidate(row):
                rows[name] = row
                counts["decided"] += is_feedback(row)
                counts["revoted"] += name in new and votes_on(new[name]) != votes_on(row)
            elif name in new:
                # what is for confirmation stays so: somebody said it in an earlier call
                split = {"split": "confirm"} if row.metadata.get("split") == "confirm" else {}
                rows[name] = replace(new[name], metadata={**new[name].metadata, **split})
                counts["unchanged" if rows[name] == row else "changed"] += 1
            else:
                counts["removed"] += 1
        counts["added"] = len(new.keys() - rows.keys())
        rows |= {name: row for name, row in new.items() if name not in rows}
        if list(rows.values()) != list(before.values()):
            _replace_rows(rows.values(), path)
    return CandidateCounts(**counts)


def _tenant(scope: str) -> str:
    return f"the tenant {scope!r}" if scope else "no tenant"


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
    gone = 0
    for path in sorted(folder.glob("*.jsonl")) if folder.is_dir() else ():
        if f'"{FEEDBACK}"' not in path.read_text("utf-8", "replace"):
            continue  # most files; some of them are no testsets
        with folder_locked(folder, "the erasure"):
            rows = read_rows(path)
            feedback = [row for row in rows if is_feedback(row)]
            lost = {row.id for row in feedback if _of(row, document_id, scope, outputs)}
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


def _of(row: Row, document_id: str, scope: str, outputs: Collection[str]) -> bool:
    if scope:
        return row.metadata.get("feedback_scope") == scope
    if not document_id:
        return not set(outputs).isdisjoint(feedback_words(row, "feedback_outputs"))
    spans = (*row.retrieved_spans, *row.reference_spans)
    named: Mapping[str, None] = dict.fromkeys(feedback_words(row, "feedback_documents"))
    return document_id in named or any(span.document_id == document_id for span in spans)
