"""Stale testsets, and suites of capabilities made from the corpus."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Literal, TypeAlias

from ..core import GoldSpan, Row, TestsetError, current_user, list_names
from ..index import Store
from ..project import Project, ProjectFolder, refuse_forget
from ._corpus import corpus_evidence, open_corpus
from ._review import TestsetReview
from ._splits import Openings
from ._suites import SuiteOptions, suite_rows
from ._testsets import Testset, declares_splits, load_testset

TextOf: TypeAlias = Callable[[str], str | None]
"""A function that returns the text of a document by its id, None if it does not exist."""

Staleness: TypeAlias = Literal["moved", "several", "gone", "outside"]

_SHOWN = 5
_REASONS: dict[Staleness, str] = {
    "moved": "its text has moved",
    "several": "its text has moved, and occurs in several places",
    "gone": "its text is no longer in the document",
    "outside": "it holds no text, and ends after the document",
}


@dataclass(frozen=True, slots=True)
class StaleSpan:
    """A gold span that does not match its document.

    Attributes:
        row_id: The row.
        span: The span in the row.
        state: ``moved`` (its text is at exactly one other place), ``several`` (at more than
            one), ``gone`` (nowhere), ``outside`` (no text to search for, and beyond the end).
        now: The span at its new place, if it is ``moved``.
    """

    row_id: str
    span: GoldSpan
    state: Staleness
    now: GoldSpan | None = None

    def __str__(self) -> str:
        """Return row, document and reason on one line."""
        new_place = f" ({self.now.start}-{self.now.end})" if self.now else ""
        place = f"{self.span.document_id} {self.span.start}-{self.span.end}"
        return f"row {self.row_id}: {place}: {_REASONS[self.state]}{new_place}"


def stale_rows(rows: Iterable[Row], text_of: TextOf) -> tuple[StaleSpan, ...]:
    """Return gold spans that do not match their documents, in row order.

    Missing documents are skipped here.

    Args:
        rows: Rows with ``reference_spans``.
        text_of: Text of a document; called once per document.
    """
    find = cache(text_of)
    spans = [(row.id, span, find(span.document_id)) for row in rows for span in row.reference_spans]
    stale = (_stale_span(name, span, text) for name, span, text in spans if text is not None)
    return tuple(filter(None, stale))


def move_row(row: Row, stale: Sequence[StaleSpan]) -> Row:
    """Return a row with its moved spans at their new places."""
    places = {
        stale_span.span: stale_span.now
        for stale_span in stale
        if stale_span.row_id == row.id and stale_span.now is not None
    }
    spans = tuple(places.get(span) or span for span in row.reference_spans)
    return replace(row, reference_spans=spans) if places else row


def current_gold(testset: Testset, text_of: TextOf) -> Testset:
    """Check the testset against the present documents.

    Gold that only moved is updated to its new place; rows whose gold text changed are left out;
    notes name both.

    Raises:
        TestsetError: Every row with a span is stale.
    """
    stale = stale_rows(testset.rows, text_of)
    if not stale:
        return testset
    lost = list(dict.fromkeys(stale_span.row_id for stale_span in stale if stale_span.now is None))
    moved = list(dict.fromkeys(span.row_id for span in stale if span.row_id not in lost))
    spanned = sum(bool(row.reference_spans) for row in testset.rows)
    if len(lost) == spanned:
        raise TestsetError(
            f"the gold of all {spanned} rows changed since the testset was written: {stale[0]}",
            where=testset.name,
            hint="the documents were edited or read differently: make the testset again with "
            "`ragwright synth`, or restore the documents",
        )
    notes = {
        f"{len(lost)} of {len(testset.rows)} rows are left out, the documents changed": lost,
        f"the gold text of {len(moved)} rows moved and is measured at its new place": moved,
    }
    rows = tuple(move_row(row, stale) for row in testset.rows if row.id not in lost)
    said = (f"{note}: {list_names(ids, _SHOWN)}" for note, ids in notes.items() if ids)
    return replace(testset, rows=rows, notes=(*testset.notes, *said))


def _stale_span(row_id: str, span: GoldSpan, text: str) -> StaleSpan | None:
    if not span.text:
        return StaleSpan(row_id, span, "outside") if span.end > len(text) else None
    if text[span.start : span.end] == span.text:
        return None
    first = text.find(span.text)
    if first < 0:
        return StaleSpan(row_id, span, "gone")
    if text.find(span.text, first + 1) >= 0:
        return StaleSpan(row_id, span, "several")
    return StaleSpan(row_id, span, "moved", replace(span, start=first, end=first + len(span.text)))


def project_testset(
    folder: ProjectFolder,
    address: str,
    split: str = "",
    *,
    purpose: str = "eval",
    dry_run: bool = False,
    limit: int | None = None,
    seed: int = 0,
) -> Testset:
    """Load a testset for measuring a project; every command uses this loader.

    Args:
        folder: The project; openings are written to ``testsets/openings.jsonl`` in it.
        address: As :func:`ragwright.experiment.load_testset`; a path that does not exist is also
            tried in the project folder.
        split: ``all``, ``tune`` or ``confirm``; by default the tune split if rows name splits, else
            all rows.
        purpose: Purpose of the rows.
        dry_run: Only count the rows; the opening is not logged.
        limit: Most questions, chosen at random with ``seed``; None for all.
        seed: Seed of that choice.

    Raises:
        TestsetError: The testset cannot be read, or the split is empty.
    """
    address = _resolve_address(folder, address)
    declared = declares_splits(address)
    chosen_split = split or ("tune" if declared else "all")
    # Reading all rows of a testset without splits is an opening only if requested.
    closed = chosen_split == "tune" or not (split or declared)
    opened = None if closed else Openings(folder.openings, purpose, dry_run=dry_run)
    testset = load_testset(address, split=chosen_split, limit=limit, seed=seed, openings=opened)
    if split or not declared:
        return testset
    note = "the rows name splits: only the tune split is measured (--split confirm opens the other)"
    return replace(testset, notes=(*testset.notes, note))


def open_review(folder: ProjectFolder, address: str, by: str = "") -> TestsetReview:
    """Open a testset of a project for review.

    Args:
        folder: The project; a path that does not exist is also tried in it.
        address: The file, JSONL.
        by: Reviewer; by default the user of this machine.

    Raises:
        TestsetError: The file cannot be read, or is not JSONL.
    """
    return TestsetReview(_resolve_address(folder, address), by or current_user())


def _resolve_address(folder: ProjectFolder, address: str) -> str:
    """Return the address, in the project folder if it exists only there."""
    if address.startswith("beir:") or Path(address).exists():
        return address
    inside = folder.root / address
    return str(inside) if inside.exists() else address


def refresh_gold(store: Store, testset: Testset) -> Testset:
    """Check the testset against the stored documents; see :func:`current_gold`."""

    def text_of(name: str) -> str | None:
        document = store.document(name)
        return None if document is None else document.text

    return current_gold(testset, text_of)


@refuse_forget("suite")
def make_suite(
    project: Project, testset: str | Testset, options: SuiteOptions | None = None
) -> Testset:
    """Make capability suites from a project's own corpus.

    Every question needs a reference answer and gold: spans, or documents that hold the answer.
    Notes list what was left out, with the reason.

    Args:
        project: The project, its documents ingested.
        testset: Its address, or its rows; if rows name splits, the tune split is used.
        options: Suites, doses and distractors.

    Raises:
        TestsetError: The testset is wrong, or no row can be made from it.
        RetrieveError: Nothing is ingested.
    """
    suite_options = options or SuiteOptions()
    source = project_testset(project.folder, testset) if isinstance(testset, str) else testset
    corpus = project.runner.run(
        open_corpus(project.target(), project.settings.retrieve, suite_options)
    )
    results = list(project.runner.map(corpus_evidence(row, corpus) for row in source.rows))
    reasons = Counter(result.reason for result in results if result.evidence is None)
    dropped: Counter[str] = Counter()
    for result in results:
        dropped.update(result.dropped)
    notes = [
        f"{count} of {len(source.rows)} questions are left out: {reason}"
        for reason, count in sorted(reasons.items())
    ]
    notes += [f"{count} {kind} are left out" for kind, count in sorted(dropped.items())]
    evidence = [result.evidence for result in results if result.evidence is not None]
    if not evidence:
        raise TestsetError(
            "no question of the testset can be part of a suite",
            where=source.name,
            hint="; ".join(notes) or "the testset is empty",
        )
    suite = suite_rows(evidence, suite_options, where=source.name)
    return replace(suite, notes=(*source.notes, *notes, *suite.notes))
