"""Diagnosis of a stored run from its answers and passages alone: retrieval or answering.

This needs none of the system's own stages, so it works for systems that ragwright only asks. It
cannot see what happens between search and answer (filters, reranking, cuts).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import comb
from typing import Literal, TypeAlias

from ...core import Row, Span, TestsetError, count_noun
from ...measure import p_text, read_mark
from ..evaluations import Evaluation, RowResult
from ._diagnosis import group_by_field
from ._facts import is_right
from ._gold_places import GoldPiece

Place: TypeAlias = Literal["", "retrieve", "generate", "errored", "unknown"]
"""Stage where a row is lost; ``""`` if its answer is right."""

_LEVEL = 0.05


@dataclass(frozen=True, slots=True)
class RunRowLoss:
    """One row of a run, and the stage where it is lost.

    Attributes:
        row_id: The row.
        lost: Stage where it is lost.
        right: True if the answer is right by the reference; None without one.
        gold: True if the system returned a gold passage; None if unknown.
        by: Evidence for that: ``spans``, ``ids`` or ``words`` of the reference; empty if unknown.
        reason: Reason of an errored or unknown row.
        user_input: The question; ``reference`` its gold answer, ``response`` the answer.
    """

    row_id: str
    lost: Place
    right: bool | None = None
    gold: bool | None = None
    by: str = ""
    reason: str = ""
    user_input: str = ""
    reference: str = ""
    response: str = ""


@dataclass(frozen=True, slots=True)
class RunDiagnosis:
    """The places where the rows of a run are lost.

    Attributes:
        run: The run.
        verdict: Sentences, the conclusion first.
        stage: ``retrieve`` or ``generate``, where significantly more rows are lost; else empty.
        losses: Place -> number of rows.
        rows: Every row.
        notes: Remarks on what the run cannot show.
        parts: ``field = value`` -> the diagnosis of the rows with that value.
    """

    run: str
    verdict: tuple[str, ...]
    stage: Literal["", "retrieve", "generate"]
    losses: dict[Place, int]
    rows: tuple[RunRowLoss, ...]
    notes: tuple[str, ...]
    parts: Mapping[str, RunDiagnosis] = field(default_factory=dict)


def diagnose_run(
    evaluation: Evaluation, language: str = "en", by: Sequence[str] = ()
) -> RunDiagnosis:
    """Split the rows of a run by where they are lost.

    An answer is right by :data:`RIGHT_RULE`. Gold is found among the passages by spans, by ids of
    documents or, for a row with neither, by the words of the reference. The two places are compared
    by an exact binomial test (5 %, two-sided).

    Args:
        evaluation: The run.
        language: ISO code of the texts.
        by: Fields to slice by: ``persona_name``, or columns.

    Raises:
        TestsetError: The run holds no answers, no row has a reference, or none has a field.
    """
    rows = tuple(_row_loss(result, language) for result in evaluation.results)
    if all(row.right is None and row.lost != "errored" for row in rows):
        raise TestsetError(
            "no row of the run has an answer and a reference to compare it with",
            where=evaluation.name,
            hint="evaluate a test set with a `reference` for each question",
        )
    result_rows = [result.row for result in evaluation.results]
    parts = {
        f"{name} = {value}": _run_diagnosis(value, tuple(groups[value]), ())
        for name in by
        for groups in (group_by_field(rows, result_rows, name),)
        for value in sorted(groups)
    }
    return replace(_run_diagnosis(evaluation.name, rows, _run_notes(evaluation, rows)), parts=parts)


def _run_diagnosis(name: str, rows: tuple[RunRowLoss, ...], notes: tuple[str, ...]) -> RunDiagnosis:
    losses: dict[Place, int] = dict(Counter(row.lost for row in rows))
    missed, wrong = losses.get("retrieve", 0), losses.get("generate", 0)
    p = _binomial_p(missed, wrong)
    stage: Literal["", "retrieve", "generate"] = ""
    if p <= _LEVEL:
        stage = "retrieve" if missed > wrong else "generate"
    return RunDiagnosis(name, _run_verdict(losses, len(rows), p), stage, losses, rows, notes)


def _row_loss(result: RowResult, language: str) -> RunRowLoss:
    """Locate the loss of one row, with its texts."""
    loss, row = _loss_place(result, language), result.row
    if row is None:
        return loss
    texts = row.user_input, row.reference, row.response or ""
    return replace(loss, user_input=texts[0], reference=texts[1], response=texts[2])


def _loss_place(result: RowResult, language: str) -> RunRowLoss:
    row = result.row
    failed = next((score.reason for score in result.scores if score.state == "errored"), "")
    if row is None or row.response is None:
        reason = failed or "the run holds no answer of it"
        return RunRowLoss(result.row_id, "errored" if failed else "unknown", reason=reason)
    response = "" if read_mark(row, "abstained") else row.response
    right = is_right(row, response, language)
    gold, by = _gold_evidence(row, language)
    if right is None:
        return RunRowLoss(row.id, "unknown", gold=gold, by=by, reason="it has no reference")
    if right:
        return RunRowLoss(row.id, "", right, gold, by)
    if gold is None:
        reason = "its answer is wrong, and the system returned no passages"
        return RunRowLoss(row.id, "unknown", right, reason=reason)
    return RunRowLoss(row.id, "generate" if gold else "retrieve", right, gold, by)


def _gold_evidence(row: Row, language: str) -> tuple[bool | None, str]:
    """Return True if the passages hold gold, and the kind of evidence."""
    searched = row.metadata.get("retrieved") is True
    if row.reference_spans and (row.retrieved_spans or searched):
        is_held = any(
            _shows_piece(GoldPiece(span.document_id, Span(span.start, span.end)), row)
            for span in row.reference_spans
        )
        return is_held, "spans"
    if row.reference_ids and (row.retrieved_context_ids or searched):
        gold = {name for name, grade in row.reference_ids.items() if grade > 0}
        return bool(gold & set(row.retrieved_context_ids)), "ids"
    if row.retrieved_contexts or searched:
        return is_right(row, "\n".join(row.retrieved_contexts), language), "words"
    return None, ""


def _shows_piece(piece: GoldPiece, row: Row) -> bool:
    assert piece.span is not None
    size = piece.span.end - piece.span.start
    return any(
        passage.document_id == piece.document_id
        and 2 * (min(passage.end, piece.span.end) - max(passage.start, piece.span.start)) >= size
        for passage in row.retrieved_spans
    )


def _binomial_p(count: int, other: int) -> float:
    """Two-sided exact binomial test of equal shares; 1 without rows."""
    n = count + other
    tail = sum(comb(n, k) for k in range(min(count, other) + 1)) / 2**n if n else 1.0
    return min(1.0, 2 * tail)


def _run_verdict(losses: dict[Place, int], total: int, p: float) -> tuple[str, ...]:
    right, missed, wrong = (losses.get("", 0), losses.get("retrieve", 0), losses.get("generate", 0))
    sentences = [f"{right} of {total} rows are answered right (see the rule)."]
    if missed or wrong:
        sentences.append(
            f"{missed} are lost in retrieval: no passage that the system returned holds the gold. "
            f"{wrong} are lost in answering: the gold is among the passages, and the answer is "
            "wrong."
        )
        first = "retrieval" if missed > wrong else "answering"
        if p <= _LEVEL:
            sentences.append(
                f"Work on {first} first: it loses more rows ({p_text(p)}, exact test)."
            )
        else:
            sentences.append(f"Too few rows to prove which of the two loses more (p = {p:.2f}).")
    if failed := losses.get("errored", 0):
        sentences.append(f"{failed} failed.")
    if unknown := losses.get("unknown", 0):
        sentences.append(f"{unknown} cannot be placed.")
    return tuple(sentences)


def _run_notes(evaluation: Evaluation, rows: Sequence[RunRowLoss]) -> tuple[str, ...]:
    notes = [
        "filters, reranking, cuts and judges are not separated: that needs the system's own "
        "stages (`diagnose --testset` tests those of a project)"
    ]
    by_words = sum(row.by == "words" for row in rows)
    if by_words:
        notes.append(
            f"{count_noun(by_words, 'row has', 'rows have')} no gold passages: passages count "
            "as gold if they hold the words of the reference"
        )
    for reason, count in Counter(row.reason for row in rows if row.reason).most_common(3):
        notes.append(f"{count_noun(count, 'row')}: {reason}")
    return (*evaluation.notes, *notes)
