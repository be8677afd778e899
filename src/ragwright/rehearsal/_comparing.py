"""Comparison of two answers to a question, and groups of changes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from ..measure import Measure
from ._records import (
    AnswerChange,
    Effect,
    Passage,
    ReasonKind,
    RehearsalGroup,
    RehearsedQuestion,
    SideAnswer,
)

if TYPE_CHECKING:
    from ._reasons import Reasons

_EQUAL = 1e-9
_SLOWER = 1.5
"""Ratio of times from which they count as different, if they differ by a second."""


def compared_answers(
    question: RehearsedQuestion,
    sides: tuple[SideAnswer, SideAnswer],
    measures: Sequence[Measure],
    reasons: Reasons,
) -> AnswerChange:
    """What differs between two answers to a question, and why."""
    before, after = sides
    lost = _without(before.citations, after.citations)
    gained = _without(after.citations, before.citations)
    worse, better = _moves(before, after, measures)
    effects = _effects(before, after)
    flags: Mapping[Effect, object] = {
        "lost citations": lost,
        "new citations": gained,
        "moved citations": _moved(before.citations, after.citations),
        "worse": worse,
        "better": better,
    }
    if not (before.error or after.error):
        effects += [name for name, present in flags.items() if present]
        effects += _expenses(before, after)
    why = reasons.of(before, after) if effects else ()
    return AnswerChange(question, before, after, tuple(effects), why, lost, worse, better)


def _effects(before: SideAnswer, after: SideAnswer) -> list[Effect]:
    """What differs in what is shown: failure, abstention, text and passages."""
    if before.error or after.error:
        return ["failed"] if bool(before.error) != bool(after.error) else []
    effects: list[Effect] = []
    if after.abstained != before.abstained:
        effects.append("now abstains" if after.abstained else "now answers")
    if before.text.strip() != after.text.strip():
        effects.append("text")
    if [_key(p) for p in before.hits] != [_key(p) for p in after.hits]:
        effects.append("passages")
    return effects


def _expenses(before: SideAnswer, after: SideAnswer) -> list[Effect]:
    """Whether cost and time differ; times vary, so that only large differences count."""
    effects: list[Effect] = []
    known = before.cost is not None and after.cost is not None
    if known and abs((before.cost or 0.0) - (after.cost or 0.0)) > _EQUAL:
        effects.append("cost")
    quick, slow = sorted((before.seconds, after.seconds))
    if slow - quick >= 1 and slow >= _SLOWER * quick:
        effects.append("time")
    return effects


def grouped_changes(changes: Sequence[AnswerChange]) -> tuple[RehearsalGroup, ...]:
    """Changes by their reasons, the most asked group first, in each the most asked change."""
    by_kind: dict[tuple[ReasonKind, ...], list[AnswerChange]] = {}
    for change in changes:
        if change.changed:
            by_kind.setdefault(change.kinds, []).append(change)
    groups = [
        RehearsalGroup(
            members[0].kinds,
            sum(change.question.asked for change in members),
            tuple(sorted(members, key=lambda change: -change.question.asked)),
        )
        for members in by_kind.values()
    ]
    return tuple(sorted(groups, key=lambda group: (-group.asked, group.reasons)))


def _key(passage: Passage) -> tuple[str, int, int, str]:
    return passage.document_id, passage.start, passage.end, passage.text


def _without(some: Sequence[Passage], others: Sequence[Passage]) -> tuple[Passage, ...]:
    return tuple(p for p in some if not any(p.same(other) for other in others))


def _moved(some: Sequence[Passage], others: Sequence[Passage]) -> list[Passage]:
    """Citations whose text is cited from another place."""
    places = {other.place for other in others}
    texts = {other.text.strip() for other in others}
    return [p for p in some if p.place not in places and p.text.strip() in texts]


def _moves(
    before: SideAnswer, after: SideAnswer, measures: Sequence[Measure]
) -> tuple[Mapping[str, float], Mapping[str, float]]:
    """(measures that became worse, those that became better), with their differences."""
    upward = {str(m): m.definition.higher_is_better for m in measures}
    worse: dict[str, float] = {}
    better: dict[str, float] = {}
    for name in before.scores.keys() & after.scores.keys():
        difference = after.scores[name] - before.scores[name]
        if abs(difference) > _EQUAL:
            improved = (difference > 0) == upward.get(name, True)
            (better if improved else worse)[name] = round(difference, 6)
    return dict(sorted(worse.items())), dict(sorted(better.items()))
