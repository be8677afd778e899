"""The log of a review, and rows made from readers' feedback."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ..core import Row, TestsetError, appending
from ..ledger import folder_locked
from ._falsify import gold_answer
from ._records import objects_of, write_lines, write_rows
from ._rows import read_rows

MARKS = ("review", "reviewed_by", "reviewed_at")
"""Metadata keys of a review."""

_SUFFIX = ".reviews.jsonl"

_TEXTS = ("row", "by", "at", "decision")


class ReviewLog:
    """The log beside a testset, ``NAME.reviews.jsonl``; lines are only ever added.

    A line is a decision: ``row`` (its id), ``by``, ``at`` (ISO 8601), ``decision`` (``accepted``,
    ``edited``, ``rejected`` or ``undone``); question, gold answer and review ``before`` it and
    ``after`` it.

    Args:
        testset: The testset.
    """

    def __init__(self, testset: Path) -> None:
        self.path = testset.with_suffix(_SUFFIX)

    def decisions(self) -> list[dict[str, Any]]:
        """Return the decisions in force, oldest first; undone ones are left out.

        Raises:
            TestsetError: A line is not a decision; with file and line.
        """
        in_force: list[dict[str, Any]] = []
        for where, line in objects_of(self.path) if self.path.exists() else ():
            if any(not isinstance(line.get(name), str) for name in _TEXTS):
                raise TestsetError(
                    "not a decision of a review",
                    where=where,
                    hint="only ragwright writes this log; restore it from version control",
                )
            if line["decision"] != "undone":
                in_force.append(line)
            elif same := [d for d in in_force if (d["row"], d["by"]) == (line["row"], line["by"])]:
                in_force.remove(same[-1])
        return in_force

    def labels(self) -> dict[str, dict[str, str]]:
        """Return row id -> person -> their last decision."""
        by_row: dict[str, dict[str, str]] = {}
        for line in self.decisions():
            by_row.setdefault(line["row"], {})[line["by"]] = line["decision"]
        return by_row

    @contextmanager
    def adding(
        self, row: str, by: str, decision: str, **texts: Mapping[str, Any]
    ) -> Iterator[None]:
        """Add a decision, which stays in the log only if the block ends without error.

        Raises:
            TestsetError: The log cannot be written.
        """
        at = datetime.now(UTC).isoformat(timespec="seconds")
        line = {"row": row, "by": by, "at": at, "decision": decision, **texts}
        text = json.dumps(line, ensure_ascii=False) + "\n"
        try:
            with appending(self.path, text.encode("utf-8", "backslashreplace")):
                yield
        except OSError as error:
            raise TestsetError(
                f"the decision cannot be logged: {error.strerror}", where=str(self.path)
            ) from error


def drop_review(row: Row) -> Row:
    """Return a row without its review."""
    return replace(row, metadata={k: v for k, v in row.metadata.items() if k not in MARKS})


def holds_reviews(path: Path) -> bool:
    """True for the name of a log of reviews."""
    return path.name.endswith(_SUFFIX)


def answer_in_evidence(row: Row) -> bool | None:
    """True if the gold passages hold every part of the gold answer in its words.

    A reader may still have to judge: an answer in other words is not found. None without a gold
    answer or gold passages.
    """
    gold = gold_answer(row)
    evidence = "\n".join([*(span.text for span in row.reference_spans), *row.reference_contexts])
    if gold is None or not evidence.strip():
        return None
    return all(gold.held(evidence))


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
                log = ReviewLog(path).path
                lines = objects_of(log) if log.exists() else ()
                left = [line for _, line in lines if line.get("row") not in lost]
                write_lines(log, left)
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
