"""Judged measures as flows: a judge reads a row by a rubric, with repeats."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import fmean

from ..core import Row, Score
from ..flow import Flow
from ._catalogue import custom_scale
from ._claims import Sampling, claims, completeness, judge_recall, q2, question_similarity
from ._judge_call import (
    JudgeCall,
    UnscoredError,
    ask_all,
    ask_value,
    blocks,
    prompt_file,
    read_verdict,
    schema_text,
    sources_of,
    texts_of,
)
from ._measure import Measure, set_scale
from ._retrieval import NOTHING, gold_missing, withheld
from ._rubric import (
    MeasureSetup,
    Rubric,
    RubricExample,
    Verdict,
    ask_own_judge,
    find_rubric,
    load_shipped_rubrics,
)
from ._statistics import FIRST_ORDER, SECOND_ORDER, combine_repeats

_LIKERT = ("ContextRelevance", "Faithfulness", "AnswerRelevance", "Pairwise")
_NO_RUBRIC = frozenset(
    {*("Claims", "Completeness", "Comprehensive", "JudgedRecall", "Q2"), "QuestionSimilarity"}
)
_BY_PASSAGE = ("JudgedPrecision", "JudgedAveragePrecision")


def judge_measure(row: Row, measure: Measure, setup: MeasureSetup) -> Flow[Score]:
    """The score of a judged measure: the mean of its repeats.

    Raises:
        ModelError: The judge's server fails.
        MeasureError: There is no rubric of that name.
    """
    sampling = _FLOWS.get(measure.name, _rubric_flow)

    def sample_flow(sample: int) -> Flow[Score]:
        try:
            return (yield from sampling(row, measure, setup, sample))
        except UnscoredError as error:
            return Score(str(measure), error.state, reason=error.what)

    scores = yield from ask_all([sample_flow(sample) for sample in range(setup.repeat)])
    return combine_repeats([replace(score, measure=str(measure)) for score in scores])


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
        set_scale(measure, rubrics_known[measure.parameter].measure_scale)
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
    scores = yield from ask_all(
        [judge_by_rubric(row, find_rubric(name, setup.rubrics), setup, sample) for name in names]
    )
    for name, score in zip(names, scores, strict=True):
        if score.value is None:
            return replace(score, measure=str(measure), reason=f"{name}: {score.reason}")
    parts = {name: score.value or 0.0 for name, score in zip(names, scores, strict=True)}
    detail = "\n".join(f"{s.measure} ({s.value:g}): {s.detail}" for s in scores)
    return Score(str(measure), "scored", fmean(parts.values()), detail=detail, parts=parts)


def _precision_flow(row: Row, measure: Measure, setup: MeasureSetup, sample: int) -> Flow[Score]:
    rubric = find_rubric("PassageRelevance", setup.rubrics)
    contexts = row.retrieved_contexts[: measure.cutoff]
    # Each passage is a separate row: equal ones are one call, at any cutoff and rank.
    single_rows = [replace(row, retrieved_contexts=(text,)) for text in contexts]
    scores = yield from ask_all(
        [_judge_passage(part, rubric, setup, sample) for part in single_rows]
    )
    for number, score in enumerate(scores, 1):
        if score.value is None:
            return Score(str(measure), score.state, reason=f"passage {number}: {score.reason}")
    values = [float(score.value or 0) for score in scores]
    parts = {f"passage {n}": value for n, value in enumerate(values, 1)}
    detail = "\n".join(f"passage {n} ({s.value:g}): {s.detail}" for n, s in enumerate(scores, 1))
    value = fmean(values)
    if measure.name == "JudgedAveragePrecision":
        useful = [rank for rank, verdict in enumerate(values, 1) if verdict]
        precisions = [at / rank for at, rank in enumerate(useful, 1)]
        value = fmean(precisions) if precisions else 0.0
    return Score(str(measure), "scored", value, detail=detail, parts=parts)


def _judge_passage(row: Row, rubric: Rubric, setup: MeasureSetup, sample: int) -> Flow[Score]:
    if not row.retrieved_contexts[0].strip():
        return Score(rubric.name, "scored", 0.0, detail="the passage is empty")
    return (yield from judge_by_rubric(row, rubric, setup, sample))


_FLOWS: Mapping[str, Sampling] = {
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


def judge_by_rubric(row: Row, rubric: Rubric, setup: MeasureSetup, sample: int = 0) -> Flow[Score]:
    """One independent judgment of a row by a rubric."""
    lacking = [field for field in rubric.needs if not _has_text(row, field)]
    if lacking:
        reason = f"the row has no {' and no '.join(lacking)}"
        return Score(
            rubric.name, "not_applicable", reason=reason, no_gold=gold_missing(row, lacking)
        )
    if "response" in rubric.needs:
        if score := withheld(row, rubric.name):
            return score
        if not row.response_text:
            value = rubric.empty_response
            if value is None:
                reason = f"{NOTHING}: there is nothing to judge"
                return Score(rubric.name, "not_applicable", reason=reason)
            detail = f"{NOTHING}; the judge was not called"
            return Score(rubric.name, "scored", float(value), detail=detail)
    if setup.by:
        return (yield from ask_own_judge(row, rubric, setup.by, sample))
    calls = _rubric_calls(row, rubric, sample)
    names = [FIRST_ORDER, SECOND_ORDER] if rubric.both_orders else [""]
    try:
        verdicts = yield from ask_all(
            [
                ask_value(call, setup, name and f"{name}: ")
                for name, call in zip(names, calls, strict=True)
            ]
        )
    except UnscoredError as error:
        return Score(rubric.name, error.state, reason=error.what)
    values = [float(verdict.score or 0) for verdict in verdicts]
    if len(verdicts) == 1:
        return Score(rubric.name, "scored", values[0], detail=verdicts[0].reasoning)
    return Score(
        rubric.name,
        "scored",
        fmean(values),
        detail="\n".join(
            f"{name} ({value:g}): {verdict.reasoning}"
            for name, value, verdict in zip(names, values, verdicts, strict=True)
        ),
        parts=dict(zip(names, values, strict=True)),
    )


def _rubric_calls(row: Row, rubric: Rubric, sample: int) -> list[JudgeCall[Verdict]]:
    """One call, or one for each order of the compared texts."""
    orders = [rubric.needs]
    if rubric.both_orders:
        compared = [field for field in rubric.needs if field != "user_input"]
        first = [field for field in rubric.needs if field == "user_input"]
        orders.append((*first, *reversed(compared)))
    low, high = rubric.scale
    copies = {" ".join(e.reasoning.split()) for e in (rubric.high_example, rubric.low_example)}

    def read(text: str, finish: str) -> Verdict:
        verdict = read_verdict(text, rubric.scale, finish)
        if " ".join(verdict.reasoning.split()) in copies:
            raise ValueError("the reasoning copies a worked example")
        return verdict

    points = range(low, high + 1)
    score = {"type": ["integer", "null"], "enum": [*points, None]}
    values = {
        "task": rubric.task.strip(),
        "low": low,
        "high": high,
        "levels": [{"score": at, "line": rubric.levels[str(at)].strip()} for at in points],
        "examples": [
            _example_values("An example with a high score", rubric.high_example, rubric.needs),
            _example_values("An example with a low score", rubric.low_example, rubric.needs),
        ],
    }
    return [
        JudgeCall(
            file=prompt_file("rubric"),
            texts=texts_of(row, needs),
            read=read,
            schema=schema_text({"reasoning": {"type": "string"}, "score": score}),
            stand_in=Verdict(low, "forecast"),
            values=values,
            sample=sample,
            sources=sources_of(row),
        )
        for needs in orders
    ]


def _example_values(title: str, example: RubricExample, needs: Sequence[str]) -> Mapping[str, str]:
    row = Row("example", **{field: getattr(example, field) for field in {*needs, "user_input"}})
    reply = {"reasoning": example.reasoning.strip(), "score": example.score}
    return {
        "title": title,
        "texts": blocks(texts_of(row, needs), "EXAMPLE"),
        "json": json.dumps(reply, ensure_ascii=False),
    }


def _has_text(row: Row, field: str) -> bool:
    value = getattr(row, field)
    if field == "response":
        return value is not None  # an empty answer is an answer
    if isinstance(value, str):
        return bool(value.strip())
    return any(text.strip() for text in value)
