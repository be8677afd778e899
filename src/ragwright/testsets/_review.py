"""Review of testsets on a sheet or one by one, and export of gold answers as chat turns."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_args

from ..core import (
    MetaValue,
    Row,
    TestsetError,
    csv_lines,
    replace_text,
    text_hash,
    value_hash,
)
from ..ledger import folder_locked
from ._labels import Decision, ReviewLabels, ReviewLog, require_gold
from .rows import (
    read_rows,
    records_of,
    row_record,
    write_rows,
)

ReviewStatus: TypeAlias = Literal["accepted", "edited", "rejected"]

_STATUSES = get_args(ReviewStatus)
_MARKS = ("review", "reviewed_by", "reviewed_at")
_COLUMNS = (
    "id",
    "review",
    "user_input",
    "reference",
    "evidence",
    "persona_name",
    "kind",
    "level",
    "leak",
    "row",
)
_ROUND_TRIP = (".jsonl", ".json")


def review_status(row: Row) -> str:
    """Return ``accepted``, ``edited`` or ``rejected``; empty if the row is not reviewed.

    Raises:
        TestsetError: The row has another value.
    """
    status = row.metadata.get("review", "")
    if status not in ("", *_STATUSES):
        raise TestsetError(
            f"row {row.id!r} has the review {status!r}", hint=f"one of {', '.join(_STATUSES)}"
        )
    return str(status)


def _add_review(
    row: Row, status: ReviewStatus, by: str, question: str = "", answer: str = ""
) -> Row:
    """Return a row with a decision: reviewer, time, and what was edited.

    ``accepted`` with a new question or answer is ``edited``; a rejected row keeps its own.

    Raises:
        TestsetError: A row from feedback has no gold.
    """
    new = row
    if status != "rejected":
        question, answer = question.strip() or row.user_input, answer.strip() or row.reference
        new = replace(row, user_input=question, reference=answer)
        status = status if new == row else "edited"
        require_gold(new)
    marks: dict[str, MetaValue] = {
        "review": status,
        "reviewed_by": by,
        "reviewed_at": datetime.now(UTC).isoformat(timespec="seconds"),
    }
    return replace(new, metadata={**new.metadata, **marks})


class TestsetReview:
    """A testset under review: each decision is on disk before the next row is shown.

    The file holds the latest decision on each row, and a log beside it (``NAME.reviews.jsonl``)
    every decision of every person, so a review can be interrupted, continued and undone, and
    several people can review at once. A change that another process made to the texts of the row
    being decided is a conflict; a decision that somebody else made on it is not.

    Args:
        path: The testset, JSONL.
        by: Reviewer.

    Raises:
        TestsetError: The file cannot be read, or has a format that cannot be written back.
    """

    __test__ = False  # the name is the field's; pytest must not collect it

    def __init__(self, path: str | Path, by: str) -> None:
        self.path = Path(path)
        if self.path.suffix.lower() not in _ROUND_TRIP:
            raise TestsetError(
                "only JSONL testsets can be reviewed",
                where=str(path),
                hint="make one with `ragwright synth --from FILE -o testsets/NAME.jsonl`",
            )
        self.by = by
        self._log = ReviewLog(self.path)
        self._load_rows()

    @property
    def rows(self) -> tuple[Row, ...]:
        """All rows, in file order."""
        return tuple(self._rows.values())

    @property
    def open(self) -> tuple[Row, ...]:
        """Rows without a decision, in file order."""
        return tuple(row for row in self._rows.values() if not review_status(row))

    def counts(self) -> dict[str, int]:
        """Count the accepted, edited, rejected and open rows."""
        counts = Counter(review_status(row) or "open" for row in self._rows.values())
        return {name: counts[name] for name in (*_STATUSES, "open")}

    def labels(self) -> ReviewLabels:
        """Return each person's decision on each row."""
        return self._log.labels()

    def decide(
        self,
        row: Row,
        status: ReviewStatus,
        *,
        question: str = "",
        answer: str = "",
    ) -> Row:
        """Store a decision on a row; return the new row.

        Args:
            row: The row as it was shown.
            status: The decision.
            question: New question, empty to keep.
            answer: New gold answer, empty to keep.

        Raises:
            TestsetError: Another process changed or removed the row meanwhile, a row from feedback
                has no gold, or the file cannot be written; the file is left as it is.
            StoreBusyError: Another process holds the folder.
        """
        with self._newest_locked():
            now = self._current_row(row)
            decided = _add_review(now, status, self.by, question, answer)
            # The log comes first: a decision that is only in the file could not be undone.
            # If the file cannot be written, the decision is removed from the log.
            review = str(decided.metadata["review"])
            with self._log.adding(
                decided.id, self.by, review, _reviewable_fields(now), _reviewable_fields(decided)
            ):
                self._store_row(decided)
        return decided

    def undo(self) -> Row | None:
        """Undo this person's last decision; return the restored row, None if there is none.

        Raises:
            TestsetError: As :meth:`decide`.
        """
        with self._newest_locked():
            last = self._log.last(self.by)
            if last is None:
                return None
            now = self._rows.get(last.row)
            restored = None if now is None else _row_before(now, last)
            if restored is None:
                raise _changed_error(last.row, self.path)
            with self._log.undoing(last):
                self._store_row(restored)
        return restored

    def apply_sheet(self, sheet: str | Path) -> SheetOutcome:
        """Store the decisions of a filled-in sheet; see :func:`read_review_sheet`.

        Decisions that other processes store meanwhile are kept.

        Raises:
            TestsetError: As :func:`read_review_sheet`, or the testset cannot be written.
            StoreBusyError: Another process holds the folder.
        """
        with self._newest_locked():
            outcome = read_review_sheet(sheet, self.rows, self.by)
            self._write_file({row.id: row for row in outcome.rows})
        return outcome

    def _load_rows(self) -> None:
        # The hash first: a write between the two lines then counts as unknown and is read again.
        self._known = _file_hash(self.path)
        self._rows = {row.id: row for row in read_rows(self.path)}

    @contextmanager
    def _newest_locked(self) -> Iterator[None]:
        """Lock the folder, and read the file again if another process changed it."""
        with folder_locked(self.path.parent, "the review"):
            if _file_hash(self.path) != self._known:
                self._load_rows()
            yield

    def _current_row(self, row_as_shown: Row) -> Row:
        """Return the current row if its texts are those that were shown."""
        now = self._rows.get(row_as_shown.id)
        if now is None or _drop_review(now) != _drop_review(row_as_shown):
            raise _changed_error(row_as_shown.id, self.path)
        return now

    def _store_row(self, row: Row) -> None:
        self._write_file({**self._rows, row.id: row})

    def _write_file(self, rows: dict[str, Row]) -> None:
        write_rows(rows.values(), self.path)
        self._rows = rows
        self._known = _file_hash(self.path)


def _changed_error(row: str, path: Path) -> TestsetError:
    return TestsetError(
        f"row {row!r} was changed by another process; nothing was written",
        where=str(path),
        hint="review it again",
    )


def _drop_review(row: Row) -> Row:
    """Return a row without its review."""
    return replace(row, metadata={k: v for k, v in row.metadata.items() if k not in _MARKS})


def _reviewable_fields(row: Row) -> dict[str, Any]:
    """Return the fields that a decision may change."""
    marks = {name: row.metadata[name] for name in _MARKS if name in row.metadata}
    return {"user_input": row.user_input, "reference": row.reference, **marks}


def _row_before(now: Row, last: Decision) -> Row | None:
    """Return a row without a decision; None if its texts were changed again since.

    Another person's later decision stays.
    """
    texts = ("user_input", "reference")
    changed = [name for name in texts if last.before[name] != last.after[name]]
    if any(getattr(now, name) not in (last.after[name], last.before[name]) for name in changed):
        return None
    metadata = dict(now.metadata)
    if all(metadata.get(name) == last.after.get(name) for name in _MARKS):
        for name in _MARKS:
            metadata.pop(name, None)
        metadata |= {name: last.before[name] for name in _MARKS if name in last.before}
    question, answer = (
        str(last.before[name]) if name in changed else getattr(now, name) for name in texts
    )
    return replace(now, user_input=question, reference=answer, metadata=metadata)


@dataclass(frozen=True, slots=True)
class SheetOutcome:
    """Result of reading a filled-in sheet.

    Attributes:
        rows: All rows of the testset, with the valid decisions.
        counts: Decisions of the sheet: accepted, edited, rejected, open (left empty), unchanged
            (already stored).
        conflicts: Lines that were not applied, each with its place and the reason.
    """

    rows: tuple[Row, ...]
    counts: Mapping[str, int]
    conflicts: tuple[str, ...]


def write_review_sheet(rows: Sequence[Row], path: str | Path) -> None:
    """Write rows as a table to fill in: ``review``; question and answer to edit in place.

    The last column is a hash of the row; text that a spreadsheet would read as a formula gets an
    apostrophe, which :func:`read_review_sheet` removes.

    Raises:
        TestsetError: The file exists already, or cannot be written.
    """
    lines: list[Sequence[str]] = [_COLUMNS]
    for row in rows:
        cells = {
            "id": row.id,
            "review": review_status(row),
            "user_input": row.user_input,
            "reference": row.reference,
            "evidence": _evidence_text(row),
            "persona_name": row.persona_name,
            "row": _row_hash(row),
        }
        lines.append([str(cells.get(name, row.metadata.get(name, ""))) for name in _COLUMNS])
    text = "".join(csv_lines(lines, end="\r\n"))
    try:
        replace_text(Path(path), text, fresh=True, encoding="utf-8-sig")
    except FileExistsError as error:
        raise TestsetError(
            "the sheet exists already; nothing was changed",
            where=str(path),
            hint="it may contain someone's work: choose another name",
        ) from error
    except OSError as error:
        raise TestsetError(f"cannot write the sheet: {error.strerror}", where=str(path)) from error


def read_review_sheet(path: str | Path, rows: Sequence[Row], by: str) -> SheetOutcome:
    """Apply a sheet to the rows it was written from; reading it twice changes nothing.

    A changed question or answer makes the row ``edited``. Lines that cannot be applied are
    reported: a row that is not in the testset, is twice on the sheet, was changed in the testset
    since the sheet was written, or whose evidence was changed on the sheet.

    Raises:
        TestsetError: The file is not such a sheet, or has an unknown decision; with its line.
    """
    known = {row.id: row for row in rows}
    counts: Counter[str] = Counter()
    conflicts: list[str] = []
    seen: set[str] = set()
    for where, record in records_of(Path(path)):
        cells = {name: str(cell) for name, cell in record.items()}
        name = cells.get("id", "")
        status = _decision_of(cells.get("review", ""), where)
        row = known.get(name)
        if row is None or name in seen:
            problem = "is twice on the sheet" if name in seen else "is not in the testset"
            conflicts.append(f"{where}: row {name!r} {problem}")
            continue
        seen.add(name)
        applied, outcome = _apply_line(row, status, cells, by)
        if applied is None:
            conflicts.append(f"{where}: row {name!r} {outcome}")
            continue
        known[name] = applied
        counts[outcome] += 1
    return SheetOutcome(
        tuple(known.values()),
        {name: counts[name] for name in (*_STATUSES, "open", "unchanged")},
        tuple(conflicts),
    )


def _apply_line(
    row: Row, status: ReviewStatus | None, cells: Mapping[str, str], by: str
) -> tuple[Row | None, str]:
    """Apply a line to its row; return the row and the kind of change, or None and the reason."""
    question, answer = cells.get("user_input", "").strip(), cells.get("reference", "").strip()
    edited = question != _normalise_lines(row.user_input) or answer != _normalise_lines(
        row.reference
    )
    own = review_status(row)
    if cells.get("row", "") != _row_hash(row):
        # A sheet that was applied before, or has no entry for the row, causes no conflict.
        known = (None, own, "accepted") if own == "edited" else (None, own)
        if (status == own == "rejected") or (not edited and status in known):
            return row, "unchanged"
        return None, "was changed in the testset since the sheet was written"
    if _normalise_lines(cells.get("evidence", "")) != _normalise_lines(_evidence_text(row)):
        return None, "has changed evidence: spans cannot be edited on a sheet"
    if status == "rejected":
        if own == "rejected":
            return row, "unchanged"
        return _add_review(row, "rejected", by), "rejected"
    if edited and (not question or (row.reference and not answer)):
        return None, "has lost its question or its answer: reject it instead"
    if edited:
        return _require_gold(row, "edited", by, question, answer)
    if status is None:
        return row, "open"
    if own == status:
        return row, "unchanged"
    if status == "edited":
        return None, "is marked as edited, but nothing was changed"
    return _require_gold(row, status, by)


def _require_gold(
    row: Row, status: ReviewStatus, by: str, question: str = "", answer: str = ""
) -> tuple[Row | None, str]:
    try:
        return _add_review(row, status, by, question, answer), status
    except TestsetError as error:
        return None, error.what.removeprefix(f"row {row.id!r} ")


def _decision_of(cell: str, where: str) -> ReviewStatus | None:
    word = cell.strip().casefold()
    if not word:
        return None
    for status in _STATUSES:
        if word == status:
            known: ReviewStatus = status
            return known
    raise TestsetError(
        f"{cell!r} is not a decision", where=where, hint=f"write {', '.join(_STATUSES)}, or nothing"
    )


def _evidence_text(row: Row) -> str:
    return "\n\n".join(
        [span.text for span in row.reference_spans if span.text] or row.reference_contexts
    )


def _row_hash(row: Row) -> str:
    """Hash a row, without reviewer and time."""
    record = row_record(row)
    return value_hash(
        {**record, "metadata": {k: v for k, v in row.metadata.items() if k not in _MARKS[1:]}}
    )[:12]


def _normalise_lines(text: str) -> str:
    """Normalise a text as spreadsheets do: line ends and outer space may differ."""
    return text.replace("\r\n", "\n").replace("\r", "\n").strip()


def _file_hash(path: Path) -> str:
    try:
        return text_hash(path.read_bytes().hex())
    except OSError as error:
        raise TestsetError(f"cannot read the file: {error.strerror}", where=str(path)) from error


def chat_lines(rows: Iterable[Row]) -> Iterator[str]:
    """Return one JSON object per row: ``{"messages": [user, assistant]}`` (SPEC D4).

    The user turn holds the gold passages, numbered, and the question; the assistant turn the
    reference answer. Rows without one, and those that a review rejected, are left out.
    """
    for row in rows:
        if not row.reference.strip() or review_status(row) == "rejected":
            continue
        passages = tuple(span.text for span in row.reference_spans) or row.reference_contexts
        numbered = [f"[{number}] {text}" for number, text in enumerate(passages, 1)]
        parts = [*numbered, f"Question: {row.user_input}"] if numbered else [row.user_input]
        messages = [
            {"role": "user", "content": "\n\n".join(parts)},
            {"role": "assistant", "content": row.reference},
        ]
        yield json.dumps({"messages": messages}, ensure_ascii=False)


def write_chat(rows: Iterable[Row], path: Path) -> int:
    """Write the chat turns of gold rows as JSONL, completely or not at all; return their number.

    Raises:
        TestsetError: No row has a gold answer, or the file cannot be written.
    """
    lines = list(chat_lines(rows))
    if not lines:
        raise TestsetError(
            "no row has a gold answer, so there is nothing to train on",
            where=str(path),
            hint="give the rows a `reference`, or have a model write it: --kinds model",
        )
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_text(path, "".join(f"{line}\n" for line in lines))
    except OSError as error:
        raise TestsetError(
            f"the file cannot be written: {error.strerror}", where=str(path)
        ) from error
    return len(lines)
