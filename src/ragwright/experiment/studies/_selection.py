"""The value of a trial on every row, and the best of several trials."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import replace

from ...core import Score, StudyError
from ...measure import MeasureScale, Selection, choose_best, find_scale
from ..evaluations import RowResult
from ._leaderboard import Objective
from ._study import FACTS


def objective_scores(results: Sequence[RowResult], name: str) -> dict[str, Score]:
    """Row id -> score of an objective; a fact of making an answer counts as a score."""
    scores = {}
    for result in results:
        if name not in FACTS:
            score = next((s for s in result.scores if s.measure == name), None)
            if score is None:
                raise StudyError(f"the rows have no score for {name}", where=result.row_id)
            scores[result.row_id] = score
            continue
        value = None if result.made is None else _answer_fact(result, name)
        scores[result.row_id] = (
            Score(name, "not_applicable", reason="the project answered no row")
            if value is None
            else Score(name, "scored", value)
        )
    return scores


def common_reason(scores: Iterable[Score]) -> str:
    """Why rows have no score, for most of them; empty if any row has one."""
    states = [(score.state, score.reason) for score in scores]
    if any(state == "scored" for state, _ in states):
        return ""
    reasons = Counter(reason for _, reason in states if reason)
    return reasons.most_common(1)[0][0] if reasons else ""


def _answer_fact(result: RowResult, name: str) -> float | None:
    answer = result.made
    if answer is None:
        return None
    if name == "context_tokens":
        return float(answer.context_tokens)
    if name == "seconds":
        return answer.usage.seconds
    return answer.usage.cost if answer.usage.calls else 0.0


def selection_of(
    incumbent: Mapping[str, Score],
    candidates: Mapping[str, Mapping[str, Score]],
    objective: Objective,
    *,
    seed: int = 0,
    clusters: Mapping[str, Hashable] | None = None,
    eligible: Collection[str] | None = None,
    questions: str = "",
) -> Selection:
    """The best candidate on the rows that selected it; see :func:`ragwright.measure.choose_best`.

    Scores are those of :func:`objective_scores`; ``questions`` are those of :func:`questions_of`.
    """
    selection = choose_best(
        incumbent,
        candidates,
        higher_is_better=objective.higher_is_better,
        seed=seed,
        clusters=clusters,
        scale=scale_of(objective),
        eligible=eligible,
    )
    return replace(selection, questions=questions or selection.questions)


def scale_of(objective: Objective) -> MeasureScale | None:
    """Range and direction of an objective; None for cost, seconds and tokens."""
    if objective.name in FACTS:
        return None
    return objective.scale or find_scale(objective.name)
