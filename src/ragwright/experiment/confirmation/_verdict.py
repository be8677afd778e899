"""Verdicts: results of a winner on the split that selected it, and on the other split."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

from ...core import count_noun
from ...measure import Comparison, MeasureScale, Selection, compare_rows, holm, p_text
from ..evaluations import RowResult, questions_of
from ..studies import Objective, objective_scores, scale_of

ConfirmationOutcome: TypeAlias = Literal["better", "worse", "no change proven", "not confirmed"]

LEVEL = 0.05


@dataclass(frozen=True, slots=True)
class Confirmation:
    """Comparison of one trial with the current settings on the confirm split.

    Attributes:
        trial: Its name in the study.
        values: Swept key -> value.
        objective: The measure or fact by which it was chosen.
        tune: The comparison on the rows that selected it, biased by the selection.
        confirmed: The comparison on held-out rows; None before they are opened.
        p: Two-sided p-value on the confirm split (``Comparison.p_verdict``), times the number of
            openings of that split and corrected for the trials confirmed together (Holm 1979).
        outcome: ``better`` or ``worse`` if p is at most 0.05 and ``confirmed`` agrees: its interval
            excludes 0, and rows without a score could not reverse it.
    """

    trial: str
    values: Mapping[str, Any]
    objective: str
    tune: Comparison
    confirmed: Comparison | None = None
    p: float | None = None
    outcome: ConfirmationOutcome = "not confirmed"


@dataclass(frozen=True, slots=True)
class StudyVerdict:
    """Final result of a study.

    Attributes:
        selection: The choice on the tune split, corrected for the number of candidates.
        confirmations: The trials that were confirmed, best of the tune split first.
        openings: How often the confirm split has been opened, this time included; 0 if it stayed
            closed.
        notes: What the reader should know.
    """

    selection: Selection
    confirmations: tuple[Confirmation, ...] = ()
    openings: int = 0
    notes: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """The verdict as text, the most important first."""
        return " ".join([_verdict_sentence(self), *_verdict_doubts(self)])


def compare_with_incumbent(
    incumbent: Sequence[RowResult],
    other: Sequence[RowResult],
    objective: Objective,
    *,
    seed: int = 0,
    clusters: Mapping[str, Hashable] | None = None,
) -> Comparison:
    """Compare another system with the incumbent by an objective, row by row."""
    sides = [
        {row: (score,) for row, score in objective_scores(rows, objective.name).items()}
        for rows in (incumbent, other)
    ]
    # for facts, and rubrics without a file, the objective knows the direction
    scale = scale_of(objective) or MeasureScale(0.0, None, objective.higher_is_better)
    [comparison] = compare_rows(
        *sides,
        seed=seed,
        clusters=clusters,
        scales={objective.name: scale},
        questions=questions_of(incumbent),
    ).measures
    return comparison


def correct_confirmations(
    confirmations: Sequence[Confirmation], objective: Objective, openings: int
) -> tuple[Confirmation, ...]:
    """Return confirmations with corrected p-values and their outcomes.

    Every opening of a split is another chance of a false positive, so p is multiplied by their
    number (Bonferroni); then Holm's correction over the trials confirmed together.
    """
    raw = [None if c.confirmed is None else c.confirmed.deciding.p_verdict for c in confirmations]
    corrected = holm([1.0 if p is None else min(1.0, p * max(1, openings)) for p in raw])
    return tuple(
        replace(confirmation, p=p, outcome=_outcome(confirmation, p, objective))
        for confirmation, p in zip(confirmations, corrected, strict=True)
    )


def _outcome(confirmation: Confirmation, p: float, objective: Objective) -> ConfirmationOutcome:
    """Return the comparison's verdict, if it survives the correction of its p."""
    comparison = confirmation.confirmed
    if comparison is None:
        return "not confirmed"
    if p > LEVEL or comparison.verdict == "no change proven":
        return "no change proven"
    ahead = (comparison.deciding.difference or 0.0) > 0
    return "better" if ahead == objective.higher_is_better else "worse"


def _verdict_sentence(verdict: StudyVerdict) -> str:
    chosen = verdict.selection
    if chosen.difference == 0:
        return (
            f"None of {chosen.candidates} candidates beats the current settings on the tune split; "
            f"{chosen.best} scores the same."
        )
    if chosen.difference < 0:
        return (
            f"None of {chosen.candidates} candidates beats the current settings on the tune split; "
            f"the closest, {chosen.best}, differs by {chosen.difference:+.4f}."
        )
    if not verdict.confirmations:
        return (
            f"Not confirmed yet: {chosen.best} leads the current settings by "
            f"{chosen.difference:.4f} on the {chosen.n} {chosen.questions} of the tune split that "
            f"chose it. Expected optimism from picking the best of {chosen.candidates}: at least "
            f"{chosen.optimism:.4f} ({p_text(chosen.p)}, corrected for the choice)."
        )
    first = verdict.confirmations[0]
    comparison = None if first.confirmed is None else first.confirmed.deciding
    if comparison is None or comparison.difference is None:
        return f"{first.trial}: no question of the confirm split has a score under both settings."
    span = (
        ""
        if comparison.low is None
        else f" (95 % interval {comparison.low:+.4f} to {comparison.high:+.4f})"
    )
    difference = (
        f"{comparison.difference:+.4f} {first.objective}{span} on {comparison.n} held-out questions"
    )
    if first.outcome in ("better", "worse"):
        where = f" on {comparison.questions}" if comparison.questions else ""
        return f"{first.trial} is {first.outcome}{where} than the current settings: {difference}."
    why = (comparison.beside_interval(first.p), comparison.outlook("question"))
    return f"No change proven for {first.trial}: {'; '.join([difference, *filter(None, why)])}."


def _verdict_doubts(verdict: StudyVerdict) -> list[str]:
    sentences = []
    for confirmation in verdict.confirmations:
        held = None if confirmation.confirmed is None else confirmation.confirmed.deciding
        if held is not None and held.doubt:
            sentences.append(f"{confirmation.trial} on the confirm split: {held.doubt}.")
        elif held is not None and held.lost:
            sentences.append(
                f"{confirmation.trial} on the confirm split: "
                f"{count_noun(held.lost, 'question lacks', 'questions lack')} a score under "
                "one of the two settings and are not compared."
            )
    chosen = verdict.selection
    if chosen.lost:
        sentences.append(
            "On the tune split, "
            f"{count_noun(chosen.lost, 'question lacks', 'questions lack')} a score under "
            f"{chosen.best} or the "
            "current settings: in the choice they count as the worst value."
        )
    if chosen.left_out:
        sentences.append(
            "On the tune split, "
            f"{count_noun(chosen.left_out, 'question lacks', 'questions lack')} a score under "
            f"{chosen.best} or "
            "the current settings: they are left out, since the scale has no worst value."
        )
    if verdict.openings > 1:
        sentences.append(
            f"The confirm split has been opened {verdict.openings} times. Each time makes it less "
            "independent; p is corrected for this."
        )
    return sentences
