"""The frozen records of evaluation, a row with its gold and its scores, and cells of CSV files."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from ._records import Metadata


@dataclass(frozen=True, slots=True)
class GoldSpan:
    """Gold evidence: characters of a source document, with their text as a check."""

    document_id: str
    start: int
    end: int
    text: str = ""


@dataclass(frozen=True, slots=True)
class Turn:
    """One turn of a conversation: its role, ``user`` or ``assistant``, and its text."""

    role: str
    content: str


@dataclass(frozen=True, slots=True)
class Row:
    """One evaluation row in ragas' names, plus gold that survives re-chunking.

    An empty ``response`` is scored as an answer; None means that the answer is missing.
    ``reference_ids`` maps document ids to grades (BEIR, TREC); ``reference_spans`` holds spans in
    source documents, ``retrieved_spans`` the positions of the retrieved contexts in theirs, in the
    same order. ``history`` holds the turns before ``user_input``, oldest first, and is empty for a
    question that stands alone.
    """

    id: str
    user_input: str
    response: str | None = None
    reference: str = ""
    retrieved_contexts: tuple[str, ...] = ()
    reference_contexts: tuple[str, ...] = ()
    retrieved_context_ids: tuple[str, ...] = ()
    reference_ids: Mapping[str, int] = field(default_factory=dict)
    reference_spans: tuple[GoldSpan, ...] = ()
    retrieved_spans: tuple[GoldSpan, ...] = ()
    persona_name: str = ""
    metadata: Metadata = field(default_factory=dict)
    history: tuple[Turn, ...] = ()

    @property
    def response_text(self) -> str:
        """The text of the response, empty where it is blank or there is none."""
        text = self.response or ""
        return text if text.strip() else ""


ScoreState: TypeAlias = Literal[
    "scored", "abstained", "not_applicable", "judge_invalid", "errored", "skipped"
]


Counted: TypeAlias = Literal["", "spans", "documents"]
"""The unit that a measure of retrieval counted: gold spans or gold documents; empty for others."""


@dataclass(frozen=True, slots=True)
class Score:
    """The score of one row by one measure: it has a value only in the state ``scored``.

    Attributes:
        reason: Why there is no value.
        detail: A judge's output: its reasoning, the claims it checked.
        parts: Named numbers whose mean is the value, if it is a mean: ``sample 1``, ….
        no_gold: The row lacks gold that the measure needs (reference, relevant document), so no
            system could be scored on it.
        unanswerable: The row is marked ``answerable: false``, so abstaining was right.
        counted: What a measure of retrieval counted in this row: gold ``spans`` or gold
            ``documents``; empty for other measures, and without a value.
        missed: The system abstained although the row has gold: comparisons and rankings count it
            as the worst value.
    """

    measure: str
    state: ScoreState
    value: float | None = None
    reason: str = ""
    detail: str = ""
    parts: Mapping[str, float] = field(default_factory=dict, hash=False)
    no_gold: bool = False
    unanswerable: bool = False
    counted: Counted = ""
    missed: bool = False

    def __post_init__(self) -> None:
        """Refuse a value in another state than ``scored``, and ``scored`` without a value."""
        if (self.value is not None) != (self.state == "scored"):
            raise ValueError(f"state {self.state!r} cannot have the value {self.value!r}")

    @property
    def lost(self) -> bool:
        """True if the row has no value although a system could have got one."""
        return self.value is None and not (self.no_gold or self.unanswerable)


_FORMULA = re.compile(r"^'*[=+\-@\t\r]")
"""Apostrophes before the beginning of a formula count, so that the guard can be undone."""

_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")


def csv_cell(value: Any) -> Any:
    """A value as a cell of a CSV file: a text that a spreadsheet would run gets an apostrophe.

    Text begins a formula with ``=``, ``+``, ``-``, ``@``, a tab or a carriage return. Numbers stay
    as they are, also as text (``-5``); None becomes an empty cell.
    """
    if value is None:
        return ""
    if isinstance(value, str) and _FORMULA.match(value) and not _NUMBER.fullmatch(value):
        return f"'{value}"
    return value


def csv_text(cell: str) -> str:
    """The text of a cell that :func:`csv_cell` made: without the apostrophe that guarded it."""
    return cell[1:] if cell.startswith("'") and _FORMULA.match(cell) else cell


def csv_lines(
    rows: Iterable[Sequence[Any]], *, delimiter: str = ",", end: str = "\n"
) -> Iterator[str]:
    """Rows, the header among them, as guarded lines of CSV, one row in memory at a time."""
    out = io.StringIO(newline="")
    # The writer quotes a lone carriage return only where its own line end holds one.
    writer = csv.writer(out, delimiter=delimiter, lineterminator="\r\n")
    for row in rows:
        writer.writerow([csv_cell(value) for value in row])
        yield out.getvalue().removesuffix("\r\n") + end
        out.seek(0)
        out.truncate()
