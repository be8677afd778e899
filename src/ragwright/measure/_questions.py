"""Measures with generated questions: question similarity and Q2."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import fmean

import numpy as np

from ..core import MeasureError, Row, Score
from ..flow import Flow, embed, gather, unpack_settled
from ._claims import fitting
from ._judge_call import JudgeCall, object_schema, schema_text, sources_of, texts_of
from ._measure import Measure
from ._reply import ReplyForm, read_object, require_answer, require_keys, text_of
from ._setup import MeasureSetup
from ._text import language_of, token_f1
from ._words import answer_words

_RELATIONS = ("entailed", "contradicted", "neither")
_NO_ANSWER = "no answer"
_QUESTIONS = schema_text({"questions": {"type": ["array", "null"], "items": {"type": "string"}}})
_SPAN = object_schema({"span": {"type": "string"}, "question": {"type": "string"}})
_SPANS = schema_text({"spans": {"type": ["array", "null"], "items": _SPAN}})
_MOST_SPANS = 5
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
    name, count = str(measure), setup.questions

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
    value = 0.0 if isinstance(common, str) else common
    return _SpanCheck(span, question, answer, value, "neither: token F1")


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
