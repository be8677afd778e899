"""Judged measures as flows, with repeats."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from statistics import fmean
from typing import TypeAlias

from ..core import Row, Score
from ..flow import Flow, gather, unpack_settled
from ._catalogue import custom_scale
from ._claims import claims, completeness, judge_recall
from ._correctness import answer_correctness
from ._definition import MeasureScale
from ._judge import judge_by_rubric
from ._measure import Measure, set_scale
from ._questions import q2, question_similarity
from ._rubric import Rubric, find_rubric, load_shipped_rubrics
from ._setup import MeasureSetup
from ._spread import combine_repeats

Sampling: TypeAlias = Callable[[Row, Measure, MeasureSetup, int], Flow[Score]]
"""One independent judgment of a row, by the number of the sample."""

_LIKERT = ("ContextRelevance", "Faithfulness", "AnswerRelevance", "Pairwise")
_NO_RUBRIC = frozenset(
    {
        *("AnswerCorrectness", "Claims", "Completeness", "Comprehensive", "JudgedRecall", "Q2"),
        "QuestionSimilarity",
    }
)
_BY_PASSAGE = ("JudgedPrecision", "JudgedAveragePrecision")


def judge_measure(row: Row, measure: Measure, setup: MeasureSetup) -> Flow[Score]:
    """The score of a judged measure: the mean of its repeats.

    Raises:
        ModelError: The judge's server fails.
        MeasureError: There is no rubric of that name.
    """
    sampling = _FLOWS.get(measure.name, _rubric_flow)
    flows = [sampling(row, measure, setup, sample) for sample in range(setup.repeat)]
    outcomes = yield from gather(flows, settle=True)
    scores = [replace(unpack_settled(outcome), measure=str(measure)) for outcome in outcomes]
    return combine_repeats(scores)


def check_rubric(measure: Measure, setup: MeasureSetup) -> None:
    """Check before a run that a measure's rubric exists and fits.

    Raises:
        MeasureError: There is no rubric of that name, or one with the name of a shipped one but
            another scale.
    """
    if measure.definition.kind == "judged":
        for name in rubric_names(measure):
            find_rubric(name, setup.rubrics)


def set_rubric_scales(
    measures: Sequence[Measure], rubrics: Mapping[str, Rubric]
) -> tuple[Measure, ...]:
    """Measures with the scales of their rubric files and functions.

    Unknown rubrics are ignored.

    Raises:
        PluginError: There is no such ``module:function``.
        MeasureError: The attributes of a function are not a scale.
    """
    rubrics_known = {**load_shipped_rubrics(), **rubrics}
    return tuple(
        set_scale(measure, _rubric_scale(rubrics_known[measure.parameter]))
        if measure.name == "Rubric" and measure.parameter in rubrics_known
        else set_scale(measure, custom_scale(measure.name))
        if measure.definition.kind == "custom"
        else measure
        for measure in measures
    )


def rubrics_of(measure: Measure, own: Mapping[str, Rubric]) -> tuple[Rubric, ...]:
    """The rubrics of :func:`rubric_names`; none for measures that are not judged.

    Raises:
        MeasureError: There is no rubric of that name.
    """
    if measure.definition.kind != "judged":
        return ()
    return tuple(find_rubric(name, own) for name in rubric_names(measure))


def _rubric_scale(rubric: Rubric) -> MeasureScale:
    return MeasureScale(*rubric.scale, rubric.higher_is_better)


def rubric_names(measure: Measure) -> tuple[str, ...]:
    """Names of the rubrics of a judged measure; none for those without rubrics."""
    if measure.name == "Comprehensive":
        return _LIKERT[:3] if measure.parameter == "nogold" else _LIKERT
    if measure.name in _NO_RUBRIC:
        return ()
    if measure.name in _BY_PASSAGE:
        return ("PassageRelevance",)
    return (measure.parameter or measure.name,)


def _rubric_flow(row: Row, measure: Measure, setup: MeasureSetup, sample: int) -> Flow[Score]:
    (name,) = rubric_names(measure)
    return (yield from judge_by_rubric(row, find_rubric(name, setup.rubrics), setup, sample))


def _comprehensive_flow(
    row: Row, measure: Measure, setup: MeasureSetup, sample: int
) -> Flow[Score]:
    """The mean, only if every measure is scored: a mean of the rest would be biased.

    Together with these measures themselves it costs nothing: equal requests are one call.
    """
    names = rubric_names(measure)
    flows = [
        judge_by_rubric(row, find_rubric(name, setup.rubrics), setup, sample) for name in names
    ]
    outcomes = yield from gather(flows, settle=True)
    scores = [unpack_settled(outcome) for outcome in outcomes]
    parts = {}
    for name, score in zip(names, scores, strict=True):
        if score.value is None:
            return replace(score, measure=str(measure), reason=f"{name}: {score.reason}")
        parts[name] = score.value
    detail = "\n".join(f"{s.measure} ({s.value:g}): {s.detail}" for s in scores)
    return Score(str(measure), "scored", fmean(parts.values()), detail=detail, parts=parts)


def _precision_flow(row: Row, measure: Measure, setup: MeasureSetup, sample: int) -> Flow[Score]:
    rubric = find_rubric("PassageRelevance", setup.rubrics)
    contexts = row.retrieved_contexts[: measure.cutoff]
    # Each passage is a separate row: equal ones are one call, at any cutoff and rank.
    single_rows = [replace(row, retrieved_contexts=(text,)) for text in contexts]
    outcomes = yield from gather(
        [_judge_passage(part, rubric, setup, sample) for part in single_rows], settle=True
    )
    scores = [unpack_settled(outcome) for outcome in outcomes]
    for number, score in enumerate(scores, 1):
        if score.value is None:
            return Score(str(measure), score.state, reason=f"passage {number}: {score.reason}")
    values = [float(score.value or 0) for score in scores]
    parts = {f"passage {n}": value for n, value in enumerate(values, 1)}
    detail = "\n".join(f"passage {n} ({s.value:g}): {s.detail}" for n, s in enumerate(scores, 1))
    value = fmean(values) if measure.name == "JudgedPrecision" else _average_precision(values)
    return Score(str(measure), "scored", value, detail=detail, parts=parts)


def _average_precision(verdicts: Sequence[float]) -> float:
    """Mean of the precision at the rank of every useful passage; 0 without one."""
    useful = [rank for rank, verdict in enumerate(verdicts, 1) if verdict]
    return fmean(at / rank for at, rank in enumerate(useful, 1)) if useful else 0.0


def _judge_passage(row: Row, rubric: Rubric, setup: MeasureSetup, sample: int) -> Flow[Score]:
    if not row.retrieved_contexts[0].strip():
        return Score(rubric.name, "scored", 0.0, detail="the passage is empty")
    return (yield from judge_by_rubric(row, rubric, setup, sample))


_FLOWS: Mapping[str, Sampling] = {
    "AnswerCorrectness": answer_correctness,
    "Claims": claims,
    "Completeness": completeness,
    "Comprehensive": _comprehensive_flow,
    "JudgedAveragePrecision": _precision_flow,
    "JudgedPrecision": _precision_flow,
    "JudgedRecall": judge_recall,
    "Q2": q2,
    "QuestionSimilarity": question_similarity,
}
"""Measures that use more than one rubric."""
