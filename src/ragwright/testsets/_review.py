"""Review of testsets on a sheet or one by one, and export of gold answers as chat turns."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_args

from ..core import MetaValue, Row, TestsetError, csv_lines, replace_text, value_hash
from ..ledger import folder_locked
from ._labels import MARKS, ReviewLog, drop_review, require_gold
from ._records import open_bytes, records_of, row_record, write_lines, write_rows
from ._rows import read_rows

ReviewStatus: TypeAlias = Literal["accepted", "edited", "rejected"]

_STATUSES = get_args(ReviewStatus)
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


def _add_review(row: Row, status: str, by: str, question: str = "", answer: str = "") -> Row:
    """Return a row with a decision: reviewer, time, and what was edited.

    ``accepted`` with a new question or answer is ``edited``; a rejected row keeps its own.
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
        self._read()

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

    def labels(self) -> Mapping[str, Mapping[str, str]]:
        """Return row id -> person -> their last decision."""
        return self._log.labels()

    def decide(
        self, row: Row, status: ReviewStatus, *, question: str = "", answer: str = ""
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
            now = self._rows.get(row.id)
            if now is None or drop_review(now) != drop_review(row):
                raise self._changed(row.id)
            decided = _add_review(now, status, self.by, question, answer)
            # The log comes first: a decision that is only in the file could not be undone.
            # If the file cannot be written, the decision is removed from the log.
            with self._log.adding(
                decided.id,
                self.by,
                review_status(decided),
                before=_reviewable_fields(now),
                after=_reviewable_fields(decided),
            ):
                self._write({**self._rows, decided.id: decided}.values())
        return decided

    def undo(self) -> Row | None:
        """Undo this person's last decision; return the restored row, None if there is none.

        Raises:
            TestsetError: As :meth:`decide`.
        """
        with self._newest_locked():
            own = [line for line in self._log.decisions() if line["by"] == self.by]
            if not own:
                return None
            name = own[-1]["row"]
            restored = _row_before(self._rows[name], own[-1]) if name in self._rows else None
            if restored is None:
                raise self._changed(name)
            with self._log.adding(name, self.by, "undone"):
                self._write({**self._rows, name: restored}.values())
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
            self._write(outcome.rows)
        return outcome

    def _read(self) -> None:
        # The bytes first: a write between the two lines then counts as unknown and is read again.
        self._known = _bytes_of(self.path)
        self._rows = {row.id: row for row in read_rows(self.path)}

    @contextmanager
    def _newest_locked(self) -> Iterator[None]:
        """Lock the folder, and read the file again if another process changed it."""
        with folder_locked(self.path.parent, "the review"):
            if _bytes_of(self.path) != self._known:
                self._read()
            yield

    def _write(self, rows: Collection[Row]) -> None:
        write_rows(rows, self.path)
        self._known, self._rows = _bytes_of(self.path), {row.id: row for row in rows}

    def _changed(self, row: str) -> TestsetError:
        return TestsetError(
            f"row {row!r} was changed by another process; nothing was written",
            where=str(self.path),
            hint="review it again",
        )


def _reviewable_fields(row: Row) -> dict[str, Any]:
    marks = {name: row.metadata[name] for name in MARKS if name in row.metadata}
    return {"user_input": row.user_input, "reference": row.reference, **marks}


def _row_before(now: Row, last: Mapping[str, Any]) -> Row | None:
    """Return a row without a decision; None if its texts were changed again since.

    Another person's later decision stays.
    """
    before, after = last["before"], last["after"]
    texts = {n: before[n] for n in ("user_input", "reference") if before[n] != after[n]}
    if any(getattr(now, name) not in (after[name], before[name]) for name in texts):
        return None
    restored = replace(now, **texts)
    if any(now.metadata.get(name) != after.get(name) for name in MARKS):
        return restored
    marks = {name: before[name] for name in MARKS if name in before}
    return replace(restored, metadata={**drop_review(now).metadata, **marks})


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
        name, status = cells.get("id", ""), cells.get("review", "").strip().casefold()
        if status not in ("", *_STATUSES):
            raise TestsetError(
                f"{cells['review']!r} is not a decision",
                where=where,
                hint=f"write {', '.join(_STATUSES)}, or nothing",
            )
        try:
            if name not in known or name in seen:
                problem = "is twice on the sheet" if name in seen else "is not in the testset"
                raise TestsetError(problem)
            seen.add(name)
            known[name], outcome = _apply_line(known[name], status, cells, by)
            counts[outcome] += 1
        except TestsetError as error:
            problem = error.what.removeprefix(f"row {name!r} ")
            conflicts.append(f"{where}: row {name!r} {problem}")
    return SheetOutcome(
        tuple(known.values()),
        {name: counts[name] for name in (*_STATUSES, "open", "unchanged")},
        tuple(conflicts),
    )


def _apply_line(row: Row, status: str, cells: Mapping[str, str], by: str) -> tuple[Row, str]:
    """Apply a line to its row; return the row and the kind of change."""
    question, answer = cells.get("user_input", "").strip(), cells.get("reference", "").strip()
    edited = (question, answer) != tuple(map(_normalise_lines, (row.user_input, row.reference)))
    own = review_status(row)
    if cells.get("row", "") != _row_hash(row):
        # A sheet that was applied before, or has no entry for the row, causes no conflict.
        known = ("", own, "accepted") if own == "edited" else ("", own)
        if (status == own == "rejected") or (not edited and status in known):
            return row, "unchanged"
        raise TestsetError("was changed in the testset since the sheet was written")
    if _normalise_lines(cells.get("evidence", "")) != _normalise_lines(_evidence_text(row)):
        raise TestsetError("has changed evidence: spans cannot be edited on a sheet")
    if status == "rejected":
        edited = False
    elif edited and (not question or (row.reference and not answer)):
        raise TestsetError("has lost its question or its answer: reject it instead")
    if edited:
        return _add_review(row, "edited", by, question, answer), "edited"
    if status in ("", own):
        return row, "unchanged" if status else "open"
    if status == "edited":
        raise TestsetError("is marked as edited, but nothing was changed")
    return _add_review(row, status, by), status


def _evidence_text(row: Row) -> str:
    return "\n\n".join(
        [span.text for span in row.reference_spans if span.text] or row.reference_contexts
    )


def _row_hash(row: Row) -> str:
    """Hash a row, without reviewer and time."""
    record = row_record(row)
    return value_hash(
        {**record, "metadata": {k: v for k, v in row.metadata.items() if k not in MARKS[1:]}}
    )[:12]


def _normalise_lines(text: str) -> str:
    """Normalise a text as spreadsheets do: line ends and outer space may differ."""
    return text.replace("\r\n", "\n").replace("\r", "\n").strip()


def _bytes_of(path: Path) -> bytes:
    with open_bytes(path) as file:
        return file.read()


def write_chat(rows: Iterable[Row], path: Path) -> int:
    """Write gold rows as chat turns, a JSON object a row, and return their number.

    A row is ``{"messages": [user, assistant]}``: the user turn holds the gold passages, numbered,
    and the question; the assistant turn the reference answer. Rows without one, and those that a
    review rejected, are left out.

    Raises:
        TestsetError: No row has a gold answer, or the file cannot be written.
    """
    lines = []
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
        lines.append({"messages": messages})
    if not lines:
        raise TestsetError(
            "no row has a gold answer, so there is nothing to train on",
            where=str(path),
            hint="give the rows a `reference`, or have a model write it: --kinds model",
        )
    write_lines(path, lines)
    return len(lines)
