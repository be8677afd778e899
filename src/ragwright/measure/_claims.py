"""Measures by claims and by generated questions: groundedness, correctness, Q2."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Any

import numpy as np

from ..core import MeasureError, PromptTooLongError, Row, Score
from ..flow import Flow, embed, gather, unpack_settled
from ._judge_call import (
    JudgeCall,
    JudgeVerdict,
    ReplyForm,
    ask_judge,
    explain_over_window,
    object_schema,
    read_object,
    require_answer,
    require_keys,
    schema_text,
    sources_of,
    text_of,
    texts_of,
)
from ._measure import Measure
from ._rubric import MeasureSetup
from ._text import language_of, token_f1
from ._words import answer_words

_CLAIMS = schema_text({"claims": {"type": ["array", "null"], "items": {"type": "string"}}})


@dataclass(frozen=True, slots=True)
class ClaimCheck:
    """One claim or piece of information, and whether the passages support it."""

    text: str
    reasoning: str
    held: bool


def claims(row: Row, measure: Measure, setup: MeasureSetup, sample: int) -> Flow[Score]:
    """Supported claims over all claims of the response; two calls.

    Claims and verdicts are in ``detail``, one per line, with ``+`` before supported ones. If the
    passages are judged one by one, a claim supported by one of them is supported.
    """
    verdicts = yield from check_claims(row, setup, sample)
    if isinstance(verdicts, Score):
        return replace(verdicts, measure=str(measure))
    if not verdicts:
        of_reference = measure.name == "Completeness" or measure.parameter == "reference"
        source = "reference" if of_reference else "response"
        return Score(str(measure), "not_applicable", reason=f"the {source} makes no claims")
    return share_score(str(measure), verdicts)


def check_claims(row: Row, setup: MeasureSetup, sample: int) -> Flow[Sequence[ClaimCheck] | Score]:
    """Every claim of the response and whether the passages support it, or why that is not known.

    Without claims nothing is checked.
    """
    listing: JudgeCall[tuple[str, ...]] = JudgeCall(
        prompt="claims",
        texts=texts_of(row, ("user_input", "response")),
        read=_read_claims,
        schema=_CLAIMS,
        stand_in=("forecast",),
        values={},
        sample=sample,
        sources=sources_of(row),
    )
    listings = yield from fitting([listing], setup)
    if isinstance(listings, str):
        return Score("", "not_applicable", reason=listings)
    claims_listed = listings[0].value
    if claims_listed is None:
        return Score("", "judge_invalid", reason=f"listing the claims: {listings[0].why}")
    if not claims_listed:
        return ()
    return (yield from _judge_claims(claims_listed, row, setup, sample))


def judge_recall(row: Row, measure: Measure, setup: MeasureSetup, sample: int) -> Flow[Score]:
    """The share of the information needed for a question that is in the passages; one call.

    The judge names the pieces from the question; they are in ``detail``.
    With the parameter ``reference`` the pieces are the claims of the reference; two calls.
    """
    if measure.parameter == "reference":
        if row.reference is None or not row.reference.strip():
            return Score(
                str(measure), "not_applicable", reason="the row has no reference", no_gold=True
            )
        return (yield from claims(replace(row, response=row.reference), measure, setup, sample))
    call: JudgeCall[tuple[ClaimCheck, ...]] = JudgeCall(
        prompt="needed",
        texts=texts_of(row, ("user_input", "retrieved_contexts")),
        read=_read_needed,
        schema=_NEEDED,
        stand_in=(ClaimCheck("forecast", "forecast", False),),
        values={},
        sample=sample,
        sources=sources_of(row),
    )
    judged = yield from fitting([call], setup)
    if isinstance(judged, str):
        return Score(str(measure), "not_applicable", reason=judged)
    if judged[0].value is None:
        return Score(str(measure), "judge_invalid", reason=judged[0].why)
    return share_score(str(measure), judged[0].value)


def completeness(row: Row, measure: Measure, setup: MeasureSetup, sample: int) -> Flow[Score]:
    """The share of the reference's claims that the response supports; two calls."""
    swapped = replace(row, response=row.reference, retrieved_contexts=(row.response_text,))
    return (yield from claims(swapped, measure, setup, sample))


def fitting(
    calls: Sequence[JudgeCall[Any]], setup: MeasureSetup
) -> Flow[list[JudgeVerdict[Any]] | str]:
    """Return the replies to parallel calls, or why one of them does not fit the judge's window."""
    for call in calls:
        too_long = explain_over_window(call, setup)
        if too_long:
            return too_long
    try:
        outcomes = yield from gather([ask_judge(call, setup) for call in calls], settle=True)
        return [unpack_settled(outcome) for outcome in outcomes]
    except PromptTooLongError as error:
        return error.what


def share_score(name: str, pieces: Sequence[ClaimCheck]) -> Score:
    """The supported share, with every piece and its reasoning as detail."""
    detail = "\n".join(f"{'+' if c.held else '-'} {c.text} ({c.reasoning})" for c in pieces)
    return Score(name, "scored", sum(c.held for c in pieces) / len(pieces), detail=detail)


def _judge_claims(
    claims_listed: Sequence[str], row: Row, setup: MeasureSetup, sample: int
) -> Flow[Sequence[ClaimCheck] | Score]:
    call: JudgeCall[tuple[ClaimCheck, ...]] = JudgeCall(
        prompt="verdicts",
        texts=(
            *texts_of(row, ("user_input", "retrieved_contexts")),
            *((f"claim {number}", claim) for number, claim in enumerate(claims_listed, 1)),
        ),
        read=lambda text, form, finish: _read_verdicts(text, finish, claims_listed),
        schema=_VERDICTS,
        stand_in=tuple(ClaimCheck(claim, "forecast", False) for claim in claims_listed),
        values={"count": len(claims_listed)},
        sample=sample,
        sources=sources_of(row),
    )
    judged: list[JudgeVerdict[tuple[ClaimCheck, ...]]] | str = yield from fitting([call], setup)
    if isinstance(judged, str):
        return Score("", "not_applicable", reason=judged)
    if judged[0].value is None:
        return Score("", "judge_invalid", reason=f"checking the claims: {judged[0].why}")
    return judged[0].value


def _read_claims(text: str, form: ReplyForm, finish: str) -> tuple[str, ...]:
    entries = require_answer(read_object(text, ("claims",), finish)["claims"])
    if not isinstance(entries, list):
        raise ValueError('"claims" must be a list of texts')
    texts = tuple(" ".join(text_of(claim, "a claim").split()) for claim in entries)
    if len(set(texts)) < len(texts):
        raise ValueError("a claim occurs twice")
    return texts


def _read_verdicts(text: str, finish: str, claims_listed: Sequence[str]) -> tuple[ClaimCheck, ...]:
    entries = require_answer(read_object(text, ("verdicts",), finish)["verdicts"])
    if not isinstance(entries, list) or len(entries) != len(claims_listed):
        raise ValueError(
            f'"verdicts" must be a list of {len(claims_listed)} entries, one for each claim'
        )
    verdicts = []
    for number, (claim, entry) in enumerate(zip(claims_listed, entries, strict=True), 1):
        entry = require_keys(entry, ("claim", "reasoning", "supported"))
        if type(entry["claim"]) is not int or entry["claim"] != number:
            raise ValueError(f"entry {number} must be about claim {number}")
        verdicts.append(_check_entry(claim, entry, "supported"))
    return tuple(verdicts)


def _read_needed(text: str, form: ReplyForm, finish: str) -> tuple[ClaimCheck, ...]:
    entries = require_answer(read_object(text, ("needed",), finish)["needed"])
    if not isinstance(entries, list) or not entries:
        raise ValueError('"needed" must be a list of at least one entry')
    verdicts = []
    for entry in entries:
        entry = require_keys(entry, ("piece", "reasoning", "held"))
        verdicts.append(_check_entry(text_of(entry["piece"], "a piece"), entry, "held"))
    return tuple(verdicts)


def _check_entry(text: str, entry: dict[str, Any], key: str) -> ClaimCheck:
    if not isinstance(require_answer(entry[key]), bool):
        raise ValueError(f'"{key}" must be true or false')
    return ClaimCheck(text, text_of(entry["reasoning"], "a reasoning"), entry[key])


def _list_schema(name: str, kinds: Mapping[str, str | list[str]]) -> str:
    entry = object_schema({key: {"type": kind} for key, kind in kinds.items()})
    return schema_text({name: {"type": ["array", "null"], "items": entry}})


_NEEDED = _list_schema(
    "needed", {"piece": "string", "reasoning": "string", "held": ["boolean", "null"]}
)
_VERDICTS = _list_schema(
    "verdicts", {"claim": "integer", "reasoning": "string", "supported": ["boolean", "null"]}
)


CLAIMS, LIKENESS = 0.75, 0.25
"""Weights of the two parts, those of ragas."""


def answer_correctness(row: Row, measure: Measure, setup: MeasureSetup, sample: int) -> Flow[Score]:
    """0.75 x F1 of the claims + 0.25 x cosine similarity of response and reference.

    TP are claims of the response that the reference supports, FP those it does not, FN claims of
    the reference that the response does not support; F1 = TP / (TP + (FP + FN) / 2). Up to four
    calls to the judge, one to the embedder.

    Raises:
        MeasureError: The embedder gives a vector of length 0.
    """
    name, response, gold = str(measure), row.response or "", row.reference or ""
    outcomes: list[Any] = yield from gather(
        [
            check_claims(replace(row, retrieved_contexts=(gold,)), setup, sample),
            check_claims(
                replace(row, response=gold, retrieved_contexts=(response,)), setup, sample
            ),
        ],
        settle=True,
    )
    lists: list[Sequence[ClaimCheck]] = []
    for outcome in outcomes:
        claims_checked: Sequence[ClaimCheck] | Score = unpack_settled(outcome)
        if isinstance(claims_checked, Score):
            return replace(claims_checked, measure=name)
        lists.append(claims_checked)
    response_claims, reference_claims = lists
    if not response_claims and not reference_claims:
        return Score(
            name, "not_applicable", reason="neither the response nor the reference claims anything"
        )
    right, wrong, lacking = (
        _count_held(response_claims),
        len(response_claims) - _count_held(response_claims),
        len(reference_claims) - _count_held(reference_claims),
    )
    shared = right / (right + (wrong + lacking) / 2) if right else 0.0
    alike = yield from _text_cosine(setup.embedder, response, gold)
    lines = [f"{'+' if c.held else '-'} {c.text} ({c.reasoning})" for c in response_claims]
    lines += [f"missing: {c.text} ({c.reasoning})" for c in reference_claims if not c.held]
    value = CLAIMS * shared + LIKENESS * alike
    return Score(
        name,
        "scored",
        value,
        detail="\n".join(lines),
        parts={"F1 of claims": shared, "similarity": alike},
    )


def _count_held(claims: Sequence[ClaimCheck]) -> int:
    return sum(claim.held for claim in claims)


def _text_cosine(model: str, first: str, second: str) -> Flow[float]:
    vectors = np.asarray((yield from embed(model, (first, second), "query")), np.float64)
    lengths = np.linalg.norm(vectors, axis=1)
    if not (lengths > 0).all():
        raise MeasureError(
            "a text has a vector of length 0: its direction is undefined",
            hint="check the embedding model with `ragwright doctor`",
        )
    return float((vectors[0] @ vectors[1] / (lengths[0] * lengths[1])).clip(-1, 1))


_RELATIONS = ("entailed", "contradicted", "neither")
_NO_ANSWER = "no answer"
_QUESTIONS = schema_text({"questions": {"type": ["array", "null"], "items": {"type": "string"}}})
_SPAN = object_schema({"span": {"type": "string"}, "question": {"type": "string"}})
_SPANS = schema_text({"spans": {"type": ["array", "null"], "items": _SPAN}})
_MOST_SPANS = 5
_ASKED = 3
"""Questions generated for QuestionSimilarity."""

_LOOKUP = schema_text({"found": {"type": ["boolean", "null"]}, "answer": {"type": "string"}})
_ENTAILMENT = schema_text(
    {
        "reasoning": {"type": "string"},
        "relation": {"type": ["string", "null"], "enum": [*_RELATIONS, None]},
    }
)


def question_similarity(
    row: Row, measure: Measure, setup: MeasureSetup, sample: int
) -> Flow[Score]:
    """The mean cosine of the question to questions written from the response and its passages.

    One call of the judge, which does not see the question, and one of the embedder.

    Raises:
        MeasureError: The embedder gives a vector of length 0.
    """
    name, count = str(measure), _ASKED

    def read(text: str, form: ReplyForm, finish: str) -> tuple[str, ...]:
        entries = require_answer(read_object(text, ("questions",), finish)["questions"])
        if not isinstance(entries, list) or len(entries) != count:
            raise ValueError(f'"questions" must be a list of {count} texts')
        questions_read = tuple(text_of(question, "a question") for question in entries)
        if len(set(questions_read)) < count:
            raise ValueError("a question occurs twice")
        return questions_read

    judged = yield from fitting(
        [
            JudgeCall(
                prompt="questions",
                texts=texts_of(row, ("retrieved_contexts", "response")),
                read=read,
                schema=_QUESTIONS,
                stand_in=tuple(f"forecast {n}" for n in range(count)),
                values={"count": count},
                sample=sample,
                sources=sources_of(row),
            )
        ],
        setup,
    )
    if isinstance(judged, str):
        return Score(name, "not_applicable", reason=judged)
    questions = judged[0].value
    if questions is None:
        return Score(name, "judge_invalid", reason=judged[0].why)
    vectors = np.asarray(
        (yield from embed(setup.embedder, (row.user_input, *questions), "query")), np.float64
    )
    lengths = np.linalg.norm(vectors, axis=1)
    if not (lengths > 0).all():
        raise MeasureError(
            "a question has a vector of length 0: its direction is undefined",
            hint="check the embedding model with `ragwright doctor`",
        )
    cosines = ((vectors[1:] @ vectors[0]) / (lengths[1:] * lengths[0])).clip(-1, 1).tolist()
    detail = "\n".join(f"{c:.3f} {q}" for c, q in zip(cosines, questions, strict=True))
    return Score(name, "scored", fmean(cosines), detail=detail)


@dataclass(frozen=True, slots=True)
class _SpanCheck:
    """A span of the response, its question, and the passages' answer."""

    span: str
    question: str
    answer: str
    value: float
    comparison: str


def q2(row: Row, measure: Measure, setup: MeasureSetup, sample: int) -> Flow[Score]:
    """Mean agreement of the passages with the informative spans of the response.

    The judge picks spans and writes a question on each (one call), answers it from the passages
    (one call each), and if that answer has other words, judges whether it entails the span (one
    call each): 1 if the words are equal or the span is entailed, 0 if it is contradicted, token F1
    of both otherwise or if the passages give no answer.
    """
    name = str(measure)
    listings = yield from fitting([_spans_call(row, setup, sample)], setup)
    if isinstance(listings, str):
        return Score(name, "not_applicable", reason=listings)
    spans = listings[0].value
    if spans is None:
        return Score(name, "judge_invalid", reason=f"choosing spans: {listings[0].why}")
    if not spans:
        return Score(name, "not_applicable", reason="the response has no informative span")
    outcomes = yield from gather(
        [_check_span(row, span, question, setup, sample) for span, question in spans], settle=True
    )
    results = [unpack_settled(outcome) for outcome in outcomes]
    for result in results:
        if isinstance(result, Score):
            return Score(name, result.state, reason=result.reason)
    checks = [result for result in results if isinstance(result, _SpanCheck)]
    detail = "\n".join(
        f"{c.value:g} {c.question} response: {c.span}; passages: {c.answer or _NO_ANSWER} "
        f"({c.comparison})"
        for c in checks
    )
    return Score(name, "scored", fmean(c.value for c in checks), detail=detail)


def _check_span(
    row: Row, span: str, question: str, setup: MeasureSetup, sample: int
) -> Flow[_SpanCheck | Score]:
    """One span: the agreement of the passages, or why it is unknown."""
    judged = yield from fitting([_lookup_call(row, question, sample)], setup)
    if isinstance(judged, str):
        return Score("", "not_applicable", reason=judged)
    answer = judged[0].value
    if answer is None:
        return Score("", "judge_invalid", reason=f"answering {question!r}: {judged[0].why}")
    language = language_of(row, setup)
    if not answer:
        return _SpanCheck(span, question, "", 0.0, _NO_ANSWER)
    span_words = answer_words(span, language)
    if span_words and answer_words(answer, language) == span_words:
        return _SpanCheck(span, question, answer, 1.0, "same words")
    comparisons = yield from fitting([_entailment_call(row, question, answer, span, sample)], setup)
    if isinstance(comparisons, str):
        return Score("", "not_applicable", reason=comparisons)
    relation = comparisons[0].value
    if relation is None:
        return Score("", "judge_invalid", reason=f"comparing on {question!r}: {comparisons[0].why}")
    if relation != "neither":
        return _SpanCheck(span, question, answer, float(relation == "entailed"), relation)
    common = token_f1(answer, span, "", language)
    return _SpanCheck(
        span, question, answer, 0.0 if isinstance(common, str) else common, "neither: token F1"
    )


def _spans_call(
    row: Row, setup: MeasureSetup, sample: int
) -> JudgeCall[tuple[tuple[str, str], ...]]:
    count = _MOST_SPANS

    def read(text: str, form: ReplyForm, finish: str) -> tuple[tuple[str, str], ...]:
        entries = require_answer(read_object(text, ("spans",), finish)["spans"])
        if not isinstance(entries, list) or len(entries) > count:
            raise ValueError(f'"spans" must be a list of at most {count} entries')
        pairs = []
        for entry in entries:
            entry = require_keys(entry, ("span", "question"))
            span = text_of(entry["span"], "a span")
            if span not in row.response_text:
                raise ValueError(f"the span {span[:60]!r} is not in the answer")
            pairs.append((span, text_of(entry["question"], "a question")))
        if len(set(pairs)) < len(pairs):
            raise ValueError("a span occurs twice")
        return tuple(pairs)

    return JudgeCall(
        prompt="spans",
        texts=texts_of(row, ("response",)),
        read=read,
        schema=_SPANS,
        stand_in=tuple((f"forecast {n}", f"forecast {n}?") for n in range(count)),
        values={"count": count},
        sample=sample,
        sources=sources_of(row),
    )


def _lookup_call(row: Row, question: str, sample: int) -> JudgeCall[str]:
    def read(text: str, form: ReplyForm, finish: str) -> str:
        reply = read_object(text, ("found", "answer"), finish)
        if not isinstance(require_answer(reply["found"]), bool) or not isinstance(
            reply["answer"], str
        ):
            raise ValueError('"found" must be true or false and "answer" a text')
        if reply["found"] != bool(reply["answer"].strip()):
            raise ValueError('"answer" must be empty where "found" is false, and only there')
        return text_of(reply["answer"], "answer") if reply["found"] else ""

    return JudgeCall(
        prompt="lookup",
        texts=(*texts_of(row, ("retrieved_contexts",)), ("question", question)),
        read=read,
        schema=_LOOKUP,
        stand_in="forecast",
        values={},
        sample=sample,
        sources=sources_of(row),
    )


def _entailment_call(
    row: Row, question: str, answer: str, span: str, sample: int
) -> JudgeCall[str]:
    def read(text: str, form: ReplyForm, finish: str) -> str:
        reply = read_object(text, ("reasoning", "relation"), finish)
        relation = require_answer(reply["relation"])
        text_of(reply["reasoning"], "reasoning")
        if relation not in _RELATIONS:
            raise ValueError(f'"relation" must be one of {", ".join(_RELATIONS)}')
        return str(relation)

    return JudgeCall(
        prompt="entailment",
        texts=(("question", question), ("known answer", answer), ("claimed answer", span)),
        read=read,
        schema=_ENTAILMENT,
        stand_in="neither",
        values={},
        sample=sample,
        sources=sources_of(row),
    )
