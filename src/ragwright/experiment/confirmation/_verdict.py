"""Verdicts: results of a winner on the split that selected it, and on the other split."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal, TypeAlias

from ...core import counted
from ...measure import Comparison, MeasureScale, Selection, compare_rows, holm, p_text
from ..evaluations import RowResult
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
        return " ".join([_sentence(self), *_doubts(self)])


def compared(
    incumbent: Sequence[RowResult],
    other: Sequence[RowResult],
    objective: Objective,
    *,
    seed: int = 0,
    clusters: Mapping[str, Hashable] | None = None,
) -> Comparison:
    """Another system compared with the incumbent by an objective, row by row."""
    sides = [
        {row: (score,) for row, score in objective_scores(rows, objective.name).items()}
        for rows in (incumbent, other)
    ]
    # for facts, and rubrics without a file, the objective knows the direction
    scale = scale_of(objective) or MeasureScale(0.0, None, objective.higher_is_better)
    [found] = compare_rows(
        *sides, seed=seed, clusters=clusters, scales={objective.name: scale}
    ).measures
    return found


def settled(
    confirmations: Sequence[Confirmation], objective: Objective, openings: int
) -> tuple[Confirmation, ...]:
    """Confirmations with their p-values corrected and their outcomes.

    Every opening of a split is another chance of a false positive, so p is multiplied by their
    number (Bonferroni); then Holm's correction over the trials confirmed together.
    """
    raw = [None if c.confirmed is None else c.confirmed.deciding.p_verdict for c in confirmations]
    corrected = holm([1.0 if p is None else min(1.0, p * max(1, openings)) for p in raw])
    return tuple(
        replace(one, p=p, outcome=_outcome(one, p, objective))
        for one, p in zip(confirmations, corrected, strict=True)
    )


def _outcome(one: Confirmation, p: float, objective: Objective) -> ConfirmationOutcome:
    """The comparison's verdict, if it remains after the correction of its p."""
    found = one.confirmed
    if found is None:
        return "not confirmed"
    if p > LEVEL or found.verdict == "no change proven":
        return "no change proven"
    ahead = (found.deciding.difference or 0.0) > 0
    return "better" if ahead == objective.higher_is_better else "worse"


def _sentence(verdict: StudyVerdict) -> str:
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
            f"{chosen.difference:.4f} on the {chosen.n} questions of the tune split that chose it. "
            f"Expected optimism from picking the best of {chosen.candidates}: "
            f"{chosen.optimism:.4f} ({p_text(chosen.p)}, corrected for the choice)."
        )
    first = verdict.confirmations[0]
    found = None if first.confirmed is None else first.confirmed.deciding
    if found is None or found.difference is None:
        return f"{first.trial}: no question of the confirm split has a score under both settings."
    span = "" if found.low is None else f" (95 % interval {found.low:+.4f} to {found.high:+.4f})"
    seen = f"{found.difference:+.4f} {first.objective}{span} on {found.n} held-out questions"
    if first.outcome in ("better", "worse"):
        return f"{first.trial} is {first.outcome} than the current settings: {seen}."
    outlook = found.outlook("question")
    return f"No change proven for {first.trial}: {seen}{outlook and f'; {outlook}'}."


def _doubts(verdict: StudyVerdict) -> list[str]:
    found = []
    for one in verdict.confirmations:
        held = None if one.confirmed is None else one.confirmed.deciding
        if held is not None and held.doubt:
            found.append(f"{one.trial} on the confirm split: {held.doubt}.")
        elif held is not None and held.lost:
            found.append(
                f"{one.trial} on the confirm split: "
                f"{counted(held.lost, 'question lacks', 'questions lack')} a score under "
                "one of the two settings and are not compared."
            )
    chosen = verdict.selection
    if chosen.lost:
        found.append(
            "On the tune split, "
            f"{counted(chosen.lost, 'question lacks', 'questions lack')} a score under "
            f"{chosen.best} or the "
            "current settings: in the choice they count as the worst value."
        )
    if chosen.left_out:
        found.append(
            "On the tune split, "
            f"{counted(chosen.left_out, 'question lacks', 'questions lack')} a score under "
            f"{chosen.best} or "
            "the current settings: they are left out, since the scale has no worst value."
        )
    if verdict.openings > 1:
        found.append(
            f"The confirm split has been opened {verdict.openings} times. Each time makes it less "
            "independent; p is corrected for this."
        )
    return found


def confirmation_body(one: Confirmation) -> dict[str, Any]:
    """A confirmation as JSON-able values."""
    return asdict(one)


def confirmation_of(body: Mapping[str, Any]) -> Confirmation:
    """The confirmation from the values of :func:`confirmation_body`."""
    confirmed = body["confirmed"]
    return Confirmation(
        **{
            **body,
            "tune": _comparison(body["tune"]),
            "confirmed": None if confirmed is None else _comparison(confirmed),
        }
    )


def _comparison(body: Mapping[str, Any]) -> Comparison:
    scale, counted_all = body["scale"], body.get("with_abstained")
    return Comparison(
        **{
            **body,
            "moved": {name: tuple(rows) for name, rows in body["moved"].items()},
            "scale": None if scale is None else MeasureScale(**scale),
            "counted": tuple(body.get("counted", ())),
            "with_abstained": None if counted_all is None else _comparison(counted_all),
        }
    )
