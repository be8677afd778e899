"""Measures by claims and by generated questions: groundedness, correctness, Q2."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Any, TypeAlias

from ..core import Row, Score
from ..flow import Flow, embed
from ._embedded import unit_rows
from ._judge_call import (
    JudgeCall,
    UnscoredError,
    ask_all,
    ask_value,
    object_schema,
    prompt_file,
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

Sampling: TypeAlias = Callable[[Row, Measure, MeasureSetup, int], Flow[Score]]
"""One independent judgment of a row, by the number of the sample."""

_CLAIMS = schema_text({"claims": {"type": ["array", "null"], "items": {"type": "string"}}})


@dataclass(frozen=True, slots=True)
class ClaimCheck:
    """One claim or piece of information, and whether the passages support it."""

    text: str
    reasoning: str
    held: bool

    @property
    def line(self) -> str:
        """The claim with its reasoning, ``+`` before supported ones."""
        return f"{'+' if self.held else '-'} {self.text} ({self.reasoning})"


def claims(row: Row, measure: Measure, setup: MeasureSetup, sample: int) -> Flow[Score]:
    """Supported claims over all claims of the response; two calls.

    Claims and verdicts are in ``detail``, one per line, with ``+`` before supported ones. If the
    passages are judged one by one, a claim supported by one of them is supported.
    """
    verdicts = yield from _check_claims(row, setup, sample)
    if not verdicts:
        of_reference = measure.name == "Completeness" or measure.parameter == "reference"
        source = "reference" if of_reference else "response"
        raise UnscoredError("not_applicable", f"the {source} makes no claims")
    return _share_score(str(measure), verdicts)


def _check_claims(row: Row, setup: MeasureSetup, sample: int) -> Flow[Sequence[ClaimCheck]]:
    """Every claim of the response and whether the passages support it.

    Without claims nothing is checked.
    """
    listing: JudgeCall[tuple[str, ...]] = JudgeCall(
        file=prompt_file("claims"),
        texts=texts_of(row, ("user_input", "response")),
        read=_read_claims,
        schema=_CLAIMS,
        stand_in=("forecast",),
        sample=sample,
        sources=sources_of(row),
    )
    listed = yield from ask_value(listing, setup, "listing the claims: ")
    if not listed:
        return ()

    def read(text: str, finish: str) -> tuple[ClaimCheck, ...]:
        wanted = f"a list of {len(listed)} entries, one for each claim"
        entries = _read_list(text, finish, "verdicts", wanted, len(listed))
        for number, entry in enumerate(entries, 1):
            require_keys(entry, ("claim", "reasoning", "supported"))
            if type(entry["claim"]) is not int or entry["claim"] != number:
                raise ValueError(f"entry {number} must be about claim {number}")
        checked = zip(listed, entries, strict=True)
        return tuple(_check_entry(claim, entry, "supported") for claim, entry in checked)

    call = JudgeCall(
        file=prompt_file("verdicts"),
        texts=(
            *texts_of(row, ("user_input", "retrieved_contexts")),
            *((f"claim {number}", claim) for number, claim in enumerate(listed, 1)),
        ),
        read=read,
        schema=_VERDICTS,
        stand_in=tuple(ClaimCheck(claim, "forecast", False) for claim in listed),
        values={"count": len(listed)},
        sample=sample,
        sources=sources_of(row),
    )
    return (yield from ask_value(call, setup, "checking the claims: "))


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
        file=prompt_file("needed"),
        texts=texts_of(row, ("user_input", "retrieved_contexts")),
        read=_read_needed,
        schema=_NEEDED,
        stand_in=(ClaimCheck("forecast", "forecast", False),),
        sample=sample,
        sources=sources_of(row),
    )
    return _share_score(str(measure), (yield from ask_value(call, setup)))


def completeness(row: Row, measure: Measure, setup: MeasureSetup, sample: int) -> Flow[Score]:
    """The share of the reference's claims that the response supports; two calls."""
    swapped = replace(row, response=row.reference, retrieved_contexts=(row.response_text,))
    return (yield from claims(swapped, measure, setup, sample))


def _share_score(name: str, pieces: Sequence[ClaimCheck]) -> Score:
    detail = "\n".join(piece.line for piece in pieces)
    return Score(name, "scored", sum(c.held for c in pieces) / len(pieces), detail=detail)


def _read_list(
    text: str, finish: str, name: str, wanted: str, count: int | None = None
) -> list[Any]:
    """The list of a reply, of ``count`` entries; raises ValueError that says what is wanted."""
    entries = require_answer(read_object(text, (name,), finish)[name])
    if not isinstance(entries, list) or count not in (None, len(entries)):
        raise ValueError(f'"{name}" must be {wanted}')
    return entries


def _read_claims(text: str, finish: str) -> tuple[str, ...]:
    entries = _read_list(text, finish, "claims", "a list of texts")
    texts = tuple(" ".join(text_of(claim, "a claim").split()) for claim in entries)
    if len(set(texts)) < len(texts):
        raise ValueError("a claim occurs twice")
    return texts


def _read_needed(text: str, finish: str) -> tuple[ClaimCheck, ...]:
    entries = _read_list(text, finish, "needed", "a list of at least one entry")
    if not entries:
        raise ValueError('"needed" must be a list of at least one entry')
    for entry in entries:
        require_keys(entry, ("piece", "reasoning", "held"))
    return tuple(_check_entry(text_of(e["piece"], "a piece"), e, "held") for e in entries)


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


def _cosines(model: str, texts: Sequence[str]) -> Flow[list[float]]:
    vectors = unit_rows((yield from embed(model, texts, "query")))
    cosines: list[float] = (vectors[1:] @ vectors[0]).clip(-1, 1).tolist()
    return cosines


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

    def read(text: str, finish: str) -> tuple[str, ...]:
        entries = _read_list(text, finish, "questions", f"a list of {_ASKED} texts", _ASKED)
        questions_read = tuple(text_of(question, "a question") for question in entries)
        if len(set(questions_read)) < _ASKED:
            raise ValueError("a question occurs twice")
        return questions_read

    call = JudgeCall(
        file=prompt_file("questions"),
        texts=texts_of(row, ("retrieved_contexts", "response")),
        read=read,
        schema=_QUESTIONS,
        stand_in=tuple(f"forecast {n}" for n in range(_ASKED)),
        values={"count": _ASKED},
        sample=sample,
        sources=sources_of(row),
    )
    questions = yield from ask_value(call, setup)
    cosines = yield from _cosines(setup.embedder, (row.user_input, *questions))
    detail = "\n".join(f"{c:.3f} {q}" for c, q in zip(cosines, questions, strict=True))
    return Score(str(measure), "scored", fmean(cosines), detail=detail)


def q2(row: Row, measure: Measure, setup: MeasureSetup, sample: int) -> Flow[Score]:
    """Mean agreement of the passages with the informative spans of the response.

    The judge picks spans and writes a question on each (one call), answers it from the passages
    (one call each), and if that answer has other words, judges whether it entails the span (one
    call each): 1 if the words are equal or the span is entailed, 0 if it is contradicted, token F1
    of both otherwise or if the passages give no answer.
    """
    spans = yield from ask_value(_spans_call(row, sample), setup, "choosing spans: ")
    if not spans:
        raise UnscoredError("not_applicable", "the response has no informative span")
    checks = yield from ask_all(
        [_check_span(row, span, question, setup, sample) for span, question in spans]
    )
    detail = "\n".join(line for _, line in checks)
    return Score(str(measure), "scored", fmean(value for value, _ in checks), detail=detail)


def _check_span(
    row: Row, span: str, question: str, setup: MeasureSetup, sample: int
) -> Flow[tuple[float, str]]:
    """One span: the agreement of the passages, and the line that explains it."""
    call = _lookup_call(row, question, sample)
    answer = yield from ask_value(call, setup, f"answering {question!r}: ")
    language = language_of(row, setup)
    value, comparison = 0.0, _NO_ANSWER
    if answer:
        value, comparison = 1.0, "same words"
        span_words = answer_words(span, language)
        if not span_words or answer_words(answer, language) != span_words:
            entailment = _entailment_call(row, question, answer, span, sample)
            relation = yield from ask_value(entailment, setup, f"comparing on {question!r}: ")
            value, comparison = float(relation == "entailed"), relation
            if relation == "neither":
                common = token_f1(answer, span, "", language)
                value = 0.0 if isinstance(common, str) else common
                comparison = "neither: token F1"
    shown = f"response: {span}; passages: {answer or _NO_ANSWER} ({comparison})"
    return value, f"{value:g} {question} {shown}"


def _spans_call(row: Row, sample: int) -> JudgeCall[tuple[tuple[str, str], ...]]:
    def read(text: str, finish: str) -> tuple[tuple[str, str], ...]:
        wanted = f"a list of at most {_MOST_SPANS} entries"
        entries = _read_list(text, finish, "spans", wanted)
        if len(entries) > _MOST_SPANS:
            raise ValueError(f'"spans" must be {wanted}')
        pairs = []
        for entry in entries:
            require_keys(entry, ("span", "question"))
            span = text_of(entry["span"], "a span")
            if span not in row.response_text:
                raise ValueError(f"the span {span[:60]!r} is not in the answer")
            pairs.append((span, text_of(entry["question"], "a question")))
        if len(set(pairs)) < len(pairs):
            raise ValueError("a span occurs twice")
        return tuple(pairs)

    return JudgeCall(
        file=prompt_file("spans"),
        texts=texts_of(row, ("response",)),
        read=read,
        schema=_SPANS,
        stand_in=tuple((f"forecast {n}", f"forecast {n}?") for n in range(_MOST_SPANS)),
        values={"count": _MOST_SPANS},
        sample=sample,
        sources=sources_of(row),
    )


def _lookup_call(row: Row, question: str, sample: int) -> JudgeCall[str]:
    def read(text: str, finish: str) -> str:
        reply = read_object(text, ("found", "answer"), finish)
        if not isinstance(require_answer(reply["found"]), bool) or not isinstance(
            reply["answer"], str
        ):
            raise ValueError('"found" must be true or false and "answer" a text')
        if reply["found"] != bool(reply["answer"].strip()):
            raise ValueError('"answer" must be empty where "found" is false, and only there')
        return text_of(reply["answer"], "answer") if reply["found"] else ""

    return JudgeCall(
        file=prompt_file("lookup"),
        texts=(*texts_of(row, ("retrieved_contexts",)), ("question", question)),
        read=read,
        schema=_LOOKUP,
        stand_in="forecast",
        sample=sample,
        sources=sources_of(row),
    )


def _entailment_call(
    row: Row, question: str, answer: str, span: str, sample: int
) -> JudgeCall[str]:
    def read(text: str, finish: str) -> str:
        reply = read_object(text, ("reasoning", "relation"), finish)
        relation = require_answer(reply["relation"])
        text_of(reply["reasoning"], "reasoning")
        if relation not in _RELATIONS:
            raise ValueError(f'"relation" must be one of {", ".join(_RELATIONS)}')
        return str(relation)

    return JudgeCall(
        file=prompt_file("entailment"),
        texts=(("question", question), ("known answer", answer), ("claimed answer", span)),
        read=read,
        schema=_ENTAILMENT,
        stand_in="neither",
        sample=sample,
        sources=sources_of(row),
    )
