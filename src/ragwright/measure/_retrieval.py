"""Measures of a ranking of documents against graded judgments, as trec_eval defines them."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Mapping, Sequence

from ..core import MeasureError, Score
from ._measure import Measure

Formula = Callable[[Sequence[int], Sequence[int], int, int], float]
"""(grades of the ranking in order, all judged grades, cutoff, lowest relevant grade)."""


def retrieval_scores(measure: Measure, ranking: Sequence[str], qrels: Mapping[str, int]) -> Score:
    """Score one ranking of document ids by one measure.

    Args:
        measure: A measure of kind ``retrieval``.
        ranking: Document ids, best first; a document that occurs several times (several of
            its chunks were found) counts once, at its best rank.
        qrels: Document id -> grade; above 0 is relevant, unless ``rel=N`` says otherwise.

    Returns:
        A value from 0 to 1. If documents are judged but none is relevant it is 0, as in trec_eval;
        with ``norel=skip``, or if nothing is judged, the state is ``not_applicable``.

    Raises:
        MeasureError: The measure does not score rankings.
    """
    formula = _FORMULAS.get(measure.name)
    if formula is None:
        raise MeasureError(
            f"{measure} does not score rankings", hint=f"one of {', '.join(sorted(_FORMULAS))}"
        )
    level, skip = _parse_parameter(measure.parameter)
    judged = list(qrels.values())
    if not any(grade >= level for grade in judged):
        if judged and not skip:
            return Score(str(measure), "scored", 0.0, counted="documents")
        grade_text = "" if level == 1 else f" of grade {level} or more"
        reason = f"no relevant document{grade_text}"
        return Score(str(measure), "not_applicable", reason=reason, no_gold=True)
    grades = [qrels.get(document, 0) for document in dict.fromkeys(ranking)]
    cutoff = sys.maxsize if measure.cutoff is None else measure.cutoff
    value = formula(grades, judged, cutoff, level)
    return Score(str(measure), "scored", value, counted="documents")


def no_relevant_note(measures: Sequence[Measure], topics: Sequence[Mapping[str, int]]) -> str:
    """A note on judged topics without relevant documents; empty if there are none.

    Args:
        measures: The measures; kinds other than ``retrieval`` are skipped.
        topics: Document id -> grade, of every topic.
    """
    parts = []
    for measure in measures:
        if measure.name not in _FORMULAS:
            continue
        level, skip = _parse_parameter(measure.parameter)
        bare = sum(bool(grades) and max(grades.values()) < level for grades in topics)
        if bare:
            treatment = "left out" if skip else "scored 0, as trec_eval does"
            parts.append(f"{measure}: {bare} of {len(topics)} judged topics, {treatment}")
    if not parts:
        return ""
    return f"topics without a relevant document ({'; '.join(parts)}); norel=skip leaves them out"


def _parse_parameter(parameter: str) -> tuple[int, bool]:
    """The lowest relevant grade, and whether topics without relevant documents are skipped."""
    parts = dict(part.split("=") for part in parameter.split(",") if part)
    return int(parts.get("rel", 1)), parts.get("norel") == "skip"


def _relevant_count(grades: Sequence[int], level: int) -> int:
    return sum(grade >= level for grade in grades)


def _precision_at(grades: Sequence[int], judged: Sequence[int], k: int, level: int) -> float:
    return _relevant_count(grades[:k], level) / k


def _recall_at(grades: Sequence[int], judged: Sequence[int], k: int, level: int) -> float:
    return _relevant_count(grades[:k], level) / _relevant_count(judged, level)


def _hit_rate_at(grades: Sequence[int], judged: Sequence[int], k: int, level: int) -> float:
    return float(_relevant_count(grades[:k], level) > 0)


def _reciprocal_rank_at(grades: Sequence[int], judged: Sequence[int], k: int, level: int) -> float:
    ranks = (rank for rank, grade in enumerate(grades[:k], 1) if grade >= level)
    first = next(ranks, None)
    return 0.0 if first is None else 1 / first


def _average_precision_at(
    grades: Sequence[int], judged: Sequence[int], k: int, level: int
) -> float:
    ranks = [rank for rank, grade in enumerate(grades[:k], 1) if grade >= level]
    return sum(count / rank for count, rank in enumerate(ranks, 1)) / _relevant_count(judged, level)


def _gain(grades: Sequence[int]) -> float:
    return sum(g / math.log2(rank + 1) for rank, g in enumerate(grades, 1) if g > 0)


def _ndcg_at(grades: Sequence[int], judged: Sequence[int], k: int, level: int) -> float:
    # The ideal ranks all judged documents: it must not depend on what was returned.
    ideal = sorted(judged, reverse=True)
    return _gain(grades[:k]) / _gain(ideal[:k])


_FORMULAS: dict[str, Formula] = {
    "HitRate": _hit_rate_at,
    "MAP": _average_precision_at,
    "MRR": _reciprocal_rank_at,
    "Precision": _precision_at,
    "Recall": _recall_at,
    "nDCG": _ndcg_at,
}
