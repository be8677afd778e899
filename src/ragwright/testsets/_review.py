"""Review of testsets: people accept, edit and reject rows one by one, or on a sheet."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal, TypeAlias, get_args

from ..core import MetaValue, Row, TestsetError, csv_lines, replace_text, text_hash, value_hash
from ..ledger import folder_locked
from ._labels import Decision, ReviewLabels, ReviewLog
from .rows import read_rows, records_of, row_record, write_rows

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
    """``accepted``, ``edited`` or ``rejected``; empty if the row is not reviewed.

    Raises:
        TestsetError: The row has another value.
    """
    status = row.metadata.get("review", "")
    if status not in ("", *_STATUSES):
        raise TestsetError(
            f"row {row.id!r} has the review {status!r}", hint=f"one of {', '.join(_STATUSES)}"
        )
    return str(status)


def reviewed(
    row: Row,
    status: ReviewStatus,
    by: str,
    *,
    question: str = "",
    answer: str = "",
    time: str = "",
) -> Row:
    """A row with a decision: reviewer, time, and a new question or answer.

    ``accepted`` with a new question or answer is ``edited``; a rejected row keeps its own.

    Args:
        row: The row.
        status: The decision.
        by: Reviewer.
        question: New question, empty to keep.
        answer: New gold answer, empty to keep.
        time: ISO 8601; now by default.
    """
    new = (question.strip() or row.user_input, answer.strip() or row.reference)
    if status == "rejected":
        new = (row.user_input, row.reference)
    elif new != (row.user_input, row.reference):
        status = "edited"
    marks: dict[str, MetaValue] = {
        "review": status,
        "reviewed_by": by,
        "reviewed_at": time or datetime.now(UTC).isoformat(timespec="seconds"),
    }
    metadata = {**row.metadata, **marks}
    return replace(row, user_input=new[0], reference=new[1], metadata=metadata)


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
        self._load()

    @property
    def rows(self) -> tuple[Row, ...]:
        """All rows, in file order."""
        return tuple(self._rows.values())

    @property
    def open(self) -> tuple[Row, ...]:
        """Rows without a decision, in file order."""
        return tuple(row for row in self._rows.values() if not review_status(row))

    def counts(self) -> dict[str, int]:
        """Number of accepted, edited, rejected and open rows."""
        found = Counter(review_status(row) or "open" for row in self._rows.values())
        return {name: found[name] for name in (*_STATUSES, "open")}

    def labels(self) -> ReviewLabels:
        """What each person decided on each row."""
        return self._log.labels()

    def decide(
        self, row: Row, status: ReviewStatus, *, question: str = "", answer: str = ""
    ) -> Row:
        """Store a decision on a row; returns the new row.

        Args:
            row: The row as it was shown.
            status: The decision.
            question: New question, empty to keep.
            answer: New gold answer, empty to keep.

        Raises:
            TestsetError: Another process changed or removed the row meanwhile, or the file cannot
                be written; the file is left as it is.
            StoreBusyError: Another process holds the folder.
        """
        with self._alone():
            now = self._present(row)
            made = reviewed(now, status, self.by, question=question, answer=answer)
            # The log first: what is in the file and not in the log could not be undone.
            # Where the file cannot be written, the decision goes from the log again.
            review = str(made.metadata["review"])
            changes = _changeable(now), _changeable(made)
            with self._log.adding(made.id, self.by, review, *changes):
                self._store(made)
        return made

    def undo(self) -> Row | None:
        """Undo this person's last decision; returns the restored row, None if there is none.

        Raises:
            TestsetError: As :meth:`decide`.
        """
        with self._alone():
            last = self._log.last(self.by)
            if last is None:
                return None
            now = self._rows.get(last.row)
            restored = None if now is None else _restored(now, last)
            if restored is None:
                raise _changed(last.row, self.path)
            with self._log.undoing(last):
                self._store(restored)
        return restored

    def apply_sheet(self, sheet: str | Path) -> SheetOutcome:
        """Store the decisions of a filled-in sheet; see :func:`read_review_sheet`.

        Decisions that other processes store meanwhile are kept.

        Raises:
            TestsetError: As :func:`read_review_sheet`, or the testset cannot be written.
            StoreBusyError: Another process holds the folder.
        """
        with self._alone():
            outcome = read_review_sheet(sheet, self.rows, self.by)
            self._write({row.id: row for row in outcome.rows})
        return outcome

    def _load(self) -> None:
        # The hash first: a write between the two lines then counts as unknown and is read again.
        self._known = _content(self.path)
        self._rows = {row.id: row for row in read_rows(self.path)}

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """The newest state of the file, which nobody else changes meanwhile."""
        with folder_locked(self.path.parent, "the review"):
            if _content(self.path) != self._known:
                self._load()
            yield

    def _present(self, shown: Row) -> Row:
        """The row as it is now, if its texts are those that were shown."""
        now = self._rows.get(shown.id)
        if now is None or _unmarked(now) != _unmarked(shown):
            raise _changed(shown.id, self.path)
        return now

    def _store(self, made: Row) -> None:
        self._write({**self._rows, made.id: made})

    def _write(self, rows: dict[str, Row]) -> None:
        write_rows(rows.values(), self.path)
        self._rows = rows
        self._known = _content(self.path)


def _changed(row: str, path: Path) -> TestsetError:
    return TestsetError(
        f"row {row!r} was changed by another process; nothing was written",
        where=str(path),
        hint="review it again",
    )


def _unmarked(row: Row) -> Row:
    """A row without its review."""
    return replace(row, metadata={k: v for k, v in row.metadata.items() if k not in _MARKS})


def _changeable(row: Row) -> dict[str, MetaValue]:
    """What a decision may change of a row."""
    marks = {name: row.metadata[name] for name in _MARKS if name in row.metadata}
    return {"user_input": row.user_input, "reference": row.reference, **marks}


def _restored(now: Row, last: Decision) -> Row | None:
    """A row without a decision; None if its texts were changed again since.

    A later decision of somebody else stays.
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
    """Write rows as a table to fill in: ``review``, and question and answer to be edited in place.

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
            "evidence": _evidence(row),
            "persona_name": row.persona_name,
            "row": _state(row),
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
        status = _status(cells.get("review", ""), where)
        row = known.get(name)
        if row is None or name in seen:
            what = "is twice on the sheet" if name in seen else "is not in the testset"
            conflicts.append(f"{where}: row {name!r} {what}")
            continue
        seen.add(name)
        made, outcome = _applied(row, status, cells, by)
        if made is None:
            conflicts.append(f"{where}: row {name!r} {outcome}")
            continue
        known[name] = made
        counts[outcome] += 1
    ordered = {name: counts[name] for name in (*_STATUSES, "open", "unchanged")}
    return SheetOutcome(tuple(known.values()), ordered, tuple(conflicts))


def _applied(
    row: Row, status: ReviewStatus | None, cells: Mapping[str, str], by: str
) -> tuple[Row | None, str]:
    """The row with its line applied, and the kind of change; None and the reason if it
    conflicts.
    """
    question, answer = cells.get("user_input", "").strip(), cells.get("reference", "").strip()
    edited = question != _lines(row.user_input) or answer != _lines(row.reference)
    own = review_status(row)
    if cells.get("row", "") != _state(row):
        # A sheet that was applied before, or has no entry for the row, causes no conflict.
        known = (None, own, "accepted") if own == "edited" else (None, own)
        if (status == own == "rejected") or (not edited and status in known):
            return row, "unchanged"
        return None, "was changed in the testset since the sheet was written"
    if _lines(cells.get("evidence", "")) != _lines(_evidence(row)):
        return None, "has changed evidence: spans cannot be edited on a sheet"
    if status == "rejected":
        if own == "rejected":
            return row, "unchanged"
        return reviewed(row, "rejected", by), "rejected"
    if edited and (not question or (row.reference and not answer)):
        return None, "has lost its question or its answer: reject it instead"
    if edited:
        return reviewed(row, "edited", by, question=question, answer=answer), "edited"
    if status is None:
        return row, "open"
    if own == status:
        return row, "unchanged"
    if status == "edited":
        return None, "is marked as edited, but neither question nor answer was changed"
    return reviewed(row, status, by), status


def _status(cell: str, where: str) -> ReviewStatus | None:
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


def _evidence(row: Row) -> str:
    spans = [span.text for span in row.reference_spans if span.text]
    return "\n\n".join(spans or row.reference_contexts)


def _state(row: Row) -> str:
    """Hash of a row, without reviewer and time."""
    record = row_record(row)
    metadata = {k: v for k, v in row.metadata.items() if k not in _MARKS[1:]}
    return value_hash({**record, "metadata": metadata})[:12]


def _lines(text: str) -> str:
    """A text normalised like in spreadsheets: line ends and outer space may differ."""
    return text.replace("\r\n", "\n").replace("\r", "\n").strip()


def _content(path: Path) -> str:
    try:
        return text_hash(path.read_bytes().hex())
    except OSError as error:
        raise TestsetError(f"cannot read the file: {error.strerror}", where=str(path)) from error
